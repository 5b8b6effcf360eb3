/*
 * The types that operations and back ends share: objects, the batch of a step, and deferred tokens.
 * Letters, layout and laws are in kernels.h.
 */
#ifndef LINNET_KERNELS_TYPES_H
#define LINNET_KERNELS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lx_backend lx_backend; /* an opened back end, see kernels.h */
typedef struct lx_array lx_array;     /* f32 elements in the device's memory */
typedef struct lx_matrix lx_matrix;   /* prepared weights of one `linear`, with its bias */
typedef struct lx_table lx_table;     /* an embedding table */
typedef struct lx_states lx_states;   /* the recurrent states of all slots */
typedef struct lx_mask lx_mask;       /* a fixed set of token ids that may not be sampled */

/*
 * The types of values in files. Q8_0 and Q4_0 are blocks of 32 neighbours of a row, as ggml has
 * them: an f16 scale d, then whole numbers q. A value is d q. Q8_0 has 32 signed bytes q. Q4_0 has
 * 16 bytes: q + 8 of value j is the low half of byte j, of value j + 16 its high half.
 *
 * Q4_K, Q5_K and Q6_K are ggml's blocks of 256, with whole numbers for the scales of their parts.
 * Q4_K and Q5_K have eight parts of 32: a value is (d s) q - (e m). A q has 4 or 5 bits, the s and
 * m of a part have 6 bits. Q6_K has sixteen parts of 16: a value is (d s) q. A q has 6 bits, the s
 * of a part is a signed byte.
 *
 * F32_OF_BLOCKS is f32 numbers that a reader expanded from blocks of another kind. A matrix of them
 * may be held in less: lx_precision.
 */
typedef enum lx_dtype {
    LX_F32,
    LX_BF16,
    LX_F16,
    LX_Q8_0,
    LX_Q4_0,
    LX_F32_OF_BLOCKS,
    LX_Q4_K,
    LX_Q5_K,
    LX_Q6_K
} lx_dtype;

#define LX_JOINED_ROWS                                                                             \
    32                 /* of a part of a joined matrix: a multiple (matrix_join in kernels.h)      \
                        */
#define LX_BLOCK 32    /* values of a block of Q8_0 and Q4_0 */
#define LX_K_BLOCK 256 /* of Q4_K, Q5_K and Q6_K */

typedef struct lx_format {
    const char *name; /* "F32" .. "Q6_K" */
    int32_t block;    /* values that are stored together: 1, LX_BLOCK or LX_K_BLOCK */
    int32_t n_bytes;  /* of them */
} lx_format;

/* A matrix on the host, as it lies in a weights file: row-major [rows, cols]. A row has whole
   blocks. */
typedef struct lx_host_tensor {
    lx_dtype dtype;
    int64_t rows, cols; /* a vector has rows = 1 */
    const void *data;   /* borrowed during the call; need not be aligned */
} lx_host_tensor;

#define LX_PAGE_TOKENS 64 /* tokens per page */

/*
 * The size of a slot's state. A state has a fixed part and a part that grows with every token; for
 * linear attention the second is empty, for a softmax cache the first. The growing part lies in
 * pages of LX_PAGE_TOKENS tokens, which all slots take from one pool (state_map).
 */
typedef struct lx_state_layout {
    int64_t fixed_floats; /* per slot; may be 0 where page_floats is not */
    int64_t page_floats;  /* per page; 0: the state does not grow, and the two below are 0 */
    int32_t n_pages;      /* in the pool */
    int32_t slot_pages;   /* the most pages that one slot may map */
} lx_state_layout;

/* Borrowed by the back end from begin() until the sync() of its step has returned. */
typedef struct lx_batch {
    int32_t n_tokens; /* T >= 1 */
    int32_t n_seqs;   /* N >= 1 */
    /* [N + 1], ascending, seq_start[0] = 0, seq_start[N] = T, none empty */
    const int32_t *seq_start;
    const int32_t *slot;       /* [N], distinct */
    int32_t n_outputs;         /* rows that go through the head: 0 .. T */
    const int32_t *output_row; /* [n_outputs], strictly ascending token rows */
    /* [N] tokens that the slot's state has absorbed before this step; NULL where no operation needs
       it */
    const int32_t *position;
    /* A sequence may branch into another slot. Its own slot takes the first branch_row[i] rows, at
       least 1. The rest, at least 1, goes into slot branch[i], which begins as a copy of the slot's
       state at that row. So the step leaves two states: after branch_row[i] rows, and after all.
       [N], -1: no branch; no other sequence uses the slot. Both NULL: no sequence branches.
       The pages of slot branch[i] have the earlier rows of attend_rows and get all new ones. Those
       of the sequence's own slot are not used, and may be the same. Other states in pages, and rows
       in rings, cannot branch. */
    const int32_t *branch, *branch_row;
} lx_batch;

/* Rows of sequence i that go into its own slot. */
static inline int32_t lx_batch_own_rows(const lx_batch *b, int32_t i)
{
    bool branches = b->branch != NULL && b->branch[i] >= 0;
    return branches ? b->branch_row[i] : b->seq_start[i + 1] - b->seq_start[i];
}

/* The slot that has the pages of sequence i. */
static inline int32_t lx_batch_page_slot(const lx_batch *b, int32_t i)
{
    return b->branch != NULL && b->branch[i] >= 0 ? b->branch[i] : b->slot[i];
}

/* Which rows an operation works on: the batch's token rows or its output rows. */
typedef enum lx_rows { LX_ROWS_TOKENS, LX_ROWS_OUTPUTS } lx_rows;

/*
 * Deferred tokens. Each slot keeps the tokens that were last drawn for it: the token of a
 * sequence's last output row goes to place `step % LX_DRAWN` of its slot, where `step` is from its
 * lx_sampling. An id of lx_drawn_id stands for the token in that place of the row's slot at the
 * time of the step. A token outside the table (-1: no token could be drawn) counts as id 0. So a
 * step can start before the tokens of earlier steps are known. These tokens are not part of the
 * state: zeroing, copying, exporting and importing do not change them.
 */
#define LX_DRAWN 4

static inline int32_t lx_drawn_id(int32_t step)
{
    return INT32_MIN + step % LX_DRAWN;
}

static inline bool lx_is_drawn_id(int32_t id)
{
    return id < INT32_MIN + LX_DRAWN;
}

#endif
