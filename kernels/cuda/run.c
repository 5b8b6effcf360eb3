/*
 * One recorded operation as kernels on the stream: offsets become pointers, arguments those of
 * launch.h. Nothing here allocates or waits.
 */
#include "kernels/cuda/cuda.h"

static const void *input(const lx_cuda *c, size_t at)
{
    return c->inputs.device + at;
}

static int32_t row_count(const lx_cuda *c, lx_rows rows)
{
    return rows == LX_ROWS_TOKENS ? c->bucket.tokens : c->bucket.outputs;
}

/* Where the device finds how many of them there are. */
static const int32_t *live(const lx_cuda *c, lx_rows rows)
{
    const lx_cuda_live *l = input(c, 0);
    return rows == LX_ROWS_TOKENS ? &l->tokens : &l->outputs;
}

static lx_status launched(lx_cuda *c, cudaError_t e, const char *what)
{
    return e == cudaSuccess ? LX_OK : lx_cuda_lose(c, e, what, &c->error);
}

static lx_status run_embed(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_embed_args *a = &op->embed;
    lx_cuda_embed k = {.y = a->y->data,
                       .tables = input(c, op->in),
                       .ids = input(c, op->more),
                       .drawn = a->states != NULL ? a->states->drawn : NULL,
                       .n_tables = a->n_tables,
                       .d = (int32_t)a->tables[0]->cols,
                       .live = live(c, LX_ROWS_TOKENS),
                       .rows = c->bucket.tokens};
    return launched(c, lx_cuda_launch_embed(&k, c->target), "embed");
}

static lx_status run_exact(lx_cuda *c, const lx_linear_args *a, int32_t rows)
{
    lx_cuda_linear k = {.y = a->y->data,
                        .x = a->x->data,
                        .w = a->w->w,
                        .bias = a->w->bias,
                        .residual = a->residual != NULL ? a->residual->data : NULL,
                        .live = live(c, a->rows),
                        .rows = rows,
                        .outputs = (int32_t)a->w->rows,
                        .cols = (int32_t)a->w->cols,
                        .activation = (int32_t)a->activation};
    return launched(c, lx_cuda_launch_linear(&k, c->target), "linear");
}

/* --- products of the library --------------------------------------------------------------------
 */

/* Whether a step has as many rows as its launches cover: then a product may write into arrays. */
static bool has_all_rows(const lx_cuda *c, lx_rows rows)
{
    return rows == LX_ROWS_TOKENS ? c->bucket.tokens == c->n_tokens
                                  : c->bucket.outputs == c->n_outputs;
}

/*
 * Where an operation writes its results rounded too: the inputs of the next one, when that is a
 * product of them; else NULL. The next one is told by c->ready.
 */
static uint16_t *twin(lx_cuda *c, const lx_cuda_op *op, const lx_array *y, lx_rows rows,
                      int64_t width)
{
    const lx_cuda_op *next = op + 1;
    if (next == c->ops + c->n_ops || next->kind != LX_CUDA_LINEAR)
        return NULL;
    const lx_linear_args *a = &next->linear;
    if (a->x != y || a->rows != rows || a->w->w16 == NULL || a->w->cols != width ||
        a->w->padded_cols != width)
        return NULL;
    c->ready = next;
    return c->rounded.data;
}

/* y = act(product [+ bias]) + residual */
static lx_status run_finish(lx_cuda *c, const lx_cuda_op *op, const float *product, bool fused,
                            int32_t rows)
{
    const lx_linear_args *a = &op->linear;
    const lx_matrix *w = a->w;
    bool whole = w->rows == w->padded_rows;
    lx_cuda_finish k = {.y = a->y->data,
                        .twin = whole ? twin(c, op, a->y, a->rows, w->rows) : NULL,
                        .product = product,
                        .bias = lx_cuda_product_adds_bias(w->plan) ? NULL : w->bias,
                        .residual = a->residual != NULL && !fused ? a->residual->data : NULL,
                        .live = live(c, a->rows),
                        .rows = rows,
                        .outputs = (int32_t)w->rows,
                        .padded = w->padded_rows,
                        .activation = (int32_t)a->activation};
    return launched(c, lx_cuda_launch_finish(&k, c->target), "linear");
}

/* The residual where the product takes it from and has room for all the rows it covers. */
static lx_status run_stage(lx_cuda *c, const lx_linear_args *a, int32_t rows)
{
    lx_cuda_finish k = {.y = c->product.data,
                        .product = a->residual->data,
                        .live = live(c, a->rows),
                        .rows = rows,
                        .outputs = (int32_t)a->w->rows,
                        .padded = a->w->padded_rows,
                        .activation = LX_ACT_NONE};
    return launched(c, lx_cuda_launch_finish(&k, c->target), "a residual");
}

static lx_status run_round(lx_cuda *c, const lx_linear_args *a, int32_t rows)
{
    lx_cuda_round k = {.y = c->rounded.data,
                       .x = a->x->data,
                       .live = live(c, a->rows),
                       .rows = rows,
                       .cols = (int32_t)a->w->cols,
                       .padded = a->w->padded_cols};
    return launched(c, lx_cuda_launch_round(&k, c->target), "rounding inputs");
}

/*
 * Inputs to bf16 unless they are there, the product with bias and residual, and what it leaves.
 * What it adds itself depends on the matrix alone, since order decides about the bits. Where it
 * writes does not: into y if that has all the rows and columns it covers, and no residual is lost
 * there.
 */
static lx_status run_rounded(lx_cuda *c, const lx_cuda_op *op, bool ready, int32_t rows)
{
    const lx_linear_args *a = &op->linear;
    const lx_matrix *w = a->w;
    bool whole = w->rows == w->padded_rows, fits = whole && has_all_rows(c, a->rows);
    bool fused = whole && a->activation == LX_ACT_NONE && lx_cuda_product_adds_bias(w->plan);
    bool direct = fits && (fused || a->residual != a->y);
    float *to = direct ? a->y->data : c->product.data;
    const float *add = NULL;
    lx_status st = ready ? LX_OK : run_round(c, a, rows);
    if (st == LX_OK && fused && a->residual != NULL) {
        add = direct ? a->residual->data : to;
        st = direct ? LX_OK : run_stage(c, a, rows);
    }
    if (st != LX_OK)
        return st;
    st = lx_cuda_product_run(w->plan, w->w16, c->rounded.data, add, to, rows, c->target, &c->error);
    if (st != LX_OK)
        return lx_cuda_lose(c, cudaSuccess, NULL, &c->error);
    return fused && direct ? LX_OK : run_finish(c, op, to, fused, rows);
}

static lx_status run_linear(lx_cuda *c, const lx_cuda_op *op, bool ready)
{
    const lx_linear_args *a = &op->linear;
    int32_t rows = row_count(c, a->rows);
    if (rows == 0)
        return LX_OK;
    return a->w->w != NULL ? run_exact(c, a, rows) : run_rounded(c, op, ready, rows);
}

static lx_status run_norm(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_norm_args *a = &op->norm;
    lx_cuda_norm k = {.y = a->y->data,
                      .twin = twin(c, op, a->y, a->rows, a->d),
                      .x = a->x->data,
                      .gamma = a->gamma->data,
                      .beta = a->beta->data,
                      .d = a->d,
                      .live = live(c, a->rows),
                      .rows = row_count(c, a->rows),
                      .eps = a->eps};
    return k.rows == 0 ? LX_OK : launched(c, lx_cuda_launch_norm(&k, c->target), "norm");
}

static lx_status run_attend(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_attend_linear_args *a = &op->attend;
    int64_t width = (int64_t)a->n_heads * a->d_value;
    lx_cuda_attend k = {.y = a->y->data,
                        .twin = twin(c, op, a->y, LX_ROWS_TOKENS, width),
                        .qkv = a->qkv->data,
                        .states = a->states->data + a->offset,
                        .stride = a->states->stride,
                        .seq_start = input(c, c->seq_start),
                        .slot = input(c, c->slot),
                        .live = &((const lx_cuda_live *)input(c, 0))->seqs,
                        .n_seqs = c->bucket.seqs,
                        .n_heads = a->n_heads,
                        .d_key = a->d_key,
                        .d_value = a->d_value,
                        .eps = a->eps};
    return launched(c, lx_cuda_launch_attend(&k, c->target), "attend_linear");
}

static lx_status run_gather(lx_cuda *c, const lx_gather_args *a)
{
    lx_cuda_gather k = {.y = a->y->data,
                        .x = a->x->data,
                        .row = input(c, c->output_row),
                        .d = a->d,
                        .live = live(c, LX_ROWS_OUTPUTS),
                        .rows = c->bucket.outputs};
    return k.rows == 0 ? LX_OK : launched(c, lx_cuda_launch_gather(&k, c->target), "gather");
}

static lx_status run_sample(lx_cuda *c, const lx_cuda_op *op)
{
    lx_cuda_sample k = {.logits = op->sample.logits->data,
                        .rows = input(c, op->in),
                        .banned = input(c, 0), /* places count from the arenas' beginnings */
                        .biases = input(c, 0),
                        .top = (void *)c->results.device,
                        .bits = c->bits.data,
                        .out = (void *)(c->results.device + op->out),
                        .drawn = op->sample.states != NULL ? op->sample.states->drawn : NULL,
                        .live = live(c, LX_ROWS_OUTPUTS),
                        .n_rows = c->bucket.outputs,
                        .n_ids = op->sample.n_ids};
    return k.n_rows == 0 ? LX_OK : launched(c, lx_cuda_launch_sample(&k, c->target), "sample");
}

static lx_status run_mixture(lx_cuda *c, const lx_cuda_op *op)
{
    lx_cuda_mixture k = {.parameters = op->mixture.parameters->data,
                         .rows = input(c, op->in),
                         .out = (void *)(c->results.device + op->out),
                         .drawn = op->mixture.states != NULL ? op->mixture.states->drawn : NULL,
                         .live = live(c, LX_ROWS_OUTPUTS),
                         .n_rows = c->bucket.outputs,
                         .n = op->mixture.n_components,
                         .levels = op->mixture.n_levels};
    return k.n_rows == 0 ? LX_OK
                         : launched(c, lx_cuda_launch_mixture(&k, c->target), "sample_mixture");
}

lx_status lx_cuda_run_op(lx_cuda *c, const lx_cuda_op *op)
{
    bool ready = c->ready == op;
    c->ready = NULL;
    switch (op->kind) {
    case LX_CUDA_EMBED:
        return run_embed(c, op);
    case LX_CUDA_LINEAR:
        return run_linear(c, op, ready);
    case LX_CUDA_NORM:
        return run_norm(c, op);
    case LX_CUDA_ATTEND:
        return run_attend(c, op);
    case LX_CUDA_GATHER:
        return run_gather(c, &op->gather);
    case LX_CUDA_SAMPLE:
        return run_sample(c, op);
    case LX_CUDA_MIXTURE:
        return run_mixture(c, op);
    }
    return lx_fail(&c->error, LX_ERR_INTERNAL, NULL, "cuda: unknown operation %d", (int)op->kind);
}
