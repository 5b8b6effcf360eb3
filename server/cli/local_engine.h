/* An engine for one user, on the command line. */
#ifndef LINNET_SERVER_CLI_LOCAL_ENGINE_H
#define LINNET_SERVER_CLI_LOCAL_ENGINE_H

#include "server/engine/engine.h"

/* Rows of its steps: for lx_cli_open. */
enum { LX_LOCAL_ROWS = 128 };

typedef struct lx_local_options {
    int32_t n;     /* samples of a job, at most */
    int64_t draft; /* the value of --draft */
    bool goes_on;  /* prompts begin with what was said before */
} lx_local_options;

/* One at a time in a program; ended by lx_engine_stop. */
lx_status lx_local_engine_start(lx_transformer *t, const lx_local_options *options, lx_engine **out,
                                lx_error *err) LX_MUST_USE;

#endif
