/* Requests for transcriptions (see transcriptions.h). */
#include <string.h>

#include "server/json/field_readers.h"
#include "server/json/fields.h"
#include "server/json/transcriptions.h"

LX_READER(transcript_format)
{
    static const char *const names[] = {"json", "text", "verbose_json", "srt", "vtt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (lx_json_is(value, names[i])) {
            *(lx_transcript_format *)r->to = (lx_transcript_format)i;
            return LX_OK;
        }
    }
    return lx_fail(err, LX_ERR_INVALID, r->name,
                   "response_format must be json, text, verbose_json, srt or vtt");
}

static lx_status read_granularity(const json_t *value, lx_transcription_params *p, lx_error *err)
{
    bool word = lx_json_is(value, "word"), segment = lx_json_is(value, "segment");
    p->words |= word;
    p->segments |= segment;
    if (word || segment)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "timestamp_granularities",
                   "timestamp_granularities may hold word and segment");
}

LX_READER(granularities)
{
    lx_transcription_params *p = r->params;
    lx_status st = LX_OK;
    if (p->format != LX_TRANSCRIPT_VERBOSE)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "timestamp_granularities needs response_format verbose_json");
    if (!json_is_array(value))
        return read_granularity(value, p, err);
    for (size_t i = 0; st == LX_OK && i < json_array_size(value); i++)
        st = read_granularity(json_array_get(value, i), p, err);
    return st;
}

LX_READER(language)
{
    const char *text = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_take_string(value, r->name, &text, &bytes, err);
    if (st != LX_OK)
        return st;
    if (bytes > LX_MAX_LANGUAGE)
        return lx_fail(err, LX_ERR_INVALID, r->name, "language has more than %d bytes",
                       LX_MAX_LANGUAGE);
    memcpy(r->to, text, bytes + 1);
    return LX_OK;
}

/* A verbose answer has segments unless words alone are asked for. */
static lx_status read_fields(const json_t *root, lx_transcription_params *p, lx_error *err)
{
    lx_json_reading r = {
        .root = root, .route = LX_JSON_TRANSCRIPTIONS, .params = p, .notes = &p->notes};
    lx_status st = lx_json_read_fields(&r, err);
    if (lx_json_field(root, "timestamp_granularities") == NULL)
        p->segments = p->format == LX_TRANSCRIPT_VERBOSE;
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
