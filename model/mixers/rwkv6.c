/*
 * RWKV-6's time mix (Peng et al. 2024, "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic
 * Recurrence"). x' is the row of the token before, zeros for the first:
 *
 *     t = tanh(W_x1 (x + x_x (x' - x)))                  as many numbers for each c
 *     x_c = x + (b_c + W_x2_c t_c) (x' - x)              c: r, w, k, v, g
 *     r = W_r x_r        k = W_k x_k        v = W_v x_v        g = W_g x_g
 *     w = exp(-exp(W_w2 tanh(W_w1 x_w) + b))             the decay
 *     y = (S + diag(u) k v^T)^T r                        S = diag(w) S + k v^T    in this order
 *     A(x) = W_out (group_norm(y) silu(g))
 *
 * Tensors: attn.x_x, attn.x1 [5 rank, d], attn.x2 [d, 5 rank], attn.x_bias [5, d], attn.r, attn.k,
 * attn.v, attn.g, attn.out, attn.w1, attn.w2 (with a bias), attn.bonus [H, K] (u),
 * attn.norm.weight, attn.norm.bias [H V].
 * State: of a head S [K, V]; once the last x, shift.
 */
#include "model/mixers/recurrent.h"

enum { MAX_RANK = 1 << 14 };

static const lx_mixer_param params[] = {
    {.name = "x_rank", .kind = LX_PARAM_INT, .min = 1, .max = MAX_RANK},
    {.name = "w_rank", .kind = LX_PARAM_INT, .min = 1, .max = MAX_RANK},
    {.name = "group_eps", .kind = LX_PARAM_EPS},
};

enum { X_RANK, W_RANK, GROUP_EPS };                  /* params */
enum { MIX_R, MIX_W, MIX_K, MIX_V, MIX_G, N_MIXES }; /* in the order of x_bias */
/* Tensors. */
enum {
    X_X,
    X1,
    X2,
    X_BIAS = X2 + N_MIXES,
    W_R,
    W_K,
    W_V,
    W_G,
    OUT,
    W1,
    W2,
    BONUS,
    NORM_WEIGHT,
    NORM_BIAS
};
enum { SHIFTS, MINUS_ONE, BIASES }; /* derived; a bias for each mix */
/* Scratch. */
enum { MIXED, BEFORE, LOW, LOW_OF_ONE, OF_ONE, R, W, K, V, GATE, W_LOW, Y };

static int32_t keys_of(const lx_mixer_config *c)
{
    return c->n_heads * c->d_key;
}

static int32_t values_of(const lx_mixer_config *c)
{
    return c->n_heads * c->d_value;
}

/* The shares for token_shift: x by x_x, and the row before without a change. */
static void fill_shifts(const lx_mixer_config *c, const lx_mixer_parts *p,
                        const lx_mixer_derived *d, const float *from, float *to)
{
    (void)p, (void)d;
    for (int32_t i = 0; i < c->d_model; i++) {
        to[i] = from[i];
        to[c->d_model + i] = 1;
    }
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t d = c->d_model, keys = keys_of(c), values = values_of(c);
    int64_t x_rank = c->params[X_RANK].i, w_rank = c->params[W_RANK].i;
    lx_mixer_add_array(p, "attn.x_x", 0, d);
    lx_mixer_add_map(p, "attn.x1", N_MIXES * x_rank, d);
    for (int32_t i = 0; i < N_MIXES; i++)
        lx_mixer_add_map_part(p, "attn.x2", d, x_rank, i * x_rank, N_MIXES * x_rank);
    lx_mixer_add_array(p, "attn.x_bias", N_MIXES, d);
    lx_mixer_add_map(p, "attn.r", keys, d);
    lx_mixer_add_map(p, "attn.k", keys, d);
    lx_mixer_add_map(p, "attn.v", values, d);
    lx_mixer_add_map(p, "attn.g", values, d);
    lx_mixer_add_map(p, "attn.out", d, values);
    lx_mixer_add_map(p, "attn.w1", w_rank, d);
    lx_mixer_add_product(p, "attn.w2", keys, w_rank);
    lx_mixer_add_array(p, "attn.bonus", c->n_heads, c->d_key);
    lx_mixer_add_array(p, "attn.norm.weight", 0, values);
    lx_mixer_add_array(p, "attn.norm.bias", 0, values);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t keys = keys_of(c), values = values_of(c);
    declare_tensors(c, p);
    lx_mixer_add_derived(p, X_X, 1, 2 * (int64_t)c->d_model, fill_shifts);
    lx_mixer_add_constant(p, keys, -1);
    for (int32_t i = 0; i < N_MIXES; i++)
        lx_mixer_add_derived_by(p, X_BIAS, c->d_model, lx_mixer_fill_row, i);
    const int64_t scratch[] = {
        [MIXED] = c->d_model,
        [BEFORE] = c->d_model,
        [LOW] = (int64_t)N_MIXES * c->params[X_RANK].i,
        [LOW_OF_ONE] = c->params[X_RANK].i,
        [OF_ONE] = c->d_model,
        [R] = keys,
        [W] = keys,
        [K] = keys,
        [V] = values,
        [GATE] = values,
        [W_LOW] = c->params[W_RANK].i,
        [Y] = values,
    };
    for (int32_t i = 0; i <= Y; i++)
        lx_mixer_add_scratch(p, scratch[i]);
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "S", c->d_key, c->d_value);
    lx_mixer_add_field_once(p, "shift", 1, c->d_model);
}

/* The row before, and t without its tanh. */
static void queue_shift(const lx_mixer_call *call)
{
    lx_array *const *s = call->scratch;
    call->be->ops->token_shift(
        call->be,
        &(lx_token_shift_args){.y = {s[MIXED], s[BEFORE]},
                               .x = call->x,
                               .mixes = call->derived[SHIFTS],
                               .states = call->states,
                               .offset = call->offset + lx_mixer_heads_floats(call->parts),
                               .n_mixes = 2,
                               .d = call->config->d_model});
    lx_mixer_product(call, s[LOW], s[MIXED], X1, LX_ACT_NONE, NULL);
}

/* x_c, which the next one replaces. */
static const lx_array *queue_mix(const lx_mixer_call *call, int32_t mix)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t rank = c->params[X_RANK].i, d = c->d_model;
    call->be->ops->gate(call->be, &(lx_gate_args){.y = s[LOW_OF_ONE],
                                                  .x = {s[LOW], N_MIXES * rank, mix * rank},
                                                  .d = rank,
                                                  .f = LX_FN_TANH,
                                                  .rows = LX_ROWS_TOKENS});
    lx_mixer_product(call, s[OF_ONE], s[LOW_OF_ONE], X2 + mix, LX_ACT_NONE, NULL);
    lx_mixer_gate(call, s[OF_ONE], d,
                  (lx_gate_args){.z = {call->x, d, 0},
                                 .other = {s[BEFORE], d, 0},
                                 .bias = call->derived[BIASES + mix],
                                 .weighing = LX_WEIGH_TOWARDS});
    return s[OF_ONE];
}

static void queue_recurrence(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    lx_mixer_recur(call, (lx_recurrence_args){.y = s[Y],
                                              .q = lx_mixer_heads(s[R], c->n_heads, c->d_key),
                                              .k = lx_mixer_heads(s[K], c->n_heads, c->d_key),
                                              .v = lx_mixer_heads(s[V], c->n_heads, c->d_value),
                                              .w = lx_mixer_heads(s[W], c->n_heads, c->d_key),
                                              .bonus = call->arrays[BONUS],
                                              .decay = LX_DECAY_CHANNEL,
                                              .read = LX_READ_BEFORE,
                                              .scale = 1});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t values = values_of(c);
    queue_shift(call);
    lx_mixer_product(call, s[R], queue_mix(call, MIX_R), W_R, LX_ACT_NONE, NULL);
    lx_mixer_low_rank(call, s[W], queue_mix(call, MIX_W), s[W_LOW], W1, LX_FN_TANH);
    lx_mixer_gate(
        call, s[W], keys_of(c),
        (lx_gate_args){.factor = call->derived[MINUS_ONE], .f = LX_FN_EXP, .exponent = true});
    lx_mixer_product(call, s[K], queue_mix(call, MIX_K), W_K, LX_ACT_NONE, NULL);
    lx_mixer_product(call, s[V], queue_mix(call, MIX_V), W_V, LX_ACT_NONE, NULL);
    lx_mixer_product(call, s[GATE], queue_mix(call, MIX_G), W_G, LX_ACT_NONE, NULL);
    queue_recurrence(call);
    lx_mixer_norm_heads(call, s[Y], c->n_heads, c->d_value,
                        (lx_head_norm_args){.gate = {s[GATE], values, 0},
                                            .gamma = call->arrays[NORM_WEIGHT],
                                            .beta = call->arrays[NORM_BIAS],
                                            .kind = LX_NORM_GROUP,
                                            .f = LX_FN_SILU,
                                            .eps = c->params[GROUP_EPS].f});
    lx_mixer_end(call, s[Y], OUT, s[V]);
}

LX_MIXER(rwkv6, .summary = "RWKV-6's time mix (Peng et al. 2024)");
