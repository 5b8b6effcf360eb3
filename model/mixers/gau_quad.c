/*
 * The gated attention unit (Hua et al. 2022, "Transformer quality in linear time", section 3.1),
 * which takes the place of attention and feed-forward net. One head; s = d_key, e = d_value.
 *
 *     u, v = silu(W_u x + b), silu(W_v x + b)         [e]
 *     z    = silu(W_z x + b)                          [s]
 *     q, k = gamma_q z + beta_q, gamma_k z + beta_k   element by element
 *     y_i  = sum over j <= i of a_ij v_j
 *     A(x) = W_out (u y) + b
 *
 * `div` and `div_place` say how the squares are divided, by which published forms differ:
 *
 *     const, outside    a_ij = max(q_i . k_j, 0)^2 / (length s)     the paper's
 *     const, inside     a_ij = max(q_i . k_j / length, 0)^2         its code's
 *     count, outside    a_ij = max(q_i . k_j, 0)^2 / ((i + 1) s)
 *
 * `length` is a number of the model, that of its training, and not the number of tokens, because a
 * token's output must not depend on later tokens.
 *
 * Tensors: attn.uvz (rows of u, then v, then z), attn.gamma_q, .beta_q, .gamma_k, .beta_k [s],
 * attn.out. State: the rows (k, v) of all tokens, in pages.
 */
#include "model/mixers/rows.h"

static const char *const divisions[] = {"const", "count", NULL};
static const char *const places[] = {"outside", "inside", NULL};
static const lx_mixer_param params[] = {
    {.name = "div", .kind = LX_PARAM_WORD, .words = divisions},
    {.name = "div_place", .kind = LX_PARAM_WORD, .words = places},
    {.name = "length", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 24, .optional = true},
};

enum { DIV, DIV_PLACE, LENGTH }; /* params */
enum { CONST, COUNT };           /* divisions */
enum { OUTSIDE, INSIDE };        /* places */
enum { UVZ, GAMMA_Q, BETA_Q, GAMMA_K, BETA_K, OUT };
enum { PROJECTED, QKV, ATTENDED }; /* scratch */

static const char *check(const lx_mixer_config *c)
{
    bool by_count = c->params[DIV].i == COUNT;
    if (c->n_heads != 1)
        return "n_heads must be 1";
    if (by_count && c->params[DIV_PLACE].i == INSIDE)
        return "div_place must be \"outside\" where div is \"count\"";
    if (by_count != (c->params[LENGTH].i == 0))
        return by_count ? "length is of no use where div is \"count\""
                        : "length is missing: div \"const\" divides by it";
    return lx_mixer_check_rows(c);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t s = c->d_key, e = c->d_value;
    lx_mixer_add_product(p, "attn.uvz", 2 * e + s, c->d_model);
    lx_mixer_add_array(p, "attn.gamma_q", 0, s);
    lx_mixer_add_array(p, "attn.beta_q", 0, s);
    lx_mixer_add_array(p, "attn.gamma_k", 0, s);
    lx_mixer_add_array(p, "attn.beta_k", 0, s);
    lx_mixer_add_product(p, "attn.out", c->d_model, e);
    lx_mixer_add_scratch(p, 2 * e + s);
    lx_mixer_add_scratch(p, 2 * s + e);
    lx_mixer_add_scratch(p, e);
    lx_mixer_add_rows(p, 1, s, e, 0);
    p->patterns[p->n_patterns++] = (lx_rows_pattern){.kind = LX_PATTERN_WINDOW, .dilation = 1};
}

/* Columns of qkv from n columns of the projection; gamma and beta as in call->arrays, or NULL. */
static void queue_columns(const lx_mixer_call *call, int32_t to, int32_t from, int32_t n,
                          const lx_array *gamma, const lx_array *beta)
{
    int32_t s = call->config->d_key, e = call->config->d_value;
    call->be->ops->gate(call->be, &(lx_gate_args){.y = call->scratch[QKV],
                                                  .y_width = 2 * s + e,
                                                  .y_first = to,
                                                  .x = {call->scratch[PROJECTED], 2 * e + s, from},
                                                  .factor = gamma,
                                                  .offset = beta,
                                                  .d = n,
                                                  .f = LX_FN_SILU});
}

static float divisor(const lx_mixer_config *c)
{
    float s = (float)c->d_key;
    if (c->params[DIV].i == COUNT)
        return s;
    return c->params[DIV_PLACE].i == INSIDE ? 1 : s * (float)c->params[LENGTH].i;
}

static void queue_attention(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    bool inside = c->params[DIV_PLACE].i == INSIDE;
    call->be->ops->attend_rows(
        call->be, &(lx_attend_rows_args){.y = call->scratch[ATTENDED],
                                         .qkv = call->scratch[QKV],
                                         .states = call->states,
                                         .offset = call->page_offset,
                                         .n_heads = 1,
                                         .d_key = c->d_key,
                                         .d_value = c->d_value,
                                         .scale = inside ? 1 / (float)c->params[LENGTH].i : 1,
                                         .patterns = call->parts->patterns,
                                         .n_patterns = call->parts->n_patterns,
                                         .weighting = LX_WEIGHT_RELU2,
                                         .divisor = divisor(c),
                                         .by_count = c->params[DIV].i == COUNT});
}

static void queue(const lx_mixer_call *call)
{
    int32_t s = call->config->d_key, e = call->config->d_value;
    lx_array *projected = call->scratch[PROJECTED], *attended = call->scratch[ATTENDED];
    lx_array *const *arrays = call->arrays;
    lx_mixer_product(call, projected, call->x, UVZ, LX_ACT_NONE, NULL);
    queue_columns(call, 0, 2 * e, s, arrays[GAMMA_Q], arrays[BETA_Q]);
    queue_columns(call, s, 2 * e, s, arrays[GAMMA_K], arrays[BETA_K]);
    queue_columns(call, 2 * s, e, e, NULL, NULL);
    queue_attention(call);
    call->be->ops->gate(call->be, &(lx_gate_args){.y = attended,
                                                  .x = {projected, 2 * e + s, 0},
                                                  .z = {attended, e, 0},
                                                  .d = e,
                                                  .f = LX_FN_SILU,
                                                  .weighing = LX_WEIGH_TIMES});
    lx_mixer_end(call, attended, OUT, call->scratch[QKV]);
}

LX_MIXER(gau_quad, .summary = "the gated attention unit, in place of both branches",
         .is_whole_layer = true, .check = check);
