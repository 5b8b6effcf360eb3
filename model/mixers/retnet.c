/*
 * Retention (Sun et al. 2023, "Retentive Network: A Successor to Transformer for Large Language
 * Models"): heads that decay, each at a rate of its own that no training changes, and queries and
 * keys that are rotated by their positions. Equations, tensors and state are in decaying.h.
 */
#include "model/mixers/decaying.h"

static const lx_mixer_param params[] =
    LX_DECAYING_PARAMS(.name = "base", .kind = LX_PARAM_INT, .min = 2, .max = 1 << 30);
static const lx_decaying kind = {.decay = LX_DECAY_FIXED, .is_rotated = true};

const lx_mixer lx_mixer_retnet = {.name = "retnet",
                                  .summary = "retention (Sun et al. 2023)",
                                  .variant = &kind,
                                  .n_params = sizeof params / sizeof *params,
                                  .params = params,
                                  .check = lx_mixer_check_decaying,
                                  .declare = lx_mixer_declare_decaying,
                                  .queue = lx_mixer_queue_decaying};
