/*
 * States that grow: pages are reserved by a request's length before it begins. A request that does
 * not fit now waits its turn, and one that can never fit is refused. No page is lost on any way
 * out, and no answer depends on the free room. Samples of a prompt share the pages that it has
 * filled. With the argument "cuda": a few steps of it on that back end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/rig.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

/* 168 values per picture: three pages. */
enum { SIDE = 14, HEIGHT = 12, VALUES = SIDE * HEIGHT, PAGES = 3, JOBS = 12, SAMPLES = 5 };
#if defined(LX_SANITIZE_THREAD) || defined(LX_SANITIZE_ADDRESS) /* every end has come by then */
enum { ROUNDS = 10 };
#else
enum { ROUNDS = 40 };
#endif

static const uint8_t drawn[VALUES]; /* the beginning of a picture: as many values as are given */
static const char *backend = "cpu";
static char *folder;
static lx_model *model;

static int setup(void **state)
{
    tiny_model_options o = tiny_model_image;
    o.width = SIDE;
    o.height = HEIGHT;
    o.attention = "[{\"kind\": \"softmax\"}, {\"kind\": \"linear\", \"feature_map\": \"elu+1\", "
                  "\"eps\": 1e-6}]";
    folder = tiny_model_make("rows", &o);
    if (rig_setup(state) != 0 || folder == NULL || lx_model_load(folder, &model, NULL) != LX_OK)
        return -1;
    return 0;
}

static int teardown(void **state)
{
    lx_model_free(model);
    tiny_model_remove(folder);
    return rig_teardown(state);
}

static rig start(int32_t n_pages)
{
    return rig_start((rig_options){
        .model = model, .n_slots = 8, .max_queue = JOBS, .n_pages = n_pages, .backend = backend});
}

static rig_request request(int32_t i)
{
    return (rig_request){.model = model,
                         .seed = (uint64_t)i,
                         .n = 1 + i % 3,
                         .values = drawn,
                         .n_values = 41 * i % 150};
}

/* The answers of the jobs where all of them fit. */
static void run_with_room(uint64_t *want)
{
    rig r = start(0);
    for (int32_t i = 0; i < JOBS; i++) {
        rig_request q = request(i);
        lx_job *job = rig_submit(&r, &q);
        lx_job_ref(job);
        rig_expect(job, LX_OK);
        want[i] = rig_hash(job);
        lx_job_unref(job);
    }
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void what_does_not_fit_waits(void **state)
{
    (void)state;
    uint64_t want[JOBS];
    run_with_room(want);
    for (int32_t n_pages = 2 * PAGES; n_pages <= 5 * PAGES; n_pages++) {
        rig r = start(n_pages);
        lx_job *jobs[JOBS];
        for (int32_t i = 0; i < JOBS; i++) {
            rig_request q = request(i);
            jobs[i] = rig_submit(&r, &q);
            lx_job_ref(jobs[i]);
        }
        for (int32_t i = 0; i < JOBS; i++) {
            rig_expect(jobs[i], LX_OK);
            assert_true(rig_hash(jobs[i]) == want[i]);
            lx_job_unref(jobs[i]);
        }
        rig_assert_empty(&r);
        rig_stop(&r);
    }
}

static void expect_refused(rig *r, const rig_request *q)
{
    lx_error err = {0};
    lx_job *job = rig_job(q, NULL, NULL);
    assert_int_equal(lx_engine_submit(r->engine, job, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "max_tokens");
    assert_non_null(strstr(err.text, "bytes"));
    lx_job_unref(job);
}

static void what_can_never_fit_is_refused(void **state)
{
    (void)state;
    rig r = start(PAGES - 1);
    rig_request q = {.model = model, .seed = 1};
    expect_refused(&r, &q);
    q.max_new = VALUES / 2; /* two pages */
    rig_expect(rig_submit(&r, &q), LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
    r = start(2 * PAGES - 1); /* several samples need a shared prompt's and one more */
    q = (rig_request){.model = model, .seed = 1, .n = 2};
    expect_refused(&r, &q);
    q.n = 1;
    rig_expect(rig_submit(&r, &q), LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void pages_come_back_from_every_end(void **state)
{
    (void)state;
    uint64_t random = 3;
    rig r = start(4 * PAGES);
    for (int32_t round = 0; round < ROUNDS; round++) {
        lx_job *jobs[JOBS];
        for (int32_t i = 0; i < JOBS; i++) {
            rig_request q = request(i);
            q.timeout_ns = scratch_random(&random) % 4 == 0 ? 1 : 0;
            jobs[i] = rig_submit(&r, &q);
        }
        for (int32_t i = 0; i < JOBS; i++) {
            if (scratch_random(&random) % 3 == 0)
                lx_job_cancel(jobs[i]);
        }
        for (int32_t i = 0; i < JOBS; i++) {
            lx_job_wait(jobs[i]);
            lx_job_unref(jobs[i]);
        }
        rig_assert_empty(&r);
    }
    rig_stop(&r);
}

static void a_saved_state_goes_on(void **state)
{
    (void)state;
    static const int32_t places[] = {1, 62, 63, 64, 65, 127, 128, VALUES - 1};
    rig r = start(PAGES);
    rig_request q = {.model = model, .seed = 5};
    lx_job *whole = rig_submit(&r, &q);
    lx_job_ref(whole);
    rig_expect(whole, LX_OK);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        rig_request first = {.model = model, .seed = 5, .keep_state = true, .max_new = places[i]};
        lx_job *a = rig_submit(&r, &first);
        lx_job_ref(a);
        rig_expect(a, LX_OK);
        rig_request rest = q;
        rest.start.n_tokens = lx_job_tokens(a, 0, &rest.start.tokens, NULL);
        rest.start.state = lx_job_state(a, 0, &rest.start.rows);
        lx_job *b = rig_submit(&r, &rest);
        lx_job_ref(b);
        rig_expect(b, LX_OK);
        const int32_t *got = NULL, *want = NULL;
        assert_int_equal(lx_job_tokens(b, 0, &got, NULL), lx_job_tokens(whole, 0, &want, NULL));
        assert_memory_equal(got, want, VALUES * sizeof *got);
        lx_job_unref(a);
        lx_job_unref(b);
    }
    lx_job_unref(whole);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* The answer of sample i of the request alone, where no page is shared. */
static lx_job *run_alone(const rig_request *fork, int32_t i)
{
    rig r = start(PAGES);
    rig_request q = *fork;
    q.n = 1;
    q.start.first_sample = (uint32_t)i;
    lx_job *job = rig_submit(&r, &q);
    lx_job_ref(job);
    rig_expect(job, LX_OK);
    rig_stop(&r);
    return job;
}

static void assert_same_state(const lx_job *a, int32_t i, const lx_job *b)
{
    int32_t rows = 0, want_rows = 0;
    const float *got = lx_job_state(a, i, &rows), *want = lx_job_state(b, 0, &want_rows);
    assert_int_equal(rows, want_rows);
    assert_memory_equal(got, want, (size_t)lx_model_state_floats(model, rows) * sizeof *got);
}

/* With all samples at once, and with room for one in addition to the shared state. */
static void assert_fork(rig_request q, int32_t n_shared)
{
    int32_t own = PAGES - n_shared;
    lx_job *alone[SAMPLES];
    for (int32_t i = 0; i < SAMPLES; i++)
        alone[i] = run_alone(&q, i);
    q.n = SAMPLES;
    for (int32_t n_pages = PAGES + own; n_pages <= PAGES + (SAMPLES - 1) * own;
         n_pages += (SAMPLES - 2) * own) {
        rig r = start(n_pages);
        lx_job *job = rig_submit(&r, &q);
        lx_job_ref(job);
        rig_expect(job, LX_OK);
        for (int32_t i = 0; i < SAMPLES; i++) {
            assert_true(rig_sample_hash(job, i) == rig_sample_hash(alone[i], 0));
            assert_same_state(job, i, alone[i]);
        }
        lx_job_unref(job);
        rig_assert_empty(&r);
        rig_stop(&r);
    }
    for (int32_t i = 0; i < SAMPLES; i++)
        lx_job_unref(alone[i]);
    rig r = start(PAGES + own - 1);
    expect_refused(&r, &q);
    rig_stop(&r);
}

static void samples_share_full_pages(void **state)
{
    (void)state;
    static const int32_t given[] = {0, 63, 64, 65, 127, 128, 129};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        assert_fork((rig_request){.model = model,
                                  .seed = 9,
                                  .values = drawn,
                                  .n_values = given[i],
                                  .max_new = VALUES - given[i],
                                  .keep_state = true},
                    given[i] / LX_PAGE_TOKENS);
}

static void samples_of_a_saved_state_share_too(void **state)
{
    (void)state;
    static const int32_t places[] = {63, 64, 65, 129};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        rig_request first = {.model = model, .seed = 5, .keep_state = true, .max_new = places[i]};
        lx_job *saved = run_alone(&first, 0);
        rig_request rest = {.model = model, .seed = 6, .keep_state = true, .max_new = VALUES};
        rest.start.n_tokens = lx_job_tokens(saved, 0, &rest.start.tokens, NULL);
        rest.start.state = lx_job_state(saved, 0, &rest.start.rows);
        assert_fork(rest, places[i] / LX_PAGE_TOKENS);
        lx_job_unref(saved);
    }
}

static void a_shared_page_is_counted_once(void **state)
{
    (void)state;
    rig r = start(0);
    rig_request q = {
        .model = model, .seed = 1, .n = SAMPLES, .values = drawn, .n_values = 2 * LX_PAGE_TOKENS};
    gate_close();
    lx_job *job = rig_submit(&r, &q);
    lx_job_ref(job);
    for (int32_t n = 0; n < SAMPLES;) {
        gate_let_pass(1);
        gate_wait_for_step();
        for (n = 0; n < SAMPLES && lx_job_tokens(job, n, NULL, NULL) > 0;)
            n++;
    }
    int64_t page_bytes = model->state.page_floats * (int64_t)sizeof(float);
    assert_int_equal(r.metrics->pool_used / page_bytes, 2 + SAMPLES * (PAGES - 2));
    gate_open();
    rig_expect(job, LX_OK);
    lx_job_unref(job);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* Before, in and after a page's last row, while steps start before their tokens are read. */
static void a_few_steps_on_a_device(void **state)
{
    (void)state;
    enum { GIVEN = LX_PAGE_TOKENS - 3, NEW = 6 };
    rig_request q = {.model = model, .seed = 2, .n = 2, .values = drawn, .max_new = NEW};
    rig r = rig_start((rig_options){
        .model = model, .n_slots = 2, .n_pages = 2 * PAGES, .ahead = 2, .backend = backend});
    for (q.n_values = GIVEN; q.n_values <= LX_PAGE_TOKENS + 1; q.n_values += 2) {
        lx_job *job = rig_submit(&r, &q);
        lx_job_ref(job);
        rig_expect(job, LX_OK);
        rig_assert_empty(&r);
        for (int32_t i = 0; i < q.n; i++) {
            rig_request one = q;
            one.n = 1;
            one.start.first_sample = (uint32_t)i;
            lx_job *alone = rig_submit(&r, &one);
            lx_job_ref(alone);
            rig_expect(alone, LX_OK);
            assert_true(rig_sample_hash(job, i) == rig_sample_hash(alone, 0));
            lx_job_unref(alone);
        }
        lx_job_unref(job);
    }
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest device[] = {cmocka_unit_test(a_few_steps_on_a_device)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_waits),
        cmocka_unit_test(what_can_never_fit_is_refused),
        cmocka_unit_test(pages_come_back_from_every_end),
        cmocka_unit_test(a_saved_state_goes_on),
        cmocka_unit_test(samples_share_full_pages),
        cmocka_unit_test(samples_of_a_saved_state_share_too),
        cmocka_unit_test(a_shared_page_is_counted_once),
    };
    if (argc > 1) {
        backend = argv[1];
        return cmocka_run_group_tests(device, setup, teardown);
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
