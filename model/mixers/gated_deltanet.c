/*
 * Gated DeltaNet (Yang et al. 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule"): the
 * delta rule on a state whose heads decay. Equations, tensors and state are in delta.h.
 */
#include "model/mixers/delta.h"

static const lx_mixer_param params[] = {
    LX_DELTA_PARAMS(LX_DELTA_GATE_PARAM),
    {.name = "joined", .kind = LX_PARAM_FLAG, .optional = true}};
static const lx_delta kind = {.decay = LX_DECAY_HEAD};

const lx_mixer lx_mixer_gated_deltanet = {.name = "gated_deltanet",
                                          .summary = "Gated DeltaNet (Yang et al. 2024)",
                                          .variant = &kind,
                                          .n_params = sizeof params / sizeof *params,
                                          .params = params,
                                          .check = lx_mixer_check_delta,
                                          .declare = lx_mixer_declare_delta,
                                          .queue = lx_mixer_queue_delta};
