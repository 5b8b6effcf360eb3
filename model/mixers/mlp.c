/*
 * The transformer's feed-forward net: A(x) = W_down act(W_up x + b) + b, each token by itself.
 *
 * Tensors: ff.up, ff.down. No state.
 */
#include "model/mixers/mixer.h"

enum { UP, DOWN }; /* tensors */
enum { HIDDEN };   /* scratch */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_mixer_add_product(p, "ff.up", c->d_ff, c->d_model);
    lx_mixer_add_product(p, "ff.down", c->d_model, c->d_ff);
    lx_mixer_add_scratch(p, c->d_ff);
}

static void queue(const lx_mixer_call *call)
{
    lx_array *hidden = call->scratch[HIDDEN];
    lx_mixer_product(call, hidden, call->x, UP, call->config->activation, NULL);
    lx_mixer_product(call, call->residual, hidden, DOWN, LX_ACT_NONE, call->residual);
}

LX_MIXER_PLAIN(mlp, .summary = "the feed-forward net of a layer", .is_feed_forward = true);
