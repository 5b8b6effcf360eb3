/*
 * Kinds of the delta rule: a state replaces the value of a key, it does not add to it. There are H
 * heads of K keys, and n_heads heads of V values, so many of them to a head of keys as come out:
 *
 *     q = l2(f(conv(W_q x)))   k = l2(f(conv(W_k x)))   v = f(conv(W_v x))          f: silu
 *     beta = sigmoid(W_b x), a number per head, or twice that
 *     w: the decay of a kind, see lx_delta
 *     R = diag(w) S       S' = R + k (beta (v - R^T k))^T       y = S'^T q / sqrt(K)
 *     A(x) = W_out (rms_norm(y) gamma g)                        of every head; g: the gate of a
 * kind
 *
 * l2(x) = x / sqrt(sum x^2 + 1e-6) of every head. Without taps there is no convolution.
 *
 * Tensors: attn.q, attn.k, attn.v, attn.b, attn.out, products without bias; attn.norm.weight [V];
 * with taps attn.q_conv.weight, attn.k_conv.weight, attn.v_conv.weight [channels, taps]; then those
 * of the decay and of the gate. Joined, attn.qkv has the rows of the first three, those of attn.q
 * first, and attn.conv.weight those of the taps. Interleaved, attn.qkvz and attn.ba have for every
 * head of keys in turn its rows of attn.q, attn.k, attn.v and attn.g, or those of attn.b and
 * attn.a; attn.conv.weight is as above. State: of a head S [K, V]; once the last inputs of the
 * convolutions, q_conv, k_conv, v_conv.
 */

#include <math.h>

#include "model/mixers/recurrent.h"

/* The constants of a kind: lx_mixer.variant. */
typedef struct lx_delta {
    /* NONE: w = 1. HEAD: w = exp(-exp(A_log) softplus(W_a x + dt_bias)), a number per head of
       values, tensors attn.a, attn.A_log, attn.dt_bias. CHANNEL: K numbers, with W_f2 W_f1 x in
       place of W_a x, tensors attn.f1, attn.f2, attn.A_log [heads of values], attn.dt_bias [K of
       each]. With a `bound` B the decay is at least exp(-B): w = exp(-B sigmoid(exp(A_log)
       (W_f2 W_f1 x + dt_bias))). */
    lx_decay decay;
    /* Without: with gate "silu" g = silu(W_g x), tensor attn.g, with "none" g = 1. With: g =
       sigmoid(W_g2 W_g1 x + b), tensors attn.g1, attn.g2, the latter with a bias unless the config
       has `unbiased`. With rank 0 each pair is one matrix, attn.f and attn.g. */
    bool has_pairs;
} lx_delta;

/* The keys of a kind are the first five, the fourth being `gate`, or with pairs their `rank`; some
   have the other ones. */
enum {
    LX_DELTA_KEY_HEADS, /* H; 0: n_heads */
    LX_DELTA_CONV,      /* taps: 0, or 2 to LX_CONV_MOST_TAPS */
    LX_DELTA_BETA,
    LX_DELTA_GATE,
    LX_DELTA_EPS,    /* of the norm */
    LX_DELTA_JOINED, /* tensors */
    LX_DELTA_INTERLEAVED,
    LX_DELTA_UNBIASED = LX_DELTA_JOINED, /* with pairs, which are never joined */
    LX_DELTA_BOUND = LX_DELTA_INTERLEAVED
};
static const char *const lx_delta_rates[] = {"sigmoid", "twice_sigmoid", NULL};
static const char *const lx_delta_gates[] = {"none", "silu", NULL};
#define LX_DELTA_PARAMS(...)                                                                       \
    {.name = "key_heads", .kind = LX_PARAM_INT, .min = 1, .max = 1024, .optional = true},          \
        {.name = "conv", .kind = LX_PARAM_INT, .min = 0, .max = LX_CONV_MOST_TAPS},                \
        {.name = "beta", .kind = LX_PARAM_WORD, .words = lx_delta_rates}, {__VA_ARGS__},           \
    {                                                                                              \
        .name = "eps", .kind = LX_PARAM_EPS                                                        \
    }
#define LX_DELTA_GATE_PARAM .name = "gate", .kind = LX_PARAM_WORD, .words = lx_delta_gates

/* Tensors, and after them those of the convolutions, of the decay and of the gate. */
enum { W_Q, W_K, W_V, W_B, OUT, NORM, MORE };
enum { PARTS = 3 }; /* q, k, v: the first tensors, scratch and derived numbers */
/* Derived, and after them those of the decay; taps only where there are convolutions. */
enum { GAMMA, TWO, TAPS };
/* Scratch: q, k, v; the inputs of the convolutions. */
enum { Q, K, V, Q_IN, K_IN, V_IN, BETA, DECAY, GATE, LOW, Y, N_SCRATCH };

static const lx_delta *kind_of(const lx_mixer_config *c)
{
    return c->mixer->variant;
}

static int32_t taps_of(const lx_mixer_config *c)
{
    return c->params[LX_DELTA_CONV].i;
}

static int32_t key_heads_of(const lx_mixer_config *c)
{
    return c->params[LX_DELTA_KEY_HEADS].i > 0 ? c->params[LX_DELTA_KEY_HEADS].i : c->n_heads;
}

static bool has_gate(const lx_mixer_config *c)
{
    return kind_of(c)->has_pairs || c->params[LX_DELTA_GATE].i == 1;
}

/* Whether one matrix stands in place of each pair. */
static bool has_full_rank(const lx_mixer_config *c)
{
    return kind_of(c)->has_pairs && c->params[LX_DELTA_GATE].i == 0;
}

/* 0: none */
static float bound_of(const lx_mixer_config *c)
{
    return kind_of(c)->has_pairs ? c->params[LX_DELTA_BOUND].f : 0;
}

static bool is_interleaved(const lx_mixer_config *c)
{
    return !kind_of(c)->has_pairs && c->params[LX_DELTA_INTERLEAVED].i;
}

/* Whether one tensor has all taps. */
static bool is_joined(const lx_mixer_config *c)
{
    return !kind_of(c)->has_pairs && (c->params[LX_DELTA_JOINED].i || is_interleaved(c));
}

/* Where the tensors of the decay begin, and those of the gate. */
static int32_t decay_tensors(const lx_mixer_config *c)
{
    return taps_of(c) > 0 ? MORE + (is_joined(c) ? 1 : PARTS) : MORE;
}

static int32_t gate_tensors(const lx_mixer_config *c)
{
    static const int32_t n[] = {[LX_DECAY_NONE] = 0, [LX_DECAY_HEAD] = 3, [LX_DECAY_CHANNEL] = 4};
    return decay_tensors(c) + n[kind_of(c)->decay] - has_full_rank(c);
}

/* Numbers of decay a token. */
static int32_t decays_of(const lx_mixer_config *c)
{
    lx_decay decay = kind_of(c)->decay;
    return c->n_heads * (decay == LX_DECAY_CHANNEL ? c->d_key : decay == LX_DECAY_HEAD);
}

/* Columns of q, k or v. */
static int32_t columns_of(const lx_mixer_config *c, int32_t part)
{
    return part == V ? c->n_heads * c->d_value : key_heads_of(c) * c->d_key;
}

/* Of q, k and v side by side where a part begins. */
static int32_t first_column(const lx_mixer_config *c, int32_t part)
{
    int32_t first = 0;
    for (int32_t i = 0; i < part; i++)
        first += columns_of(c, i);
    return first;
}

static const char *check(const lx_mixer_config *c)
{
    if (c->n_heads % key_heads_of(c) != 0)
        return "key_heads must divide n_heads";
    if (is_interleaved(c) && (!has_gate(c) || c->params[LX_DELTA_JOINED].i))
        return "interleaved must be with a gate, and without joined";
    return taps_of(c) == 1 ? "conv must be 0, or 2 to 8" : NULL;
}

/* A map of n rows, or with `interleaved` rows of that tensor: of every head of keys as many,
   `first` rows after the first of `apart`. */
static void add_map(const lx_mixer_config *c, lx_mixer_parts *p, const char *name,
                    const char *interleaved, int32_t n, int32_t first, int32_t apart)
{
    bool whole = !is_interleaved(c);
    lx_mixer_add_map(p, whole ? name : interleaved, n, c->d_model);
    if (!whole)
        lx_mixer_take_rows(p, p->n_tensors - 1, first, n / key_heads_of(c), apart);
}

/* Of a head of keys the rows of q, k, v and the gate. */
static int32_t rows_of_head(const lx_mixer_config *c)
{
    return 2 * c->d_key + 2 * columns_of(c, V) / key_heads_of(c);
}

static void declare_projections(const lx_mixer_config *c, lx_mixer_parts *p)
{
    static const char *const own[] = {"attn.q", "attn.k", "attn.v"};
    for (int32_t i = 0; i < PARTS && is_interleaved(c); i++)
        add_map(c, p, own[i], "attn.qkvz", columns_of(c, i), i * c->d_key, rows_of_head(c));
    if (is_interleaved(c))
        return;
    for (int32_t i = 0; i < PARTS; i++) {
        int32_t n = columns_of(c, i);
        lx_mixer_add_map(p, is_joined(c) ? "attn.qkv" : own[i], n, c->d_model);
        if (is_joined(c))
            lx_mixer_take_rows(p, W_Q + i, first_column(c, i), n, first_column(c, PARTS));
    }
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t taps = taps_of(c), rank = c->params[LX_DELTA_GATE].i;
    int32_t values = columns_of(c, V);
    int32_t shared = c->n_heads / key_heads_of(c);
    declare_projections(c, p);
    add_map(c, p, "attn.b", "attn.ba", c->n_heads, 0, 2 * shared);
    lx_mixer_add_map(p, "attn.out", c->d_model, values);
    lx_mixer_add_array(p, "attn.norm.weight", 0, c->d_value);
    if (taps > 0 && is_joined(c))
        lx_mixer_add_array(p, "attn.conv.weight", first_column(c, PARTS), taps);
    for (int32_t i = 0; i < PARTS && taps > 0 && !is_joined(c); i++)
        lx_mixer_add_array(p, lx_mixer_conv_tensors[i], columns_of(c, i), taps);
    if (has_full_rank(c)) {
        lx_mixer_add_map(p, "attn.f", decays_of(c), c->d_model);
    } else if (kind_of(c)->decay == LX_DECAY_CHANNEL) {
        lx_mixer_add_map(p, "attn.f1", rank, c->d_model);
        lx_mixer_add_map(p, "attn.f2", decays_of(c), rank);
    } else if (kind_of(c)->decay == LX_DECAY_HEAD) {
        add_map(c, p, "attn.a", "attn.ba", c->n_heads, shared, 2 * shared);
    }
    if (kind_of(c)->decay != LX_DECAY_NONE) {
        lx_mixer_add_array(p, "attn.A_log", 0, c->n_heads);
        lx_mixer_add_array(p, "attn.dt_bias", 0, decays_of(c));
    }
    if (!kind_of(c)->has_pairs && has_gate(c)) {
        add_map(c, p, "attn.g", "attn.qkvz", values, 2 * c->d_key + values / key_heads_of(c),
                rows_of_head(c));
    } else if (has_gate(c)) {
        bool full = has_full_rank(c);
        if (!full)
            lx_mixer_add_map(p, "attn.g1", rank, c->d_model);
        (c->params[LX_DELTA_UNBIASED].i ? lx_mixer_add_map : lx_mixer_add_product)(
            p, full ? "attn.g" : "attn.g2", values, full ? c->d_model : rank);
    }
}

/* exp(A_log) of each head, once for each of its numbers of decay. */
static void fill_rate(const lx_mixer_config *c, const lx_mixer_parts *p, const lx_mixer_derived *d,
                      const float *from, float *to)
{
    lx_mixer_fill_decay(c, p, d, from, to);
    for (int64_t i = 0; i < d->n; i++)
        to[i] = -to[i];
}

static void declare_derived(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t taps = taps_of(c);
    lx_mixer_add_derived(p, NORM, 1, columns_of(c, V), lx_mixer_fill_repeated);
    lx_mixer_add_constant(p, c->n_heads, 2);
    for (int32_t i = 0; i < PARTS && taps > 0; i++)
        lx_mixer_add_derived_by(p, is_joined(c) ? MORE : MORE + i, (int64_t)taps * columns_of(c, i),
                                lx_mixer_fill_transposed, is_joined(c) ? first_column(c, i) : 0);
    if (kind_of(c)->decay != LX_DECAY_NONE)
        lx_mixer_add_derived(p, gate_tensors(c) - 2, 1, decays_of(c),
                             bound_of(c) > 0 ? fill_rate : lx_mixer_fill_decay);
    if (bound_of(c) > 0)
        lx_mixer_add_constant(p, decays_of(c), (double)-bound_of(c));
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t taps = taps_of(c), rank = c->params[LX_DELTA_GATE].i;
    bool conv = taps > 0;
    int32_t keys = columns_of(c, K), values = columns_of(c, V);
    declare_tensors(c, p);
    declare_derived(c, p);
    const int64_t scratch[N_SCRATCH] = {
        [Q] = keys,
        [K] = keys,
        [V] = values,
        [Q_IN] = conv ? keys : 0,
        [K_IN] = conv ? keys : 0,
        [V_IN] = conv ? values : 0,
        [BETA] = c->n_heads,
        [DECAY] = decays_of(c),
        [GATE] = has_gate(c) ? values : 0,
        [LOW] = kind_of(c)->has_pairs ? rank : 0,
        [Y] = values,
    };
    for (int32_t i = 0; i < N_SCRATCH; i++)
        lx_mixer_add_scratch(p, scratch[i]);
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "S", c->d_key, c->d_value);
    for (int32_t i = 0; i < PARTS && conv; i++)
        lx_mixer_add_field_once(p, lx_mixer_conv_fields[i], taps - 1, columns_of(c, i));
}

/* q, k or v. The convolutions' inputs are kept after the heads, in this order. */
static void queue_part(const lx_mixer_call *call, int32_t part)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t n = columns_of(c, part), taps = taps_of(c);
    int64_t behind = (int64_t)(taps - 1) * first_column(c, part);
    lx_mixer_product(call, taps > 0 ? s[Q_IN + part] : s[part], call->x, W_Q + part, LX_ACT_NONE,
                     NULL);
    if (taps > 0)
        lx_mixer_convolve(call, s[part], s[Q_IN + part], n, taps, call->derived[TAPS + part],
                          behind, LX_FN_SILU);
    else
        lx_mixer_gate(call, s[part], n, (lx_gate_args){.f = LX_FN_SILU});
    if (part != V)
        lx_mixer_norm_heads(call, s[part], key_heads_of(c), c->d_key,
                            (lx_head_norm_args){.kind = LX_NORM_L2, .eps = 1e-6f});
}

static void queue_decay(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    int32_t first = decay_tensors(c), rate = taps_of(c) > 0 ? TAPS + PARTS : TAPS;
    bool bounded = bound_of(c) > 0;
    lx_array *decay = call->scratch[DECAY];
    if (kind_of(c)->decay == LX_DECAY_CHANNEL && !has_full_rank(c))
        lx_mixer_low_rank(call, decay, call->x, call->scratch[LOW], first, LX_FN_IDENTITY);
    else
        lx_mixer_product(call, decay, call->x, first, LX_ACT_NONE, NULL);
    lx_mixer_gate(call, decay, decays_of(c),
                  (lx_gate_args){.bias = call->arrays[gate_tensors(c) - 1],
                                 .factor = call->derived[rate],
                                 .f = bounded ? LX_FN_IDENTITY : LX_FN_SOFTPLUS,
                                 .exponent = !bounded});
    if (bounded)
        lx_mixer_gate(call, decay, decays_of(c),
                      (lx_gate_args){
                          .factor = call->derived[rate + 1], .f = LX_FN_SIGMOID, .exponent = true});
}

static void queue_recurrence(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    lx_head_columns q = lx_mixer_heads(s[Q], key_heads_of(c), c->d_key);
    lx_head_columns k = lx_mixer_heads(s[K], key_heads_of(c), c->d_key);
    q.shared = k.shared = c->n_heads / key_heads_of(c);
    lx_mixer_recur(call, (lx_recurrence_args){
                             .y = s[Y],
                             .q = q,
                             .k = k,
                             .v = lx_mixer_heads(s[V], c->n_heads, c->d_value),
                             .w = lx_mixer_heads(s[DECAY], c->n_heads, decays_of(c) / c->n_heads),
                             .beta = lx_mixer_heads(s[BETA], c->n_heads, 1),
                             .decay = kind_of(c)->decay,
                             .correction = LX_CORRECT_DELTA,
                             .scale = 1.0f / sqrtf((float)c->d_key)});
}

/* The heads' values, normed and gated. */
static void queue_read(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t n = columns_of(c, V);
    lx_head_norm_args args = {.y = s[Y],
                              .x = {s[Y], n, 0},
                              .gamma = call->derived[GAMMA],
                              .n_heads = c->n_heads,
                              .d = c->d_value,
                              .kind = LX_NORM_RMS,
                              .eps = c->params[LX_DELTA_EPS].f,
                              .rows = LX_ROWS_TOKENS};
    if (kind_of(c)->has_pairs && !has_full_rank(c))
        lx_mixer_low_rank(call, s[GATE], call->x, s[LOW], gate_tensors(c), LX_FN_IDENTITY);
    else if (has_gate(c))
        lx_mixer_product(call, s[GATE], call->x, gate_tensors(c), LX_ACT_NONE, NULL);
    if (has_gate(c)) {
        args.gate = (lx_columns){s[GATE], n, 0};
        args.f = kind_of(c)->has_pairs ? LX_FN_SIGMOID : LX_FN_SILU;
    }
    call->be->ops->head_norm(call->be, &args);
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    for (int32_t part = 0; part < PARTS; part++)
        queue_part(call, part);
    lx_mixer_product(call, s[BETA], call->x, W_B, LX_ACT_NONE, NULL);
    lx_mixer_gate(
        call, s[BETA], c->n_heads,
        (lx_gate_args){.factor = c->params[LX_DELTA_BETA].i == 1 ? call->derived[TWO] : NULL,
                       .f = LX_FN_SIGMOID});
    if (kind_of(c)->decay != LX_DECAY_NONE)
        queue_decay(call);
    queue_recurrence(call);
    queue_read(call);
    lx_mixer_end(call, s[Y], OUT, s[V]);
}

/* --- the kinds --- */

/*
 * DeltaNet (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence
 * Length"): the delta rule on a state that does not decay.
 */
static const lx_mixer_param delta_net_params[] = {LX_DELTA_PARAMS(LX_DELTA_GATE_PARAM)};
static const lx_delta delta_net = {.decay = LX_DECAY_NONE};

LX_RECURRENT_KIND(delta_net, "DeltaNet (Yang et al. 2024)");

/*
 * Gated DeltaNet (Yang et al. 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule"): the
 * delta rule on a state whose heads decay.
 */
static const lx_mixer_param gated_deltanet_params[] = {
    LX_DELTA_PARAMS(LX_DELTA_GATE_PARAM),
    {.name = "joined", .kind = LX_PARAM_FLAG, .optional = true},
    {.name = "interleaved", .kind = LX_PARAM_FLAG, .optional = true}};
static const lx_delta gated_deltanet = {.decay = LX_DECAY_HEAD};

LX_RECURRENT_KIND(gated_deltanet, "Gated DeltaNet (Yang et al. 2024)");

/*
 * Kimi Delta Attention (Kimi Team 2025, "Kimi Linear"): the delta rule on a state whose key
 * channels decay, each by itself, and a gate through a low-rank pair. Ling 3 has a bound of the
 * decay and no pairs.
 */
static const lx_mixer_param kda_params[] = {
    LX_DELTA_PARAMS(.name = "rank", .kind = LX_PARAM_INT, .min = 0, .max = 1 << 16),
    {.name = "unbiased", .kind = LX_PARAM_FLAG, .optional = true},
    {.name = "bound", .kind = LX_PARAM_SCALE, .optional = true}};
static const lx_delta kda = {.decay = LX_DECAY_CHANNEL, .has_pairs = true};

LX_RECURRENT_KIND(kda, "Kimi Delta Attention (Kimi Team 2025)");
