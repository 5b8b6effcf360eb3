/*
 * One head of keys of one sequence, and the queries that read its kept rows: per token as many as
 * heads share the rows. A query goes through the tiles with rows that it sees, oldest first, in
 * blocks of LX_ROWS_BLOCK absolute positions, and adds up the results of the blocks. Several
 * queries, of heads and of tokens, read a tile together, and many read a block before the next
 * block, so that it comes from the caches. Each has its own sums, so its bits do not change.
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

/* Queries that read tiles together. */
typedef struct rows_work {
    rows_query query[LX_CPU_QUERIES];
    int32_t n;
    int32_t tile;   /* the first that is in no list yet, or LX_ROWS_NO_TILE */
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
    int32_t own = a->d_key - a->common_key;
    const float *k = a->k + t * a->x_stride, *v = a->v + t * a->x_stride;
    const float *common = a->common + t * a->x_stride;
    float *tile = rows_tile_at(a, i / LX_ROWS_TILE), *row = tile + lane;
    if (a->pages != NULL && i % LX_PAGE_TOKENS == 0)
        memset(tile, 0, (size_t)(a->d_key + a->d_value) * LX_PAGE_TOKENS * sizeof *tile);
    for (int32_t d = 0; d < own; d++, row += LX_ROWS_TILE)
        *row = k[d];
    for (int32_t d = 0; d < a->common_key; d++, row += LX_ROWS_TILE)
        *row = common[d];
    memcpy(tile + (int64_t)a->d_key * LX_ROWS_TILE + (int64_t)lane * a->d_value, v,
           (size_t)a->d_value * sizeof *v);
}

/* The end of the tiles from this one on of which the query sees every row; at most `tile`: it does
   not see this one whole. */
static int32_t rows_whole(const lx_rows_ranges *r, int32_t tile)
{
    int32_t end = 0;
    for (int32_t i = 0; i < r->n; i++) {
        const lx_rows_range *one = &r->of[i];
        int32_t own = (one->start + one->width) / LX_ROWS_TILE;
        if (one->count == 1 && one->start <= tile * LX_ROWS_TILE && own > end)
            end = own;
    }
    return end;
}

/* The next tile of which a query of the work sees a row. */
static int32_t rows_next(const rows_work *w, int32_t tile)
{
    int32_t next = LX_ROWS_NO_TILE;
    for (int j = 0; j < w->n; j++) {
        int32_t own = lx_ranges_next(&w->query[j].sees, tile);
        next = own < next ? own : next;
    }
    return next;
}

/* Lists the tiles with rows that a query sees, of the block of the next tile; none at the end. */
static void rows_collect(const lx_cpu_attend_rows *a, rows_work *w, rows_list *list)
{
    int32_t number = w->tile / LX_ROWS_BLOCK_TILES, whole = LX_ROWS_NO_TILE;
    list->n = 0;
    if (w->tile == LX_ROWS_NO_TILE)
        return;
    for (int j = 0; j < w->n; j++) {
        int32_t own = rows_whole(&w->query[j].sees, w->tile);
        whole = own < whole ? own : whole;
    }
    while (w->tile / LX_ROWS_BLOCK_TILES == number) {
        int32_t tile = w->tile;
        rows_tile *one = &list->tile[list->n++];
        one->k = one->later = rows_tile_at(a, tile);
        one->row = tile * LX_ROWS_TILE;
        for (int j = 0; j < w->n; j++)
            one->lanes[j] = tile < whole ? 0xffff : lx_ranges_lanes(&w->query[j].sees, tile);
        w->tile = tile + 1 < whole ? tile + 1 : rows_next(w, tile + 1);
    }
}

/* LX_ROWS_NO_TILE / LX_ROWS_BLOCK_TILES: there is none. */
static int32_t rows_block_of(const rows_list *list)
{
    return (list->n > 0 ? list->tile[0].row / LX_ROWS_TILE : LX_ROWS_NO_TILE) / LX_ROWS_BLOCK_TILES;
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
V16_FN void rows_run(const lx_cpu_attend_rows *a, rows_work *w, const int nq)
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

/* A block of the work's queries. */
static void rows_block(const lx_cpu_attend_rows *a, rows_work *w)
{
    if (w->n == 4)
        rows_run(a, w, 4);
    else if (w->n == 3)
        rows_run(a, w, 3);
    else if (w->n == 2)
        rows_run(a, w, 2);
    else
        rows_run(a, w, 1);
}

/* Query number u before its first block, with its place in the scratch. */
static void rows_begin(const lx_cpu_attend_rows *a, rows_query *query, int64_t u, float *scratch)
{
    const float *q = a->q + u / a->shared * a->x_stride + u % a->shared * a->d_key;
    int32_t d_value = (a->d_value + 15) / 16 * 16;
    int32_t i = a->position + (int32_t)(u / a->shared);
    *query = (rows_query){.sees = lx_ranges_of(a->pattern, i),
                          .nearest = i - a->pattern->not_own,
                          .o = scratch,
                          .q = scratch + d_value,
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

/* The works of queries u .. u + n - 1, at their first tiles. */
static int32_t rows_works(const lx_cpu_attend_rows *a, int64_t u, int32_t n, rows_work *works)
{
    int64_t share = (a->d_key + 15) / 16 * 16 + (a->d_value + 15) / 16 * 16;
    float *scratch = a->scratch + LX_CPU_QUERIES * LX_ROWS_BLOCK;
    for (int32_t i = 0; i < n; i++, scratch += share) {
        rows_work *w = &works[i / LX_CPU_QUERIES];
        int32_t j = i % LX_CPU_QUERIES;
        rows_begin(a, &w->query[j], u + i, scratch);
        w->query[j].x = a->scratch + (int64_t)j * LX_ROWS_BLOCK;
        w->n = j + 1;
    }
    int32_t n_works = (n + LX_CPU_QUERIES - 1) / LX_CPU_QUERIES;
    for (int32_t i = 0; i < n_works; i++)
        works[i].tile = rows_next(&works[i], 0);
    return n_works;
}

/* Queries u .. u + n - 1. The last of them prefetch the next block. */
static void rows_queries(const lx_cpu_attend_rows *a, int64_t u, int32_t n)
{
    rows_work works[LX_CPU_TOGETHER / LX_CPU_QUERIES];
    rows_list lists[3], *then = lists;
    const int32_t none = LX_ROWS_NO_TILE / LX_ROWS_BLOCK_TILES;
    rows_work *last = &works[rows_works(a, u, n, works) - 1];
    rows_collect(a, last, then);
    for (;;) {
        int32_t number = rows_block_of(then);
        for (rows_work *w = works; w < last; w++) {
            int32_t own = w->tile / LX_ROWS_BLOCK_TILES;
            number = own < number ? own : number;
        }
        if (number == none)
            break;
        for (rows_work *w = works; w < last; w++) {
            if (w->tile / LX_ROWS_BLOCK_TILES != number)
                continue;
            w->now = &lists[2];
            rows_collect(a, w, w->now);
            rows_block(a, w);
        }
        if (rows_block_of(then) != number)
            continue;
        last->now = then;
        then = then == lists ? lists + 1 : lists;
        rows_collect(a, last, then);
        for (int32_t i = 0; i < last->now->n; i++)
            last->now->tile[i].later = rows_later(a, &last->now->tile[i], then, i);
        rows_block(a, last);
    }
    for (int32_t i = 0; i < n; i++)
        rows_end(a, &works[i / LX_CPU_QUERIES].query[i % LX_CPU_QUERIES], u + i);
}

/* How many queries from u on may work together. In a ring the rows of later tokens replace rows
   that a query reads: without room for further rows only queries of one token may. */
static int32_t rows_together(const lx_cpu_attend_rows *a, int64_t u)
{
    int64_t tokens = a->pages != NULL ? LX_CPU_TOGETHER : a->together ? LX_ROWS_TILE : 1;
    int64_t n = tokens * a->shared - u % a->shared;
    n = n < a->to - u ? n : a->to - u;
    return n < LX_CPU_TOGETHER ? (int32_t)n : LX_CPU_TOGETHER;
}

static void attend_rows(const lx_cpu_attend_rows *a)
{
    for (int64_t u = a->from; u < a->to;) {
        int64_t end = u + rows_together(a, u);
        for (int64_t i = u; a->keeps && i < end; i++) {
            if (i % a->shared == 0)
                rows_keep(a, i / a->shared);
        }
        if (a->reads)
            rows_queries(a, u, (int32_t)(end - u));
        u = end;
    }
}
