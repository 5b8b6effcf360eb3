/*
 * Connectionist temporal classification (Graves et al. 2006): from the log-probabilities of T rows
 * to a line of ids.
 *
 *     a path has an id for every row; repeated ids become one and blanks go, which leaves its line
 *     p(path) = product over rows of p[row][id],   p(line) = sum of p over all its paths
 *
 * Greedy decoding takes the best path's line. Prefix-beam search looks for the best line. For every
 * beginning of a line it sums the paths that end in a blank, and the paths that end in its last id.
 * Of all beginnings it keeps the `width` best after every row. With as many as there are it is
 * exact. Of equal probabilities the one that was found first counts, in the order of ids, so the
 * same numbers give the same line. Sums of logarithms are in double. Any thread.
 */
#ifndef LINNET_MODEL_CTC_H
#define LINNET_MODEL_CTC_H

#include <stdint.h>

#include "common/status.h"

enum { LX_CTC_MAX_WIDTH = 256, LX_CTC_MAX_IDS = 1024, LX_CTC_MAX_ROWS = 4096 };

/* Log-probabilities [n_rows, n_ids], row-major, none above 0 and none that is no number; minus
   infinity is allowed. */
typedef struct lx_ctc_input {
    const float *log_p;
    int32_t n_rows; /* 1 .. LX_CTC_MAX_ROWS */
    int32_t n_ids;  /* 2 .. LX_CTC_MAX_IDS */
    int32_t blank;  /* one of them */
    /* Asked after each row of a search, which ends with a status other than LX_OK; NULL: never. */
    lx_status (*fault)(const void *context, lx_error *err);
    const void *context;
} lx_ctc_input;

typedef struct lx_ctc_token {
    int32_t id;
    int32_t first, last; /* rows that say it, in the line's best path */
} lx_ctc_token;

typedef struct lx_ctc_line {
    int32_t n;            /* tokens; 0: nothing was said */
    lx_ctc_token *tokens; /* [n_rows], the caller's */
    double log_p; /* greedy: of the path; beam: of the line, over the paths that were kept */
} lx_ctc_line;

/* line->tokens has room for n_rows. */
void lx_ctc_greedy(const lx_ctc_input *in, lx_ctc_line *line);

/* As lx_ctc_greedy, with a width from 1 to LX_CTC_MAX_WIDTH. LX_ERR_NO_MEMORY, or what in->fault
   says; lx_ctc_beam_bytes is the most memory that the search takes. A row in which nothing is
   possible gives no token and minus infinity. */
lx_status lx_ctc_beam(const lx_ctc_input *in, int32_t width, lx_ctc_line *line,
                      lx_error *err) LX_MUST_USE;
int64_t lx_ctc_beam_bytes(int32_t n_rows, int32_t width);

/* Puts log p of a line, over all its paths, into *log_p; minus infinity if it has no path. The n
 * ids are below n_ids and not the blank; n may be 0. LX_ERR_NO_MEMORY. */
lx_status lx_ctc_log_p(const lx_ctc_input *in, const int32_t *ids, int32_t n, double *log_p,
                       lx_error *err) LX_MUST_USE;

#endif
