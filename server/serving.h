/*
 * What is being served: the models of a folder, each with its transformer and engine, on one back
 * end that all share.
 *
 * Loading may run while HTTP already answers: nobody looks at the models before lx_serving_state
 * says so. After that the list never changes.
 */
#ifndef LINNET_SERVER_SERVING_H
#define LINNET_SERVER_SERVING_H

#include "server/engine.h"

enum { LX_MAX_MODELS = 64 };

typedef struct lx_served_model {
    lx_model *model;
    lx_transformer *transformer;
    lx_engine *engine;
    lx_metrics metrics;
    int32_t n_slots;
    int64_t created;               /* Unix time at which it was loaded */
    _Atomic int64_t work_since_ns; /* when a job last came to an idle engine */
    char fingerprint[96];
} lx_served_model;

typedef struct lx_serving lx_serving;

typedef struct lx_serving_options {
    const char *backend; /* NULL: the one `device` says, see lx_backend_choose */
    const char *device;
    lx_backend_options backend_options;
    const char *models_dir; /* every subfolder with a config.json; NULL for none */
    const char *model_dir;  /* one more; NULL for none */
    int32_t n_slots;        /* a model; 0: from the memory that is free */
    int32_t max_queue;      /* jobs, a model */
    int64_t probe_ns;       /* an idle engine steps so often, to see that it can; 0: never */
} lx_serving_options;

typedef enum lx_serving_state {
    LX_SERVING_LOADING,
    LX_SERVING_READY,
    LX_SERVING_DRAINING,
    LX_SERVING_UNHEALTHY /* a device failed, or an engine made no step although it should have */
} lx_serving_state;

lx_status lx_serving_new(lx_serving **out, lx_error *err) LX_MUST_USE;
/* Loads every model, runs one real step of each and starts the engines. Once. */
lx_status lx_serving_load(lx_serving *s, const lx_serving_options *options,
                          lx_error *err) LX_MUST_USE;
void lx_serving_free(lx_serving *s); /* stops the engines; NULL is allowed */

lx_serving_state lx_serving_get_state(lx_serving *s);
/* Since the newest step of that engine whose newest is the oldest; 0 while loading. */
int64_t lx_serving_last_step_ms(lx_serving *s);
/* Bytes of one sample's state. */
int64_t lx_serving_state_bytes(const lx_served_model *m);
/* What the back end is, one line; "" while loading. */
const char *lx_serving_backend(const lx_serving *s);
int64_t lx_serving_start_ns(const lx_serving *s);

/* 0 while loading. */
int32_t lx_serving_count(lx_serving *s);
lx_served_model *lx_serving_at(lx_serving *s, int32_t i);
lx_served_model *lx_serving_find(lx_serving *s, const char *name); /* NULL when unknown */
/* The first model whose task has this name, or NULL. */
lx_served_model *lx_serving_find_task(lx_serving *s, const char *task);

/* lx_engine_submit, noting when an idle engine gets work. */
lx_status lx_serving_submit(lx_served_model *m, lx_job *job, lx_error *err) LX_MUST_USE;

void lx_serving_drain(lx_serving *s); /* refuses new jobs from now on */
bool lx_serving_idle(lx_serving *s);  /* no job is queued or running */

#endif
