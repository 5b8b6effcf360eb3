#include "kernels/cpu/cpu.h"

/* Some columns of a sequence, from `column` on. */
static void run_columns(const lx_cpu *c, const void *args, int32_t seq, int64_t column, int32_t n)
{
    const lx_token_shift_args *a = args;
    const lx_batch *b = c->batch;
    int64_t row = b->seq_start[seq];
    lx_cpu_shift job = {
        .x = a->x->data + row * a->d + column,
        .mixes = a->mixes->data + column,
        .state = a->states->data + b->slot[seq] * a->states->stride + a->offset + column,
        .n_tokens = b->seq_start[seq + 1] - row,
        .d = a->d,
        .columns = n,
        .n_mixes = a->n_mixes,
    };
    for (int32_t i = 0; i < a->n_mixes; i++)
        job.y[i] = a->y[i]->data + row * a->d + column;
    c->isa->token_shift(&job);
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    (void)scratch;
    lx_cpu_deal_columns(c, args, part, ((const lx_token_shift_args *)args)->d, run_columns);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_token_shift_args *a = args;
    return (int64_t)c->batch->n_tokens * a->d * a->n_mixes / 2048;
}

const lx_cpu_kind lx_cpu_op_token_shift = {
    .op = &lx_op_token_shift, .pieces = pieces, .pieces_a_thread = 1, .run = run};
