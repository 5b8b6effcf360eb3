/*
 * Guessers alone. A guesser that knows the number of a draw foresees random draws. Tokens that
 * rules force come first. The request decides how a row is drawn.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/philox.h"
#include "model/drafts/draft.h"
#include "model/tasks/image.h"

enum { SIDE = 16, VALUES = SIDE * SIDE, PICTURES = 60, LAST = 20, INK = 255 };

typedef struct bench {
    lx_model model;
    lx_plan *plan;
    lx_drafter *drafter;
} bench;

/* Nothing given, nothing known. */
static void start(bench *b)
{
    lx_error err = {0};
    *b = (bench){.model = {.task = &lx_image_task}};
    lx_config *c = &b->model.config;
    *lx_image_own(c) = (lx_image_config){.width = SIDE, .height = SIDE, .n_channels = 1};
    c->n_inputs = 1;
    c->n_values = c->head_size = 256;
    (void)snprintf(c->inputs[0].name, sizeof c->inputs[0].name, "token");
    c->inputs[0].size = 257;
    if (lx_plan_new(&b->model, &(lx_task_request){0}, &b->plan, &err) != LX_OK ||
        lx_drafter_new(&b->model, NULL, &b->drafter, &err) != LX_OK)
        fail_msg("%s", err.text);
    assert_string_equal(lx_drafter_name(b->drafter), "image_context");
}

static void stop(bench *b)
{
    lx_drafter_free(b->drafter);
    lx_plan_free(b->plan);
}

/* A model's draws: ink continues with probability one half and begins in a fifth of the cases. No
   ink is the first id and never the less likely one, so both orders draw alike. */
static int32_t drawn(const int32_t *tokens, int32_t n, lx_draw d)
{
    bool ink = n % SIDE > 0 && tokens[n - 1] == INK;
    float nothing = ink ? 0.5f : 0.8f;
    if (d.order == LX_DRAW_LIKELIEST)
        return ink ? INK : 0;
    return d.u < nothing ? 0 : INK;
}

/* The share of right guesses in the last pictures; the guesser knows u times `told`. */
static double share_of_right(lx_draw_order order, float told)
{
    bench b;
    int32_t tokens[VALUES], right = 0;
    lx_constraint none = {.forced = -1};
    start(&b);
    for (int32_t i = 0; i < PICTURES; i++) {
        for (int32_t n = 0; n < VALUES; n++) {
            lx_draw d = {order, lx_uniform(7, (uint32_t)i, (uint32_t)n, 0)};
            lx_guess_context at = {b.plan, tokens, n, {order, d.u * told}, NULL};
            lx_guess g = lx_drafter_guess(b.drafter, &at, &none);
            tokens[n] = drawn(tokens, n, d);
            right += i >= PICTURES - LAST && g.sure > 0 && g.token == tokens[n];
            lx_drafter_learn(b.drafter, &at, tokens[n]);
        }
    }
    stop(&b);
    return (double)right / (LAST * VALUES);
}

static void a_known_number_foresees_a_draw(void **state)
{
    (void)state;
    assert_true(share_of_right(LX_DRAW_BY_ID, 1) > 0.97);
    assert_true(share_of_right(LX_DRAW_BY_LOGIT, 1) > 0.97);
    assert_true(share_of_right(LX_DRAW_LIKELIEST, 1) > 0.97);
    double blind = share_of_right(LX_DRAW_BY_ID, 0);
    assert_true(blind > 0.5 && blind < 0.8); /* the likelier of two */
}

static void nothing_is_guessed_before_anything_was_seen(void **state)
{
    (void)state;
    bench b;
    lx_constraint none = {.forced = -1};
    start(&b);
    lx_guess_context at = {b.plan, NULL, 0, {LX_DRAW_BY_ID, 0.5f}, NULL};
    assert_true(lx_drafter_guess(b.drafter, &at, &none).sure <= 0);
    lx_drafter_learn(b.drafter, &at, 9);
    assert_int_equal(lx_drafter_guess(b.drafter, &at, &none).token, 9);
    assert_true(lx_drafter_guess(b.drafter, &at, &none).sure > 0);
    stop(&b);
}

/* The number of right guesses shows the learning: no owner profits from another's answers. */
static void lessons_belong_to_their_owner(void **state)
{
    (void)state;
    static const char owners[LX_MOST_OWNERS + 1];
    bench b;
    lx_constraint none = {.forced = -1};
    start(&b);
    lx_guess_context at = {b.plan, NULL, 0, {LX_DRAW_BY_ID, 0.5f}, &owners[0]};
    lx_drafter_learn(b.drafter, &at, 9);
    for (int32_t i = 1; i <= LX_MOST_OWNERS; i++) {
        at.owner = &owners[i];
        assert_true(lx_drafter_guess(b.drafter, &at, &none).sure <= 0);
        if (i < LX_MOST_OWNERS) /* the first one has a place as long as there is one */
            at.owner = &owners[0];
        assert_int_equal(lx_drafter_guess(b.drafter, &at, &none).sure > 0, i < LX_MOST_OWNERS);
    }
    at.owner = &owners[1]; /* unused for longest, it gave way: its place has none of its lessons */
    lx_drafter_learn(b.drafter, &at, 7);
    at.owner = &owners[2];
    assert_true(lx_drafter_guess(b.drafter, &at, &none).sure <= 0);
    stop(&b);
}

/* Guesses that are this sure, and how many of them were right. */
typedef struct bin {
    double sure, right, n;
} bin;

/* A guess with a stated certainty is right in that percentage of cases, within ten points. The
   draws here cannot be foreseen, so the larger half of the guesses is worth little. */
static void a_guess_is_as_sure_as_it_says(void **state)
{
    bench b;
    bin bins[4] = {{0}};
    int32_t tokens[VALUES];
    lx_constraint none = {.forced = -1};
    (void)state;
    start(&b);
    for (int32_t i = 0; i < PICTURES; i++) {
        for (int32_t n = 0; n < VALUES; n++) {
            lx_draw d = {LX_DRAW_BY_ID, lx_uniform(8, (uint32_t)i, (uint32_t)n, 0)};
            lx_guess_context at = {b.plan, tokens, n, {LX_DRAW_BY_ID, 0.5f}, NULL};
            lx_guess g = lx_drafter_guess(b.drafter, &at, &none);
            bin *into = &bins[g.sure < 1 ? (int32_t)(g.sure * 4) : 3];
            tokens[n] = drawn(tokens, n, d);
            *into = i < PICTURES - LAST ? *into
                                        : (bin){into->sure + (double)g.sure,
                                                into->right + (g.token == tokens[n]), into->n + 1};
            lx_drafter_learn(b.drafter, &at, tokens[n]);
        }
    }
    assert_true(bins[2].n + bins[3].n > LAST * VALUES / 2);
    for (int32_t i = 0; i < 4; i++) {
        if (bins[i].n > 200 && fabs(bins[i].right - bins[i].sure) > bins[i].n / 10)
            fail_msg("of %.0f guesses %.0f were right, and %.0f should be", bins[i].n,
                     bins[i].right, bins[i].sure);
    }
    stop(&b);
}

/* A value that pictures get used to later is guessed as those before were. */
static void a_value_that_becomes_frequent_is_guessed(void **state)
{
    (void)state;
    bench b;
    lx_constraint none = {.forced = -1};
    int32_t tokens[VALUES], right = 0;
    start(&b);
    for (int32_t i = 0; i < PICTURES; i++) {
        for (int32_t n = 0; n < VALUES; n++) {
            lx_guess_context at = {b.plan, tokens, n, {LX_DRAW_LIKELIEST, 0}, NULL};
            right += i == PICTURES - 1 && lx_drafter_guess(b.drafter, &at, &none).token == 200;
            tokens[n] = i < 2 ? n * 37 % 100 : 200;
            lx_drafter_learn(b.drafter, &at, tokens[n]);
        }
    }
    assert_true(right > VALUES * 9 / 10);
    stop(&b);
}

static void rules_go_first(void **state)
{
    (void)state;
    bench b;
    start(&b);
    lx_guess_context at = {b.plan, NULL, 0, {LX_DRAW_BY_ID, 0.5f}, NULL};
    lx_drafter_learn(b.drafter, &at, 9);
    lx_guess forced = lx_drafter_guess(b.drafter, &at, &(lx_constraint){.forced = 3});
    assert_int_equal(forced.token, 3);
    assert_true(forced.sure >= 1);
    lx_constraint banned = {.forced = -1, .n_banned = 1};
    banned.banned[0] = 9;
    assert_true(lx_drafter_guess(b.drafter, &at, &banned).sure <= 0);
    stop(&b);
}

static void a_draw_follows_from_what_is_asked(void **state)
{
    (void)state;
    lx_model softmax = {0}, mixture = {.config.head_kind = LX_HEAD_LOGISTIC_MIXTURE};
    lx_sampling s = {.seed = 3, .sample = 1, .step = 4, .temperature = 1, .top_p = 1};
    float first = lx_uniform(3, 1, 4, 0), second = lx_uniform(3, 1, 4, 1);
    lx_draw d = lx_draw_of(&softmax, &s);
    assert_true(d.order == LX_DRAW_BY_ID && d.u >= first && d.u <= first);
    d = lx_draw_of(&mixture, &s);
    assert_true(d.order == LX_DRAW_BY_ID && d.u >= second && d.u <= second);
    lx_sampling cuts[] = {s, s, s};
    cuts[0].top_k = 5;
    cuts[1].top_p = 0.9f;
    cuts[2].min_p = 0.1f;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(lx_draw_of(&softmax, &cuts[i]).order, LX_DRAW_BY_LOGIT);
        assert_int_equal(lx_draw_of(&mixture, &cuts[i]).order, LX_DRAW_BY_ID);
        cuts[i].temperature = 0;
        assert_int_equal(lx_draw_of(&softmax, &cuts[i]).order, LX_DRAW_LIKELIEST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_number_foresees_a_draw),
        cmocka_unit_test(nothing_is_guessed_before_anything_was_seen),
        cmocka_unit_test(lessons_belong_to_their_owner),
        cmocka_unit_test(a_guess_is_as_sure_as_it_says),
        cmocka_unit_test(a_value_that_becomes_frequent_is_guessed),
        cmocka_unit_test(rules_go_first),
        cmocka_unit_test(a_draw_follows_from_what_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
