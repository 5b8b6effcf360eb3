/*
 * Packs the weights of a `linear` once, at load, into the order in which the inner loops read them
 * (isa.h). bf16 stays bf16 in memory, because a single token's time is the time to read all
 * weights; f16 becomes f32, which keeps its value.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static void pack_f32(const lx_host_tensor *t, lx_matrix *w)
{
    float *to = w->data;
    for (int64_t o = 0; o < t->rows; o++) {
        float *panel = to + o / LX_CPU_GROUP * w->group_words + o % LX_CPU_GROUP;
        for (int64_t k = 0; k < t->cols; k++)
            panel[k * LX_CPU_GROUP] = lx_host_tensor_at(t, o * t->cols + k);
    }
}

static void pack_bf16(const lx_host_tensor *t, lx_matrix *w)
{
    uint32_t *to = w->data;
    const unsigned char *from = t->data;
    for (int64_t o = 0; o < t->rows; o++) {
        uint32_t *panel = to + o / LX_CPU_GROUP * w->group_words + o % LX_CPU_GROUP;
        for (int64_t k = 0; k < t->cols; k++, from += 2) {
            uint16_t half;
            memcpy(&half, from, sizeof half);
            panel[k / 2 * LX_CPU_GROUP] |= (uint32_t)half << (k % 2 * 16);
        }
    }
}

lx_status lx_cpu_matrix_new(lx_backend *be, const lx_host_tensor *t, const float *bias,
                            lx_matrix **out, lx_error *err)
{
    lx_status st = lx_host_tensor_check(t, "a matrix", err);
    if (st != LX_OK)
        return st;
    lx_matrix *w = calloc(1, sizeof *w);
    if (w == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a matrix");
    w->rows = t->rows;
    w->cols = t->cols;
    w->groups = (t->rows + LX_CPU_GROUP - 1) / LX_CPU_GROUP;
    w->bf16 = t->dtype == LX_BF16;
    w->group_words = (w->bf16 ? (t->cols + 1) / 2 : t->cols) * LX_CPU_GROUP;
    w->n_bytes = (size_t)(w->groups * w->group_words) * 4;
    w->data = lx_host_reserve(w->n_bytes);
    w->bias = calloc((size_t)(w->groups * LX_CPU_GROUP), sizeof(float));
    if (w->data == NULL || w->bias == NULL) {
        lx_cpu_matrix_free(be, w);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a matrix [%lld, %lld]",
                       (long long)t->rows, (long long)t->cols);
    }
    if (w->bf16)
        pack_bf16(t, w);
    else
        pack_f32(t, w);
    if (bias != NULL)
        memcpy(w->bias, bias, (size_t)t->rows * sizeof(float));
    *out = w;
    return LX_OK;
}

void lx_cpu_matrix_free(lx_backend *be, lx_matrix *w)
{
    (void)be;
    if (w == NULL)
        return;
    lx_host_release(w->data, w->n_bytes);
    free(w->bias);
    free(w);
}
