/*
 * One head of keys of one sequence, and the queries that read its kept rows: per token as many as
 * heads share the rows. A query goes through the tiles with rows that it sees, oldest first, in
 * blocks of LX_ROWS_BLOCK absolute positions, and adds up the results of the blocks. Several
 * queries, of heads and of tokens, may read a tile together. Each has its own sums, so its bits do
 * not change.
 */

#define ROWS_SUMS (BODY_MAX_SUMS >= 8 ? 8 : 4) /* held in registers at once */

typedef struct rows_query {
    lx_rows_ranges sees;
    int32_t nearest; /* the row of distance 0 */
    float *q;        /* [d_key] times the scale */
    float *x;        /* [LX_ROWS_BLOCK] of this block: logits, then weights */
    float *o;        /* [d_value] weighted values, relative to the largest logit */
    seen_sum all;    /* of all blocks so far */
    bool seen;       /* a row of this block */
} rows_query;

/* A tile of a block, and which of its rows each query sees. */
typedef struct rows_tile {
    const float *k;
    const float *later; /* a tile to prefetch, which is read some time later; or this tile */
    int32_t row;        /* position of its first row */
    uint32_t lanes[LX_CPU_QUERIES];
} rows_tile;

typedef struct rows_list {
    rows_tile tile[LX_ROWS_BLOCK_TILES];
    int32_t n;
} rows_list;

typedef struct rows_work {
    rows_query query[LX_CPU_QUERIES];
    rows_list *now; /* the block that is read */
} rows_work;

static float *rows_tile_at(const lx_cpu_attend_rows *a, int32_t tile)
{
    const int32_t in_page = LX_PAGE_TOKENS / LX_ROWS_TILE;
    int64_t floats = (int64_t)(a->d_key + a->d_value) * LX_ROWS_TILE;
    if (a->pages == NULL)
        return a->tiles + lx_ring_place(tile, a->ring, a->kept) * floats;
    return a->tiles + a->pages[tile / in_page] * a->page_stride + tile % in_page * floats;
}

/* Keeps the row of token t. */
static void rows_keep(const lx_cpu_attend_rows *a, int64_t t)
{
    int32_t i = a->position + (int32_t)t, lane = i % LX_ROWS_TILE;
    const float *k = a->k + t * a->x_stride, *v = a->v + t * a->x_stride;
    float *tile = rows_tile_at(a, i / LX_ROWS_TILE), *row = tile + lane;
    if (a->pages != NULL && i % LX_PAGE_TOKENS == 0)
        memset(tile, 0, (size_t)(a->d_key + a->d_value) * LX_PAGE_TOKENS * sizeof *tile);
    for (int32_t d = 0; d < a->d_key; d++, row += LX_ROWS_TILE)
        *row = k[d];
    memcpy(tile + (int64_t)a->d_key * LX_ROWS_TILE + (int64_t)lane * a->d_value, v,
           (size_t)a->d_value * sizeof *v);
}

/* Lists the tiles with rows that a query sees, of the block that begins with this tile; none for
   LX_ROWS_NO_TILE. Returns the tile after them. */
static int32_t rows_collect(const lx_cpu_attend_rows *a, const rows_work *w, int nq, int32_t tile,
                            rows_list *list)
{
    int32_t number = tile / LX_ROWS_BLOCK_TILES, next = tile;
    list->n = 0;
    if (tile == LX_ROWS_NO_TILE)
        return tile;
    for (; next / LX_ROWS_BLOCK_TILES == number; list->n++) {
        rows_tile *one = &list->tile[list->n];
        one->k = one->later = rows_tile_at(a, next);
        one->row = next * LX_ROWS_TILE;
        int32_t after = LX_ROWS_NO_TILE;
        for (int j = 0; j < nq; j++) {
            one->lanes[j] = lx_ranges_lanes(&w->query[j].sees, next);
            int32_t own = lx_ranges_next(&w->query[j].sees, next + 1);
            after = own < after ? own : after;
        }
        next = after;
    }
    return next;
}

/*
 * Rows of many streams are in memory, not in caches, and in pieces too short for the processor to
 * recognise the access pattern. So tiles of the next block, or of the next head, are prefetched to
 * the second cache.
 */
static const float *rows_later(const lx_cpu_attend_rows *a, const rows_tile *tile,
                               const rows_list *then, int32_t i)
{
    if (then->n > 0)
        return i < then->n ? then->tile[i].k : tile->k;
    return tile->k + a->to_next_head;
}

/* The column of a row in the arrays of distances; later rows follow. */
static int64_t rows_column(const lx_cpu_attend_rows *a, const rows_query *query, int32_t row)
{
    return (int64_t)LX_ROWS_TILE + a->n_distances - 1 - (query->nearest - row);
}

/* x + q . p of sixteen distances from this column on. */
V16_FN v16 rows_add_distances(const lx_cpu_attend_rows *a, const float *q, int64_t column, v16 x)
{
    const float *p = a->distance_keys + column;
    for (int64_t d = 0; d < a->d_key; d++, p += a->n_distances + 2 * LX_ROWS_TILE)
        x = v16_fma(v16_set1(q[d]), v16_load(p), x);
    return x;
}

/* Adds the distances' part to the logits of a block. A tile that a query does not see may have no
   distance. */
static void rows_distances(const lx_cpu_attend_rows *a, rows_work *w, int j)
{
    const rows_query *query = &w->query[j];
    for (int32_t t = 0; t < w->now->n; t++) {
        const rows_tile *tile = &w->now->tile[t];
        float *x = query->x + t * LX_ROWS_TILE;
        if (tile->lanes[j] != 0)
            v16_store(
                x, rows_add_distances(a, query->q, rows_column(a, query, tile->row), v16_load(x)));
    }
}

/* q . k of nt tiles for nq queries; both are constants to the compiler, and small. */
V16_FN void rows_logits(const lx_cpu_attend_rows *a, rows_work *w, int32_t first, const int nq,
                        const int nt)
{
    v16 sum[ROWS_SUMS], k[ROWS_SUMS];
    const rows_tile *tile = &w->now->tile[first];
    for (int i = 0; i < nq * nt; i++)
        sum[i] = v16_set1(0.0f);
    for (int64_t d = 0; d < a->d_key; d++) {
        for (int t = 0; t < nt; t++) {
            k[t] = v16_load(tile[t].k + d * LX_ROWS_TILE);
            __builtin_prefetch(tile[t].later + d * LX_ROWS_TILE, 0, 2);
        }
        for (int j = 0; j < nq; j++) {
            v16 q = v16_set1(w->query[j].q[d]);
            for (int t = 0; t < nt; t++)
                sum[j * nt + t] = v16_fma(q, k[t], sum[j * nt + t]);
        }
    }
    for (int j = 0; j < nq; j++) {
        for (int t = 0; t < nt; t++)
            v16_store(w->query[j].x + (first + t) * LX_ROWS_TILE, sum[j * nt + t]);
    }
}

/* Replaces the logits of rows of a tile that the query does not see. */
static void rows_hide(float *x, uint32_t lanes, float value)
{
    for (int l = 0; lanes != 0xffff && l < LX_ROWS_TILE; l++)
        x[l] = (lanes >> l & 1) != 0 ? x[l] : value;
}

/* exp(x - largest), or with squares max(x, 0)^2: NaN stays. */
V16_FN v16 rows_weight(v16 x, float largest, bool squares)
{
    v16 r = v16_max(v16_set1(0.0f), x);
    return squares ? v16_mul(r, r) : v16_exp(v16_sub(x, v16_set1(largest)));
}

/* Logits to weights; a sum of squares needs no sum of weights. */
static void rows_weights(const lx_cpu_attend_rows *a, rows_work *w, int j)
{
    rows_query *query = &w->query[j];
    v16 most = v16_set1(-INFINITY), sum = v16_set1(0.0f);
    uint32_t any = 0;
    for (int32_t t = 0; t < w->now->n; t++) {
        float *x = query->x + t * LX_ROWS_TILE;
        any |= w->now->tile[t].lanes[j];
        rows_hide(x, w->now->tile[t].lanes[j], -INFINITY);
        most = v16_max(most, v16_load(x));
    }
    query->seen = any != 0;
    if (!query->seen)
        return;
    float largest = v16_greatest(most);
    for (int32_t t = 0; t < w->now->n; t++) {
        float *x = query->x + t * LX_ROWS_TILE;
        v16 weight = rows_weight(v16_load(x), largest, a->divisor > 0);
        if (a->distance_weights != NULL && w->now->tile[t].lanes[j] != 0)
            weight = v16_mul(
                weight, v16_load(a->distance_weights + rows_column(a, query, w->now->tile[t].row)));
        v16_store(x, weight);
        rows_hide(x, w->now->tile[t].lanes[j], 0.0f);
        sum = v16_add(sum, v16_load(x));
    }
    query->all.factor = 1.0f;
    if (a->divisor == 0)
        seen_add(&query->all, largest, v16_sum(sum));
}

/* Adds this block's weighted values m .. of nq queries: nc times 16 columns, n in the last 16. A
   row that a query does not see is not multiplied, as its content is undefined. A row that no query
   sees is not read. */
V16_FN void rows_values(const lx_cpu_attend_rows *a, rows_work *w, int32_t m, const int nq,
                        const int nc, const int n)
{
    v16 o[ROWS_SUMS], v[ROWS_SUMS];
    for (int i = 0; i < nq * nc; i++)
        o[i] = v16_set1(0.0f);
    for (int32_t t = 0; t < w->now->n; t++) {
        const rows_tile *tile = &w->now->tile[t];
        const float *row = tile->k + (int64_t)a->d_key * LX_ROWS_TILE + m;
        int64_t later = tile->later - tile->k;
        uint32_t all = tile->lanes[0], any = all;
        for (int j = 1; j < nq; j++) {
            all &= tile->lanes[j];
            any |= tile->lanes[j];
        }
        for (int l = 0; l < LX_ROWS_TILE; l++, row += a->d_value) {
            if (all != 0xffff && (any >> l & 1) == 0)
                continue;
            for (int c = 0; c < nc; c++) {
                v[c] = body_load(row + 16 * c, c + 1 == nc ? n : 16);
                __builtin_prefetch(row + later + 16 * c, 0, 2);
            }
            for (int j = 0; j < nq; j++) {
                if (all != 0xffff && (tile->lanes[j] >> l & 1) == 0)
                    continue;
                v16 weight = v16_set1(w->query[j].x[t * LX_ROWS_TILE + l]);
                for (int c = 0; c < nc; c++)
                    o[j * nc + c] = v16_fma(weight, v[c], o[j * nc + c]);
            }
        }
    }
    for (int j = 0; j < nq; j++) {
        rows_query *query = &w->query[j];
        for (int c = 0; query->seen && c < nc; c++) {
            float *to = query->o + m + 16 * c;
            v16_store(to, seen_add_values(&query->all, v16_load(to), o[j * nc + c]));
        }
    }
}

/* A block's logits, weights and weighted values. */
V16_FN void rows_block(const lx_cpu_attend_rows *a, rows_work *w, const int nq)
{
    const int at_once = ROWS_SUMS / nq;
    int32_t t = 0, m = 0;
    for (; t + at_once <= w->now->n; t += at_once)
        rows_logits(a, w, t, nq, at_once);
    for (; t < w->now->n; t++)
        rows_logits(a, w, t, nq, 1);
    for (int j = 0; j < nq; j++) {
        if (a->distance_keys != NULL)
            rows_distances(a, w, j);
        rows_weights(a, w, j);
    }
    for (; at_once >= 4 && m + 64 <= a->d_value; m += 64)
        rows_values(a, w, m, nq, at_once >= 4 ? 4 : 1, 16);
    for (; at_once >= 2 && m + 32 <= a->d_value; m += 32)
        rows_values(a, w, m, nq, at_once >= 2 ? 2 : 1, 16);
    for (; m + 16 <= a->d_value; m += 16)
        rows_values(a, w, m, nq, 1, 16);
    if (m < a->d_value)
        rows_values(a, w, m, nq, 1, a->d_value - m);
}

/* Rows of zeros before the first token, which only add to the sum of weights. */
static void rows_zeros(const lx_cpu_attend_rows *a, rows_query *query)
{
    int64_t column = rows_column(a, query, query->nearest + 1 - a->pattern->window);
    int64_t end = rows_column(a, query, 0);
    float x[LX_ROWS_TILE];
    for (; column < end; column += LX_ROWS_TILE) {
        uint32_t lanes = end - column < LX_ROWS_TILE ? (1u << (end - column)) - 1 : 0xffff;
        v16_store(x, rows_add_distances(a, query->q, column, v16_set1(0.0f)));
        rows_hide(x, lanes, -INFINITY);
        float largest = v16_greatest(v16_load(x));
        v16 weight = rows_weight(v16_load(x), largest, false);
        v16_store(x, v16_mul(weight, v16_load(a->distance_weights + column)));
        rows_hide(x, lanes, 0.0f);
        seen_add(&query->all, largest, v16_sum(v16_load(x)));
    }
}

/* Query number u before its first block, with its places in the scratch. */
static void rows_begin(const lx_cpu_attend_rows *a, rows_query *query, int64_t u, float *scratch)
{
    const float *q = a->q + u / a->shared * a->x_stride + u % a->shared * a->d_key;
    int32_t d_value = (a->d_value + 15) / 16 * 16;
    int32_t i = a->position + (int32_t)(u / a->shared);
    *query = (rows_query){.sees = lx_ranges_of(a->pattern, i),
                          .nearest = i - a->pattern->not_own,
                          .x = scratch,
                          .o = scratch + LX_ROWS_BLOCK,
                          .q = scratch + LX_ROWS_BLOCK + d_value,
                          .all.largest = -INFINITY};
    memset(query->o, 0, (size_t)d_value * sizeof *query->o);
    for (int32_t d = 0; d < a->d_key; d++)
        query->q[d] = q[d] * a->scale;
    if (a->zeros_before)
        rows_zeros(a, query);
}

static void rows_end(const lx_cpu_attend_rows *a, const rows_query *query, int64_t u)
{
    float *y = a->y + u / a->shared * a->y_stride + u % a->shared * a->d_value;
    bool empty = query->sees.n == 0;
    if (empty && a->leave_unseeing)
        return;
    float by = a->by_count ? a->divisor * (float)lx_ranges_rows(&query->sees) : a->divisor;
    by = a->divisor > 0 ? by : query->all.sum;
    for (int32_t m = 0; m < a->d_value; m++)
        y[m] = empty ? 0.0f : query->o[m] / by;
}

/* Queries u .. u + nq - 1; the first one of a token keeps its row. */
V16_FN void rows_queries(const lx_cpu_attend_rows *a, int64_t u, const int nq)
{
    rows_work w;
    rows_list lists[2], *then = lists;
    int64_t share = lx_cpu_attend_rows_scratch(a->d_key, a->d_value) / LX_CPU_QUERIES;
    int32_t tile = LX_ROWS_NO_TILE;
    w.now = lists;
    for (int j = 0; j < nq; j++) {
        if ((u + j) % a->shared == 0)
            rows_keep(a, (u + j) / a->shared);
        rows_begin(a, &w.query[j], u + j, a->scratch + j * share);
        int32_t first = lx_ranges_next(&w.query[j].sees, 0);
        tile = first < tile ? first : tile;
    }
    tile = rows_collect(a, &w, nq, tile, then);
    while (then->n > 0) {
        w.now = then;
        then = then == lists ? lists + 1 : lists;
        tile = rows_collect(a, &w, nq, tile, then);
        for (int32_t i = 0; i < w.now->n; i++)
            w.now->tile[i].later = rows_later(a, &w.now->tile[i], then, i);
        rows_block(a, &w, nq);
    }
    for (int j = 0; j < nq; j++)
        rows_end(a, &w.query[j], u + j);
}

/* Whether queries u .. u + n - 1 may work together. Where a ring has no room for a further row,
   only queries of one token may. */
static bool rows_may_share(const lx_cpu_attend_rows *a, int64_t u, int n)
{
    return u + n <= a->n_tokens * a->shared && (a->together || u % a->shared + n <= a->shared);
}

static void attend_rows(const lx_cpu_attend_rows *a)
{
    for (int64_t u = 0; u < a->n_tokens * a->shared;) {
        if (rows_may_share(a, u, LX_CPU_QUERIES)) {
            rows_queries(a, u, LX_CPU_QUERIES);
            u += LX_CPU_QUERIES;
        } else {
            rows_queries(a, u, 1);
            u++;
        }
    }
}
