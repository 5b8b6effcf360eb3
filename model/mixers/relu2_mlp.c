/*
 * A feed-forward net with squared units (So et al. 2021, "Primer: Searching for Efficient
 * Transformers"), each token by itself: A(x) = W_down max(W_up x, 0)^2.
 *
 * Tensors: ff.up, ff.down, products without bias. No state.
 */
#include "model/mixers/recurrent.h"

enum { UP, DOWN }; /* tensors */
enum { HIDDEN };   /* scratch */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_mixer_add_map(p, "ff.up", c->d_ff, c->d_model);
    lx_mixer_add_map(p, "ff.down", c->d_model, c->d_ff);
    lx_mixer_add_scratch(p, c->d_ff);
}

static void queue(const lx_mixer_call *call)
{
    lx_array *hidden = call->scratch[HIDDEN];
    lx_mixer_product(call, hidden, call->x, UP, LX_ACT_NONE, NULL);
    lx_mixer_gate(call, hidden, call->config->d_ff, (lx_gate_args){.f = LX_FN_RELU2});
    lx_mixer_product(call, call->residual, hidden, DOWN, LX_ACT_NONE, call->residual);
}

LX_MIXER_PLAIN(relu2_mlp, .summary = "a feed-forward net with squared units (So et al. 2021)",
               .is_feed_forward = true);
