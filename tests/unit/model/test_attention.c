/*
 * Kinds of attention with equations of their own against these (model/mixers/gau_quad.c,
 * global_window.c): whole models, worked out here in double, every token from all before it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/transformer.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

enum { HEADS = 2, D = 12, FF = 20, ROWS = 40, V = 70, INPUTS = 4, WIDEST = 100 };

/* Residual streams, or what a product makes of them: a row a token. */
typedef double rows[ROWS][WIDEST];

/* --- parameters --- */

/* NAME.SUFFIX of a layer; of the whole model where that is -1. */
static const lx_tensor *find(const lx_model *m, int32_t layer, const char *name, const char *suffix)
{
    char prefix[24] = "", full[96];
    if (layer >= 0)
        (void)snprintf(prefix, sizeof prefix, "layers.%d.", layer);
    (void)snprintf(full, sizeof full, "%s%s%s", prefix, name, suffix);
    const lx_tensor *t = lx_safetensors_find(m->weights, full);
    if (t == NULL)
        fail_msg("no %s", full);
    return t;
}

static double at(const lx_tensor *t, int64_t i)
{
    return (double)lx_host_tensor_at(&t->t, i);
}

/* y = W x + b */
static void multiply(const lx_model *m, int32_t layer, const char *name, const double *x, double *y)
{
    const lx_tensor *w = find(m, layer, name, ".weight"), *bias = find(m, layer, name, ".bias");
    for (int64_t i = 0; i < w->t.rows; i++) {
        y[i] = at(bias, i);
        for (int64_t j = 0; j < w->t.cols; j++)
            y[i] += at(w, i * w->t.cols + j) * x[j];
    }
}

static void normalise(const lx_model *m, int32_t layer, const char *name, const double *x,
                      double *y)
{
    const lx_tensor *gamma = find(m, layer, name, ".weight"), *beta = find(m, layer, name, ".bias");
    double mean = 0, var = 0;
    for (int32_t i = 0; i < D; i++)
        mean += x[i] / D;
    for (int32_t i = 0; i < D; i++)
        var += (x[i] - mean) * (x[i] - mean) / D;
    for (int32_t i = 0; i < D; i++)
        y[i] = (x[i] - mean) / sqrt(var + 1e-5) * at(gamma, i) + at(beta, i);
}

static double dot(const double *a, const double *b, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

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
        normalise(m, 0, "norm1", x[i], normed);
        multiply(m, 0, "attn.uvz", normed, uvz[i]);
        for (int32_t n = 0; n < 2 * E + S; n++)
            uvz[i][n] = silu(uvz[i][n]);
        for (int32_t n = 0; n < S; n++) {
            double z = uvz[i][2 * E + n];
            q[i][n] =
                at(find(m, 0, "attn.gamma_q", ""), n) * z + at(find(m, 0, "attn.beta_q", ""), n);
            k[i][n] =
                at(find(m, 0, "attn.gamma_k", ""), n) * z + at(find(m, 0, "attn.beta_k", ""), n);
        }
        memset(y, 0, sizeof y);
        for (int32_t j = 0; j <= i; j++) {
            double a = form->weight(dot(q[i], k[j], S), i);
            for (int32_t n = 0; n < E; n++)
                y[n] += a * uvz[j][E + n];
        }
        for (int32_t n = 0; n < E; n++)
            y[n] *= uvz[i][n];
        multiply(m, 0, "attn.out", y, out);
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
        double w = exp(dot(q, k, KEY) / sqrt(KEY));
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
        normalise(m, layer, "norm1", x[i], normed);
        multiply(m, layer, "attn.qkv", normed, qkv[i]);
        multiply(m, layer, "attn.global", normed, of_globals[i]);
        for (int32_t h = 0; h < HEADS; h++) {
            if (i < GLOBAL)
                attend(of_globals, i, h, 0, 0, y + h * VALUE);
            else
                attend(qkv, i, h, i - WINDOW + 1, GLOBAL, y + h * VALUE);
        }
        multiply(m, layer, "attn.out", y, out);
        for (int32_t n = 0; n < D; n++)
            x[i][n] += out[n];
    }
}

static void add_mlp(const lx_model *m, int32_t layer, rows x)
{
    double normed[D], hidden[FF], out[D];
    for (int32_t i = 0; i < ROWS; i++) {
        normalise(m, layer, "norm2", x[i], normed);
        multiply(m, layer, "ff.up", normed, hidden);
        for (int32_t n = 0; n < FF; n++)
            hidden[n] *= 0.5 * (1 + erf(hidden[n] / sqrt(2)));
        multiply(m, layer, "ff.down", hidden, out);
        for (int32_t n = 0; n < D; n++)
            x[i][n] += out[n];
    }
}

/* --- whole models --- */

/* A gated unit, then a layer of a window and a feed-forward net. */
static void expect(const lx_model *m, const gau_form *form, const int32_t *ids, rows logits)
{
    static const char *const inputs[] = {"embed.token", "embed.position", "embed.countdown",
                                         "embed.mirror"};
    static rows x;
    memset(x, 0, sizeof x);
    for (int32_t i = 0; i < ROWS * INPUTS * D; i++) {
        int32_t token = i / D / INPUTS, input = i / D % INPUTS, id = ids[i / D];
        x[token][i % D] += at(find(m, -1, inputs[input], ".weight"), id * D + i % D);
    }
    add_gau(m, form, x);
    add_window(m, 1, x);
    add_mlp(m, 1, x);
    for (int32_t i = 0; i < ROWS; i++) {
        double normed[D];
        normalise(m, -1, "final_norm", x[i], normed);
        multiply(m, -1, "head", normed, logits[i]);
    }
}

static void must(lx_status st, const lx_error *err)
{
    if (st != LX_OK)
        fail_msg("%s", err->text);
}

static void run(const lx_model *m, const char *backend, const int32_t *ids, float *logits)
{
    static lx_sampling sampling[ROWS];
    static lx_sample samples[ROWS];
    int32_t seq_start[] = {0, ROWS}, slot = 0, position = 0, output_row[ROWS];
    lx_error err = {0};
    lx_backend *be = NULL;
    lx_transformer *t = NULL;
    lx_states *states = NULL;
    must(lx_backend_open(backend, &(lx_backend_options){.n_threads = 1}, &be, &err), &err);
    must(lx_transformer_new(m, be, ROWS, ROWS, &t, &err), &err);
    must(lx_transformer_states_new(t, 1, ROWS, &states, &err), &err);
    for (int32_t i = 0; i < ROWS; i++) {
        output_row[i] = i;
        sampling[i] = (lx_sampling){.top_p = 1, .forced = 0};
    }
    lx_step all = {.batch = {ROWS, 1, seq_start, &slot, ROWS, output_row, &position},
                   .ids = ids,
                   .sampling = sampling,
                   .samples = samples,
                   .logits = logits};
    must(lx_transformer_step(t, states, &all, &err), &err);
    lx_transformer_states_free(t, states);
    lx_transformer_free(t);
    be->ops->close(be);
}

static void check_form(const gau_form *form)
{
    static const char *const backends[] = {"reference", "cpu"};
    static rows want;
    static float got[ROWS * V];
    tiny_model_options o = {.n_vocab = V,
                            .n_layers = 2,
                            .n_heads = HEADS,
                            .d_model = D,
                            .d_ff = FF,
                            .max_chars = 9,
                            .seed = 5};
    char attention[512];
    int32_t ids[ROWS * INPUTS];
    lx_model *m = NULL;
    lx_error err = {0};
    uint64_t random = 6;
    (void)snprintf(attention, sizeof attention,
                   "[{\"kind\": \"gau_quad\", \"n_heads\": 1, \"d_key\": 6, \"d_value\": 20, %s}, "
                   "{\"kind\": \"global_window\", \"window\": 4, \"global_prefix\": 6, "
                   "\"d_key\": 5, \"d_value\": 7}]",
                   form->keys);
    o.attention = attention;
    char *dir = tiny_model_make("kinds", &o);
    assert_non_null(dir);
    must(lx_model_load(dir, &m, &err), &err);
    for (int32_t i = 0; i < ROWS * INPUTS; i++)
        ids[i] = (int32_t)(scratch_random(&random) >> 33) % m->config.inputs[i % INPUTS].size;
    expect(m, form, ids, want);
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        run(m, backends[b], ids, got);
        for (int32_t i = 0; i < ROWS * V; i++) {
            double expected = want[i / V][i % V], apart = fabs((double)got[i] - expected);
            if (!(apart < 2e-5)) /* NaN fails too */
                fail_msg("%s, %s: row %d: %g, not %g", form->keys, backends[b], i / V,
                         (double)got[i], expected);
        }
    }
    lx_model_free(m);
    tiny_model_remove(dir);
}

static void logits_match_the_equations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        check_form(&forms[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_match_the_equations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
