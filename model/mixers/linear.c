/*
 * Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs"), causal (equations 16 to
 * 20) or both ways (5 and 6), where s and z are the sums over all tokens before any y is computed.
 * For every head, with keys and queries of size D and values of size M:
 *
 *     q, k, v = W_qkv x + b
 *     s += phi(k) v^T        z += phi(k)
 *     y  = phi(q)^T s / (phi(q)^T z + eps)
 *     A(x) = W_out y + b
 *
 * Tensors: attn.qkv (rows of q, then k, then v, head by head), attn.out.
 * State of a head: s [D, M], then z [D]; both ways these lie in the layer's room.
 */
#include "model/mixers/mixer.h"

/* phi; places as in lx_feature_map */
static const char *const feature_maps[] = {"elu+1", "relu", "relu2", "exp", NULL};
static const lx_mixer_param params[] = {
    {.name = "feature_map", .kind = LX_PARAM_WORD, .words = feature_maps},
    {.name = "eps", .kind = LX_PARAM_EPS},
    {.name = "direction", .kind = LX_PARAM_WORD, .words = lx_mixer_directions, .optional = true},
};

enum { FEATURE_MAP, EPS, DIRECTION }; /* params */
enum { QKV, OUT };                    /* tensors */
enum { PROJECTED, ATTENDED };         /* scratch */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t keys = (int64_t)c->n_heads * c->d_key, values = (int64_t)c->n_heads * c->d_value;
    lx_mixer_add_product(p, "attn.qkv", 2 * keys + values, c->d_model);
    lx_mixer_add_product(p, "attn.out", c->d_model, values);
    lx_mixer_add_scratch(p, 2 * keys + values);
    lx_mixer_add_scratch(p, values);
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
                                        .eps = c->params[EPS].f};
    (call->parts->sees_all ? ops->attend_both : ops->attend_linear)(call->be, &args);
}

static void queue(const lx_mixer_call *call)
{
    lx_mixer_queue_attention(call, OUT, attend);
}

static bool is_on(const lx_mixer_config *c, const lx_kernels *ops)
{
    return c->params[DIRECTION].i == LX_FORWARD || ops->attend_both != NULL;
}

LX_MIXER(linear, .summary = "linear attention (Katharopoulos et al. 2020)", .is_on = is_on);
