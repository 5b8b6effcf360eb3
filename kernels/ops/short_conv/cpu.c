#include "kernels/cpu/cpu.h"

#define COLUMNS 64 /* that are dealt out at a time */

/* Some channels of a sequence, from `column` on. */
static void run_columns(const lx_cpu *c, const lx_short_conv_args *a, int32_t seq, int64_t column)
{
    const lx_batch *b = c->batch;
    int64_t row = b->seq_start[seq], left = a->d - column;
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

/* The work is laid out as sequence after sequence, of each some channels after the others, each as
   long as its tokens; a piece has what begins in its share of that line. */
static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_short_conv_args *a = args;
    const lx_batch *b = c->batch;
    int64_t n = (a->d + COLUMNS - 1) / COLUMNS;
    lx_cpu_range mine = lx_cpu_share(part->row0 * n, part->row1 * n, part);
    (void)scratch;
    for (int32_t seq = part->seq0; seq < part->seq1; seq++) {
        int64_t row = b->seq_start[seq], tokens = b->seq_start[seq + 1] - row;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = row * n + i * tokens;
            if (at >= mine.from && at < mine.to)
                run_columns(c, a, seq, i * COLUMNS);
        }
    }
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return (int64_t)c->batch->n_tokens * ((const lx_short_conv_args *)args)->d / 512;
}

const lx_cpu_kind lx_cpu_op_short_conv = {
    .op = &lx_op_short_conv, .pieces = pieces, .pieces_a_thread = 1, .run = run};
