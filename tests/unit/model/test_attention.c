/*
 * Kinds of attention with equations of their own against these (model/mixers/gau_quad.c,
 * patterns.c): whole models, worked out here in double, every token from all before it.
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

/* --- the gated attention unit --- */

typedef struct gau_form {
    const char *keys;                            /* in its object */
    double (*weight)(double product, int32_t i); /* a_ij */
} gau_form;

enum { S = 6, E = 20, LENGTH = 7 };

static double positive(double x)
{
    return x > 0 ? x : 0;
}

static double of_the_paper(double x, int32_t i)
{
    (void)i;
    return positive(x) * positive(x) / (LENGTH * S);
}

static double of_its_code(double x, int32_t i)
{
    (void)i;
    return positive(x / LENGTH) * positive(x / LENGTH);
}

static double by_count(double x, int32_t i)
{
    return positive(x) * positive(x) / ((i + 1) * S);
}

static const gau_form forms[] = {
    {"\"div\": \"const\", \"div_place\": \"outside\", \"length\": 7", of_the_paper},
    {"\"div\": \"const\", \"div_place\": \"inside\", \"length\": 7", of_its_code},
    {"\"div\": \"count\", \"div_place\": \"outside\"", by_count},
};

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* Adds the unit of layer 0 to x. */
static void add_gau(const lx_model *m, const gau_form *form, rows x)
{
    static rows uvz, q, k;
    double normed[D], y[E], out[D];
    for (int32_t i = 0; i < ROWS; i++) {
        whole_normalise(m, 0, "norm1", x[i], normed);
        whole_multiply(m, 0, "attn.uvz", normed, uvz[i]);
        for (int32_t n = 0; n < 2 * E + S; n++)
            uvz[i][n] = silu(uvz[i][n]);
        for (int32_t n = 0; n < S; n++) {
            double z = uvz[i][2 * E + n];
            q[i][n] =
                whole_at(m, 0, "attn.gamma_q", "", n) * z + whole_at(m, 0, "attn.beta_q", "", n);
            k[i][n] =
                whole_at(m, 0, "attn.gamma_k", "", n) * z + whole_at(m, 0, "attn.beta_k", "", n);
        }
        memset(y, 0, sizeof y);
        for (int32_t j = 0; j <= i; j++) {
            double a = form->weight(whole_dot(q[i], k[j], S), i);
            for (int32_t n = 0; n < E; n++)
                y[n] += a * uvz[j][E + n];
        }
        for (int32_t n = 0; n < E; n++)
            y[n] *= uvz[i][n];
        whole_multiply(m, 0, "attn.out", y, out);
        for (int32_t n = 0; n < D; n++)
            x[i][n] += out[n];
    }
}

/* --- the window with global tokens --- */

enum { KEY = 5, VALUE = 7, WINDOW = 4, GLOBAL = 6, KEYS = HEADS * KEY, VALUES = HEADS * VALUE };

/* A head of token i: softmax over the tokens from `first` on, and below `prefix`. */
static void attend(rows qkv, int32_t i, int32_t h, int32_t first, int32_t prefix, double *y)
{
    double sum = 0;
    memset(y, 0, VALUE * sizeof *y);
    for (int32_t j = 0; j <= i; j++) {
        if (j < first && j >= prefix)
            continue;
        const double *q = qkv[i] + h * KEY, *k = qkv[j] + KEYS + h * KEY;
        double w = exp(whole_dot(q, k, KEY) / sqrt(KEY));
        sum += w;
        for (int32_t n = 0; n < VALUE; n++)
            y[n] += w * qkv[j][2 * KEYS + h * VALUE + n];
    }
    for (int32_t n = 0; n < VALUE; n++)
        y[n] /= sum;
}

/* Adds the attention of a layer to x. */
static void add_window(const lx_model *m, int32_t layer, rows x)
{
    static rows qkv, of_globals;
    double normed[D], y[VALUES], out[D];
    for (int32_t i = 0; i < ROWS; i++) {
        whole_normalise(m, layer, "norm1", x[i], normed);
        whole_multiply(m, layer, "attn.qkv", normed, qkv[i]);
        whole_multiply(m, layer, "attn.global", normed, of_globals[i]);
        for (int32_t h = 0; h < HEADS; h++) {
            if (i < GLOBAL)
                attend(of_globals, i, h, 0, 0, y + h * VALUE);
            else
                attend(qkv, i, h, i - WINDOW + 1, GLOBAL, y + h * VALUE);
        }
        whole_multiply(m, layer, "attn.out", y, out);
        for (int32_t n = 0; n < D; n++)
            x[i][n] += out[n];
    }
}

/* --- whole models --- */

static const gau_form *form; /* that is tested */

/* A gated unit, then a layer of a window and a feed-forward net. */
static void add_both(const lx_model *m, rows x)
{
    add_gau(m, form, x);
    add_window(m, 1, x);
    whole_add_mlp(m, 1, x);
}

static void logits_match_the_equations(void **state)
{
    char attention[512];
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        form = &forms[i];
        (void)snprintf(attention, sizeof attention,
                       "[{\"kind\": \"gau_quad\", \"n_heads\": 1, \"d_key\": 6, \"d_value\": 20, "
                       "%s}, {\"kind\": \"global_window\", \"window\": 4, \"global_prefix\": 6, "
                       "\"d_key\": 5, \"d_value\": 7}]",
                       form->keys);
        whole_check(attention, 2, add_both);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_match_the_equations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
