/*
 * The bf16 products of the cuda back end, tested without a GPU: which algorithm of the matrix
 * library is pinned.
 *
 *   cuda_products LIBRARY    the library's own path, to reach its switches
 */
#include <stdio.h>

#include "kernels/kernels.h"
#include "tests/simt/checks.h"

static const lx_backend_options library = {.n_threads = 1, .precision = LX_PRECISION_AUTO};

/* The library refuses results of 2^31 values; a matrix with many outputs has a product even so. */
static void test_wide_matrix(void)
{
    enum { OUTPUTS = 4096, INPUTS = 8 };
    static const uint16_t zeros[OUTPUTS * INPUTS];
    const lx_host_tensor t = {LX_BF16, OUTPUTS, INPUTS, zeros};
    lx_backend_options o = {.n_threads = 1};
    lx_backend *be = NULL;
    lx_matrix *w = NULL;
    lx_error err = {0};
    check(lx_backend_open("cuda", &o, &be, &err) == LX_OK, "opening", err.text);
    check(be->ops->matrix_new(be, &t, NULL, &w, &err) == LX_OK, "a wide matrix", err.text);
    be->ops->matrix_free(be, w);
    be->ops->close(be);
}

/* What a product of so many rows takes, and the least that one could. */
static simt_counts multiplied(const simt *s, lx_backend *be, const lx_matrix *w, int32_t rows)
{
    static const int32_t slot[] = {0}, position[] = {0};
    const int32_t start[] = {0, rows};
    const lx_batch b = {
        .n_tokens = rows, .n_seqs = 1, .seq_start = start, .slot = slot, .position = position};
    simt_counts before, after;
    lx_array *x = NULL, *y = NULL;
    lx_error err = {0};
    uint64_t step = 0;
    s->count(&before);
    lx_status st = be->ops->rows_new(be, rows, 8, &x, &err);
    if (st == LX_OK)
        st = be->ops->rows_new(be, rows, 24, &y, &err);
    if (st == LX_OK)
        st = be->ops->begin(be, &b, &err);
    if (st == LX_OK) {
        const lx_linear_args args = {y, x, w, LX_ACT_NONE, NULL, LX_ROWS_TOKENS};
        be->ops->linear(be, &args);
        st = be->ops->end(be, &step, &err);
    }
    check(st == LX_OK && be->ops->sync(be, step, &err) == LX_OK, "a product", err.text);
    be->ops->array_free(be, x);
    be->ops->array_free(be, y);
    s->count(&after);
    after.product_time -= before.product_time;
    after.least_product_time -= before.least_product_time;
    return after;
}

/* One algorithm multiplies any number of rows, and is a bad one for none. */
static void test_pinned(const simt *s)
{
    static const int32_t rows[] = {1, 2, 16, 100, 256, 1024, 4096, 10000};
    static const uint16_t zeros[24 * 8];
    const lx_host_tensor t = {LX_BF16, 24, 8, zeros};
    lx_backend *be = NULL;
    lx_matrix *w = NULL;
    lx_error err = {0};
    check(lx_backend_open("cuda", &library, &be, &err) == LX_OK, "opening", err.text);
    check(be->ops->matrix_new(be, &t, NULL, &w, &err) == LX_OK, "a matrix", err.text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        simt_counts c = multiplied(s, be, w, rows[i]);
        char what[80];
        (void)snprintf(what, sizeof what, "%d rows take %ld", rows[i], c.product_time);
        check(c.least_product_time > 0 && c.product_time <= 2 * c.least_product_time, what,
              "more than twice the least");
    }
    be->ops->matrix_free(be, w);
    be->ops->close(be);
}

int main(int argc, char **argv)
{
    simt s;
    if (!simt_open(argc, argv, &s))
        return 2;
    test_wide_matrix();
    test_pinned(&s);
    return checks_end();
}
