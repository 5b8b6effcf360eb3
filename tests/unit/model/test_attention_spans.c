/*
 * Attention with spans against its equations (model/mixers/adaptive_span.c): whole models, see
 * tests/support/whole_model.h.
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

enum { KEY = 5, VALUE = 7, KEYS = HEADS * KEY, VALUES = HEADS * VALUE, MOST = 9, RAMP = 3 };

static const int32_t spans[HEADS] = {2, 7};
static bool padded; /* whether rows of zeros lie before the first token */

static double fading(int32_t x, int32_t span)
{
    double m = (double)(RAMP + span - x) / RAMP;
    return m > 1 ? 1 : m < 0 ? 0 : m;
}

static void attend(const lx_model *m, rows qkv, int32_t i, int32_t h, double *y)
{
    double sum = 0;
    memset(y, 0, VALUE * sizeof *y);
    for (int32_t x = 0; x < MOST; x++) {
        int32_t j = i - 1 - x;
        const double *q = qkv[i] + h * KEY;
        double logit = 0;
        for (int32_t d = 0; d < KEY; d++)
            logit += q[d] * whole_at(m, 0, "attn.distance", "", d * MOST + x);
        if (j < 0 && !padded)
            continue;
        if (j >= 0)
            logit += whole_dot(q, qkv[j] + KEYS + h * KEY, KEY);
        double w = fading(x, spans[h]) * exp(logit / sqrt(KEY));
        sum += w;
        for (int32_t n = 0; j >= 0 && n < VALUE; n++)
            y[n] += w * qkv[j][2 * KEYS + h * VALUE + n];
    }
    for (int32_t n = 0; n < VALUE; n++)
        y[n] = sum > 0 ? y[n] / sum : 0;
}

static void add_layer(const lx_model *m, rows x)
{
    static rows qkv;
    double normed[D], y[VALUES], out[D];
    for (int32_t i = 0; i < ROWS; i++) {
        whole_normalise(m, 0, "norm1", x[i], normed);
        whole_multiply(m, 0, "attn.qkv", normed, qkv[i]);
        for (int32_t h = 0; h < HEADS; h++)
            attend(m, qkv, i, h, y + h * VALUE);
        whole_multiply(m, 0, "attn.out", y, out);
        for (int32_t n = 0; n < D; n++)
            x[i][n] += out[n];
    }
    whole_add_mlp(m, 0, x);
}

static void spans_match_their_equation(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 2; i++) {
        char attention[256];
        padded = i == 1;
        (void)snprintf(attention, sizeof attention,
                       "{\"kind\": \"adaptive_span\", \"max_span\": 9, \"ramp\": 3, \"spans\": "
                       "[2, 7], \"pad_memory\": %s, \"d_key\": 5, \"d_value\": 7}",
                       padded ? "true" : "false");
        whole_check(attention, 1, add_layer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spans_match_their_equation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
