/*
 * Log-probabilities of a model that sees its whole input against hears.bin: every number of every
 * input, all inputs in one pass.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/encoder.h"
#include "tests/golden/golden.h"

enum { MAX_INPUTS = 8 };
static const double bound = 1e-4;

typedef struct header {
    int32_t inputs, width, ids;
} header;

typedef struct fixture {
    FILE *file;
    header h;
    int32_t n_rows; /* of all inputs */
    lx_encoder_input inputs[MAX_INPUTS];
    float *golden[MAX_INPUTS];
} fixture;

static float *read_floats(fixture *f, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    if (x != NULL && fread(x, sizeof *x, (size_t)n, f->file) == (size_t)n)
        return x;
    free(x);
    return NULL;
}

static bool read_input(fixture *f, const lx_model *model, int32_t i)
{
    lx_encoder_input *in = &f->inputs[i];
    if (fread(&in->n_rows, sizeof in->n_rows, 1, f->file) != 1 || in->n_rows < 1 ||
        in->n_rows > model->max_rows)
        return false;
    f->n_rows += in->n_rows;
    in->rows = read_floats(f, (int64_t)in->n_rows * f->h.width);
    f->golden[i] = read_floats(f, (int64_t)in->n_rows * f->h.ids);
    in->log_p = calloc((size_t)in->n_rows * (size_t)f->h.ids, sizeof *in->log_p);
    return in->rows != NULL && f->golden[i] != NULL && in->log_p != NULL;
}

static bool read_fixture(fixture *f, const lx_model *model, const char *dir)
{
    char path[4096], magic[8];
    (void)snprintf(path, sizeof path, "%s/hears.bin", dir);
    f->file = fopen(path, "rb");
    if (f->file == NULL || fread(magic, sizeof magic, 1, f->file) != 1 ||
        memcmp(magic, "LXGOLH1", 8) != 0 || fread(&f->h, sizeof f->h, 1, f->file) != 1 ||
        f->h.inputs < 1 || f->h.inputs > MAX_INPUTS || f->h.width != lx_encoder_width(model) ||
        f->h.ids != model->config.head_size)
        return false;
    bool ok = true;
    for (int32_t i = 0; i < f->h.inputs && ok; i++)
        ok = read_input(f, model, i);
    return ok && fgetc(f->file) == EOF;
}

static void free_fixture(fixture *f)
{
    if (f->file != NULL)
        (void)fclose(f->file);
    for (int32_t i = 0; i < MAX_INPUTS; i++) {
        free((float *)f->inputs[i].rows);
        free(f->inputs[i].log_p);
        free(f->golden[i]);
    }
}

static void compare(const fixture *f, const char *what)
{
    double all = 0;
    for (int32_t i = 0; i < f->h.inputs; i++) {
        double worst = 0;
        for (int64_t k = 0; k < (int64_t)f->inputs[i].n_rows * f->h.ids; k++)
            worst = fmax(worst, fabs((double)f->inputs[i].log_p[k] - (double)f->golden[i][k]));
        golden_count(worst <= bound, "%s: input %d of %d rows differs by %g nats", what, i + 1,
                     f->inputs[i].n_rows, worst);
        all = fmax(all, worst);
    }
    (void)printf("%-28s %d inputs, worst difference %.2e nats\n", what, f->h.inputs, all);
}

void golden_sounds(const lx_model *model, lx_backend *be, const char *dir, const char *what)
{
    fixture f = {0};
    lx_encoder *e = NULL;
    lx_error err = {0};
    lx_status st = LX_OK;
    if (!read_fixture(&f, model, dir))
        st = lx_fail(&err, LX_ERR_IO, NULL, "%s: no hears.bin that fits the model", dir);
    if (st == LX_OK)
        st = lx_encoder_new(model, be, f.n_rows < model->max_rows ? model->max_rows : f.n_rows,
                            f.h.inputs, &e, &err);
    if (st == LX_ERR_UNSUPPORTED) {
        golden_count(strstr(err.text, " both ways is not on the back end ") != NULL, "%s: %s", what,
                     err.text);
    } else {
        if (st == LX_OK)
            st = lx_encoder_run(e, f.inputs, f.h.inputs, &err);
        if (st == LX_OK)
            compare(&f, what);
        else
            golden_count(false, "%s: %s", what, err.text);
    }
    lx_encoder_free(e);
    free_fixture(&f);
}
