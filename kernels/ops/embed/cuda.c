#include "kernels/cuda/cuda.h"

static lx_status put_tables(lx_cuda *c, const lx_embed_args *a, lx_cuda_op *op)
{
    lx_cuda_table tables[LX_EMBED_MAX_TABLES];
    for (int32_t j = 0; j < a->n_tables; j++)
        tables[j] = (lx_cuda_table){a->tables[j]->data, (int32_t)a->tables[j]->dtype,
                                    (int32_t)a->tables[j]->rows};
    size_t n_bytes = (size_t)a->n_tables * sizeof *tables;
    return lx_cuda_put(c, tables, n_bytes, n_bytes, &op->in);
}

/* An id that stands for a drawn token is -1 - its place in `drawn`. */
static lx_status put_ids(lx_cuda *c, const lx_embed_args *a, lx_cuda_op *op)
{
    size_t row = (size_t)a->n_tables, n = (size_t)c->n_tokens * row;
    lx_status st = lx_cuda_put(c, a->ids, n * sizeof *a->ids,
                               (size_t)c->bucket.tokens * row * sizeof *a->ids, &op->more);
    if (st != LX_OK || a->states == NULL)
        return st;
    int32_t *ids = (void *)(c->inputs.host + op->more);
    const lx_batch *b = c->batch;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        size_t end = (size_t)b->seq_start[i + 1] * row;
        for (size_t j = (size_t)b->seq_start[i] * row; j < end; j++) {
            if (lx_is_drawn_id(ids[j]))
                ids[j] = (int32_t)(-1 - lx_drawn_place_of(b->slot[i], ids[j]));
        }
    }
    return LX_OK;
}

static lx_status record(lx_cuda *c, lx_cuda_op *op)
{
    lx_status st = put_tables(c, &op->args.embed, op);
    return st == LX_OK ? put_ids(c, &op->args.embed, op) : st;
}

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_embed_args *a = &op->args.embed;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_pair(a->n_tables, a->tables[0]->cols),
                op->in, op->more, lx_cuda_key_address(a->states));
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_embed_args *a = &op->args.embed;
    return LX_CUDA_LAUNCH(
        c, embed, .y = a->y->data, .tables = lx_cuda_input(c, op->in),
        .ids = lx_cuda_input(c, op->more), .drawn = a->states != NULL ? a->states->drawn : NULL,
        .n_tables = a->n_tables, .d = (int32_t)a->tables[0]->cols, LX_CUDA_ROWS(c, LX_ROWS_TOKENS));
}

LX_DEFINE_CUDA(embed, .record = record, .key = key, .run = run);
