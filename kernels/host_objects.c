/*
 * Arrays, embedding tables and masks in the process's own memory (see host.h).
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

lx_status lx_host_rows_new(lx_backend *be, int64_t rows, int64_t width, lx_array **out,
                           lx_error *err)
{
    if (rows < 1 || width < 1 || rows > LX_HOST_MAX_FLOATS / width)
        return lx_fail(err, LX_ERR_INVALID, NULL, "an array of %lld rows of %lld floats",
                       (long long)rows, (long long)width);
    return lx_host_array_new(be, rows * width, out, err);
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
