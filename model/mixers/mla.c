/*
 * Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2"), here without positions. Keys and
 * values of all heads come from one narrow latent c. The last `common` columns of a key come from x
 * instead, and all heads have them in common.
 *
 *     q = W_q x, with `q_rank` W_q n(W_q_a x)
 *     c = n(W_c x)     k of head h = (W_k[h] c, W_r x)     v of head h = W_v[h] c
 *     y_i = sum over j <= i of softmax_j(q_i . k_j / sqrt(D)) v_j
 *     A(x) = W_out y
 *
 * n is RMSNorm with gamma, and c has `rank` columns.
 *
 * Tensors: attn.q [n_heads D, d_model], with q_rank [n_heads D, q_rank] and attn.q_a
 * [q_rank, d_model], attn.q_norm.weight [q_rank]; attn.kv_a [rank + common, d_model], the rows of
 * W_c, then those of W_r; attn.kv_norm.weight [rank]; attn.kv_b [n_heads (D - common + d_value),
 * rank], for every head its rows of W_k, then those of W_v; attn.out. No product has a bias.
 *
 * State: the rows (k, v) of every head, in pages (docs/adr/0044).
 */
#include <math.h>

#include "model/mixers/recurrent.h"
#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "rank", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "common", .kind = LX_PARAM_INT, .min = 1, .max = 1024},
    {.name = "q_rank", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16, .optional = true},
    {.name = "eps", .kind = LX_PARAM_EPS},
};

enum { RANK, COMMON, Q_RANK, EPS };                            /* params */
enum { W_Q, W_C, W_R, W_K, W_V, OUT, C_NORM, W_Q_A, Q_NORM };  /* tensors */
enum { PACKED, QUERIES, Q_LATENT, LATENT, TAIL, EXPANDED, Y }; /* scratch */

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

static const char *check(const lx_mixer_config *c)
{
    return c->params[COMMON].i >= c->d_key ? "common must be less than d_key"
                                           : lx_mixer_check_rows(c);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t rank = c->params[RANK].i, common = c->params[COMMON].i, q_rank = c->params[Q_RANK].i;
    int32_t own = own_of(c), values = c->n_heads * c->d_value;
    lx_mixer_add_map(p, "attn.q", queries_of(c), q_rank > 0 ? q_rank : c->d_model);
    lx_mixer_add_map(p, "attn.kv_a", rank, c->d_model);
    lx_mixer_take_rows(p, W_C, 0, rank, rank + common);
    lx_mixer_add_map(p, "attn.kv_a", common, c->d_model);
    lx_mixer_take_rows(p, W_R, rank, common, rank + common);
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
    const int64_t scratch[] = {[PACKED] = queries_of(c) + expanded_of(c) + common,
                               [QUERIES] = queries_of(c),
                               [Q_LATENT] = q_rank,
                               [LATENT] = rank,
                               [TAIL] = common,
                               [EXPANDED] = expanded_of(c),
                               [Y] = values};
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
    lx_mixer_gate(call, from, n,
                  (lx_gate_args){.y = call->scratch[PACKED],
                                 .y_width = (int32_t)call->parts->scratch[PACKED],
                                 .y_first = first});
}

static void queue_packed(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t q_rank = c->params[Q_RANK].i;
    if (q_rank > 0) {
        lx_mixer_product(call, s[Q_LATENT], call->x, W_Q_A, LX_ACT_NONE, NULL);
        queue_norm(call, s[Q_LATENT], q_rank, Q_NORM);
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

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    const lx_mixer_parts *p = call->parts;
    queue_packed(call);
    call->be->ops->attend_rows(call->be,
                               &(lx_attend_rows_args){.y = call->scratch[Y],
                                                      .qkv = call->scratch[PACKED],
                                                      .states = call->states,
                                                      .offset = call->page_offset,
                                                      .n_heads = c->n_heads,
                                                      .d_key = c->d_key,
                                                      .d_value = c->d_value,
                                                      .common_key = c->params[COMMON].i,
                                                      .scale = 1.0f / sqrtf((float)c->d_key),
                                                      .patterns = p->patterns,
                                                      .n_patterns = p->n_patterns});
    lx_mixer_product(call, call->residual, call->scratch[Y], OUT, LX_ACT_NONE, call->residual);
}

LX_MIXER(mla, .summary = "multi-head latent attention (DeepSeek-AI 2024)", .check = check);
