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
enum { SHIFTED, HIDDEN, SHIFTED_TOO, RECEIVED, ANSWER }; /* scratch */

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
    for (int32_t i = SHIFTED_TOO; i <= ANSWER; i++)
        lx_mixer_add_scratch(p, receptance ? c->d_model : 0);
    lx_mixer_add_field_once(p, "shift", 1, c->d_model);
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t d = c->d_model;
    bool receptance = c->params[RECEPTANCE].i;
    call->be->ops->token_shift(call->be, &(lx_token_shift_args){.y = {s[SHIFTED], s[SHIFTED_TOO]},
                                                                .x = call->x,
                                                                .mixes = call->derived[MIXES],
                                                                .states = call->states,
                                                                .offset = call->offset,
                                                                .n_mixes = receptance ? 2 : 1,
                                                                .d = d});
    lx_mixer_product(call, s[HIDDEN], s[SHIFTED], KEY, LX_ACT_NONE, NULL);
    lx_mixer_gate(call, s[HIDDEN], c->d_ff, (lx_gate_args){.f = LX_FN_RELU2});
    if (!receptance) {
        lx_mixer_product(call, call->residual, s[HIDDEN], VALUE, LX_ACT_NONE, call->residual);
        return;
    }
    lx_mixer_product(call, s[ANSWER], s[HIDDEN], VALUE, LX_ACT_NONE, NULL);
    lx_mixer_product(call, s[RECEIVED], s[SHIFTED_TOO], W_RECEPTANCE, LX_ACT_NONE, NULL);
    lx_mixer_gate(call, s[RECEIVED], d,
                  (lx_gate_args){.y = call->residual,
                                 .z = {call->residual, d, 0},
                                 .other = {s[ANSWER], d, 0},
                                 .f = LX_FN_SIGMOID,
                                 .weighing = LX_WEIGH_PLUS});
}

LX_MIXER(channel_mix, .summary = "RWKV's feed-forward net with token shift",
         .is_feed_forward = true);
