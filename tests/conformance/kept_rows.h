/*
 * Cases, states and steps of the tests of `attend_rows`. Rows that were not kept, in pages, in
 * rings and between layers, are NaN from the beginning, so that a read of them shows.
 */
#ifndef LINNET_TESTS_CONFORMANCE_KEPT_ROWS_H
#define LINNET_TESTS_CONFORMANCE_KEPT_ROWS_H

#include "conformance.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SOFTMAX LX_WEIGHT_SOFTMAX, 1, false, 0, false /* the last members of a case */
#define SPAN(w)                                                                                    \
    {                                                                                              \
        .kind = LX_PATTERN_WINDOW, .window = (w), .dilation = 1, .not_own = true                   \
    }
#define WINDOW(w, d, g)                                                                            \
    {                                                                                              \
        .kind = LX_PATTERN_WINDOW, .window = (w), .dilation = (d), .sinks = (g)                    \
    }
#define PREFIX(g)                                                                                  \
    {                                                                                              \
        .kind = LX_PATTERN_PREFIX, .sinks = (g)                                                    \
    }
#define STRIDED(l, near, far)                                                                      \
    {                                                                                              \
        .kind = LX_PATTERN_STRIDED, .stride = (l), .local = (near), .column = (far)                \
    }
#define FIXED(l, c, n)                                                                             \
    {                                                                                              \
        .kind = LX_PATTERN_FIXED, .stride = (l), .summary = (c), .cell = (n)                       \
    }
#define BLOCK(b, back)                                                                             \
    {                                                                                              \
        .kind = LX_PATTERN_BLOCK, .block = (b), .look_back = (back)                                \
    }
#define SHIFTED(b, t, own)                                                                         \
    {                                                                                              \
        .kind = LX_PATTERN_SHIFTED_BLOCK, .block = (b), .shift = (t), .or_own = (own)              \
    }

/* How rows are kept: `ring` of them, or all in pages of slots of `most` tokens. */
typedef struct rows_case {
    int32_t heads, d_key, d_value, ring, most, n_patterns;
    const lx_rows_pattern *patterns;
    float scale;
    lx_rows_weighting weighting;
    float divisor;
    bool by_count;
    int32_t n_distances; /* 0: none */
    bool zeros_before;
} rows_case;

enum { KEPT_BEFORE = 5, KEPT_BEHIND = 3 }; /* floats of other layers around this one's */

extern const lx_rows_pattern kept_all[1]; /* that shows every row */

/* Every pattern, a head each; in pages and in rings, with and without tiles to spare; squares;
   distances. */
#define KEPT_CASES 13
void kept_cases(rows_case *cases);

int64_t kept_width(const rows_case *c);  /* of a row of qkv */
int32_t kept_pages(const rows_case *c);  /* of a slot */
int64_t kept_floats(const rows_case *c); /* of a slot's exported state */

/* All NaN; pages are mapped in a crooked order. NULL when that failed. */
lx_states *kept_states(device *d, const rows_case *c, int32_t n_slots);

/* n rows of qkv: queries and keys of this size, values up to 5. */
float *kept_inputs(rng *r, const rows_case *c, int32_t n, pattern p, float size);

lx_attend_rows_args kept_args(const rows_case *c, lx_array *y, const lx_array *qkv, lx_states *s);

/* The step of a batch, which has no positions yet. */
bool kept_batch(device *d, const rows_case *c, lx_states *s, lx_batch *b, const int32_t *position,
                const float *qkv, float *y);
/* One step of sequences with these lengths and slots, which are at these positions. */
bool kept_step(device *d, const rows_case *c, lx_states *s, int32_t n_seqs, const int32_t *length,
               const int32_t *slot, const int32_t *position, const float *qkv, float *y);

#endif
