#include "kernels/cpu/cpu.h"

static void run_head(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_attend_whole_args *a = args;
    int64_t seq = u->seq, head = u->i;
    bool hashed = a->hashes != NULL;
    int64_t row = c->batch->seq_start[seq], n = a->n_heads, dk = a->d_key, dv = a->d_value;
    int64_t keys = hashed ? 0 : n * dk, width = n * (dk + dv) + keys;
    int64_t own = hashed ? lx_whole_sorted(a->rounds) : 0;
    const float *x = a->qkv->data + row * width;
    c->isa->attend_whole(&(lx_cpu_attend_whole){
        .q = x + head * dk,
        .k = x + keys + head * dk,
        .v = x + keys + n * dk + head * dv,
        .hashes = hashed ? a->hashes->data : NULL,
        .y = a->y->data + row * n * dv + head * dv,
        .sorted = hashed ? a->sorted->data + (row * n + head) * own : NULL,
        .n_tokens = c->batch->seq_start[seq + 1] - row,
        .x_stride = width,
        .y_stride = n * dv,
        .sorted_stride = n * own,
        .d_key = a->d_key,
        .d_value = a->d_value,
        .rounds = a->rounds,
        .n_buckets = a->n_buckets,
        .chunk = a->chunk,
        .scale = a->scale,
        .scratch = scratch,
    });
}

LX_CPU_UNITS_ARE_HEADS(attend_whole)

static int64_t scratch(const void *args)
{
    const lx_attend_whole_args *a = args;
    if (a->hashes != NULL)
        return lx_cpu_attend_lsh_scratch(a->rounds, a->n_buckets, 3 * (int64_t)a->chunk,
                                         a->d_value);
    return lx_cpu_attend_whole_scratch(a->d_key, a->d_value);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return (int64_t)c->batch->n_tokens * ((const lx_attend_whole_args *)args)->n_heads;
}

LX_DEFINE_CPU(attend_whole, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 4,
              .units = units, .run_unit = run_head);
