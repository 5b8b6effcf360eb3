/*
 * Kimi Delta Attention (Kimi Team 2025, "Kimi Linear"): the delta rule on a state whose key
 * channels decay, each by itself, and a gate through a low-rank pair. Equations, tensors and state
 * are in delta.h.
 */
#include "model/mixers/delta.h"

static const lx_mixer_param params[] = {
    LX_DELTA_PARAMS(.name = "rank", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16)};
static const lx_delta kind = {.decay = LX_DECAY_CHANNEL, .has_pairs = true};

const lx_mixer lx_mixer_kda = {.name = "kda",
                               .summary = "Kimi Delta Attention (Kimi Team 2025)",
                               .variant = &kind,
                               .n_params = sizeof params / sizeof *params,
                               .params = params,
                               .check = lx_mixer_check_delta,
                               .declare = lx_mixer_declare_delta,
                               .queue = lx_mixer_queue_delta};
