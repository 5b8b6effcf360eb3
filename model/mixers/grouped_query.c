/*
 * Grouped-query attention (Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer
 * Models from Multi-Head Checkpoints"): the softmax layers of hybrids. n_heads heads of queries
 * share `key_heads` heads of keys and values; by default no head shares them.
 *
 *     q, k = r(n(W_q x + b)), r(n(W_k x + b))
 *     v = W_v x + b
 *     y_i = sum over j in A(i) of softmax_j(s q_i . k_j) v_j
 *     A(x) = W_out (o y sigmoid(g))               g: with a gate as many rows of W_q again,
 *                                                 with gate "head" W_g x, a number per head
 *
 * A(i) = {0 .. i}, with a window W the last W of them. The factor s is 1 / sqrt(D) and o is 1
 * unless the config has `scale` and `out_scale`.
 *
 * r turns the first `rotated` columns of a head by its token's position (kernels/ops/rotary/op.h).
 * `base` 0 turns none, and with `turning` only so many first pairs of columns turn. `zeros` decimal
 * zeros follow the digits of the base.
 *
 * n is the RMSNorm of a head with gamma. With "plus_one" its factor is 1 + gamma, with "row" it
 * covers all heads at once, and with "none" there is no norm. b is there with `bias`.
 *
 * Tensors: attn.q [n_heads D, d_model], with gate "sigmoid" of every head its queries, then its
 * gate; attn.k, attn.v, attn.out. With gate "head" attn.g [n_heads, d_model]. With a norm
 * attn.q_norm.weight, attn.k_norm.weight [D], with "row" as long as all queries or keys.
 *
 * State: the rows (k, v) that later tokens may see, of every head of keys. With a window a ring in
 * the slot holds them, else pages hold all.
 */
#include <math.h>

#include "model/mixers/recurrent.h"
#include "model/mixers/rotary.h"

enum { MAX_WIDTH = 1024 }; /* of attend_rows */

static const char *const norms[] = {"none", "rms", "plus_one", "row", NULL};
static const char *const gates[] = {"none", "sigmoid", "head", NULL};
static const lx_mixer_param params[] = {
    {.name = "key_heads", .kind = LX_PARAM_INT, .min = 1, .max = 1024, .optional = true},
    {.name = "window", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 20, .optional = true},
    {.name = "base", .kind = LX_PARAM_INT, .min = 0, .max = 1 << 30},
    {.name = "rotated", .kind = LX_PARAM_INT, .min = 2, .max = MAX_WIDTH, .optional = true},
    {.name = "bias", .kind = LX_PARAM_FLAG},
    {.name = "norm", .kind = LX_PARAM_WORD, .words = norms},
    {.name = "gate", .kind = LX_PARAM_WORD, .words = gates},
    {.name = "eps", .kind = LX_PARAM_EPS, .optional = true},
    {.name = "zeros", .kind = LX_PARAM_INT, .min = 0, .max = 30, .optional = true},
    {.name = "scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "out_scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "turning", .kind = LX_PARAM_INT, .min = 1, .max = MAX_WIDTH / 2, .optional = true},
};

enum {
    KEY_HEADS,
    WINDOW,
    BASE,
    ROTATED,
    BIAS,
    NORM,
    GATE,
    EPS,
    ZEROS,
    SCALE,
    OUT_SCALE,
    TURNING
};                                                     /* params */
enum { NORM_NONE, NORM_RMS, NORM_PLUS_ONE, NORM_ROW }; /* values of NORM */
enum { GATE_NONE, GATE_SIGMOID, GATE_HEAD };           /* of GATE */
enum { W_Q, W_K, W_V, OUT, MORE };                     /* tensors; the optional ones last */
enum { PACKED, GATED, Y, ZERO };                       /* scratch */

static int32_t key_heads_of(const lx_mixer_config *c)
{
    return c->params[KEY_HEADS].i > 0 ? c->params[KEY_HEADS].i : c->n_heads;
}

/* Columns that turn. */
static int32_t rotated_of(const lx_mixer_config *c)
{
    return c->params[ROTATED].i > 0 ? c->params[ROTATED].i : c->d_key;
}

/* Pairs of columns that turn; the others keep their place. */
static int32_t turning_of(const lx_mixer_config *c)
{
    return c->params[TURNING].i > 0 ? c->params[TURNING].i : rotated_of(c) / 2;
}

static int32_t queries_of(const lx_mixer_config *c)
{
    return c->n_heads * c->d_key;
}

/* Of queries, keys and values side by side. */
static int32_t packed_of(const lx_mixer_config *c)
{
    return queries_of(c) + key_heads_of(c) * (c->d_key + c->d_value);
}

static float score_scale_of(const lx_mixer_config *c)
{
    return c->params[SCALE].f > 0 ? c->params[SCALE].f : 1.0f / sqrtf((float)c->d_key);
}

static const char *check(const lx_mixer_config *c)
{
    if (c->d_key > MAX_WIDTH || c->d_value > MAX_WIDTH)
        return "d_key and d_value must be at most 1024";
    if (c->n_heads % key_heads_of(c) != 0)
        return "key_heads must divide n_heads";
    if (c->params[BASE].i == 1)
        return "base must be 0, or 2 and more";
    if (c->params[BASE].i > 0 && (rotated_of(c) % 2 != 0 || rotated_of(c) > c->d_key))
        return "rotated must be even and at most d_key";
    if (c->params[TURNING].i > rotated_of(c) / 2)
        return "turning must be at most half of rotated";
    if (c->params[GATE].i == GATE_SIGMOID && c->d_key != c->d_value)
        return "gate must be \"none\" where d_key is not d_value";
    return c->params[NORM].i != NORM_NONE && !(c->params[EPS].f > 0) ? "eps must be there with norm"
                                                                     : NULL;
}

static void fill_gamma(const lx_mixer_config *c, const lx_mixer_parts *p, const lx_mixer_derived *d,
                       const float *from, float *to)
{
    (void)c;
    for (int64_t i = 0; i < d->n; i++)
        to[i] = from[i % p->tensors[d->from].cols] + (float)d->number;
}

static void declare_tensors(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t keys = key_heads_of(c) * c->d_key, values = key_heads_of(c) * c->d_value;
    bool gate = c->params[GATE].i == GATE_SIGMOID, bias = c->params[BIAS].i;
    void (*add)(lx_mixer_parts *, const char *, int64_t, int64_t) =
        bias ? lx_mixer_add_product : lx_mixer_add_map;
    add(p, "attn.q", queries_of(c), c->d_model);
    add(p, "attn.k", keys, c->d_model);
    add(p, "attn.v", values, c->d_model);
    lx_mixer_join(p, W_Q, 3);
    lx_mixer_add_map(p, "attn.out", c->d_model, c->n_heads * c->d_value);
    if (gate) {
        add(p, "attn.q", queries_of(c), c->d_model);
        lx_mixer_take_rows(p, W_Q, 0, c->d_key, 2 * c->d_key);
        lx_mixer_take_rows(p, MORE, c->d_key, c->d_key, 2 * c->d_key);
    }
    if (c->params[GATE].i == GATE_HEAD)
        lx_mixer_add_map(p, "attn.g", c->n_heads, c->d_model);
    if (c->params[NORM].i == NORM_NONE)
        return;
    double plus = c->params[NORM].i == NORM_PLUS_ONE;
    bool row = c->params[NORM].i == NORM_ROW;
    lx_mixer_add_array(p, "attn.q_norm.weight", 0, row ? queries_of(c) : c->d_key);
    lx_mixer_add_derived_by(p, p->n_tensors - 1, queries_of(c), fill_gamma, plus);
    lx_mixer_add_array(p, "attn.k_norm.weight", 0, row ? keys : c->d_key);
    lx_mixer_add_derived_by(p, p->n_tensors - 1, keys, fill_gamma, plus);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_rows_pattern window = {
        .kind = LX_PATTERN_WINDOW, .window = c->params[WINDOW].i, .dilation = 1};
    declare_tensors(c, p);
    if (c->params[BASE].i > 0)
        lx_mixer_add_partial_turns(p, c->params[BASE].i * pow(10, c->params[ZEROS].i),
                                   rotated_of(c), turning_of(c));
    if (c->params[GATE].i == GATE_HEAD)
        lx_mixer_add_head_gate(c, p);
    if (lx_mixer_scale(c, OUT_SCALE) != 1)
        lx_mixer_add_constant(p, (int64_t)c->n_heads * c->d_value,
                              (double)lx_mixer_scale(c, OUT_SCALE));
    int32_t values = c->n_heads * c->d_value; /* PACKED takes what lx_mixer_end copies */
    lx_mixer_add_scratch(p, packed_of(c) > values ? packed_of(c) : values);
    lx_mixer_add_scratch(p, c->params[GATE].i == GATE_SIGMOID ? queries_of(c)
                            : c->params[GATE].i == GATE_HEAD  ? c->n_heads
                                                              : 0);
    lx_mixer_add_scratch(p, (int64_t)c->n_heads * c->d_value);
    lx_mixer_add_scratch(p, c->params[GATE].i == GATE_HEAD ? (int64_t)c->n_heads * c->d_value : 0);
    if (window.window > 0) {
        lx_mixer_add_pattern_ring(p, key_heads_of(c), c->d_key, c->d_value, &window);
        return;
    }
    lx_mixer_add_rows(p, key_heads_of(c), c->d_key, c->d_value, 0);
    p->patterns[p->n_patterns++] = window;
}

/* The heads of queries, or of keys, normed where they lie: each by itself, or all as one row. */
static void queue_norm(const lx_mixer_call *call, int32_t first, int32_t n_heads, int32_t gamma)
{
    const lx_mixer_config *c = call->config;
    lx_array *packed = call->scratch[PACKED];
    bool row = c->params[NORM].i == NORM_ROW;
    call->be->ops->head_norm(call->be,
                             &(lx_head_norm_args){.y = packed,
                                                  .x = {packed, packed_of(c), first},
                                                  .gamma = call->derived[gamma],
                                                  .n_heads = row ? 1 : n_heads,
                                                  .d = row ? n_heads * c->d_key : c->d_key,
                                                  .kind = LX_NORM_RMS,
                                                  .eps = c->params[EPS].f,
                                                  .rows = LX_ROWS_TOKENS});
}

static void queue_rotation(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    int32_t turns = c->params[NORM].i != NORM_NONE ? 2 : 0;
    call->be->ops->rotary(call->be, &(lx_rotary_args){.x = call->scratch[PACKED],
                                                      .width = packed_of(c),
                                                      .apart = c->d_key,
                                                      .n_heads = c->n_heads + key_heads_of(c),
                                                      .d = rotated_of(c),
                                                      .turns = call->derived[turns]});
}

/* Before the head's gate come the factors of norms and the turns. */
static void queue_head_gate(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t first = (c->params[NORM].i != NORM_NONE ? 2 : 0) + (c->params[BASE].i > 0 ? 1 : 0);
    lx_mixer_gate_heads(call, s[Y], s[GATED], s[ZERO], MORE, first);
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    const lx_mixer_parts *p = call->parts;
    lx_array *const *s = call->scratch;
    int32_t values = c->n_heads * c->d_value;
    lx_mixer_product(call, s[PACKED], call->x, W_Q, LX_ACT_NONE, NULL);
    if (c->params[NORM].i != NORM_NONE) {
        queue_norm(call, 0, c->n_heads, 0);
        queue_norm(call, queries_of(c), key_heads_of(c), 1);
    }
    if (c->params[BASE].i > 0)
        queue_rotation(call);
    call->be->ops->attend_rows(
        call->be, &(lx_attend_rows_args){.y = s[Y],
                                         .qkv = s[PACKED],
                                         .states = call->states,
                                         .offset = p->ring > 0 ? call->offset : call->page_offset,
                                         .ring = p->ring,
                                         .n_heads = c->n_heads,
                                         .key_heads = key_heads_of(c),
                                         .d_key = c->d_key,
                                         .d_value = c->d_value,
                                         .scale = score_scale_of(c),
                                         .patterns = p->patterns,
                                         .n_patterns = p->n_patterns});
    if (c->params[GATE].i == GATE_HEAD)
        queue_head_gate(call);
    if (c->params[GATE].i == GATE_SIGMOID) {
        lx_mixer_product(call, s[GATED], call->x, MORE, LX_ACT_NONE, NULL);
        lx_mixer_gate(
            call, s[GATED], values,
            (lx_gate_args){
                .y = s[Y], .z = {s[Y], values, 0}, .f = LX_FN_SIGMOID, .weighing = LX_WEIGH_TIMES});
    }
    if (lx_mixer_scale(c, OUT_SCALE) != 1) /* its factors are the last derived numbers */
        lx_mixer_gate(call, s[Y], values,
                      (lx_gate_args){.factor = call->derived[p->n_derived - 1]});
    lx_mixer_end(call, s[Y], OUT, s[PACKED]);
}

LX_MIXER(grouped_query, .summary = "grouped-query attention (Ainslie et al. 2023)", .check = check);
