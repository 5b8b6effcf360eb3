#include <string.h>

#include "kernels/cpu/cpu.h"

/*
 * Rows of a wide state lie so far apart that they compete for a few sets of the first-level cache.
 * With many tokens some columns are copied side by side, so many that they stay in that cache.
 */
#define CLOSE_COLUMNS 32
#define LEAST_TOKENS 8 /* to copy them */

typedef struct place {
    int32_t seq;
    int64_t head, column;
} place;

static int64_t tiles(const lx_recurrence_args *a)
{
    return lx_cpu_tiles(a->d_value);
}

static place place_of(const lx_recurrence_args *a, const lx_cpu_unit *u)
{
    return (place){u->seq, u->i / tiles(a), u->i % tiles(a) * LX_CPU_COLUMNS};
}

static float *state_at(const lx_cpu *c, const lx_recurrence_args *a, place p)
{
    return a->states->data + c->batch->slot[p.seq] * a->states->stride + a->offset +
           p.head * a->d_key * a->d_value + p.column;
}

/* The inputs of a head from token row `row` on. */
static lx_cpu_inputs inputs(const lx_head_columns *c, int64_t row, int64_t head)
{
    if (c->array == NULL)
        return (lx_cpu_inputs){NULL, 0};
    return (lx_cpu_inputs){c->array->data + row * c->width + c->first + head / c->shared * c->apart,
                           c->width};
}

static lx_cpu_inputs decays(const lx_recurrence_args *a, int64_t row, int64_t head)
{
    if (a->decay == LX_DECAY_NONE)
        return (lx_cpu_inputs){NULL, 0};
    if (a->decay == LX_DECAY_FIXED)
        return (lx_cpu_inputs){inputs(&a->w, 0, head).at, 0};
    return inputs(&a->w, row, head);
}

static void copy_columns(float *to, int64_t to_stride, const float *from, int64_t from_stride,
                         int64_t rows, int64_t columns)
{
    for (int64_t d = 0; d < rows; d++)
        memcpy(to + d * to_stride, from + d * from_stride, (size_t)columns * sizeof *to);
}

/* The job's columns, in order, in `close` [d_key, CLOSE_COLUMNS]. */
static void run_close(const lx_cpu *c, const lx_cpu_recurrence *job, float *close)
{
    for (int32_t m = 0; m < job->columns; m += CLOSE_COLUMNS) {
        lx_cpu_recurrence part = *job;
        float *s = job->s + m;
        part.columns = job->columns - m < CLOSE_COLUMNS ? job->columns - m : CLOSE_COLUMNS;
        part.v.at += m;
        part.y += m;
        part.s = close;
        part.d_value = CLOSE_COLUMNS;
        part.next = NULL;
        copy_columns(close, CLOSE_COLUMNS, s, job->d_value, job->d_key, part.columns);
        c->isa->recurrence(&part);
        copy_columns(s, job->d_value, close, CLOSE_COLUMNS, job->d_key, part.columns);
    }
}

/* Rows row .. row + n_tokens - 1, whose state is s. */
static void run_rows(const lx_cpu *c, const lx_recurrence_args *a, place p, int64_t row,
                     int64_t n_tokens, float *s, const float *next, float *scratch)
{
    int64_t y_stride = (int64_t)a->n_heads * a->d_value;
    bool pair = a->correction == LX_CORRECT_PAIR;
    lx_cpu_recurrence job = {
        .q = inputs(&a->q, row, p.head),
        .k = inputs(&a->k, row, p.head),
        .v = inputs(&a->v, row, p.head),
        .w = decays(a, row, p.head),
        .a = pair ? inputs(&a->a, row, p.head) : (lx_cpu_inputs){NULL, 0},
        .b = pair ? inputs(&a->b, row, p.head) : (lx_cpu_inputs){NULL, 0},
        .beta = inputs(&a->beta, row, p.head),
        .bonus = lx_array_at(a->bonus, p.head * a->d_key),
        .y = a->y->data + row * y_stride + p.head * a->d_value + p.column,
        .s = s,
        .next = next,
        .n_tokens = n_tokens,
        .y_stride = y_stride,
        .d_key = a->d_key,
        .d_value = a->d_value,
        .columns = lx_cpu_columns_from(a->d_value, p.column),
        .decay = a->decay == LX_DECAY_FIXED ? LX_DECAY_HEAD : a->decay,
        .correction = a->correction,
        .read = a->read,
        .scale = a->scale,
        .skip = a->skip != NULL ? a->skip->data[p.head] : 0.0f,
        .scratch = scratch,
    };
    job.v.at += p.column;
    if (n_tokens >= LEAST_TOKENS && a->d_value > LX_CPU_COLUMNS)
        run_close(c, &job, scratch + lx_cpu_recurrence_products(a->d_key));
    else
        c->isa->recurrence(&job);
}

/* The state of these columns in the sequence's branch, copied from its slot. */
static float *branch_of(const lx_cpu *c, const lx_recurrence_args *a, place p)
{
    const float *from = state_at(c, a, p);
    const lx_batch *b = c->batch;
    float *to = a->states->data + (from - a->states->data) +
                (b->branch[p.seq] - (int64_t)b->slot[p.seq]) * a->states->stride;
    size_t bytes = (size_t)lx_cpu_columns_from(a->d_value, p.column) * sizeof *to;
    for (int64_t d = 0; d < a->d_key; d++)
        memcpy(to + d * a->d_value, from + d * a->d_value, bytes);
    return to;
}

static void run_place(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_recurrence_args *a = args;
    const lx_batch *b = c->batch;
    const lx_cpu_unit then = lx_cpu_unit_after(u, 1);
    const float *next = then.seq < then.seq1 ? state_at(c, a, place_of(a, &then)) : NULL;
    place p = place_of(a, u);
    int64_t row = b->seq_start[p.seq], own = lx_batch_own_rows(b, p.seq);
    int64_t rest = b->seq_start[p.seq + 1] - row - own;
    run_rows(c, a, p, row, own, state_at(c, a, p), next, scratch);
    if (rest > 0)
        run_rows(c, a, p, row + own, rest, branch_of(c, a, p), next, scratch);
}

static int64_t units(const void *args)
{
    const lx_recurrence_args *a = args;
    return a->n_heads * tiles(a);
}

static int64_t scratch(const void *args)
{
    int64_t d_key = ((const lx_recurrence_args *)args)->d_key;
    return lx_cpu_recurrence_products(d_key) + d_key * CLOSE_COLUMNS;
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_recurrence_args *a = args;
    return (int64_t)c->batch->n_tokens * a->n_heads * tiles(a) * a->d_key / 128;
}

LX_DEFINE_CPU(recurrence, .scratch = scratch, .pieces = pieces, .units = units,
              .run_unit = run_place);
