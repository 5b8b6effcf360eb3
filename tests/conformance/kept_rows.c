/* See kept_rows.h. */
#include "kept_rows.h"

#include <math.h>
#include <string.h>

const lx_rows_pattern kept_all[1] = {WINDOW(0, 1, 0)};
/* Patterns that need every row, and patterns for which a ring is enough. */
static const lx_rows_pattern growing[] = {
    WINDOW(0, 1, 0),         WINDOW(0, 4, 0),        WINDOW(0, 3, 5),  STRIDED(7, false, true),
    STRIDED(33, true, true), STRIDED(1, true, true), FIXED(9, 2, 0),   FIXED(9, 2, 3),
    FIXED(64, 64, 0),        FIXED(128, 32, 1),      WINDOW(300, 1, 0)};
static const lx_rows_pattern bounded[] = {
    WINDOW(1, 1, 0),          WINDOW(5, 1, 0),     WINDOW(50, 1, 0), WINDOW(7, 6, 0),
    STRIDED(31, true, false), BLOCK(16, 0),        BLOCK(24, 1),     SHIFTED(20, 0, false),
    SHIFTED(16, 1, true),     SHIFTED(9, 2, false)};
static const lx_rows_pattern with_sinks[] = {WINDOW(20, 1, 3), WINDOW(4, 5, 17), WINDOW(64, 1, 0),
                                             PREFIX(37)};

static const lx_rows_pattern spans[] = {SPAN(1), SPAN(40), SPAN(7), SPAN(290)};

/* As many heads as patterns, all rows kept, or a ring with some tiles to spare. */
static rows_case case_of(const lx_rows_pattern *patterns, size_t n, bool in_ring, int32_t spare)
{
    rows_case c = {(int32_t)n, 6, 5, 0, 600, (int32_t)n, patterns, 0.4f, SOFTMAX};
    if (in_ring && lx_rows_ring(patterns, (int32_t)n, &c.ring, NULL) == LX_OK)
        c.ring += spare * LX_ROWS_TILE;
    return c;
}

static rows_case squares(rows_case c, float divisor, bool by_count)
{
    c.weighting = LX_WEIGHT_RELU2;
    c.divisor = divisor;
    c.by_count = by_count;
    return c;
}

static rows_case distances(rows_case c, int32_t n, bool zeros_before)
{
    c.n_distances = n;
    c.zeros_before = zeros_before;
    return c;
}

#define CASE(patterns, in_ring, spare) case_of(patterns, COUNT(patterns), in_ring, spare)

void kept_cases(rows_case *cases)
{
    const rows_case all[KEPT_CASES] = {
        CASE(growing, false, 0),
        CASE(bounded, false, 0),
        CASE(bounded, true, 0),
        CASE(bounded, true, 1),
        CASE(with_sinks, false, 0),
        CASE(with_sinks, true, 0),
        CASE(with_sinks, true, 2),
        squares(CASE(kept_all, false, 0), 50, false),
        squares(CASE(bounded, true, 1), 3, true),
        CASE(spans, true, 0),
        distances(CASE(spans, false, 0), 290, false),
        distances(CASE(spans, true, 0), 300, true),
        distances(CASE(spans, true, 2), 290, true),
    };
    memcpy(cases, all, sizeof all);
}

int64_t kept_width(const rows_case *c)
{
    return (int64_t)c->heads * (2 * c->d_key + c->d_value);
}

int32_t kept_pages(const rows_case *c)
{
    return c->ring > 0 ? 0 : (c->most + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS;
}

/* Of a slot's fixed part, or of a page. */
static int64_t part_floats(const rows_case *c)
{
    int64_t rows = c->ring > 0 ? c->ring : LX_PAGE_TOKENS;
    return KEPT_BEFORE + rows * c->heads * (c->d_key + c->d_value) + KEPT_BEHIND;
}

int64_t kept_floats(const rows_case *c)
{
    return part_floats(c) * (c->ring > 0 ? 1 : kept_pages(c));
}

lx_states *kept_states(device *d, const rows_case *c, int32_t n_slots)
{
    int32_t of_slot = kept_pages(c), n = of_slot > 0 ? n_slots * of_slot + 1 : 0;
    lx_state_layout layout = {.fixed_floats = c->ring > 0 ? part_floats(c) : 0,
                              .page_floats = c->ring > 0 ? 0 : part_floats(c),
                              .n_pages = n,
                              .slot_pages = of_slot};
    lx_states *s = dev_states_of(d, layout, n_slots);
    float *nothing = floats(kept_floats(c));
    for (int64_t i = 0; i < kept_floats(c); i++)
        nothing[i] = NAN;
    bool ok = true;
    for (int32_t slot = 0; slot < n_slots; slot++) {
        for (int32_t i = 0; i < of_slot; i++) {
            int32_t page = n - 1 - (i * n_slots + slot);
            ok = ok && d->k->state_map(d->be, s, slot, i, 1, &page) == LX_OK;
        }
        ok = ok && d->k->state_import(d->be, s, slot, nothing, of_slot) == LX_OK;
    }
    return ok ? s : NULL;
}

lx_attend_rows_args kept_args(const rows_case *c, lx_array *y, const lx_array *qkv, lx_states *s)
{
    return (lx_attend_rows_args){.y = y,
                                 .qkv = qkv,
                                 .states = s,
                                 .offset = KEPT_BEFORE,
                                 .ring = c->ring,
                                 .n_heads = c->heads,
                                 .d_key = c->d_key,
                                 .d_value = c->d_value,
                                 .scale = c->scale,
                                 .patterns = c->patterns,
                                 .n_patterns = c->n_patterns,
                                 .weighting = c->weighting,
                                 .divisor = c->divisor,
                                 .by_count = c->by_count};
}

/* Keys up to 1, weights over 0 up to 1. */
static void make_distances(device *d, const rows_case *c, lx_rows_distances *to)
{
    int64_t columns = c->n_distances + 2 * LX_ROWS_TILE, n = columns * c->d_key;
    rng r = {77};
    float *keys = floats(n), *weights = floats(columns * c->n_patterns);
    fill(&r, keys, n, UNIFORM, 1, 1);
    for (int64_t i = 0; i < columns * c->n_patterns; i++)
        weights[i] = (float)(1 + random_below(&r, 100)) / 100;
    *to = (lx_rows_distances){dev_array(d, keys, n), dev_array(d, weights, columns * c->n_patterns),
                              c->n_distances, c->zeros_before};
}

bool kept_step(device *d, const rows_case *c, lx_states *s, int32_t n_seqs, const int32_t *length,
               const int32_t *slot, const int32_t *position, const float *qkv, float *y)
{
    return kept_batch(d, c, s, ragged_batch(n_seqs, length, slot), position, qkv, y);
}

bool kept_batch(device *d, const rows_case *c, lx_states *s, lx_batch *b, const int32_t *position,
                const float *qkv, float *y)
{
    int64_t n_y = (int64_t)b->n_tokens * c->heads * c->d_value;
    lx_array *in = dev_array(d, qkv, b->n_tokens * kept_width(c)), *out = dev_array(d, NULL, n_y);
    lx_attend_rows_args args = kept_args(c, out, in, s);
    int32_t n_own = d->n_owned - 2;
    if (c->n_distances > 0)
        make_distances(d, c, &args.distances);
    b->position = position;
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->attend_rows(d->be, &args);
    bool ok = dev_finish(d) && dev_read(d, out, y, n_y);
    while (d->n_owned > n_own)
        d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

float *kept_inputs(rng *r, const rows_case *c, int32_t n, pattern p, float size)
{
    int64_t keys = 2L * c->heads * c->d_key, width = kept_width(c);
    float *qkv = floats(n * width);
    for (int32_t i = 0; i < n; i++) {
        fill(r, qkv + i * width, keys, p, p == PEAKY ? 4 : size, p == PEAKY ? 1 : size);
        fill(r, qkv + i * width + keys, width - keys, UNIFORM, 5, 5);
    }
    return qkv;
}
