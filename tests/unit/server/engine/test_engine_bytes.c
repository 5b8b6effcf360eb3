/*
 * One request gives equal bytes (tokens and log-probabilities) alone, and among 64 requests of
 * other lengths and numbers of samples with cancellations. The numbers of slots, rows per step,
 * prompt chunks and threads vary. Sample i of n is equal for every n.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/rig.h"

enum { N_REQUESTS = 64 };

static const char *const lines[] = {
    "月",
    "海上明月",
    "春风，春雨",
    "一",
    "！",
    "山山水水，花花草草",
    "海上明月春风花雨山水天地人心一二三千里云中日年江河红绿大小高低来",
    "江河，大小，高低，来去，不无",
    "龘靐龘",
    "千里云中日，年年花不去",
};
enum { N_LINES = sizeof lines / sizeof *lines };

static rig_request request(int32_t i)
{
    static const float temperatures[] = {1, 0.8f, 1.5f, 1e-6f};
    rig_request q = {.line = lines[i * 7 % N_LINES],
                     .seed = (uint64_t)i / 2, /* pairs share a seed */
                     .n = 1 + i % 5,
                     .temperature = temperatures[i % 4],
                     .top_k = i % 3 == 0 ? 20 : 0,
                     .top_p = i % 7 == 0 ? 0.7f : 1,
                     .no_rules = i % 6 == 0};
    return q;
}

static uint64_t alone[N_REQUESTS];

/* In turn, prompts in one piece, in slots that other requests used before. */
static void compute_alone(void)
{
    rig r = rig_start((rig_options){.n_slots = 8, .max_tokens = 80, .prompt_chunk = 64});
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        rig_request q = request(i);
        lx_job *job = rig_submit(&r, &q);
        lx_job_wait(job);
        alone[i] = rig_hash(job);
        rig_expect(job, LX_OK);
    }
    rig_stop(&r);
}

static void assert_same_together(rig_options o)
{
    rig r = rig_start(o);
    lx_job *jobs[N_REQUESTS], *cancelled[N_REQUESTS / 4];
    gate_close(); /* so that all are there when the engine begins */
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        rig_request q = request(i);
        jobs[i] = rig_submit(&r, &q);
        if (i % 4 == 0)
            cancelled[i / 4] = rig_submit(&r, &(rig_request){.line = lines[6], .n = 3});
    }
    for (int32_t i = 0; i < N_REQUESTS / 4; i++) { /* in any phase */
        gate_wait_for_step();
        lx_job_cancel(cancelled[i]);
        gate_let_pass(1 + i % 3);
    }
    gate_open();
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        lx_job_wait(jobs[i]);
        if (rig_hash(jobs[i]) != alone[i])
            fail_msg("request %d: other bytes with %d slots, %d rows, chunks of %d, %d threads", i,
                     o.n_slots, o.max_tokens, o.prompt_chunk, o.n_threads);
        rig_expect(jobs[i], LX_OK);
    }
    for (int32_t i = 0; i < N_REQUESTS / 4; i++)
        rig_expect(cancelled[i], LX_ERR_CANCELLED);
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void the_same_bytes_alone_and_among_others(void **state)
{
    (void)state;
    static const rig_options options[] = {
        {.n_slots = 64, .max_queue = 200, .max_tokens = 128, .prompt_chunk = 64, .n_threads = 1},
        {.n_slots = 64, .max_queue = 200, .max_tokens = 128, .prompt_chunk = 64, .n_threads = 2},
        {.n_slots = 64, .max_queue = 200, .max_tokens = 65, .prompt_chunk = 7, .n_threads = 2},
        {.n_slots = 200, .max_queue = 200, .max_tokens = 500, .prompt_chunk = 5, .n_threads = 2},
        {.n_slots = 7, .max_queue = 200, .max_tokens = 9, .prompt_chunk = 2, .n_threads = 1},
        {.n_slots = 3, .max_queue = 200, .max_tokens = 3, .prompt_chunk = 1, .n_threads = 1},
        {.n_slots = 1, .max_queue = 200, .max_tokens = 33, .prompt_chunk = 10, .n_threads = 1},
    };
    compute_alone();
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        assert_same_together(options[i]);
}

static void a_sample_does_not_depend_on_n(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_slots = 3});
    uint64_t first = 0, second = 0;
    for (int32_t n = 1; n <= 9; n++) {
        rig_request q = {.line = lines[2], .seed = 42, .n = n};
        lx_job *job = rig_submit(&r, &q);
        lx_job_wait(job);
        uint64_t a = rig_sample_hash(job, 0), b = n > 1 ? rig_sample_hash(job, 1) : 0;
        if (n == 1)
            first = a;
        if (n == 2)
            second = b;
        assert_true(a == first);
        assert_true(n == 1 || b == second);
        assert_true(a != b);
        rig_expect(job, LX_OK);
    }
    rig_stop(&r);
}

/* A shorter answer is the beginning of the longer one. */
static void max_new_only_cuts(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){0});
    const int32_t *whole = NULL, *part = NULL;
    lx_job *a = rig_submit(&r, &(rig_request){.line = lines[5], .seed = 5});
    lx_job_wait(a);
    int32_t n = lx_job_tokens(a, 0, &whole, NULL);
    assert_int_equal(n, 9);
    for (int32_t k = 1; k < n; k++) {
        lx_job *b = rig_submit(&r, &(rig_request){.line = lines[5], .seed = 5, .max_new = k});
        lx_job_wait(b);
        assert_int_equal(lx_job_tokens(b, 0, &part, NULL), k);
        assert_memory_equal(whole, part, (size_t)k * sizeof *whole);
        rig_expect(b, LX_OK);
    }
    rig_expect(a, LX_OK);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bytes_alone_and_among_others),
        cmocka_unit_test(a_sample_does_not_depend_on_n),
        cmocka_unit_test(max_new_only_cuts),
    };
    return cmocka_run_group_tests_name("engine_bytes", tests, rig_setup, rig_teardown);
}
