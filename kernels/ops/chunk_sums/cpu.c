#include "kernels/cpu/cpu.h"

#define COLUMNS 64 /* that are dealt out at a time */

static lx_cpu_inputs inputs(const lx_columns *c, int64_t row)
{
    return (lx_cpu_inputs){c->array->data + row * c->width + c->first, c->width};
}

/* Some columns of a sequence, from `column` on. */
static void run_columns(const lx_cpu *c, const lx_chunk_sums_args *a, int32_t seq, int64_t column)
{
    const lx_batch *b = c->batch;
    int64_t row = b->seq_start[seq], left = a->d_value - column;
    lx_cpu_chunks_job job = {
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

/* The work is laid out as sequence after sequence, of each some columns after the others, each as
   long as its tokens; a piece has what begins in its share of that line. */
static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_chunk_sums_args *a = args;
    const lx_batch *b = c->batch;
    int64_t n = (a->d_value + COLUMNS - 1) / COLUMNS;
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
    const lx_chunk_sums_args *a = args;
    return (int64_t)c->batch->n_tokens * ((a->d_value + COLUMNS - 1) / COLUMNS) * a->d_key / 128;
}

const lx_cpu_kind lx_cpu_op_chunk_sums = {
    .op = &lx_op_chunk_sums, .pieces = pieces, .pieces_a_thread = 1, .run = run};
