/*
 * The objects of the cuda back end: the structures of host.h with pointers to the device's memory,
 * so that the checks of host_checks.c serve here too. Memory is zero at first. Copies run on the
 * back end's stream and are waited for.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

static lx_status device_new(lx_cuda *c, size_t n_bytes, const char *what, void **out, lx_error *err)
{
    void *p = NULL;
    cudaError_t e = cudaMalloc(&p, n_bytes);
    if (e == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); /* the next launch shall not report it */
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "cuda: no memory for %s (%.1f MiB)", what,
                       (double)n_bytes / 1048576.0);
    }
    if (e == cudaSuccess)
        e = cudaMemsetAsync(p, 0, n_bytes, c->stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(c->stream);
    if (e != cudaSuccess) {
        if (p != NULL)
            (void)cudaFree(p);
        return lx_cuda_lose(c, e, what, err);
    }
    *out = p;
    return LX_OK;
}

static void device_free(lx_cuda *c, void *p)
{
    if (p == NULL)
        return;
    (void)cudaSetDevice(c->device);
    (void)cudaFree(p);
}

/* Waits until the copy is done. */
static lx_status copy(lx_cuda *c, void *to, const void *from, size_t n_bytes,
                      enum cudaMemcpyKind kind, lx_error *err)
{
    cudaError_t e = cudaMemcpyAsync(to, from, n_bytes, kind, c->stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(c->stream);
    return e == cudaSuccess ? LX_OK : lx_cuda_lose(c, e, "a copy", err);
}

static size_t float_bytes(int64_t n)
{
    return (size_t)n * sizeof(float);
}

static lx_status no_memory(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s", what);
}

/* --- arrays --- */

lx_status lx_cuda_array_new(lx_backend *be, int64_t n_floats, lx_array **out, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    if (n_floats < 1 || n_floats > LX_HOST_MAX_FLOATS)
        return lx_fail(err, LX_ERR_INVALID, NULL, "an array of %lld floats", (long long)n_floats);
    lx_status st = lx_cuda_use(c, err);
    if (st != LX_OK)
        return st;
    lx_array *a = calloc(1, sizeof *a);
    if (a == NULL)
        return no_memory(err, "an array");
    a->n = n_floats;
    st = device_new(c, float_bytes(n_floats), "an array", (void **)&a->data, err);
    if (st != LX_OK) {
        free(a);
        return st;
    }
    *out = a;
    return LX_OK;
}

void lx_cuda_array_free(lx_backend *be, lx_array *a)
{
    if (a == NULL)
        return;
    lx_cuda_graphs_forget((lx_cuda *)be, a);
    device_free((lx_cuda *)be, a->data);
    free(a);
}

static bool inside(const lx_array *a, int64_t offset, int64_t n)
{
    return offset >= 0 && n >= 0 && offset <= a->n && n <= a->n - offset;
}

lx_status lx_cuda_array_upload(lx_backend *be, lx_array *a, int64_t offset, const float *src,
                               int64_t n)
{
    lx_cuda *c = (lx_cuda *)be;
    if (!inside(a, offset, n))
        return LX_ERR_INVALID;
    lx_status st = lx_cuda_use(c, NULL);
    if (st != LX_OK || n == 0)
        return st;
    return copy(c, a->data + offset, src, float_bytes(n), cudaMemcpyHostToDevice, NULL);
}

lx_status lx_cuda_array_download(lx_backend *be, const lx_array *a, int64_t offset, float *dst,
                                 int64_t n)
{
    lx_cuda *c = (lx_cuda *)be;
    if (!inside(a, offset, n))
        return LX_ERR_INVALID;
    lx_status st = lx_cuda_use(c, NULL);
    if (st != LX_OK || n == 0)
        return st;
    return copy(c, dst, a->data + offset, float_bytes(n), cudaMemcpyDeviceToHost, NULL);
}

/* --- matrices --- */

static int32_t padded(int64_t n)
{
    return (int32_t)((n + LX_CUDA_PAD - 1) / LX_CUDA_PAD * LX_CUDA_PAD);
}

/* The weights as the product reads them, on the host; n_bytes of them. */
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

static lx_status put_weights(lx_cuda *c, const lx_host_tensor *t, lx_matrix *w, bool exact,
                             lx_error *err)
{
    size_t n_bytes = 0;
    void *packed = pack(t, w, exact, &n_bytes);
    if (packed == NULL)
        return no_memory(err, "a matrix");
    void *p = NULL;
    lx_status st = device_new(c, n_bytes, "a matrix", &p, err);
    if (st == LX_OK)
        st = copy(c, p, packed, n_bytes, cudaMemcpyHostToDevice, err);
    free(packed);
    w->w = exact ? p : NULL;
    w->w16 = exact ? NULL : p;
    return st;
}

static lx_status put_bias(lx_cuda *c, lx_matrix *w, const float *bias, lx_error *err)
{
    size_t n_bytes = float_bytes(w->padded_rows);
    lx_status st = device_new(c, n_bytes, "a bias", (void **)&w->bias, err);
    if (st == LX_OK && bias != NULL)
        st = copy(c, w->bias, bias, float_bytes(w->shape.rows), cudaMemcpyHostToDevice, err);
    return st;
}

/* A product of one row: the library's first call may load code, which cannot be captured. */
static lx_status warm_up(lx_cuda *c, const lx_matrix *w, lx_error *err)
{
    void *p = NULL;
    size_t n_bytes = float_bytes((int64_t)w->padded_rows + w->padded_cols);
    lx_status st = device_new(c, n_bytes, "a matrix", &p, err);
    if (st != LX_OK)
        return st;
    float *y = p;
    const uint16_t *x = (const void *)(y + w->padded_rows);
    st = lx_cuda_product_run(w->plan, w->w16, x, NULL, y, 1, c->stream, err);
    cudaError_t e = st == LX_OK ? cudaStreamSynchronize(c->stream) : cudaSuccess;
    (void)cudaFree(p);
    return e == cudaSuccess ? st : lx_cuda_lose(c, e, "a matrix product", err);
}

/* Not beside a step that is captured: the library may then refuse to look for algorithms. */
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

/* Only a matrix that is stored in bf16 has its inputs rounded; others are multiplied exactly. */
lx_status lx_cuda_matrix_new(lx_backend *be, const lx_host_tensor *t, const float *bias,
                             lx_matrix **out, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = lx_host_tensor_check(t, "a matrix", err);
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
        st = put_weights(c, t, w, exact, err);
    if (st == LX_OK && !exact)
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
    lx_cuda_graphs_forget(c, w);
    device_free(c, w->bias);
    device_free(c, w->w);
    device_free(c, w->w16);
    lx_cuda_product_free(w->plan);
    free(w);
}

/* --- tables and masks --- */

lx_status lx_cuda_table_new(lx_backend *be, const lx_host_tensor *t, lx_table **out, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = lx_host_tensor_check(t, "an embedding table", err);
    if (st == LX_OK)
        st = lx_cuda_use(c, err);
    if (st != LX_OK)
        return st;
    lx_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return no_memory(err, "an embedding table");
    size_t n_bytes = (size_t)t->rows * (size_t)t->cols * (size_t)lx_dtype_bytes(t->dtype);
    *table = (lx_table){t->dtype, t->rows, t->cols, NULL, n_bytes};
    st = device_new(c, n_bytes, "an embedding table", &table->data, err);
    if (st == LX_OK)
        st = copy(c, table->data, t->data, n_bytes, cudaMemcpyHostToDevice, err);
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
    device_free((lx_cuda *)be, t->data);
    free(t);
}

static lx_status put_mask(lx_cuda *c, lx_mask *m, const uint8_t *banned, lx_error *err)
{
    float *bias = calloc((size_t)m->n_ids, sizeof *bias);
    if (bias == NULL)
        return no_memory(err, "a mask");
    for (int32_t i = 0; i < m->n_ids; i++)
        bias[i] = banned[i] != 0 ? -INFINITY : 0.0f;
    size_t n_bytes = float_bytes(m->n_ids);
    lx_status st = device_new(c, n_bytes, "a mask", (void **)&m->bias, err);
    if (st == LX_OK)
        st = copy(c, m->bias, bias, n_bytes, cudaMemcpyHostToDevice, err);
    free(bias);
    return st;
}

lx_status lx_cuda_mask_new(lx_backend *be, const uint8_t *banned, int32_t n_ids, lx_mask **out,
                           lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    if (n_ids < 1)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a mask of %d ids", n_ids);
    lx_status st = lx_cuda_use(c, err);
    if (st != LX_OK)
        return st;
    lx_mask *m = calloc(1, sizeof *m);
    if (m == NULL)
        return no_memory(err, "a mask");
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
    device_free((lx_cuda *)be, m->bias);
    free(m);
}

/* --- states: all slots in one allocation, all pages in another --- */

static lx_status allocate_states(lx_cuda *c, lx_states *s, lx_error *err)
{
    size_t fixed = float_bytes(s->stride) * (size_t)s->n_slots;
    size_t pool = float_bytes(s->page_stride) * (size_t)s->n_pages;
    size_t places = (size_t)s->n_slots * (size_t)s->slot_pages;
    lx_status st = device_new(c, fixed, "states", (void **)&s->data, err);
    if (st == LX_OK && pool > 0)
        st = device_new(c, pool, "pages of states", (void **)&s->pool, err);
    if (st == LX_OK && places > 0) {
        st = device_new(c, places * sizeof *s->pages, "maps of pages", (void **)&s->device_pages,
                        err);
        if (st == LX_OK)
            st = copy(c, s->device_pages, s->pages, places * sizeof *s->pages,
                      cudaMemcpyHostToDevice, err);
    }
    if (st == LX_OK)
        st = device_new(c, (size_t)s->n_slots * LX_DRAWN * sizeof *s->drawn, "drawn tokens",
                        (void **)&s->drawn, err);
    return st;
}

lx_status lx_cuda_states_new(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                             lx_states **out, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_states *s = calloc(1, sizeof *s);
    if (s == NULL)
        return no_memory(err, "states");
    lx_status st = lx_host_states_init(s, layout, n_slots, err);
    if (st == LX_OK)
        st = lx_cuda_use(c, err);
    if (st == LX_OK)
        st = allocate_states(c, s, err);
    if (st != LX_OK) {
        lx_cuda_states_free(be, s);
        return st;
    }
    *out = s;
    return LX_OK;
}

void lx_cuda_states_free(lx_backend *be, lx_states *s)
{
    if (s == NULL)
        return;
    lx_cuda_graphs_forget((lx_cuda *)be, s);
    device_free((lx_cuda *)be, s->data);
    device_free((lx_cuda *)be, s->pool);
    device_free((lx_cuda *)be, s->device_pages);
    device_free((lx_cuda *)be, s->drawn);
    free(s->pages);
    free(s->mapped);
    free(s);
}

static lx_status check_pages(lx_cuda *c, const lx_states *s, int32_t slot, int32_t n_pages)
{
    return lx_host_has_pages(s, slot, n_pages) ? lx_cuda_use(c, NULL) : LX_ERR_INVALID;
}

static lx_status check_copy(lx_cuda *c, cudaError_t e)
{
    return e == cudaSuccess ? LX_OK : lx_cuda_lose(c, e, "copying a state", NULL);
}

/* One part of a state; needs no waiting: what follows on the stream comes after. */
static lx_status queue_copy(lx_cuda *c, void *to, const void *from, size_t n_bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return n_bytes == 0 ? LX_OK : check_copy(c, cudaMemcpyAsync(to, from, n_bytes, kind, stream));
}

/* What is queued as moves from here on comes after what was queued for the state until now. Where
   another thread records the event too, before it is waited for, it only comes later. */
static lx_status begin_moves(lx_cuda *c)
{
    lx_status st = check_copy(c, cudaEventRecord(c->settled, c->stream));
    return st == LX_OK ? check_copy(c, cudaStreamWaitEvent(c->moves, c->settled, 0)) : st;
}

static lx_status wait_for_moves(lx_cuda *c)
{
    return check_copy(c, cudaStreamSynchronize(c->moves));
}

lx_status lx_cuda_state_map(lx_backend *be, lx_states *s, int32_t slot, int32_t first, int32_t n,
                            const int32_t *pages)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = lx_host_state_map(be, s, slot, first, n, pages);
    if (st == LX_OK)
        st = lx_cuda_use(c, NULL);
    if (st != LX_OK)
        return st;
    /* Pageable memory has been read when the call returns. */
    return queue_copy(c, s->device_pages + (int64_t)slot * s->slot_pages + first, pages,
                      (size_t)n * sizeof *pages, cudaMemcpyHostToDevice, c->stream);
}

lx_status lx_cuda_state_zero(lx_backend *be, lx_states *s, int32_t slot)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = check_pages(c, s, slot, 0);
    if (st != LX_OK || s->floats == 0)
        return st;
    cudaError_t e =
        cudaMemsetAsync(s->data + slot * s->stride, 0, float_bytes(s->floats), c->stream);
    return e == cudaSuccess ? LX_OK : lx_cuda_lose(c, e, "zeroing a state", NULL);
}

lx_status lx_cuda_state_copy(lx_backend *be, lx_states *s, int32_t to, int32_t from,
                             int32_t n_pages)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = check_pages(c, s, to, n_pages);
    if (st == LX_OK)
        st = check_pages(c, s, from, n_pages);
    if (st != LX_OK || to == from)
        return st;
    st = queue_copy(c, s->data + to * s->stride, s->data + from * s->stride, float_bytes(s->floats),
                    cudaMemcpyDeviceToDevice, c->stream);
    for (int32_t i = 0; st == LX_OK && i < n_pages; i++) {
        float *page = lx_host_page(s, to, i);
        if (page != lx_host_page(s, from, i))
            st = queue_copy(c, page, lx_host_page(s, from, i), float_bytes(s->page_floats),
                            cudaMemcpyDeviceToDevice, c->stream);
    }
    return st;
}

lx_status lx_cuda_state_export(lx_backend *be, const lx_states *s, int32_t slot, float *dst,
                               int32_t n_pages)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = check_pages(c, s, slot, n_pages);
    if (st == LX_OK)
        st = begin_moves(c);
    if (st != LX_OK)
        return st;
    st = queue_copy(c, dst, s->data + slot * s->stride, float_bytes(s->floats),
                    cudaMemcpyDeviceToHost, c->moves);
    dst += s->floats;
    for (int32_t i = 0; st == LX_OK && i < n_pages; i++, dst += s->page_floats)
        st = queue_copy(c, dst, lx_host_page(s, slot, i), float_bytes(s->page_floats),
                        cudaMemcpyDeviceToHost, c->moves);
    return st == LX_OK ? wait_for_moves(c) : st;
}

lx_status lx_cuda_state_import(lx_backend *be, lx_states *s, int32_t slot, const float *src,
                               int32_t n_pages)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = check_pages(c, s, slot, n_pages);
    if (st == LX_OK)
        st = begin_moves(c);
    if (st != LX_OK)
        return st;
    st = queue_copy(c, s->data + slot * s->stride, src, float_bytes(s->floats),
                    cudaMemcpyHostToDevice, c->moves);
    src += s->floats;
    for (int32_t i = 0; st == LX_OK && i < n_pages; i++, src += s->page_floats)
        st = queue_copy(c, lx_host_page(s, slot, i), src, float_bytes(s->page_floats),
                        cudaMemcpyHostToDevice, c->moves);
    return st == LX_OK ? wait_for_moves(c) : st;
}
