/* See delta.h. */
#include "model/mixers/delta.h"

#include <math.h>

#include "model/mixers/recurrent.h"

/* Tensors, and behind them those of the convolutions, of the decay and of the gate. */
enum { W_Q, W_K, W_V, W_B, OUT, NORM, MORE };
enum { PARTS = 3 }; /* q, k, v: the first tensors, scratch and derived numbers */
/* Derived, and behind them those of the decay; taps only where there are convolutions. */
enum { GAMMA, TWO, TAPS };
/* Scratch: q, k, v; what the convolutions take. */
enum { Q, K, V, Q_IN, K_IN, V_IN, BETA, DECAY, GATE, LOW, Y, N_SCRATCH };

const char *const lx_delta_rates[] = {"sigmoid", "twice_sigmoid", NULL};
const char *const lx_delta_gates[] = {"none", "silu", NULL};

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

static bool is_joined(const lx_mixer_config *c)
{
    return c->params[LX_DELTA_JOINED].i;
}

/* Where the tensors of the decay begin, and those of the gate. */
static int32_t decay_tensors(const lx_mixer_config *c)
{
    return taps_of(c) > 0 ? MORE + (is_joined(c) ? 1 : PARTS) : MORE;
}

static int32_t gate_tensors(const lx_mixer_config *c)
{
    static const int32_t n[] = {[LX_DECAY_NONE] = 0, [LX_DECAY_HEAD] = 3, [LX_DECAY_CHANNEL] = 4};
    return decay_tensors(c) + n[kind_of(c)->decay];
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

const char *lx_mixer_check_delta(const lx_mixer_config *c)
{
    if (c->n_heads % key_heads_of(c) != 0)
        return "key_heads must divide n_heads";
    return taps_of(c) == 1 ? "conv must be 0, or 2 to 4" : NULL;
}

static void declare_projections(const lx_mixer_config *c, lx_mixer_parts *p)
{
    static const char *const own[] = {"attn.q", "attn.k", "attn.v"};
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
    declare_projections(c, p);
    lx_mixer_add_map(p, "attn.b", c->n_heads, c->d_model);
    lx_mixer_add_map(p, "attn.out", c->d_model, values);
    lx_mixer_add_array(p, "attn.norm.weight", 0, c->d_value);
    if (taps > 0 && is_joined(c))
        lx_mixer_add_array(p, "attn.conv.weight", first_column(c, PARTS), taps);
    for (int32_t i = 0; i < PARTS && taps > 0 && !is_joined(c); i++)
        lx_mixer_add_array(p, lx_mixer_conv_tensors[i], columns_of(c, i), taps);
    if (kind_of(c)->decay == LX_DECAY_CHANNEL) {
        lx_mixer_add_map(p, "attn.f1", rank, c->d_model);
        lx_mixer_add_map(p, "attn.f2", decays_of(c), rank);
    } else if (kind_of(c)->decay == LX_DECAY_HEAD) {
        lx_mixer_add_map(p, "attn.a", c->n_heads, c->d_model);
    }
    if (kind_of(c)->decay != LX_DECAY_NONE) {
        lx_mixer_add_array(p, "attn.A_log", 0, c->n_heads);
        lx_mixer_add_array(p, "attn.dt_bias", 0, decays_of(c));
    }
    if (!kind_of(c)->has_pairs && has_gate(c)) {
        lx_mixer_add_map(p, "attn.g", values, c->d_model);
    } else if (has_gate(c)) {
        lx_mixer_add_map(p, "attn.g1", rank, c->d_model);
        lx_mixer_add_product(p, "attn.g2", values, rank);
    }
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
        lx_mixer_add_derived(p, gate_tensors(c) - 2, 1, decays_of(c), lx_mixer_fill_decay);
}

void lx_mixer_declare_delta(const lx_mixer_config *c, lx_mixer_parts *p)
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

/* q, k or v, the convolution's inputs being kept behind the heads, those of q first. */
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
        call->be->ops->head_norm(call->be, &(lx_head_norm_args){.y = s[part],
                                                                .x = {s[part], n, 0},
                                                                .n_heads = key_heads_of(c),
                                                                .d = c->d_key,
                                                                .kind = LX_NORM_L2,
                                                                .eps = 1e-6f,
                                                                .rows = LX_ROWS_TOKENS});
}

static void queue_decay(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    int32_t first = decay_tensors(c);
    lx_array *decay = call->scratch[DECAY];
    if (kind_of(c)->decay == LX_DECAY_CHANNEL)
        lx_mixer_low_rank(call, decay, call->x, call->scratch[LOW], first, LX_FN_IDENTITY);
    else
        lx_mixer_product(call, decay, call->x, first, LX_ACT_NONE, NULL);
    lx_mixer_gate(call, decay, decays_of(c),
                  (lx_gate_args){.bias = call->arrays[gate_tensors(c) - 1],
                                 .factor = call->derived[taps_of(c) > 0 ? TAPS + PARTS : TAPS],
                                 .f = LX_FN_SOFTPLUS,
                                 .exponent = true});
}

static void queue_recurrence(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    lx_head_columns q = lx_mixer_heads(s[Q], key_heads_of(c), c->d_key);
    lx_head_columns k = lx_mixer_heads(s[K], key_heads_of(c), c->d_key);
    q.shared = k.shared = c->n_heads / key_heads_of(c);
    call->be->ops->recurrence(
        call->be,
        &(lx_recurrence_args){.y = s[Y],
                              .q = q,
                              .k = k,
                              .v = lx_mixer_heads(s[V], c->n_heads, c->d_value),
                              .w = lx_mixer_heads(s[DECAY], c->n_heads, decays_of(c) / c->n_heads),
                              .beta = lx_mixer_heads(s[BETA], c->n_heads, 1),
                              .states = call->states,
                              .offset = call->offset,
                              .n_heads = c->n_heads,
                              .d_key = c->d_key,
                              .d_value = c->d_value,
                              .decay = kind_of(c)->decay,
                              .correction = LX_CORRECT_DELTA,
                              .scale = 1.0f / sqrtf((float)c->d_key)});
}

/* What the heads read, normed and gated. */
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
    if (kind_of(c)->has_pairs)
        lx_mixer_low_rank(call, s[GATE], call->x, s[LOW], gate_tensors(c), LX_FN_IDENTITY);
    else if (has_gate(c))
        lx_mixer_product(call, s[GATE], call->x, gate_tensors(c), LX_ACT_NONE, NULL);
    if (has_gate(c)) {
        args.gate = (lx_columns){s[GATE], n, 0};
        args.f = kind_of(c)->has_pairs ? LX_FN_SIGMOID : LX_FN_SILU;
    }
    call->be->ops->head_norm(call->be, &args);
}

void lx_mixer_queue_delta(const lx_mixer_call *call)
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
    lx_mixer_product(call, call->residual, s[Y], OUT, LX_ACT_NONE, call->residual);
}
