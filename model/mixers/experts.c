/*
 * A mixture of experts (Shazeer et al. 2017, "Outrageously Large Neural Networks"), each token by
 * itself. Of E gated feed-forward nets the K = `active` with the greatest p are added:
 *
 *     p = softmax(W_router x)
 *     A(x) = sum of p[e] W_down[e] (silu(W_gate[e] x) * W_up[e] x) over these e
 *
 * The weights p of the K experts are not divided by their sum, as in Jamba.
 * Tensors: ff.router; ff.experts.I.gate, .up and .down of every expert I from 0, products without
 * bias. No state.
 */
#include "model/mixers/recurrent.h"

#define MOST_COLUMNS 262144 /* of the hidden layers of a token's experts together */

static const lx_mixer_param params[] = {
    {.name = "experts", .kind = LX_PARAM_INT, .min = 1, .max = LX_MOST_EXPERTS},
    {.name = "active", .kind = LX_PARAM_INT, .min = 1, .max = LX_MOST_EXPERTS},
};

enum { EXPERTS, ACTIVE };                /* params */
enum { ROUTER, GATE, UP, DOWN };         /* tensors */
enum { ROUTED, CHOICE, OPENED, HIDDEN }; /* scratch */

static const char *check(const lx_mixer_config *c)
{
    if (c->params[ACTIVE].i > c->params[EXPERTS].i)
        return "active must be at most experts";
    return (int64_t)c->params[ACTIVE].i * c->d_ff > MOST_COLUMNS
               ? "active times d_ff must be at most 262144"
               : NULL;
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t n = c->params[EXPERTS].i, active = c->params[ACTIVE].i;
    lx_mixer_add_map(p, "ff.router", n, c->d_model);
    lx_mixer_add_experts(p, "ff.experts.*.gate", n, c->d_ff, c->d_model);
    lx_mixer_add_experts(p, "ff.experts.*.up", n, c->d_ff, c->d_model);
    lx_mixer_add_experts(p, "ff.experts.*.down", n, c->d_model, c->d_ff);
    const int64_t scratch[] = {[ROUTED] = n,
                               [CHOICE] = 2 * (int64_t)active,
                               [OPENED] = (int64_t)active * c->d_ff,
                               [HIDDEN] = (int64_t)active * c->d_ff};
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++)
        lx_mixer_add_scratch(p, scratch[i]);
}

/* The products with the chosen experts, or with `residual` their weighted sum and that. */
static void queue_experts(const lx_mixer_call *call, lx_array *y, const lx_array *x, int32_t weight,
                          const lx_array *residual)
{
    const lx_mixer_config *c = call->config;
    call->be->ops->experts(call->be,
                           &(lx_experts_args){.y = y,
                                              .x = x,
                                              .choice = call->scratch[CHOICE],
                                              .w = call->weights[weight],
                                              .residual = residual,
                                              .n_experts = c->params[EXPERTS].i,
                                              .n_active = c->params[ACTIVE].i,
                                              .n = residual != NULL ? c->d_model : c->d_ff,
                                              .sums = residual != NULL});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t columns = c->params[ACTIVE].i * c->d_ff;
    lx_mixer_product(call, s[ROUTED], call->x, ROUTER, LX_ACT_NONE, NULL);
    call->be->ops->route(call->be, &(lx_route_args){.y = s[CHOICE],
                                                    .x = s[ROUTED],
                                                    .n_experts = c->params[EXPERTS].i,
                                                    .n_active = c->params[ACTIVE].i,
                                                    .scale = 1});
    queue_experts(call, s[OPENED], call->x, GATE, NULL);
    queue_experts(call, s[HIDDEN], call->x, UP, NULL);
    lx_mixer_gate(call, s[OPENED], columns,
                  (lx_gate_args){.y = s[HIDDEN],
                                 .z = {s[HIDDEN], columns, 0},
                                 .f = LX_FN_SILU,
                                 .weighing = LX_WEIGH_TIMES});
    queue_experts(call, call->residual, s[HIDDEN], DOWN, call->residual);
}

static bool is_on(const lx_mixer_config *c, const lx_kernels *ops)
{
    (void)c;
    return ops->experts != NULL && ops->route != NULL;
}

LX_MIXER(experts, .summary = "a mixture of gated feed-forward nets (Shazeer et al. 2017)",
         .is_feed_forward = true, .is_on = is_on, .check = check);
