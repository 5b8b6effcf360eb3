/*
 * Shared by tests that compare bytes of engines of many kinds. It has the back end, tiny models of
 * lines and of pictures, requests of engine_requests.h, the answer of each request alone, and the
 * ways to disturb them. One process has one subject.
 */
#ifndef LINNET_TESTS_SUPPORT_ENGINE_SUBJECT_H
#define LINNET_TESTS_SUPPORT_ENGINE_SUBJECT_H

#include "tests/support/engine_requests.h"

enum { SUBJECT_REQUESTS = 20 };

typedef struct engine_subject {
    const char *backend;
    lx_model *pictures;
    bool of_pictures;   /* model of the engines; otherwise rig_model() */
    int64_t move_bytes; /* 1: every state moves while steps run */
    lx_job *known[SUBJECT_REQUESTS];
    int32_t n_known; /* finished jobs: request i alone */
} engine_subject;

extern engine_subject subject;

bool subject_is_cuda(void);
/* cmocka's group fixtures. */
int subject_setup(void **state);
int subject_teardown(void **state);
/* Runs the tests on the back ends that are named; without a name on cpu, then on reference (not
   for sanitizers). Returns the exit status. */
int subject_main(int argc, char **argv, int (*run)(const char *backend));

/* Of an engine of the subject; further fields are the test's. */
rig_options subject_options(int32_t n_slots);
rig_request subject_request(int32_t i);

/* Answers the first n requests one by one. */
void subject_learn(rig *r, int32_t n);
void subject_forget(void);

/* Runs all known requests at once and cancels some in any phase: each answer must equal the one
   alone. */
void subject_assert_same_together(rig *r);
/* The job after so many steps of an engine that is then suspended. */
lx_job *subject_suspended(rig *r, const rig_request *q, int32_t n_steps);
/* Runs four jobs and lets the step after n_steps fail: the jobs that had begun end with it,
   later jobs are right. */
void subject_assert_failed_step_ends_its_jobs(rig *r, int32_t n_steps);

#endif
