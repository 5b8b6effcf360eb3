/*
 * A product as launches: by a kernel of our own, in f32 (`exact`) or rounded to bf16 (`own`), or
 * rounded by the matrix library with what surrounds it.
 */
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
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->x), lx_cuda_key_address(a->w),
                lx_cuda_key_address(a->residual), lx_cuda_key_pair(a->activation, a->rows));
}

static bool takes_rounded(const void *args)
{
    const lx_matrix *w = ((const lx_linear_args *)args)->w;
    return w->w16 != NULL && w->shape.cols == w->padded_cols;
}

/* Rounded where our kernel writes the results; the library writes them when no step follows. */
static lx_cuda_writing writes(const void *args)
{
    const lx_linear_args *a = args;
    bool whole = a->w->w16 != NULL && a->w->shape.rows == a->w->padded_rows;
    bool ours = a->w->plan == NULL || a->activation != LX_ACT_NONE;
    return whole && ours ? LX_CUDA_ROUNDED : LX_CUDA_WHOLE;
}

static lx_status run_exact(lx_cuda *c, const lx_linear_args *a)
{
    return LX_CUDA_LAUNCH(c, linear, .y = a->y->data, .x = a->x->data, .w = a->w->w,
                          .bias = a->w->bias, .residual = lx_array_at(a->residual, 0),
                          LX_CUDA_ROWS(c, a->rows), .outputs = (int32_t)a->w->shape.rows,
                          .cols = (int32_t)a->w->shape.cols, .activation = (int32_t)a->activation);
}

/* The kernel rounds inputs as it reads them, unless they are rounded, and writes final results. */
static lx_status run_own(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_linear_args *a = &op->args.linear;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    return LX_CUDA_LAUNCH_AS(c, mma, "linear", LX_CUDA_RESULTS(y),
                             .x = c->is_ready ? NULL : a->x->data,
                             .rounded = lx_cuda_rounded_input(c, op), .bias = a->w->bias,
                             .residual = lx_array_at(a->residual, 0), .w = a->w->w16,
                             LX_CUDA_ROWS(c, a->rows), .outputs = (int32_t)a->w->shape.rows,
                             .padded_outputs = a->w->padded_rows, .cols = (int32_t)a->w->shape.cols,
                             .padded = a->w->padded_cols, .activation = (int32_t)a->activation);
}

/* Whether a product may read and write all rows that launches cover: the step has as many, or the
   array has room for them. */
static bool has_room(const lx_cuda *c, const lx_array *a, lx_rows rows, int32_t width)
{
    int32_t live = rows == LX_ROWS_TOKENS ? c->n_tokens : c->n_outputs;
    int32_t covered = lx_cuda_row_count(c, rows);
    return covered == live || (int64_t)covered * width <= lx_cuda_room(a);
}

/* y = act(product [+ bias]) + residual */
static lx_status run_finish(lx_cuda *c, const lx_cuda_op *op, const float *product, bool fused)
{
    const lx_linear_args *a = &op->args.linear;
    const lx_matrix *w = a->w;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    return LX_CUDA_LAUNCH_AS(c, finish, "linear", LX_CUDA_RESULTS(y), .product = product,
                             .bias = lx_cuda_product_adds_bias(w->plan) ? NULL : w->bias,
                             .residual = fused ? NULL : lx_array_at(a->residual, 0),
                             LX_CUDA_ROWS(c, a->rows), .outputs = (int32_t)w->shape.rows,
                             .padded = w->padded_rows, .activation = (int32_t)a->activation);
}

/* Copies the residual to where the product adds it: there is room for all rows that it covers. */
static lx_status run_stage(lx_cuda *c, const lx_linear_args *a)
{
    return LX_CUDA_LAUNCH_AS(c, finish, "a residual", .y = c->product.data,
                             .product = a->residual->data, LX_CUDA_ROWS(c, a->rows),
                             .outputs = (int32_t)a->w->shape.rows, .padded = a->w->padded_rows,
                             .activation = LX_ACT_NONE);
}

static lx_status run_round(lx_cuda *c, const lx_linear_args *a)
{
    return LX_CUDA_LAUNCH_AS(c, round, "rounding inputs", .y = c->rounded.data, .x = a->x->data,
                             LX_CUDA_ROWS(c, a->rows), .cols = (int32_t)a->w->shape.cols,
                             .padded = a->w->padded_cols);
}

/*
 * Rounds the inputs unless they are rounded, multiplies, and does the rest. The product adds bias
 * and residual itself depending on the matrix alone, since the order of sums decides about the
 * bits. It writes into y under three conditions. y and an added residual have room for all covered
 * rows and columns, no residual in y is lost, and y does not hold rounded values.
 */
static lx_status run_rounded(lx_cuda *c, const lx_cuda_op *op)
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
    lx_status st = x != NULL ? LX_OK : run_round(c, a);
    x = x != NULL ? x : c->rounded.data;
    if (st == LX_OK && fused && a->residual != NULL) {
        add = direct ? a->residual->data : to;
        st = direct ? LX_OK : run_stage(c, a);
    }
    if (st != LX_OK)
        return st;
    st = lx_cuda_product_run(w->plan, w->w16, x, add, to, lx_cuda_row_count(c, a->rows), c->target,
                             &c->error);
    if (st != LX_OK && c->target == c->capture) /* it cannot be captured; the device is not lost */
        return LX_ERR_UNSUPPORTED;
    if (st != LX_OK)
        return lx_cuda_lose(c, cudaSuccess, NULL, &c->error);
    return fused && direct ? LX_OK : run_finish(c, op, to, fused);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_linear_args *a = &op->args.linear;
    if (a->w->plan != NULL)
        return run_rounded(c, op);
    return a->w->w != NULL ? run_exact(c, a) : run_own(c, op);
}

LX_DEFINE_CUDA(linear, .record = record, .key = key, .run = run, .writes = writes,
               .takes_rounded = takes_rounded);
