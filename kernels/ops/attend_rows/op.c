#include "kernels/op.h"
#include "kernels/row_ranges.h"

#define MOST_ROWS (1 << 26) /* that a parameter of a pattern may name */

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "attend_rows: %s", what);
}

/* --- patterns --- */

typedef struct limit {
    const char *name;
    int64_t value, least, most;
} limit;

static lx_status within(const limit *limits, int n, lx_error *err)
{
    for (int i = 0; i < n; i++) {
        if (limits[i].value < limits[i].least || limits[i].value > limits[i].most)
            return lx_fail(err, LX_ERR_INVALID, NULL,
                           "attend_rows: a pattern's %s is %lld, not %lld to %lld", limits[i].name,
                           (long long)limits[i].value, (long long)limits[i].least,
                           (long long)limits[i].most);
    }
    return LX_OK;
}

static lx_status check_pattern(const lx_rows_pattern *p, lx_error *err)
{
    const limit window[] = {{"window", p->window, 0, MOST_ROWS},
                            {"dilation", p->dilation, 1, MOST_ROWS},
                            {"sinks", p->sinks, 0, MOST_ROWS}},
                prefix[] = {{"sinks", p->sinks, 1, MOST_ROWS}},
                stride[] = {{"stride", p->stride, 1, MOST_ROWS}},
                fixed[] = {{"stride", p->stride, 1, MOST_ROWS},
                           {"summary", p->summary, 1, p->stride},
                           {"cell", p->cell, 0, p->summary > 0 ? p->stride / p->summary - 1 : 0}},
                block[] = {{"block", p->block, 1, MOST_ROWS},
                           {"look_back", p->look_back, 0, MOST_ROWS}},
                shifted[] = {{"block", p->block, 1, MOST_ROWS}, {"shift", p->shift, 0, MOST_ROWS}};
    switch (p->kind) {
    case LX_PATTERN_WINDOW:
        return within(window, 3, err);
    case LX_PATTERN_PREFIX:
        return within(prefix, 1, err);
    case LX_PATTERN_STRIDED:
        if (!p->local && !p->column)
            return bad(err, "a strided pattern has neither a local part nor a column");
        return within(stride, 1, err);
    case LX_PATTERN_FIXED:
        return within(fixed, 3, err);
    case LX_PATTERN_BLOCK:
        return within(block, 2, err);
    case LX_PATTERN_SHIFTED_BLOCK:
        return within(shifted, 2, err);
    default:
        return bad(err, "unknown pattern");
    }
}

/* From the oldest row that a token sees (but for sinks) to its own, how many; 0: without end. */
static int64_t reach(const lx_rows_pattern *p)
{
    switch (p->kind) {
    case LX_PATTERN_WINDOW:
        return p->window == 0 ? 0 : (int64_t)(p->window - 1) * p->dilation + 1 + p->not_own;
    case LX_PATTERN_PREFIX:
        return 1;
    case LX_PATTERN_STRIDED:
        return p->column ? 0 : p->stride;
    case LX_PATTERN_BLOCK:
        return ((int64_t)p->look_back + 1) * p->block;
    case LX_PATTERN_SHIFTED_BLOCK:
        return ((int64_t)p->shift + 1) * p->block;
    default:
        return 0;
    }
}

lx_status lx_rows_ring(const lx_rows_pattern *patterns, int32_t n, int32_t *rows, lx_error *err)
{
    int64_t most = 0;
    bool endless = false;
    for (int32_t i = 0; i < n; i++) {
        lx_status st = check_pattern(&patterns[i], err);
        if (st != LX_OK)
            return st;
        int64_t one = reach(&patterns[i]);
        endless = endless || one == 0;
        most = one > most ? one : most;
    }
    most = (most + LX_ROWS_TILE - 1) / LX_ROWS_TILE + lx_ring_kept(patterns, n);
    *rows = endless || most > MOST_ROWS / LX_ROWS_TILE ? 0 : (int32_t)most * LX_ROWS_TILE;
    return LX_OK;
}

/* --- arguments --- */

static lx_status check(const void *args, lx_error *err)
{
    const lx_attend_rows_args *a = args;
    int64_t tokens = a->ring > 0 ? a->ring : LX_PAGE_TOKENS;
    int64_t floats = lx_attend_rows_key_heads(a) * tokens * ((int64_t)a->d_key + a->d_value);
    int32_t least = 0;
    lx_status st = lx_rows_ring(a->patterns, a->n_patterns, &least, err);
    if (st != LX_OK)
        return st;
    if (a->ring < 0 || a->ring > MOST_ROWS || a->ring % LX_ROWS_TILE != 0)
        return bad(err, "the ring is no multiple of a tile");
    if (a->ring > 0 && (least == 0 || a->ring < least))
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "attend_rows: a ring of %d rows, the patterns need %d (0: all)", a->ring,
                       least);
    int64_t room = a->ring > 0 ? a->states->floats : a->states->page_floats;
    if (a->offset < 0 || a->offset > room - floats)
        return bad(err, a->ring > 0 ? "the layer's rows lie outside the slot"
                                    : "the layer's rows lie outside the page");
    return LX_OK;
}

static const char *wrong_distances(const lx_attend_rows_args *a)
{
    const lx_rows_distances *d = &a->distances;
    if (d->keys == NULL)
        return NULL;
    if (d->n < 1 || d->n > MOST_ROWS)
        return "there must be 1 to 67108864 distances";
    if (a->weighting != LX_WEIGHT_SOFTMAX)
        return "distances go with softmax";
    for (int32_t i = 0; i < a->n_patterns; i++) {
        const lx_rows_pattern *p = &a->patterns[i];
        if (p->kind != LX_PATTERN_WINDOW || p->dilation != 1 || p->sinks != 0 || p->window < 1 ||
            p->window > d->n)
            return "distances need windows of as many rows";
    }
    return NULL;
}

static const char *wrong(const void *args)
{
    const lx_attend_rows_args *a = args;
    const char *fault =
        lx_wrong_attention(a->n_heads, a->d_key, a->d_value, a->scale, a->y, a->qkv);
    if (fault != NULL)
        return fault;
    if (a->key_heads < 0 || a->n_heads % lx_attend_rows_key_heads(a) != 0)
        return "the number of key heads does not divide the number of query heads";
    if (a->common_key < 0 || a->common_key > a->d_key)
        return "the heads of keys have more columns in common than a key has";
    if (a->weighting != LX_WEIGHT_SOFTMAX && a->weighting != LX_WEIGHT_RELU2)
        return "unknown weighting";
    if (a->weighting == LX_WEIGHT_RELU2 && !(isfinite(a->divisor) && a->divisor > 0))
        return "the divisor is not above 0";
    if (a->patterns == NULL || a->n_patterns < 1 || a->n_patterns > a->n_heads)
        return "there must be a pattern, and no more of them than heads";
    if (a->n_patterns > 1 && lx_attend_rows_key_heads(a) < a->n_heads)
        return "heads that share rows have one pattern";
    if (a->states == NULL)
        return "states is NULL";
    return wrong_distances(a);
}

static void uses(const void *args, lx_uses *u)
{
    const lx_attend_rows_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, h * m);
    lx_uses_array(u, LX_USE_IN, "qkv", a->qkv, lx_attend_rows_width(a));
    int64_t columns = (int64_t)a->distances.n + 2 * LX_ROWS_TILE;
    if (a->distances.keys != NULL) {
        lx_uses_array(u, LX_USE_PARAMETER, "keys of distances", a->distances.keys, d * columns);
        lx_uses_array(u, LX_USE_PARAMETER, "weights of distances", a->distances.weights,
                      a->n_patterns * columns);
    }
    u->states = a->states;
    u->positions = true;
    u->pages = u->branches = a->ring == 0;
}

LX_DEFINE_OP(attend_rows, .wrong = wrong, .check = check, .uses = uses);
