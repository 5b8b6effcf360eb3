/*
 * A whole model of RWKV-7's time mix and channel mix compared with their equations
 * (model/mixers/rwkv7.c, channel_mix.c), worked out here in double, token by token.
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
#include "tests/support/tensor_values.h"
#include "tests/support/tiny_model.h"

enum { LAYERS = 3, HEADS = 3, KEY = 5, VALUE = 7, D = 12, FF = 20, ROWS = 40, V = 70, INPUTS = 4 };
enum { KEYS = HEADS * KEY, VALUES = HEADS * VALUE, MIXES = 6, WIDEST = 70 };
enum { MIX_R, MIX_W, MIX_K, MIX_V, MIX_A, MIX_G };

/* The state after the earlier tokens. */
typedef struct memory {
    double shift[D], ff_shift[D], s[HEADS][KEY][VALUE];
} memory;

/* --- the equations --- */

/* NAME.SUFFIX of a layer; of the whole model where that is -1. NULL where there is none. */
static const lx_tensor *look_up(const lx_model *m, int32_t layer, const char *name,
                                const char *suffix)
{
    char prefix[24] = "", full[96];
    if (layer >= 0)
        (void)snprintf(prefix, sizeof prefix, "layers.%d.", layer);
    (void)snprintf(full, sizeof full, "%s%s%s", prefix, name, suffix);
    return lx_safetensors_find(m->weights, full);
}

static const lx_tensor *find(const lx_model *m, int32_t layer, const char *name, const char *suffix)
{
    const lx_tensor *t = look_up(m, layer, name, suffix);
    if (t == NULL)
        fail_msg("no %s%s in layer %d", name, suffix, layer);
    return t;
}

static double at(const lx_model *m, const lx_tensor *t, int64_t i)
{
    return (double)tensor_value(m->weights, t, i);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* y = W x, and a bias if there is one. */
static void multiply(const lx_model *m, int32_t layer, const char *name, const double *x, double *y)
{
    const lx_tensor *w = find(m, layer, name, ".weight"), *bias = look_up(m, layer, name, ".bias");
    for (int64_t i = 0; i < w->t.rows; i++) {
        y[i] = bias != NULL ? at(m, bias, i) : 0;
        for (int64_t j = 0; j < w->t.cols; j++)
            y[i] += at(m, w, i * w->t.cols + j) * x[j];
    }
}

/* (x - mean) / sqrt(var + eps) gamma + beta of n numbers, parameters from `from` on. */
static void normalise(const lx_model *m, int32_t layer, const char *name, int32_t from, int32_t n,
                      double eps, double *x)
{
    const lx_tensor *gamma = find(m, layer, name, ".weight"), *beta = find(m, layer, name, ".bias");
    double mean = 0, var = 0;
    for (int32_t i = 0; i < n; i++)
        mean += x[i] / n;
    for (int32_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / n;
    for (int32_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt(var + eps) * at(m, gamma, from + i) + at(m, beta, from + i);
}

/* y = x + mixes (before - x). */
static void mix(const lx_model *m, const lx_tensor *mixes, const double *x, const double *before,
                double *y)
{
    for (int32_t i = 0; i < D; i++)
        y[i] = x[i] + at(m, mixes, i) * (before[i] - x[i]);
}

/* W_second f(W_first of a mix). */
static void low_rank(const lx_model *m, int32_t layer, const double *x, char letter,
                     double (*f)(double), double *y)
{
    char name[16];
    double middle[WIDEST];
    (void)snprintf(name, sizeof name, "attn.%c1", letter);
    multiply(m, layer, name, x, middle);
    for (int64_t i = 0; f != NULL && i < find(m, layer, name, ".weight")->t.rows; i++)
        middle[i] = f(middle[i]);
    (void)snprintf(name, sizeof name, "attn.%c2", letter);
    multiply(m, layer, name, middle, y);
}

/* One head: the state's step, its read, the norm of that and the bonus. */
static void step_head(const lx_model *m, int32_t layer, int32_t h, double (*s)[VALUE],
                      const double *r, const double *w, const double *plain, const double *v,
                      const double *a, double *y)
{
    const lx_tensor *k_k = find(m, layer, "attn.k_k", ""), *k_a = find(m, layer, "attn.k_a", "");
    const lx_tensor *r_k = find(m, layer, "attn.r_k", "");
    double e[KEY], k[KEY], length = 0, bonus = 0, next[KEY][VALUE];
    for (int32_t i = 0; i < KEY; i++) {
        e[i] = plain[i] * at(m, k_k, h * KEY + i);
        length += e[i] * e[i];
        k[i] = plain[i] * (1 + (a[i] - 1) * at(m, k_a, h * KEY + i));
        bonus += r[i] * k[i] * at(m, r_k, h * KEY + i);
    }
    for (int32_t i = 0; i < KEY; i++)
        e[i] /= fmax(sqrt(length), 1e-12);
    for (int32_t j = 0; j < VALUE; j++) {
        double held = 0;
        for (int32_t i = 0; i < KEY; i++)
            held += s[i][j] * e[i];
        y[j] = 0;
        for (int32_t i = 0; i < KEY; i++) {
            next[i][j] = w[i] * s[i][j] - a[i] * e[i] * held + k[i] * v[j];
            y[j] += next[i][j] * r[i];
        }
    }
    memcpy(s, next, sizeof next);
    normalise(m, layer, "attn.norm", h * VALUE, VALUE, 64e-5, y);
    for (int32_t j = 0; j < VALUE; j++)
        y[j] += bonus * v[j];
}

static void time_mix(const lx_model *m, int32_t layer, const double *x, double *v_first,
                     memory *before, double *out)
{
    static const char *const mixes[] = {"attn.x_r", "attn.x_w", "attn.x_k",
                                        "attn.x_v", "attn.x_a", "attn.x_g"};
    double mixed[MIXES][D], r[KEYS], w[KEYS], k[KEYS], a[KEYS], v[VALUES], g[VALUES], t[VALUES];
    double y[VALUES];
    for (int32_t c = 0; c < MIXES; c++)
        mix(m, find(m, layer, mixes[c], ""), x, before->shift, mixed[c]);
    memcpy(before->shift, x, sizeof before->shift);
    multiply(m, layer, "attn.r", mixed[MIX_R], r);
    multiply(m, layer, "attn.k", mixed[MIX_K], k);
    multiply(m, layer, "attn.v", mixed[MIX_V], v);
    low_rank(m, layer, mixed[MIX_W], 'w', tanh, w);
    low_rank(m, layer, mixed[MIX_A], 'a', NULL, a);
    low_rank(m, layer, mixed[MIX_G], 'g', sigmoid, g);
    for (int32_t i = 0; i < KEYS; i++) {
        w[i] = exp(-exp(-0.5) * sigmoid(w[i]));
        a[i] = sigmoid(a[i]);
    }
    if (layer == 0)
        memcpy(v_first, v, sizeof v);
    else
        low_rank(m, layer, mixed[MIX_V], 'v', NULL, t);
    for (int32_t i = 0; layer > 0 && i < VALUES; i++)
        v[i] += (v_first[i] - v[i]) * sigmoid(t[i]);
    for (int32_t h = 0; h < HEADS; h++)
        step_head(m, layer, h, before->s[h], r + h * KEY, w + h * KEY, k + h * KEY, v + h * VALUE,
                  a + h * KEY, y + h * VALUE);
    for (int32_t i = 0; i < VALUES; i++)
        y[i] *= g[i];
    multiply(m, layer, "attn.out", y, out);
}

static void channel_mix(const lx_model *m, int32_t layer, const double *x, memory *before,
                        double *out)
{
    double mixed[D], hidden[FF];
    mix(m, find(m, layer, "ff.x_k", ""), x, before->ff_shift, mixed);
    memcpy(before->ff_shift, x, sizeof before->ff_shift);
    multiply(m, layer, "ff.key", mixed, hidden);
    for (int32_t i = 0; i < FF; i++)
        hidden[i] = hidden[i] > 0 ? hidden[i] * hidden[i] : 0;
    multiply(m, layer, "ff.value", hidden, out);
}

static void step(const lx_model *m, const int32_t *ids, memory *memories, double *logits)
{
    static const char *const inputs[] = {"embed.token", "embed.position", "embed.countdown",
                                         "embed.mirror"};
    double x[D] = {0}, normed[D], y[D], v_first[VALUES];
    for (int32_t i = 0; i < INPUTS * D; i++)
        x[i % D] += at(m, find(m, -1, inputs[i / D], ".weight"), ids[i / D] * D + i % D);
    normalise(m, -1, "input_norm", 0, D, 1e-5, x);
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        memcpy(normed, x, sizeof x);
        normalise(m, layer, "norm1", 0, D, 1e-5, normed);
        time_mix(m, layer, normed, v_first, &memories[layer], y);
        for (int32_t i = 0; i < D; i++)
            normed[i] = x[i] += y[i];
        normalise(m, layer, "norm2", 0, D, 1e-5, normed);
        channel_mix(m, layer, normed, &memories[layer], y);
        for (int32_t i = 0; i < D; i++)
            x[i] += y[i];
    }
    normalise(m, -1, "final_norm", 0, D, 1e-5, x);
    multiply(m, -1, "head", x, logits);
}

/* --- the real ones --- */

static void check_backend(const lx_model *m, const char *name, const int32_t *ids)
{
    static memory memories[LAYERS];
    static float logits[ROWS * V];
    static lx_sampling sampling[ROWS];
    static lx_sample samples[ROWS];
    int32_t seq_start[] = {0, ROWS}, slot = 0, output_row[ROWS];
    double expected[V], worst = 0;
    lx_error err = {0};
    lx_backend *be = NULL;
    lx_transformer *t = NULL;
    lx_states *states = NULL;
    must(lx_backend_open(name, &(lx_backend_options){.n_threads = 1}, &be, &err), &err);
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
                             .output_row = output_row},
                   .ids = ids,
                   .sampling = sampling,
                   .samples = samples,
                   .logits = logits};
    must(lx_transformer_step(t, states, &all, &err), &err);
    memset(memories, 0, sizeof memories);
    for (int32_t r = 0; r < ROWS; r++) {
        step(m, ids + r * INPUTS, memories, expected);
        for (int32_t i = 0; i < V; i++) {
            assert_true(isfinite(logits[r * V + i]));
            worst = fmax(worst, fabs((double)logits[r * V + i] - expected[i]));
        }
    }
    if (worst >= 2e-5)
        fail_msg("%s: %g", name, worst);
    lx_transformer_states_free(t, states);
    lx_transformer_free(t);
    be->ops->close(be);
}

static void logits_match_the_equations(void **state)
{
    (void)state;
    tiny_model_options o = {.n_vocab = V,
                            .n_layers = LAYERS,
                            .n_heads = HEADS,
                            .d_model = D,
                            .d_ff = FF,
                            .max_chars = 9,
                            .input_norm = true,
                            .seed = 3};
    lx_model *m = NULL;
    lx_error err = {0};
    int32_t ids[ROWS * INPUTS];
    uint64_t random = 4;
    o.attention = "{\"kind\": \"rwkv7\", \"w_rank\": 4, \"a_rank\": 3, \"v_rank\": 2, "
                  "\"g_rank\": 6, \"group_eps\": 64e-5, \"d_key\": 5, \"d_value\": 7}";
    o.feed_forward = "{\"kind\": \"channel_mix\"}";
    char *dir = tiny_model_make("rwkv7", &o);
    assert_non_null(dir);
    must(lx_model_load(dir, &m, &err), &err);
    for (int32_t i = 0; i < ROWS * INPUTS; i++)
        ids[i] = (int32_t)(scratch_random(&random) >> 33) % m->config.inputs[i % INPUTS].size;
    check_backend(m, "reference", ids);
    check_backend(m, "cpu", ids);
    lx_model_free(m);
    tiny_model_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_match_the_equations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
