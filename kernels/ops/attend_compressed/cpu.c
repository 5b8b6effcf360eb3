#include "kernels/cpu/cpu.h"

static void run_head(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_attend_compressed_args *a = args;
    int64_t seq = u->seq, head = u->i;
    const lx_batch *b = c->batch;
    const lx_states *s = a->states;
    int64_t n = a->n_heads, row = b->seq_start[seq], width = n * (2 * a->d_key + a->d_value);
    int64_t key = a->d_key, value = a->d_value, kept = key + value;
    const float *x = a->qkv->data + row * width;
    float *open =
        s->data + b->slot[seq] * s->stride + a->offset + head * kept * (a->first == NULL ? 2 : 1);
    lx_cpu_attend_compressed job = {
        .q = x + head * key,
        .k = x + (n + head) * key,
        .v = x + 2 * n * key + head * value,
        .y = a->y->data + row * n * value + head * value,
        .key = {a->taps_k->data + head * a->factor * key * key, a->bias_k->data + head * key, open,
                a->d_key},
        .value = {a->taps_v->data + head * a->factor * value * value,
                  a->bias_v->data + head * value, open + key, a->d_value},
        .first = a->first != NULL ? a->first->data + head * kept : open + kept,
        .kept_first = a->first != NULL ? NULL : open + kept,
        .rows = s->pool + a->page_offset + head * lx_compressed_rows(a->factor) * kept,
        .pages = s->pages + (int64_t)b->slot[seq] * s->slot_pages,
        .page_stride = s->page_stride,
        .n_tokens = b->seq_start[seq + 1] - row,
        .x_stride = width,
        .y_stride = n * value,
        .position = b->position[seq],
        .d_key = a->d_key,
        .d_value = a->d_value,
        .factor = a->factor,
        .inclusive = a->inclusive,
        .scale = a->scale,
        .scratch = scratch,
    };
    c->isa->attend_compressed(&job);
}

LX_CPU_UNITS_ARE_HEADS(attend_compressed)

static int64_t scratch(const void *args)
{
    const lx_attend_compressed_args *a = args;
    return lx_cpu_attend_compressed_scratch(a->d_key, a->d_value);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_attend_compressed_args *a = args;
    const lx_batch *b = c->batch;
    int64_t work = 0, key = a->d_key, value = a->d_value;
    for (int32_t seq = 0; seq < b->n_seqs; seq++) {
        int64_t tokens = b->seq_start[seq + 1] - b->seq_start[seq];
        int64_t rows = 1 + (b->position[seq] + tokens / 2) / a->factor;
        work += tokens * (key * key + value * value + rows * (key + value));
    }
    return work * a->n_heads / 8192;
}

LX_DEFINE_CPU(attend_compressed, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 4,
              .units = units, .run_unit = run_head);
