/* The measurements of linnet bench. */
#ifndef LINNET_SERVER_CLI_BENCH_H
#define LINNET_SERVER_CLI_BENCH_H

#include <stdbool.h>

#include "model/transformer.h"

enum {
    LX_BENCH_PREFILL_ROWS = 512,
    LX_BENCH_DRAFT_ROWS = 128, /* of a step, in addition to one per stream */
    LX_BENCH_GROUP = 16 /* steps: work that a back end does every few tokens is in every group */
};

/* One line of the table by position. */
typedef struct lx_bench_position {
    int32_t position;       /* in: the token that is measured, counted from 1 */
    int64_t ns;             /* out: the median decode step there */
    int64_t resident_bytes; /* out: of the process, when the stream had come there */
} lx_bench_position;

/* Measures one stream at each of n positions, which ascend. The transformer allows steps of
   LX_BENCH_PREFILL_ROWS rows. */
lx_status lx_bench_positions(lx_transformer *t, int64_t steps, lx_bench_position *rows, int32_t n,
                             lx_error *err) LX_MUST_USE;

/* *median_ns: a prompt of `length` rows, in steps of LX_BENCH_PREFILL_ROWS, which the transformer
   allows. */
lx_status lx_bench_prefill(lx_transformer *t, int32_t length, int64_t rounds, int64_t *median_ns,
                           lx_error *err) LX_MUST_USE;

/* *median_ns: the median over groups of LX_BENCH_GROUP steps of the mean step of `batch` streams,
   which the transformer allows. All streams are at the same token, counted from 1, and move on with
   the steps; after the first token the transformer allows LX_BENCH_PREFILL_ROWS rows too. */
lx_status lx_bench_batch(lx_transformer *t, int32_t batch, int32_t position, int64_t steps,
                         int64_t *median_ns, lx_error *err) LX_MUST_USE;

/* Answers with guessed tokens and without. */
typedef struct lx_bench_draft {
    int64_t off_ns, on_ns;             /* median time of the answers of all streams */
    int64_t tokens, drafted, accepted; /* with guesses, in all rounds */
} lx_bench_draft;

/* `streams` answers at once to the prompt (NULL: of a model that needs none), in so many rounds of
   both. The transformer allows streams + LX_BENCH_DRAFT_ROWS rows. LX_ERR_INTERNAL: the two differ.
 */
lx_status lx_bench_drafts(lx_transformer *t, const char *prompt, int32_t streams, int64_t rounds,
                          lx_bench_draft *out, lx_error *err) LX_MUST_USE;

#endif
