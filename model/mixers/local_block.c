/*
 * Local attention (Liu et al. 2018, "Generating Wikipedia by summarizing long sequences"): the
 * block of `block` tokens that i lies in, up to i, and `look_back` whole blocks before it. With
 * look_back 0 nothing is carried over a block's border. See rows.h.
 */
#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "block", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "look_back", .kind = LX_PARAM_INT, .min = 0, .max = 15},
};

enum { BLOCK, LOOK_BACK };

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_rows_pattern block = {
        .kind = LX_PATTERN_BLOCK, .block = c->params[BLOCK].i, .look_back = c->params[LOOK_BACK].i};
    lx_mixer_declare_rows(c, &block, 1, p);
}

const lx_mixer lx_mixer_local_block = {.name = "local_block",
                                       .summary = "softmax attention within blocks of tokens",
                                       .n_params = sizeof params / sizeof *params,
                                       .params = params,
                                       .check = lx_mixer_check_rows,
                                       .declare = declare,
                                       .queue = lx_mixer_queue_rows};
