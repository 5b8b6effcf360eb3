/*
 * The fixed pattern of the Sparse Transformer (Child et al. 2019): the block of `stride` tokens
 * that i lies in, up to i, and of every block before it `summary` tokens near its end. `cells`
 * heads in turn have cells of their own: cell n is the `summary` tokens before the n last cells.
 * See rows.h.
 */
#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "stride", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20, .is_within_sequence = true},
    {.name = "summary", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20},
    {.name = "cells", .kind = LX_PARAM_INT, .min = 1, .max = LX_MAX_MIXER_PATTERNS},
};

enum { STRIDE, SUMMARY, CELLS };

static const char *check(const lx_mixer_config *c)
{
    int64_t all = (int64_t)c->params[SUMMARY].i * c->params[CELLS].i;
    return all <= c->params[STRIDE].i ? lx_mixer_check_rows(c)
                                      : "summary times cells is more than stride";
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_rows_pattern cells[LX_MAX_MIXER_PATTERNS];
    for (int32_t i = 0; i < c->params[CELLS].i; i++)
        cells[i] = (lx_rows_pattern){.kind = LX_PATTERN_FIXED,
                                     .stride = c->params[STRIDE].i,
                                     .summary = c->params[SUMMARY].i,
                                     .cell = i};
    lx_mixer_declare_rows(c, cells, c->params[CELLS].i, p);
}

const lx_mixer lx_mixer_fixed = {.name = "fixed",
                                 .summary = "a block of tokens and the ends of those before",
                                 .n_params = sizeof params / sizeof *params,
                                 .params = params,
                                 .check = check,
                                 .declare = declare,
                                 .queue = lx_mixer_queue_rows};
