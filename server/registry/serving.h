/*
 * The served models, each with its transformer and engine (a model of speech with its transcriber),
 * on one back end that all share.
 *
 * Loading may run while HTTP already answers: no model is looked up before lx_serving_get_state
 * says that they are ready. Later a reload adds models, replaces them in their places, and removes
 * those whose folder is gone. A found model may be replaced or removed at any time. So it is used
 * between lx_serving_enter and lx_serving_leave, as in every handler, or with a reference, as in
 * every lx_work.
 */
#ifndef LINNET_SERVER_REGISTRY_SERVING_H
#define LINNET_SERVER_REGISTRY_SERVING_H

#include "server/engine/engine.h"
#include "server/registry/limits.h"
#include "server/speech/transcriber.h"

typedef struct lx_serving lx_serving;

/* Bytes of this process's memory that models take or may take. */
typedef struct lx_serving_bytes {
    int64_t weights;  /* packed: lx_weights_bytes */
    int64_t held;     /* of states and steps, see lx_room */
    int64_t prefixes; /* of kept states of prompts */
} lx_serving_bytes;

typedef struct lx_served_model {
    lx_serving *serving;
    _Atomic int32_t refs; /* the list's, and one for every user that keeps it */
    lx_model *model;
    lx_backend *be;              /* borrowed of the serving */
    lx_transformer *transformer; /* NULL of a model of speech, as is the engine */
    lx_engine *engine;
    lx_transcriber *transcriber; /* of a model of speech; otherwise NULL */
    lx_metrics metrics;
    int32_t n_slots, n_spare;
    int64_t page_bytes;     /* of growing parts, as at the start; a reload keeps the number */
    lx_serving_bytes bytes; /* of it */
    int64_t created;        /* Unix time at which it was loaded */
    _Atomic int64_t work_since_ns; /* when a job last came to an idle engine */
    char fingerprint[96];
    lx_metrics carried; /* its counters that the model after it has taken over */
} lx_served_model;

typedef struct lx_serving_options {
    const char *backend; /* NULL: as `device` says, see lx_backend_choose */
    const char *device;
    lx_backend_options backend_options;
    const char
        *models_dir;       /* "DIR:DIR", each a model's folder or one of models' folders; or NULL */
    const char *model_dir; /* one more model's folder, or NULL */
    int64_t state_bytes;   /* of all models' states and steps in the process's memory */
    int32_t n_slots;       /* per model; 0: by state_bytes, or by a device's free memory */
    int32_t max_queue;     /* jobs per model */
    lx_model_limits slots_of, queue_of; /* of single models, in place of these two */
    int64_t page_bytes;                 /* of growing parts of states per model; 0: as n_slots */
    int64_t prefix_bytes;               /* of kept states of prompts, per model */
    int64_t prefix_most;                /* of kept states of all models, in the process's memory */
    int32_t prefix_every;               /* this and the next two: see lx_engine_options */
    bool share_prefixes;
    lx_prefix_place *place; /* borrowed; NULL: none */
    int64_t draft;          /* -1: the best number */
    int64_t probe_ns;       /* the interval of an idle engine's probes; 0: never */
    /* Whether weights of so many bytes may be loaded now, next to the weights in use. */
    lx_status (*has_room)(void *memory, int64_t weights, lx_error *err);
    /* Whether these may be all models' bytes from now on. Called at the end of loading, and of a
       reload before its models are served. */
    lx_status (*settle)(void *memory, const lx_serving_bytes *all, lx_error *err);
    void *memory; /* context of the two functions, which are NULL without a plan of memory */
} lx_serving_options;

typedef enum lx_serving_state {
    LX_SERVING_LOADING,
    LX_SERVING_READY,
    LX_SERVING_LEAVING, /* still answers, but reports that it is not ready */
    LX_SERVING_DRAINING,
    LX_SERVING_UNHEALTHY /* a device failed, or an engine made no step although it should have */
} lx_serving_state;

lx_status lx_serving_new(lx_serving **out, lx_error *err) LX_MUST_USE;
/* Checks that the device's name is known and that there are folders with readable configs. */
lx_status lx_serving_check(const lx_serving_options *options, lx_error *err) LX_MUST_USE;
/* Loads every model, runs one real step of each and starts the engines. Once. */
lx_status lx_serving_load(lx_serving *s, const lx_serving_options *options,
                          lx_error *err) LX_MUST_USE;
void lx_serving_free(lx_serving *s); /* stops the engines; NULL is allowed */

lx_serving_state lx_serving_get_state(lx_serving *s);
/* Milliseconds since the least recently active engine's last step; 0 while loading. */
int64_t lx_serving_last_step_ms(lx_serving *s);
/* The most bytes that one sample's state has. */
int64_t lx_serving_state_bytes(const lx_served_model *m);
/* How many folders of models the options name, and the bytes of the files of their weights. */
int64_t lx_serving_weigh(const lx_serving_options *options, int32_t *n_models);
/* The back end in one line; "" while loading. */
const char *lx_serving_backend(const lx_serving *s);
int64_t lx_serving_start_ns(const lx_serving *s);

/* Models are looked up between these two; leave takes the turn of enter. Keep it short: a reload
   waits for all handlers in between. */
int32_t lx_serving_enter(lx_serving *s);
void lx_serving_leave(lx_serving *s, int32_t turn);
/* To keep a model for longer; not from an engine's thread. */
void lx_served_ref(lx_served_model *m);
void lx_served_unref(lx_served_model *m);

/* 0 while loading. */
int32_t lx_serving_count(lx_serving *s);
lx_served_model *lx_serving_at(lx_serving *s, int32_t i);
lx_served_model *lx_serving_find(lx_serving *s, const char *name); /* NULL when unknown */

/* Of its engine or transcriber: seconds until its work is done, Retry-After, mean time of a step.
 */
double lx_served_wait_s(const lx_served_model *m);
int32_t lx_served_retry_after_s(const lx_served_model *m);
double lx_served_step_s(const lx_served_model *m);

/* lx_engine_submit, noting when an idle engine gets work. */
lx_status lx_serving_submit(lx_served_model *m, lx_job *job, lx_error *err) LX_MUST_USE;

void lx_serving_announce_end(lx_serving *s); /* a ready one is LX_SERVING_LEAVING from now on */
void lx_serving_drain(lx_serving *s);        /* refuses new jobs from now on */
void lx_serving_suspend(lx_serving *s);      /* see lx_engine_suspend */
bool lx_serving_idle(lx_serving *s);         /* no job is queued or running */

/* The model of that name. Name "": the first one of the modality; single pictures come before
   strips, then models with classes.
   LX_ERR_NOT_FOUND: there is none; LX_ERR_INVALID: its modality has another route. */
lx_status lx_serving_find_model(lx_serving *s, const char *name, lx_modality modality,
                                lx_served_model **out, lx_error *err) LX_MUST_USE;

/* lx_serving_find_model for routes that need a name if several models of the modality are served:
   LX_ERR_INVALID without one. */
lx_status lx_serving_choose_model(lx_serving *s, const char *name, lx_modality modality,
                                  lx_served_model **out, lx_error *err) LX_MUST_USE;

/* The modality of the named model; `otherwise` if there is none, or it makes no tokens. */
lx_modality lx_serving_made_by(lx_serving *s, const char *name, lx_modality otherwise);
/* The first model of the task, in that order; or LX_ERR_NOT_FOUND. */
lx_status lx_serving_find_task(lx_serving *s, const char *task, lx_served_model **out,
                               lx_error *err) LX_MUST_USE;

/* LX_ERR_NOT_FOUND, with the names of all models. */
lx_status lx_serving_no_model(lx_serving *s, lx_error *err);

/* Notes in the metrics how a request ended. */
void lx_served_count(lx_served_model *served, lx_status status);

/* --- reload, serving_reload.c --- */

typedef struct lx_reload lx_reload;

typedef struct lx_reloaded_model {
    char name[64], fingerprint[96];
    bool changed; /* other weights than before, or none */
    bool removed; /* its folder is gone, so it is no longer served */
} lx_reloaded_model;

typedef struct lx_reload_counts {
    uint64_t done, failed;
    int64_t when; /* Unix time of the last load or reload that succeeded; 0: none yet */
} lx_reload_counts;

lx_reload_counts lx_serving_reloads(lx_serving *s);

/* Has the folders read again. The reloader's thread calls `wake`, which may be NULL, at the end.
   Requests that come before a reload has begun share it. out may be NULL, for a caller without
   interest in the result. LX_ERR_UNAVAILABLE while loading or draining. */
lx_status lx_reload_start(lx_serving *s, void (*wake)(void *context), void *context,
                          lx_reload **out, lx_error *err) LX_MUST_USE;
bool lx_reload_done(const lx_reload *r);
/* After it is done: LX_OK with all models, borrowed; or the reason why nothing was changed.
   LX_ERR_CONFLICT: a file was changed while it was read. */
lx_status lx_reload_result(const lx_reload *r, const lx_reloaded_model **models, int32_t *n,
                           lx_error *err) LX_MUST_USE;
void lx_reload_release(lx_reload *r); /* no wake comes after it */

#endif
