#include "kernels/cpu/cpu.h"

static void run_columns(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_chunk_sums_args *a = args;
    int64_t seq = u->seq, unit = u->i;
    const lx_batch *b = c->batch;
    (void)scratch;
    int64_t row = b->seq_start[seq], column = unit * LX_CPU_COLUMNS;
    lx_cpu_chunk_sums job = {
        .q = {lx_columns_at(&a->q, row, 0), a->q.width},
        .k = {lx_columns_at(&a->k, row, 0), a->k.width},
        .v = {lx_columns_at(&a->v, row, column), a->v.width},
        .y = a->y->data + row * a->d_value + column,
        .s = a->states->data + b->slot[seq] * a->states->stride + a->offset + column,
        .n_tokens = b->seq_start[seq + 1] - row,
        .position = b->position[seq],
        .d_key = a->d_key,
        .d_value = a->d_value,
        .columns = lx_cpu_columns_from(a->d_value, column),
        .chunk = a->chunk,
        .scale = a->scale,
    };
    c->isa->chunk_sums(&job);
}

static int64_t units(const void *args)
{
    return lx_cpu_tiles(((const lx_chunk_sums_args *)args)->d_value);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_chunk_sums_args *a = args;
    return (int64_t)c->batch->n_tokens * lx_cpu_tiles(a->d_value) * a->d_key / 128;
}

LX_DEFINE_CPU(chunk_sums, .pieces = pieces, .units = units, .run_unit = run_columns);
