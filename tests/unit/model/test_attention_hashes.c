/*
 * Attention by buckets of hashes against its equations (model/mixers/lsh.c): whole models, see
 * tests/support/whole_model.h. No hash is so close to another one that rounding could decide.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/whole_model.h"

enum { KEY = 5, VALUE = 7, KEYS = HEADS * KEY, VALUES = HEADS * VALUE };
enum { ROUNDS = 3, BUCKETS = 6, MOST = 4 };

static bool by_key; /* whether logits are divided by sqrt(KEY) */

static int32_t bucket_of(const lx_model *m, int32_t round, const double *qk)
{
    double largest = -INFINITY, second = -INFINITY;
    int32_t best = -1;
    for (int32_t b = 0; b < BUCKETS; b++) {
        double sum = 0;
        int32_t column = b % (BUCKETS / 2);
        for (int32_t d = 0; d < KEY; d++)
            sum += qk[d] * whole_at(m, 0, "attn.hashes", "",
                                    ((int64_t)round * KEY + d) * (BUCKETS / 2) + column);
        sum = b < BUCKETS / 2 ? sum : -sum;
        second = fmax(second, fmin(sum, largest));
        best = sum > largest ? b : best;
        largest = fmax(largest, sum);
    }
    assert_true(largest - second > 1e-5);
    return best;
}

/* qk_v: rows of qk and v; a token weighs the last MOST before it of its bucket, in every round. */
static void attend(const lx_model *m, rows qk_v, int32_t i, int32_t h, double *y)
{
    const double *q = qk_v[i] + h * KEY;
    double sum = 0, scale = by_key ? sqrt(KEY) : 1;
    memset(y, 0, VALUE * sizeof *y);
    for (int32_t round = 0; round < ROUNDS; round++) {
        int32_t bucket = bucket_of(m, round, q), seen = 0;
        for (int32_t j = i - 1; j >= 0 && seen < MOST; j--) {
            const double *k = qk_v[j] + h * KEY;
            if (bucket_of(m, round, k) != bucket)
                continue;
            double w = exp(whole_dot(q, k, KEY) / sqrt(whole_dot(k, k, KEY) + 1e-12) / scale);
            sum += w;
            seen++;
            for (int32_t n = 0; n < VALUE; n++)
                y[n] += w * qk_v[j][KEYS + h * VALUE + n];
        }
    }
    for (int32_t n = 0; n < VALUE; n++)
        y[n] = sum > 0 ? y[n] / sum : qk_v[i][KEYS + h * VALUE + n];
}

static void add_layer(const lx_model *m, rows x)
{
    static rows qk_v;
    double normed[D], y[VALUES], out[D];
    for (int32_t i = 0; i < ROWS; i++) {
        whole_normalise(m, 0, "norm1", x[i], normed);
        whole_multiply(m, 0, "attn.qk_v", normed, qk_v[i]);
        for (int32_t h = 0; h < HEADS; h++)
            attend(m, qk_v, i, h, y + h * VALUE);
        whole_multiply(m, 0, "attn.out", y, out);
        for (int32_t n = 0; n < D; n++)
            x[i][n] += out[n];
    }
    whole_add_mlp(m, 0, x);
}

static void hashes_match_their_equation(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 2; i++) {
        char attention[256];
        by_key = i == 1;
        (void)snprintf(attention, sizeof attention,
                       "{\"kind\": \"lsh\", \"rounds\": 3, \"buckets\": 6, \"cap\": 4, "
                       "\"scale\": \"%s\", \"d_key\": 5, \"d_value\": 7}",
                       by_key ? "key" : "none");
        whole_check(attention, 1, add_layer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hashes_match_their_equation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
