#include "kernels/cpu/cpu.h"

static void run_rows(const lx_cpu *c, const lx_token_shift_args *a, int64_t row, int64_t n_tokens,
                     int64_t column, int32_t slot)
{
    lx_cpu_token_shift job = {
        .x = a->x->data + row * a->d + column,
        .mixes = a->mixes->data + column,
        .state = a->states->data + slot * a->states->stride + a->offset + column,
        .n_tokens = n_tokens,
        .d = a->d,
        .columns = lx_cpu_columns_from(a->d, column),
        .n_mixes = a->n_mixes,
    };
    for (int32_t i = 0; i < a->n_mixes; i++)
        job.y[i] = a->y[i]->data + row * a->d + column;
    c->isa->token_shift(&job);
}

/* Some columns of a sequence. */
static void run_columns(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_token_shift_args *a = args;
    int32_t seq = u->seq;
    int64_t unit = u->i;
    const lx_batch *b = c->batch;
    int64_t row = b->seq_start[seq], own = lx_batch_own_rows(b, seq),
            column = unit * LX_CPU_COLUMNS;
    int64_t rest = b->seq_start[seq + 1] - row - own;
    (void)scratch;
    run_rows(c, a, row, own, column, b->slot[seq]);
    if (rest == 0)
        return;
    (void)lx_host_branch(a->states, b, seq, a->offset + column, lx_cpu_columns_from(a->d, column));
    run_rows(c, a, row + own, rest, column, b->branch[seq]);
}

static int64_t units(const void *args)
{
    return lx_cpu_tiles(((const lx_token_shift_args *)args)->d);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_token_shift_args *a = args;
    return (int64_t)c->batch->n_tokens * a->d * a->n_mixes / 2048;
}

LX_DEFINE_CPU(token_shift, .pieces = pieces, .pieces_a_thread = 1, .units = units,
              .run_unit = run_columns);
