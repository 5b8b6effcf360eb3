/* See whole_model.h. */
#include "tests/support/whole_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/transformer.h"
#include "tests/support/scratch.h"
#include "tests/support/tensor_values.h"
#include "tests/support/tiny_model.h"

/* --- parameters --- */

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

static double at(const lx_model *m, const lx_tensor *t, int64_t i)
{
    return (double)tensor_value(m->weights, t, i);
}

double whole_at(const lx_model *m, int32_t layer, const char *name, const char *suffix, int64_t i)
{
    return at(m, find(m, layer, name, suffix), i);
}

/* y = W x + b */
void whole_multiply(const lx_model *m, int32_t layer, const char *name, const double *x, double *y)
{
    const lx_tensor *w = find(m, layer, name, ".weight"), *bias = find(m, layer, name, ".bias");
    for (int64_t i = 0; i < w->t.rows; i++) {
        y[i] = at(m, bias, i);
        for (int64_t j = 0; j < w->t.cols; j++)
            y[i] += at(m, w, i * w->t.cols + j) * x[j];
    }
}

void whole_normalise(const lx_model *m, int32_t layer, const char *name, const double *x, double *y)
{
    const lx_tensor *gamma = find(m, layer, name, ".weight"), *beta = find(m, layer, name, ".bias");
    double mean = 0, var = 0;
    for (int32_t i = 0; i < D; i++)
        mean += x[i] / D;
    for (int32_t i = 0; i < D; i++)
        var += (x[i] - mean) * (x[i] - mean) / D;
    for (int32_t i = 0; i < D; i++)
        y[i] = (x[i] - mean) / sqrt(var + 1e-5) * at(m, gamma, i) + at(m, beta, i);
}

double whole_dot(const double *a, const double *b, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

void whole_add_mlp(const lx_model *m, int32_t layer, rows x)
{
    double normed[D], hidden[FF], out[D];
    for (int32_t i = 0; i < ROWS; i++) {
        whole_normalise(m, layer, "norm2", x[i], normed);
        whole_multiply(m, layer, "ff.up", normed, hidden);
        for (int32_t n = 0; n < FF; n++)
            hidden[n] *= 0.5 * (1 + erf(hidden[n] / sqrt(2)));
        whole_multiply(m, layer, "ff.down", hidden, out);
        for (int32_t n = 0; n < D; n++)
            x[i][n] += out[n];
    }
}

/* --- whole models --- */

static void expect(const lx_model *m, const int32_t *ids, rows logits,
                   void (*add)(const lx_model *m, rows x))
{
    static const char *const inputs[] = {"embed.token", "embed.position", "embed.countdown",
                                         "embed.mirror"};
    static rows x;
    memset(x, 0, sizeof x);
    for (int32_t i = 0; i < ROWS * INPUTS * D; i++) {
        int32_t token = i / D / INPUTS, input = i / D % INPUTS, id = ids[i / D];
        x[token][i % D] += at(m, find(m, -1, inputs[input], ".weight"), id * D + i % D);
    }
    add(m, x);
    for (int32_t i = 0; i < ROWS; i++) {
        double normed[D];
        whole_normalise(m, -1, "final_norm", x[i], normed);
        whole_multiply(m, -1, "head", normed, logits[i]);
    }
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
    lx_step all = {.batch = {.n_tokens = ROWS,
                             .n_seqs = 1,
                             .seq_start = seq_start,
                             .slot = &slot,
                             .n_outputs = ROWS,
                             .output_row = output_row,
                             .position = &position},
                   .ids = ids,
                   .sampling = sampling,
                   .samples = samples,
                   .logits = logits};
    must(lx_transformer_step(t, states, &all, &err), &err);
    lx_transformer_states_free(t, states);
    lx_transformer_free(t);
    be->ops->close(be);
}

void whole_check(const char *attention, int32_t n_layers, void (*add)(const lx_model *m, rows x))
{
    static const char *const backends[] = {"reference", "cpu"};
    static rows want;
    static float got[ROWS * V];
    tiny_model_options o = {.n_vocab = V,
                            .n_layers = n_layers,
                            .n_heads = HEADS,
                            .d_model = D,
                            .d_ff = FF,
                            .max_chars = 9,
                            .seed = 5,
                            .attention = attention};
    int32_t ids[ROWS * INPUTS];
    lx_model *m = NULL;
    lx_error err = {0};
    uint64_t random = 6;
    char *dir = tiny_model_make("kinds", &o);
    assert_non_null(dir);
    must(lx_model_load(dir, &m, &err), &err);
    for (int32_t i = 0; i < ROWS * INPUTS; i++)
        ids[i] = (int32_t)(scratch_random(&random) >> 33) % m->config.inputs[i % INPUTS].size;
    expect(m, ids, want, add);
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        run(m, backends[b], ids, got);
        for (int32_t i = 0; i < ROWS * V; i++) {
            double expected = want[i / V][i % V], apart = fabs((double)got[i] - expected);
            if (!(apart < 2e-5)) /* NaN fails too */
                fail_msg("%s, %s: row %d: %g, not %g", attention, backends[b], i / V,
                         (double)got[i], expected);
        }
    }
    lx_model_free(m);
    tiny_model_remove(dir);
}
