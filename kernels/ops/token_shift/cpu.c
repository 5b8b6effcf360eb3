#include "kernels/cpu/cpu.h"

static void run_rows(const lx_cpu *c, const void *args, int64_t row, int64_t n_tokens,
                     int64_t column, int32_t slot)
{
    const lx_token_shift_args *a = args;
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

static void run_columns(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_token_shift_args *a = args;
    (void)scratch;
    lx_cpu_run_columns(c, a, u, run_rows, a->states, a->offset, 1, a->d);
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

LX_DEFINE_CPU(token_shift, .pieces = pieces, .units = units, .run_unit = run_columns);
