/*
 * The strided pattern of the Sparse Transformer (Child et al. 2019): a local part, the last
 * `stride` tokens with the token itself, and a column part, i, i - stride, i - 2 stride and so on.
 * `heads` says which part each head in turn has: "local" and "column" alternate with "apart", every
 * head has both with "merged". Layers that take turns name "local" and "column" themselves. For
 * images the stride is a row's values. See rows.h.
 */
#include "model/mixers/rows.h"

static const char *const parts[] = {"apart", "merged", "local", "column", NULL};
static const lx_mixer_param params[] = {
    {.name = "stride", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20, .is_within_sequence = true},
    {.name = "heads", .kind = LX_PARAM_WORD, .words = parts},
};

enum { STRIDE, HEADS }; /* params */
enum { APART, MERGED, LOCAL, COLUMN };

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t heads = c->params[HEADS].i;
    lx_rows_pattern first = {.kind = LX_PATTERN_STRIDED, .stride = c->params[STRIDE].i};
    first.local = heads != COLUMN;
    first.column = heads == COLUMN || heads == MERGED;
    lx_rows_pattern second = first;
    second.local = false;
    second.column = true;
    lx_mixer_declare_rows(c, (const lx_rows_pattern[]){first, second}, heads == APART ? 2 : 1, p);
}

const lx_mixer lx_mixer_strided = {.name = "strided",
                                   .summary = "the last tokens and a column of those before",
                                   .n_params = sizeof params / sizeof *params,
                                   .params = params,
                                   .check = lx_mixer_check_rows,
                                   .declare = declare,
                                   .queue = lx_mixer_queue_rows};
