/*
 * Softmax attention without a cache (Katharopoulos et al. 2020, "Softmax" beside "stateful
 * softmax"): A(i) = {0 .. i}, and every step computes all tokens before once more. It gives what
 * `softmax` gives. See rows.h; the rows are there during a step only (model/recompute.h).
 */
#include "model/mixers/rows.h"

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_rows_pattern all = {.kind = LX_PATTERN_WINDOW, .dilation = 1};
    lx_mixer_declare_rows(c, &all, 1, p);
}

const lx_mixer lx_mixer_softmax_recompute = {
    .name = "softmax_recompute",
    .summary = "softmax attention without a cache: each step computes all tokens again",
    .is_recomputed = true,
    .check = lx_mixer_check_rows,
    .declare = declare,
    .queue = lx_mixer_queue_rows};
