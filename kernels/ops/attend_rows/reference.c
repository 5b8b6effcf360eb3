#include <math.h>
#include <string.h>

#include "kernels/reference/reference.h"

/* Whether a token at position i sees row j <= i: the definitions at lx_rows_pattern. */
static bool visible(const lx_rows_pattern *p, int32_t i, int32_t j)
{
    int32_t l = p->stride, b = p->block, back = i - p->not_own - j;
    if (back < 0)
        return false;
    switch (p->kind) {
    case LX_PATTERN_WINDOW:
        return j < p->sinks ||
               (back % p->dilation == 0 && (p->window == 0 || back / p->dilation < p->window));
    case LX_PATTERN_PREFIX:
        return i < p->sinks;
    case LX_PATTERN_STRIDED:
        return (p->local && back < l) || (p->column && back % l == 0);
    case LX_PATTERN_FIXED:
        return j / l == i / l || (l - 1 - j % l) / p->summary == p->cell;
    case LX_PATTERN_BLOCK:
        return i / b - j / b <= p->look_back;
    case LX_PATTERN_SHIFTED_BLOCK:
        return j / b == i / b - p->shift || (p->or_own && i / b < p->shift && j / b == i / b);
    }
    return false;
}

/* A head of a sequence, and the head of keys whose rows it reads. */
typedef struct head {
    const lx_attend_rows_args *a;
    int32_t slot;
    int64_t h, keys;
} head;

/* The tile of row j, even after later rows have replaced it. */
static float *tile_of(const head *at, int64_t j)
{
    const lx_attend_rows_args *a = at->a;
    const lx_states *s = a->states;
    int64_t tile = j / LX_ROWS_TILE, floats = (int64_t)(a->d_key + a->d_value) * LX_ROWS_TILE;
    if (a->ring == 0) {
        int64_t in_page = LX_PAGE_TOKENS / LX_ROWS_TILE;
        float *page = lx_states_page(s, at->slot, (int32_t)(tile / in_page)) + a->offset;
        return page + (at->keys * in_page + tile % in_page) * floats;
    }
    int64_t places = a->ring / LX_ROWS_TILE, kept = 0;
    for (int32_t i = 0; i < a->n_patterns; i++) {
        const lx_rows_pattern *p = &a->patterns[i];
        bool has_sinks = p->kind == LX_PATTERN_WINDOW || p->kind == LX_PATTERN_PREFIX;
        while (has_sinks && kept * LX_ROWS_TILE < p->sinks)
            kept++;
    }
    while (tile >= places)
        tile -= places - kept;
    return s->data + at->slot * s->stride + a->offset + (at->keys * places + tile) * floats;
}

/* common: the columns at the end of every key. */
static void keep(const head *at, int64_t i, const float *k, const float *common, const float *v)
{
    int64_t own = at->a->d_key - at->a->common_key, d_key = at->a->d_key, d_value = at->a->d_value,
            lane = i % LX_ROWS_TILE;
    float *tile = tile_of(at, i);
    if (at->a->ring == 0 && i % LX_PAGE_TOKENS == 0)
        memset(tile, 0, (size_t)(LX_PAGE_TOKENS * (d_key + d_value)) * sizeof *tile);
    for (int64_t d = 0; d < d_key; d++)
        tile[d * LX_ROWS_TILE + lane] = d < own ? k[d] : common[d - own];
    memcpy(tile + d_key * LX_ROWS_TILE + lane * d_value, v, (size_t)d_value * sizeof *v);
}

/* A head's token that looks at row j, which may be a row of zeros before the first token. */
typedef struct query {
    const head *at;
    const lx_rows_pattern *p;
    const float *q;
    int32_t i;
} query;

/* Element x of a row of one of the arrays of distances. */
static double of_distance(const lx_attend_rows_args *a, const lx_array *array, int64_t row,
                          int32_t x)
{
    int64_t columns = (int64_t)a->distances.n + 2 * LX_ROWS_TILE;
    return (double)array->data[row * columns + LX_ROWS_TILE + a->distances.n - 1 - x];
}

static double logit(const query *of, int32_t j)
{
    const lx_attend_rows_args *a = of->at->a;
    const float *k = j < 0 ? NULL : tile_of(of->at, j) + j % LX_ROWS_TILE;
    double sum = 0;
    for (int64_t d = 0; d < a->d_key; d++) {
        double key = j < 0 ? 0 : (double)k[d * LX_ROWS_TILE];
        if (a->distances.keys != NULL)
            key += of_distance(a, a->distances.keys, d, of->i - of->p->not_own - j);
        sum += (double)of->q[d] * key;
    }
    return sum * (double)a->scale;
}

/* A row's weight before it is divided; largest: of the logits. */
static double weight(const query *of, int32_t j, double largest)
{
    const lx_attend_rows_args *a = of->at->a;
    double x = logit(of, j), r = x < 0 ? 0 : x;
    if (a->weighting == LX_WEIGHT_RELU2)
        return r * r;
    if (a->distances.keys == NULL)
        return exp(x - largest);
    return exp(x - largest) * of_distance(a, a->distances.weights, of->at->h % a->n_patterns,
                                          of->i - of->p->not_own - j);
}

static void attend_token(const head *at, int32_t i, const float *q, float *y)
{
    const lx_attend_rows_args *a = at->a;
    const lx_rows_pattern *p = &a->patterns[at->h % a->n_patterns];
    const query of = {at, p, q, i};
    double largest = -INFINITY, sum = 0, o[1024] = {0}; /* d_value at most */
    int32_t seen = 0, first = a->distances.zeros_before ? i - p->not_own + 1 - p->window : 0;
    first = first < 0 ? first : 0;
    for (int32_t j = first; j <= i; j++)
        largest = visible(p, i, j) ? fmax(largest, logit(&of, j)) : largest;
    for (int32_t j = first; j < 0; j++)
        sum += weight(&of, j, largest);
    for (int32_t j = 0; j <= i; j++) {
        if (!visible(p, i, j))
            continue;
        double w = weight(&of, j, largest);
        const float *v = tile_of(at, j) + (int64_t)a->d_key * LX_ROWS_TILE +
                         (int64_t)(j % LX_ROWS_TILE) * a->d_value;
        sum += w;
        seen++;
        for (int32_t m = 0; m < a->d_value; m++)
            o[m] += w * (double)v[m];
    }
    if (seen == 0 && a->leave_unseeing)
        return;
    if (a->weighting == LX_WEIGHT_RELU2)
        sum = (double)a->divisor * (a->by_count ? seen : 1);
    for (int32_t m = 0; m < a->d_value; m++)
        y[m] = (float)(seen == 0 ? 0 : o[m] / sum);
}

lx_status lx_reference_attend_rows(const lx_batch *b, const void *args)
{
    const lx_attend_rows_args *a = args;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value, width = lx_attend_rows_width(a);
    int64_t keys = lx_attend_rows_key_heads(a);
    for (int32_t s = 0; s < b->n_seqs; s++) {
        for (int32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++) {
            const float *qkv = a->qkv->data + t * width;
            int32_t i = b->position[s] + t - b->seq_start[s];
            for (int64_t h = 0; h < n; h++) {
                int64_t shared = n / keys, g = h / shared;
                head at = {a, lx_batch_page_slot(b, s), h, g};
                if (h % shared == 0)
                    keep(&at, i, qkv + lx_attend_rows_keys_at(a) + g * (dk - a->common_key),
                         qkv + width - a->common_key, qkv + lx_attend_rows_values_at(a) + g * dv);
                attend_token(&at, i, qkv + h * dk, a->y->data + (t * n + h) * dv);
            }
        }
    }
    return LX_OK;
}
