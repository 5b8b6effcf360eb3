/*
 * DeltaNet (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence
 * Length"): the delta rule on a state that does not decay. Equations, tensors and state are in
 * delta.h.
 */
#include "model/mixers/delta.h"

static const char *const rates[] = {"sigmoid", "twice_sigmoid", NULL};
static const char *const gates[] = {"none", "silu", NULL};
static const lx_mixer_param params[] = {
    {.name = "key_heads", .kind = LX_PARAM_INT, .min = 1, .max = 1024, .optional = true},
    {.name = "conv", .kind = LX_PARAM_INT, .min = 0, .max = LX_CONV_MOST_TAPS},
    {.name = "beta", .kind = LX_PARAM_WORD, .words = rates},
    {.name = "gate", .kind = LX_PARAM_WORD, .words = gates},
    {.name = "eps", .kind = LX_PARAM_EPS},
};

enum { KEY_HEADS, CONV, BETA, GATE, EPS }; /* params */

static lx_delta delta_of(const lx_mixer_config *c)
{
    return (lx_delta){.key_heads = c->params[KEY_HEADS].i > 0 ? c->params[KEY_HEADS].i : c->n_heads,
                      .taps = c->params[CONV].i,
                      .twice = c->params[BETA].i == 1,
                      .decay = LX_DECAY_NONE,
                      .gate = c->params[GATE].i == 1 ? LX_DELTA_GATE_SILU : LX_DELTA_GATE_NONE,
                      .eps = c->params[EPS].f};
}

static const char *check(const lx_mixer_config *c)
{
    lx_delta d = delta_of(c);
    return lx_mixer_check_delta(c, &d);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_delta d = delta_of(c);
    lx_mixer_declare_delta(c, &d, p);
}

static void queue(const lx_mixer_call *call)
{
    lx_delta d = delta_of(call->config);
    lx_mixer_queue_delta(call, &d);
}

const lx_mixer lx_mixer_delta_net = {.name = "delta_net",
                                     .summary = "DeltaNet (Yang et al. 2024)",
                                     .n_params = sizeof params / sizeof *params,
                                     .params = params,
                                     .check = check,
                                     .declare = declare,
                                     .queue = queue};
