/*
 * GGUF: of an accepted file the config is within its limits, the tokenizer encodes, and every
 * tensor of the list can be found and every number read.
 */
#include <math.h>
#include <stdlib.h>

#include "model/formats/gguf/gguf.h"
#include "model/tokenizers/tokenizer.h"
#include "tests/fuzz/subject.h"

static void check_numbers(const lx_safetensors *f)
{
    lx_error err = {0};
    for (int32_t i = 0; i < lx_safetensors_count(f); i++) {
        const lx_tensor *t = lx_safetensors_at(f, i);
        int64_t n = t->t.rows * t->t.cols;
        float *numbers = malloc((size_t)n * sizeof *numbers);
        MUST(numbers != NULL);
        lx_status st = lx_safetensors_numbers(f, t, numbers, &err);
        for (int64_t k = 0; st == LX_OK && k < n; k++)
            MUST(isfinite(numbers[k]));
        if (st != LX_OK)
            subject_check_error(st, &err);
        free(numbers);
    }
}

/* The status of making a tokenizer, which must be able to encode a text. */
static void check_tokenizer(const struct lx_gguf *f)
{
    static const char text[] = "ab 12 \xc3\xa9";
    lx_tokenizer *t = NULL;
    lx_error err = {0};
    lx_token_list ids;
    lx_status st = lx_gguf_tokenizer(f, &t, &err);
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return;
    }
    lx_token_list_init(&ids, 1 << 10);
    st = lx_tokenizer_encode(t, text, sizeof text - 1, 0, &ids, &err);
    MUST(st == LX_OK || st == LX_ERR_INVALID);
    lx_token_list_fini(&ids);
    lx_tokenizer_free(t);
}

static void check_chat(const struct lx_gguf *f)
{
    lx_hf_chat chat;
    lx_text_sampling sampling;
    lx_error err = {0};
    lx_status st = lx_gguf_chat(f, &chat, &err);
    if (st == LX_OK)
        lx_hf_chat_fini(&chat);
    else
        subject_check_error(st, &err);
    st = lx_gguf_sampling(f, &sampling, &err);
    if (st != LX_OK)
        subject_check_error(st, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static lx_config config;
    struct lx_gguf *f = NULL;
    const struct lx_gguf_arch *arch = NULL;
    lx_safetensors *tensors = NULL;
    lx_error err = {0};
    lx_status st = lx_gguf_open(subject_file(data, n), &f, &err);
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return 0;
    }
    check_tokenizer(f);
    check_chat(f);
    st = lx_gguf_config(f, &config, &arch, &err);
    if (st == LX_OK) {
        MUST(config.n_layers >= 1 && config.n_layers <= LX_MAX_LAYERS && config.n_inputs == 1);
        st = lx_gguf_weights(f, arch, &config, &tensors, &err);
    }
    if (st == LX_OK) {
        check_numbers(tensors);
        lx_safetensors_close(tensors);
        return 0;
    }
    subject_check_error(st, &err);
    lx_gguf_close(f);
    return 0;
}
