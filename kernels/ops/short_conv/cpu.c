#include "kernels/cpu/cpu.h"

#define COLUMNS 64 /* that are dealt out at a time */

/* Some channels of a sequence. */
static void run_columns(const lx_cpu *c, const void *args, int32_t seq, int64_t unit,
                        float *scratch)
{
    const lx_short_conv_args *a = args;
    const lx_batch *b = c->batch;
    (void)scratch;
    int64_t row = b->seq_start[seq], column = unit * COLUMNS, left = a->d - column;
    lx_cpu_conv job = {
        .y = a->y->data + row * a->d + column,
        .x = {a->x.array->data + row * a->x.width + a->x.first + column, a->x.width},
        .weights = a->weights->data + column,
        .bias = a->bias != NULL ? a->bias->data + column : NULL,
        .state = a->states->data + b->slot[seq] * a->states->stride + a->offset + column,
        .n_tokens = b->seq_start[seq + 1] - row,
        .d = a->d,
        .columns = (int32_t)(left < COLUMNS ? left : COLUMNS),
        .taps = a->taps,
        .f = a->f,
    };
    c->isa->short_conv(&job);
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_short_conv_args *a = args;
    lx_cpu_run_units(c, args, part, (a->d + COLUMNS - 1) / COLUMNS, run_columns, scratch);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return (int64_t)c->batch->n_tokens * ((const lx_short_conv_args *)args)->d / 512;
}

const lx_cpu_kind lx_cpu_op_short_conv = {
    .op = &lx_op_short_conv, .pieces = pieces, .pieces_a_thread = 1, .run = run};
