/* See naive_model.h. */
#include "tests/support/naive_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/scratch.h"

/* --- a model of any variant --- */

typedef struct heads {
    int32_t n, d_key, d_value;
} heads;

static heads heads_of(const variant *v, int32_t layer)
{
    if (layer == 1 && v->heads1 > 0)
        return (heads){v->heads1, v->d_key1, v->d_value1};
    return (heads){HEADS, v->d_key, v->d_value};
}

static bool is_reversible(const variant *v)
{
    return strcmp(v->norm, "reversible") == 0;
}

/* The row as final norm and head read it. */
static int32_t output_width(const variant *v)
{
    return is_reversible(v) ? 2 * D : D;
}

/* A value near `x`, |x| < 2, that every dtype holds exactly, with seven bits after the point. */
static float rounded(double x)
{
    return (float)ldexp(round(ldexp(x, 7)), -7);
}

static void put_value(weights *w, const char *dtype, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (strcmp(dtype, "F32") == 0) {
        memcpy(w->data + w->n_data, &bits, 4);
        w->n_data += 4;
        return;
    }
    uint32_t exponent = bits >> 23 & 255, half = bits >> 16 & 0x8000;
    if (strcmp(dtype, "BF16") == 0)
        half = bits >> 16;
    else if (exponent != 0)
        half |= (exponent - 112) << 10 | (bits >> 13 & 0x3ff);
    uint16_t out = (uint16_t)half;
    memcpy(w->data + w->n_data, &out, 2);
    w->n_data += 2;
}

/* rows = 0: a vector. Values: mean + scale * uniform in -1 .. 1. */
static void add_tensor(weights *w, const variant *v, const char *name, int32_t rows, int32_t cols,
                       double mean, double scale)
{
    int32_t n = (rows > 0 ? rows : 1) * cols;
    size_t begin = w->n_data;
    double *values = calloc((size_t)n, sizeof *values);
    assert_non_null(values);
    for (int32_t i = 0; i < n; i++) {
        double u = (double)(scratch_random(&w->random) >> 40) * 0x1p-23 - 1;
        float x = rounded(mean + scale * u);
        values[i] = (double)x;
        put_value(w, v->dtype, x);
    }
    char shape[32];
    if (rows > 0)
        (void)snprintf(shape, sizeof shape, "[%d,%d]", rows, cols);
    else
        (void)snprintf(shape, sizeof shape, "[%d]", cols);
    (void)snprintf(w->tensor[w->n].name, sizeof w->tensor[w->n].name, "%s", name);
    w->tensor[w->n].values = values;
    w->n_header +=
        (size_t)snprintf(w->header + w->n_header, sizeof w->header - w->n_header,
                         "%c\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                         w->n == 0 ? '{' : ',', name, v->dtype, shape, begin, w->n_data);
    w->n++;
}

static void add_part(weights *w, const variant *v, const char *part, int32_t rows, int32_t cols)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s.weight", part);
    if (cols > 0)
        add_tensor(w, v, name, rows, cols, 0, 1.5 / sqrt(cols));
    else
        add_tensor(w, v, name, 0, rows, 1, 0.5);
    (void)snprintf(name, sizeof name, "%s.bias", part);
    add_tensor(w, v, name, 0, rows, 0, 0.5);
}

void make_weights(weights *w, const variant *v)
{
    static const char *const inputs[] = {"token", "position", "countdown", "mirror"};
    char name[96];
    for (int i = 0; i < INPUTS; i++) {
        (void)snprintf(name, sizeof name, "embed.%s.weight", inputs[i]);
        add_tensor(w, v, name, i % 3 == 0 ? V : CHARS + 1, D, 0, 1);
    }
    for (int i = 0; i < LAYERS; i++) {
        heads h = heads_of(v, i);
        const struct {
            const char *part;
            int32_t rows, cols; /* cols = 0: a norm */
        } parts[] = {{"norm1", D, 0},
                     {"attn.qkv", h.n * (2 * h.d_key + h.d_value), D},
                     {"attn.out", D, h.n * h.d_value},
                     {"norm2", D, 0},
                     {"ff.up", FF, D},
                     {"ff.down", D, FF}};
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++) {
            (void)snprintf(name, sizeof name, "layers.%d.%s", i, parts[j].part);
            add_part(w, v, name, parts[j].rows, parts[j].cols);
        }
    }
    add_part(w, v, "final_norm", output_width(v), 0);
    add_part(w, v, "head", V, output_width(v));
    w->header[w->n_header++] = '}';
}

void write_weights(const weights *w)
{
    size_t n = 8 + w->n_header + w->n_data;
    unsigned char *file = calloc(1, n);
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(w->n_header >> 8 * i);
    memcpy(file + 8, w->header, w->n_header);
    memcpy(file + 8 + w->n_header, w->data, w->n_data);
    (void)scratch_write("model.safetensors", file, n);
    free(file);
}

void write_config(const variant *v)
{
    char text[2048], mixers[512] = "";
    size_t used = 0;
    for (int32_t i = 0; i < (v->heads1 > 0 ? LAYERS : 1); i++) {
        heads h = heads_of(v, i);
        used +=
            (size_t)snprintf(mixers + used, sizeof mixers - used,
                             "%s{\"kind\":\"linear\",\"n_heads\":%d,\"d_key\":%d,\"d_value\":%d,"
                             "\"feature_map\":\"elu+1\",\"eps\":1e-3}",
                             i > 0 ? "," : "", h.n, h.d_key, h.d_value);
    }
    int n = snprintf(text, sizeof text,
                     "{\"format\":\"linnet\",\"format_version\":1,\"task\":\"couplet\","
                     "\"n_layers\":%d,\"n_heads\":%d,\"d_model\":%d,\"d_ff\":%d,\"d_key\":%d,"
                     "\"d_value\":%d,\"norm\":\"%s\",\"norm_eps\":1e-5,\"activation\":\"%s\","
                     "\"attention\":%s%s%s,"
                     "\"inputs\":[{\"name\":\"token\",\"size\":%d},{\"name\":\"position\","
                     "\"size\":%d},{\"name\":\"countdown\",\"size\":%d},{\"name\":\"mirror\","
                     "\"size\":%d}],\"head\":{\"kind\":\"categorical\",\"size\":%d},"
                     "\"max_chars\":%d}",
                     LAYERS, HEADS, D, FF, v->d_key, v->d_value, v->norm, v->activation,
                     v->heads1 > 0 ? "[" : "", mixers, v->heads1 > 0 ? "]" : "", V, CHARS + 1,
                     CHARS + 1, V, V, CHARS);
    (void)scratch_write("config.json", text, (size_t)n);
}

/* --- the equations, in double --- */

static const double *values_of(const weights *w, const char *part, const char *what)
{
    char name[96];
    (void)snprintf(name, sizeof name, "%s.%s", part, what);
    for (int32_t i = 0; i < w->n; i++) {
        if (strcmp(w->tensor[i].name, name) == 0)
            return w->tensor[i].values;
    }
    fail_msg("no %s", name);
    return NULL;
}

static void naive_linear(const weights *w, const char *part, int32_t rows, int32_t cols,
                         const double *x, double *y)
{
    const double *a = values_of(w, part, "weight"), *b = values_of(w, part, "bias");
    for (int32_t i = 0; i < rows; i++) {
        y[i] = b[i];
        for (int32_t j = 0; j < cols; j++)
            y[i] += a[i * cols + j] * x[j];
    }
}

static void naive_norm(const weights *w, const char *part, int32_t n, const double *x, double *y)
{
    const double *gamma = values_of(w, part, "weight"), *beta = values_of(w, part, "bias");
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(var + 1e-5) * gamma[i] + beta[i];
}

static double phi(double x)
{
    return x > 0 ? x + 1 : exp(x);
}

/* The read of row t from the q | k | v of rows 0 .. t, all pairs of rows at once. */
static void naive_attend(heads of, double (*qkv)[256], int32_t t, double *y)
{
    int32_t dk = of.d_key, dv = of.d_value, n = of.n;
    for (int32_t h = 0; h < n; h++) {
        double sum = 1e-3, *out = y + h * dv;
        memset(out, 0, (size_t)dv * sizeof *out);
        for (int32_t s = 0; s <= t; s++) {
            double weight = 0;
            for (int32_t i = 0; i < dk; i++)
                weight += phi(qkv[t][h * dk + i]) * phi(qkv[s][n * dk + h * dk + i]);
            sum += weight;
            for (int32_t i = 0; i < dv; i++)
                out[i] += weight * qkv[s][2 * n * dk + h * dv + i];
        }
        for (int32_t i = 0; i < dv; i++)
            out[i] /= sum;
    }
}

static void naive_feed_forward(const weights *w, const variant *v, const char *prefix,
                               const double *x, double *y)
{
    char part[80];
    double hidden[FF];
    (void)snprintf(part, sizeof part, "%s.ff.up", prefix);
    naive_linear(w, part, FF, D, x, hidden);
    for (int i = 0; i < FF; i++) {
        double gelu = 0.5 * hidden[i] * (1 + erf(hidden[i] / sqrt(2)));
        hidden[i] = strcmp(v->activation, "gelu") == 0 ? gelu : fmax(hidden[i], 0);
    }
    (void)snprintf(part, sizeof part, "%s.ff.down", prefix);
    naive_linear(w, part, D, FF, hidden, y);
}

/* The attention of a layer over rows 0 .. t, of which `x` is the newest. */
static void naive_attention(const weights *w, const variant *v, int32_t layer, int32_t t,
                            const double *x, double *y)
{
    static double qkv[LAYERS][ROWS][256];
    heads h = heads_of(v, layer);
    char part[80];
    double read[64];
    (void)snprintf(part, sizeof part, "layers.%d.attn.qkv", layer);
    naive_linear(w, part, h.n * (2 * h.d_key + h.d_value), D, x, qkv[layer][t]);
    naive_attend(h, qkv[layer], t, read);
    (void)snprintf(part, sizeof part, "layers.%d.attn.out", layer);
    naive_linear(w, part, D, h.n * h.d_value, read, y);
}

static void add_to(double *x, const double *y)
{
    for (int i = 0; i < D; i++)
        x[i] += y[i];
}

/* A row of x: the two streams of reversible wiring, of which others have the first. */
static void naive_layer(const weights *w, const variant *v, int32_t layer, int32_t t,
                        double (*x)[D])
{
    char prefix[32], norm1[80], norm2[80];
    double normed[D], y[D];
    bool post = strcmp(v->norm, "post") == 0;
    double *in = x[0], *other = is_reversible(v) ? x[1] : x[0];
    (void)snprintf(prefix, sizeof prefix, "layers.%d", layer);
    (void)snprintf(norm1, sizeof norm1, "%s.norm1", prefix);
    (void)snprintf(norm2, sizeof norm2, "%s.norm2", prefix);
    naive_norm(w, norm1, D, other, normed);
    naive_attention(w, v, layer, t, post ? in : normed, y);
    add_to(in, y);
    if (post) {
        naive_norm(w, norm1, D, in, normed);
        memcpy(in, normed, sizeof normed);
    } else {
        naive_norm(w, norm2, D, in, normed);
    }
    naive_feed_forward(w, v, prefix, normed, y);
    add_to(other, y);
    if (post) {
        naive_norm(w, norm2, D, in, normed);
        memcpy(in, normed, sizeof normed);
    }
}

/* The logits of every row of one sequence. */
void naive_logits(const weights *w, const variant *v, const int32_t *ids, int32_t rows,
                  double (*logits)[V])
{
    for (int32_t t = 0; t < rows; t++) {
        double x[2][D] = {{0}}, normed[2 * D];
        for (int32_t j = 0; j < INPUTS; j++) {
            for (int i = 0; i < D; i++)
                x[0][i] += w->tensor[j].values[ids[t * INPUTS + j] * D + i];
        }
        memcpy(x[1], x[0], sizeof x[0]);
        for (int32_t layer = 0; layer < LAYERS; layer++)
            naive_layer(w, v, layer, t, x);
        naive_norm(w, "final_norm", output_width(v), x[0], normed);
        naive_linear(w, "head", V, output_width(v), normed, logits[t]);
    }
}
