/*
 * Softmax attention to every dilation-th of the last tokens (Beltagy et al. 2020, causal):
 * A(i) = {i - t dilation, t = 0 .. window - 1}, from 0 on. `dilation` is a number for each head in
 * turn; 1 is an ordinary window. See rows.h.
 */
#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "window", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "dilation", .kind = LX_PARAM_INTS, .min = 1, .max = 1024},
};

enum { WINDOW };

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_rows_pattern windows[LX_MAX_PARAM_LIST];
    for (int32_t i = 0; i < c->n_list; i++)
        windows[i] = (lx_rows_pattern){
            .kind = LX_PATTERN_WINDOW, .window = c->params[WINDOW].i, .dilation = c->list[i]};
    lx_mixer_declare_rows(c, windows, c->n_list, p);
}

const lx_mixer lx_mixer_dilated_window = {.name = "dilated_window",
                                          .summary = "softmax attention to some of the last tokens",
                                          .n_params = sizeof params / sizeof *params,
                                          .params = params,
                                          .check = lx_mixer_check_rows,
                                          .declare = declare,
                                          .queue = lx_mixer_queue_rows};
