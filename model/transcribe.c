/* From a sound file to text (see transcribe.h). */
#include "model/transcribe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/ctc.h"
#include "model/formats/sound.h"
#include "model/tasks/speech.h"

/* The memory of libsndfile, its decoder and a resampler, in addition to the samples. */
enum { DECODER_BYTES = 4 << 20 };

struct lx_listener {
    const lx_model *model;
    lx_mel *mel;
    int32_t most_samples;
    int32_t longest_text; /* bytes of a token */
};

lx_status lx_listener_new(const lx_model *model, lx_listener **out, lx_error *err)
{
    if (model->task != &lx_speech_task)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "model %s has the task %s and does not transcribe sounds", model->name,
                       model->config.task);
    lx_listener *l = calloc(1, sizeof *l);
    if (l == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a listener");
    l->model = model;
    l->most_samples = (int32_t)lx_speech_most_samples(&model->config);
    for (int32_t id = 0; id < model->config.head_size; id++) {
        int32_t n = (int32_t)strlen(lx_vocab_text(model->vocab, id));
        l->longest_text = n > l->longest_text ? n : l->longest_text;
    }
    lx_status st = lx_mel_new(lx_speech_of(&model->config), &l->mel, err);
    if (st != LX_OK) {
        lx_listener_free(l);
        return st;
    }
    *out = l;
    return LX_OK;
}

void lx_listener_free(lx_listener *l)
{
    if (l == NULL)
        return;
    lx_mel_free(l->mel);
    free(l);
}

/* --- sizes --- */

double lx_listener_longest(const lx_listener *l)
{
    return (double)l->most_samples / lx_speech_of(&l->model->config)->rate;
}

/* Of an utterance of so many rows. */
static int64_t floats_of(const lx_listener *l, int64_t rows)
{
    return rows * (lx_mel_width(l->mel) + l->model->config.head_size);
}

int64_t lx_listener_bytes(const lx_listener *l, int32_t width)
{
    const lx_mel_config *c = lx_speech_of(&l->model->config);
    int64_t rows = l->model->max_rows, frames = rows * c->stride, number = sizeof(float);
    int64_t reading = DECODER_BYTES + number * (l->most_samples + frames * c->n_bands);
    int64_t writing = rows * (int64_t)(sizeof(lx_ctc_token) + sizeof(lx_spoken)) +
                      rows * l->longest_text + 1 +
                      (width > 0 ? lx_ctc_beam_bytes(l->model->max_rows, width) : 0);
    return number * floats_of(l, rows) + (reading > writing ? reading : writing);
}

/* --- reading --- */

static lx_status make_rows(const lx_listener *l, const lx_sound *sound, const char *param,
                           lx_utterance *u, lx_error *err)
{
    const lx_mel_config *c = lx_speech_of(&l->model->config);
    int32_t n_rows = lx_mel_rows(l->mel, sound->n);
    if (n_rows == 0)
        return lx_fail(err, LX_ERR_INVALID, param,
                       "the sound is shorter than %.3f s, the least for model %s",
                       (double)c->frame / c->rate, l->model->name);
    float *rows = malloc(sizeof *rows * (size_t)floats_of(l, n_rows));
    if (rows == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the rows of a sound");
    lx_status st = lx_mel_compute(l->mel, sound->samples, sound->n, rows, err);
    if (st != LX_OK) {
        free(rows);
        return st;
    }
    *u = (lx_utterance){
        .input = {.rows = rows,
                  .n_rows = n_rows,
                  .log_p = rows + (int64_t)n_rows * lx_mel_width(l->mel)},
        .duration = (double)sound->n / c->rate,
        .memory = rows,
    };
    return LX_OK;
}

static lx_sound_limits limits_of(const lx_listener *l)
{
    return (lx_sound_limits){.rate = lx_speech_of(&l->model->config)->rate,
                             .n_samples = l->most_samples};
}

lx_status lx_listener_weigh(const lx_listener *l, const void *file, size_t bytes, const char *param,
                            int64_t *rows, lx_error *err)
{
    const lx_sound_limits limits = limits_of(l);
    int64_t samples = 0;
    lx_status st = lx_sound_weigh(file, bytes, &limits, param, &samples, err);
    double times = (double)samples / l->most_samples;
    *rows = (int64_t)ceil(l->model->max_rows * (times > 1 ? times : 1));
    return st;
}

lx_status lx_listener_read(const lx_listener *l, const void *file, size_t bytes, const char *param,
                           lx_utterance *out, lx_error *err)
{
    const lx_sound_limits limits = limits_of(l);
    lx_sound sound = {0};
    lx_status st = lx_sound_read(file, bytes, &limits, param, &sound, err);
    if (st != LX_OK)
        return st;
    st = make_rows(l, &sound, param, out, err);
    lx_sound_fini(&sound);
    return st;
}

void lx_utterance_fini(lx_utterance *u)
{
    free(u->memory);
    *u = (lx_utterance){0};
}

/* --- writing --- */

/* A row stands for the time around its middle, as long as it is to the next one's. */
static lx_spoken spoken(const lx_listener *l, const lx_ctc_token *t, double duration)
{
    const lx_mel_config *c = lx_speech_of(&l->model->config);
    double half = (double)c->stride * c->hop / c->rate / 2;
    return (lx_spoken){
        .text = lx_vocab_text(l->model->vocab, t->id),
        .id = t->id,
        .start = fmax(lx_mel_seconds(l->mel, t->first) - half, 0),
        .end = fmin(lx_mel_seconds(l->mel, t->last) + half, duration),
    };
}

static lx_status render(const lx_listener *l, const lx_ctc_line *line, double duration,
                        lx_transcription *out, lx_error *err)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < line->n; i++)
        bytes += strlen(lx_vocab_text(l->model->vocab, line->tokens[i].id));
    char *text = malloc(bytes + 1);
    lx_spoken *tokens = calloc((size_t)line->n + 1, sizeof *tokens);
    if (text == NULL || tokens == NULL) {
        free(text);
        free(tokens);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transcription");
    }
    size_t at = 0;
    for (int32_t i = 0; i < line->n; i++) {
        tokens[i] = spoken(l, &line->tokens[i], duration);
        size_t n = strlen(tokens[i].text);
        memcpy(text + at, tokens[i].text, n);
        at += n;
    }
    text[at] = '\0';
    *out = (lx_transcription){
        .text = text, .n = line->n, .tokens = tokens, .log_p = line->log_p, .duration = duration};
    return LX_OK;
}

lx_status lx_listener_write(const lx_listener *l, const lx_utterance *u, int32_t width,
                            lx_transcription *out, lx_error *err)
{
    const lx_ctc_input in = {.log_p = u->input.log_p,
                             .n_rows = u->input.n_rows,
                             .n_ids = l->model->config.head_size,
                             .blank = LX_SPEECH_BLANK,
                             .fault = u->fault,
                             .context = u->context};
    if (width < 0 || width > LX_CTC_MAX_WIDTH)
        return lx_fail(err, LX_ERR_INVALID, "beam", "beam is %d, not 0 to %d", width,
                       LX_CTC_MAX_WIDTH);
    lx_ctc_line line = {.tokens = calloc((size_t)in.n_rows, sizeof *line.tokens)};
    if (line.tokens == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transcription");
    lx_status st = LX_OK;
    if (width == 0)
        lx_ctc_greedy(&in, &line);
    else
        st = lx_ctc_beam(&in, width, &line, err);
    if (st == LX_OK)
        st = render(l, &line, u->duration, out, err);
    free(line.tokens);
    return st;
}

void lx_transcription_fini(lx_transcription *t)
{
    free(t->text);
    free(t->tokens);
    *t = (lx_transcription){0};
}

lx_status lx_transcribe(const lx_listener *l, lx_encoder *e, const void *file, size_t bytes,
                        const char *param, int32_t width, lx_transcription *out, lx_error *err)
{
    lx_utterance u = {0};
    lx_status st = lx_listener_read(l, file, bytes, param, &u, err);
    if (st == LX_OK)
        st = lx_encoder_run(e, &u.input, 1, err);
    if (st == LX_OK)
        st = lx_listener_write(l, &u, width, out, err);
    lx_utterance_fini(&u);
    return st;
}
