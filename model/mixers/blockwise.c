/*
 * Blockwise attention (Qiu et al. 2020), made causal: a head of shift t sees the whole block of
 * `block` tokens that lies t before that of i; with shift 0 its own up to i. `shifts` is a number
 * for each head in turn; at least one is 0, or no token would see those beside it. Where there is
 * no such block yet, `on_empty` says what is seen: the "own" block, or nothing ("zero"). See
 * rows.h.
 */
#include "model/mixers/rows.h"

static const char *const on_empty[] = {"own", "zero", NULL};
static const lx_mixer_param params[] = {
    {.name = "block", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "shifts", .kind = LX_PARAM_INTS, .min = 0, .max = 15},
    {.name = "on_empty", .kind = LX_PARAM_WORD, .words = on_empty},
};

enum { BLOCK, SHIFTS, ON_EMPTY };

static const char *check(const lx_mixer_config *c)
{
    for (int32_t i = 0; i < c->n_list && i < c->n_heads; i++) {
        if (c->list[i] == 0)
            return lx_mixer_check_rows(c);
    }
    return "shifts must give at least one head the shift 0";
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_rows_pattern shifts[LX_MAX_PARAM_LIST];
    for (int32_t i = 0; i < c->n_list; i++)
        shifts[i] = (lx_rows_pattern){.kind = LX_PATTERN_SHIFTED_BLOCK,
                                      .block = c->params[BLOCK].i,
                                      .shift = c->list[i],
                                      .or_own = c->params[ON_EMPTY].i == 0};
    lx_mixer_declare_rows(c, shifts, c->n_list, p);
}

const lx_mixer lx_mixer_blockwise = {.name = "blockwise",
                                     .summary = "heads attend to their own block or one before",
                                     .n_params = sizeof params / sizeof *params,
                                     .params = params,
                                     .check = check,
                                     .declare = declare,
                                     .queue = lx_mixer_queue_rows};
