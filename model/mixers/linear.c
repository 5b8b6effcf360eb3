/*
 * Causal linear attention (Katharopoulos et al. 2020, "Transformers are RNNs", equations 16 to 20).
 * For every head, with keys and queries of size D and values of size M:
 *
 *     q, k, v = W_qkv x + b
 *     s += phi(k) v^T        z += phi(k)
 *     y  = phi(q)^T s / (phi(q)^T z + eps)
 *     A(x) = W_out y + b
 *
 * Tensors: attn.qkv (rows of q, then k, then v, head by head), attn.out.
 * State of a head: s [D, M], then z [D].
 */
#include "model/mixers/mixer.h"

/* phi; places as in lx_feature_map */
static const char *const feature_maps[] = {"elu+1", "relu", "relu2", "exp", NULL};
static const lx_mixer_param params[] = {
    {.name = "feature_map", .kind = LX_PARAM_WORD, .words = feature_maps},
    {.name = "eps", .kind = LX_PARAM_EPS},
};

enum { FEATURE_MAP, EPS };    /* params */
enum { QKV, OUT };            /* tensors */
enum { PROJECTED, ATTENDED }; /* scratch */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t keys = (int64_t)c->n_heads * c->d_key, values = (int64_t)c->n_heads * c->d_value;
    lx_mixer_add_product(p, "attn.qkv", 2 * keys + values, c->d_model);
    lx_mixer_add_product(p, "attn.out", c->d_model, values);
    lx_mixer_add_scratch(p, 2 * keys + values);
    lx_mixer_add_scratch(p, values);
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "s", c->d_key, c->d_value);
    lx_mixer_add_field(p, "z", 1, c->d_key);
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *projected = call->scratch[PROJECTED], *attended = call->scratch[ATTENDED];
    lx_mixer_product(call, projected, call->x, QKV, LX_ACT_NONE, NULL);
    call->be->ops->attend_linear(
        call->be, &(lx_attend_linear_args){.y = attended,
                                           .qkv = projected,
                                           .states = call->states,
                                           .offset = call->offset,
                                           .n_heads = c->n_heads,
                                           .d_key = c->d_key,
                                           .d_value = c->d_value,
                                           .feature_map = (lx_feature_map)c->params[FEATURE_MAP].i,
                                           .eps = c->params[EPS].f});
    lx_mixer_product(call, call->residual, attended, OUT, LX_ACT_NONE, call->residual);
}

const lx_mixer lx_mixer_linear = {.name = "linear",
                                  .summary = "causal linear attention (Katharopoulos et al. 2020)",
                                  .n_params = sizeof params / sizeof *params,
                                  .params = params,
                                  .declare = declare,
                                  .queue = queue};
