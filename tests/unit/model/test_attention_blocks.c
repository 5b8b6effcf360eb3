/*
 * Attention to compressed rows against its equations (model/mixers/memory_compressed.c): whole
 * models, see tests/support/whole_model.h.
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

static int32_t factor;
static bool inclusive, learned;

/* Number e of block c: of its keys, or of its values, n being their size, x their first column. */
static double compressed(const lx_model *m, const char *name, const char *bias, rows qkv, int32_t h,
                         int32_t c, int32_t x, int32_t n, int32_t e)
{
    double sum = whole_at(m, 0, bias, "", h * n + e);
    for (int32_t t = 0; t < factor; t++) {
        for (int32_t d = 0; d < n; d++)
            sum += qkv[c * factor + t][x + h * n + d] *
                   whole_at(m, 0, name, "", (((int64_t)h * factor + t) * n + d) * n + e);
    }
    return sum;
}

/* Key and value of row r: the first one, then the blocks. */
static void row_of(const lx_model *m, rows qkv, int32_t h, int32_t r, double *k, double *v)
{
    for (int32_t e = 0; e < KEY + VALUE; e++) {
        bool is_key = e < KEY;
        int32_t at = is_key ? KEYS + h * KEY + e : 2 * KEYS + h * VALUE + e - KEY;
        double *to = is_key ? &k[e] : &v[e - KEY];
        if (r == 0)
            *to = learned ? whole_at(m, 0, "attn.null", "", h * (KEY + VALUE) + e) : qkv[0][at];
        else if (is_key)
            *to = compressed(m, "attn.compress_k", "attn.compress_k_bias", qkv, h, r - 1, KEYS, KEY,
                             e);
        else
            *to = compressed(m, "attn.compress_v", "attn.compress_v_bias", qkv, h, r - 1, 2 * KEYS,
                             VALUE, e - KEY);
    }
}

static void attend(const lx_model *m, rows qkv, int32_t i, int32_t h, double *y)
{
    double sum = 0, k[KEY], v[VALUE];
    memset(y, 0, VALUE * sizeof *y);
    for (int32_t r = 0; r == 0 || r * factor - 1 < i + (inclusive ? 1 : 0); r++) {
        row_of(m, qkv, h, r, k, v);
        double w = exp(whole_dot(qkv[i] + h * KEY, k, KEY) / sqrt(KEY));
        sum += w;
        for (int32_t n = 0; n < VALUE; n++)
            y[n] += w * v[n];
    }
    for (int32_t n = 0; n < VALUE; n++)
        y[n] /= sum;
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

static void blocks_match_their_equation(void **state)
{
    static const int32_t factors[] = {1, 3, 7, 41};
    (void)state;
    for (int32_t i = 0; i < 16; i++) {
        char attention[256];
        factor = factors[i / 4];
        inclusive = i % 2 == 1;
        learned = i % 4 < 2;
        (void)snprintf(attention, sizeof attention,
                       "{\"kind\": \"memory_compressed\", \"factor\": %d, \"visible\": \"%s\", "
                       "\"null\": \"%s\", \"d_key\": 5, \"d_value\": 7}",
                       factor, inclusive ? "inclusive" : "strict", learned ? "learned" : "first");
        whole_check(attention, 1, add_layer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_match_their_equation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
