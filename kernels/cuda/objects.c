/*
 * The objects of the cuda back end but states (states.c): the structures of kernels/objects.h with
 * pointers to the device's memory. Memory is zero at first. Copies run on the back end's stream,
 * and the calls wait for them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

static lx_status no_memory(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s", what);
}

/* Zeroed memory on the host for an object, if the device answers. */
static lx_status object_new(lx_cuda *c, size_t n_bytes, const char *what, void **out, lx_error *err)
{
    lx_status st = lx_cuda_use(c, err);
    if (st != LX_OK)
        return st;
    *out = calloc(1, n_bytes);
    return *out != NULL ? LX_OK : no_memory(err, what);
}

/* --- arrays --- */

/* n floats, in memory for at least `room`. */
static lx_status array_new(lx_cuda *c, int64_t n, int64_t room, lx_array **out, lx_error *err)
{
    lx_cuda_array *a = NULL;
    lx_status st = object_new(c, sizeof *a, "an array", (void **)&a, err);
    if (st != LX_OK)
        return st;
    a->base.n = n;
    a->room = room;
    st = lx_cuda_device_new(c, lx_cuda_floats(n > room ? n : room), "an array",
                            (void **)&a->base.data, err);
    if (st != LX_OK) {
        free(a);
        return st;
    }
    *out = &a->base;
    return LX_OK;
}

lx_status lx_cuda_array_new(lx_backend *be, int64_t n_floats, lx_array **out, lx_error *err)
{
    lx_status st = lx_floats_check(n_floats, "an array", err);
    return st == LX_OK ? array_new((lx_cuda *)be, n_floats, 0, out, err) : st;
}

/* With memory for the rows that launches of a captured step cover. */
lx_status lx_cuda_rows_new(lx_backend *be, int64_t rows, int64_t width, lx_array **out,
                           lx_error *err)
{
    lx_status st = lx_rows_check(rows, width, err);
    if (st != LX_OK)
        return st;
    int64_t covered = rows > LX_CUDA_MOST_CAPTURED ? rows : lx_cuda_bucket((int32_t)rows);
    return array_new((lx_cuda *)be, rows * width, covered * width, out, err);
}

void lx_cuda_array_free(lx_backend *be, lx_array *a)
{
    if (a == NULL)
        return;
    lx_cuda_freed_add((lx_cuda *)be, a);
    lx_cuda_device_free((lx_cuda *)be, a->data);
    free(a);
}

/* Copies n elements of the array from `offset` on to the host's dst, or from src if dst is NULL. */
static lx_status move(lx_cuda *c, const lx_array *a, int64_t offset, int64_t n, float *dst,
                      const float *src)
{
    if (!lx_array_has(a, offset, n))
        return LX_ERR_INVALID;
    lx_status st = lx_cuda_use(c, NULL);
    if (st != LX_OK || n == 0)
        return st;
    float *at = a->data + offset;
    return dst != NULL ? lx_cuda_copy(c, dst, at, lx_cuda_floats(n), cudaMemcpyDeviceToHost, NULL)
                       : lx_cuda_copy(c, at, src, lx_cuda_floats(n), cudaMemcpyHostToDevice, NULL);
}

lx_status lx_cuda_array_upload(lx_backend *be, lx_array *a, int64_t offset, const float *src,
                               int64_t n)
{
    return move((lx_cuda *)be, a, offset, n, NULL, src);
}

lx_status lx_cuda_array_download(lx_backend *be, const lx_array *a, int64_t offset, float *dst,
                                 int64_t n)
{
    return move((lx_cuda *)be, a, offset, n, dst, NULL);
}

/* --- matrices --- */

static int32_t padded(int64_t n)
{
    return (int32_t)((n + LX_CUDA_PAD - 1) / LX_CUDA_PAD * LX_CUDA_PAD);
}

/* The weights in the order of the product, on the host. */
static void *pack(const lx_host_tensor *t, const lx_matrix *w, bool exact, size_t *n_bytes)
{
    int64_t cols = exact ? w->shape.cols : w->padded_cols,
            rows = exact ? w->shape.rows : w->padded_rows;
    size_t size = exact ? sizeof(float) : sizeof(uint16_t);
    *n_bytes = (size_t)rows * (size_t)cols * size;
    unsigned char *packed = calloc(1, *n_bytes);
    for (int64_t row = 0; packed != NULL && row < w->shape.rows; row++) {
        unsigned char *to = packed + (size_t)(row * cols) * size;
        if (!exact) {
            memcpy(to, (const unsigned char *)t->data + (size_t)(row * t->cols) * size,
                   (size_t)t->cols * size);
            continue;
        }
        for (int64_t k = 0; k < t->cols; k++) {
            float f = lx_host_tensor_at(t, row * t->cols + k);
            memcpy(to + (size_t)k * size, &f, sizeof f);
        }
    }
    return packed;
}

static lx_status put_weights(lx_cuda *c, const lx_host_tensor *t, const lx_row_reader *rows,
                             lx_matrix *w, bool exact, lx_error *err)
{
    size_t n_bytes = 0;
    lx_host_tensor whole;
    void *memory = NULL, *p = NULL;
    lx_status st = lx_host_tensor_read(t, rows, &whole, &memory, err);
    void *packed = st == LX_OK ? pack(&whole, w, exact, &n_bytes) : NULL;
    free(memory);
    if (packed == NULL)
        return st == LX_OK ? no_memory(err, "a matrix") : st;
    st = lx_cuda_device_put(c, packed, n_bytes, "a matrix", &p, err);
    free(packed);
    w->w = exact ? p : NULL;
    w->w16 = exact ? NULL : p;
    return st;
}

static lx_status put_bias(lx_cuda *c, lx_matrix *w, const float *bias, lx_error *err)
{
    size_t n_bytes = lx_cuda_floats(w->padded_rows);
    lx_status st = lx_cuda_device_new(c, n_bytes, "a bias", (void **)&w->bias, err);
    if (st == LX_OK && bias != NULL)
        st = lx_cuda_copy(c, w->bias, bias, lx_cuda_floats(w->shape.rows), cudaMemcpyHostToDevice,
                          err);
    return st;
}

/* A product of one row: the library's first call may load code, which cannot be captured. */
static lx_status warm_up(lx_cuda *c, const lx_matrix *w, lx_error *err)
{
    void *p = NULL;
    size_t n_bytes = lx_cuda_floats((int64_t)w->padded_rows + w->padded_cols);
    lx_status st = lx_cuda_device_new(c, n_bytes, "a matrix", &p, err);
    if (st != LX_OK)
        return st;
    float *y = p;
    const uint16_t *x = (const void *)(y + w->padded_rows);
    st = lx_cuda_product_run(w->plan, w->w16, x, NULL, y, 1, c->stream, err);
    cudaError_t e = st == LX_OK ? cudaStreamSynchronize(c->stream) : cudaSuccess;
    (void)cudaFree(p);
    return st == LX_OK ? lx_cuda_check(c, e, "a matrix product", err) : st;
}

/* Excludes steps: while one is captured, the library may refuse to search for algorithms. */
static lx_status make_plan(lx_cuda *c, lx_matrix *w, lx_error *err)
{
    lx_turn_take(&c->turn);
    lx_status st =
        lx_cuda_product_new(c->blas, w->padded_rows, w->padded_cols, w->bias, &w->plan, err);
    if (st == LX_OK)
        st = warm_up(c, w, err);
    lx_turn_give(&c->turn);
    return st;
}

/* Only a matrix stored in bf16 rounds its inputs; other matrices are multiplied exactly. */
lx_status lx_cuda_matrix_new(lx_backend *be, const lx_host_tensor *t, const lx_row_reader *rows,
                             const float *bias, lx_matrix **out, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = lx_host_tensor_check(t, rows, "a matrix", err);
    if (st == LX_OK)
        st = lx_cuda_use(c, err);
    if (st != LX_OK)
        return st;
    bool exact = c->exact || t->dtype != LX_BF16;
    if (t->rows > INT32_MAX - LX_CUDA_PAD || t->cols > INT32_MAX - LX_CUDA_PAD)
        return lx_fail(err, LX_ERR_TOO_LARGE, NULL, "a matrix [%lld, %lld]", (long long)t->rows,
                       (long long)t->cols);
    lx_matrix *w = calloc(1, sizeof *w);
    if (w == NULL)
        return no_memory(err, "a matrix");
    w->shape = (lx_matrix_shape){t->rows, t->cols};
    w->padded_rows = padded(t->rows);
    w->padded_cols = padded(t->cols);
    st = put_bias(c, w, bias, err);
    if (st == LX_OK)
        st = put_weights(c, t, rows, w, exact, err);
    if (st == LX_OK && !exact && !c->own)
        st = make_plan(c, w, err);
    if (st != LX_OK) {
        lx_cuda_matrix_free(be, w);
        return st;
    }
    *out = w;
    return LX_OK;
}

void lx_cuda_matrix_free(lx_backend *be, lx_matrix *w)
{
    lx_cuda *c = (lx_cuda *)be;
    if (w == NULL)
        return;
    lx_cuda_freed_add(c, w);
    lx_cuda_device_free(c, w->bias);
    lx_cuda_device_free(c, w->w);
    lx_cuda_device_free(c, w->w16);
    lx_cuda_product_free(w->plan);
    free(w);
}

/* --- tables and masks --- */

lx_status lx_cuda_table_new(lx_backend *be, const lx_host_tensor *t, const lx_row_reader *rows,
                            lx_table **out, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_table *table = NULL;
    lx_host_tensor whole;
    void *memory = NULL;
    lx_status st = lx_host_tensor_check(t, rows, "an embedding table", err);
    if (st == LX_OK && lx_format_of(t->dtype)->block > 1)
        st = lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "an embedding table of %s is for the cpu",
                     lx_format_of(t->dtype)->name);
    if (st == LX_OK)
        st = object_new(c, sizeof *table, "an embedding table", (void **)&table, err);
    if (st != LX_OK)
        return st;
    size_t n_bytes = lx_format_bytes(t->dtype, t->rows * t->cols);
    *table = (lx_table){t->dtype, t->rows, t->cols, NULL, n_bytes, NULL};
    st = lx_host_tensor_read(t, rows, &whole, &memory, err);
    if (st == LX_OK)
        st = lx_cuda_device_put(c, whole.data, n_bytes, "an embedding table", &table->data, err);
    free(memory);
    if (st != LX_OK) {
        lx_cuda_table_free(be, table);
        return st;
    }
    *out = table;
    return LX_OK;
}

void lx_cuda_table_free(lx_backend *be, lx_table *t)
{
    if (t == NULL)
        return;
    lx_cuda_device_free((lx_cuda *)be, t->data);
    free(t);
}

static lx_status put_mask(lx_cuda *c, lx_mask *m, const uint8_t *banned, lx_error *err)
{
    float *bias = calloc((size_t)m->n_ids, sizeof *bias);
    if (bias == NULL)
        return no_memory(err, "a mask");
    for (int32_t i = 0; i < m->n_ids; i++)
        bias[i] = banned[i] != 0 ? -INFINITY : 0.0f;
    lx_status st =
        lx_cuda_device_put(c, bias, lx_cuda_floats(m->n_ids), "a mask", (void **)&m->bias, err);
    free(bias);
    return st;
}

lx_status lx_cuda_mask_new(lx_backend *be, const uint8_t *banned, int32_t n_ids, lx_mask **out,
                           lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    if (n_ids < 1)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a mask of %d ids", n_ids);
    lx_mask *m = NULL;
    lx_status st = object_new(c, sizeof *m, "a mask", (void **)&m, err);
    if (st != LX_OK)
        return st;
    m->n_ids = n_ids;
    st = put_mask(c, m, banned, err);
    if (st != LX_OK) {
        lx_cuda_mask_free(be, m);
        return st;
    }
    *out = m;
    return LX_OK;
}

void lx_cuda_mask_free(lx_backend *be, lx_mask *m)
{
    if (m == NULL)
        return;
    lx_cuda_device_free((lx_cuda *)be, m->bias);
    free(m);
}
