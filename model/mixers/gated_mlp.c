/*
 * The gated feed-forward net (Shazeer 2020, "GLU Variants Improve Transformer", SwiGLU), each token
 * by itself:
 *
 *     A(x) = W_down (silu(W_gate x) * W_up x)
 *
 * Tensors: ff.gate, ff.up, ff.down, products without bias. No state.
 */
#include "model/mixers/recurrent.h"

enum { GATE, UP, DOWN }; /* tensors */
enum { OPENED, HIDDEN }; /* scratch */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_mixer_add_map(p, "ff.gate", c->d_ff, c->d_model);
    lx_mixer_add_map(p, "ff.up", c->d_ff, c->d_model);
    lx_mixer_add_map(p, "ff.down", c->d_model, c->d_ff);
    lx_mixer_add_scratch(p, c->d_ff);
    lx_mixer_add_scratch(p, c->d_ff);
}

static void queue(const lx_mixer_call *call)
{
    int32_t n = call->config->d_ff;
    lx_array *opened = call->scratch[OPENED], *hidden = call->scratch[HIDDEN];
    lx_mixer_product(call, hidden, call->x, UP, LX_ACT_NONE, NULL);
    lx_mixer_product(call, opened, call->x, GATE, LX_ACT_NONE, NULL);
    lx_mixer_gate(
        call, opened, n,
        (lx_gate_args){
            .y = hidden, .z = {hidden, n, 0}, .f = LX_FN_SILU, .weighing = LX_WEIGH_TIMES});
    lx_mixer_product(call, call->residual, hidden, DOWN, LX_ACT_NONE, call->residual);
}

LX_MIXER_PLAIN(gated_mlp, .summary = "the gated feed-forward net of a layer (SwiGLU)",
               .is_feed_forward = true);
