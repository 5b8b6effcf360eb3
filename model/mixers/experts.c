/*
 * A mixture of experts (Shazeer et al. 2017, "Outrageously Large Neural Networks"), each token by
 * itself. Of E feed-forward nets the K = `active` with the greatest p + b are added:
 *
 *     p = softmax(W_router x), with router "sigmoid" sigmoid(W_router x)
 *     A(x) = sum of c[e] net_e(x) over these e + g net(x)
 *     c[e] = `scale` p[e], with `normalise` divided by (`eps` + sum of p over these e)
 *     net_e(x) = W_down[e] (silu(W_gate[e] x) * W_up[e] x), with form "relu2"
 *                W_down[e] max(W_up[e] x, 0)^2
 *
 * b is there with `bias`, for the choice only. With `groups` the choice is among the experts of the
 * best `active_groups` groups (kernels/ops/route/op.h). The net of all tokens, of `shared` columns
 * and the same form, is there unless `shared` is 0. With `shared_gate` g is sigmoid(w x), else 1.
 *
 * Tensors: ff.router; ff.experts.I.gate, .up and .down of every expert I from 0, products without
 * bias; ff.router.bias [E]; ff.shared.gate, .up and .down; ff.shared.open [1, d_model] for w. In
 * place of the experts' tensors a file may have ff.experts.gate_up [E, rows of gate and up,
 * d_model] or without gates ff.experts.up, and ff.experts.down. ff.shared.gate_up may have the rows
 * of ff.shared.gate, then those of ff.shared.up. No state.
 */
#include "model/mixers/recurrent.h"

#define MOST_COLUMNS 262144 /* of the hidden layers of a token's experts together */

static const char *const routers[] = {"softmax", "sigmoid", NULL};
static const char *const forms[] = {"gated", "relu2", NULL};
static const lx_mixer_param params[] = {
    {.name = "experts", .kind = LX_PARAM_INT, .min = 1, .max = LX_MOST_EXPERTS},
    {.name = "active", .kind = LX_PARAM_INT, .min = 1, .max = LX_MOST_EXPERTS},
    {.name = "router", .kind = LX_PARAM_WORD, .words = routers, .optional = true},
    {.name = "bias", .kind = LX_PARAM_FLAG, .optional = true},
    {.name = "normalise", .kind = LX_PARAM_FLAG, .optional = true},
    {.name = "eps", .kind = LX_PARAM_EPS, .optional = true},
    {.name = "scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "groups", .kind = LX_PARAM_INT, .min = 1, .max = LX_MOST_EXPERTS, .optional = true},
    {.name = "active_groups",
     .kind = LX_PARAM_INT,
     .min = 1,
     .max = LX_MOST_EXPERTS,
     .optional = true},
    {.name = "shared", .kind = LX_PARAM_INT, .min = 0, .max = MOST_COLUMNS, .optional = true},
    {.name = "shared_gate", .kind = LX_PARAM_FLAG, .optional = true},
    {.name = "form", .kind = LX_PARAM_WORD, .words = forms, .optional = true},
};

enum {
    EXPERTS,
    ACTIVE,
    ROUTER_KIND,
    BIASED,
    NORMALISE,
    EPS,
    SCALE,
    GROUPS,
    ACTIVE_GROUPS,
    SHARED,
    HAS_OPEN,
    FORM
}; /* params */
enum {
    ROUTER,
    GATE,
    UP,
    DOWN,
    BIAS,
    SHARED_GATE,
    SHARED_UP,
    SHARED_DOWN,
    OPEN
}; /* tensors, but only those that the config asks for: see place_of */
enum { ROUTED, CHOICE, OPENED, HIDDEN, SHARED_HIDDEN, SHARED_CHOICE, N_SCRATCH }; /* scratch */

static bool is_gated(const lx_mixer_config *c)
{
    return c->params[FORM].i == 0;
}

static bool has_tensor(const lx_mixer_config *c, int32_t tensor)
{
    bool shared = c->params[SHARED].i > 0;
    switch (tensor) {
    case GATE:
        return is_gated(c);
    case BIAS:
        return c->params[BIASED].i;
    case SHARED_UP:
    case SHARED_DOWN:
        return shared;
    case SHARED_GATE:
        return shared && is_gated(c);
    case OPEN:
        return shared && c->params[HAS_OPEN].i;
    default:
        return true;
    }
}

static int32_t place_of(const lx_mixer_config *c, int32_t tensor)
{
    int32_t n = 0;
    for (int32_t i = 0; i < tensor; i++)
        n += has_tensor(c, i);
    return n;
}

static const char *check(const lx_mixer_config *c)
{
    int32_t n = c->params[EXPERTS].i, active = c->params[ACTIVE].i;
    int32_t groups = c->params[GROUPS].i, active_groups = c->params[ACTIVE_GROUPS].i;
    if (active > n)
        return "active must be at most experts";
    if ((int64_t)active * c->d_ff > MOST_COLUMNS)
        return "active times d_ff must be at most 262144";
    if (groups > 0 && (n % groups != 0 || n / groups < 2))
        return "groups must divide experts into groups of 2 and more";
    if ((groups > 0) != (active_groups > 0) || active_groups > groups)
        return "active_groups must be 1 to groups, and there with groups only";
    if (groups > 0 && active > active_groups * (n / groups))
        return "active must be at most the experts of active_groups groups";
    if (c->params[HAS_OPEN].i && c->params[SHARED].i == 0)
        return "shared_gate must be there with shared only";
    return c->params[EPS].f > 0 && !c->params[NORMALISE].i ? "eps must be there with normalise only"
                                                           : NULL;
}

/* A net for all tokens: the rows of its W_gate and W_up may lie together in the file. */
static void declare_shared(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t n = c->params[SHARED].i;
    if (is_gated(c)) {
        lx_mixer_add_map(p, "ff.shared.gate", n, c->d_model);
        lx_mixer_add_part_of(p, p->n_tensors - 1, "ff.shared.gate_up", 0, (int64_t)2 * n);
    }
    lx_mixer_add_map(p, "ff.shared.up", n, c->d_model);
    if (is_gated(c))
        lx_mixer_add_part_of(p, p->n_tensors - 1, "ff.shared.gate_up", n, (int64_t)2 * n);
    if (has_tensor(c, OPEN)) /* a mixture of one */
        lx_mixer_add_experts(p, "ff.shared.down", 1, c->d_model, n);
    else
        lx_mixer_add_map(p, "ff.shared.down", c->d_model, n);
    if (has_tensor(c, OPEN))
        lx_mixer_add_map(p, "ff.shared.open", 1, c->d_model);
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t n = c->params[EXPERTS].i, columns = is_gated(c) ? 2 * c->d_ff : c->d_ff;
    const char *up = is_gated(c) ? "ff.experts.gate_up" : "ff.experts.up";
    lx_mixer_add_map(p, "ff.router", n, c->d_model);
    if (is_gated(c)) {
        lx_mixer_add_experts(p, "ff.experts.*.gate", n, c->d_ff, c->d_model);
        lx_mixer_add_part_of(p, p->n_tensors - 1, up, 0, columns);
    }
    lx_mixer_add_experts(p, "ff.experts.*.up", n, c->d_ff, c->d_model);
    lx_mixer_add_part_of(p, p->n_tensors - 1, up, columns - c->d_ff, columns);
    lx_mixer_add_experts(p, "ff.experts.*.down", n, c->d_model, c->d_ff);
    lx_mixer_add_part_of(p, p->n_tensors - 1, "ff.experts.down", 0, c->d_model);
    if (has_tensor(c, BIAS))
        lx_mixer_add_array(p, "ff.router.bias", 0, n);
    if (has_tensor(c, SHARED_UP))
        declare_shared(c, p);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t columns = (int64_t)c->params[ACTIVE].i * c->d_ff, shared = c->params[SHARED].i;
    declare_tensors(c, p);
    const int64_t scratch[N_SCRATCH] = {[ROUTED] = c->params[EXPERTS].i,
                                        [CHOICE] = 2 * (int64_t)c->params[ACTIVE].i,
                                        [OPENED] = !is_gated(c)       ? 0
                                                   : shared > columns ? shared
                                                                      : columns,
                                        [HIDDEN] = columns,
                                        [SHARED_HIDDEN] = shared,
                                        [SHARED_CHOICE] = has_tensor(c, OPEN) ? 2 : 0};
    for (int32_t i = 0; i < N_SCRATCH; i++)
        lx_mixer_add_scratch(p, scratch[i]);
}

/* A net's hidden columns, of which y has W_up x and OPENED has W_gate x. */
static void queue_hidden(const lx_mixer_call *call, lx_array *y, int32_t columns)
{
    lx_array *opened = call->scratch[OPENED];
    if (is_gated(call->config))
        lx_mixer_gate(
            call, opened, columns,
            (lx_gate_args){
                .y = y, .z = {y, columns, 0}, .f = LX_FN_SILU, .weighing = LX_WEIGH_TIMES});
    else
        lx_mixer_gate(call, y, columns, (lx_gate_args){.f = LX_FN_RELU2});
}

/* All that the net of all tokens adds but its last product, because x may be the residual. */
static void queue_shared(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    lx_mixer_product(call, s[SHARED_HIDDEN], call->x, place_of(c, SHARED_UP), LX_ACT_NONE, NULL);
    if (is_gated(c))
        lx_mixer_product(call, s[OPENED], call->x, place_of(c, SHARED_GATE), LX_ACT_NONE, NULL);
    queue_hidden(call, s[SHARED_HIDDEN], c->params[SHARED].i);
    if (!has_tensor(c, OPEN))
        return;
    lx_mixer_product(call, s[ROUTED], call->x, place_of(c, OPEN), LX_ACT_NONE, NULL);
    call->be->ops->route(call->be, &(lx_route_args){.y = s[SHARED_CHOICE],
                                                    .x = s[ROUTED],
                                                    .n_experts = 1,
                                                    .n_active = 1,
                                                    .sigmoid = true,
                                                    .scale = 1,
                                                    .rows = call->rows});
}

static void queue_route(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_mixer_product(call, call->scratch[ROUTED], call->x, ROUTER, LX_ACT_NONE, NULL);
    call->be->ops->route(
        call->be,
        &(lx_route_args){.y = call->scratch[CHOICE],
                         .x = call->scratch[ROUTED],
                         .bias = has_tensor(c, BIAS) ? call->arrays[place_of(c, BIAS)] : NULL,
                         .n_experts = c->params[EXPERTS].i,
                         .n_active = c->params[ACTIVE].i,
                         .n_groups = c->params[GROUPS].i,
                         .active_groups = c->params[ACTIVE_GROUPS].i,
                         .sigmoid = c->params[ROUTER_KIND].i == 1,
                         .normalise = c->params[NORMALISE].i,
                         .scale = lx_mixer_scale(c, SCALE),
                         .eps = c->params[EPS].f,
                         .rows = call->rows});
}

/* The products with the chosen experts. */
static void queue_products(const lx_mixer_call *call, lx_array *y, int32_t weight)
{
    const lx_mixer_config *c = call->config;
    call->be->ops->experts(call->be, &(lx_experts_args){.y = y,
                                                        .x = call->x,
                                                        .choice = call->scratch[CHOICE],
                                                        .w = call->weights[weight],
                                                        .n_experts = c->params[EXPERTS].i,
                                                        .n_active = c->params[ACTIVE].i,
                                                        .n = c->d_ff,
                                                        .rows = call->rows});
}

/* The weighted sum of products with the chosen of n experts, added to the residual. */
static void queue_sum(const lx_mixer_call *call, const lx_array *x, const lx_array *choice,
                      int32_t weight, int32_t n, int32_t active)
{
    call->be->ops->experts(call->be, &(lx_experts_args){.y = call->residual,
                                                        .x = x,
                                                        .choice = choice,
                                                        .w = call->weights[weight],
                                                        .residual = call->residual,
                                                        .n_experts = n,
                                                        .n_active = active,
                                                        .n = call->config->d_model,
                                                        .sums = true,
                                                        .rows = call->rows});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t active = c->params[ACTIVE].i, down = place_of(c, SHARED_DOWN);
    bool shared = has_tensor(c, SHARED_UP);
    if (shared)
        queue_shared(call);
    queue_route(call);
    queue_products(call, s[HIDDEN], place_of(c, UP));
    if (is_gated(c))
        queue_products(call, s[OPENED], place_of(c, GATE));
    queue_hidden(call, s[HIDDEN], active * c->d_ff);
    queue_sum(call, s[HIDDEN], s[CHOICE], place_of(c, DOWN), c->params[EXPERTS].i, active);
    if (has_tensor(c, OPEN))
        queue_sum(call, s[SHARED_HIDDEN], s[SHARED_CHOICE], down, 1, 1);
    else if (shared)
        lx_mixer_product(call, call->residual, s[SHARED_HIDDEN], down, LX_ACT_NONE, call->residual);
}

static bool is_on(const lx_mixer_config *c, const lx_kernels *ops)
{
    (void)c;
    return ops->experts != NULL && ops->route != NULL;
}

LX_MIXER(experts, .summary = "a mixture of feed-forward nets (Shazeer et al. 2017)",
         .is_feed_forward = true, .is_on = is_on, .check = check);
