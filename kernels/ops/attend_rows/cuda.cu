/*
 * Attention over kept rows: a block carries a head of keys of a sequence with all its queries,
 * token by token. A query's rows are read in blocks of LX_ROWS_BLOCK positions, one block per warp,
 * and their results are added oldest first. All arithmetic and its order are the cpu back end's, so
 * the number of warps and the cuts of a prompt change nothing.
 *
 * In a warp a lane has a row of every second tile until the weights are known, then columns of the
 * values. It never reads a row that the token does not see.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/row_ranges.h"

#define MOST_WARPS 8
#define MANY_VALUES 512 /* more of them leave shared memory for fewer warps */

/* A head of keys of a sequence. */
struct rows_head {
    float *tiles;                  /* in the slot, or in page 0 */
    const int32_t *pages;          /* the slot's; NULL: a ring */
    const float *distance_weights; /* its row of them, or NULL */
};

/* Where in the arrays of distances the column of this row lies; `nearest` is that of distance 0. */
LX_DEVICE int64_t column_of(const lx_cuda_attend_rows &a, int32_t nearest, int32_t row)
{
    return (int64_t)LX_ROWS_TILE + a.n_distances - 1 - (nearest - row);
}

/* x + q . p of the distance in this column. */
LX_DEVICE float add_distance(const lx_cuda_attend_rows &a, const float *q, int64_t column, float x)
{
    const float *p = a.distance_keys + column;
    for (int32_t d = 0; d < a.d_key; d++, p += a.n_distances + 2 * LX_ROWS_TILE)
        x = fmaf(q[d], *p, x);
    return x;
}

LX_DEVICE float *tile_at(const lx_cuda_attend_rows &a, const rows_head &head, int32_t tile)
{
    const int32_t in_page = LX_PAGE_TOKENS / LX_ROWS_TILE;
    int64_t floats = (int64_t)(a.d_key + a.d_value) * LX_ROWS_TILE;
    if (head.pages == NULL)
        return head.tiles + lx_ring_place(tile, a.ring, a.kept) * floats;
    return head.tiles + head.pages[tile / in_page] * a.stride + tile % in_page * floats;
}

/* All threads of the block; a barrier follows. */
LX_DEVICE void keep_row(const lx_cuda_attend_rows &a, const rows_head &head, int32_t i,
                        const float *k, const float *common, const float *v)
{
    float *tile = tile_at(a, head, i / LX_ROWS_TILE);
    int32_t own = a.d_key - a.common_key;
    int32_t lane = i % LX_ROWS_TILE, threads = (int32_t)blockDim.x, me = (int32_t)threadIdx.x;
    if (head.pages != NULL && i % LX_PAGE_TOKENS == 0) {
        for (int32_t e = me; e < (a.d_key + a.d_value) * LX_PAGE_TOKENS; e += threads)
            tile[e] = 0.0f;
        __syncthreads();
    }
    for (int32_t d = me; d < a.d_key; d += threads)
        tile[d * LX_ROWS_TILE + lane] = d < own ? k[d] : common[d - own];
    for (int32_t m = me; m < a.d_value; m += threads)
        tile[a.d_key * LX_ROWS_TILE + lane * a.d_value + m] = v[m];
}

/* A warp's results of a block of positions. */
struct rows_part {
    float *x;        /* [LX_ROWS_BLOCK] weights */
    float *o;        /* [d_value] weighted values */
    uint32_t *lanes; /* [LX_ROWS_BLOCK_TILES] the rows that are seen */
    float *largest, *sum;
};

/* Memory that the threads of a block share. */
struct rows_shared {
    float *q;        /* [d_key] times the scale */
    float *o;        /* [d_value] of the blocks so far */
    float *parts;    /* of each warp x and o */
    uint32_t *lanes; /* of each warp */
    float *largest, *sum;
};

LX_DEVICE rows_part part_of(const lx_cuda_attend_rows &a, const rows_shared &all, int warp)
{
    float *x = all.parts + warp * (LX_ROWS_BLOCK + a.d_value);
    rows_part p = {x, x + LX_ROWS_BLOCK, all.lanes + warp * LX_ROWS_BLOCK_TILES, all.largest + warp,
                   all.sum + warp};
    return p;
}

/* Logits of the block's rows, this lane's to x; returns the largest. */
LX_DEVICE float block_logits(const lx_cuda_attend_rows &a, const rows_head &head, const float *q,
                             const rows_part &p, int32_t tile0, int32_t nearest)
{
    int32_t lane = (int32_t)threadIdx.x % 32;
    float most = -LX_INFINITY;
    for (int32_t at = lane; at < LX_ROWS_BLOCK; at += 32) {
        int32_t t = at / LX_ROWS_TILE, l = at % LX_ROWS_TILE;
        float sum = -LX_INFINITY;
        if ((p.lanes[t] >> l & 1u) != 0) {
            const float *k = tile_at(a, head, tile0 + t) + l;
            sum = 0.0f;
            for (int32_t d = 0; d < a.d_key; d++)
                sum = fmaf(q[d], k[d * LX_ROWS_TILE], sum);
            if (a.distance_keys != NULL)
                sum = add_distance(a, q, column_of(a, nearest, tile0 * LX_ROWS_TILE + at), sum);
        }
        p.x[at] = sum;
        most = most > sum ? most : sum;
    }
    most = lx_max16(most);
    float other = __shfl_xor_sync(LX_ALL_LANES, most, 16, 32);
    return other > most ? other : most;
}

/* exp(x - largest), or with squares max(x, 0)^2: NaN stays. */
LX_DEVICE float weight_of(float x, float largest, bool squares)
{
    float r = 0.0f > x ? 0.0f : x;
    return squares ? r * r : lx_exp(x - largest);
}

/* Logits to weights; returns their sum, tile after tile, to the lower half of the warp. The rows
   begin with `first`. */
LX_DEVICE float block_weights(const lx_cuda_attend_rows &a, const rows_head &head,
                              const rows_part &p, float largest, int32_t first, int32_t nearest)
{
    int32_t lane = (int32_t)threadIdx.x % 32;
    float sum = 0.0f;
    for (int32_t at = lane; at < LX_ROWS_BLOCK; at += 32) {
        bool seen = (p.lanes[at / LX_ROWS_TILE] >> at % LX_ROWS_TILE & 1u) != 0;
        float w = seen ? weight_of(p.x[at], largest, a.divisor > 0.0f) : 0.0f;
        if (seen && head.distance_weights != NULL)
            w *= head.distance_weights[column_of(a, nearest, first + at)];
        p.x[at] = w;
        float other = __shfl_xor_sync(LX_ALL_LANES, w, 16, 32);
        sum += w;
        sum += other;
    }
    return lx_sum16(sum);
}

/* All lanes of a warp: the block of positions that holds this tile. */
LX_DEVICE void read_block(const lx_cuda_attend_rows &a, const rows_head &head,
                          const lx_rows_ranges &sees, const float *q, const rows_part &p,
                          int32_t tile, int32_t nearest)
{
    int32_t lane = (int32_t)threadIdx.x % 32, tile0 = tile / LX_ROWS_BLOCK_TILES;
    tile0 *= LX_ROWS_BLOCK_TILES;
    if (lane < LX_ROWS_BLOCK_TILES)
        p.lanes[lane] = lx_ranges_lanes(&sees, tile0 + lane);
    __syncwarp(LX_ALL_LANES);
    float largest = block_logits(a, head, q, p, tile0, nearest);
    float sum = block_weights(a, head, p, largest, tile0 * LX_ROWS_TILE, nearest);
    if (lane == 0) {
        *p.largest = a.divisor > 0.0f ? 0.0f : largest; /* squares are added as they are */
        *p.sum = sum;
    }
    __syncwarp(LX_ALL_LANES);
    for (int32_t m = lane; m < a.d_value; m += 32) {
        float o = 0.0f;
        for (int32_t t = 0; t < LX_ROWS_BLOCK_TILES; t++) {
            uint32_t lanes = p.lanes[t];
            if (lanes == 0)
                continue;
            const float *v = tile_at(a, head, tile0 + t) + a.d_key * LX_ROWS_TILE + m;
            for (int32_t l = 0; l < LX_ROWS_TILE; l++) {
                if ((lanes >> l & 1u) != 0)
                    o = fmaf(p.x[t * LX_ROWS_TILE + l], v[l * a.d_value], o);
            }
        }
        p.o[m] = o;
    }
}

/* The largest logit so far and the sum of weights relative to it; the values are in o. */
struct rows_sum {
    float largest, sum;
};

/* Adds a sum of weights; returns the factor of the side with the smaller logit. */
LX_DEVICE float add_sum(rows_sum &s, float largest, float sum)
{
    bool grown = largest > s.largest;
    float factor = lx_exp(grown ? s.largest - largest : largest - s.largest);
    s.sum = grown ? fmaf(s.sum, factor, sum) : fmaf(sum, factor, s.sum);
    s.largest = grown ? largest : s.largest;
    return factor;
}

/* Rows of zeros before the first token, which only add to the sum of weights: every half of every
   warp for itself, sixteen at a time. */
LX_DEVICE void add_zeros(const lx_cuda_attend_rows &a, const rows_head &head, const float *q,
                         int32_t nearest, int32_t window, rows_sum &s)
{
    int32_t lane = (int32_t)threadIdx.x % LX_ROWS_TILE;
    int64_t end = column_of(a, nearest, 0);
    for (int64_t at = column_of(a, nearest, nearest + 1 - window); at < end; at += LX_ROWS_TILE) {
        bool seen = at + lane < end;
        float x = seen ? add_distance(a, q, at + lane, 0.0f) : -LX_INFINITY;
        float largest = lx_max16(x);
        float w = seen ? lx_exp(x - largest) * head.distance_weights[at + lane] : 0.0f;
        add_sum(s, largest, lx_sum16(w));
    }
}

/* Adds a block's part; every thread its columns. */
LX_DEVICE void add_part(const lx_cuda_attend_rows &a, rows_sum &s, float *o, const rows_part &p)
{
    bool grown = *p.largest > s.largest;
    float factor = add_sum(s, *p.largest, *p.sum);
    for (int32_t m = (int32_t)threadIdx.x; m < a.d_value; m += (int32_t)blockDim.x)
        o[m] = grown ? fmaf(o[m], factor, p.o[m]) : fmaf(p.o[m], factor, o[m]);
}

/* All that a token sees; its own row has been kept. */
template <int WARPS>
LX_DEVICE rows_sum read_rows(const lx_cuda_attend_rows &a, const rows_head &head,
                             const lx_rows_ranges &sees, const rows_shared &all, int32_t nearest,
                             int32_t window)
{
    int warp = (int)threadIdx.x / 32;
    rows_sum s = {a.divisor > 0.0f ? 0.0f : -LX_INFINITY, 0.0f};
    if (a.zeros_before)
        add_zeros(a, head, all.q, nearest, window, s);
    for (int32_t tile = lx_ranges_next(&sees, 0); tile != LX_ROWS_NO_TILE;) {
        int n = 0;
        for (; n < WARPS && tile != LX_ROWS_NO_TILE; n++) {
            if (n == warp)
                read_block(a, head, sees, all.q, part_of(a, all, n), tile, nearest);
            tile = lx_ranges_next(&sees, (tile / LX_ROWS_BLOCK_TILES + 1) * LX_ROWS_BLOCK_TILES);
        }
        __syncthreads();
        for (int w = 0; w < n; w++)
            add_part(a, s, all.o, part_of(a, all, w));
        __syncthreads();
    }
    return s;
}

template <int WARPS>
LX_DEVICE void attend_token(const lx_cuda_attend_rows &a, const rows_head &head, int64_t t,
                            int64_t at, int32_t i, const rows_shared &all)
{
    int64_t n = a.n_heads, dk = a.d_key, dv = a.d_value;
    const float *x = a.qkv + t * a.width;
    for (int32_t d = (int32_t)threadIdx.x; d < a.d_key; d += WARPS * 32)
        all.q[d] = x[at * dk + d] * a.scale;
    for (int32_t m = (int32_t)threadIdx.x; m < a.d_value; m += WARPS * 32)
        all.o[m] = 0.0f;
    __syncthreads();
    const lx_rows_pattern *pattern = &a.patterns[at % a.n_patterns];
    const lx_rows_ranges sees = lx_ranges_of(pattern, i);
    rows_sum s = read_rows<WARPS>(a, head, sees, all, i - pattern->not_own, pattern->window);
    float by = a.by_count ? a.divisor * (float)lx_ranges_rows(&sees) : a.divisor;
    by = a.divisor > 0.0f ? by : s.sum;
    for (int32_t m = (int32_t)threadIdx.x; m < a.d_value; m += WARPS * 32) {
        int64_t to = (t * n + at) * dv + m;
        float y = sees.n == 0 ? 0.0f : all.o[m] / by;
        if (a.y != NULL && (sees.n > 0 || !a.leave_unseeing))
            a.y[to] = y;
        if (a.twin != NULL)
            a.twin[to] = lx_to_bf16(y);
    }
    __syncthreads(); /* all have read before the next token writes */
}

template <int WARPS> LX_KERNEL(WARPS * 32, 16 / WARPS) attend_rows(const lx_cuda_attend_rows a)
{
    LX_DYNAMIC_SHARED(float, shared);
    LX_SHARED(uint32_t, lanes, [WARPS * LX_ROWS_BLOCK_TILES]);
    LX_SHARED(float, largest, [WARPS]);
    LX_SHARED(float, sum, [WARPS]);
    unsigned heads = (unsigned)(a.n_heads / a.shared);
    int64_t seq = blockIdx.x / heads, at = blockIdx.x % heads;
    if (seq >= *a.live)
        return; /* the whole block */
    float *o = shared + a.d_key;
    const rows_shared all = {shared, o, o + a.d_value, lanes, largest, sum};
    int32_t slot = a.slot[seq], rows = a.pages != NULL ? LX_PAGE_TOKENS : a.ring * LX_ROWS_TILE;
    rows_head head = {a.tiles + at * rows * (a.d_key + a.d_value), NULL, NULL};
    if (a.distance_weights != NULL)
        head.distance_weights =
            a.distance_weights + at % a.n_patterns * (a.n_distances + 2 * LX_ROWS_TILE);
    if (a.branches.slot != NULL && a.branches.slot[seq] >= 0)
        slot = a.branches.slot[seq]; /* which has the pages */
    if (a.pages != NULL)
        head.pages = a.pages + (int64_t)slot * a.slot_pages;
    else
        head.tiles += slot * a.stride;
    int64_t begin = a.seq_start[seq];
    for (int64_t t = begin; t < a.seq_start[seq + 1]; t++) {
        const float *x = a.qkv + t * a.width;
        int32_t i = a.position[seq] + (int32_t)(t - begin);
        keep_row(a, head, i, x + a.keys_at + at * (a.d_key - a.common_key),
                 x + a.width - a.common_key, x + a.values_at + at * a.d_value);
        for (int32_t of = 0; of < a.shared; of++)
            attend_token<WARPS>(a, head, t, at * a.shared + of, i, all);
    }
}

template <int WARPS> static cudaError_t launch(const lx_cuda_attend_rows *a, cudaStream_t stream)
{
    int64_t floats = a->d_key + a->d_value + WARPS * (LX_ROWS_BLOCK + (int64_t)a->d_value);
    return LX_LAUNCH(attend_rows<WARPS>, (int64_t)a->n_seqs * a->n_heads / a->shared, WARPS * 32,
                     floats * 4, stream, *a);
}

extern "C" cudaError_t lx_cuda_launch_attend_rows(const lx_cuda_attend_rows *a, cudaStream_t stream)
{
    if ((int64_t)a->n_seqs * a->n_heads > 0x7fffffff)
        return cudaErrorInvalidValue;
    return a->d_value > MANY_VALUES ? launch<MOST_WARPS / 2>(a, stream)
                                    : launch<MOST_WARPS>(a, stream);
}
