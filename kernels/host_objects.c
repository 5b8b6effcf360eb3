/*
 * Arrays, embedding tables, masks and slot states in the process's own memory (see host.h).
 *
 * Small blocks come from aligned_alloc so that a sanitizer sees their ends; big ones from mmap,
 * which hands out zero pages only when they are touched.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/host.h"

#define MAP_FROM_BYTES ((size_t)1 << 20)
#define LINE_BYTES ((size_t)64)

void *lx_host_reserve(size_t n_bytes)
{
    if (n_bytes >= MAP_FROM_BYTES) {
        void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return NULL;
#ifdef MADV_HUGEPAGE
        (void)madvise(p, n_bytes, MADV_HUGEPAGE); /* only a hint */
#endif
        return p;
    }
    size_t rounded = (n_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    void *p = aligned_alloc(LINE_BYTES, rounded == 0 ? LINE_BYTES : rounded);
    if (p != NULL)
        memset(p, 0, rounded);
    return p;
}

void lx_host_release(void *p, size_t n_bytes)
{
    if (p == NULL)
        return;
    if (n_bytes >= MAP_FROM_BYTES)
        (void)munmap(p, n_bytes);
    else
        free(p);
}

static size_t float_bytes(int64_t n)
{
    return (size_t)n * sizeof(float);
}

static lx_status no_memory(lx_error *err, const char *what, double bytes)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s (%.1f MiB)", what,
                   bytes / 1048576.0);
}

/* --- arrays --- */

lx_status lx_host_array_new(lx_backend *be, int64_t n_floats, lx_array **out, lx_error *err)
{
    (void)be;
    if (n_floats < 1 || n_floats > LX_HOST_MAX_FLOATS)
        return lx_fail(err, LX_ERR_INVALID, NULL, "an array of %lld floats", (long long)n_floats);
    lx_array *a = calloc(1, sizeof *a);
    if (a == NULL)
        return no_memory(err, "an array", sizeof *a);
    a->n = n_floats;
    a->use = calloc(1, sizeof *a->use);
    a->data = lx_host_reserve(float_bytes(n_floats));
    if (a->use == NULL || a->data == NULL) {
        lx_host_array_free(be, a);
        return no_memory(err, "an array", (double)float_bytes(n_floats));
    }
    *out = a;
    return LX_OK;
}

void lx_host_array_free(lx_backend *be, lx_array *a)
{
    (void)be;
    if (a == NULL)
        return;
    lx_host_release(a->data, float_bytes(a->n));
    free(a->use);
    free(a);
}

static bool inside(const lx_array *a, int64_t offset, int64_t n)
{
    return offset >= 0 && n >= 0 && offset <= a->n && n <= a->n - offset;
}

lx_status lx_host_array_upload(lx_backend *be, lx_array *a, int64_t offset, const float *src,
                               int64_t n)
{
    (void)be;
    if (!inside(a, offset, n))
        return LX_ERR_INVALID;
    if (n > 0)
        memcpy(a->data + offset, src, float_bytes(n));
    return LX_OK;
}

lx_status lx_host_array_download(lx_backend *be, const lx_array *a, int64_t offset, float *dst,
                                 int64_t n)
{
    (void)be;
    if (!inside(a, offset, n))
        return LX_ERR_INVALID;
    if (n > 0)
        memcpy(dst, a->data + offset, float_bytes(n));
    return LX_OK;
}

/* --- tables --- */

int lx_dtype_bytes(lx_dtype dtype)
{
    return dtype == LX_F32 ? 4 : 2;
}

lx_status lx_host_tensor_check(const lx_host_tensor *t, const char *what, lx_error *err)
{
    if (t->dtype != LX_F32 && t->dtype != LX_BF16 && t->dtype != LX_F16)
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "%s has unknown dtype %d", what,
                       (int)t->dtype);
    if (t->data == NULL || t->rows < 1 || t->cols < 1 || t->rows > LX_HOST_MAX_FLOATS / t->cols ||
        t->rows > INT32_MAX || t->cols > INT32_MAX)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s has shape [%lld, %lld]", what,
                       (long long)t->rows, (long long)t->cols);
    return LX_OK;
}

lx_status lx_host_table_new(lx_backend *be, const lx_host_tensor *t, lx_table **out, lx_error *err)
{
    lx_status st = lx_host_tensor_check(t, "an embedding table", err);
    if (st != LX_OK)
        return st;
    size_t n_bytes = (size_t)t->rows * (size_t)t->cols * (size_t)lx_dtype_bytes(t->dtype);
    lx_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return no_memory(err, "an embedding table", sizeof *table);
    *table = (lx_table){t->dtype, t->rows, t->cols, lx_host_reserve(n_bytes), n_bytes};
    if (table->data == NULL) {
        lx_host_table_free(be, table);
        return no_memory(err, "an embedding table", (double)n_bytes);
    }
    memcpy(table->data, t->data, n_bytes);
    *out = table;
    return LX_OK;
}

void lx_host_table_free(lx_backend *be, lx_table *t)
{
    (void)be;
    if (t == NULL)
        return;
    lx_host_release(t->data, t->n_bytes);
    free(t);
}

float lx_host_table_at(const lx_table *t, int64_t row, int64_t col)
{
    lx_host_tensor view = {t->dtype, t->rows, t->cols, t->data};
    return lx_host_tensor_at(&view, row * t->cols + col);
}

/* --- masks --- */

lx_status lx_host_mask_new(lx_backend *be, const uint8_t *banned, int32_t n_ids, lx_mask **out,
                           lx_error *err)
{
    if (n_ids < 1)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a mask of %d ids", n_ids);
    lx_mask *m = calloc(1, sizeof *m);
    if (m == NULL)
        return no_memory(err, "a mask", sizeof *m);
    *m = (lx_mask){n_ids, lx_host_reserve(float_bytes(n_ids))};
    if (m->bias == NULL) {
        lx_host_mask_free(be, m);
        return no_memory(err, "a mask", (double)float_bytes(n_ids));
    }
    for (int32_t i = 0; i < n_ids; i++)
        m->bias[i] = banned[i] != 0 ? -INFINITY : 0.0f;
    *out = m;
    return LX_OK;
}

void lx_host_mask_free(lx_backend *be, lx_mask *m)
{
    (void)be;
    if (m == NULL)
        return;
    lx_host_release(m->bias, float_bytes(m->n_ids));
    free(m);
}

/* --- states --- */

static size_t state_bytes(const lx_states *s)
{
    return float_bytes(s->stride) * (size_t)s->n_slots;
}

lx_status lx_host_states_new(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                             lx_states **out, lx_error *err)
{
    if (layout->growing_floats != 0)
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                       "this back end has no attention kind whose state grows");
    if (n_slots < 1 || n_slots > LX_HOST_MAX_SLOTS || layout->fixed_floats < 1 ||
        layout->fixed_floats > LX_HOST_MAX_FLOATS / n_slots - 16)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%d slots of %lld floats", n_slots,
                       (long long)layout->fixed_floats);
    lx_states *s = calloc(1, sizeof *s);
    if (s == NULL)
        return no_memory(err, "states", sizeof *s);
    s->n_slots = n_slots;
    s->floats = layout->fixed_floats;
    s->stride = (layout->fixed_floats + 15) / 16 * 16;
    s->data = lx_host_reserve(state_bytes(s));
    s->drawn = calloc((size_t)n_slots * LX_DRAWN, sizeof *s->drawn);
    if (s->data == NULL || s->drawn == NULL) {
        double bytes = (double)state_bytes(s);
        lx_host_states_free(be, s);
        return no_memory(err, "states", bytes);
    }
    *out = s;
    return LX_OK;
}

void lx_host_states_free(lx_backend *be, lx_states *s)
{
    (void)be;
    if (s == NULL)
        return;
    lx_host_release(s->data, state_bytes(s));
    free(s->drawn);
    free(s);
}

static bool is_slot(const lx_states *s, int32_t slot)
{
    return slot >= 0 && slot < s->n_slots;
}

lx_status lx_host_state_zero(lx_backend *be, lx_states *s, int32_t slot)
{
    (void)be;
    if (!is_slot(s, slot))
        return LX_ERR_INVALID;
    memset(s->data + slot * s->stride, 0, float_bytes(s->floats));
    return LX_OK;
}

lx_status lx_host_state_copy(lx_backend *be, lx_states *s, int32_t to, int32_t from)
{
    (void)be;
    if (!is_slot(s, to) || !is_slot(s, from))
        return LX_ERR_INVALID;
    if (to != from)
        memcpy(s->data + to * s->stride, s->data + from * s->stride, float_bytes(s->floats));
    return LX_OK;
}

lx_status lx_host_state_export(lx_backend *be, const lx_states *s, int32_t slot, float *dst)
{
    (void)be;
    if (!is_slot(s, slot))
        return LX_ERR_INVALID;
    memcpy(dst, s->data + slot * s->stride, float_bytes(s->floats));
    return LX_OK;
}

lx_status lx_host_state_import(lx_backend *be, lx_states *s, int32_t slot, const float *src)
{
    (void)be;
    if (!is_slot(s, slot))
        return LX_ERR_INVALID;
    memcpy(s->data + slot * s->stride, src, float_bytes(s->floats));
    return LX_OK;
}

/* --- drawn tokens --- */

int32_t lx_host_keeper(const lx_batch *b, int32_t i, int32_t *seq)
{
    while (b->seq_start[*seq + 1] <= b->output_row[i])
        ++*seq;
    bool last = i + 1 == b->n_outputs || b->output_row[i + 1] >= b->seq_start[*seq + 1];
    return last ? b->slot[*seq] : -1;
}

void lx_host_keep_drawn(const lx_batch *b, lx_states *s, const lx_sampling *rows,
                        const lx_sample *drawn)
{
    int32_t seq = 0;
    for (int32_t i = 0; s != NULL && i < b->n_outputs; i++) {
        int32_t slot = lx_host_keeper(b, i, &seq);
        if (slot >= 0)
            s->drawn[lx_drawn_place(slot, rows[i].step)] = drawn[i].token;
    }
}
