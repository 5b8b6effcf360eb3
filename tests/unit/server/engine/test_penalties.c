/* Penalties compared with their definition, counted anew in double for every token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/engine/penalties.h"

enum { N_IDS = 40, N_TOKENS = 60, N_SAMPLES = 3 };

static const lx_bias own[] = {{0, 1.5f, 0}, {7, -100.0f, 0}, {39, 0.25f, 0}};
enum { N_OWN = sizeof own / sizeof *own };
static const int32_t prompt[] = {7, 12, 7, 38, 12};
enum { N_PROMPT = sizeof prompt / sizeof *prompt };

static double own_bias(int32_t id)
{
    for (int32_t k = 0; k < N_OWN; k++) {
        if (own[k].id == id)
            return (double)own[k].add;
    }
    return 0;
}

static lx_bias listed(const lx_bias *list, int32_t n, int32_t id)
{
    for (int32_t k = 0; k < n; k++) {
        if (list[k].id == id)
            return list[k];
    }
    return (lx_bias){.id = id};
}

static bool has(const int32_t *list, int32_t n, int32_t id)
{
    int32_t k = 0;
    while (k < n && list[k] != id)
        k++;
    return k < n;
}

static void check(const lx_penalties *p, int32_t i, const int32_t *tokens, int32_t n_tokens,
                  const lx_penalties_params *params)
{
    int32_t n = 0;
    const lx_bias *list = lx_penalties_biases(p, i, &n);
    for (int32_t k = 1; k < n; k++)
        assert_true(list[k - 1].id < list[k].id);
    for (int32_t id = 0; id < N_IDS; id++) {
        int32_t count = 0;
        for (int32_t t = 0; t < n_tokens; t++)
            count += tokens[t] == id;
        double want = own_bias(id) - (double)params->frequency * count -
                      (double)params->presence * (count > 0);
        bool repeats = count > 0 || has(prompt, N_PROMPT, id);
        lx_bias b = listed(list, n, id);
        assert_true(fabs((double)b.add - want) <= 1e-6 * fmax(1, fabs(want)));
        float divisor = params->repetition != 1 && repeats ? params->repetition : 0;
        assert_true(b.divisor == divisor);
    }
}

static void counts_as_defined(void **state)
{
    (void)state;
    static const float cases[][3] = {{0.5f, 0, 1},    {0, 1.25f, 1}, {-2, 2, 1.5f},
                                     {2, -0.125f, 1}, {0, 0, 0.75f}, {0.5f, 0.25f, 2}};
    uint64_t random = 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const lx_penalties_params params = {.n = N_SAMPLES,
                                            .max_new = N_TOKENS,
                                            .frequency = cases[c][0],
                                            .presence = cases[c][1],
                                            .repetition = cases[c][2],
                                            .biases = own,
                                            .n_biases = N_OWN,
                                            .prompt = prompt,
                                            .n_prompt = N_PROMPT};
        lx_penalties *p = lx_penalties_new(&params);
        assert_non_null(p);
        int32_t tokens[N_SAMPLES][N_TOKENS];
        for (int32_t t = 0; t < N_TOKENS; t++) {
            for (int32_t i = 0; i < N_SAMPLES; i++) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
                tokens[i][t] = (int32_t)(random >> 33) % (i == 0 ? N_IDS : 5 + i);
                lx_penalties_count(p, i, tokens[i][t]);
                check(p, i, tokens[i], t + 1, &params);
            }
        }
        lx_penalties_free(p);
    }
}

static void fills_its_room(void **state)
{
    (void)state;
    lx_penalties *p = lx_penalties_new(&(lx_penalties_params){.n = 1,
                                                              .max_new = N_IDS,
                                                              .repetition = 2,
                                                              .biases = own,
                                                              .n_biases = N_OWN,
                                                              .prompt = prompt,
                                                              .n_prompt = N_PROMPT});
    int32_t n = 0;
    assert_non_null(p);
    for (int32_t id = N_IDS; id-- > 0;)
        lx_penalties_count(p, 0, id + 100);
    assert_int_equal(lx_penalties_biases(p, 0, &n)[N_OWN + 2].id, 100); /* 12, 38 of the prompt */
    assert_int_equal(n, N_IDS + N_OWN + 2);
    lx_penalties_free(p);
}

static void stays_within_what_a_bias_may_be(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    int32_t n = 0;
    lx_penalties_params params = {.n = 1, .max_new = MANY, .frequency = 2, .repetition = 1};
    lx_penalties *down = lx_penalties_new(&params);
    params.frequency = -2;
    lx_penalties *up = lx_penalties_new(&params);
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
