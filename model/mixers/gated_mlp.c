/*
 * The gated feed-forward net (Shazeer 2020, "GLU Variants Improve Transformer", SwiGLU), each token
 * by itself:
 *
 *     A(x) = W_down (o silu(g W_gate x) * W_up x)
 *
 * The factors `gate_scale` g and `out_scale` o are 1 unless the config has them.
 * Tensors: ff.gate, ff.up, ff.down, products without bias; with `joined` ff.gate_up has the rows of
 * W_gate, then those of W_up. No state.
 */
#include "model/mixers/recurrent.h"

static const lx_mixer_param params[] = {
    {.name = "joined", .kind = LX_PARAM_FLAG, .optional = true},
    {.name = "gate_scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "out_scale", .kind = LX_PARAM_SCALE, .optional = true},
};

enum { JOINED, GATE_SCALE, OUT_SCALE }; /* params */
enum { GATE, UP, DOWN };                /* tensors */
enum { GATE_FACTOR, OUT_FACTOR };       /* derived, both or none */
enum { OPENED, HIDDEN };                /* scratch */

static bool is_scaled(const lx_mixer_config *c)
{
    return lx_mixer_scale(c, GATE_SCALE) != 1 || lx_mixer_scale(c, OUT_SCALE) != 1;
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    bool joined = c->params[JOINED].i;
    lx_mixer_add_map(p, joined ? "ff.gate_up" : "ff.gate", c->d_ff, c->d_model);
    lx_mixer_add_map(p, joined ? "ff.gate_up" : "ff.up", c->d_ff, c->d_model);
    lx_mixer_add_map(p, "ff.down", c->d_model, c->d_ff);
    for (int32_t i = GATE; i <= UP && joined; i++)
        lx_mixer_take_rows(p, i, (int64_t)i * c->d_ff, c->d_ff, (int64_t)2 * c->d_ff);
    for (int32_t i = GATE_SCALE; i <= OUT_SCALE && is_scaled(c); i++)
        lx_mixer_add_constant(p, c->d_ff, (double)lx_mixer_scale(c, i));
    lx_mixer_add_scratch(p, c->d_ff);
    lx_mixer_add_scratch(p, c->d_ff);
}

static void queue(const lx_mixer_call *call)
{
    int32_t n = call->config->d_ff;
    lx_array *opened = call->scratch[OPENED], *hidden = call->scratch[HIDDEN];
    lx_mixer_product(call, hidden, call->x, UP, LX_ACT_NONE, NULL);
    lx_mixer_product(call, opened, call->x, GATE, LX_ACT_NONE, NULL);
    bool scaled = is_scaled(call->config);
    if (scaled)
        lx_mixer_gate(call, opened, n, (lx_gate_args){.factor = call->derived[GATE_FACTOR]});
    lx_mixer_gate(call, opened, n,
                  (lx_gate_args){.y = hidden,
                                 .z = {hidden, n, 0},
                                 .factor = scaled ? call->derived[OUT_FACTOR] : NULL,
                                 .f = LX_FN_SILU,
                                 .weighing = LX_WEIGH_TIMES});
    lx_mixer_product(call, call->residual, hidden, DOWN, LX_ACT_NONE, call->residual);
}

LX_MIXER(gated_mlp, .summary = "the gated feed-forward net of a layer (SwiGLU)",
         .is_feed_forward = true);
