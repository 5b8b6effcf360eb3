/*
 * Several threads submit, read, cancel and leave at once, as HTTP threads do; run it under the
 * thread sanitizer. Under all events together, every job ends, complete answers are whole, and at
 * the end the engine is empty.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "common/clock.h"
#include "tests/support/patience.h"
#include "tests/support/rig.h"

enum { THREADS = 4, ROUNDS = 60 };

static const char *const lines[] = {"月", "海上明月", "山山水水，花花草草", "春风，春雨"};

typedef struct client {
    rig *r;
    uint64_t seed;
    int32_t n_ok, n_cancelled, n_busy, n_wrong;
    pthread_t thread;
    pthread_mutex_t mutex; /* taken by wake and by the client, as an HTTP connection does */
    int32_t n_wakes;
} client;

static uint32_t random_below(client *c, uint32_t n)
{
    c->seed = c->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(c->seed >> 33) % n;
}

static void wake(void *context)
{
    client *c = context;
    (void)pthread_mutex_lock(&c->mutex);
    c->n_wakes++;
    (void)pthread_mutex_unlock(&c->mutex);
}

static void nap(client *c)
{
    /* check-tests: clients that are not equally fast */
    (void)nanosleep(&(struct timespec){.tv_nsec = random_below(c, 300000)}, NULL);
}

static bool is_whole(const lx_job *job)
{
    for (int32_t i = 0; i < lx_job_get_params(job)->n; i++) {
        if (lx_job_tokens(job, i, NULL, NULL) != lx_job_get_params(job)->max_new)
            return false;
    }
    return true;
}

static void judge(client *c, const lx_job *job)
{
    lx_status st = lx_job_status(job, NULL);
    c->n_ok += st == LX_OK;
    c->n_cancelled += st == LX_ERR_CANCELLED;
    c->n_wrong += (st != LX_OK && st != LX_ERR_CANCELLED) || (st == LX_OK && !is_whole(job));
}

/* Leaves at once, cancels after a while, or stays to the end. */
static void *be_a_client(void *context)
{
    client *c = context;
    for (int32_t round = 0; round < ROUNDS; round++) {
        rig_request q = {.line = lines[random_below(c, 4)],
                         .seed = c->seed,
                         .n = 1 + (int32_t)random_below(c, 5)};
        lx_job *job = rig_job(&q, wake, c);
        (void)pthread_mutex_lock(&c->mutex);
        lx_status st = lx_engine_submit(c->r->engine, job, NULL);
        (void)pthread_mutex_unlock(&c->mutex);
        uint32_t behaviour = random_below(c, 4);
        if (st == LX_ERR_BUSY) {
            c->n_busy++;
            nap(c);
        } else if (behaviour < 2) {
            if (behaviour == 1) {
                nap(c);
                lx_job_cancel(job);
                lx_engine_poke(c->r->engine);
            }
            lx_job_wait(job);
            judge(c, job);
        } else if (behaviour == 2) {
            lx_job_cancel(job);
        }
        lx_job_detach(job);
        lx_job_unref(job);
    }
    return NULL;
}

static void threads_may_do_everything_at_once(void **state)
{
    (void)state;
    static const rig_options options[] = {{.n_slots = 1, .max_queue = 2, .max_tokens = 3},
                                          {.n_slots = 3, .max_queue = 1, .prompt_chunk = 2},
                                          {.n_slots = 16, .max_queue = 8, .n_threads = 2}};
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        rig r = rig_start(options[k]);
        client clients[THREADS];
        int32_t n_ok = 0;
        for (int32_t i = 0; i < THREADS; i++) {
            clients[i] = (client){.r = &r, .seed = (uint64_t)i};
            assert_int_equal(pthread_mutex_init(&clients[i].mutex, NULL), 0);
            assert_int_equal(pthread_create(&clients[i].thread, NULL, be_a_client, &clients[i]), 0);
        }
        for (int32_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
            assert_int_equal(clients[i].n_wrong, 0);
            n_ok += clients[i].n_ok;
        }
        assert_true(n_ok > 0);
        lx_engine_drain(r.engine);
        wait_until(lx_engine_idle(r.engine));
        rig_assert_empty(&r);
        rig_stop(&r);
        for (int32_t i = 0; i < THREADS; i++)
            (void)pthread_mutex_destroy(&clients[i].mutex);
    }
}

/* Stopping while clients are at it: every job still ends. */
static void stop_may_come_at_any_moment(void **state)
{
    (void)state;
    for (int32_t round = 0; round < 20; round++) {
        rig r = rig_start((rig_options){.n_slots = 2});
        lx_job *jobs[6];
        for (int32_t i = 0; i < 6; i++)
            jobs[i] = rig_submit(&r, &(rig_request){.line = lines[1], .n = 1 + i % 3});
        /* check-tests: another moment every round */
        (void)nanosleep(&(struct timespec){.tv_nsec = round * 50000}, NULL);
        rig_stop(&r);
        for (int32_t i = 0; i < 6; i++) {
            assert_true(lx_job_finished(jobs[i]));
            lx_status st = lx_job_status(jobs[i], NULL);
            assert_true(st == LX_ERR_UNAVAILABLE || (st == LX_OK && is_whole(jobs[i])));
            lx_job_unref(jobs[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_may_do_everything_at_once),
        cmocka_unit_test(stop_may_come_at_any_moment),
    };
    return cmocka_run_group_tests_name("engine_stress", tests, rig_setup, rig_teardown);
}
