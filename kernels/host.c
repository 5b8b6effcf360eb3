/*
 * Arrays, embedding tables, masks and states in the process's own memory (see host.h).
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

/* An object is freed: no recorded operation is known any more (cpu/program.c). */
static void note_freed(lx_backend *be)
{
    atomic_fetch_add(&((lx_host_backend *)be)->n_freed, 1);
}

/* --- arrays --- */

lx_status lx_host_array_new(lx_backend *be, int64_t n_floats, lx_array **out, lx_error *err)
{
    lx_status st = lx_floats_check(n_floats, "an array", err);
    if (st != LX_OK)
        return st;
    lx_host_array *a = calloc(1, sizeof *a);
    if (a == NULL)
        return no_memory(err, "an array", sizeof *a);
    a->base.n = n_floats;
    a->use = calloc(1, sizeof *a->use);
    a->base.data = lx_host_reserve(float_bytes(n_floats));
    if (a->use == NULL || a->base.data == NULL) {
        lx_host_array_free(be, &a->base);
        return no_memory(err, "an array", (double)float_bytes(n_floats));
    }
    *out = &a->base;
    return LX_OK;
}

lx_status lx_host_rows_new(lx_backend *be, int64_t rows, int64_t width, lx_array **out,
                           lx_error *err)
{
    lx_status st = lx_rows_check(rows, width, err);
    return st == LX_OK ? lx_host_array_new(be, rows * width, out, err) : st;
}

void lx_host_array_free(lx_backend *be, lx_array *a)
{
    note_freed(be);
    if (a == NULL)
        return;
    lx_host_release(a->data, float_bytes(a->n));
    free(((lx_host_array *)a)->use);
    free(a);
}

lx_status lx_host_array_upload(lx_backend *be, lx_array *a, int64_t offset, const float *src,
                               int64_t n)
{
    (void)be;
    if (!lx_array_has(a, offset, n))
        return LX_ERR_INVALID;
    if (n > 0)
        memcpy(a->data + offset, src, float_bytes(n));
    return LX_OK;
}

lx_status lx_host_array_download(lx_backend *be, const lx_array *a, int64_t offset, float *dst,
                                 int64_t n)
{
    (void)be;
    if (!lx_array_has(a, offset, n))
        return LX_ERR_INVALID;
    if (n > 0)
        memcpy(dst, a->data + offset, float_bytes(n));
    return LX_OK;
}

/* --- tables --- */

lx_status lx_host_table_new(lx_backend *be, const lx_host_tensor *t, const lx_row_reader *rows,
                            lx_table **out, lx_error *err)
{
    lx_status st = lx_host_tensor_check(t, rows, "an embedding table", err);
    if (st != LX_OK)
        return st;
    size_t n_bytes = lx_format_bytes(t->dtype, t->rows * t->cols);
    lx_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return no_memory(err, "an embedding table", sizeof *table);
    *table = (lx_table){t->dtype, t->rows, t->cols, lx_host_reserve(n_bytes), n_bytes, NULL};
    if (table->data == NULL) {
        lx_host_table_free(be, table);
        return no_memory(err, "an embedding table", (double)n_bytes);
    }
    if (rows != NULL)
        st = rows->read(rows->context, 0, t->rows, table->data, err);
    else
        memcpy(table->data, t->data, n_bytes);
    if (st != LX_OK) {
        lx_host_table_free(be, table);
        return st;
    }
    *out = table;
    return LX_OK;
}

void lx_host_table_free(lx_backend *be, lx_table *t)
{
    note_freed(be);
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
    note_freed(be);
    if (m == NULL)
        return;
    lx_host_release(m->bias, float_bytes(m->n_ids));
    free(m);
}

/* --- states --- */

lx_status lx_host_state_map(lx_backend *be, lx_states *s, int32_t slot, int32_t first, int32_t n,
                            const int32_t *pages)
{
    (void)be;
    return lx_states_map(s, slot, first, n, pages);
}

float *lx_host_branch(const lx_states *s, const lx_batch *b, int32_t i, int64_t offset, int64_t n)
{
    float *to = s->data + b->branch[i] * s->stride + offset;
    memcpy(to, s->data + b->slot[i] * s->stride + offset, float_bytes(n));
    return to;
}

static size_t state_bytes(const lx_states *s)
{
    return float_bytes(s->stride) * (size_t)s->n_slots;
}

static size_t pool_bytes(const lx_states *s)
{
    return float_bytes(s->page_stride) * (size_t)s->n_pages;
}

lx_status lx_host_states_new(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                             lx_states **out, lx_error *err)
{
    lx_states *s = calloc(1, sizeof *s);
    if (s == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for states");
    lx_status st = lx_states_init(s, layout, n_slots, err);
    if (st == LX_OK) {
        s->data = lx_host_reserve(state_bytes(s));
        s->pool = lx_host_reserve(pool_bytes(s));
        s->drawn = calloc((size_t)n_slots * LX_DRAWN, sizeof *s->drawn);
        if (s->data == NULL || s->pool == NULL || s->drawn == NULL)
            st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for states (%.1f MiB)",
                         (double)(state_bytes(s) + pool_bytes(s)) / 1048576.0);
    }
    if (st != LX_OK) {
        lx_host_states_free(be, s);
        return st;
    }
    *out = s;
    return LX_OK;
}

void lx_host_states_free(lx_backend *be, lx_states *s)
{
    note_freed(be);
    if (s == NULL)
        return;
    lx_host_release(s->data, state_bytes(s));
    lx_host_release(s->pool, pool_bytes(s));
    free(s->pages);
    free(s->mapped);
    free(s->drawn);
    free(s);
}

lx_status lx_host_state_zero(lx_backend *be, lx_states *s, int32_t slot)
{
    (void)be;
    if (!lx_states_have(s, slot, 0))
        return LX_ERR_INVALID;
    memset(s->data + slot * s->stride, 0, float_bytes(s->floats));
    return LX_OK;
}

lx_status lx_host_state_copy(lx_backend *be, lx_states *s, int32_t to, int32_t from,
                             int32_t n_pages)
{
    (void)be;
    if (!lx_states_have(s, to, n_pages) || !lx_states_have(s, from, n_pages))
        return LX_ERR_INVALID;
    if (to == from)
        return LX_OK;
    memcpy(s->data + to * s->stride, s->data + from * s->stride, float_bytes(s->floats));
    for (int32_t i = 0; i < n_pages; i++) {
        float *page = lx_states_page(s, to, i);
        if (page != lx_states_page(s, from, i))
            memcpy(page, lx_states_page(s, from, i), float_bytes(s->page_floats));
    }
    return LX_OK;
}

lx_status lx_host_state_export(lx_backend *be, const lx_states *s, int32_t slot, float *dst,
                               int32_t n_pages)
{
    (void)be;
    if (!lx_states_have(s, slot, n_pages))
        return LX_ERR_INVALID;
    memcpy(dst, s->data + slot * s->stride, float_bytes(s->floats));
    dst += s->floats;
    for (int32_t i = 0; i < n_pages; i++, dst += s->page_floats)
        memcpy(dst, lx_states_page(s, slot, i), float_bytes(s->page_floats));
    return LX_OK;
}

lx_status lx_host_state_import(lx_backend *be, lx_states *s, int32_t slot, const float *src,
                               int32_t n_pages)
{
    (void)be;
    if (!lx_states_have(s, slot, n_pages))
        return LX_ERR_INVALID;
    memcpy(s->data + slot * s->stride, src, float_bytes(s->floats));
    src += s->floats;
    for (int32_t i = 0; i < n_pages; i++, src += s->page_floats)
        memcpy(lx_states_page(s, slot, i), src, float_bytes(s->page_floats));
    return LX_OK;
}

/* --- drawn tokens --- */

void lx_host_keep_drawn(const lx_batch *b, lx_states *s, const lx_sampling *rows,
                        const lx_sample *drawn)
{
    int32_t seq = 0;
    for (int32_t i = 0; s != NULL && i < b->n_outputs; i++) {
        int32_t slot = lx_batch_keeper(b, i, &seq);
        if (slot >= 0)
            s->drawn[lx_drawn_place(slot, rows[i].step)] = drawn[i].token;
    }
}

int64_t lx_host_id(const lx_states *s, const lx_table *t, int32_t slot, int32_t id)
{
    if (!lx_is_drawn_id(id))
        return id;
    int32_t token = s->drawn[lx_drawn_place_of(slot, id)];
    return token >= 0 && token < t->rows ? token : 0;
}

lx_status lx_host_sync(lx_backend *be, uint64_t step, lx_error *err)
{
    (void)be;
    (void)step;
    (void)err;
    return LX_OK;
}
