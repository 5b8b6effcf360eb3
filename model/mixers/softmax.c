/*
 * Softmax attention with its cache (Vaswani et al. 2017; "stateful softmax" in Katharopoulos et al.
 * 2020, C.1): A(i) = {0 .. i}. See rows.h.
 */
#include "model/mixers/rows.h"

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_rows_pattern all = {.kind = LX_PATTERN_WINDOW, .dilation = 1};
    lx_mixer_declare_rows(c, &all, 1, p);
}

const lx_mixer lx_mixer_softmax = {.name = "softmax",
                                   .summary = "softmax attention to every token before",
                                   .check = lx_mixer_check_rows,
                                   .declare = declare,
                                   .queue = lx_mixer_queue_rows};
