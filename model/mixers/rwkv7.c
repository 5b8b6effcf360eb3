/*
 * RWKV-7's time mix (Peng et al. 2025, "RWKV-7 Goose with Expressive Dynamic State Evolution").
 * The row of the token before is x', zeros for the first token. The sigmoid is s; heads have K keys
 * and V values:
 *
 *     x_c = x + mixes_c (x' - x)                            c: r, w, k, v, a, g
 *     r = W_r x_r         v = W_v x_v         k = W_k x_k
 *     w = exp(-e^(-1/2) s(W_w2 tanh(W_w1 x_w) + b))         the decay
 *     a = s(W_a2 W_a1 x_a + b)                              the rate of learning
 *     g = W_g2 s(W_g1 x_g)
 *     v += (v_first - v) s(W_v2 W_v1 x_v + b)               v_first: v of layer 0, which stays
 *     e = k_k k / max(|k_k k|, 1e-12) of each head          the removed direction
 *     k = k (1 + (a - 1) k_a)
 *     S = diag(w) S - (a e) (S^T e)^T + k v^T               y = S^T r
 *     y = (group_norm(y) + (sum of r k r_k) v) g
 *     A(x) = W_out y
 *
 * Tensors: attn.x_c (mixes_c), attn.r, attn.k, attn.v, attn.out, attn.w1, attn.w2, attn.a1,
 * attn.a2, attn.g1, attn.g2, but for layer 0 attn.v1, attn.v2, and attn.k_k, attn.k_a, attn.r_k,
 * attn.norm.weight, attn.norm.bias. w2, a2 and v2 have a bias.
 * With `time_state` S is attn.time_state [H K, V] before the first token, which tuning has found.
 * State: of a head S [K, V]; once the last x, shift.
 */
#include "model/mixers/recurrent.h"

enum { MAX_RANK = 1 << 16 };

static const lx_mixer_param params[] = {
    {.name = "w_rank", .kind = LX_PARAM_INT, .min = 1, .max = MAX_RANK},
    {.name = "a_rank", .kind = LX_PARAM_INT, .min = 1, .max = MAX_RANK},
    {.name = "v_rank", .kind = LX_PARAM_INT, .min = 1, .max = MAX_RANK},
    {.name = "g_rank", .kind = LX_PARAM_INT, .min = 1, .max = MAX_RANK},
    {.name = "group_eps", .kind = LX_PARAM_EPS},
    {.name = "time_state", .kind = LX_PARAM_FLAG, .optional = true},
};

enum { W_RANK, A_RANK, V_RANK, G_RANK, GROUP_EPS, TIME_STATE }; /* params */
/* The mixes, which are the first of the scratch, too. */
enum { MIX_R, MIX_W, MIX_K, MIX_V, MIX_A, MIX_G, N_MIXES };
/* Tensors; layer 0 has not the last two. */
enum {
    X_R,
    W_R = X_R + N_MIXES,
    W_K,
    W_V,
    OUT,
    W1,
    W2,
    A1,
    A2,
    G1,
    G2,
    K_K,
    K_A,
    R_K,
    NORM_WEIGHT,
    NORM_BIAS,
    V1,
    V2
};
enum { MIXES, DECAY_FACTOR, LEFT_OF_K, MINUS_ONE }; /* derived */
/* Scratch: the mixes, then what becomes of them; the low-rank pairs have their middles last. */
enum { R = N_MIXES, W, K, V, RATE, GATE, ERASED, ADDED, Y, W_LOW, A_LOW, V_LOW, G_LOW };

static void fill_left_of_k(const lx_mixer_config *c, const lx_mixer_parts *p,
                           const lx_mixer_derived *d, const float *k_a, float *to)
{
    (void)c, (void)p;
    for (int64_t i = 0; i < d->n; i++)
        to[i] = 1.0f - k_a[i];
}

static int32_t keys_of(const lx_mixer_config *c)
{
    return c->n_heads * c->d_key;
}

static int32_t values_of(const lx_mixer_config *c)
{
    return c->n_heads * c->d_value;
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t d = c->d_model, keys = keys_of(c), values = values_of(c);
    const lx_param_value *rank = c->params;
    static const char *const mixes[] = {"attn.x_r", "attn.x_w", "attn.x_k",
                                        "attn.x_v", "attn.x_a", "attn.x_g"};
    for (int32_t i = 0; i < N_MIXES; i++)
        lx_mixer_add_array(p, mixes[i], 0, d);
    lx_mixer_add_map(p, "attn.r", keys, d);
    lx_mixer_add_map(p, "attn.k", keys, d);
    lx_mixer_add_map(p, "attn.v", values, d);
    lx_mixer_add_map(p, "attn.out", d, values);
    lx_mixer_add_map(p, "attn.w1", rank[W_RANK].i, d);
    lx_mixer_add_product(p, "attn.w2", keys, rank[W_RANK].i);
    lx_mixer_add_map(p, "attn.a1", rank[A_RANK].i, d);
    lx_mixer_add_product(p, "attn.a2", keys, rank[A_RANK].i);
    lx_mixer_add_map(p, "attn.g1", rank[G_RANK].i, d);
    lx_mixer_add_map(p, "attn.g2", values, rank[G_RANK].i);
    lx_mixer_add_array(p, "attn.k_k", 0, keys);
    lx_mixer_add_array(p, "attn.k_a", 0, keys);
    lx_mixer_add_array(p, "attn.r_k", c->n_heads, c->d_key);
    lx_mixer_add_array(p, "attn.norm.weight", 0, values);
    lx_mixer_add_array(p, "attn.norm.bias", 0, values);
    if (p->layer == 0)
        return;
    lx_mixer_add_map(p, "attn.v1", rank[V_RANK].i, d);
    lx_mixer_add_product(p, "attn.v2", values, rank[V_RANK].i);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t keys = keys_of(c), values = values_of(c);
    declare_tensors(c, p);
    lx_mixer_add_derived(p, X_R, N_MIXES, (int64_t)N_MIXES * c->d_model, lx_mixer_fill_copy);
    lx_mixer_add_constant(p, keys, -0.606530659); /* -e^(-1/2) */
    lx_mixer_add_derived(p, K_A, 1, keys, fill_left_of_k);
    lx_mixer_add_constant(p, keys, -1);
    const int64_t scratch[] = {
        [R] = keys,
        [W] = keys,
        [K] = keys,
        [V] = values,
        [RATE] = keys,
        [GATE] = values,
        [ERASED] = keys,
        [ADDED] = keys,
        [Y] = values,
        [W_LOW] = c->params[W_RANK].i,
        [A_LOW] = c->params[A_RANK].i,
        [V_LOW] = c->params[V_RANK].i,
        [G_LOW] = c->params[G_RANK].i,
    };
    for (int32_t i = 0; i <= G_LOW; i++)
        lx_mixer_add_scratch(p, i < N_MIXES ? c->d_model : scratch[i]);
    p->carried = values;
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "S", c->d_key, c->d_value);
    lx_mixer_add_field_once(p, "shift", 1, c->d_model);
    if (c->params[TIME_STATE].i)
        lx_mixer_add_initial(p, "attn.time_state");
}

static void queue_shift(const lx_mixer_call *call)
{
    lx_token_shift_args args = {.x = call->x,
                                .mixes = call->derived[MIXES],
                                .states = call->states,
                                .offset = call->offset + lx_mixer_heads_floats(call->parts),
                                .n_mixes = N_MIXES,
                                .d = call->config->d_model};
    for (int32_t i = 0; i < N_MIXES; i++)
        args.y[i] = call->scratch[i];
    call->be->ops->token_shift(call->be, &args);
}

/* v, which layer 0 leaves for the other layers. */
static lx_array *queue_values(const lx_mixer_call *call)
{
    lx_array *const *s = call->scratch;
    int32_t n = values_of(call->config);
    if (call->parts->layer == 0) {
        lx_mixer_product(call, call->carried, s[MIX_V], W_V, LX_ACT_NONE, NULL);
        return call->carried;
    }
    lx_mixer_product(call, s[V], s[MIX_V], W_V, LX_ACT_NONE, NULL);
    lx_mixer_low_rank(call, s[Y], s[MIX_V], s[V_LOW], V1, LX_FN_IDENTITY);
    lx_mixer_gate(call, s[Y], n,
                  (lx_gate_args){.y = s[V],
                                 .z = {s[V], n, 0},
                                 .other = {call->carried, n, 0},
                                 .f = LX_FN_SIGMOID,
                                 .weighing = LX_WEIGH_TOWARDS});
    return s[V];
}

/* k, and the vectors that are erased and added with the rate a: e and -a e. */
static void queue_keys(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t n = keys_of(c);
    lx_mixer_product(call, s[K], s[MIX_K], W_K, LX_ACT_NONE, NULL);
    lx_mixer_low_rank(call, s[RATE], s[MIX_A], s[A_LOW], A1, LX_FN_IDENTITY);
    lx_mixer_gate(call, s[K], n, (lx_gate_args){.y = s[ERASED], .factor = call->arrays[K_K]});
    lx_mixer_norm_heads(call, s[ERASED], c->n_heads, c->d_key,
                        (lx_head_norm_args){.kind = LX_NORM_LENGTH, .eps = 1e-12f});
    lx_mixer_gate(call, s[RATE], n,
                  (lx_gate_args){.y = s[ADDED],
                                 .z = {s[ERASED], n, 0},
                                 .factor = call->derived[MINUS_ONE],
                                 .f = LX_FN_SIGMOID,
                                 .weighing = LX_WEIGH_TIMES});
    lx_mixer_gate(call, s[RATE], n,
                  (lx_gate_args){.y = s[K],
                                 .z = {s[K], n, 0},
                                 .factor = call->arrays[K_A],
                                 .offset = call->derived[LEFT_OF_K],
                                 .f = LX_FN_SIGMOID,
                                 .weighing = LX_WEIGH_TIMES});
}

static void queue_recurrence(const lx_mixer_call *call, const lx_array *v)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    lx_mixer_recur(call, (lx_recurrence_args){.y = s[Y],
                                              .q = lx_mixer_heads(s[R], c->n_heads, c->d_key),
                                              .k = lx_mixer_heads(s[K], c->n_heads, c->d_key),
                                              .v = lx_mixer_heads(v, c->n_heads, c->d_value),
                                              .w = lx_mixer_heads(s[W], c->n_heads, c->d_key),
                                              .a = lx_mixer_heads(s[ERASED], c->n_heads, c->d_key),
                                              .b = lx_mixer_heads(s[ADDED], c->n_heads, c->d_key),
                                              .decay = LX_DECAY_CHANNEL,
                                              .correction = LX_CORRECT_PAIR,
                                              .scale = 1});
}

/* The heads' values, normed, with the token's own value, gated. */
static void queue_read(const lx_mixer_call *call, const lx_array *v)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t keys = keys_of(c), values = values_of(c);
    lx_mixer_norm_heads(call, s[Y], c->n_heads, c->d_value,
                        (lx_head_norm_args){.gamma = call->arrays[NORM_WEIGHT],
                                            .beta = call->arrays[NORM_BIAS],
                                            .kind = LX_NORM_GROUP,
                                            .eps = c->params[GROUP_EPS].f});
    call->be->ops->bonus(call->be, &(lx_bonus_args){.y = s[Y],
                                                    .x = {s[Y], values, 0},
                                                    .q = {s[R], keys, 0},
                                                    .k = {s[K], keys, 0},
                                                    .v = {v, values, 0},
                                                    .z = {s[GATE], values, 0},
                                                    .u = call->arrays[R_K],
                                                    .n_heads = c->n_heads,
                                                    .d_key = c->d_key,
                                                    .d_value = c->d_value});
}

static void queue(const lx_mixer_call *call)
{
    lx_array *const *s = call->scratch;
    queue_shift(call);
    lx_mixer_product(call, s[R], s[MIX_R], W_R, LX_ACT_NONE, NULL);
    lx_mixer_low_rank(call, s[W], s[MIX_W], s[W_LOW], W1, LX_FN_TANH);
    lx_mixer_gate(call, s[W], keys_of(call->config),
                  (lx_gate_args){
                      .factor = call->derived[DECAY_FACTOR], .f = LX_FN_SIGMOID, .exponent = true});
    queue_keys(call);
    const lx_array *v = queue_values(call);
    lx_mixer_low_rank(call, s[GATE], s[MIX_G], s[G_LOW], G1, LX_FN_SIGMOID);
    queue_recurrence(call, v);
    queue_read(call, v);
    lx_mixer_end(call, s[Y], OUT, s[GATE]);
}

LX_MIXER(rwkv7, .summary = "RWKV-7's time mix (Peng et al. 2025)");
