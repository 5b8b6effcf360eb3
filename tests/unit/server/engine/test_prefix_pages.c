/*
 * Prompts with a common beginning where states grow. They share full pages, kept prefixes give way
 * to runs that have reserved their pages, and no answer depends on the kept prefixes.
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

#if defined(LX_SANITIZE_THREAD) ||                                                                 \
    defined(LX_SANITIZE_ADDRESS) /* every sort of job has come by then, and it is slow */
enum { ROUNDS = 4 };
#else
enum { ROUNDS = 12 };
#endif

/* 168 values per picture: three pages. */
enum { SIDE = 14, HEIGHT = 12, VALUES = SIDE * HEIGHT, PAGES = 3, JOBS = 24 };

/* Black pictures, and some with one white row: from that row on they differ. */
enum { BLACK = HEIGHT, PICTURES = HEIGHT + 1 };
static uint8_t pictures[PICTURES][VALUES];
/* With a part that does not grow, without one, and with a ring, so that no sequence branches and
   kept states have copies of pages that are not full. */
enum { BRANCHING = 2, MODELS = 3 };
static char *folders[MODELS];
static lx_model *models[MODELS];
static lx_model *model;

static int setup(void **state)
{
    static const char *const attention[] = {
        ("[{\"kind\": \"softmax\"}, {\"kind\": \"linear\", \"feature_map\": \"elu+1\", "
         "\"eps\": 1e-6}]"),
        "{\"kind\": \"softmax\"}",
        "[{\"kind\": \"softmax\"}, {\"kind\": \"sliding_window\", \"window\": 20}]",
    };
    static const char *const names[] = {"both", "grows", "ring"};
    tiny_model_options o = tiny_model_image;
    o.width = SIDE;
    o.height = HEIGHT;
    for (int i = 0; i < HEIGHT; i++)
        memset(pictures[i] + (ptrdiff_t)i * SIDE, 200, SIDE);
    for (int i = 0; i < MODELS; i++) {
        o.attention = attention[i];
        folders[i] = tiny_model_make(names[i], &o);
        if (folders[i] == NULL || lx_model_load(folders[i], &models[i], NULL) != LX_OK)
            return -1;
    }
    model = models[0];
    return rig_setup(state);
}

static int teardown(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        lx_model_free(models[i]);
        tiny_model_remove(folders[i]);
    }
    return rig_teardown(state);
}

static rig start(int32_t n_prefixes, int32_t n_pages)
{
    return rig_start((rig_options){
        .model = model, .max_queue = JOBS, .n_prefixes = n_prefixes, .n_pages = n_pages});
}

static rig_request request(int32_t picture, int32_t n_values)
{
    return (rig_request){
        .model = model, .seed = 3, .values = pictures[picture], .n_values = n_values};
}

static int64_t pages_of(const _Atomic int64_t *bytes)
{
    return atomic_load(bytes) / (model->state.page_floats * (int64_t)sizeof(float));
}

/* The hash of the answer where no prefix is kept; computed once per request. */
static uint64_t plain_hash(const rig_request *q)
{
    enum { MOST = 128 };
    static struct {
        rig_request request;
        uint64_t hash;
    } known[MOST];
    static int32_t n_known;
    for (int32_t i = 0; i < n_known; i++) {
        const rig_request *k = &known[i].request;
        if (k->model == q->model && k->seed == q->seed && k->n == q->n && k->values == q->values &&
            k->n_values == q->n_values && k->max_new == q->max_new)
            return known[i].hash;
    }
    rig r = start(0, 0);
    lx_job *job = rig_submit(&r, q);
    lx_job_ref(job);
    rig_expect(job, LX_OK);
    uint64_t hash = rig_hash(job);
    lx_job_unref(job);
    rig_stop(&r);
    assert_in_range(n_known, 0, MOST - 1);
    known[n_known].request = *q;
    known[n_known++].hash = hash;
    return hash;
}

/* Rows of the prompt that were kept; the answer is right. */
static int32_t cached(rig *r, int32_t picture, int32_t n_values)
{
    rig_request q = request(picture, n_values);
    lx_job *job = rig_submit(r, &q);
    lx_job_ref(job);
    rig_expect(job, LX_OK);
    int32_t rows = lx_job_cached_rows(job);
    assert_true(rig_hash(job) == plain_hash(&q));
    lx_job_unref(job);
    return rows;
}

static void a_prompt_starts_from_what_it_shares(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        model = models[i];
        rig r = start(12, 0);
        assert_int_equal(cached(&r, BLACK, 140), 0);
        assert_int_equal(pages_of(&r.metrics->pool_kept), 3);
        assert_int_equal(cached(&r, BLACK, 140), 140);
        assert_int_equal(cached(&r, BLACK, 128), 0); /* it needs no page that is not full */
        assert_int_equal(cached(&r, BLACK, 128), 128);
        assert_int_equal(cached(&r, 7, 140), 0); /* parts after 1 + 98 rows, */
        assert_int_equal(cached(&r, 7, 140), 140);
        assert_int_equal(cached(&r, 7, 130), 99); /* where a state is kept since then */
        assert_int_equal(atomic_load(&r.metrics->cached_prompt_tokens), 140 + 128 + 140 + 99);
        rig_assert_empty(&r);
        rig_stop(&r);
    }
    model = models[0];
}

static void what_is_kept_gives_way(void **state)
{
    (void)state;
    rig r = start(12, PAGES + 1);
    assert_int_equal(cached(&r, BLACK, 140), 0);
    assert_int_equal(cached(&r, BLACK, 140), 140);
    assert_int_equal(cached(&r, 0, 140), 0); /* needs the pages of the kept prefix */
    assert_int_equal(cached(&r, 0, 140), 140);
    assert_int_equal(cached(&r, BLACK, 140), 0);
    rig_assert_empty(&r);
    rig_stop(&r);
    r = start(12, PAGES);
    assert_int_equal(cached(&r, BLACK, 140), 0);
    assert_int_equal(pages_of(&r.metrics->pool_kept), 3);
    assert_int_equal(cached(&r, BLACK, 140), 140); /* needs the page that is not full */
    assert_int_equal(pages_of(&r.metrics->pool_kept), 0);
    assert_int_equal(cached(&r, 0, 128), 0);
    assert_int_equal(cached(&r, 0, 128), 128);
    assert_int_equal(pages_of(&r.metrics->pool_kept), 2);
    rig_assert_empty(&r);
    rig_stop(&r);
    model = models[BRANCHING];
    r = start(12, PAGES); /* no page is free for a copy, but none is needed for full ones */
    assert_int_equal(cached(&r, BLACK, 140), 0);
    assert_int_equal(cached(&r, BLACK, 140), 0);
    assert_int_equal(pages_of(&r.metrics->pool_kept), 0);
    assert_int_equal(cached(&r, BLACK, 128), 0);
    assert_int_equal(cached(&r, BLACK, 128), 128);
    assert_int_equal(pages_of(&r.metrics->pool_kept), 2);
    rig_assert_empty(&r);
    rig_stop(&r);
    model = models[0];
}

/* A sequence branches where its prompt pauses, so the step goes on. With a ring the step ends. */
static void a_pause_costs_no_step(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        model = models[i];
        rig_request q = request(BLACK, 40);
        q.max_new = 1;
        rig plain = start(0, 0), keeps = start(12, 0);
        rig_expect(rig_submit(&plain, &q), LX_OK);
        rig_expect(rig_submit(&keeps, &q), LX_OK);
        assert_int_equal(keeps.metrics->steps, plain.metrics->steps + (i >= BRANCHING));
        assert_int_equal(cached(&keeps, BLACK, 40), 40);
        rig_stop(&plain);
        rig_stop(&keeps);
    }
    model = models[0];
}

/* A state after 1 + 40 values, which starts from a kept one if there is one. */
static float *state_after(rig *r, int32_t cached_rows)
{
    int32_t rows = 0;
    rig_request q = request(BLACK, 40);
    q.max_new = 2;
    q.keep_state = true;
    lx_job *job = rig_submit(r, &q);
    lx_job_wait(job);
    assert_int_equal(lx_job_cached_rows(job), cached_rows);
    const float *floats = lx_job_state(job, 0, &rows);
    size_t bytes = (size_t)lx_model_state_floats(model, rows) * sizeof *floats;
    float *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, floats, bytes);
    assert_in_range(rows, 41, 63);
    rig_expect(job, LX_OK);
    return copy;
}

/* The kept state's last page has the first run's rows after it, up to the page's end. */
static void a_state_has_no_rows_of_others(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        model = models[i];
        rig plain = start(0, 0), keeps = start(12, 0);
        assert_int_equal(cached(&keeps, BLACK, 40), 0);
        float *want = state_after(&plain, 0), *got = state_after(&keeps, 40);
        assert_memory_equal(got, want, (size_t)lx_model_state_floats(model, 41) * sizeof *got);
        free(want);
        free(got);
        rig_stop(&plain);
        rig_stop(&keeps);
    }
    model = models[0];
}

/* The limit is one of states. Their pages are those that no run has. */
static void what_is_kept_has_a_limit(void **state)
{
    (void)state;
    rig r = start(3, 0);
    assert_int_equal(cached(&r, BLACK, 140), 0);
    assert_int_equal(cached(&r, 0, 70), 0);
    assert_int_equal(pages_of(&r.metrics->pool_kept), 5); /* more than a page for each state */
    assert_int_equal(cached(&r, 0, 70), 70);
    assert_int_equal(cached(&r, BLACK, 140), 140);
    rig_stop(&r);
    r = start(1, 0);
    assert_int_equal(cached(&r, 0, 70), 0);
    assert_int_equal(cached(&r, BLACK, 140), 0); /* the other state goes, with its pages */
    assert_int_equal(pages_of(&r.metrics->pool_kept), 3);
    assert_int_equal(cached(&r, BLACK, 140), 140);
    assert_int_equal(cached(&r, 0, 70), 0);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* All pages are reserved, so the state that a run starts from gives way while it starts. */
static void what_is_found_may_give_way_at_once(void **state)
{
    (void)state;
    rig r = start(12, PAGES + 1);
    rig_request other = {.model = model, .seed = 4, .max_new = 30}, q = request(BLACK, 70);
    assert_int_equal(cached(&r, BLACK, 70), 0);
    assert_int_equal(pages_of(&r.metrics->pool_kept), 2);
    gate_close();
    lx_job *first = rig_submit(&r, &other);
    gate_wait_for_step();
    lx_job *second = rig_submit(&r, &q);
    lx_job_ref(second);
    gate_let_pass(1);
    gate_wait_for_step();
    assert_int_equal(pages_of(&r.metrics->pool_used), PAGES + 1);
    assert_int_equal(pages_of(&r.metrics->pool_kept), 0);
    gate_open();
    rig_expect(first, LX_OK);
    rig_expect(second, LX_OK);
    assert_int_equal(lx_job_cached_rows(second), 70);
    assert_true(rig_hash(second) == plain_hash(&q));
    lx_job_unref(second);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void a_shared_page_is_counted_once(void **state)
{
    (void)state;
    rig r = start(12, 0);
    rig_request q = request(BLACK, 140);
    lx_job *jobs[3];
    assert_int_equal(cached(&r, BLACK, 140), 0);
    gate_close();
    for (int i = 0; i < 3; i++)
        jobs[i] = rig_submit(&r, &q);
    gate_wait_for_step();
    while (lx_job_get_times(jobs[2]).started == 0) {
        gate_let_pass(1);
        gate_wait_for_step();
    }
    assert_int_equal(pages_of(&r.metrics->pool_used), 2 + 3);
    gate_open();
    for (int i = 0; i < 3; i++)
        rig_expect(jobs[i], LX_OK);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* Jobs of all sorts, some of which end early, in pools of all sizes. */
static void answers_do_not_depend_on_what_is_kept(void **state)
{
    model = models[*state != NULL ? BRANCHING : 0];
    uint64_t want[JOBS], random = 11, n_cached = 0;
    rig_request q[JOBS];
    for (int32_t i = 0; i < JOBS; i++) {
        q[i] = request(5 + i % 4 * 2 % 8, i * 37 % 160);
        q[i].n = 1 + i % 3;
        want[i] = plain_hash(&q[i]);
    }
    for (int32_t round = 0; round < ROUNDS; round++) {
        rig r = rig_start((rig_options){.model = model,
                                        .max_queue = JOBS,
                                        .n_prefixes = 3 + round % 5,
                                        .prefix_every = round % 3 * 32,
                                        .n_pages = 2 * PAGES + round % 7});
        for (int32_t again = 0; again < 3; again++) {
            lx_job *jobs[JOBS];
            for (int32_t i = 0; i < JOBS; i++) {
                rig_request some = q[i];
                some.timeout_ns = scratch_random(&random) % 8 == 0 ? 1 : 0;
                jobs[i] = rig_submit(&r, &some);
            }
            for (int32_t i = 0; i < JOBS; i++) {
                if (scratch_random(&random) % 5 == 0)
                    lx_job_cancel(jobs[i]);
            }
            for (int32_t i = 0; i < JOBS; i++) {
                lx_job_wait(jobs[i]);
                if (lx_job_status(jobs[i], NULL) == LX_OK)
                    assert_true(rig_hash(jobs[i]) == want[i]);
                lx_job_unref(jobs[i]);
            }
            rig_assert_empty(&r);
        }
        n_cached += atomic_load(&r.metrics->cached_prompt_tokens);
        rig_stop(&r);
    }
    assert_true(n_cached > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_starts_from_what_it_shares),
        cmocka_unit_test(what_is_kept_gives_way),
        cmocka_unit_test(a_pause_costs_no_step),
        cmocka_unit_test(a_state_has_no_rows_of_others),
        cmocka_unit_test(what_is_kept_has_a_limit),
        cmocka_unit_test(what_is_found_may_give_way_at_once),
        cmocka_unit_test(a_shared_page_is_counted_once),
        cmocka_unit_test(answers_do_not_depend_on_what_is_kept),
        cmocka_unit_test_prestate(answers_do_not_depend_on_what_is_kept, &models[BRANCHING]),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
