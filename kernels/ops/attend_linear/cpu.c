#include "kernels/cpu/cpu.h"

#define LATER 3 /* heads; measured: 2 to 4 are alike, 6 gain nothing */

static int64_t head_floats(const lx_attend_linear_args *a)
{
    return (int64_t)a->d_key * a->d_value + a->d_key;
}

static float *head_state(const lx_cpu *c, const lx_attend_linear_args *a, int32_t seq, int64_t head)
{
    return a->states->data + c->batch->slot[seq] * a->states->stride + a->offset +
           head * head_floats(a);
}

/* The state that a piece takes `heads` heads later. */
static const float *state_after(const lx_cpu *c, const lx_attend_linear_args *a,
                                const lx_cpu_unit *head, int64_t heads)
{
    lx_cpu_unit then = lx_cpu_unit_after(head, heads);
    return then.seq < then.seq1 ? head_state(c, a, then.seq, then.i) : NULL;
}

static void attend_head(const lx_cpu *c, const lx_attend_linear_args *a, int32_t seq, int64_t head,
                        const float *next, const float *later, float *scratch)
{
    const lx_batch *b = c->batch;
    int64_t row = b->seq_start[seq], own = lx_batch_own_rows(b, seq), size = head_floats(a);
    int64_t rest = b->seq_start[seq + 1] - row - own;
    lx_cpu_attend_linear job =
        lx_cpu_attend_linear_of(a, row, own, head, head_state(c, a, seq, head), scratch);
    job.next = next;
    job.later = later;
    c->isa->attend_linear(&job);
    if (rest == 0)
        return;
    float *branch = lx_host_branch(a->states, b, seq, a->offset + head * size, size);
    job = lx_cpu_attend_linear_of(a, row + own, rest, head, branch, scratch);
    job.next = next;
    job.later = later;
    c->isa->attend_linear(&job);
}

static void run_unit(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    attend_head(c, args, u->seq, u->i, state_after(c, args, u, 1), state_after(c, args, u, LATER),
                scratch);
}

LX_CPU_UNITS_ARE_HEADS(attend_linear)

static int64_t scratch(const void *args)
{
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

static int32_t columns(const void *args, lx_cpu_range heads, lx_cpu_range *groups)
{
    const lx_attend_linear_args *a = args;
    return lx_cpu_qkv_columns(a->n_heads, a->n_heads, a->d_key, a->d_value, heads, groups);
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

LX_DEFINE_CPU(attend_linear, .scratch = scratch, .pieces = pieces, .units = units,
              .run_unit = run_unit, .heads = &heads);
