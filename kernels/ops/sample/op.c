#include "kernels/op.h"

bool lx_bias_is_valid(const lx_bias *b)
{
    float d = b->divisor;
    return fabsf(b->add) <= LX_MAX_BIAS &&
           (d == 0 || (d * LX_MAX_DIVISOR >= 1 && d <= LX_MAX_DIVISOR));
}

bool lx_sampling_cuts_are_valid(const lx_sampling *s)
{
    return s->temperature >= 0 && isfinite(s->temperature) && s->top_p > 0 && s->top_k >= 0 &&
           s->min_p >= 0 && s->min_p <= 1 && s->typical_p >= 0;
}

static lx_status check_biases(const lx_sampling *s, int32_t n_ids, lx_error *err)
{
    int32_t last = -1;
    for (int32_t i = 0; i < s->n_biases; i++) {
        if (s->biases[i].id <= last || s->biases[i].id >= n_ids)
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample: biases[%d] is for id %d of %d", i,
                           s->biases[i].id, n_ids);
        if (!lx_bias_is_valid(&s->biases[i]))
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample: biases[%d] is %g, divisor %g", i,
                           (double)s->biases[i].add, (double)s->biases[i].divisor);
        last = s->biases[i].id;
    }
    return LX_OK;
}

static lx_status check_sampling(const lx_sampling *s, int32_t n_ids, lx_error *err)
{
    if (!lx_sampling_cuts_are_valid(s))
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "sample: temperature %g, top_p %g, top_k %d, min_p %g, typical_p %g",
                       (double)s->temperature, (double)s->top_p, s->top_k, (double)s->min_p,
                       (double)s->typical_p);
    if (s->forced < -1 || s->forced >= n_ids)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample: forced id %d of %d", s->forced, n_ids);
    if (s->mask != NULL && s->mask->n_ids != n_ids)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample: the mask has %d ids, not %d",
                       s->mask->n_ids, n_ids);
    for (int32_t i = 0; i < s->n_banned; i++) {
        if (s->banned[i] < 0 || s->banned[i] >= n_ids)
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample: banned id %d of %d", s->banned[i],
                           n_ids);
    }
    if (s->n_top < 0 || s->n_top > LX_MAX_TOP || s->n_top > n_ids)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample: the top %d of %d ids", s->n_top, n_ids);
    return check_biases(s, n_ids, err);
}

static void uses(const void *args, lx_uses *u)
{
    const lx_sample_args *a = args;
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "logits", a->logits, a->n_ids, LX_ROWS_OUTPUTS};
    u->states = a->states;
    u->branches = true;
}

static lx_status check_rows(const lx_batch *b, const void *args, lx_error *err)
{
    const lx_sample_args *a = args;
    lx_status st = LX_OK;
    for (int32_t i = 0; st == LX_OK && i < b->n_outputs; i++)
        st = check_sampling(&a->rows[i], a->n_ids, err);
    return st;
}

static lx_drawing drawing(const void *args)
{
    const lx_sample_args *a = args;
    return (lx_drawing){a->rows, a->out, a->states};
}

LX_DEFINE_OP(sample, .uses = uses, .check_rows = check_rows, .drawing = drawing);
