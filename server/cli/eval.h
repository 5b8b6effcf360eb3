/* What linnet eval measures, by task. */
#ifndef LINNET_SERVER_CLI_EVAL_H
#define LINNET_SERVER_CLI_EVAL_H

#include "server/cli/cli.h"

/* Rows per step; the transformer allows that many. Measured on images of 784 pixels: 512 rows take
   5 % more time on a core, 1024 rows 15 %, as their activations leave the second-level cache. */
enum { LX_EVAL_ROWS = 256 };

typedef struct lx_eval_options {
    lx_cli_model_options local;
    int64_t limit, length, seed, beam;
    double temperature;
    bool json, answers;
} lx_eval_options;

/* Each measures and prints the report; all but the last read `path`. */
lx_status lx_eval_couplets(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                           lx_error *err) LX_MUST_USE;
lx_status lx_eval_poems(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                        lx_error *err) LX_MUST_USE;
lx_status lx_eval_images(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                         lx_error *err) LX_MUST_USE;
lx_status lx_eval_sounds(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                         lx_error *err) LX_MUST_USE;
lx_status lx_eval_copies(const lx_eval_options *o, const lx_cli_model *local,
                         lx_error *err) LX_MUST_USE;

#endif
