/* What linnet eval scores of a file of lines: each given a prompt, its tokens' log-probabilities.
 */
#ifndef LINNET_SERVER_CLI_EVAL_LINES_H
#define LINNET_SERVER_CLI_EVAL_LINES_H

#include "model/score.h"

/* Of a line, its end included. */
enum { LX_EVAL_LINE_BYTES = 8192 };

/* Zeroed at first. All that items point to is owned. */
typedef struct lx_eval_lines {
    lx_score_item *items;
    int32_t n, capacity;
} lx_eval_lines;

/* Adds a line, cut as it likes, with lx_eval_lines_add, or fails. */
typedef lx_status (*lx_eval_line)(void *context, char *line, lx_error *err);

/* Calls `add` for the first `limit` lines, 0: all; a failure names file and line. LX_ERR_IO: the
   file cannot be opened; LX_ERR_INVALID: it holds no line, which is called `what`, or one that is
   too long. */
lx_status lx_eval_lines_read(const char *path, int64_t limit, const char *what, lx_eval_line add,
                             void *context, lx_error *err) LX_MUST_USE;

/* Adds a plan of n_new tokens and these. It takes both, which may be NULL when `st`, how making
   them went, is an error: then it fails with that. */
lx_status lx_eval_lines_add(lx_eval_lines *l, lx_plan *plan, int32_t *targets, lx_status st,
                            lx_error *err) LX_MUST_USE;

/* Scores all; *nats is what their tokens cost together, *tokens how many there are. */
lx_status lx_eval_lines_score(lx_eval_lines *l, lx_transformer *t, double *nats, int64_t *tokens,
                              lx_error *err) LX_MUST_USE;
void lx_eval_lines_free(lx_eval_lines *l);

#endif
