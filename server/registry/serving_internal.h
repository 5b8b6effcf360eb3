/*
 * Declarations for the files of the registry:
 *   serving.c         looks models up
 *   serving_load.c    from a folder to a warm engine
 *   serving_reload.c  new weights in the place of old ones
 *   serving_served.c  one model, with an engine or a transcriber
 *
 * A model can be replaced while requests use it, and they take no lock for that. A handler looks
 * models up between lx_serving_enter and lx_serving_leave; longer work (lx_work) takes a reference.
 * After the reloader has changed the table, it waits until every handler has left that may have
 * seen the old table. Then no model of the old table gets new references. A model without any is
 * stopped and freed.
 */
#ifndef LINNET_SERVER_REGISTRY_SERVING_INTERNAL_H
#define LINNET_SERVER_REGISTRY_SERVING_INTERNAL_H

#include <stdatomic.h>

#include "common/lock.h"
#include "server/registry/serving.h"

typedef struct lx_folder_list {
    char *dirs[LX_MAX_MODELS]; /* owned */
    int32_t n;
} lx_folder_list;

/* Reading all folders once, for all requests that joined it. */
typedef struct lx_reload_pass {
    _Atomic int32_t refs; /* the thread's, and one for each request */
    lx_reload *first;     /* the requests, until the pass is done */
    lx_status status;
    lx_error error;
    lx_reloaded_model models[LX_MAX_MODELS];
    int32_t n;
} lx_reload_pass;

struct lx_serving {
    lx_backend *be;
    lx_backend *cpu; /* where be is a device that lacks a model's mixer; NULL: no model needs it */
    char backend_text[160];
    lx_serving_options options; /* of lx_serving_load */
    int64_t start_ns;
    _Atomic bool loaded, leaving, draining;
    /* handlers at work, by the turn in which they entered */
    _Atomic int32_t turn;
    _Atomic int64_t n_inside[2];

    pthread_mutex_t lock; /* for those below */
    lx_served_model *models[LX_MAX_MODELS];
    int32_t n;
    lx_served_model *retired[LX_MAX_MODELS];
    int32_t n_retired;

    /* the reloader: one thread, started by the first reload */
    pthread_cond_t changed; /* a reload was asked for, a model lost its last reference, the end */
    pthread_t thread;
    bool thread_started, stopping;
    _Atomic uint64_t n_reloaded, n_refused; /* reloads that succeeded, and that did not */
    _Atomic int64_t loaded_at;              /* Unix time of the last success; 0: none */
    lx_reload_pass *waiting; /* it has not begun, and the next request joins it; NULL: none */
};

/* --- serving_load.c --- */
/* The folders that the options name, sorted. Also after a failure the list is to be freed. */
lx_status lx_folders_list(const lx_serving_options *o, lx_folder_list *l,
                          lx_error *err) LX_MUST_USE;
void lx_folders_free(lx_folder_list *l);
/* From a folder to a model that is read and checked; not started. */
lx_status lx_served_open(lx_serving *s, const char *dir, lx_served_model **out,
                         lx_error *err) LX_MUST_USE;
/* Computes one real step of it and starts its engine. n_models share the memory. `old`, or NULL:
   the model whose place it takes. Then it gets the slots and pages of that one, and else those of
   the options. */
lx_status lx_served_start(lx_serving *s, lx_served_model *m, int32_t n_models,
                          const lx_served_model *old, lx_error *err) LX_MUST_USE;
/* Stops its engine at once. NULL is allowed. */
void lx_served_free(lx_served_model *m);

/* --- serving_served.c --- */
/* The index of the model of that name among n; -1: there is none. */
int32_t lx_served_place(lx_served_model *const *models, int32_t n, const char *name);
bool lx_served_idle(const lx_served_model *m);
void lx_served_drain(lx_served_model *m);
void lx_served_suspend(lx_served_model *m);
int64_t lx_served_last_step_ns(const lx_served_model *m);
/* Whether its device failed, or it made no step although it should have, with probes so often. */
bool lx_served_is_stuck(const lx_served_model *m, int64_t probe_ns);
/* Whether the models fit into memory; if so, the plan of memory follows them. */
lx_status lx_serving_settle(const lx_serving *s, lx_served_model *const *models, int32_t n,
                            lx_error *err) LX_MUST_USE;

/* --- serving_reload.c --- */
void lx_reload_stop(lx_serving *s); /* ends the thread and frees the retired models */

#endif
