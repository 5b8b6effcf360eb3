#include "kernels/cpu/cpu.h"

static void run_head(const lx_cpu *c, const void *args, int32_t seq, int64_t head, float *scratch)
{
    const lx_attend_both_args *a = args;
    const lx_batch *b = c->batch;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value, row = b->seq_start[seq];
    int64_t x_stride = n * (2 * dk + dv), y_stride = n * dv;
    const float *x = a->qkv->data + row * x_stride;
    float *s =
        a->states->data + b->slot[seq] * a->states->stride + a->offset + head * (dk * dv + dk);
    lx_cpu_attend_linear job = {
        .q = x + head * dk,
        .k = x + n * dk + head * dk,
        .v = x + 2 * n * dk + head * dv,
        .y = a->y->data + row * y_stride + head * dv,
        .s = s,
        .z = s + dk * dv,
        .n_tokens = b->seq_start[seq + 1] - row,
        .x_stride = x_stride,
        .y_stride = y_stride,
        .d_key = a->d_key,
        .d_value = a->d_value,
        .feature_map = a->feature_map,
        .eps = a->eps,
        .scratch = scratch,
    };
    c->isa->attend_both(&job);
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    lx_cpu_run_units(c, args, part, ((const lx_attend_both_args *)args)->n_heads, run_head,
                     scratch);
}

static int64_t scratch(const lx_cpu *c, const void *args)
{
    (void)c;
    return lx_cpu_attend_linear_scratch(((const lx_attend_both_args *)args)->d_key);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return (int64_t)c->batch->n_tokens * ((const lx_attend_both_args *)args)->n_heads / 4;
}

const lx_cpu_kind lx_cpu_op_attend_both = {.op = &lx_op_attend_both,
                                           .scratch = scratch,
                                           .pieces = pieces,
                                           .pieces_a_thread = 1,
                                           .run = run};
