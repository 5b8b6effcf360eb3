/*
 * Guessed tokens give the bytes of a run without guesses, for every kind of request, alone and
 * among others, with cancellations and moving states. The guessers are always right, always wrong,
 * or sometimes right. Right guesses need fewer steps, and wrong ones no more steps. States that are
 * kept in the middle equal those of a run without guesses.
 *
 *   test_engine_drafts [BACKEND ...]    without a name: cpu, then reference (not for sanitizers)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/drafts/draft.h"
#include "model/tasks/image.h"
#include "server/engine/drafts.h"
#include "tests/support/engine_subject.h"

enum { PIXELS = 48 };

/* --- guessers --- */

/* The token after these in a known answer; -1: no answer begins with them. The plan does not
   distinguish two answers with equal beginnings. */
static int32_t look_up(const lx_guess_context *c)
{
    for (int32_t i = 0; i < subject.n_known; i++) {
        const lx_job_params *p = lx_job_get_params(subject.known[i]);
        for (int32_t k = 0; k < p->n; k++) {
            const int32_t *tokens;
            int32_t n = lx_job_tokens(subject.known[i], k, &tokens, NULL);
            if (n > c->n && memcmp(tokens, c->tokens, (size_t)c->n * sizeof *tokens) == 0)
                return tokens[c->n];
        }
    }
    return -1;
}

static lx_guess right(const void *memory, const lx_guess_context *c)
{
    int32_t token = look_up(c);
    (void)memory;
    return (lx_guess){token, token >= 0 ? 0.999f : 0};
}

static lx_guess wrong(const void *memory, const lx_guess_context *c)
{
    int32_t token = look_up(c);
    (void)memory;
    return (lx_guess){(token + 1) % c->plan->model->config.n_values, token >= 0 ? 0.999f : 0};
}

/* Right but for every third or so. */
static lx_guess mixed(const void *memory, const lx_guess_context *c)
{
    uint32_t x = (uint32_t)c->n * 2654435761u;
    return x >> 16 & 3 ? right(memory, c) : wrong(memory, c);
}

static void learn_nothing(void *memory, const lx_guess_context *c, int32_t token)
{
    (void)memory, (void)c, (void)token;
}

static const lx_guesser guessers[] = {
    {.name = "right", .guess = right, .learn = learn_nothing},
    {.name = "wrong", .guess = wrong, .learn = learn_nothing},
    {.name = "mixed", .guess = mixed, .learn = learn_nothing},
};
enum { RIGHT, WRONG, MIXED, GUESSERS };

static int32_t n_learnt; /* by the engine's thread, read once it has stopped */

static void count_lesson(void *memory, const lx_guess_context *c, int32_t token)
{
    (void)memory, (void)c, (void)token;
    n_learnt++;
}

static lx_guess guess_nothing(const void *memory, const lx_guess_context *c)
{
    (void)memory, (void)c;
    return (lx_guess){0, 0};
}

/* --- engines --- */

static rig start(int32_t n_slots, int32_t draft, const lx_guesser *guesser)
{
    rig_options o = subject_options(n_slots);
    o.max_tokens = n_slots + 80;
    o.draft = draft;
    o.guesser = guesser;
    return rig_start(o);
}

static void compute_known(void)
{
    rig r = start(4, 0, NULL);
    subject_learn(&r, SUBJECT_REQUESTS);
    assert_int_equal(atomic_load(&r.metrics->drafted_tokens), 0);
    rig_stop(&r);
}

/* A picture of seed 3 alone. */
static void compute_one(void)
{
    rig r = start(1, 0, NULL);
    subject.known[0] = rig_submit(&r, &(rig_request){.model = subject.pictures, .seed = 3});
    lx_job_wait(subject.known[0]);
    subject.n_known = 1;
    rig_stop(&r);
}

/* --- the same bytes --- */

static void assert_same_together(int32_t n_slots, const lx_guesser *guesser)
{
    rig r = start(n_slots, 7, guesser);
    subject_assert_same_together(&r);
    assert_true(atomic_load(&r.metrics->drafted_tokens) > 0);
    rig_stop(&r);
}

/* A sanitizer does not compare bytes, so right and wrong guesses take turns: simulated kernels are
   slow. */
static int32_t first_guesser(void)
{
    return SANITIZED && subject_is_cuda() ? MIXED : 0;
}

static void same_bytes(bool images)
{
    subject.of_pictures = images;
    compute_known();
    for (int32_t i = first_guesser(); i < GUESSERS; i++) {
        assert_same_together(16, &guessers[i]);
        subject.move_bytes = 1;
        assert_same_together(2, &guessers[i]);
        assert_same_together(1, &guessers[i]);
        subject.move_bytes = 0;
    }
    subject_forget();
}

static void lines_have_the_same_bytes(void **state)
{
    (void)state;
    same_bytes(false);
}

static void pictures_have_the_same_bytes(void **state)
{
    (void)state;
    same_bytes(true);
}

/* --- steps --- */

static int64_t steps_of(const lx_guesser *guesser, bool no_draft, int64_t *drafted,
                        int64_t *accepted)
{
    rig r = start(1, 7, guesser);
    rig_request q = {.model = subject.pictures, .seed = 3, .no_draft = no_draft};
    int64_t before = gate_steps();
    lx_job *job = rig_submit(&r, &q);
    lx_job_wait(job);
    int64_t n = gate_steps() - before;
    lx_job_drafted(job, drafted, accepted);
    assert_int_equal(atomic_load(&r.metrics->drafted_tokens), *drafted);
    assert_int_equal(atomic_load(&r.metrics->accepted_tokens), *accepted);
    rig_expect(job, LX_OK);
    rig_stop(&r);
    return n;
}

static void right_guesses_save_steps_and_wrong_ones_cost_none(void **state)
{
    int64_t drafted = 0, accepted = 0;
    (void)state;
    subject.of_pictures = true;
    compute_one();
    assert_int_equal(steps_of(&guessers[RIGHT], false, &drafted, &accepted), 1 + 6);
    assert_int_equal(accepted, drafted);
    assert_int_equal(drafted, PIXELS - 7); /* the first token comes of the prompt's step */
    assert_int_equal(steps_of(&guessers[WRONG], false, &drafted, &accepted), PIXELS);
    assert_int_equal(accepted, 0);
    assert_in_range(drafted, PIXELS - 2, PIXELS); /* a wrong guess has no known continuation */
    assert_true(steps_of(&guessers[MIXED], false, &drafted, &accepted) < PIXELS);
    assert_in_range(accepted, 1, drafted - 1);
    assert_int_equal(steps_of(&guessers[RIGHT], true, &drafted, &accepted), PIXELS);
    assert_int_equal(drafted, 0);
    subject_forget();
}

/* A first guess. */
static bool pays(const lx_step_line *line, int32_t streams, double sure)
{
    return lx_draft_pays(line, (double)streams, streams, &(lx_draft_row){0, 1, sure});
}

/* The time of a step decides the worth of a row. */
static void a_row_pays_by_its_time(void **state)
{
    lx_step_cost c = {0};
    (void)state;
    lx_step_line line = lx_step_cost_line(&c);
    assert_true(pays(&line, 1, 0.9));
    assert_false(pays(&line, 1, 0.1));
    for (int i = 0; i < 100; i++)
        lx_step_cost_observe(&c, 1 + i % 8, 1000 + 250 * (1 + i % 8));
    line = lx_step_cost_line(&c);
    assert_true(line.base > 999 && line.base < 1001 && line.slope > 249 && line.slope < 251);
    assert_true(pays(&line, 1, 0.35)); /* 1.5 rows of 250 of 1,250 */
    assert_false(pays(&line, 1, 0.25));
    assert_false(pays(&line, 256, 1));
    lx_draft_row fifth = {4, 0.9, 0.5}; /* if it is wrong, four rows come again */
    assert_false(lx_draft_pays(&line, 4.5, 5, &fifth));
    fifth.sure = 0.95;
    assert_true(lx_draft_pays(&line, 2, 2, &fifth));
    /* Steps of one size show nothing of a row's time: the last line fades. */
    for (int i = 0; i < 3000; i++)
        lx_step_cost_observe(&c, 256, 65000);
    line = lx_step_cost_line(&c);
    assert_false(pays(&line, 256, 1));
    lx_step_cost falling = {0};
    for (int i = 0; i < 100; i++) /* as on a busy machine */
        lx_step_cost_observe(&falling, 1 + i % 8, 1000 - 50 * (i % 8));
    line = lx_step_cost_line(&falling);
    assert_true(line.slope > 0 && line.base >= 0);
}

/* --- states in the middle --- */

/* The state after so many tokens, without guesses. */
static lx_job *state_after(const rig_request *q, int32_t n_tokens)
{
    rig r = start(1, 0, NULL);
    rig_request part = *q;
    part.suspendable = false;
    part.keep_state = true;
    part.max_new = n_tokens;
    lx_job *job = rig_submit(&r, &part);
    lx_job_wait(job);
    rig_stop(&r);
    return job;
}

static void assert_same_state(const lx_job *got, const lx_job *want)
{
    int32_t rows = 0, want_rows = 0;
    const float *s = lx_job_state(got, 0, &rows), *t = lx_job_state(want, 0, &want_rows);
    assert_int_equal(rows, want_rows);
    int64_t n = (subject.of_pictures ? subject.pictures : rig_model())->state.fixed_floats;
    assert_memory_equal(s, t, (size_t)n * sizeof *s);
}

/* Where the job was suspended its state is that of a run without guesses, and the rest is the rest.
 */
static void assert_goes_on(rig *r, const lx_job *job, const rig_request *q)
{
    rig_request rest = *q;
    assert_answer_begins(job, subject.known[0]);
    rest.start.state = lx_job_state(job, 0, &rest.start.rows);
    rest.start.n_tokens = lx_job_tokens(job, 0, &rest.start.tokens, NULL);
    lx_job *want = state_after(q, rest.start.n_tokens);
    assert_same_state(job, want);
    rig_expect(want, LX_OK);
    lx_job *end = rig_submit(r, &rest);
    lx_job_wait(end);
    const int32_t *got, *all;
    assert_int_equal(lx_job_tokens(end, 0, &got, NULL), PIXELS);
    (void)lx_job_tokens(subject.known[0], 0, &all, NULL);
    assert_memory_equal(got, all, PIXELS * sizeof *got);
    rig_expect(end, LX_OK);
}

static void suspended_jobs_go_on(const lx_guesser *guesser)
{
    rig_request q = {.model = subject.pictures, .seed = 3, .suspendable = true};
    int32_t steps = guesser == &guessers[RIGHT] ? 7 : 12; /* of the whole picture: 7, or more */
    for (int32_t n = 1; n + 1 < steps; n++) {
        rig first = start(2, 7, guesser), second = start(2, 7, guesser);
        lx_job *job = subject_suspended(&first, &q, n);
        assert_goes_on(&second, job, &q);
        rig_expect(job, LX_ERR_UNAVAILABLE);
        rig_assert_empty(&first);
        rig_stop(&first);
        rig_stop(&second);
    }
}

static void suspended_jobs_go_on_where_they_were(void **state)
{
    (void)state;
    subject.of_pictures = true;
    compute_one();
    for (int32_t i = first_guesser(); i < GUESSERS; i++) {
        for (subject.move_bytes = 0; subject.move_bytes < 2; subject.move_bytes++)
            suspended_jobs_go_on(&guessers[i]);
    }
    subject.move_bytes = 0;
    subject_forget();
}

/* A stop string may end a sample between guesses, so that late rows are left. An engine that starts
   steps ahead computes them once. */
static void states_at_the_end_are_the_same_with_steps_ahead(void **state)
{
    (void)state;
    subject.of_pictures = false;
    for (int32_t i = 0; i < SUBJECT_REQUESTS; i++) {
        rig_request q = {
            .line = request_lines[i % 5], .seed = (uint64_t)i, .stops = &request_stops};
        lx_job *unsent = rig_job(&q, NULL, NULL);
        q.keep_state = true;
        q.max_new = lx_job_get_params(unsent)->max_new;
        lx_job_unref(unsent);
        subject.known[0] = state_after(&q, q.max_new);
        subject.n_known = 1;
        rig_options o = subject_options(1);
        o.max_tokens = 81;
        o.draft = 7;
        o.guesser = &guessers[MIXED];
        o.ahead = 2;
        rig r = rig_start(o);
        lx_job *job = rig_submit(&r, &q);
        lx_job_wait(job);
        assert_same_state(job, subject.known[0]);
        rig_expect(job, LX_OK);
        rig_stop(&r);
        subject_forget();
    }
}

/* --- failures --- */

static void a_failed_step_ends_its_jobs_and_no_other(void **state)
{
    (void)state;
    subject.of_pictures = true;
    compute_known();
    rig r = start(2, 7, &guessers[MIXED]);
    subject_assert_failed_step_ends_its_jobs(&r, 4);
    lx_job *again = rig_submit(&r, &(rig_request){.model = subject.pictures, .seed = 3});
    rig_expect(again, LX_OK);
    rig_stop(&r);
    subject_forget();
}

/* --- the guessers that are served --- */

/* A step of many streams teaches no more than a step of sixteen, because learning takes time. */
static void a_step_teaches_a_few_tokens(void **state)
{
    static const lx_guesser counting = {
        .name = "counting", .guess = guess_nothing, .learn = count_lesson};
    (void)state;
    for (int32_t n = 10; n <= 20; n += 10) {
        n_learnt = 0;
        rig r = start(n, 7, &counting);
        lx_job *job = rig_submit(&r, &(rig_request){.model = subject.pictures, .seed = 3, .n = n});
        rig_expect(job, LX_OK);
        rig_stop(&r);
        assert_int_equal(n_learnt, PIXELS * (n < 16 ? n : 16));
    }
}

/* A picture of stripes is learnt within a few rows of it. */
static void image_context_learns_what_surrounds_a_value(void **state)
{
    lx_drafter *d = NULL;
    lx_plan *plan = NULL;
    lx_task_request q = {0};
    lx_constraint rule = {.forced = -1};
    int32_t tokens[PIXELS], hits = 0;
    (void)state;
    assert_int_equal(lx_plan_new(subject.pictures, &q, &plan, NULL), LX_OK);
    assert_int_equal(lx_drafter_new(subject.pictures, NULL, &d, NULL), LX_OK);
    assert_string_equal(lx_drafter_name(d), "image_context");
    for (int32_t round = 0; round < 6; round++) {
        hits = 0;
        for (int32_t n = 0; n < PIXELS; n++) {
            lx_guess_context at = {.plan = plan, .tokens = tokens, .n = n};
            lx_guess g = lx_drafter_guess(d, &at, &rule);
            assert_true(round > 0 || n > 0 || g.sure == 0);
            tokens[n] = n / lx_image_of(&subject.pictures->config)->width % 2 == 0 ? 0 : 250;
            hits += g.sure > 0.5f && g.token == tokens[n];
            lx_drafter_learn(d, &at, tokens[n]);
        }
    }
    assert_true(hits > PIXELS * 3 / 4);
    lx_drafter_free(d);
    lx_plan_free(plan);
}

static void lookup_finds_what_came_before(void **state)
{
    static const int32_t tokens[] = {20, 21, 22, 23, 24, 20, 21, 22};
    lx_drafter *d = NULL;
    lx_plan *plan = NULL;
    lx_task_request q = {.text = "海上明月", .text_bytes = 12, .rules = true};
    lx_constraint rule = {.forced = -1};
    (void)state;
    assert_int_equal(lx_plan_new(rig_model(), &q, &plan, NULL), LX_OK);
    assert_int_equal(lx_drafter_new(rig_model(), NULL, &d, NULL), LX_OK);
    assert_string_equal(lx_drafter_name(d), "lookup");
    lx_guess_context at = {.plan = plan, .tokens = tokens, .n = 8};
    lx_guess g = lx_drafter_guess(d, &at, &rule);
    assert_true(g.token == 23 && g.sure > 0);
    float before = g.sure;
    for (int32_t i = 0; i < 20; i++)
        lx_drafter_learn(d, &at, 23);
    assert_true(lx_drafter_guess(d, &at, &rule).sure > before);
    for (int32_t i = 0; i < 200; i++)
        lx_drafter_learn(d, &at, 30);
    assert_true(lx_drafter_guess(d, &at, &rule).sure < before);
    rule.n_banned = 1;
    rule.banned[0] = 23;
    assert_true(lx_drafter_guess(d, &at, &rule).sure == 0);
    rule.n_banned = 0;
    at.n = 5;
    assert_true(lx_drafter_guess(d, &at, &rule).sure == 0);
    lx_drafter_free(d);
    lx_plan_free(plan);
}

static int run(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_the_same_bytes),
        cmocka_unit_test(pictures_have_the_same_bytes),
        cmocka_unit_test(right_guesses_save_steps_and_wrong_ones_cost_none),
        cmocka_unit_test(a_row_pays_by_its_time),
        cmocka_unit_test(suspended_jobs_go_on_where_they_were),
        cmocka_unit_test(states_at_the_end_are_the_same_with_steps_ahead),
        cmocka_unit_test(a_failed_step_ends_its_jobs_and_no_other),
        cmocka_unit_test(a_step_teaches_a_few_tokens),
        cmocka_unit_test(image_context_learns_what_surrounds_a_value),
        cmocka_unit_test(lookup_finds_what_came_before),
    };
    return cmocka_run_group_tests_name(name, tests, subject_setup, subject_teardown);
}

int main(int argc, char **argv)
{
    return subject_main(argc, argv, run);
}
