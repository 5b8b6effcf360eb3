/*
 * Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs"), causal (equations 16 to
 * 20) or both ways (5 and 6), where s and z are the sums over all tokens before any y is computed.
 * For every head, with keys and queries of size D and values of size M:
 *
 *     q, k, v = W_qkv x + b
 *     s = w s + phi(k) v^T        z = w z + phi(k)
 *     y = phi(q)^T s / (phi(q)^T z + eps)
 *     A(x) = W_out y + b
 *
 * Kind `linear` has w = 1 and cannot forget. Kind `gated_linear` has a factor per head and token,
 * w = sigmoid(W_forget x + b), so that a layer learns to empty its memory. The gate stands in front
 * of the old state alone; Peng et al. 2021, "Random Feature Attention", also weigh the new token.
 *
 * Tensors: attn.qkv (rows of q, then k, then v, head by head), attn.out; of gated_linear also
 * attn.forget (a row per head).
 * State of a head: s [D, M], then z [D]; both ways these lie in the layer's room.
 */
#include "model/mixers/recurrent.h"

/* phi; places as in lx_feature_map */
static const char *const feature_maps[] = {"elu+1", "relu", "relu2", "exp", NULL};
static const lx_mixer_param params[] = {
    {.name = "feature_map", .kind = LX_PARAM_WORD, .words = feature_maps},
    {.name = "eps", .kind = LX_PARAM_EPS},
    {.name = "direction", .kind = LX_PARAM_WORD, .words = lx_mixer_directions, .optional = true},
};

static const lx_mixer_param gated_params[] = {
    {.name = "feature_map", .kind = LX_PARAM_WORD, .words = feature_maps},
    {.name = "eps", .kind = LX_PARAM_EPS},
};

enum { FEATURE_MAP, EPS, DIRECTION };  /* params */
enum { QKV, OUT, FORGET };             /* tensors */
enum { PROJECTED, ATTENDED, FACTORS }; /* scratch */

extern const lx_mixer lx_mixer_gated_linear;

static bool is_gated(const lx_mixer_config *c)
{
    return c->mixer == &lx_mixer_gated_linear;
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t keys = (int64_t)c->n_heads * c->d_key, values = (int64_t)c->n_heads * c->d_value;
    lx_mixer_add_product(p, "attn.qkv", 2 * keys + values, c->d_model);
    lx_mixer_add_product(p, "attn.out", c->d_model, values);
    lx_mixer_add_scratch(p, 2 * keys + values);
    lx_mixer_add_scratch(p, values);
    if (is_gated(c)) {
        lx_mixer_add_product(p, "attn.forget", c->n_heads, c->d_model);
        lx_mixer_add_scratch(p, c->n_heads);
    }
    if (c->params[DIRECTION].i == LX_BOTH) {
        p->sees_all = true;
        p->room = keys * c->d_value + keys;
        return;
    }
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "s", c->d_key, c->d_value);
    lx_mixer_add_field(p, "z", 1, c->d_key);
}

static void attend(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    const lx_kernels *ops = call->be->ops;
    const lx_attend_linear_args args = {.y = call->scratch[ATTENDED],
                                        .qkv = call->scratch[PROJECTED],
                                        .states = call->states,
                                        .offset = call->offset,
                                        .n_heads = c->n_heads,
                                        .d_key = c->d_key,
                                        .d_value = c->d_value,
                                        .feature_map = (lx_feature_map)c->params[FEATURE_MAP].i,
                                        .eps = c->params[EPS].f,
                                        .decay = is_gated(c) ? call->scratch[FACTORS] : NULL};
    (call->parts->sees_all ? ops->attend_both : ops->attend_linear)(call->be, &args);
}

static void queue(const lx_mixer_call *call)
{
    if (is_gated(call->config)) {
        lx_mixer_product(call, call->scratch[FACTORS], call->x, FORGET, LX_ACT_NONE, NULL);
        lx_mixer_gate(call, call->scratch[FACTORS], call->config->n_heads,
                      (lx_gate_args){.f = LX_FN_SIGMOID});
    }
    lx_mixer_queue_attention(call, OUT, attend);
}

/* The back end that lacks attend_both, cuda, has no factors either. */
static bool is_on(const lx_mixer_config *c, const lx_kernels *ops)
{
    bool is_plain = c->params[DIRECTION].i == LX_FORWARD && !is_gated(c);
    return is_plain || ops->attend_both != NULL;
}

LX_MIXER(linear, .summary = "linear attention (Katharopoulos et al. 2020)", .is_on = is_on);
LX_MIXER_PLAIN(gated_linear, .summary = "linear attention that can forget (Peng et al. 2021)",
               .is_on = is_on, .params = gated_params,
               .n_params = sizeof gated_params / sizeof *gated_params);
