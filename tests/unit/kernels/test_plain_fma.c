/* The fused multiply-add of plain lanes has the bits of the C library's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/v16_plain.h"
#include "tests/support/scratch.h"

enum { ROUNDS = 200000 };

static uint64_t seed = 5;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(scratch_random(&seed) >> 32) % below;
}

static float any_bits(void)
{
    return v16_of_bits((uint32_t)(scratch_random(&seed) >> 32));
}

/* Any NaN is equal to any other. */
static int same(float a, float b)
{
    return (isnan(a) && isnan(b)) || v16_bits(a) == v16_bits(b);
}

static void expect_equal(const v16 *a, const v16 *b, const v16 *c)
{
    v16 got = v16_fma(*a, *b, *c);
    for (int i = 0; i < 16; i++) {
        float want = fmaf(a->f[i], b->f[i], c->f[i]);
        if (!same(got.f[i], want))
            fail_msg("%a * %a + %a is %a, not %a", (double)a->f[i], (double)b->f[i],
                     (double)c->f[i], (double)got.f[i], (double)want);
        assert_true(same(v16_one_fma(a->f[i], b->f[i], c->f[i]), want));
    }
}

/* Denormal, infinite and no numbers are among them. */
static void test_of_any_bits(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        v16 a, b, c;
        for (int i = 0; i < 16; i++) {
            a.f[i] = any_bits();
            b.f[i] = any_bits();
            c.f[i] = any_bits();
        }
        expect_equal(&a, &b, &c);
    }
}

/* A product of half a unit in c's last place, less an amount too small for a sum in double. That
 * sum is a midpoint, and the exact sum lies next to it. */
static void beside_a_midpoint(float *a, float *b, float *c)
{
    int e;
    *c = any_bits();
    if (!isfinite(*c) || *c == 0)
        *c = 1.5f;
    frexpf(*c, &e);
    int unit = e - 24 < -149 ? -149 : e - 24, at = unit - 1, k = 15 + (int)draw(9);
    *a = ldexpf(1 + ldexpf(1, -k), at / 2);
    *b = ldexpf(1 - ldexpf(1, -k), at - at / 2);
    if (draw(2) == 0)
        *a = -*a;
}

static void test_beside_midpoints(void **state)
{
    (void)state;
    int differ = 0;
    for (int round = 0; round < ROUNDS; round++) {
        v16 a, b, c;
        for (int i = 0; i < 16; i++) { /* few, so that they are alone among their lanes */
            if (draw(16) == 0) {
                beside_a_midpoint(&a.f[i], &b.f[i], &c.f[i]);
            } else {
                a.f[i] = (float)draw(1000) / 7;
                b.f[i] = (float)draw(1000) / 7;
                c.f[i] = (float)draw(1000) / 7;
            }
            double twice = (double)a.f[i] * (double)b.f[i] + (double)c.f[i];
            differ += (float)twice != fmaf(a.f[i], b.f[i], c.f[i]);
        }
        expect_equal(&a, &b, &c);
    }
    assert_true(differ > ROUNDS / 8); /* without such values the test shows nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_any_bits),
        cmocka_unit_test(test_beside_midpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
