/*
 * Kinds whose state decays and is added to. n_heads heads of queries; of so many as `key_heads`
 * leaves keys, values and decays are the same, by default of none:
 *
 *     q = r(f(W_q x))    k = r(f(W_k x))    v = f(W_v x)   f: with taps silu of a short convolution
 *     S = diag(w) S + k v^T                                w: the decay of a kind, see lx_decaying
 *     y = S^T q / sqrt(K)                                  r: its rotation, or nothing
 *     A(x) = W_out (rms_norm(y) gamma silu(W_g x))         of every head; without a gate no last
 * factor
 *
 * Tensors: attn.q, attn.k, attn.v, attn.out, products without bias; attn.norm.weight [V]; with taps
 * attn.q_conv.weight, attn.k_conv.weight, attn.v_conv.weight [channels, taps]; with a gate attn.g;
 * then those of the decay.
 * State: of a head S [K, V]; with taps once their last inputs, q_conv, k_conv, v_conv.
 */

#include <math.h>

#include "model/mixers/recurrent.h"
#include "model/mixers/rotary.h"

/* The constants of a kind: lx_mixer.variant. */
typedef struct lx_decaying {
    /* CHANNEL: w = sigmoid(W_f2 W_f1 x + b)^(1/16), K numbers per head of keys, tensors attn.f1 and
       attn.f2, the latter with a bias. FIXED: w = 1 - 2^(-5 - h) for head h. */
    lx_decay decay;
    bool is_rotated; /* q and k by their positions, see model/mixers/rotary.h */
} lx_decaying;

/* The keys of a kind are these five, the fourth being `rank`, of the decay's pair, or `base`, of
   the rotation. */
enum {
    LX_DECAYING_KEY_HEADS,
    LX_DECAYING_CONV,
    LX_DECAYING_GATE,
    LX_DECAYING_RANK,
    LX_DECAYING_BASE = LX_DECAYING_RANK,
    LX_DECAYING_EPS
};
static const char *const lx_decaying_gates[] = {"none", "silu", NULL};
#define LX_DECAYING_PARAMS(...)                                                                    \
    {                                                                                              \
        {.name = "key_heads", .kind = LX_PARAM_INT, .min = 1, .max = 1024, .optional = true},      \
            {.name = "conv", .kind = LX_PARAM_INT, .min = 0, .max = LX_CONV_MOST_TAPS},            \
            {.name = "gate", .kind = LX_PARAM_WORD, .words = lx_decaying_gates}, {__VA_ARGS__},    \
        {                                                                                          \
            .name = "eps", .kind = LX_PARAM_EPS                                                    \
        }                                                                                          \
    }

enum { W_Q, W_K, W_V, OUT, NORM, MORE };                 /* tensors; the optional ones last */
enum { GAMMA, CONSTANT, TURNS };                         /* derived; the taps last */
enum { Q, K, V, Q_IN, K_IN, V_IN, DECAY, LOW, GATE, Y }; /* scratch */
enum { PARTS = 3 };                                      /* q, k, v */

static const lx_decaying *kind_of(const lx_mixer_config *c)
{
    return c->mixer->variant;
}

static bool has_pair(const lx_mixer_config *c)
{
    return kind_of(c)->decay == LX_DECAY_CHANNEL;
}

static int32_t taps_of(const lx_mixer_config *c)
{
    return c->params[LX_DECAYING_CONV].i;
}

static int32_t key_heads_of(const lx_mixer_config *c)
{
    return c->params[LX_DECAYING_KEY_HEADS].i > 0 ? c->params[LX_DECAYING_KEY_HEADS].i : c->n_heads;
}

/* Columns of q, k or v. */
static int32_t columns_of(const lx_mixer_config *c, int32_t part)
{
    return part == Q   ? c->n_heads * c->d_key
           : part == K ? key_heads_of(c) * c->d_key
                       : key_heads_of(c) * c->d_value;
}

/* The places of the gate's tensor, of the first of the decay's, and of the derived taps. */
static int32_t gate_tensor(const lx_mixer_config *c)
{
    return taps_of(c) > 0 ? MORE + PARTS : MORE;
}

static int32_t decay_tensors(const lx_mixer_config *c)
{
    return gate_tensor(c) + c->params[LX_DECAYING_GATE].i;
}

static int32_t derived_taps(const lx_mixer_config *c)
{
    return kind_of(c)->is_rotated ? TURNS + 1 : TURNS;
}

static void fill_decays(const lx_mixer_config *c, const lx_mixer_parts *p,
                        const lx_mixer_derived *d, const float *from, float *to)
{
    (void)c, (void)p, (void)from;
    for (int32_t h = 0; h < d->n; h++)
        to[h] = (float)(1 - ldexp(1, -5 - h));
}

static const char *check(const lx_mixer_config *c)
{
    if (c->n_heads % key_heads_of(c) != 0)
        return "key_heads must divide n_heads";
    if (kind_of(c)->is_rotated && c->d_key % 2 != 0)
        return "d_key must be even";
    return taps_of(c) == 1 ? "conv must be 0, or 2 to 8" : NULL;
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t values = c->n_heads * c->d_value, taps = taps_of(c);
    lx_mixer_add_map(p, "attn.q", columns_of(c, Q), c->d_model);
    lx_mixer_add_map(p, "attn.k", columns_of(c, K), c->d_model);
    lx_mixer_add_map(p, "attn.v", columns_of(c, V), c->d_model);
    lx_mixer_add_map(p, "attn.out", c->d_model, values);
    lx_mixer_add_array(p, "attn.norm.weight", 0, c->d_value);
    for (int32_t i = 0; i < PARTS && taps > 0; i++)
        lx_mixer_add_array(p, lx_mixer_conv_tensors[i], columns_of(c, i), taps);
    if (c->params[LX_DECAYING_GATE].i)
        lx_mixer_add_map(p, "attn.g", values, c->d_model);
    if (has_pair(c)) {
        lx_mixer_add_map(p, "attn.f1", c->params[LX_DECAYING_RANK].i, c->d_model);
        lx_mixer_add_product(p, "attn.f2", columns_of(c, K), c->params[LX_DECAYING_RANK].i);
    }
}

static void declare_derived(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t taps = taps_of(c);
    lx_mixer_add_derived(p, NORM, 1, c->n_heads * c->d_value, lx_mixer_fill_repeated);
    if (has_pair(c))
        lx_mixer_add_constant(p, columns_of(c, K), 0.0625); /* a sixteenth */
    else
        lx_mixer_add_derived(p, 0, 0, c->n_heads, fill_decays);
    if (kind_of(c)->is_rotated)
        lx_mixer_add_turns(p, c->params[LX_DECAYING_BASE].i, c->d_key);
    for (int32_t i = 0; i < PARTS && taps > 0; i++)
        lx_mixer_add_derived(p, MORE + i, 1, (int64_t)taps * columns_of(c, i),
                             lx_mixer_fill_transposed);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t values = c->n_heads * c->d_value, taps = taps_of(c);
    declare_tensors(c, p);
    declare_derived(c, p);
    for (int32_t i = 0; i < 2 * PARTS; i++) {
        int32_t n = i < PARTS || taps > 0 ? columns_of(c, i % PARTS) : 0;
        lx_mixer_add_scratch(p, i == V ? values : n); /* V also takes what lx_mixer_end copies */
    }
    lx_mixer_add_scratch(p, has_pair(c) ? columns_of(c, K) : 0);
    lx_mixer_add_scratch(p, has_pair(c) ? c->params[LX_DECAYING_RANK].i : 0);
    lx_mixer_add_scratch(p, c->params[LX_DECAYING_GATE].i ? values : 0);
    lx_mixer_add_scratch(p, values);
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "S", c->d_key, c->d_value);
    for (int32_t i = 0; i < PARTS && taps > 0; i++)
        lx_mixer_add_field_once(p, lx_mixer_conv_fields[i], taps - 1, columns_of(c, i));
}

/* q, k or v. The convolutions' inputs are kept after the heads, in this order. */
static void queue_part(const lx_mixer_call *call, int32_t part)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t taps = taps_of(c), n = columns_of(c, part);
    int64_t behind = 0;
    for (int32_t i = 0; i < part; i++)
        behind += (int64_t)(taps - 1) * columns_of(c, i);
    lx_mixer_product(call, taps > 0 ? s[Q_IN + part] : s[part], call->x, W_Q + part, LX_ACT_NONE,
                     NULL);
    if (taps > 0)
        lx_mixer_convolve(call, s[part], s[Q_IN + part], n, taps,
                          call->derived[derived_taps(c) + part], behind, LX_FN_SILU);
    if (kind_of(c)->is_rotated && part != V)
        lx_mixer_rotate(call, s[part], n / c->d_key, c->d_key, call->derived[TURNS]);
}

/* The heads' w. */
static lx_head_columns queue_decay(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *decay = call->scratch[DECAY];
    if (!has_pair(c))
        return lx_mixer_heads(call->derived[CONSTANT], c->n_heads, 1);
    lx_mixer_low_rank(call, decay, call->x, call->scratch[LOW], decay_tensors(c), LX_FN_IDENTITY);
    lx_mixer_gate(call, decay, columns_of(c, K),
                  (lx_gate_args){
                      .factor = call->derived[CONSTANT], .f = LX_FN_LOG_SIGMOID, .exponent = true});
    lx_head_columns w = lx_mixer_heads(decay, key_heads_of(c), c->d_key);
    w.shared = c->n_heads / key_heads_of(c);
    return w;
}

static void queue_recurrence(const lx_mixer_call *call, lx_head_columns w)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t key_heads = key_heads_of(c);
    lx_head_columns k = lx_mixer_heads(s[K], key_heads, c->d_key);
    lx_head_columns v = lx_mixer_heads(s[V], key_heads, c->d_value);
    k.shared = v.shared = c->n_heads / key_heads;
    lx_mixer_recur(call, (lx_recurrence_args){.y = s[Y],
                                              .q = lx_mixer_heads(s[Q], c->n_heads, c->d_key),
                                              .k = k,
                                              .v = v,
                                              .w = w,
                                              .decay = kind_of(c)->decay,
                                              .scale = 1.0f / sqrtf((float)c->d_key)});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t n = c->n_heads * c->d_value;
    for (int32_t part = 0; part < PARTS; part++)
        queue_part(call, part);
    queue_recurrence(call, queue_decay(call));
    lx_head_norm_args norm = {.y = s[Y],
                              .x = {s[Y], n, 0},
                              .gamma = call->derived[GAMMA],
                              .n_heads = c->n_heads,
                              .d = c->d_value,
                              .kind = LX_NORM_RMS,
                              .f = LX_FN_SILU,
                              .eps = c->params[LX_DECAYING_EPS].f,
                              .rows = LX_ROWS_TOKENS};
    if (c->params[LX_DECAYING_GATE].i) {
        lx_mixer_product(call, s[GATE], call->x, gate_tensor(c), LX_ACT_NONE, NULL);
        norm.gate = (lx_columns){s[GATE], n, 0};
    }
    call->be->ops->head_norm(call->be, &norm);
    lx_mixer_end(call, s[Y], OUT, s[V]);
}

/* --- the kinds --- */

/*
 * Gated linear attention (Yang et al. 2024, "Gated Linear Attention Transformers with
 * Hardware-Efficient Training"): key channels whose decay depends on the token.
 */
static const lx_mixer_param gla_params[] =
    LX_DECAYING_PARAMS(.name = "rank", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16);
static const lx_decaying gla = {.decay = LX_DECAY_CHANNEL};

LX_RECURRENT_KIND(gla, "gated linear attention (Yang et al. 2024)");

/*
 * Retention (Sun et al. 2023, "Retentive Network: A Successor to Transformer for Large Language
 * Models"): each head decays at a fixed rate of its own, and positions rotate queries and keys.
 */
static const lx_mixer_param retnet_params[] =
    LX_DECAYING_PARAMS(.name = "base", .kind = LX_PARAM_INT, .min = 2, .max = 1 << 30);
static const lx_decaying retnet = {.decay = LX_DECAY_FIXED, .is_rotated = true};

LX_RECURRENT_KIND(retnet, "retention (Sun et al. 2023)");
