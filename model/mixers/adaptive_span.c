/*
 * Attention with a span of its own for every head (Sukhbaatar et al. 2019, "Adaptive attention span
 * in transformers"), with a learned length of the span. The distance of a token from token i - 1 is
 * x = i - 1 - j >= 0; i itself is not seen.
 *
 *     m_x = clamp((ramp + span - x) / ramp, 0, 1)     span: the head's
 *     w_x = m_x exp(q_i . (k_j + p_x) / sqrt(D))      x < max_span
 *     y_i = sum over x of w_x v_j / sum over x of w_x
 *
 * With `pad_memory` max_span rows of zeros lie before the first token and count in the second sum,
 * as in models that began on an empty memory. Without it the first token's y is 0.
 *
 * Tensors: attn.qkv, attn.out as in rows.h, attn.distance [D, max_span]: p_x in column x, of all
 * heads. State: as in rows.h, a ring of as many rows as the longest span sees.
 */
#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "max_span", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "ramp", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
    {.name = "spans", .kind = LX_PARAM_INTS, .min = 0, .max = 1 << 16},
    {.name = "pad_memory", .kind = LX_PARAM_FLAG, .optional = true},
};

enum { MAX_SPAN, RAMP, SPANS, PAD_MEMORY };
enum { DISTANCE = LX_ROWS_TENSORS }; /* tensors */
enum { KEYS, WEIGHTS };              /* derived */

static const char *check(const lx_mixer_config *c)
{
    for (int32_t i = 0; i < c->n_list; i++) {
        if (c->list[i] > c->params[MAX_SPAN].i)
            return "spans must be at most max_span";
    }
    return lx_mixer_check_rows(c);
}

/* How many rows the heads with entry i of `spans` see. */
static int32_t rows_seen(const lx_mixer_config *c, int32_t i)
{
    int32_t most = c->params[MAX_SPAN].i, rows = c->list[i] + c->params[RAMP].i;
    return rows < most ? rows : most;
}

static int32_t n_patterns(const lx_mixer_config *c)
{
    return c->n_list < c->n_heads ? c->n_list : c->n_heads;
}

static int32_t n_distances(const lx_mixer_config *c)
{
    int32_t most = 0;
    for (int32_t i = 0; i < n_patterns(c); i++)
        most = rows_seen(c, i) > most ? rows_seen(c, i) : most;
    return most;
}

/* The column of distance x, see lx_rows_distances. */
static int64_t column(const lx_mixer_config *c, int32_t x)
{
    return LX_ROWS_TILE + n_distances(c) - 1 - x;
}

static void fill_keys(const lx_mixer_config *c, const lx_mixer_parts *p,
                      const lx_mixer_derived *derived, const float *from, float *to)
{
    (void)p;
    int64_t columns = derived->n / c->d_key;
    for (int64_t d = 0; d < c->d_key; d++) {
        for (int32_t x = 0; x < n_distances(c); x++)
            to[d * columns + column(c, x)] = from[d * c->params[MAX_SPAN].i + x];
    }
}

static void fill_weights(const lx_mixer_config *c, const lx_mixer_parts *p,
                         const lx_mixer_derived *derived, const float *from, float *to)
{
    int64_t columns = derived->n / n_patterns(c);
    (void)p, (void)from;
    for (int32_t i = 0; i < n_patterns(c); i++) {
        for (int32_t x = 0; x < rows_seen(c, i); x++) {
            float ramp = (float)c->params[RAMP].i, m = (ramp + (float)(c->list[i] - x)) / ramp;
            to[i * columns + column(c, x)] = m < 1 ? m : 1;
        }
    }
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_rows_pattern spans[LX_MAX_PARAM_LIST];
    int64_t columns = n_distances(c) + 2 * LX_ROWS_TILE;
    for (int32_t i = 0; i < n_patterns(c); i++)
        spans[i] = (lx_rows_pattern){
            .kind = LX_PATTERN_WINDOW, .window = rows_seen(c, i), .dilation = 1, .not_own = true};
    lx_mixer_declare_rows(c, spans, n_patterns(c), p);
    lx_mixer_add_array(p, "attn.distance", c->d_key, c->params[MAX_SPAN].i);
    lx_mixer_add_derived(p, DISTANCE, 1, c->d_key * columns, fill_keys);
    lx_mixer_add_derived(p, 0, 0, n_patterns(c) * columns, fill_weights);
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_attend_rows_args attend = lx_mixer_attend_rows_args(call);
    attend.distances = (lx_rows_distances){.keys = call->derived[KEYS],
                                           .weights = call->derived[WEIGHTS],
                                           .n = n_distances(c),
                                           .zeros_before = c->params[PAD_MEMORY].i != 0};
    lx_mixer_product(call, call->scratch[LX_ROWS_PROJECTED], call->x, LX_ROWS_QKV, LX_ACT_NONE,
                     NULL);
    call->be->ops->attend_rows(call->be, &attend);
    lx_mixer_end(call, attend.y, LX_ROWS_OUT, call->scratch[LX_ROWS_PROJECTED]);
}

LX_MIXER(adaptive_span, .summary = "heads attend to spans of learned lengths", .check = check);
