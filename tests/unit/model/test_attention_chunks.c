/*
 * Mixed chunk attention against its equations (model/mixers/flash.c): whole models, see
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

enum { S = 6, E = 20 };

static int32_t chunk; /* that is tested */

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* gamma z + beta of these names. */
static void affine(const lx_model *m, const char *gamma, const char *beta, const double *z,
                   double *to)
{
    for (int32_t n = 0; n < S; n++)
        to[n] = whole_at(m, 0, gamma, "", n) * z[n] + whole_at(m, 0, beta, "", n);
}

/* Every token from all before it, its own chunk or not. */
static void attend(const lx_model *m, rows uvz, int32_t i, double *y)
{
    double q[S], far_q[S], k[S];
    affine(m, "attn.gamma_q", "attn.beta_q", uvz[i] + 2 * E, q);
    affine(m, "attn.gamma_far_q", "attn.beta_far_q", uvz[i] + 2 * E, far_q);
    memset(y, 0, E * sizeof *y);
    for (int32_t j = 0; j <= i; j++) {
        bool near = j / chunk == i / chunk;
        affine(m, near ? "attn.gamma_k" : "attn.gamma_far_k",
               near ? "attn.beta_k" : "attn.beta_far_k", uvz[j] + 2 * E, k);
        double a = whole_dot(near ? q : far_q, k, S) / chunk;
        if (near)
            a = a > 0 ? a * a : 0;
        for (int32_t n = 0; n < E; n++)
            y[n] += a * uvz[j][E + n];
    }
}

static void add_unit(const lx_model *m, rows x)
{
    static rows uvz;
    double normed[D], y[E], out[D];
    for (int32_t i = 0; i < ROWS; i++) {
        whole_normalise(m, 0, "norm1", x[i], normed);
        whole_multiply(m, 0, "attn.uvz", normed, uvz[i]);
        for (int32_t n = 0; n < 2 * E + S; n++)
            uvz[i][n] = silu(uvz[i][n]);
        attend(m, uvz, i, y);
        for (int32_t n = 0; n < E; n++)
            y[n] *= uvz[i][n];
        whole_multiply(m, 0, "attn.out", y, out);
        for (int32_t n = 0; n < D; n++)
            x[i][n] += out[n];
    }
}

static void chunks_match_their_equation(void **state)
{
    static const int32_t chunks[] = {1, 7, 16, 50};
    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        char attention[256];
        chunk = chunks[i];
        (void)snprintf(attention, sizeof attention,
                       "{\"kind\": \"flash\", \"n_heads\": 1, \"d_key\": 6, \"d_value\": 20, "
                       "\"chunk\": %d}",
                       chunk);
        whole_check(attention, 1, add_unit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks_match_their_equation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
