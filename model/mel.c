/* Log energies of mel bands (see mel.h). */
#include "model/mel.h"

#include <kiss_fftr.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double QUIET = 1e-6, STEADY = 0.01, PI = 3.14159265358979323846;

typedef struct band {
    int32_t first, n; /* bins of the FFT */
    float *weights;   /* [n], within lx_mel's */
} band;

struct lx_mel {
    lx_mel_config c;
    int32_t size;   /* of the FFT */
    float *window;  /* [frame] */
    float *weights; /* of all bands */
    band *bands;    /* [n_bands] */
};

/* --- filters --- */

static double mel_of(double hertz)
{
    return 1127 * log1p(hertz / 700);
}

static double corner(const lx_mel_config *c, int32_t i)
{
    double low = mel_of(c->lowest), high = mel_of(c->rate / 2.0);
    return 700 * expm1((low + (high - low) * i / (c->n_bands + 1)) / 1127);
}

static double triangle(const lx_mel *m, int32_t b, int32_t bin)
{
    double low = corner(&m->c, b), middle = corner(&m->c, b + 1), high = corner(&m->c, b + 2);
    double f = (double)bin * m->c.rate / m->size;
    return fmin((f - low) / (middle - low), (high - f) / (high - middle));
}

static lx_status fill_band(lx_mel *m, int32_t b, float *weights, lx_error *err)
{
    band *own = &m->bands[b];
    *own = (band){.weights = weights};
    for (int32_t bin = 0; bin <= m->size / 2; bin++) {
        double weight = triangle(m, b, bin);
        if (weight <= 0)
            continue;
        if (own->n == 0)
            own->first = bin;
        own->weights[own->n++] = (float)weight;
    }
    if (own->n == 0)
        return lx_fail(err, LX_ERR_INVALID, "bands",
                       "bands %d of frame %d are too many: band %d has no bin of the spectrum",
                       m->c.n_bands, m->c.frame, b);
    return LX_OK;
}

/* Every bin is in two bands at most. */
static lx_status fill(lx_mel *m, lx_error *err)
{
    lx_status st = LX_OK;
    float *weights = m->weights;
    for (int32_t b = 0; b < m->c.n_bands && st == LX_OK; b++) {
        st = fill_band(m, b, weights, err);
        weights += m->bands[b].n;
    }
    for (int32_t i = 0; i < m->c.frame; i++)
        m->window[i] = (float)(0.5 - 0.5 * cos(2 * PI * i / m->c.frame));
    return st;
}

/* The maximum of a field that the other fields allow. */
static int32_t most_of(const lx_mel_config *c, const lx_mel_field *f)
{
    if (f->offset == offsetof(lx_mel_config, hop) && c->frame < f->max)
        return c->frame;
    if (f->offset == offsetof(lx_mel_config, lowest) && c->rate / 2 - 1 < f->max)
        return c->rate / 2 - 1;
    return f->max;
}

static lx_status check(const lx_mel_config *c, lx_error *err)
{
    for (const lx_mel_field *f = lx_mel_fields; f->name != NULL; f++) {
        int32_t value, most = most_of(c, f);
        memcpy(&value, (const char *)c + f->offset, sizeof value);
        if (value < f->min || value > most)
            return lx_fail(err, LX_ERR_INVALID, f->name, "%s is %d, not %d to %d", f->name, value,
                           f->min, most);
    }
    return LX_OK;
}

lx_status lx_mel_new(const lx_mel_config *c, lx_mel **out, lx_error *err)
{
    lx_status st = check(c, err);
    if (st != LX_OK)
        return st;
    lx_mel *m = calloc(1, sizeof *m);
    if (m == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for mel bands");
    m->c = *c;
    m->size = 1;
    while (m->size < c->frame)
        m->size *= 2;
    m->window = malloc(sizeof *m->window * (size_t)c->frame);
    m->weights = malloc(sizeof *m->weights * ((size_t)m->size + 2));
    m->bands = malloc(sizeof *m->bands * (size_t)c->n_bands);
    if (m->window == NULL || m->weights == NULL || m->bands == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for mel bands");
    else
        st = fill(m, err);
    if (st == LX_OK)
        *out = m;
    else
        lx_mel_free(m);
    return st;
}

void lx_mel_free(lx_mel *m)
{
    if (m == NULL)
        return;
    free(m->window);
    free(m->weights);
    free(m->bands);
    free(m);
}

/* --- sizes --- */

static int32_t frames_of(const lx_mel *m, int32_t n_samples)
{
    return n_samples < m->c.frame ? 0 : 1 + (n_samples - m->c.frame) / m->c.hop;
}

int32_t lx_mel_width(const lx_mel *m)
{
    return lx_mel_row_floats(&m->c);
}

int32_t lx_mel_rows(const lx_mel *m, int32_t n_samples)
{
    return (frames_of(m, n_samples) + m->c.stride - 1) / m->c.stride;
}

double lx_mel_seconds(const lx_mel *m, int32_t row)
{
    return ((double)row * m->c.stride * m->c.hop + m->c.frame / 2.0) / m->c.rate;
}

/* --- energies --- */

/* Memory of a call; one allocation each. */
typedef struct work {
    kiss_fftr_cfg fft;
    float *frame;           /* [size], zero after the window */
    kiss_fft_cpx *spectrum; /* [size / 2 + 1] */
    float *bands;           /* [frames, n_bands] */
} work;

static void work_fini(work *w)
{
    free(w->fft);
    free(w->frame);
    free(w->spectrum);
    free(w->bands);
}

/* The library's plan lies in memory of ours, whose failing is seen. */
static lx_status work_init(const lx_mel *m, int32_t n_frames, work *w, lx_error *err)
{
    size_t size = (size_t)m->size, plan = 0;
    (void)kiss_fftr_alloc(m->size, 0, NULL, &plan);
    *w = (work){.fft = malloc(plan),
                .frame = calloc(size, sizeof *w->frame),
                .spectrum = malloc(sizeof *w->spectrum * (size / 2 + 1)),
                .bands = malloc(sizeof *w->bands * (size_t)n_frames * (size_t)m->c.n_bands)};
    if (w->fft != NULL && w->frame != NULL && w->spectrum != NULL && w->bands != NULL &&
        kiss_fftr_alloc(m->size, 0, w->fft, &plan) != NULL)
        return LX_OK;
    work_fini(w);
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the features of a sound");
}

static void energies(const lx_mel *m, const work *w, const float *samples, float *to)
{
    for (int32_t i = 0; i < m->c.frame; i++)
        w->frame[i] = samples[i] * m->window[i];
    kiss_fftr(w->fft, w->frame, w->spectrum);
    for (int32_t b = 0; b < m->c.n_bands; b++) {
        const band *own = &m->bands[b];
        const kiss_fft_cpx *bins = w->spectrum + own->first;
        double sum = QUIET;
        for (int32_t k = 0; k < own->n; k++)
            sum +=
                own->weights[k] * ((double)bins[k].r * bins[k].r + (double)bins[k].i * bins[k].i);
        to[b] = (float)log(sum);
    }
}

static void normalise(float *bands, int32_t n_frames, int32_t n_bands, int32_t b)
{
    double mean = 0, squares = 0;
    for (int32_t t = 0; t < n_frames; t++)
        mean += bands[(int64_t)t * n_bands + b];
    mean /= n_frames;
    for (int32_t t = 0; t < n_frames; t++) {
        double off = bands[(int64_t)t * n_bands + b] - mean;
        squares += off * off;
    }
    double scale = 1 / (sqrt(squares / n_frames) + STEADY);
    for (int32_t t = 0; t < n_frames; t++)
        bands[(int64_t)t * n_bands + b] = (float)((bands[(int64_t)t * n_bands + b] - mean) * scale);
}

static void splice(const lx_mel *m, const float *bands, int32_t n_frames, float *rows)
{
    int32_t n_bands = m->c.n_bands;
    for (int32_t middle = 0; middle < n_frames; middle += m->c.stride)
        for (int32_t off = -m->c.context; off <= m->c.context; off++, rows += n_bands) {
            int32_t t = middle + off < 0           ? 0
                        : middle + off >= n_frames ? n_frames - 1
                                                   : middle + off;
            memcpy(rows, bands + (int64_t)t * n_bands, sizeof *rows * (size_t)n_bands);
        }
}

lx_status lx_mel_compute(const lx_mel *m, const float *samples, int32_t n_samples, float *rows,
                         lx_error *err)
{
    int32_t n_frames = frames_of(m, n_samples);
    work w;
    lx_status st = work_init(m, n_frames, &w, err);
    if (st != LX_OK)
        return st;
    for (int32_t t = 0; t < n_frames; t++)
        energies(m, &w, samples + (int64_t)t * m->c.hop, w.bands + (int64_t)t * m->c.n_bands);
    for (int32_t b = 0; b < m->c.n_bands; b++)
        normalise(w.bands, n_frames, m->c.n_bands, b);
    splice(m, w.bands, n_frames, rows);
    work_fini(&w);
    return LX_OK;
}
