/*
 * A whole engine on a tiny random model, for tests: model folder, gated back end, transformer,
 * metrics, engine. Each process writes and loads the model once (rig_setup / rig_teardown as
 * cmocka's group fixtures); rig_start and rig_stop make and end an engine on it. Every function
 * fails the running test when something goes wrong.
 */
#ifndef LINNET_TESTS_SUPPORT_RIG_H
#define LINNET_TESTS_SUPPORT_RIG_H

#include "server/engine/engine.h"
#include "tests/support/gate.h"

typedef struct rig_options {
    int32_t n_slots, max_queue, max_tokens, prompt_chunk, prompt_beside,
        n_threads;                    /* 0: 4, 8, n_slots + 32, 64, 1 */
    int64_t probe_ns;                 /* 0: no probes */
    int32_t n_prefixes, prefix_every; /* 0: none are kept; each with one page */
    int32_t n_pages;                  /* of growing states; 0: enough for all slots */
    bool share_prefixes;
    int32_t ahead, draft;
    const struct lx_guesser *guesser;
    int64_t move_bytes;    /* as the engine's */
    int32_t n_spare;       /* set by the test before rig_start */
    const char *backend;   /* NULL: cpu */
    const lx_model *model; /* NULL: the tiny one */
} rig_options;

typedef struct rig {
    lx_backend *be;
    lx_transformer *transformer;
    lx_metrics *metrics;
    lx_engine *engine;
} rig;

int rig_setup(void **state);
int rig_teardown(void **state);
const lx_model *rig_model(void);

rig rig_start(rig_options o);
void rig_stop(rig *r); /* opens the gate first */

/* A test's request; 0 means: n 1, max_new the whole line, temperature 1, no deadline. */
typedef struct rig_request {
    const char *line;
    uint64_t seed;
    int32_t n, max_new, top_k;
    float temperature, top_p;
    bool no_rules, no_draft;
    int64_t timeout_ns;
    const int32_t *targets; /* score these */
    lx_job_start start;
    bool keep_state; /* max_new 0 is none then */
    bool suspendable;
    const lx_stops *stops;
    const lx_model *model; /* NULL: the tiny one; of images: no line, the values instead */
    const uint8_t *values;
    int32_t n_values, n_top;
    const void *key; /* the client's */
    bool follows;
} rig_request;

lx_job *rig_job(const rig_request *q, lx_job_wake wake, void *context);
lx_job *rig_submit(rig *r, const rig_request *q); /* must be accepted */
/* Waits, checks the status, drops the reference. */
void rig_expect(lx_job *job, lx_status status);

/* A fingerprint of all tokens and the bits of all log-probabilities of a finished job. */
uint64_t rig_hash(const lx_job *job);
uint64_t rig_sample_hash(const lx_job *job, int32_t i);

/* No job, no used slot, empty queue. */
void rig_assert_empty(rig *r);

#endif
