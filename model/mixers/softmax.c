/*
 * Softmax attention (Vaswani et al. 2017): causal with its cache ("stateful softmax" in
 * Katharopoulos et al. 2020, C.1), A(i) = {0 .. i}, see rows.h; or both ways, A(i) = all tokens,
 * without a state.
 */
#include <math.h>

#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "direction", .kind = LX_PARAM_WORD, .words = lx_mixer_directions, .optional = true},
};

enum { DIRECTION };

static void declare_forward(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_rows_pattern all = {.kind = LX_PATTERN_WINDOW, .dilation = 1};
    lx_mixer_declare_rows(c, &all, 1, p);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    if (c->params[DIRECTION].i == LX_BOTH) {
        lx_mixer_declare_products(c, p);
        p->sees_all = true;
        return;
    }
    declare_forward(c, p);
}

static void attend_both(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    call->be->ops->attend_whole(call->be,
                                &(lx_attend_whole_args){.y = call->scratch[LX_ROWS_ATTENDED],
                                                        .qkv = call->scratch[LX_ROWS_PROJECTED],
                                                        .n_heads = c->n_heads,
                                                        .d_key = c->d_key,
                                                        .d_value = c->d_value,
                                                        .scale = 1.0f / sqrtf((float)c->d_key)});
}

static void queue(const lx_mixer_call *call)
{
    if (call->parts->sees_all)
        lx_mixer_queue_attention(call, LX_ROWS_OUT, attend_both);
    else
        lx_mixer_queue_rows(call);
}

static bool is_on(const lx_mixer_config *c, const lx_kernels *ops)
{
    return c->params[DIRECTION].i == LX_FORWARD || ops->attend_whole != NULL;
}

LX_MIXER(softmax, .summary = "softmax attention", .is_on = is_on, .check = lx_mixer_check_rows);

/*
 * Softmax attention without a cache (Katharopoulos et al. 2020, "Softmax" next to "stateful
 * softmax"): A(i) = {0 .. i}, and every step computes all tokens before once more. Its output is
 * that of `softmax`; its rows exist during a step only (model/recompute.h).
 */
const lx_mixer lx_mixer_softmax_recompute = {
    .name = "softmax_recompute",
    .summary = "softmax attention without a cache: each step computes all tokens again",
    .is_recomputed = true,
    .check = lx_mixer_check_rows,
    .declare = declare_forward,
    .queue = lx_mixer_queue_rows};
