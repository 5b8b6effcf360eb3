/* The classifier of drafts: learning, certainty, forgetting. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/philox.h"
#include "model/drafts/classifier.h"

enum { EXAMPLES = 6000, LAST = 1000 };

static void before_anything_is_learnt_all_classes_are_alike(void **state)
{
    lx_classifier c = {0};
    float x[LX_CLASSIFIER_INPUTS] = {1, 2, 3}, p[LX_CLASSIFIER_CLASSES];
    (void)state;
    lx_classifier_odds(&c, x, p);
    for (int32_t k = 0; k < LX_CLASSIFIER_CLASSES; k++)
        assert_true(fabsf(p[k] - 1.0f / LX_CLASSIFIER_CLASSES) < 1e-6f);
}

/* The class is the one of two inputs that is set alone: no line separates the classes. Three of
   four labels are true.
 */
static void it_learns_what_no_line_parts_and_how_sure_that_is(void **state)
{
    lx_classifier c = {0};
    double sure = 0, right = 0;
    (void)state;
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        float x[LX_CLASSIFIER_INPUTS] = {1}, p[LX_CLASSIFIER_CLASSES];
        x[1] = lx_uniform(1, i, 0, 0) < 0.5f;
        x[2] = lx_uniform(1, i, 1, 0) < 0.5f;
        int32_t class = (x[1] > 0) != (x[2] > 0);
        lx_classifier_odds(&c, x, p);
        if (i >= EXAMPLES - LAST) {
            right += p[class] > p[1 - class];
            sure += (double)p[class];
        }
        lx_classifier_learn(&c, x, lx_uniform(1, i, 2, 0) < 0.75f ? class : 1 - class);
    }
    assert_true(right > 0.99 * LAST);
    assert_true(fabs(sure / LAST - 0.75) < 0.08);
}

/* One class where input 1 is set, the other one elsewhere. */
static float odds_of_the_first(lx_classifier *c, int32_t lessons)
{
    float x[2][LX_CLASSIFIER_INPUTS] = {{1, 1}, {1, 0}}, p[LX_CLASSIFIER_CLASSES];
    for (int32_t i = 0; i < lessons; i++)
        lx_classifier_learn(c, x[i % 2], i % 2 == 0 ? 2 : 3);
    lx_classifier_odds(c, x[0], p);
    return p[2];
}

static void a_class_that_is_forgotten_is_learnt_anew(void **state)
{
    lx_classifier c = {0};
    (void)state;
    float known = odds_of_the_first(&c, 400);
    lx_classifier_forget(&c, 2);
    float forgotten = odds_of_the_first(&c, 0), again = odds_of_the_first(&c, 400);
    assert_true(known > 0.95f && forgotten < 0.9f && again > 0.95f);
}

/* For any tokens in any order, odds stay numbers that sum to 1. */
static void odds_stay_finite(void **state)
{
    lx_classifier c = {0};
    (void)state;
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        float x[LX_CLASSIFIER_INPUTS], p[LX_CLASSIFIER_CLASSES], sum = 0;
        for (uint32_t k = 0; k < LX_CLASSIFIER_INPUTS; k++)
            x[k] = 20 * (lx_uniform(2, i, k, 0) - 0.5f);
        lx_classifier_learn(&c, x, (int32_t)(i % LX_CLASSIFIER_CLASSES));
        lx_classifier_odds(&c, x, p);
        for (int32_t k = 0; k < LX_CLASSIFIER_CLASSES; k++) {
            assert_true(p[k] >= 0);
            sum += p[k];
        }
        assert_true(fabsf(sum - 1) < 1e-4f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_anything_is_learnt_all_classes_are_alike),
        cmocka_unit_test(it_learns_what_no_line_parts_and_how_sure_that_is),
        cmocka_unit_test(a_class_that_is_forgotten_is_learnt_anew),
        cmocka_unit_test(odds_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
