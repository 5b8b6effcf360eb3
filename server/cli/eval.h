/* The measurements of linnet eval, by task, and their common parts: the lines of a file with the
   log-probabilities of their tokens, and answers that the model writes. */
#ifndef LINNET_SERVER_CLI_EVAL_H
#define LINNET_SERVER_CLI_EVAL_H

#include "model/score.h"
#include "server/cli/cli.h"
#include "server/engine/job.h"

/* Rows per step; the transformer allows that many. Measured on images of 784 pixels: 512 rows take
   5 % more time on a core, 1024 rows 15 %, as their activations leave the second-level cache. */
enum { LX_EVAL_ROWS = 256 };

enum { LX_EVAL_SLOTS = 128 };       /* sequences that are computed at once */
enum { LX_EVAL_LINE_BYTES = 8192 }; /* of a line, its end included */

typedef struct lx_eval_options {
    lx_cli_model_options local;
    int64_t limit, length, seed, beam;
    double temperature;
    bool json, answers;
} lx_eval_options;

/* Measures and prints the report; `path` is NULL for copies. */
typedef lx_status lx_eval_measure(const lx_eval_options *o, const char *path,
                                  const lx_cli_model *local, lx_error *err);
lx_eval_measure lx_eval_couplets, lx_eval_poems, lx_eval_images, lx_eval_sounds, lx_eval_copies;

/* --- lines (eval.c) --- */

/* Zeroed at first; it owns all memory that items point to. */
typedef struct lx_eval_lines {
    lx_score_item *items;
    int32_t n, capacity;
} lx_eval_lines;

/* Adds a line, which it may cut, with lx_eval_lines_add, or fails. */
typedef lx_status (*lx_eval_line)(void *context, char *line, lx_error *err);

/* Calls `add` for the first `limit` lines, 0: all; a failure names file and line. LX_ERR_IO: the
   file cannot be opened; LX_ERR_INVALID: a line is too long, or the file has no lines, whose name
   in the error is `what`. */
lx_status lx_eval_lines_read(const char *path, int64_t limit, const char *what, lx_eval_line add,
                             void *context, lx_error *err) LX_MUST_USE;

/* Adds a plan of n_new tokens and these. It takes both. `st` is the status of making them: if that
   is an error, both may be NULL and the function returns it. */
lx_status lx_eval_lines_add(lx_eval_lines *l, lx_plan *plan, int32_t *targets, lx_status st,
                            lx_error *err) LX_MUST_USE;

/* Scores all lines; adds the nats of their tokens to *nats, the number of tokens to *tokens. */
lx_status lx_eval_lines_score(const lx_eval_lines *l, lx_transformer *t, double *nats,
                              int64_t *tokens, lx_error *err) LX_MUST_USE;
void lx_eval_lines_free(lx_eval_lines *l);

/* --- answers (eval.c) --- */

/* Answers of the model, by the engine that serves them. */
typedef struct lx_eval_answers {
    int32_t n;                   /* answers, one sample each */
    lx_sampling_params sampling; /* of every answer */
    void *context;               /* of the two functions, which the calling thread calls */
    /* Makes the plan of answer i, to its whole length. */
    lx_status (*plan)(void *context, int32_t i, lx_plan **out, lx_error *err);
    /* Judges the finished answer i; in the order of i. */
    void (*judge)(void *context, int32_t i, const lx_job *job);
} lx_eval_answers;

/* Returns the first fault of a plan or a job. The model is open for LX_EVAL_ROWS rows. */
lx_status lx_eval_answer(const lx_cli_model *local, const lx_eval_answers *a,
                         lx_error *err) LX_MUST_USE;

#endif
