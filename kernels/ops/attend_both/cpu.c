#include "kernels/cpu/cpu.h"

static void run_head(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_attend_both_args *a = args;
    const lx_batch *b = c->batch;
    int64_t row = b->seq_start[u->seq], size = (int64_t)a->d_key * a->d_value + a->d_key;
    float *s = a->states->data + b->slot[u->seq] * a->states->stride + a->offset + u->i * size;
    lx_cpu_attend_both job =
        lx_cpu_attend_linear_of(a, row, b->seq_start[u->seq + 1] - row, u->i, s, scratch);
    c->isa->attend_both(&job);
}

LX_CPU_UNITS_ARE_HEADS(attend_both)

static int64_t scratch(const void *args)
{
    return lx_cpu_attend_linear_scratch(((const lx_attend_both_args *)args)->d_key);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return (int64_t)c->batch->n_tokens * ((const lx_attend_both_args *)args)->n_heads / 4;
}

LX_DEFINE_CPU(attend_both, .scratch = scratch, .pieces = pieces, .units = units,
              .run_unit = run_head);
