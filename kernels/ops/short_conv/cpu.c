#include "kernels/cpu/cpu.h"

static void run_rows(const lx_cpu *c, const lx_short_conv_args *a, int64_t row, int64_t n_tokens,
                     int64_t column, int32_t slot)
{
    lx_cpu_short_conv job = {
        .y = a->y->data + row * a->d + column,
        .x = {lx_columns_at(&a->x, row, column), a->x.width},
        .weights = a->weights->data + column,
        .bias = lx_array_at(a->bias, column),
        .state = a->states->data + slot * a->states->stride + a->offset + column,
        .n_tokens = n_tokens,
        .d = a->d,
        .columns = lx_cpu_columns_from(a->d, column),
        .taps = a->taps,
        .f = a->f,
    };
    c->isa->short_conv(&job);
}

/* Some channels of a sequence. */
static void run_columns(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_short_conv_args *a = args;
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
    for (int64_t tap = 0; tap + 1 < a->taps; tap++)
        (void)lx_host_branch(a->states, b, seq, a->offset + tap * a->d + column,
                             lx_cpu_columns_from(a->d, column));
    run_rows(c, a, row + own, rest, column, b->branch[seq]);
}

static int64_t units(const void *args)
{
    return lx_cpu_tiles(((const lx_short_conv_args *)args)->d);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return (int64_t)c->batch->n_tokens * ((const lx_short_conv_args *)args)->d / 512;
}

LX_DEFINE_CPU(short_conv, .pieces = pieces, .pieces_a_thread = 1, .units = units,
              .run_unit = run_columns);
