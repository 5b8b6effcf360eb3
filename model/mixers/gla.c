/*
 * Gated linear attention (Yang et al. 2024, "Gated Linear Attention Transformers with
 * Hardware-Efficient Training"). n_heads heads, of which so many share keys, values and decays as
 * `key_heads` leaves, by default none:
 *
 *     q = f(W_q x)    k = f(W_k x)    v = f(W_v x)      f: with taps silu of a short convolution
 *     w = sigmoid(W_f2 W_f1 x + b)^(1/16)               K numbers a head of keys
 *     S = diag(w) S + k v^T           y = S^T q / sqrt(K)
 *     A(x) = W_out (rms_norm(y) gamma silu(W_g x))      of every head; without a gate no last
 * factor
 *
 * Tensors: attn.q, attn.k, attn.v, attn.f1, attn.f2 (with a bias), attn.out, attn.norm.weight [V];
 * with taps attn.q_conv.weight, attn.k_conv.weight, attn.v_conv.weight; with a gate attn.g.
 * State: of a head S [K, V]; with taps once their last inputs, q_conv, k_conv, v_conv.
 */
#include <math.h>

#include "model/mixers/recurrent.h"

static const char *const gates[] = {"none", "silu", NULL};
static const lx_mixer_param params[] = {
    {.name = "key_heads", .kind = LX_PARAM_INT, .min = 1, .max = 1024, .optional = true},
    {.name = "conv", .kind = LX_PARAM_INT, .min = 0, .max = LX_CONV_MOST_TAPS},
    {.name = "gate", .kind = LX_PARAM_WORD, .words = gates},
    {.name = "rank", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "eps", .kind = LX_PARAM_EPS},
};

enum { KEY_HEADS, TAPS, GATED, RANK, EPS };      /* params */
enum { W_Q, W_K, W_V, F1, F2, OUT, NORM, MORE }; /* tensors; the optional ones last */
enum { GAMMA, SIXTEENTH, CONVS };                /* derived */
enum { Q, K, V, Q_IN, K_IN, V_IN, DECAY, LOW, GATE, Y, N_SCRATCH }; /* scratch */
enum { PARTS = 3 };                                                 /* q, k, v */

static int32_t key_heads_of(const lx_mixer_config *c)
{
    return c->params[KEY_HEADS].i > 0 ? c->params[KEY_HEADS].i : c->n_heads;
}

/* Columns of q, k or v. */
static int32_t columns_of(const lx_mixer_config *c, int32_t part)
{
    return part == Q   ? c->n_heads * c->d_key
           : part == K ? key_heads_of(c) * c->d_key
                       : key_heads_of(c) * c->d_value;
}

static void fill_sixteenth(const lx_mixer_config *c, const lx_mixer_tensor *tensor, int64_t n,
                           const float *from, float *to)
{
    (void)c, (void)tensor;
    (void)from;
    for (int64_t i = 0; i < n; i++)
        to[i] = 0.0625f;
}

static const char *check(const lx_mixer_config *c)
{
    if (c->n_heads % key_heads_of(c) != 0)
        return "key_heads must divide n_heads";
    return c->params[TAPS].i == 1 ? "conv must be 0, or 2 to 4" : NULL;
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t values = c->n_heads * c->d_value, taps = c->params[TAPS].i;
    lx_mixer_add_map(p, "attn.q", columns_of(c, Q), c->d_model);
    lx_mixer_add_map(p, "attn.k", columns_of(c, K), c->d_model);
    lx_mixer_add_map(p, "attn.v", columns_of(c, V), c->d_model);
    lx_mixer_add_map(p, "attn.f1", c->params[RANK].i, c->d_model);
    lx_mixer_add_product(p, "attn.f2", columns_of(c, K), c->params[RANK].i);
    lx_mixer_add_map(p, "attn.out", c->d_model, values);
    lx_mixer_add_array(p, "attn.norm.weight", 0, c->d_value);
    for (int32_t i = 0; i < PARTS && taps > 0; i++)
        lx_mixer_add_array(p, lx_mixer_conv_tensors[i], columns_of(c, i), taps);
    if (c->params[GATED].i)
        lx_mixer_add_map(p, "attn.g", values, c->d_model);
    lx_mixer_add_derived(p, NORM, 1, values, lx_mixer_fill_repeated);
    lx_mixer_add_derived(p, 0, 0, columns_of(c, K), fill_sixteenth);
    for (int32_t i = 0; i < PARTS && taps > 0; i++)
        lx_mixer_add_derived(p, MORE + i, 1, (int64_t)taps * columns_of(c, i),
                             lx_mixer_fill_transposed);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t values = c->n_heads * c->d_value, taps = c->params[TAPS].i;
    declare_tensors(c, p);
    for (int32_t i = 0; i < 2 * PARTS; i++)
        lx_mixer_add_scratch(p, i < PARTS || taps > 0 ? columns_of(c, i % PARTS) : 0);
    lx_mixer_add_scratch(p, columns_of(c, K));
    lx_mixer_add_scratch(p, c->params[RANK].i);
    lx_mixer_add_scratch(p, c->params[GATED].i ? values : 0);
    lx_mixer_add_scratch(p, values);
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "S", c->d_key, c->d_value);
    for (int32_t i = 0; i < PARTS && taps > 0; i++)
        lx_mixer_add_field_once(p, lx_mixer_conv_fields[i], taps - 1, columns_of(c, i));
}

/* q, k or v, the convolutions' inputs being kept behind the heads, those of q first. */
static void queue_part(const lx_mixer_call *call, int32_t part)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t taps = c->params[TAPS].i;
    int64_t behind = 0;
    for (int32_t i = 0; i < part; i++)
        behind += (int64_t)(taps - 1) * columns_of(c, i);
    lx_mixer_product(call, taps > 0 ? s[Q_IN + part] : s[part], call->x, W_Q + part, LX_ACT_NONE,
                     NULL);
    if (taps > 0)
        lx_mixer_convolve(call, s[part], s[Q_IN + part], columns_of(c, part), taps,
                          call->derived[CONVS + part], behind);
}

static void queue_recurrence(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t key_heads = key_heads_of(c);
    lx_head_columns k = lx_mixer_heads(s[K], key_heads, c->d_key);
    lx_head_columns v = lx_mixer_heads(s[V], key_heads, c->d_value);
    lx_head_columns w = lx_mixer_heads(s[DECAY], key_heads, c->d_key);
    k.shared = v.shared = w.shared = c->n_heads / key_heads;
    call->be->ops->recurrence(call->be,
                              &(lx_recurrence_args){.y = s[Y],
                                                    .q = lx_mixer_heads(s[Q], c->n_heads, c->d_key),
                                                    .k = k,
                                                    .v = v,
                                                    .w = w,
                                                    .states = call->states,
                                                    .offset = call->offset,
                                                    .n_heads = c->n_heads,
                                                    .d_key = c->d_key,
                                                    .d_value = c->d_value,
                                                    .decay = LX_DECAY_CHANNEL,
                                                    .scale = 1.0f / sqrtf((float)c->d_key)});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t n = c->n_heads * c->d_value;
    for (int32_t part = 0; part < PARTS; part++)
        queue_part(call, part);
    lx_mixer_low_rank(call, s[DECAY], call->x, s[LOW], F1, LX_FN_IDENTITY);
    lx_mixer_gate(call, s[DECAY], columns_of(c, K),
                  (lx_gate_args){.factor = call->derived[SIXTEENTH],
                                 .f = LX_FN_LOG_SIGMOID,
                                 .exponent = true});
    queue_recurrence(call);
    lx_head_norm_args norm = {.y = s[Y],
                              .x = {s[Y], n, 0},
                              .gamma = call->derived[GAMMA],
                              .n_heads = c->n_heads,
                              .d = c->d_value,
                              .kind = LX_NORM_RMS,
                              .f = LX_FN_SILU,
                              .eps = c->params[EPS].f,
                              .rows = LX_ROWS_TOKENS};
    if (c->params[GATED].i) {
        lx_mixer_product(call, s[GATE], call->x, MORE + (c->params[TAPS].i > 0 ? PARTS : 0),
                         LX_ACT_NONE, NULL);
        norm.gate = (lx_columns){s[GATE], n, 0};
    }
    call->be->ops->head_norm(call->be, &norm);
    lx_mixer_product(call, call->residual, s[Y], OUT, LX_ACT_NONE, call->residual);
}

const lx_mixer lx_mixer_gla = {.name = "gla",
                               .summary = "gated linear attention (Yang et al. 2024)",
                               .n_params = sizeof params / sizeof *params,
                               .params = params,
                               .check = check,
                               .declare = declare,
                               .queue = queue};
