/* Images of linnet generate (see generate_image.h). */
#include "server/cli/generate_image.h"

#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "model/formats/file.h"
#include "model/formats/png.h"
#include "model/tasks/image.h"
#include "server/cli/progress.h"

enum { MAX_PNG_BYTES = 64 << 20, MAX_SHEET_BYTES = 1 << 30, POLL_MS = 50 };

lx_status lx_generate_read_given(const char *path, const lx_config *config, uint8_t **values,
                                 int32_t *n_values, lx_error *err)
{
    char *data = NULL;
    size_t n = 0;
    lx_error why = {0};
    lx_status st = lx_file_read(path, MAX_PNG_BYTES, &data, &n, err);
    if (st != LX_OK)
        return st;
    st = lx_picture_read_prefix(config, (lx_png_file){data, n}, (lx_png_file){NULL, 0}, values,
                                n_values, &why);
    free(data);
    return st == LX_OK ? st : lx_fail(err, st, "complete", "%s: %s", lx_file_label(path), why.text);
}

typedef struct sheet {
    const lx_job *job;
    uint8_t *values; /* one image */
} sheet;

static const uint8_t *sheet_image(void *context, int32_t i)
{
    sheet *s = context;
    const int32_t *tokens = NULL;
    int32_t n = lx_job_tokens(s->job, i, &tokens, NULL);
    const lx_plan *plan = lx_job_plan(s->job);
    lx_image_values(plan, tokens, 0, lx_image_given(plan) + n, s->values);
    return s->values;
}

static lx_status encode(sheet *s, lx_buffer *png, lx_error *err)
{
    const lx_image_config *c = lx_image_of(&lx_job_plan(s->job)->model->config);
    int32_t n = lx_job_get_params(s->job)->n;
    if (n == 1)
        return lx_png_write(sheet_image(s, 0), c->width, c->height, c->n_channels, png, err);
    return lx_png_write_sheet(n, c->width, c->height, c->n_channels, sheet_image, s, png, err);
}

lx_status lx_generate_write_png(const lx_job *job, FILE *out, lx_error *err)
{
    size_t size = (size_t)lx_image_size(&lx_job_plan(job)->model->config);
    sheet s = {.job = job, .values = calloc(size, 1)};
    if (s.values == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an image");
    lx_buffer png;
    lx_buffer_init(&png, MAX_SHEET_BYTES);
    lx_status st = encode(&s, &png, err);
    if (st == LX_OK && (fwrite(png.data, 1, png.length, out) != png.length || fflush(out) != 0))
        st = lx_fail(err, LX_ERR_IO, "png", "--png: the file cannot be written");
    lx_buffer_fini(&png);
    free(s.values);
    return st;
}

void lx_generate_wait(lx_job *job)
{
    const lx_job_params *params = lx_job_get_params(job);
    const struct timespec pause = {.tv_nsec = POLL_MS * LX_NS_PER_MS};
    lx_progress bar;
    lx_progress_begin(&bar, "pixels", (int64_t)params->n * params->max_new);
    while (bar.on && !lx_job_finished(job)) {
        int64_t done = 0;
        for (int32_t i = 0; i < params->n; i++)
            done += lx_job_tokens(job, i, NULL, NULL);
        lx_progress_update(&bar, done);
        (void)nanosleep(&pause, NULL);
    }
    lx_progress_end(&bar);
    lx_job_wait(job);
}
