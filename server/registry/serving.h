/*
 * What is being served: the models of a folder, each with its transformer and engine, one of speech
 * with its transcriber, on one back end that all share.
 *
 * Loading may run while HTTP already answers: models are not looked up before lx_serving_get_state
 * says that they are ready. After that models come or are replaced by a reload, in the same place
 * of the list, and none goes away. What lx_serving_find and _at return may be replaced at any time,
 * so it is used between lx_serving_enter and _leave (every handler is called between them), or
 * holds a reference (every lx_work does).
 */
#ifndef LINNET_SERVER_REGISTRY_SERVING_H
#define LINNET_SERVER_REGISTRY_SERVING_H

#include "server/engine/engine.h"
#include "server/speech/transcriber.h"

enum { LX_MAX_MODELS = 64 };

typedef struct lx_serving lx_serving;

/* Bytes of this process's memory that models take or may take. */
typedef struct lx_serving_bytes {
    int64_t weights;  /* as large as in their files */
    int64_t held;     /* of states and steps, see lx_room */
    int64_t prefixes; /* of prompts' states that are kept */
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
    int64_t page_bytes;            /* of growing parts: what it had at start, a reload keeps it */
    lx_serving_bytes bytes;        /* of it */
    int64_t created;               /* Unix time at which it was loaded */
    _Atomic int64_t work_since_ns; /* when a job last came to an idle engine */
    char fingerprint[96];
    lx_metrics carried; /* its counters that the model after it has taken over */
} lx_served_model;

typedef struct lx_serving_options {
    const char *backend; /* NULL: the one `device` says, see lx_backend_choose */
    const char *device;
    lx_backend_options backend_options;
    const char *models_dir; /* "DIR:DIR": of each every subfolder with a config.json, or itself if
                               it has one; NULL: none */
    const char *model_dir;  /* one more; NULL for none */
    int64_t state_bytes;    /* of all models' states and steps where these are in the process's
                               memory */
    int32_t n_slots;        /* a model; 0: from these bytes, or those that a device has free */
    int32_t max_queue;      /* jobs, a model */
    int64_t page_bytes;     /* of states' growing parts, a model; 0: likewise */
    int64_t prefix_bytes;   /* of prompts' states that are kept, a model */
    int64_t prefix_most;    /* of those of all models, in the process's memory */
    int32_t prefix_every;   /* see lx_engine_options */
    bool share_prefixes;    /* likewise */
    int64_t draft;          /* likewise, -1: what is best */
    int64_t probe_ns;       /* an idle engine steps so often, to see that it can; 0: never */
    /* Whether a reload may load weights of so many bytes now, next to those in use. */
    lx_status (*has_room)(void *memory, int64_t weights, lx_error *err);
    /* Whether these may be all models' bytes from now on: at the end of loading, and of a reload
       before its models are served. */
    lx_status (*settle)(void *memory, const lx_serving_bytes *all, lx_error *err);
    void *memory; /* context of the two, which are NULL where nothing is planned */
} lx_serving_options;

typedef enum lx_serving_state {
    LX_SERVING_LOADING,
    LX_SERVING_READY,
    LX_SERVING_LEAVING, /* works as when ready, but says that it is not */
    LX_SERVING_DRAINING,
    LX_SERVING_UNHEALTHY /* a device failed, or an engine made no step although it should have */
} lx_serving_state;

lx_status lx_serving_new(lx_serving **out, lx_error *err) LX_MUST_USE;
/* Whether the device is a word that is known, and there are folders with configs that can be read;
   opens and loads nothing. */
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
/* What the back end is, one line; "" while loading. */
const char *lx_serving_backend(const lx_serving *s);
int64_t lx_serving_start_ns(const lx_serving *s);

/* Models are looked up between these two; leave takes what enter returned. Keep it short: a reload
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

/* What its engine or its transcriber says: seconds until what is there is done, Retry-After, and
   the mean time of a step. */
double lx_served_wait_s(const lx_served_model *m);
int32_t lx_served_retry_after_s(const lx_served_model *m);
double lx_served_step_s(const lx_served_model *m);

/* lx_engine_submit, noting when an idle engine gets work. */
lx_status lx_serving_submit(lx_served_model *m, lx_job *job, lx_error *err) LX_MUST_USE;

void lx_serving_announce_end(lx_serving *s); /* a ready one is LX_SERVING_LEAVING from now on */
void lx_serving_drain(lx_serving *s);        /* refuses new jobs from now on */
void lx_serving_suspend(lx_serving *s);      /* see lx_engine_suspend */
bool lx_serving_idle(lx_serving *s);         /* no job is queued or running */

/* The model of that name, or the first one of the modality when name is "", one with classes before
   one without. LX_ERR_NOT_FOUND when there is none, LX_ERR_INVALID with the right route when it
   makes something else. */
lx_status lx_serving_find_model(lx_serving *s, const char *name, lx_modality modality,
                                lx_served_model **out, lx_error *err) LX_MUST_USE;

/* The same for routes that need a model's name where several models of the modality are served:
   LX_ERR_INVALID without one. */
lx_status lx_serving_choose_model(lx_serving *s, const char *name, lx_modality modality,
                                  lx_served_model **out, lx_error *err) LX_MUST_USE;

/* What the named model makes token by token; `otherwise` when there is none, or it makes nothing.
 */
lx_modality lx_serving_made_by(lx_serving *s, const char *name, lx_modality otherwise);
/* The first model of the task, one with classes before one without, for a page that knows that
   task; LX_ERR_NOT_FOUND. */
lx_status lx_serving_find_task(lx_serving *s, const char *task, lx_served_model **out,
                               lx_error *err) LX_MUST_USE;

/* LX_ERR_NOT_FOUND, with the names that there are. */
lx_status lx_serving_no_model(lx_serving *s, lx_error *err);

/* Notes in the metrics how a request ended. */
void lx_served_count(lx_served_model *served, lx_status status);

/* --- reload, serving_reload.c --- */

typedef struct lx_reload lx_reload;

typedef struct lx_reloaded_model {
    char name[64], fingerprint[96];
    bool changed; /* other weights than before */
} lx_reloaded_model;

/* Requests that the folders are read again; `wake` (may be NULL) is called when that is done, from
   the reloader's thread. Requests that come before a reload has begun share it. out NULL: the
   result is not wanted. LX_ERR_UNAVAILABLE while loading or draining. */
lx_status lx_reload_start(lx_serving *s, void (*wake)(void *context), void *context,
                          lx_reload **out, lx_error *err) LX_MUST_USE;
bool lx_reload_done(const lx_reload *r);
/* After it is done: LX_OK with all models, borrowed; or the reason why nothing was changed.
   LX_ERR_CONFLICT: a file was changed while it was read. */
lx_status lx_reload_result(const lx_reload *r, const lx_reloaded_model **models, int32_t *n,
                           lx_error *err) LX_MUST_USE;
void lx_reload_release(lx_reload *r); /* no wake comes after it */

#endif
