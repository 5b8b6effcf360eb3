/*
 * HGRN2 (Qin et al. 2024, "HGRN2: Gated Linear RNNs with State Expansion"): a key channel forgets
 * as much as it takes in. f is a short convolution where there are taps:
 *
 *     q = silu(f(W_q x))    v = f(W_i x)    w = b + (1 - b) sigmoid(f(W_f x))    k = 1 - w
 *     S = diag(w) S + k v^T                 y = S^T q / sqrt(K)
 *     A(x) = W_out (rms_norm(y) gamma)      of the whole row
 *
 * The least kept share b is 0, or with `bounds` of layer l the sum of rows 1 to l of the softmax
 * over the layers of attn.lower_bounds [layers, H K], equal in every layer.
 *
 * Tensors: attn.q, attn.f, attn.i, attn.out, products without bias; attn.norm.weight [H V]; with
 * bounds attn.lower_bounds; with taps attn.q_conv.weight, attn.f_conv.weight, attn.i_conv.weight.
 * State: of a head S [K, V]; with taps once their last inputs, q_conv, f_conv, i_conv.
 */
#include <math.h>

#include "model/mixers/recurrent.h"

static const lx_mixer_param params[] = {
    {.name = "conv", .kind = LX_PARAM_INT, .min = 0, .max = LX_CONV_MOST_TAPS},
    {.name = "bounds", .kind = LX_PARAM_FLAG},
    {.name = "eps", .kind = LX_PARAM_EPS},
};

enum { CONV, BOUNDS, EPS };               /* params */
enum { W_Q, W_F, W_I, OUT, NORM, MORE };  /* tensors; the optional ones last */
enum { MINUS_ONE, ONE, BOUND, LEFT };     /* derived; the taps last */
enum { Q, W, V, Q_IN, F_IN, V_IN, K, Y }; /* scratch */
enum { PARTS = 3 };                       /* q, f, i */

static const char *const conv_tensors[] = {"attn.q_conv.weight", "attn.f_conv.weight",
                                           "attn.i_conv.weight"};
static const char *const conv_fields[] = {"q_conv", "f_conv", "i_conv"};

static int32_t keys_of(const lx_mixer_config *c)
{
    return c->n_heads * c->d_key;
}

/* Columns of q, f or i. */
static int32_t columns_of(const lx_mixer_config *c, int32_t part)
{
    return part == V ? c->n_heads * c->d_value : keys_of(c);
}

static int32_t derived_taps(const lx_mixer_config *c)
{
    return c->params[BOUNDS].i ? LEFT + 1 : BOUND;
}

/* b, or with number 1 the rest 1 - b. */
static void fill_bounds(const lx_mixer_config *c, const lx_mixer_parts *p,
                        const lx_mixer_derived *d, const float *from, float *to)
{
    for (int64_t i = 0; i < d->n; i++) {
        double most = -INFINITY, sum = 0, kept = 0;
        for (int32_t l = 0; l < c->n_layers; l++)
            most = fmax(most, (double)from[l * d->n + i]);
        for (int32_t l = 0; l < c->n_layers; l++) {
            double part = exp((double)from[l * d->n + i] - most);
            sum += part;
            kept += l >= 1 && l <= p->layer ? part : 0;
        }
        to[i] = (float)(d->number > 0 ? 1 - kept / sum : kept / sum);
    }
}

static const char *check(const lx_mixer_config *c)
{
    return c->params[CONV].i == 1 ? "conv must be 0, or 2 to 8" : NULL;
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t taps = c->params[CONV].i, values = columns_of(c, V);
    lx_mixer_add_map(p, "attn.q", keys_of(c), c->d_model);
    lx_mixer_add_map(p, "attn.f", keys_of(c), c->d_model);
    lx_mixer_add_map(p, "attn.i", values, c->d_model);
    lx_mixer_add_map(p, "attn.out", c->d_model, values);
    lx_mixer_add_array(p, "attn.norm.weight", 0, values);
    lx_mixer_add_constant(p, keys_of(c), -1);
    lx_mixer_add_constant(p, keys_of(c), 1);
    if (c->params[BOUNDS].i) {
        lx_mixer_add_array(p, "attn.lower_bounds", c->n_layers, keys_of(c));
        lx_mixer_add_derived_by(p, MORE, keys_of(c), fill_bounds, 0);
        lx_mixer_add_derived_by(p, MORE, keys_of(c), fill_bounds, 1);
    }
    for (int32_t i = 0; i < PARTS && taps > 0; i++) {
        lx_mixer_add_array(p, conv_tensors[i], columns_of(c, i), taps);
        lx_mixer_add_derived(p, p->n_tensors - 1, 1, (int64_t)taps * columns_of(c, i),
                             lx_mixer_fill_transposed);
    }
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t taps = c->params[CONV].i;
    declare_tensors(c, p);
    for (int32_t i = 0; i < 2 * PARTS; i++)
        lx_mixer_add_scratch(p, i < PARTS || taps > 0 ? columns_of(c, i % PARTS) : 0);
    lx_mixer_add_scratch(p, keys_of(c));
    lx_mixer_add_scratch(p, columns_of(c, V));
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "S", c->d_key, c->d_value);
    for (int32_t i = 0; i < PARTS && taps > 0; i++)
        lx_mixer_add_field_once(p, conv_fields[i], taps - 1, columns_of(c, i));
}

/* q, f or i after their convolutions, whose inputs lie after the heads. */
static void queue_part(const lx_mixer_call *call, int32_t part)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t taps = c->params[CONV].i, n = columns_of(c, part);
    lx_function f = part == Q ? LX_FN_SILU : LX_FN_IDENTITY;
    int64_t behind = 0;
    for (int32_t i = 0; i < part; i++)
        behind += (int64_t)(taps - 1) * columns_of(c, i);
    lx_mixer_product(call, taps > 0 ? s[Q_IN + part] : s[part], call->x, W_Q + part, LX_ACT_NONE,
                     NULL);
    if (taps > 0)
        lx_mixer_convolve(call, s[part], s[Q_IN + part], n, taps,
                          call->derived[derived_taps(c) + part], behind, f);
    else if (part == Q)
        lx_mixer_gate(call, s[Q], n, (lx_gate_args){.f = f});
}

/* w, and k from it. */
static void queue_decay(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    bool bounds = c->params[BOUNDS].i;
    lx_mixer_gate(call, s[W], keys_of(c),
                  (lx_gate_args){.offset = bounds ? call->derived[BOUND] : NULL,
                                 .factor = bounds ? call->derived[LEFT] : NULL,
                                 .f = LX_FN_SIGMOID});
    lx_mixer_gate(call, s[W], keys_of(c),
                  (lx_gate_args){
                      .y = s[K], .offset = call->derived[ONE], .factor = call->derived[MINUS_ONE]});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t values = columns_of(c, V);
    for (int32_t part = 0; part < PARTS; part++)
        queue_part(call, part);
    queue_decay(call);
    lx_mixer_recur(call, (lx_recurrence_args){.y = s[Y],
                                              .q = lx_mixer_heads(s[Q], c->n_heads, c->d_key),
                                              .k = lx_mixer_heads(s[K], c->n_heads, c->d_key),
                                              .v = lx_mixer_heads(s[V], c->n_heads, c->d_value),
                                              .w = lx_mixer_heads(s[W], c->n_heads, c->d_key),
                                              .decay = LX_DECAY_CHANNEL,
                                              .scale = 1.0f / sqrtf((float)c->d_key)});
    lx_mixer_norm_heads(call, s[Y], 1, values,
                        (lx_head_norm_args){.gamma = call->arrays[NORM],
                                            .kind = LX_NORM_RMS,
                                            .eps = c->params[EPS].f});
    lx_mixer_end(call, s[Y], OUT, s[V]);
}

LX_MIXER(hgrn2, .summary = "HGRN2 (Qin et al. 2024)", .check = check);
