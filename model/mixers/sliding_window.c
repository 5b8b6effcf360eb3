/*
 * Softmax attention to the last tokens (Beltagy et al. 2020, causal): A(i) = {i - window + 1 .. i},
 * from 0 on. `window` counts the token itself. `sinks` tokens at the beginning are seen for ever,
 * each once (Xiao et al. 2024); 0: none. See rows.h.
 */
#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "window", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20},
    {.name = "sinks", .kind = LX_PARAM_INT, .min = 0, .max = 1 << 20, .optional = true},
};

enum { WINDOW, SINKS };

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_rows_pattern window = {.kind = LX_PATTERN_WINDOW,
                                    .window = c->params[WINDOW].i,
                                    .dilation = 1,
                                    .sinks = c->params[SINKS].i};
    lx_mixer_declare_rows(c, &window, 1, p);
}

const lx_mixer lx_mixer_sliding_window = {.name = "sliding_window",
                                          .summary = "softmax attention to the last tokens",
                                          .n_params = sizeof params / sizeof *params,
                                          .params = params,
                                          .check = lx_mixer_check_rows,
                                          .declare = declare,
                                          .queue = lx_mixer_queue_rows};
