/*
 * Log-probabilities of images against images.bin: every value of every image, or the first of them,
 * and bits per value. The slow ones look at a quarter of the images, and of each at the first
 * quarter. The images are scored as `linnet eval` does it, many rows per step.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/score.h"
#include "model/tasks/image.h"
#include "tests/golden/golden.h"

enum { N_SLOTS = 4 };
static const double value_bound = 1e-3, mean_bound = 1e-4; /* nats; bits per value */

typedef struct header {
    int32_t images, size;
} header;

typedef struct fixture {
    FILE *file;
    header h;
    uint8_t *values;  /* [size] */
    int32_t *targets; /* [size] */
    float *golden, *logprobs;
} fixture;

static bool read_exactly(fixture *f, void *out, size_t n)
{
    return fread(out, 1, n, f->file) == n;
}

static bool open_fixture(fixture *f, const char *dir)
{
    char path[4096], magic[8];
    (void)snprintf(path, sizeof path, "%s/images.bin", dir);
    f->file = fopen(path, "rb");
    if (f->file == NULL || !read_exactly(f, magic, sizeof magic) ||
        memcmp(magic, "LXGOLI1", 8) != 0 || !read_exactly(f, &f->h, sizeof f->h) ||
        f->h.images < 1 || f->h.size < 1)
        return false;
    size_t n = (size_t)f->h.size;
    f->values = calloc(n, 1);
    f->targets = calloc(n, sizeof *f->targets);
    f->golden = calloc(n, sizeof *f->golden);
    f->logprobs = calloc(n, sizeof *f->logprobs);
    return f->values != NULL && f->targets != NULL && f->golden != NULL && f->logprobs != NULL;
}

static void close_fixture(fixture *f)
{
    if (f->file != NULL)
        (void)fclose(f->file);
    free(f->values);
    free(f->targets);
    free(f->golden);
    free(f->logprobs);
}

static lx_status score(fixture *f, const lx_model *model, lx_scorer *scorer, lx_error *err)
{
    lx_plan *plan = NULL;
    lx_status st = lx_plan_new(model, &(lx_task_request){0}, &plan, err);
    if (st != LX_OK)
        return st;
    plan->n_new = golden_part(f->h.size);
    for (int32_t i = 0; i < plan->n_new; i++)
        f->targets[i] = f->values[i];
    lx_score_item item = {plan, f->targets, f->logprobs};
    st = lx_scorer_run(scorer, &item, 1, err);
    lx_plan_free(plan);
    return st;
}

static void check_image(fixture *f, const lx_model *model, lx_scorer *scorer, int32_t i,
                        const char *what, double *worst)
{
    lx_error err = {0};
    size_t n = (size_t)f->h.size;
    if (!read_exactly(f, f->values, n) || !read_exactly(f, f->golden, n * sizeof *f->golden) ||
        score(f, model, scorer, &err) != LX_OK) {
        golden_count(false, "%s: image %d: %s", what, i + 1, err.text);
        return;
    }
    double value = 0, sum = 0;
    int32_t scored = golden_part(f->h.size);
    for (int32_t k = 0; k < scored; k++) {
        double difference = (double)f->logprobs[k] - (double)f->golden[k];
        value = fmax(value, fabs(difference));
        sum += difference;
    }
    double mean = fabs(sum) / scored / log(2);
    *worst = fmax(*worst, value);
    golden_count(value <= value_bound && mean <= mean_bound,
                 "%s: image %d differs by %g nats at a value, %g bits per value", what, i + 1,
                 value, mean);
}

void golden_images(lx_transformer *t, const char *dir, const char *what)
{
    const lx_model *model = lx_transformer_model(t);
    fixture f = {0};
    lx_scorer *scorer = NULL;
    lx_error err = {0};
    double worst = 0;
    lx_status st = lx_scorer_new(t, GOLDEN_ROWS, N_SLOTS, &scorer, &err);
    if (st == LX_OK && !open_fixture(&f, dir))
        st = lx_fail(&err, LX_ERR_IO, NULL, "%s: no readable images.bin", dir);
    if (st == LX_OK && f.h.size > lx_image_size(&model->config))
        st = lx_fail(&err, LX_ERR_INVALID, NULL, "the fixture does not fit the model");
    if (st != LX_OK)
        golden_count(false, "%s: %s", what, err.text);
    for (int32_t i = 0; i < golden_part(f.h.images) && st == LX_OK; i++)
        check_image(&f, model, scorer, i, what, &worst);
    if (st == LX_OK)
        (void)printf("%-28s worst difference of a log-probability %.2e nats\n", what, worst);
    lx_scorer_free(scorer);
    close_fixture(&f);
}
