#include "kernels/op.h"

static lx_status check(const void *args, lx_error *err)
{
    const lx_sample_mixture_args *a = args;
    if (a->n_components < 1 || a->n_components > LX_MIXTURE_MAX_COMPONENTS || a->n_levels < 2 ||
        a->n_levels > LX_MIXTURE_MAX_LEVELS)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample_mixture: %d components, %d levels",
                       a->n_components, a->n_levels);
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_sample_mixture_args *a = args;
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "parameters", a->parameters,
                                 3 * (int64_t)a->n_components, LX_ROWS_OUTPUTS};
    u->states = a->states;
    u->branches = true;
}

static lx_status check_rows(const lx_batch *b, const void *args, lx_error *err)
{
    const lx_sample_mixture_args *a = args;
    for (int32_t i = 0; i < b->n_outputs; i++) {
        const lx_sampling *s = &a->rows[i];
        if (!(s->temperature >= 0) || !isfinite(s->temperature))
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample_mixture: temperature %g",
                           (double)s->temperature);
        if (s->forced < -1 || s->forced >= a->n_levels)
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample_mixture: forced level %d of %d",
                           s->forced, a->n_levels);
    }
    return LX_OK;
}

static lx_drawing drawing(const void *args)
{
    const lx_sample_mixture_args *a = args;
    return (lx_drawing){a->rows, a->out, a->states};
}

LX_DEFINE_OP(sample_mixture, .check = check, .uses = uses, .check_rows = check_rows,
             .drawing = drawing);
