/* Penalties beside their definition, counted anew in double for every token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/engine/penalties.h"

enum { N_IDS = 40, N_TOKENS = 60, N_SAMPLES = 3 };

static const lx_bias own[] = {{0, 1.5f}, {7, -100.0f}, {39, 0.25f}};
enum { N_OWN = sizeof own / sizeof *own };

static double own_bias(int32_t id)
{
    for (int32_t k = 0; k < N_OWN; k++) {
        if (own[k].id == id)
            return (double)own[k].add;
    }
    return 0;
}

static double listed(const lx_bias *list, int32_t n, int32_t id)
{
    for (int32_t k = 0; k < n; k++) {
        if (list[k].id == id)
            return (double)list[k].add;
    }
    return 0;
}

static void check(const lx_penalties *p, int32_t i, const int32_t *tokens, int32_t n_tokens,
                  double frequency, double presence)
{
    int32_t n = 0;
    const lx_bias *list = lx_penalties_biases(p, i, &n);
    for (int32_t k = 1; k < n; k++)
        assert_true(list[k - 1].id < list[k].id);
    for (int32_t id = 0; id < N_IDS; id++) {
        int32_t count = 0;
        for (int32_t t = 0; t < n_tokens; t++)
            count += tokens[t] == id;
        double want = own_bias(id) - frequency * count - presence * (count > 0);
        assert_true(fabs(listed(list, n, id) - want) <= 1e-6 * fmax(1, fabs(want)));
    }
}

static void counts_as_defined(void **state)
{
    (void)state;
    static const float cases[][2] = {{0.5f, 0}, {0, 1.25f}, {-2, 2}, {2, -0.125f}};
    uint64_t random = 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        lx_penalties *p =
            lx_penalties_new(N_SAMPLES, N_TOKENS, cases[c][0], cases[c][1], own, N_OWN);
        assert_non_null(p);
        int32_t tokens[N_SAMPLES][N_TOKENS];
        for (int32_t t = 0; t < N_TOKENS; t++) {
            for (int32_t i = 0; i < N_SAMPLES; i++) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
                tokens[i][t] = (int32_t)(random >> 33) % (i == 0 ? N_IDS : 5 + i);
                lx_penalties_count(p, i, tokens[i][t]);
                check(p, i, tokens[i], t + 1, (double)cases[c][0], (double)cases[c][1]);
            }
        }
        lx_penalties_free(p);
    }
}

static void fills_its_room(void **state)
{
    (void)state;
    lx_penalties *p = lx_penalties_new(1, N_IDS, 1, 0, own, N_OWN);
    int32_t n = 0;
    assert_non_null(p);
    for (int32_t id = N_IDS; id-- > 0;)
        lx_penalties_count(p, 0, id + 100);
    assert_int_equal(lx_penalties_biases(p, 0, &n)[N_OWN].id, 100);
    assert_int_equal(n, N_IDS + N_OWN);
    lx_penalties_free(p);
}

static void stays_within_what_a_bias_may_be(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    int32_t n = 0;
    lx_penalties *down = lx_penalties_new(1, MANY, 2, 0, NULL, 0);
    lx_penalties *up = lx_penalties_new(1, MANY, -2, 0, NULL, 0);
    assert_true(down != NULL && up != NULL);
    for (int32_t t = 0; t < MANY; t++) {
        lx_penalties_count(down, 0, 3);
        lx_penalties_count(up, 0, 3);
    }
    assert_true(lx_penalties_biases(down, 0, &n)->add == -LX_MAX_BIAS && n == 1);
    assert_true(lx_penalties_biases(up, 0, &n)->add == LX_MAX_BIAS && n == 1);
    lx_penalties_free(down);
    lx_penalties_free(up);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_as_defined),
        cmocka_unit_test(fills_its_room),
        cmocka_unit_test(stays_within_what_a_bias_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
