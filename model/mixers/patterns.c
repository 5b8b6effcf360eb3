/*
 * Kinds of softmax attention that differ in the rows that a token sees: each is a pattern, with its
 * keys in config.json. rows.h has their equations, tensors and state.
 */
#include "model/mixers/rows.h"

#define KIND(NAME, SUMMARY, CHECK, QUEUE)                                                          \
    const lx_mixer lx_mixer_##NAME = {.name = #NAME,                                               \
                                      .summary = (SUMMARY),                                        \
                                      .n_params = sizeof NAME##_params / sizeof *NAME##_params,    \
                                      .params = NAME##_params,                                     \
                                      .check = (CHECK),                                            \
                                      .declare = declare_##NAME,                                   \
                                      .queue = (QUEUE)}

/*
 * Softmax attention to the last tokens (Beltagy et al. 2020, causal): A(i) = {i - window + 1 .. i},
 * from 0 on. `window` counts the token itself. `sinks` tokens at the beginning are seen for ever,
 * each once (Xiao et al. 2024); 0: none.
 */
static const lx_mixer_param sliding_window_params[] = {
    {.name = "window", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20},
    {.name = "sinks", .kind = LX_PARAM_INT, .min = 0, .max = 1 << 20, .optional = true},
};

enum { SLIDING_WINDOW_WINDOW, SLIDING_WINDOW_SINKS };

static void declare_sliding_window(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_rows_pattern window = {.kind = LX_PATTERN_WINDOW,
                                    .window = c->params[SLIDING_WINDOW_WINDOW].i,
                                    .dilation = 1,
                                    .sinks = c->params[SLIDING_WINDOW_SINKS].i};
    lx_mixer_declare_rows(c, &window, 1, p);
}

KIND(sliding_window, "softmax attention to the last tokens", lx_mixer_check_rows,
     lx_mixer_queue_rows);

/*
 * Softmax attention to every dilation-th of the last tokens (Beltagy et al. 2020, causal):
 * A(i) = {i - t dilation, t = 0 .. window - 1}, from 0 on. `dilation` is a number for each head in
 * turn; 1 is an ordinary window.
 */
static const lx_mixer_param dilated_window_params[] = {
    {.name = "window", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "dilation", .kind = LX_PARAM_INTS, .min = 1, .max = 1024},
};

enum { DILATED_WINDOW_WINDOW };

static void declare_dilated_window(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_rows_pattern windows[LX_MAX_PARAM_LIST];
    for (int32_t i = 0; i < c->n_list; i++)
        windows[i] = (lx_rows_pattern){.kind = LX_PATTERN_WINDOW,
                                       .window = c->params[DILATED_WINDOW_WINDOW].i,
                                       .dilation = c->list[i]};
    lx_mixer_declare_rows(c, windows, c->n_list, p);
}

KIND(dilated_window, "softmax attention to some of the last tokens", lx_mixer_check_rows,
     lx_mixer_queue_rows);

/*
 * Local attention (Liu et al. 2018, "Generating Wikipedia by summarizing long sequences"): the
 * block of `block` tokens that i lies in, up to i, and `look_back` whole blocks before it. With
 * look_back 0 nothing is carried over a block's border.
 */
static const lx_mixer_param local_block_params[] = {
    {.name = "block", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "look_back", .kind = LX_PARAM_INT, .min = 0, .max = 15},
};

enum { LOCAL_BLOCK_BLOCK, LOCAL_BLOCK_LOOK_BACK };

static void declare_local_block(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_rows_pattern block = {.kind = LX_PATTERN_BLOCK,
                                   .block = c->params[LOCAL_BLOCK_BLOCK].i,
                                   .look_back = c->params[LOCAL_BLOCK_LOOK_BACK].i};
    lx_mixer_declare_rows(c, &block, 1, p);
}

KIND(local_block, "softmax attention within blocks of tokens", lx_mixer_check_rows,
     lx_mixer_queue_rows);

/*
 * The strided pattern of the Sparse Transformer (Child et al. 2019): a local part, the last
 * `stride` tokens with the token itself, and a column part, i, i - stride, i - 2 stride and so on.
 * `heads` says which part each head in turn has: "local" and "column" alternate with "apart", every
 * head has both with "merged". Layers that take turns name "local" and "column" themselves. For
 * images the stride is a row's values.
 */
static const char *const parts[] = {"apart", "merged", "local", "column", NULL};
static const lx_mixer_param strided_params[] = {
    {.name = "stride", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20, .is_within_sequence = true},
    {.name = "heads", .kind = LX_PARAM_WORD, .words = parts},
};

enum { STRIDED_STRIDE, STRIDED_HEADS }; /* params */
enum { STRIDED_APART, STRIDED_MERGED, STRIDED_LOCAL, STRIDED_COLUMN };

static void declare_strided(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t heads = c->params[STRIDED_HEADS].i;
    lx_rows_pattern first = {.kind = LX_PATTERN_STRIDED, .stride = c->params[STRIDED_STRIDE].i};
    first.local = heads != STRIDED_COLUMN;
    first.column = heads == STRIDED_COLUMN || heads == STRIDED_MERGED;
    lx_rows_pattern second = first;
    second.local = false;
    second.column = true;
    lx_mixer_declare_rows(c, (const lx_rows_pattern[]){first, second},
                          heads == STRIDED_APART ? 2 : 1, p);
}

KIND(strided, "the last tokens and a column of earlier tokens", lx_mixer_check_rows,
     lx_mixer_queue_rows);

/*
 * The fixed pattern of the Sparse Transformer (Child et al. 2019): the block of `stride` tokens
 * that i lies in, up to i, and of every block before it `summary` tokens near its end. `cells`
 * heads in turn have cells of their own: cell n is the `summary` tokens before the n last cells.
 *
 */
static const lx_mixer_param fixed_params[] = {
    {.name = "stride", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20, .is_within_sequence = true},
    {.name = "summary", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20},
    {.name = "cells", .kind = LX_PARAM_INT, .min = 1, .max = LX_MAX_MIXER_PATTERNS},
};

enum { FIXED_STRIDE, FIXED_SUMMARY, FIXED_CELLS };

static const char *check_fixed(const lx_mixer_config *c)
{
    int64_t all = (int64_t)c->params[FIXED_SUMMARY].i * c->params[FIXED_CELLS].i;
    return all <= c->params[FIXED_STRIDE].i ? lx_mixer_check_rows(c)
                                            : "summary times cells is more than stride";
}

static void declare_fixed(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_rows_pattern cells[LX_MAX_MIXER_PATTERNS];
    for (int32_t i = 0; i < c->params[FIXED_CELLS].i; i++)
        cells[i] = (lx_rows_pattern){.kind = LX_PATTERN_FIXED,
                                     .stride = c->params[FIXED_STRIDE].i,
                                     .summary = c->params[FIXED_SUMMARY].i,
                                     .cell = i};
    lx_mixer_declare_rows(c, cells, c->params[FIXED_CELLS].i, p);
}

KIND(fixed, "a block of tokens and the ends of earlier blocks", check_fixed, lx_mixer_queue_rows);

/*
 * Blockwise attention (Qiu et al. 2020), made causal: a head of shift t sees the whole block of
 * `block` tokens that lies t before that of i; with shift 0 its own up to i. `shifts` is a number
 * for each head in turn; at least one is 0, or no token would see its neighbours. Where there is
 * no such block yet, `on_empty` names the visible block: the "own" block, or nothing ("zero").
 */
static const char *const on_empty[] = {"own", "zero", NULL};
static const lx_mixer_param blockwise_params[] = {
    {.name = "block", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "shifts", .kind = LX_PARAM_INTS, .min = 0, .max = 15},
    {.name = "on_empty", .kind = LX_PARAM_WORD, .words = on_empty},
};

enum { BLOCKWISE_BLOCK, BLOCKWISE_SHIFTS, BLOCKWISE_ON_EMPTY };

static const char *check_blockwise(const lx_mixer_config *c)
{
    for (int32_t i = 0; i < c->n_list && i < c->n_heads; i++) {
        if (c->list[i] == 0)
            return lx_mixer_check_rows(c);
    }
    return "shifts must give at least one head the shift 0";
}

static void declare_blockwise(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_rows_pattern shifts[LX_MAX_PARAM_LIST];
    for (int32_t i = 0; i < c->n_list; i++)
        shifts[i] = (lx_rows_pattern){.kind = LX_PATTERN_SHIFTED_BLOCK,
                                      .block = c->params[BLOCKWISE_BLOCK].i,
                                      .shift = c->list[i],
                                      .or_own = c->params[BLOCKWISE_ON_EMPTY].i == 0};
    lx_mixer_declare_rows(c, shifts, c->n_list, p);
}

KIND(blockwise, "heads attend to their own block or one before", check_blockwise,
     lx_mixer_queue_rows);

/*
 * A window with global tokens (Beltagy et al. 2020, causal): the first `global_prefix` tokens are
 * global. They are seen by all tokens, and they see all tokens up to themselves, by a second set of
 * projections.
 *
 *     A(i) = {i - window + 1 .. i} and {0 .. global_prefix - 1}, up to i, each once
 *     q, k, v    = W_qkv x + b       y_i = sum over j in A(i) of softmax_j(q_i . k_j / sqrt(D)) v_j
 *     q', k', v' = W_global x + b    y_i = sum over j <= i of softmax_j(q'_i . k'_j / sqrt(D)) v'_j
 *                                          for i < global_prefix, instead
 *     A(x) = W_out y + b
 *
 * Tensors: attn.qkv, attn.out as in rows.h, attn.global as attn.qkv.
 * State: as in rows.h a ring of rows (k, v), then a second one of the first rows (k', v').
 */
static const lx_mixer_param global_window_params[] = {
    {.name = "window", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20},
    {.name = "global_prefix", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20},
};

enum { GLOBAL_WINDOW_WINDOW, GLOBAL_WINDOW_GLOBAL_PREFIX };
enum { GLOBAL_WINDOW_GLOBAL = LX_ROWS_TENSORS }; /* tensors */

static void declare_global_window(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t n = c->params[GLOBAL_WINDOW_GLOBAL_PREFIX].i;
    const lx_rows_pattern window = {.kind = LX_PATTERN_WINDOW,
                                    .window = c->params[GLOBAL_WINDOW_WINDOW].i,
                                    .dilation = 1,
                                    .sinks = n};
    lx_mixer_declare_rows(c, &window, 1, p);
    lx_mixer_add_product(p, "attn.global", p->tensors[LX_ROWS_QKV].rows, c->d_model);
    lx_mixer_add_second_ring(p, &(const lx_rows_pattern){.kind = LX_PATTERN_PREFIX, .sinks = n});
}

static void queue_global_window(const lx_mixer_call *call)
{
    const lx_mixer_parts *p = call->parts;
    lx_array *projected = call->scratch[LX_ROWS_PROJECTED];
    lx_attend_rows_args attend = lx_mixer_attend_rows_args(call);
    lx_mixer_product(call, projected, call->x, LX_ROWS_QKV, LX_ACT_NONE, NULL);
    call->be->ops->attend_rows(call->be, &attend);
    attend.offset = call->offset + lx_mixer_ring_floats(p);
    attend.ring = p->second_ring;
    attend.patterns = &p->second;
    attend.leave_unseeing = true;
    lx_mixer_product(call, projected, call->x, GLOBAL_WINDOW_GLOBAL, LX_ACT_NONE, NULL);
    call->be->ops->attend_rows(call->be, &attend);
    lx_mixer_end(call, attend.y, LX_ROWS_OUT, projected);
}

KIND(global_window, "the last tokens, and global ones before", lx_mixer_check_rows,
     queue_global_window);
