/* The checks of a speech model's folder (see speech.h). */
#include "model/tasks/speech.h"

#include <string.h>

#include "model/config_reader.h"
#include "model/ctc.h"
#include "model/model_files.h"

enum { MOST_SAMPLES = 1 << 24 }; /* of a sound, as floats 64 MiB */

static void read_config(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    lx_mel_config *mel = lx_speech_own(c);
    lx_config_object t = lx_config_section(r, s, "speech", "speech.");
    for (int32_t i = 0; lx_mel_fields[i].name != NULL; i++) {
        const lx_mel_field *f = &lx_mel_fields[i];
        int32_t value = lx_config_int(r, t, f->name, f->min, f->max);
        memcpy((char *)mel + f->offset, &value, sizeof value);
    }
    lx_config_finish(r, t);
    lx_config_release(s, "speech");
    c->n_features = lx_mel_row_floats(mel);
}

int64_t lx_speech_most_samples(const lx_config *c)
{
    int64_t frames = (int64_t)c->inputs[0].size * lx_speech_of(c)->stride;
    return (frames - 1) * lx_speech_of(c)->hop + lx_speech_of(c)->frame + lx_speech_of(c)->hop - 1;
}

static lx_status check_head(const lx_model *model, lx_error *err)
{
    const lx_vocab *v = model->vocab;
    if (v == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: the speech task needs it");
    if (model->config.head_size != lx_vocab_size(v))
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       "config.json: head: size %d, but vocab.txt has %d entries",
                       model->config.head_size, lx_vocab_size(v));
    for (int32_t id = 0; id < lx_vocab_size(v); id++) {
        if ((lx_vocab_special(v, "<blank>") == id) != (id == LX_SPEECH_BLANK))
            return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: line 1 must be <blank>");
        if (id != LX_SPEECH_BLANK && lx_vocab_is_special(v, id))
            return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: line %d: %s can not be said",
                           id + 1, lx_vocab_text(v, id));
    }
    return LX_OK;
}

static lx_status check_model(const lx_model *model, lx_error *err)
{
    const lx_config *c = &model->config;
    lx_error why = {0};
    lx_mel *mel = NULL;
    if (c->n_inputs != 1 || strcmp(c->inputs[0].name, "position") != 0)
        return lx_fail(err, LX_ERR_FORMAT, "inputs",
                       "config.json: inputs: a model of speech has one, position");
    if (c->inputs[0].size > LX_CTC_MAX_ROWS)
        return lx_fail(err, LX_ERR_FORMAT, "inputs",
                       "config.json: inputs: position: size %d, at most %d", c->inputs[0].size,
                       LX_CTC_MAX_ROWS);
    if (c->wiring == LX_WIRING_REVERSIBLE)
        return lx_fail(err, LX_ERR_FORMAT, "norm",
                       "config.json: norm: reversible is not for a model of speech");
    lx_status st = lx_mel_new(lx_speech_of(c), &mel, &why);
    lx_mel_free(mel);
    if (st == LX_ERR_INVALID)
        return lx_fail(err, LX_ERR_FORMAT, why.param, "config.json: speech.%s", why.text);
    if (st != LX_OK)
        return lx_fail(err, st, why.param, "%s", why.text);
    if (lx_speech_most_samples(c) > MOST_SAMPLES)
        return lx_fail(err, LX_ERR_FORMAT, "speech",
                       "config.json: %d positions of speech.stride %d and speech.hop %d are more "
                       "than %d samples",
                       c->inputs[0].size, lx_speech_of(c)->stride, lx_speech_of(c)->hop,
                       MOST_SAMPLES);
    return check_head(model, err);
}

static int32_t max_rows(const lx_model *model)
{
    return model->config.inputs[0].size;
}

static void card(const lx_model *model, lx_task_card *card)
{
    int32_t rate = lx_speech_of(&model->config)->rate;
    lx_card_add(card, (lx_card_field){"sample_rate", LX_CARD_INT, .number = rate});
    lx_card_add(card,
                (lx_card_field){"max_seconds", LX_CARD_REAL,
                                .number = (double)lx_speech_most_samples(&model->config) / rate});
}

const lx_task_ops lx_speech_task = {
    .name = "speech",
    .modality = LX_SPEECH,
    .read_config = read_config,
    .load = lx_model_read_vocab,
    .card = card,
    .check_model = check_model,
    .max_rows = max_rows,
};
