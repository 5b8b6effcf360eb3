/*
 * Gated linear attention (Yang et al. 2024, "Gated Linear Attention Transformers with
 * Hardware-Efficient Training"): key channels that decay by what the token says. Equations, tensors
 * and state are in decaying.h.
 */
#include "model/mixers/decaying.h"

static const lx_mixer_param params[] =
    LX_DECAYING_PARAMS(.name = "rank", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16);
static const lx_decaying kind = {.decay = LX_DECAY_CHANNEL};

const lx_mixer lx_mixer_gla = {.name = "gla",
                               .summary = "gated linear attention (Yang et al. 2024)",
                               .variant = &kind,
                               .n_params = sizeof params / sizeof *params,
                               .params = params,
                               .check = lx_mixer_check_decaying,
                               .declare = lx_mixer_declare_decaying,
                               .queue = lx_mixer_queue_decaying};
