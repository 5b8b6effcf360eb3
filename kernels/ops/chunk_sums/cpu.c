#include "kernels/cpu/cpu.h"

#define COLUMNS 64 /* that are dealt out at a time */

static lx_cpu_inputs inputs(const lx_columns *c, int64_t row)
{
    return (lx_cpu_inputs){c->array->data + row * c->width + c->first, c->width};
}

/* Some columns of a sequence. */
static void run_columns(const lx_cpu *c, const void *args, int32_t seq, int64_t unit,
                        float *scratch)
{
    const lx_chunk_sums_args *a = args;
    const lx_batch *b = c->batch;
    (void)scratch;
    int64_t row = b->seq_start[seq], column = unit * COLUMNS, left = a->d_value - column;
    lx_cpu_chunk_sums job = {
        .q = inputs(&a->q, row),
        .k = inputs(&a->k, row),
        .v = inputs(&a->v, row),
        .y = a->y->data + row * a->d_value + column,
        .s = a->states->data + b->slot[seq] * a->states->stride + a->offset + column,
        .n_tokens = b->seq_start[seq + 1] - row,
        .position = b->position[seq],
        .d_key = a->d_key,
        .d_value = a->d_value,
        .columns = (int32_t)(left < COLUMNS ? left : COLUMNS),
        .chunk = a->chunk,
        .scale = a->scale,
    };
    job.v.at += column;
    c->isa->chunk_sums(&job);
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_chunk_sums_args *a = args;
    lx_cpu_run_units(c, args, part, (a->d_value + COLUMNS - 1) / COLUMNS, run_columns, scratch);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_chunk_sums_args *a = args;
    return (int64_t)c->batch->n_tokens * ((a->d_value + COLUMNS - 1) / COLUMNS) * a->d_key / 128;
}

const lx_cpu_kind lx_cpu_op_chunk_sums = {
    .op = &lx_op_chunk_sums, .pieces = pieces, .pieces_a_thread = 1, .run = run};
