/*
 * A product as launches: by a kernel of our own, in f32 (`exact`) or rounded to bf16 (`own`), or
 * rounded by the matrix library with what surrounds it.
 */
#include "kernels/ops/linear/cuda.h"
#include "kernels/cuda/cuda.h"

static lx_status record(lx_cuda *c, lx_cuda_op *op)
{
    const lx_linear_args *a = &op->args.linear;
    if (a->w->plan == NULL)
        return LX_OK;
    int64_t rows = lx_cuda_row_count(c, a->rows);
    lx_cuda_scratch_want(&c->rounded, rows * a->w->padded_cols * (int64_t)sizeof(uint16_t));
    lx_cuda_scratch_want(&c->product, rows * a->w->padded_rows * (int64_t)sizeof(float));
    return LX_OK;
}

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_linear_args *a = &op->args.linear;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->x);
    w[2] = lx_cuda_key_address(a->w);
    w[3] = lx_cuda_key_address(a->residual);
    w[4] = lx_cuda_key_pair(a->activation, a->rows);
}

static bool takes_rounded(const void *args)
{
    const lx_matrix *w = ((const lx_linear_args *)args)->w;
    return w->w16 != NULL && w->shape.cols == w->padded_cols;
}

/* Rounded where a kernel of ours writes the results, which the library does when nothing follows.
 */
static lx_cuda_writing writes(const void *args)
{
    const lx_linear_args *a = args;
    bool whole = a->w->w16 != NULL && a->w->shape.rows == a->w->padded_rows;
    bool ours = a->w->plan == NULL || a->activation != LX_ACT_NONE;
    return whole && ours ? LX_CUDA_ROUNDED : LX_CUDA_WHOLE;
}

static lx_status run_exact(lx_cuda *c, const lx_linear_args *a, int32_t rows)
{
    lx_cuda_linear k = {.y = a->y->data,
                        .x = a->x->data,
                        .w = a->w->w,
                        .bias = a->w->bias,
                        .residual = lx_array_at(a->residual, 0),
                        .live = lx_cuda_live_rows(c, a->rows),
                        .rows = rows,
                        .outputs = (int32_t)a->w->shape.rows,
                        .cols = (int32_t)a->w->shape.cols,
                        .activation = (int32_t)a->activation};
    return lx_cuda_launched(c, lx_cuda_launch_linear(&k, c->target), "linear");
}

/* Inputs are rounded as they are read, if they are not yet, and all that follows the product is
   done where it writes. */
static lx_status run_own(lx_cuda *c, const lx_cuda_op *op, int32_t rows)
{
    const lx_linear_args *a = &op->args.linear;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    lx_cuda_mma k = {.y = y.f32,
                     .twin = y.rounded,
                     .x = c->is_ready ? NULL : a->x->data,
                     .rounded = lx_cuda_rounded_input(c, op),
                     .bias = a->w->bias,
                     .residual = lx_array_at(a->residual, 0),
                     .w = a->w->w16,
                     .live = lx_cuda_live_rows(c, a->rows),
                     .rows = rows,
                     .outputs = (int32_t)a->w->shape.rows,
                     .padded_outputs = a->w->padded_rows,
                     .cols = (int32_t)a->w->shape.cols,
                     .padded = a->w->padded_cols,
                     .activation = (int32_t)a->activation};
    return lx_cuda_launched(c, lx_cuda_launch_mma(&k, c->target), "linear");
}

/* Whether a product may read and write all the rows that the step's launches cover: the step has as
   many, or what lies behind them holds nothing. */
static bool has_room(const lx_cuda *c, const lx_array *a, lx_rows rows, int32_t width)
{
    int32_t live = rows == LX_ROWS_TOKENS ? c->n_tokens : c->n_outputs;
    int32_t covered = lx_cuda_row_count(c, rows);
    return covered == live || (int64_t)covered * width <= lx_cuda_room(a);
}

/* y = act(product [+ bias]) + residual */
static lx_status run_finish(lx_cuda *c, const lx_cuda_op *op, const float *product, bool fused,
                            int32_t rows)
{
    const lx_linear_args *a = &op->args.linear;
    const lx_matrix *w = a->w;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    lx_cuda_finish k = {.y = y.f32,
                        .twin = y.rounded,
                        .product = product,
                        .bias = lx_cuda_product_adds_bias(w->plan) ? NULL : w->bias,
                        .residual = a->residual != NULL && !fused ? a->residual->data : NULL,
                        .live = lx_cuda_live_rows(c, a->rows),
                        .rows = rows,
                        .outputs = (int32_t)w->shape.rows,
                        .padded = w->padded_rows,
                        .activation = (int32_t)a->activation};
    return lx_cuda_launched(c, lx_cuda_launch_finish(&k, c->target), "linear");
}

/* The residual where the product takes it from and has room for all the rows it covers. */
static lx_status run_stage(lx_cuda *c, const lx_linear_args *a, int32_t rows)
{
    lx_cuda_finish k = {.y = c->product.data,
                        .product = a->residual->data,
                        .live = lx_cuda_live_rows(c, a->rows),
                        .rows = rows,
                        .outputs = (int32_t)a->w->shape.rows,
                        .padded = a->w->padded_rows,
                        .activation = LX_ACT_NONE};
    return lx_cuda_launched(c, lx_cuda_launch_finish(&k, c->target), "a residual");
}

static lx_status run_round(lx_cuda *c, const lx_linear_args *a, int32_t rows)
{
    lx_cuda_round k = {.y = c->rounded.data,
                       .x = a->x->data,
                       .live = lx_cuda_live_rows(c, a->rows),
                       .rows = rows,
                       .cols = (int32_t)a->w->shape.cols,
                       .padded = a->w->padded_cols};
    return lx_cuda_launched(c, lx_cuda_launch_round(&k, c->target), "rounding inputs");
}

/*
 * Inputs to bf16 unless they are there, the product with bias and residual, and what it leaves.
 * What it adds itself depends on the matrix alone, since order decides about the bits. Where it
 * writes does not: into y if that has room for all the rows and columns it covers, as the residual
 * has that it adds, no residual is lost there, and y does not hold rounded values at the end.
 */
static lx_status run_rounded(lx_cuda *c, const lx_cuda_op *op, int32_t rows)
{
    const lx_linear_args *a = &op->args.linear;
    const lx_matrix *w = a->w;
    bool whole = w->shape.rows == w->padded_rows;
    bool fits = whole && !op->rounds && has_room(c, a->y, a->rows, w->padded_rows) &&
                (a->residual == NULL || has_room(c, a->residual, a->rows, w->padded_rows));
    bool fused = whole && a->activation == LX_ACT_NONE && lx_cuda_product_adds_bias(w->plan);
    bool direct = fits && (fused || a->residual != a->y);
    float *to = direct ? a->y->data : c->product.data;
    const float *add = NULL;
    const uint16_t *x = lx_cuda_rounded_input(c, op);
    lx_status st = x != NULL ? LX_OK : run_round(c, a, rows);
    x = x != NULL ? x : c->rounded.data;
    if (st == LX_OK && fused && a->residual != NULL) {
        add = direct ? a->residual->data : to;
        st = direct ? LX_OK : run_stage(c, a, rows);
    }
    if (st != LX_OK)
        return st;
    st = lx_cuda_product_run(w->plan, w->w16, x, add, to, rows, c->target, &c->error);
    if (st != LX_OK && lx_cuda_is_capturing(c))
        return LX_ERR_UNSUPPORTED;
    if (st != LX_OK)
        return lx_cuda_lose(c, cudaSuccess, NULL, &c->error);
    return fused && direct ? LX_OK : run_finish(c, op, to, fused, rows);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_linear_args *a = &op->args.linear;
    int32_t rows = lx_cuda_row_count(c, a->rows);
    if (rows == 0)
        return LX_OK;
    if (a->w->plan != NULL)
        return run_rounded(c, op, rows);
    return a->w->w != NULL ? run_exact(c, a, rows) : run_own(c, op, rows);
}

LX_DEFINE_CUDA(linear, .record = record, .key = key, .run = run, .writes = writes,
               .takes_rounded = takes_rounded);
