/*
 * RWKV's feed-forward net, the channel mix (Peng et al. 2025, "RWKV-7 Goose"; with `receptance`
 * that of RWKV-6, Peng et al. 2024): each token next to the token before it; the first token's
 * x_(t-1) is zero.
 *
 *     k = relu(W_key (x_t + x_k (x_(t-1) - x_t)))^2
 *     A(x) = W_value k,  with receptance times sigmoid(W_receptance (x_t + x_r (x_(t-1) - x_t)))
 *
 * Tensors: ff.x_k, ff.key, ff.value, products without bias; with receptance ff.x_r, ff.receptance.
 * State: shift, the last x.
 */
#include "model/mixers/recurrent.h"

static const lx_mixer_param params[] = {
    {.name = "receptance", .kind = LX_PARAM_FLAG, .optional = true},
};

enum { RECEPTANCE };                         /* params */
enum { KEY, VALUE, X_K, X_R, W_RECEPTANCE }; /* tensors; the last two not always there */
enum { MIXES };                              /* derived */
/* Scratch. RECEIVED and ANSWER first have the rows of SHIFTED and SHIFTED_TOO with an output. */
enum { SHIFTED, HIDDEN, RECEIVED, SHIFTED_TOO, ANSWER };

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    bool receptance = c->params[RECEPTANCE].i;
    int32_t n_mixes = receptance ? 2 : 1;
    lx_mixer_add_map(p, "ff.key", c->d_ff, c->d_model);
    lx_mixer_add_map(p, "ff.value", c->d_model, c->d_ff);
    lx_mixer_add_array(p, "ff.x_k", 0, c->d_model);
    if (receptance) {
        lx_mixer_add_array(p, "ff.x_r", 0, c->d_model);
        lx_mixer_add_map(p, "ff.receptance", c->d_model, c->d_model);
    }
    lx_mixer_add_derived(p, X_K, n_mixes, (int64_t)n_mixes * c->d_model, lx_mixer_fill_copy);
    lx_mixer_add_scratch(p, c->d_model);
    lx_mixer_add_scratch(p, c->d_ff);
    lx_mixer_add_scratch(p, c->d_model);
    for (int32_t i = SHIFTED_TOO; i <= ANSWER; i++)
        lx_mixer_add_scratch(p, receptance ? c->d_model : 0);
    lx_mixer_add_field_once(p, "shift", 1, c->d_model);
}

/* All after the state is written. */
static void queue_net(const lx_mixer_call *rest)
{
    const lx_mixer_config *c = rest->config;
    lx_array *const *s = rest->scratch;
    int32_t d = c->d_model;
    lx_mixer_product(rest, s[HIDDEN], lx_mixer_rest_rows(rest, s[SHIFTED], d, s[RECEIVED]), KEY,
                     LX_ACT_NONE, NULL);
    lx_mixer_gate(rest, s[HIDDEN], c->d_ff, (lx_gate_args){.f = LX_FN_RELU2});
    if (!c->params[RECEPTANCE].i) {
        lx_mixer_product(rest, rest->residual, s[HIDDEN], VALUE, LX_ACT_NONE, rest->residual);
        return;
    }
    lx_mixer_product(rest, s[RECEIVED], lx_mixer_rest_rows(rest, s[SHIFTED_TOO], d, s[ANSWER]),
                     W_RECEPTANCE, LX_ACT_NONE, NULL);
    lx_mixer_product(rest, s[ANSWER], s[HIDDEN], VALUE, LX_ACT_NONE, NULL);
    lx_mixer_gate(rest, s[RECEIVED], d,
                  (lx_gate_args){.y = rest->residual,
                                 .z = {rest->residual, d, 0},
                                 .other = {s[ANSWER], d, 0},
                                 .f = LX_FN_SIGMOID,
                                 .weighing = LX_WEIGH_PLUS});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    call->be->ops->token_shift(call->be,
                               &(lx_token_shift_args){.y = {s[SHIFTED], s[SHIFTED_TOO]},
                                                      .x = call->x,
                                                      .mixes = call->derived[MIXES],
                                                      .states = call->states,
                                                      .offset = call->offset,
                                                      .n_mixes = c->params[RECEPTANCE].i ? 2 : 1,
                                                      .d = c->d_model});
    lx_mixer_call rest;
    if (lx_mixer_rest(call, &rest))
        queue_net(&rest);
}

LX_MIXER(channel_mix, .summary = "RWKV's feed-forward net with token shift",
         .is_feed_forward = true);
