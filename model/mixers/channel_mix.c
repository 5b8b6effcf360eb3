/*
 * RWKV-7's feed-forward net, the channel mix (Peng et al. 2025, "RWKV-7 Goose"): each token beside
 * the one before it, whose row x_(t-1) is zero for the first.
 *
 *     k = relu(W_key (x_t + x_k (x_(t-1) - x_t)))^2
 *     A(x) = W_value k
 *
 * Tensors: ff.x_k, ff.key, ff.value, products without bias.
 * State: shift, the last x.
 */
#include "model/mixers/mixer.h"

enum { X_K, KEY, VALUE }; /* tensors */
enum { SHIFTED, HIDDEN }; /* scratch */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_mixer_add_array(p, "ff.x_k", 0, c->d_model);
    lx_mixer_add_map(p, "ff.key", c->d_ff, c->d_model);
    lx_mixer_add_map(p, "ff.value", c->d_model, c->d_ff);
    lx_mixer_add_scratch(p, c->d_model);
    lx_mixer_add_scratch(p, c->d_ff);
    lx_mixer_add_field_once(p, "shift", 1, c->d_model);
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *shifted = call->scratch[SHIFTED], *hidden = call->scratch[HIDDEN];
    call->be->ops->token_shift(call->be, &(lx_token_shift_args){.y = {shifted},
                                                                .x = call->x,
                                                                .mixes = call->arrays[X_K],
                                                                .states = call->states,
                                                                .offset = call->offset,
                                                                .n_mixes = 1,
                                                                .d = c->d_model});
    lx_mixer_product(call, hidden, shifted, KEY, LX_ACT_NONE, NULL);
    call->be->ops->gate(call->be, &(lx_gate_args){.y = hidden,
                                                  .x = {hidden, c->d_ff, 0},
                                                  .d = c->d_ff,
                                                  .f = LX_FN_RELU2,
                                                  .rows = LX_ROWS_TOKENS});
    lx_mixer_product(call, call->residual, hidden, VALUE, LX_ACT_NONE, call->residual);
}

const lx_mixer lx_mixer_channel_mix = {.name = "channel_mix",
                                       .summary = "RWKV-7's feed-forward net with token shift",
                                       .is_feed_forward = true,
                                       .declare = declare,
                                       .queue = queue};
