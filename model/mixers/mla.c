/*
 * Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2"). Keys and values of all heads come
 * from one narrow latent c. The last `common` columns of a key come from x instead, and all heads
 * have them in common.
 *
 *     q = W_q x, with `q_rank` W_q n(W_q_a x)
 *     c = n(W_c x)     k of head h = (W_k[h] c, W_r x)     v of head h = W_v[h] c
 *     y_i = sum over j <= i of softmax_j(q_i . k_j / sqrt(D)) v_j
 *     A(x) = W_out y
 *
 * With gate "head" A(x) = W_out (y sigmoid(W_g x)), where W_g x has a number per head.
 *
 * n is RMSNorm with gamma, and c has `rank` columns. With a base the last `common` columns of
 * queries and keys turn by their token's position (kernels/ops/rotary/op.h); the pairs that turn
 * together are neighbours in the tensors. `zeros` decimal zeros follow the digits of the base.
 *
 * Tensors: attn.q [n_heads D, d_model], with q_rank [n_heads D, q_rank] and attn.q_a
 * [q_rank, d_model], attn.q_norm.weight [q_rank]; attn.kv_a [rank + common, d_model], the rows of
 * W_c, then those of W_r; attn.kv_norm.weight [rank]; attn.kv_b [n_heads (D - common + d_value),
 * rank], for every head its rows of W_k, then those of W_v; attn.out; with a gate attn.g [n_heads,
 * d_model]. No product has a bias.
 *
 * State: the rows (k, v) of every head, in pages (docs/adr/0044).
 */
#include <math.h>

#include "model/mixers/recurrent.h"
#include "model/mixers/rotary.h"
#include "model/mixers/rows.h"

static const char *const gates[] = {"none", "head", NULL};
static const lx_mixer_param params[] = {
    {.name = "rank", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "common", .kind = LX_PARAM_INT, .min = 1, .max = 1024},
    {.name = "q_rank", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16, .optional = true},
    {.name = "eps", .kind = LX_PARAM_EPS},
    {.name = "base", .kind = LX_PARAM_INT, .min = 2, .max = 1 << 30, .optional = true},
    {.name = "zeros", .kind = LX_PARAM_INT, .min = 0, .max = 30, .optional = true},
    {.name = "gate", .kind = LX_PARAM_WORD, .words = gates, .optional = true},
};

enum { RANK, COMMON, Q_RANK, EPS, BASE, ZEROS, GATE };                     /* params */
enum { W_Q, W_C, W_R, W_K, W_V, OUT, C_NORM, MORE };                       /* tensors */
enum { PACKED, QUERIES, Q_LATENT, LATENT, TAIL, EXPANDED, Y, OPEN, ZERO }; /* scratch */

static bool is_rotated(const lx_mixer_config *c)
{
    return c->params[BASE].i > 0;
}

static bool has_gate(const lx_mixer_config *c)
{
    return c->params[GATE].i == 1;
}

/* The place of attn.g. */
static int32_t gate_tensor(const lx_mixer_config *c)
{
    return c->params[Q_RANK].i > 0 ? MORE + 2 : MORE;
}

/* Columns of all queries. */
static int32_t queries_of(const lx_mixer_config *c)
{
    return c->n_heads * c->d_key;
}

/* Columns of a head's key that are its own. */
static int32_t own_of(const lx_mixer_config *c)
{
    return c->d_key - c->params[COMMON].i;
}

/* Columns that the latent expands to. */
static int32_t expanded_of(const lx_mixer_config *c)
{
    return c->n_heads * (own_of(c) + c->d_value);
}

static int32_t packed_of(const lx_mixer_config *c)
{
    return queries_of(c) + expanded_of(c) + c->params[COMMON].i;
}

static const char *check(const lx_mixer_config *c)
{
    if (c->params[COMMON].i >= c->d_key)
        return "common must be less than d_key";
    if (is_rotated(c) && c->params[COMMON].i % 2 != 0)
        return "common must be even where base is there";
    return lx_mixer_check_rows(c);
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t rank = c->params[RANK].i, common = c->params[COMMON].i, q_rank = c->params[Q_RANK].i;
    int32_t own = own_of(c), values = c->n_heads * c->d_value;
    lx_mixer_add_map(p, "attn.q", queries_of(c), q_rank > 0 ? q_rank : c->d_model);
    lx_mixer_add_map(p, "attn.kv_a", rank, c->d_model);
    lx_mixer_take_rows(p, W_C, 0, rank, rank + common);
    lx_mixer_add_map(p, "attn.kv_a", common, c->d_model);
    lx_mixer_take_rows(p, W_R, rank, common, rank + common);
    if (is_rotated(c)) {
        lx_mixer_take_rows(p, W_Q, 0, c->d_key, c->d_key);
        lx_mixer_part_pairs(p, W_Q, common);
        lx_mixer_part_pairs(p, W_R, common);
    }
    lx_mixer_add_map(p, "attn.kv_b", c->n_heads * own, rank);
    lx_mixer_take_rows(p, W_K, 0, own, own + c->d_value);
    lx_mixer_add_map(p, "attn.kv_b", values, rank);
    lx_mixer_take_rows(p, W_V, own, c->d_value, own + c->d_value);
    lx_mixer_join(p, W_K, 2);
    lx_mixer_add_map(p, "attn.out", c->d_model, values);
    lx_mixer_add_array(p, "attn.kv_norm.weight", 0, rank);
    if (q_rank > 0) {
        lx_mixer_add_map(p, "attn.q_a", q_rank, c->d_model);
        lx_mixer_add_array(p, "attn.q_norm.weight", 0, q_rank);
    }
    if (has_gate(c))
        lx_mixer_add_map(p, "attn.g", c->n_heads, c->d_model);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t values = c->n_heads * c->d_value;
    declare_tensors(c, p);
    if (is_rotated(c))
        lx_mixer_add_turns(p, c->params[BASE].i * pow(10, c->params[ZEROS].i), c->params[COMMON].i);
    if (has_gate(c))
        lx_mixer_add_head_gate(c, p);
    const int64_t scratch[] = {[PACKED] = packed_of(c),
                               [QUERIES] = queries_of(c),
                               [Q_LATENT] = c->params[Q_RANK].i,
                               [LATENT] = c->params[RANK].i,
                               [TAIL] = c->params[COMMON].i,
                               [EXPANDED] = expanded_of(c),
                               [Y] = values,
                               [OPEN] = has_gate(c) ? c->n_heads : 0,
                               [ZERO] = has_gate(c) ? values : 0};
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++)
        lx_mixer_add_scratch(p, scratch[i]);
    lx_mixer_add_rows(p, c->n_heads, c->d_key, c->d_value, 0);
    p->patterns[p->n_patterns++] = (lx_rows_pattern){.kind = LX_PATTERN_WINDOW, .dilation = 1};
}

/* A latent of n columns, normed in place. */
static void queue_norm(const lx_mixer_call *call, lx_array *latent, int32_t n, int32_t gamma)
{
    lx_mixer_norm_heads(call, latent, 1, n,
                        (lx_head_norm_args){.gamma = call->arrays[gamma],
                                            .kind = LX_NORM_RMS,
                                            .eps = call->config->params[EPS].f});
}

/* n columns of the packed rows, from `first` on. */
static void queue_copy(const lx_mixer_call *call, lx_array *from, int32_t first, int32_t n)
{
    const lx_mixer_config *c = call->config;
    lx_mixer_gate(
        call, from, n,
        (lx_gate_args){.y = call->scratch[PACKED], .y_width = packed_of(c), .y_first = first});
}

static void queue_packed(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t q_rank = c->params[Q_RANK].i;
    if (q_rank > 0) {
        lx_mixer_product(call, s[Q_LATENT], call->x, MORE, LX_ACT_NONE, NULL);
        queue_norm(call, s[Q_LATENT], q_rank, MORE + 1);
    }
    lx_mixer_product(call, s[QUERIES], q_rank > 0 ? s[Q_LATENT] : call->x, W_Q, LX_ACT_NONE, NULL);
    lx_mixer_product(call, s[LATENT], call->x, W_C, LX_ACT_NONE, NULL);
    lx_mixer_product(call, s[TAIL], call->x, W_R, LX_ACT_NONE, NULL);
    queue_norm(call, s[LATENT], c->params[RANK].i, C_NORM);
    lx_mixer_product(call, s[EXPANDED], s[LATENT], W_K, LX_ACT_NONE, NULL);
    queue_copy(call, s[QUERIES], 0, queries_of(c));
    queue_copy(call, s[EXPANDED], queries_of(c), expanded_of(c));
    queue_copy(call, s[TAIL], queries_of(c) + expanded_of(c), c->params[COMMON].i);
}

/* The last columns of each of n heads, `apart` columns from one head to the next. */
static void queue_turns(const lx_mixer_call *call, int32_t first, int32_t n, int32_t apart)
{
    const lx_mixer_config *c = call->config;
    call->be->ops->rotary(call->be, &(lx_rotary_args){.x = call->scratch[PACKED],
                                                      .width = packed_of(c),
                                                      .first = first,
                                                      .apart = apart,
                                                      .n_heads = n,
                                                      .d = c->params[COMMON].i,
                                                      .turns = call->derived[0]});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    const lx_mixer_parts *p = call->parts;
    lx_array *const *s = call->scratch;
    int32_t common = c->params[COMMON].i;
    queue_packed(call);
    if (is_rotated(c)) {
        queue_turns(call, own_of(c), c->n_heads, c->d_key);
        queue_turns(call, packed_of(c) - common, 1, common);
    }
    call->be->ops->attend_rows(call->be,
                               &(lx_attend_rows_args){.y = s[Y],
                                                      .qkv = s[PACKED],
                                                      .states = call->states,
                                                      .offset = call->page_offset,
                                                      .n_heads = c->n_heads,
                                                      .d_key = c->d_key,
                                                      .d_value = c->d_value,
                                                      .common_key = common,
                                                      .scale = 1.0f / sqrtf((float)c->d_key),
                                                      .patterns = p->patterns,
                                                      .n_patterns = p->n_patterns});
    if (has_gate(c))
        lx_mixer_gate_heads(call, s[Y], s[OPEN], s[ZERO], gate_tensor(c), is_rotated(c) ? 1 : 0);
    lx_mixer_end(call, s[Y], OUT, s[PACKED]);
}

LX_MIXER(mla, .summary = "multi-head latent attention (DeepSeek-AI 2024)", .check = check);
