/* Requests for transcriptions (see transcriptions.h). */
#include <string.h>

#include "model/ctc.h"
#include "server/json/fields.h"
#include "server/json/transcription_fields.h"
#include "server/json/transcriptions.h"

static lx_status read_format(const json_t *root, lx_transcription_params *p, lx_error *err)
{
    static const char *const names[] = {"json", "text", "verbose_json", "srt", "vtt"};
    const char *value = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_read_string(root, "response_format", false, &value, &bytes, err);
    if (st != LX_OK || value == NULL)
        return st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], value) == 0) {
            p->format = (lx_transcript_format)i;
            return LX_OK;
        }
    }
    return lx_fail(err, LX_ERR_INVALID, "response_format",
                   "response_format must be json, text, verbose_json, srt or vtt");
}

static lx_status read_granularity(const json_t *value, lx_transcription_params *p, lx_error *err)
{
    const char *name = json_is_string(value) ? json_string_value(value) : "";
    p->words |= strcmp(name, "word") == 0;
    p->segments |= strcmp(name, "segment") == 0;
    if (strcmp(name, "word") == 0 || strcmp(name, "segment") == 0)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "timestamp_granularities",
                   "timestamp_granularities may hold word and segment");
}

/* A verbose answer has segments unless words alone are asked for. */
static lx_status read_granularities(const json_t *root, lx_transcription_params *p, lx_error *err)
{
    const json_t *list = lx_json_field(root, "timestamp_granularities");
    bool verbose = p->format == LX_TRANSCRIPT_VERBOSE;
    lx_status st = LX_OK;
    if (list != NULL && !verbose)
        return lx_fail(err, LX_ERR_INVALID, "timestamp_granularities",
                       "timestamp_granularities needs response_format verbose_json");
    if (list != NULL && !json_is_array(list))
        return read_granularity(list, p, err);
    for (size_t i = 0; st == LX_OK && i < json_array_size(list); i++)
        st = read_granularity(json_array_get(list, i), p, err);
    if (list == NULL)
        p->segments = verbose;
    return st;
}

static lx_status read_language(const json_t *root, lx_transcription_params *p, lx_error *err)
{
    const char *value = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_read_string(root, "language", false, &value, &bytes, err);
    if (st != LX_OK || value == NULL)
        return st;
    if (bytes > LX_MAX_LANGUAGE)
        return lx_fail(err, LX_ERR_INVALID, "language", "language has more than %d bytes",
                       LX_MAX_LANGUAGE);
    memcpy(p->language, value, bytes + 1);
    return LX_OK;
}

/* What changes nothing is checked all the same, and noted. */
static lx_status read_ignored(const json_t *root, lx_transcription_params *p, lx_error *err)
{
    double temperature = 0;
    const char *prompt = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_read_real(root, "temperature", 0, 1, &temperature, err);
    if (st == LX_OK)
        st = lx_json_read_string(root, "prompt", false, &prompt, &bytes, err);
    if (st == LX_OK && bytes > LX_MAX_SPEECH_PROMPT)
        st = lx_fail(err, LX_ERR_INVALID, "prompt", "prompt has more than %d bytes",
                     LX_MAX_SPEECH_PROMPT);
    for (int i = 0; i < LX_N_SPEECH_IGNORED; i++)
        p->ignored |= (unsigned)(lx_json_field(root, lx_speech_ignored[i]) != NULL) << i;
    return st;
}

static lx_status read_fields(const json_t *root, lx_transcription_params *p, lx_error *err)
{
    lx_status st = lx_json_read_model(root, false, p->model, err);
    if (st == LX_OK)
        st = read_format(root, p, err);
    if (st == LX_OK)
        st = read_granularities(root, p, err);
    if (st == LX_OK)
        st = read_language(root, p, err);
    if (st == LX_OK)
        st = read_ignored(root, p, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "beam", 0, LX_CTC_MAX_WIDTH, &p->beam, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "stream", &p->stream, err);
    if (st == LX_OK)
        st = lx_json_read_timeout(root, &p->timeout_ms, err);
    if (st == LX_OK && p->stream && p->format != LX_TRANSCRIPT_JSON)
        st = lx_fail(err, LX_ERR_INVALID, "response_format",
                     "response_format must be json with stream: true");
    return st;
}

lx_status lx_form_read_transcription(const char *content_type, const char *body, size_t bytes,
                                     lx_transcription_params *p, lx_error *err)
{
    *p = (lx_transcription_params){.format = LX_TRANSCRIPT_JSON};
    const lx_form_file file = {"file", &p->file};
    json_t *root = json_object();
    lx_status st = lx_json_read_form(content_type, body, bytes, &file, 1, root, err);
    if (st == LX_OK)
        st = read_fields(root, p, err);
    if (st == LX_OK && p->file.data == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "file", "file is missing: the sound to be written down");
    json_decref(root);
    return st;
}
