/*
 * Text answers are rendered once. A stream that is pulled after every token, and one that comes
 * late, render as many tokens as the answer has, with stop strings and without. The text held back
 * for a stop string, and the place of the cut, do not depend on how the tokens came. The test plays
 * the engine here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/completion.h"
#include "tests/support/rig.h"

static const char line[] = "海上明月春风花雨海上明月春风花雨";

enum { N = 16, FIRST_ID = 12 }; /* the line's characters; the first id that is a character */

static int64_t rendered;

static lx_model model;
static lx_task_ops task;
static lx_served_model served;

static void count_render(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_buffer *out)
{
    rendered++;
    rig_model()->task->render(plan, step, tokens, out);
}

/* The tiny model, whose task counts. */
static void prepare(void)
{
    model = *rig_model();
    task = *rig_model()->task;
    task.render = count_render;
    model.task = &task;
    served.model = &model;
}

static int32_t token_at(int32_t k)
{
    return FIRST_ID + k * 7 % 20;
}

static lx_completion *completion_of(const lx_stops *stops)
{
    rig_request q = {.line = line, .max_new = N, .stops = stops, .model = &model, .no_rules = true};
    lx_completion *c = calloc(1, sizeof *c + sizeof *c->choices);
    assert_non_null(c);
    c->works = calloc(1, sizeof *c->works);
    assert_non_null(c->works);
    lx_job *job = rig_job(&q, NULL, NULL);
    c->works[0] =
        (lx_work){.pending.served = &served, .job = job, .params = lx_job_get_params(job)};
    c->n = c->n_prompts = 1;
    c->n_logprobs = -1;
    lx_answer_init(&c->choices[0].answer, &c->works[0], 0, true);
    return c;
}

static void free_completion(lx_completion *c)
{
    lx_answer_fini(&c->choices[0].answer);
    lx_job_unref(c->works[0].job);
    free(c->works);
    free(c);
}

/* As the engine does, which stops at a stop string. */
static void push(lx_completion *c, int32_t k)
{
    if (!lx_job_sample_ended(c->works[0].job, 0))
        (void)lx_job_push(c->works[0].job, 0, token_at(k), -1.0F - (float)k);
}

static void a_stream_renders_every_token_once(void **unused)
{
    (void)unused;
    lx_stops never = {.n = 1, .stop = {{.bytes = 6, .text = "\xe6\xb5\xb7!!!"}}};
    for (int32_t with_stops = 0; with_stops < 2; with_stops++) {
        lx_completion *c = completion_of(with_stops != 0 ? &never : NULL);
        lx_buffer out;
        lx_buffer_init(&out, 1 << 20);
        rendered = 0;
        int64_t of_engine = 0;
        for (int32_t k = 0; k < N; k++) {
            int64_t before = rendered;
            push(c, k);
            of_engine += rendered - before; /* it looks for stop strings, too */
            assert_false(lx_completion_pull(c, &out));
            assert_false(lx_completion_pull(c, &out)); /* a wake for nothing */
        }
        lx_job_finish(c->works[0].job, LX_OK, NULL);
        assert_true(lx_completion_pull(c, &out));
        assert_int_equal(out.status, LX_OK);
        assert_int_equal(rendered - of_engine, N);
        lx_buffer_fini(&out);
        free_completion(c);
    }
}

/* A reader that comes late gets everything in bounded bites. */
static void a_backlog_is_rendered_once(void **unused)
{
    (void)unused;
    lx_completion *c = completion_of(NULL);
    lx_answer *a = &c->choices[0].answer;
    lx_error err = {0};
    for (int32_t k = 0; k < N; k++)
        push(c, k);
    rendered = 0;
    for (int32_t told = 0; told < N; told += 5) {
        lx_json_choice json;
        assert_int_equal(lx_answer_read(a, 5, &err), LX_OK);
        assert_int_equal(lx_answer_read(a, 5, &err), LX_OK); /* there are 5 already */
        assert_int_equal(a->n_ready, N - told < 5 ? N - told : 5);
        assert_int_equal(a->behind, told + 5 < N);
        assert_int_equal(a->ended, told + 5 >= N);
        assert_int_equal(rendered, told + a->n_ready);
        lx_answer_take(a, a->n_ready, &json);
    }
    assert_true(a->room < N + 1);
    free_completion(c);
}

/* The text of tokens that end where the first stop string begins, or before; or all of it. */
static size_t expected_bytes(const lx_plan *plan, const lx_stops *stops, lx_buffer *whole)
{
    int32_t tokens[N];
    size_t ends[N], end = 0;
    for (int32_t k = 0; k < N; k++) {
        tokens[k] = token_at(k);
        rig_model()->task->render(plan, k, tokens, whole);
        ends[k] = whole->length;
    }
    size_t stop = lx_stops_find(stops, whole->data, whole->length);
    for (int32_t k = 0; k < N; k++)
        end = ends[k] <= stop ? ends[k] : end;
    return end;
}

/* Reads after every token, or once at the end; text that was handed out is never taken back. */
static void check_stop(const lx_stops *stops, bool late)
{
    lx_completion *c = completion_of(stops);
    lx_answer *a = &c->choices[0].answer;
    lx_error err = {0};
    lx_buffer whole, told;
    lx_buffer_init(&whole, 1 << 10);
    lx_buffer_init(&told, 1 << 10);
    size_t expected = expected_bytes(lx_job_plan(c->works[0].job), stops, &whole);
    for (int32_t k = 0; k < N; k++) {
        push(c, k);
        if (late && k < N - 1)
            continue;
        lx_json_choice json;
        assert_int_equal(lx_answer_read(a, INT32_MAX, &err), LX_OK);
        lx_answer_take(a, a->n_ready, &json);
        lx_buffer_append(&told, json.text, json.text_bytes);
        assert_true(told.length <= expected);
    }
    assert_true(a->ended);
    assert_int_equal(a->stopped, lx_stops_find(stops, whole.data, whole.length) < whole.length);
    assert_int_equal(told.length, expected);
    assert_memory_equal(told.data != NULL ? told.data : "", whole.data, expected);
    lx_buffer_fini(&whole);
    lx_buffer_fini(&told);
    free_completion(c);
}

/* Every piece of the text as a stop string, also one that begins or ends inside a character, and
   each piece with a wrong last byte. */
static void stop_strings_cut_alike(void **unused)
{
    (void)unused;
    lx_completion *c = completion_of(NULL);
    lx_buffer whole;
    lx_buffer_init(&whole, 1 << 10);
    lx_stops none = {.n = 0};
    (void)expected_bytes(lx_job_plan(c->works[0].job), &none, &whole);
    free_completion(c);
    for (size_t from = 0; from < whole.length; from++) {
        for (size_t n = 1; n <= 12 && from + n <= whole.length; n++) {
            lx_stops stops = {.n = 1, .stop = {{.bytes = n}}};
            memcpy(stops.stop[0].text, whole.data + from, n);
            check_stop(&stops, n % 2 == 0);
            stops.stop[0].text[n - 1] = '!';
            check_stop(&stops, n % 2 != 0);
        }
    }
    lx_buffer_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stream_renders_every_token_once),
                                       cmocka_unit_test(a_backlog_is_rendered_once),
                                       cmocka_unit_test(stop_strings_cut_alike)};
    int failed = rig_setup(NULL);
    if (failed != 0)
        return failed;
    prepare();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rig_teardown(NULL);
    return failed;
}
