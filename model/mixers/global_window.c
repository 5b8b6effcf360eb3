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
 * State: as in rows.h a ring of rows (k, v), behind it another one of the first rows (k', v').
 */
#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "window", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20},
    {.name = "global_prefix", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20},
};

enum { WINDOW, GLOBAL_PREFIX };
enum { GLOBAL = LX_ROWS_TENSORS }; /* tensors */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t n = c->params[GLOBAL_PREFIX].i;
    const lx_rows_pattern window = {
        .kind = LX_PATTERN_WINDOW, .window = c->params[WINDOW].i, .dilation = 1, .sinks = n};
    lx_mixer_declare_rows(c, &window, 1, p);
    lx_mixer_add_product(p, "attn.global", p->tensors[LX_ROWS_QKV].rows, c->d_model);
    lx_mixer_add_second_ring(p, &(const lx_rows_pattern){.kind = LX_PATTERN_PREFIX, .sinks = n});
}

static void queue(const lx_mixer_call *call)
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
    lx_mixer_product(call, projected, call->x, GLOBAL, LX_ACT_NONE, NULL);
    call->be->ops->attend_rows(call->be, &attend);
    lx_mixer_product(call, call->residual, attend.y, LX_ROWS_OUT, LX_ACT_NONE, call->residual);
}

const lx_mixer lx_mixer_global_window = {.name = "global_window",
                                         .summary = "the last tokens, and global ones before",
                                         .n_params = sizeof params / sizeof *params,
                                         .params = params,
                                         .check = lx_mixer_check_rows,
                                         .declare = declare,
                                         .queue = queue};
