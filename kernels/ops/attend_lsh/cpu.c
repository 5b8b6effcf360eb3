#include "kernels/cpu/cpu.h"

static void run_head(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_attend_lsh_args *a = args;
    int64_t seq = u->seq, head = u->i;
    const lx_batch *b = c->batch;
    const lx_states *s = a->states;
    int64_t n = a->n_heads, row = b->seq_start[seq], width = n * (a->d_key + a->d_value);
    const float *x = a->qkv->data + row * width;
    lx_cpu_attend_lsh job = {
        .qk = x + head * a->d_key,
        .v = x + n * a->d_key + head * a->d_value,
        .y = a->y->data + row * n * a->d_value + head * a->d_value,
        .hashes = a->hashes->data,
        .last = s->data + b->slot[seq] * s->stride + a->offset + head * a->rounds * a->n_buckets,
        .rows = s->pool + a->page_offset + head * LX_PAGE_TOKENS * lx_lsh_row(a),
        .pages = s->pages + (int64_t)b->slot[seq] * s->slot_pages,
        .page_stride = s->page_stride,
        .row = lx_lsh_row(a),
        .n_tokens = b->seq_start[seq + 1] - row,
        .x_stride = width,
        .y_stride = n * a->d_value,
        .position = b->position[seq],
        .d_key = a->d_key,
        .d_value = a->d_value,
        .rounds = a->rounds,
        .n_buckets = a->n_buckets,
        .cap = a->cap,
        .scale = a->scale,
        .scratch = scratch,
    };
    c->isa->attend_lsh(&job);
}

LX_CPU_UNITS_ARE_HEADS(attend_lsh)

static int64_t scratch(const void *args)
{
    const lx_attend_lsh_args *a = args;
    return lx_cpu_attend_lsh_scratch(a->rounds, a->n_buckets, a->cap, a->d_value);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_attend_lsh_args *a = args;
    int64_t work = (int64_t)a->rounds * (a->n_buckets / 2 + a->cap) * a->d_key;
    return (int64_t)c->batch->n_tokens * a->n_heads * work / 4096;
}

LX_DEFINE_CPU(attend_lsh, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 4,
              .units = units, .run_unit = run_head);
