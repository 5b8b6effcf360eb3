/*
 * DeltaNet (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence
 * Length"): the delta rule on a state that does not decay. Equations, tensors and state are in
 * delta.h.
 */
#include "model/mixers/delta.h"

static const lx_mixer_param params[] = {LX_DELTA_PARAMS(LX_DELTA_GATE_PARAM)};
static const lx_delta kind = {.decay = LX_DECAY_NONE};

const lx_mixer lx_mixer_delta_net = {.name = "delta_net",
                                     .summary = "DeltaNet (Yang et al. 2024)",
                                     .variant = &kind,
                                     .n_params = sizeof params / sizeof *params,
                                     .params = params,
                                     .check = lx_mixer_check_delta,
                                     .declare = lx_mixer_declare_delta,
                                     .queue = lx_mixer_queue_delta};
