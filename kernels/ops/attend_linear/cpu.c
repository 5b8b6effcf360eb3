#include "kernels/cpu/cpu.h"

#define LATER 3 /* heads; measured: 2 to 4 are alike, 6 gain nothing */

static int64_t head_floats(const lx_attend_linear_args *a)
{
    return (int64_t)a->d_key * a->d_value + a->d_key;
}

/* The state of a head of a sequence. */
static float *head_state(const lx_cpu *c, const lx_attend_linear_args *a, int32_t seq, int64_t head)
{
    return a->states->data + c->batch->slot[seq] * a->states->stride + a->offset +
           head * head_floats(a);
}

/* The state `heads` after it in a piece that ends before sequence seq1. */
static const float *state_after(const lx_cpu *c, const lx_attend_linear_args *a, int32_t seq,
                                int64_t head, int64_t heads, int32_t seq1)
{
    int64_t at = head + heads, then = seq + at / a->n_heads;
    return then < seq1 ? head_state(c, a, (int32_t)then, at % a->n_heads) : NULL;
}

/* Rows row .. row + n_tokens - 1 of a head, whose state is s. */
static void attend_run(const lx_cpu *c, const lx_attend_linear_args *a, int64_t row,
                       int64_t n_tokens, int64_t head, float *s, const lx_cpu_attend_linear *ahead)
{
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value;
    int64_t x_stride = n * (2 * dk + dv), y_stride = n * dv;
    const float *x = a->qkv->data + row * x_stride;
    lx_cpu_attend_linear job = {
        .q = x + head * dk,
        .k = x + n * dk + head * dk,
        .v = x + 2 * n * dk + head * dv,
        .y = a->y->data + row * y_stride + head * dv,
        .s = s,
        .z = s + dk * dv,
        .next = ahead->next,
        .later = ahead->later,
        .n_tokens = n_tokens,
        .x_stride = x_stride,
        .y_stride = y_stride,
        .d_key = a->d_key,
        .d_value = a->d_value,
        .feature_map = a->feature_map,
        .eps = a->eps,
        .scratch = ahead->scratch,
    };
    c->isa->attend_linear(&job);
}

static void attend_head(const lx_cpu *c, const lx_attend_linear_args *a, int32_t seq, int64_t head,
                        const float *next, const float *later, float *scratch)
{
    const lx_batch *b = c->batch;
    int64_t row = b->seq_start[seq], own = lx_batch_own_rows(b, seq);
    lx_cpu_attend_linear ahead = {.next = next, .later = later, .scratch = scratch};
    attend_run(c, a, row, own, head, head_state(c, a, seq, head), &ahead);
    if (row + own == b->seq_start[seq + 1])
        return;
    int64_t size = head_floats(a);
    float *branch = lx_host_branch(a->states, b, seq, a->offset + head * size, size);
    attend_run(c, a, row + own, b->seq_start[seq + 1] - row - own, head, branch, &ahead);
}

/*
 * The work is laid out as sequence after sequence, head after head, each as long as its tokens; a
 * piece has the heads that begin in its share of that line.
 */
static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_attend_linear_args *a = args;
    const lx_batch *b = c->batch;
    int64_t heads = a->n_heads;
    lx_cpu_range mine = lx_cpu_share(part->row0 * heads, part->row1 * heads, part);
    for (int32_t seq = part->seq0; seq < part->seq1; seq++) {
        int64_t row = b->seq_start[seq], tokens = b->seq_start[seq + 1] - row;
        for (int64_t h = 0; h < heads; h++) {
            int64_t at = row * heads + h * tokens;
            if (at >= mine.from && at < mine.to)
                attend_head(c, a, seq, h, state_after(c, a, seq, h, 1, part->seq1),
                            state_after(c, a, seq, h, LATER, part->seq1), scratch);
        }
    }
}

static int64_t scratch(const lx_cpu *c, const void *args)
{
    (void)c;
    return lx_cpu_attend_linear_scratch(((const lx_attend_linear_args *)args)->d_key);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return (int64_t)c->batch->n_tokens * ((const lx_attend_linear_args *)args)->n_heads / 4;
}

/* --- by heads --- */

static int64_t count(const void *args)
{
    const lx_attend_linear_args *a = args;
    return a->d_key % LX_CPU_GROUP == 0 && a->d_value % LX_CPU_GROUP == 0 ? a->n_heads : 0;
}

/* qkv lies as at lx_attend_linear_args: the queries of all heads, then the keys, then the values.
 */
static int32_t columns(const void *args, lx_cpu_range heads, lx_cpu_range *groups)
{
    const lx_attend_linear_args *a = args;
    int64_t key = a->d_key / LX_CPU_GROUP, value = a->d_value / LX_CPU_GROUP, n = a->n_heads;
    const int64_t first[] = {0, n * key, 2 * n * key}, width[] = {key, key, value};
    for (int i = 0; i < 3; i++)
        groups[i] =
            (lx_cpu_range){first[i] + heads.from * width[i], first[i] + heads.to * width[i]};
    return 3;
}

static void run_heads(const lx_cpu *c, const void *args, const lx_cpu_part *part, lx_cpu_range mine,
                      float *scratch)
{
    const lx_attend_linear_args *a = args;
    for (int32_t seq = part->seq0; seq < part->seq1; seq++) {
        for (int64_t h = mine.from; h < mine.to; h++)
            attend_head(c, a, seq, h, h + 1 < mine.to ? head_state(c, a, seq, h + 1) : NULL, NULL,
                        scratch);
    }
}

static const lx_cpu_heads heads = {count, columns, run_heads};

const lx_cpu_kind lx_cpu_op_attend_linear = {.op = &lx_op_attend_linear,
                                             .scratch = scratch,
                                             .pieces = pieces,
                                             .pieces_a_thread = 1,
                                             .run = run,
                                             .heads = &heads};
