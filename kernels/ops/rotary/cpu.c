#include "kernels/cpu/cpu.h"

static void run_row(const lx_cpu *c, const lx_rotary_args *a, int64_t row, int32_t position,
                    float *scratch)
{
    lx_cpu_rotary job = {.x = a->x->data + row * a->width + a->first,
                         .scratch = scratch,
                         .d = a->d,
                         .apart = a->apart,
                         .n_heads = a->n_heads};
    for (int32_t level = 0; level < LX_ROTARY_LEVELS; level++, position /= LX_ROTARY_STEPS)
        job.turns[level] =
            a->turns->data + ((int64_t)level * LX_ROTARY_STEPS + position % LX_ROTARY_STEPS) * a->d;
    c->isa->rotary(&job);
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_rotary_args *a = args;
    const lx_batch *b = c->batch;
    lx_cpu_range mine = lx_cpu_shared_rows(part, LX_ROWS_TOKENS);
    for (int32_t seq = part->seq0; seq < part->seq1; seq++) {
        int64_t from = b->seq_start[seq], to = b->seq_start[seq + 1];
        for (int64_t row = from > mine.from ? from : mine.from; row < to && row < mine.to; row++)
            run_row(c, a, row, b->position[seq] + (int32_t)(row - from), scratch);
    }
}

static int64_t scratch(const void *args)
{
    return ((const lx_rotary_args *)args)->d;
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_rotary_args *a = args;
    return (int64_t)c->batch->n_tokens * (a->n_heads + 1) * a->d / 2048;
}

LX_DEFINE_CPU(rotary, .scratch = scratch, .pieces = pieces, .is_by_rows = true, .run = run);
