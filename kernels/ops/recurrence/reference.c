#include "kernels/reference/reference.h"

/* What head h reads of token row t. */
static const float *columns(const lx_head_columns *c, int64_t t, int64_t h)
{
    return c->array->data + t * c->width + c->first + h / c->shared * c->apart;
}

/* Of one token of one head. */
typedef struct inputs {
    const float *q, *k, *v, *w, *a, *b, *bonus;
    double beta, skip;
} inputs;

static inputs inputs_of(const lx_recurrence_args *a, int64_t t, int64_t h)
{
    bool pair = a->correction == LX_CORRECT_PAIR;
    return (inputs){
        .q = columns(&a->q, t, h),
        .k = columns(&a->k, t, h),
        .v = columns(&a->v, t, h),
        .w = a->decay == LX_DECAY_NONE ? NULL
                                       : columns(&a->w, a->decay == LX_DECAY_FIXED ? 0 : t, h),
        .a = pair ? columns(&a->a, t, h) : NULL,
        .b = pair ? columns(&a->b, t, h) : NULL,
        .bonus = a->bonus != NULL ? a->bonus->data + h * a->d_key : NULL,
        .beta = a->beta.array != NULL ? (double)*columns(&a->beta, t, h) : 1,
        .skip = a->skip != NULL ? (double)a->skip->data[h] : 0,
    };
}

static double decay(const lx_recurrence_args *a, const inputs *in, int32_t d)
{
    if (a->decay == LX_DECAY_NONE)
        return 1;
    return (double)in->w[a->decay == LX_DECAY_CHANNEL ? d : 0];
}

/* Column m of the update; s is its first element, d_value floats before the next. */
static void update(const lx_recurrence_args *a, const inputs *in, float *s, int32_t m)
{
    double p = 0, v = (double)in->v[m];
    for (int32_t d = 0; d < a->d_key; d++) {
        double old = (double)s[(int64_t)d * a->d_value];
        if (a->correction == LX_CORRECT_PAIR)
            p += (double)in->a[d] * old;
        else if (a->correction == LX_CORRECT_DELTA)
            p += (double)in->k[d] * decay(a, in, d) * old;
    }
    double u = in->beta * (a->correction == LX_CORRECT_DELTA ? v - p : v);
    for (int32_t d = 0; d < a->d_key; d++) {
        float *at = s + (int64_t)d * a->d_value;
        double more = a->correction == LX_CORRECT_PAIR ? (double)in->b[d] * p : 0;
        *at = (float)(decay(a, in, d) * (double)*at + more + (double)in->k[d] * u);
    }
}

static double read(const lx_recurrence_args *a, const inputs *in, const float *s, int32_t m)
{
    double sum = 0;
    for (int32_t d = 0; d < a->d_key; d++) {
        double bonus =
            in->bonus != NULL ? (double)in->bonus[d] * (double)in->k[d] * (double)in->v[m] : 0;
        sum += (double)in->q[d] * ((double)s[(int64_t)d * a->d_value] + bonus);
    }
    return (double)a->scale * sum + in->skip * (double)in->v[m];
}

static void token(const lx_recurrence_args *a, const inputs *in, float *s, float *y)
{
    for (int32_t m = 0; m < a->d_value; m++) {
        if (a->read == LX_READ_BEFORE)
            y[m] = (float)read(a, in, s + m, m);
        update(a, in, s + m, m);
        if (a->read == LX_READ_AFTER)
            y[m] = (float)read(a, in, s + m, m);
    }
}

lx_status lx_reference_recurrence(const lx_batch *b, const void *args)
{
    const lx_recurrence_args *a = args;
    int64_t n = a->n_heads, size = (int64_t)a->d_key * a->d_value;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        float *state = a->states->data + b->slot[i] * a->states->stride + a->offset;
        int64_t own = b->seq_start[i] + lx_batch_own_rows(b, i);
        for (int64_t t = b->seq_start[i]; t < b->seq_start[i + 1]; t++) {
            if (t == own)
                state = lx_host_branch(a->states, b, i, a->offset, n * size);
            for (int64_t h = 0; h < n; h++) {
                inputs in = inputs_of(a, t, h);
                token(a, &in, state + h * size, a->y->data + (t * n + h) * a->d_value);
            }
        }
    }
    return LX_OK;
}
