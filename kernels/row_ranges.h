/*
 * The rows that a token sees by a pattern, as at most two ranges without common rows, and the tiles
 * of these rows. For the cpu and cuda back ends; the oracle tests row by row.
 */
#ifndef LINNET_KERNELS_ROW_RANGES_H
#define LINNET_KERNELS_ROW_RANGES_H

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define LX_RANGES_FN static __device__ __forceinline__
#define LX_RANGES_UNROLL _Pragma("unroll")
#else
#define LX_RANGES_FN static inline
#define LX_RANGES_UNROLL
#endif

#define LX_ROWS_BLOCK 256 /* rows whose weighted sum is formed before it joins the total */
#define LX_ROWS_BLOCK_TILES (LX_ROWS_BLOCK / LX_ROWS_TILE)
#define LX_ROWS_NO_TILE INT32_MAX

/* Rows start + a stride .. start + a stride + width - 1 for a = 0 .. count - 1. */
typedef struct lx_rows_range {
    int32_t start, stride, width, count; /* width <= stride where count > 1 */
} lx_rows_range;

typedef struct lx_rows_ranges {
    lx_rows_range of[2]; /* from number n on with a count of 0 */
    int32_t n;
} lx_rows_ranges;

LX_RANGES_FN void lx_ranges_add(lx_rows_ranges *r, int32_t start, int32_t stride, int32_t width,
                                int32_t count)
{
    lx_rows_range one = {start, stride, width, count};
    if (width <= 0 || count <= 0)
        return;
    /* Without a computed index: on a GPU that would move the ranges to memory. */
    if (r->n == 0)
        r->of[0] = one;
    else
        r->of[1] = one;
    r->n++;
}

/* Rows `from` to `to`. */
LX_RANGES_FN void lx_ranges_add_run(lx_rows_ranges *r, int32_t from, int32_t to)
{
    lx_ranges_add(r, from, 1, to - from + 1, 1);
}

LX_RANGES_FN void lx_ranges_add_window(lx_rows_ranges *r, const lx_rows_pattern *p, int32_t i)
{
    int32_t step = p->dilation;
    if (p->not_own && --i < 0)
        return;
    int32_t all = i / step + 1;
    int32_t n = p->window > 0 && p->window < all ? p->window : all;
    int32_t start = i - (n - 1) * step;
    if (start < p->sinks) { /* the sinks have these rows */
        int32_t skip = (p->sinks - start + step - 1) / step;
        n -= skip;
        start += skip * step;
    }
    lx_ranges_add_run(r, 0, (p->sinks < i + 1 ? p->sinks : i + 1) - 1);
    if (step == 1)
        lx_ranges_add_run(r, start, start + n - 1);
    else
        lx_ranges_add(r, start, step, 1, n);
}

LX_RANGES_FN void lx_ranges_add_shifted(lx_rows_ranges *r, const lx_rows_pattern *p, int32_t i)
{
    int32_t own = i / p->block * p->block, b = i / p->block;
    if (p->shift > 0 && b >= p->shift)
        lx_ranges_add_run(r, own - p->shift * p->block, own - (p->shift - 1) * p->block - 1);
    else if (p->shift == 0 || p->or_own)
        lx_ranges_add_run(r, own, i);
}

/* A(i) of a pattern that has been checked. */
LX_RANGES_FN lx_rows_ranges lx_ranges_of(const lx_rows_pattern *p, int32_t i)
{
    lx_rows_ranges r = {{{0, 0, 0, 0}, {0, 0, 0, 0}}, 0};
    int32_t l = p->stride, b = p->block;
    switch (p->kind) {
    case LX_PATTERN_WINDOW:
        lx_ranges_add_window(&r, p, i);
        break;
    case LX_PATTERN_PREFIX:
        lx_ranges_add_run(&r, 0, i < p->sinks ? i : -1);
        break;
    case LX_PATTERN_STRIDED: /* without the column's row in the local part */
        lx_ranges_add(&r, i % l, l, 1, p->column ? i / l + !p->local : 0);
        if (p->local)
            lx_ranges_add_run(&r, i < l ? 0 : i - l + 1, i);
        break;
    case LX_PATTERN_FIXED:
        lx_ranges_add(&r, l - p->summary * (p->cell + 1), l, p->summary, i / l);
        lx_ranges_add_run(&r, i / l * l, i);
        break;
    case LX_PATTERN_BLOCK:
        lx_ranges_add_run(&r, i / b < p->look_back ? 0 : (i / b - p->look_back) * b, i);
        break;
    case LX_PATTERN_SHIFTED_BLOCK:
        lx_ranges_add_shifted(&r, p, i);
        break;
    }
    return r;
}

/* The number of rows. */
LX_RANGES_FN int32_t lx_ranges_rows(const lx_rows_ranges *r)
{
    int32_t rows = 0;
    LX_RANGES_UNROLL
    for (int i = 0; i < 2; i++)
        rows += r->of[i].width * r->of[i].count;
    return rows;
}

/* The first run of a range that ends after `row`. */
LX_RANGES_FN int32_t lx_range_run(const lx_rows_range *r, int32_t row)
{
    if (row < r->start + r->width)
        return 0;
    if (r->count <= 1) /* then there may be no stride */
        return 1;
    int32_t a = (row - r->start) / r->stride;
    return a + (row - r->start - a * r->stride >= r->width);
}

/* The first tile not before this one with a row in them, or LX_ROWS_NO_TILE. */
LX_RANGES_FN int32_t lx_ranges_next(const lx_rows_ranges *r, int32_t tile)
{
    int32_t first = LX_ROWS_NO_TILE;
    LX_RANGES_UNROLL
    for (int i = 0; i < 2; i++) {
        const lx_rows_range *one = &r->of[i];
        int32_t run = lx_range_run(one, tile * LX_ROWS_TILE);
        if (run >= one->count)
            continue;
        int32_t at = (one->start + run * one->stride) / LX_ROWS_TILE;
        at = at > tile ? at : tile;
        first = at < first ? at : first;
    }
    return first;
}

/* Bit l: row l of the tile is in them. */
LX_RANGES_FN uint32_t lx_ranges_lanes(const lx_rows_ranges *r, int32_t tile)
{
    uint32_t lanes = 0;
    int32_t row = tile * LX_ROWS_TILE;
    LX_RANGES_UNROLL
    for (int i = 0; i < 2; i++) {
        const lx_rows_range *one = &r->of[i];
        for (int32_t a = lx_range_run(one, row); a < one->count; a++) {
            int32_t from = one->start + a * one->stride - row, to = from + one->width;
            if (from >= LX_ROWS_TILE)
                break;
            from = from > 0 ? from : 0;
            to = to < LX_ROWS_TILE ? to : LX_ROWS_TILE;
            lanes |= (1u << to) - (1u << from);
        }
    }
    return lanes;
}

/* The place of a tile in a ring of n, of which the first `kept` keep theirs. */
LX_RANGES_FN int32_t lx_ring_place(int32_t tile, int32_t n, int32_t kept)
{
    return tile < n ? tile : kept + (tile - kept) % (n - kept);
}

/* How many tiles of a ring keep their place for ever. */
LX_RANGES_FN int32_t lx_ring_kept(const lx_rows_pattern *patterns, int32_t n)
{
    int32_t sinks = 0;
    for (int32_t i = 0; i < n; i++) {
        bool has = patterns[i].kind == LX_PATTERN_WINDOW || patterns[i].kind == LX_PATTERN_PREFIX;
        if (has && patterns[i].sinks > sinks)
            sinks = patterns[i].sinks;
    }
    return (sinks + LX_ROWS_TILE - 1) / LX_ROWS_TILE;
}

#endif
