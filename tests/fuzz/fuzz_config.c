/* config.json, Linnet's own or Hugging Face's: an accepted config is within the limits of
   docs/weights-format.md. */
#include <string.h>

#include "model/formats/hugging_face/folder.h"
#include "model/tasks/image.h"
#include "model/tasks/speech.h"
#include "tests/fuzz/subject.h"

static void check_image(const lx_config *config)
{
    if (strcmp(config->task, "image") != 0)
        return;
    const lx_image_config *c = lx_image_of(config);
    MUST(c->width >= 1 && c->width <= 4096 && c->height >= 1 && c->height <= 65536);
    MUST(c->n_channels == 1 || c->n_channels == 3);
    MUST((int64_t)c->width * c->height * c->n_channels <= 1 << 20);
}

static void check_head(const lx_config *c)
{
    MUST(c->head_kind == LX_HEAD_LOGISTIC_MIXTURE ? c->head_size == 3 * c->n_components
                                                  : c->head_size == c->n_values);
}

static void check_speech(const lx_config *c)
{
    bool speech = strcmp(c->task, "speech") == 0;
    const lx_mel_config *mel = lx_speech_of(c);
    MUST(speech == (c->n_features > 0));
    MUST(!speech || (mel->n_bands <= 256 && mel->context <= 64 && mel->stride <= 64));
    MUST(c->head_kind != LX_HEAD_CTC || (c->head_size >= 2 && c->head_size <= 1024));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    lx_config c;
    lx_error err = {0};
    bool is_theirs = false;
    const char *path = subject_file(data, n);
    lx_status st = lx_hf_config_load(path, &c, &is_theirs, &err);
    if (st == LX_OK && !is_theirs)
        st = lx_config_load(path, &c, &err);
    if (st == LX_ERR_NOT_FOUND || st == LX_ERR_IO) { /* of the folder that "base" names, no other */
        subject_check_text(st, &err);
        MUST(strstr(err.text, "/config.json: ") != NULL);
        return 0;
    }
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return 0;
    }
    MUST(c.n_layers >= 1 && c.n_layers <= LX_MAX_LAYERS && c.n_heads >= 1 && c.d_model >= 1);
    MUST(c.d_key >= 1 && c.d_key <= 4096 && c.d_value >= 1 && c.d_value <= 4096);
    MUST(c.n_inputs >= 1 && c.n_inputs <= LX_MAX_INPUTS);
    for (int32_t i = 0; i < c.n_inputs; i++)
        MUST(c.inputs[i].size >= 1 && strlen(c.inputs[i].name) < LX_MAX_NAME);
    MUST(c.head_size >= 1 && c.n_values >= 1);
    check_head(&c);
    check_image(&c);
    check_speech(&c);
    return 0;
}
