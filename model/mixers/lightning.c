/*
 * Lightning attention, as in MiniMax-01 (Qin et al. 2024, "Lightning Attention-2"; MiniMax 2025,
 * "MiniMax-01: Scaling Foundation Models with Lightning Attention"): each head decays at a rate of
 * its own, which also depends on the layer l of L:
 *
 *     q, k, v = silu(W_qkv x)                    of head 0, then of head 1, and so on
 *     w = exp(-2^(-8 (h + 1) / H) (1 - l / (L - 1 + 1e-5) + 1e-5))
 *     S = w S + k v^T                            y = S^T q
 *     A(x) = W_out (rms_norm(y) gamma sigmoid(W_g x))          of the whole row
 *
 * Tensors: attn.qkv [H (2 K + V), d_model], attn.g, attn.out, products without bias;
 * attn.norm.weight [H V].
 * State: of a head S [K, V].
 */
#include <math.h>

#include "model/mixers/recurrent.h"

static const lx_mixer_param params[] = {{.name = "eps", .kind = LX_PARAM_EPS}};

enum { EPS };                 /* params */
enum { QKV, W_G, OUT, NORM }; /* tensors */
enum { DECAYS };              /* derived */
enum { PROJECTED, GATE, Y };  /* scratch */

static int32_t head_of(const lx_mixer_config *c)
{
    return 2 * c->d_key + c->d_value;
}

static void fill_decays(const lx_mixer_config *c, const lx_mixer_parts *p,
                        const lx_mixer_derived *d, const float *from, float *to)
{
    double of_layer = 1 - p->layer / (c->n_layers - 1 + 1e-5) + 1e-5;
    (void)from;
    for (int32_t h = 0; h < d->n; h++)
        to[h] = (float)exp(-exp2(-8.0 * (h + 1) / c->n_heads) * of_layer);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t values = c->n_heads * c->d_value;
    lx_mixer_add_map(p, "attn.qkv", (int64_t)c->n_heads * head_of(c), c->d_model);
    lx_mixer_add_map(p, "attn.g", values, c->d_model);
    lx_mixer_add_map(p, "attn.out", c->d_model, values);
    lx_mixer_add_array(p, "attn.norm.weight", 0, values);
    lx_mixer_add_derived(p, 0, 0, c->n_heads, fill_decays);
    lx_mixer_add_scratch(p, (int64_t)c->n_heads * head_of(c));
    lx_mixer_add_scratch(p, values);
    lx_mixer_add_scratch(p, values);
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "S", c->d_key, c->d_value);
}

/* Where a head's q, k or v begins among its columns. */
static lx_head_columns part_of(const lx_mixer_call *call, int32_t first)
{
    const lx_mixer_config *c = call->config;
    return (lx_head_columns){call->scratch[PROJECTED], c->n_heads * head_of(c), first, head_of(c),
                             1};
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t values = c->n_heads * c->d_value;
    lx_mixer_product(call, s[PROJECTED], call->x, QKV, LX_ACT_NONE, NULL);
    lx_mixer_gate(call, s[PROJECTED], c->n_heads * head_of(c), (lx_gate_args){.f = LX_FN_SILU});
    lx_mixer_recur(call,
                   (lx_recurrence_args){.y = s[Y],
                                        .q = part_of(call, 0),
                                        .k = part_of(call, c->d_key),
                                        .v = part_of(call, 2 * c->d_key),
                                        .w = lx_mixer_heads(call->derived[DECAYS], c->n_heads, 1),
                                        .decay = LX_DECAY_FIXED,
                                        .scale = 1});
    lx_mixer_product(call, s[GATE], call->x, W_G, LX_ACT_NONE, NULL);
    lx_mixer_norm_heads(call, s[Y], 1, values,
                        (lx_head_norm_args){.gate = {s[GATE], values, 0},
                                            .gamma = call->arrays[NORM],
                                            .kind = LX_NORM_RMS,
                                            .f = LX_FN_SIGMOID,
                                            .eps = c->params[EPS].f});
    lx_mixer_end(call, s[Y], OUT, s[GATE]);
}

LX_MIXER(lightning, .summary = "lightning attention (MiniMax 2025)");
