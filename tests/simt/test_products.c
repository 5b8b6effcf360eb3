/*
 * The bf16 products of the cuda back end, tested without a GPU. One algorithm of the matrix library
 * is pinned. Memory grows and is freed after the steps that use it. Inputs of products only are
 * stored rounded, in half the bytes.
 *
 *   cuda_products LIBRARY    the library's own path, to reach its switches
 */
#include <stdio.h>

#include "kernels/kernels.h"
#include "tests/simt/checks.h"

static const lx_backend_options exact = {.n_threads = 1, .precision = LX_PRECISION_F32};
static const lx_backend_options library = {.n_threads = 1, .precision = LX_PRECISION_AUTO};
static const lx_backend_options own = {
    .n_threads = 1, .precision = LX_PRECISION_AUTO, .cuda_products = LX_CUDA_PRODUCTS_OWN};

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
    check(be->ops->matrix_new(be, &t, NULL, NULL, &w, &err) == LX_OK, "a wide matrix", err.text);
    be->ops->matrix_free(be, w);
    be->ops->close(be);
}

/* Starts y = x w^T as the only operation of a step of `rows` rows; without a matrix, an empty
   step. */
static lx_status start(lx_backend *be, lx_array *y, const lx_array *x, const lx_matrix *w,
                       int32_t rows, uint64_t *step, lx_error *err)
{
    static const int32_t slot[] = {0}, position[] = {0};
    const int32_t begins[] = {0, rows};
    const lx_batch b = {
        .n_tokens = rows, .n_seqs = 1, .seq_start = begins, .slot = slot, .position = position};
    const lx_linear_args args = {y, x, w, LX_ACT_NONE, NULL, LX_ROWS_TOKENS};
    lx_status st = be->ops->begin(be, &b, err);
    if (st != LX_OK)
        return st;
    if (w != NULL)
        be->ops->linear(be, &args);
    return be->ops->end(be, step, err);
}

/* The algorithm of a product of so many rows, and the quickest possible one. */
static simt_counts multiplied(const simt *s, lx_backend *be, const lx_matrix *w, int32_t rows)
{
    simt_counts before, after;
    lx_array *x = NULL, *y = NULL;
    lx_error err = {0};
    uint64_t step = 0;
    s->count(&before);
    lx_status st = be->ops->rows_new(be, rows, 8, &x, &err);
    if (st == LX_OK)
        st = be->ops->rows_new(be, rows, 24, &y, &err);
    if (st == LX_OK)
        st = start(be, y, x, w, rows, &step, &err);
    check(st == LX_OK && be->ops->sync(be, step, &err) == LX_OK, "a product", err.text);
    be->ops->array_free(be, x);
    be->ops->array_free(be, y);
    s->count(&after);
    after.product_time -= before.product_time;
    after.least_product_time -= before.least_product_time;
    after.products -= before.products;
    return after;
}

/* One algorithm multiplies any number of rows in one piece, and is a bad one for none: the library
   likes another as well that refuses 4 to 6. */
static void test_pinned(const simt *s)
{
    static const int32_t rows[] = {1, 2, 5, 16, 100, 256, 1024, 4096, 10000};
    static const uint16_t zeros[24 * 8];
    const lx_host_tensor t = {LX_BF16, 24, 8, zeros};
    lx_backend *be = NULL;
    lx_matrix *w = NULL;
    lx_error err = {0};
    check(lx_backend_open("cuda", &library, &be, &err) == LX_OK, "opening", err.text);
    check(be->ops->matrix_new(be, &t, NULL, NULL, &w, &err) == LX_OK, "a matrix", err.text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        simt_counts c = multiplied(s, be, w, rows[i]);
        char what[80];
        (void)snprintf(what, sizeof what, "%d rows take %ld", rows[i], c.product_time);
        check(c.least_product_time > 0 && c.product_time <= 2 * c.least_product_time, what,
              "more than twice the least");
        check(c.products == 1, what, "in pieces");
    }
    be->ops->matrix_free(be, w);
    be->ops->close(be);
}

/* --- memory that a step under way uses --- */

enum { MANY = 8192 };

/* The second step's inputs are no larger, but the products need more working memory. */
static void test_growing(void)
{
    static const uint16_t zeros[24 * 8];
    const lx_host_tensor t = {LX_BF16, 24, 8, zeros};
    lx_backend *be = NULL;
    lx_matrix *w = NULL;
    lx_array *x = NULL, *y = NULL;
    lx_error err = {0};
    uint64_t first = 0, second = 0;
    check(lx_backend_open("cuda", &library, &be, &err) == LX_OK, "opening", err.text);
    check(be->ops->matrix_new(be, &t, NULL, NULL, &w, &err) == LX_OK, "a matrix", err.text);
    check(be->ops->rows_new(be, MANY, 8, &x, &err) == LX_OK, "an array", err.text);
    check(be->ops->rows_new(be, MANY, 24, &y, &err) == LX_OK, "an array", err.text);
    check(start(be, y, x, w, 1, &first, &err) == LX_OK, "a small step", err.text);
    check(start(be, y, x, w, MANY, &second, &err) == LX_OK, "a larger one", err.text);
    check(be->ops->sync(be, second, &err) == LX_OK && second == first + 1, "both", err.text);
    be->ops->array_free(be, x);
    be->ops->array_free(be, y);
    be->ops->matrix_free(be, w);
    be->ops->close(be);
}

/* Its copies are under way when the back end is closed. */
static void test_closing(void)
{
    lx_backend *be = NULL;
    lx_error err = {0};
    uint64_t step = 0;
    check(lx_backend_open("cuda", &library, &be, &err) == LX_OK, "opening", err.text);
    check(start(be, NULL, NULL, NULL, 3, &step, &err) == LX_OK, "a step of nothing", err.text);
    be->ops->close(be);
}

/* --- values that only products read --- */

enum { ROWS = 5, WIDTH = 16, WIDE = 32 };
static const float unwritten = -12345.5f;

typedef struct mlp {
    lx_backend *be;
    lx_array *x, *y, *ones, *normed, *hidden;
    lx_matrix *up, *down;
} mlp;

/* `kept`: the norm's results still exist when the step is over. */
static lx_status make_mlp(mlp *m, bool kept, lx_error *err)
{
    static const uint16_t weights[WIDE * WIDTH] = {0x3f80, 0x3f00, 0xbf80};
    const lx_kernels *k = m->be->ops;
    const lx_host_tensor up = {LX_BF16, WIDE, WIDTH, weights},
                         down = {LX_BF16, WIDTH, WIDE, weights};
    lx_status st = k->array_new(m->be, ROWS * WIDTH, &m->x, err);
    if (st == LX_OK)
        st = k->array_new(m->be, ROWS * WIDTH, &m->y, err);
    if (st == LX_OK)
        st = k->array_new(m->be, WIDTH, &m->ones, err);
    if (st == LX_OK)
        st = kept ? k->array_new(m->be, ROWS * WIDTH, &m->normed, err)
                  : k->rows_new(m->be, ROWS, WIDTH, &m->normed, err);
    if (st == LX_OK)
        st = k->rows_new(m->be, ROWS, WIDE, &m->hidden, err);
    if (st == LX_OK)
        st = k->matrix_new(m->be, &up, NULL, NULL, &m->up, err);
    return st == LX_OK ? k->matrix_new(m->be, &down, NULL, NULL, &m->down, err) : st;
}

static void free_mlp(mlp *m)
{
    const lx_kernels *k = m->be->ops;
    lx_array *const arrays[] = {m->x, m->y, m->ones, m->normed, m->hidden};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        k->array_free(m->be, arrays[i]);
    k->matrix_free(m->be, m->up);
    k->matrix_free(m->be, m->down);
    k->close(m->be);
}

static void fill(const mlp *m, lx_array *a, int32_t n)
{
    float values[ROWS * WIDE];
    for (int32_t i = 0; i < n; i++)
        values[i] = unwritten;
    check(m->be->ops->array_upload(m->be, a, 0, values, n) == LX_OK, "an array", "is not filled");
}

/* How many floats of n are others now. */
static int32_t written(const mlp *m, const lx_array *a, int32_t n)
{
    float values[ROWS * WIDE];
    int32_t others = 0;
    check(m->be->ops->array_download(m->be, a, 0, values, n) == LX_OK, "an array", "is not read");
    for (int32_t i = 0; i < n; i++)
        others += values[i] != unwritten; /* NaN, too */
    return others;
}

static void run_mlp(const mlp *m)
{
    static const int32_t start[] = {0, 1, 2, 3, 4, 5};
    const lx_batch b = {.n_tokens = ROWS,
                        .n_seqs = ROWS,
                        .seq_start = start,
                        .slot = start,
                        .n_outputs = ROWS,
                        .output_row = start};
    const lx_norm_args norm = {m->normed, m->x, m->ones, m->ones, WIDTH, 1e-5f, LX_ROWS_TOKENS};
    const lx_linear_args up = {m->hidden, m->normed, m->up, LX_ACT_GELU, NULL, LX_ROWS_TOKENS};
    const lx_linear_args down = {m->y, m->hidden, m->down, LX_ACT_NONE, NULL, LX_ROWS_TOKENS};
    const lx_kernels *k = m->be->ops;
    lx_error err = {0};
    uint64_t step = 0;
    lx_status st = k->begin(m->be, &b, &err);
    if (st == LX_OK) {
        k->norm(m->be, &norm);
        k->linear(m->be, &up);
        k->linear(m->be, &down);
        st = k->end(m->be, &step, &err);
    }
    check(st == LX_OK && k->sync(m->be, step, &err) == LX_OK, "a step", err.text);
}

/* Of a norm's and a GELU's results; how many of them share a float. */
static void test_stored(const lx_backend_options *how, bool kept, int32_t normed, int32_t hidden)
{
    mlp m = {0};
    lx_error err = {0};
    check(lx_backend_open("cuda", how, &m.be, &err) == LX_OK, "opening", err.text);
    check(make_mlp(&m, kept, &err) == LX_OK, "objects", err.text);
    fill(&m, m.normed, ROWS * WIDTH);
    fill(&m, m.hidden, ROWS * WIDE);
    run_mlp(&m);
    check(written(&m, m.normed, ROWS * WIDTH) == ROWS * WIDTH / normed, "a norm for a product",
          "stores more or less");
    check(written(&m, m.hidden, ROWS * WIDE) == ROWS * WIDE / hidden, "GELU for a product",
          "stores more or less");
    free_mlp(&m);
}

int main(int argc, char **argv)
{
    simt s;
    if (!simt_open(argc, argv, &s))
        return 2;
    test_wide_matrix();
    test_pinned(&s);
    test_growing();
    test_closing();
    test_stored(&exact, false, 1, 1);
    test_stored(&library, false, 2, 2);
    test_stored(&library, true, 1, 2);
    test_stored(&own, false, 2, 2);
    test_stored(&own, true, 1, 2);
    return checks_end();
}
