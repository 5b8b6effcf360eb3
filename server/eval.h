/* What linnet eval measures, by task. */
#ifndef LINNET_SERVER_EVAL_H
#define LINNET_SERVER_EVAL_H

#include "server/cli.h"

/* Rows a step; the transformer allows that many. */
enum { LX_EVAL_ROWS = 512 };

typedef struct lx_eval_options {
    lx_cli_model_options local;
    int64_t limit, seed;
    double temperature;
    bool json, answers;
} lx_eval_options;

/* Each reads `path`, measures and prints the report. */
lx_status lx_eval_couplets(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                           lx_error *err) LX_MUST_USE;
lx_status lx_eval_images(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                         lx_error *err) LX_MUST_USE;

#endif
