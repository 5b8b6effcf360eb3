/*
 * The gated short convolution of LFM2 (Liquid AI 2025, "LFM2 Technical Report"): a causal,
 * depthwise convolution of `conv` taps between two gates, all as wide as the model:
 *
 *     B, C, u = W_in x        A(x) = W_out (C * conv(B * u))
 *
 * Tensors: attn.in [3 d_model, d_model], the rows of B, C and u in turn; attn.out;
 * attn.conv.weight [d_model, taps]. With `bias` all three have a bias.
 * State: once the last inputs B * u of the convolution, conv.
 */
#include "model/mixers/recurrent.h"

static const lx_mixer_param params[] = {
    {.name = "conv", .kind = LX_PARAM_INT, .min = 2, .max = LX_CONV_MOST_TAPS},
    {.name = "bias", .kind = LX_PARAM_FLAG},
};

enum { TAPS, BIAS };                        /* params */
enum { W_IN, W_OUT, CONV, CONV_BIAS };      /* tensors */
enum { CONV_TAPS };                         /* derived */
enum { PROJECTED, GATED_INPUT, CONVOLVED }; /* scratch */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t d = c->d_model, taps = c->params[TAPS].i;
    void (*add)(lx_mixer_parts *, const char *, int64_t, int64_t) =
        c->params[BIAS].i ? lx_mixer_add_product : lx_mixer_add_map;
    add(p, "attn.in", 3 * d, d);
    add(p, "attn.out", d, d);
    lx_mixer_add_array(p, "attn.conv.weight", d, taps);
    if (c->params[BIAS].i)
        lx_mixer_add_array(p, "attn.conv.bias", 0, d);
    lx_mixer_add_derived(p, CONV, 1, (int64_t)taps * d, lx_mixer_fill_transposed);
    lx_mixer_add_scratch(p, 3 * d);
    lx_mixer_add_scratch(p, d);
    lx_mixer_add_scratch(p, d);
    p->n_heads = 1;
    lx_mixer_add_field_once(p, "conv", taps - 1, d);
}

/* y = the columns of B (part 0) or C (part 1), times `other`. */
static void queue_gate(const lx_mixer_call *call, lx_array *y, int32_t part, lx_columns other)
{
    int32_t d = call->config->d_model;
    call->be->ops->gate(call->be, &(lx_gate_args){.y = y,
                                                  .x = {call->scratch[PROJECTED], 3 * d, part * d},
                                                  .z = other,
                                                  .d = d,
                                                  .weighing = LX_WEIGH_TIMES,
                                                  .rows = LX_ROWS_TOKENS});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t d = c->d_model;
    lx_mixer_product(call, s[PROJECTED], call->x, W_IN, LX_ACT_NONE, NULL);
    queue_gate(call, s[GATED_INPUT], 0, (lx_columns){s[PROJECTED], 3 * d, 2 * d});
    call->be->ops->short_conv(
        call->be, &(lx_short_conv_args){.y = s[CONVOLVED],
                                        .x = {s[GATED_INPUT], d, 0},
                                        .weights = call->derived[CONV_TAPS],
                                        .bias = c->params[BIAS].i ? call->arrays[CONV_BIAS] : NULL,
                                        .states = call->states,
                                        .offset = call->offset,
                                        .d = d,
                                        .taps = c->params[TAPS].i});
    queue_gate(call, s[CONVOLVED], 1, (lx_columns){s[CONVOLVED], d, 0});
    lx_mixer_end(call, s[CONVOLVED], W_OUT, s[GATED_INPUT]);
}

LX_MIXER(gated_conv, .summary = "the gated short convolution of LFM2 (Liquid AI 2025)");
