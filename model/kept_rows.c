/*
 * The rows that attention keeps, as they lie in a saved state (kernels/ops/attend_rows/op.h): for
 * those who look inside.
 */
#include "kernels/row_ranges.h"
#include "model/model.h"

/* The branch of a layer that keeps rows, or NULL. */
static const lx_branch *branch_of(const lx_model *m, int32_t layer)
{
    const lx_layer *l = &m->layers[layer];
    if (m->recomputes)
        return NULL;
    for (int32_t b = 0; b < l->n_branches; b++) {
        if (l->branches[b].parts.row_key > 0)
            return &l->branches[b];
    }
    return NULL;
}

/* Whether a ring still has the tile: no later one, up to the last, has its place. */
static bool has_tile(const lx_mixer_parts *p, int32_t tile, int32_t last)
{
    int32_t n = p->ring / LX_ROWS_TILE, kept = lx_ring_kept(p->patterns, p->n_patterns);
    return p->ring == 0 || tile < kept || last - tile < n - kept;
}

static bool has_row(const lx_mixer_parts *p, int32_t position, int32_t rows)
{
    return has_tile(p, position / LX_ROWS_TILE, (rows - 1) / LX_ROWS_TILE);
}

lx_kept_rows lx_model_kept_rows(const lx_model *m, int32_t layer, int32_t rows)
{
    const lx_branch *b = branch_of(m, layer);
    if (b == NULL)
        return (lx_kept_rows){0};
    lx_kept_rows kept = {b->parts.n_heads, b->parts.row_key, b->parts.row_value, 0};
    for (int32_t i = 0; i < rows; i++)
        kept.n += has_row(&b->parts, i, rows);
    return kept;
}

/* The tile of a head: keys transposed, then values. */
static const float *find_tile(const lx_model *m, const lx_branch *b, int32_t head, int32_t tile,
                              const float *state)
{
    const lx_mixer_parts *p = &b->parts;
    int64_t floats = (int64_t)LX_ROWS_TILE * (p->row_key + p->row_value);
    if (p->ring > 0) {
        int32_t n = p->ring / LX_ROWS_TILE, kept = lx_ring_kept(p->patterns, p->n_patterns);
        int64_t place = (int64_t)head * n + lx_ring_place(tile, n, kept);
        return state + b->state_offset + place * floats;
    }
    int32_t in_page = LX_PAGE_TOKENS / LX_ROWS_TILE;
    const float *page = state + m->state.fixed_floats + tile / in_page * m->state.page_floats;
    return page + b->page_offset + ((int64_t)head * in_page + tile % in_page) * floats;
}

void lx_model_read_rows(const lx_model *m, int32_t layer, int32_t head, int32_t rows,
                        const float *state, int32_t n, int32_t *positions, float *k, float *v)
{
    const lx_branch *b = branch_of(m, layer);
    int64_t dk = b->parts.row_key, dv = b->parts.row_value, to = n;
    for (int32_t i = rows - 1; i >= 0 && to > 0; i--) {
        if (!has_row(&b->parts, i, rows))
            continue;
        const float *tile = find_tile(m, b, head, i / LX_ROWS_TILE, state);
        int32_t lane = i % LX_ROWS_TILE;
        positions[--to] = i;
        for (int64_t d = 0; d < dk; d++)
            k[to * dk + d] = tile[d * LX_ROWS_TILE + lane];
        for (int64_t d = 0; d < dv; d++)
            v[to * dv + d] = tile[dk * LX_ROWS_TILE + lane * dv + d];
    }
}
