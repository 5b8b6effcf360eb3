/*
 * POST /v1/audio/transcriptions: the form in, what was said out in each of the forms that OpenAI's
 * route has. Reading is as strict as in answers.h.
 */
#ifndef LINNET_SERVER_JSON_TRANSCRIPTIONS_H
#define LINNET_SERVER_JSON_TRANSCRIPTIONS_H

#include <stdbool.h>

#include "common/buffer.h"
#include "model/transcribe.h"
#include "server/json/forms.h"
#include "server/json/limits.h"
#include "server/json/parts.h"

enum { LX_MAX_LANGUAGE = 35 };

typedef enum lx_transcript_format {
    LX_TRANSCRIPT_JSON,
    LX_TRANSCRIPT_TEXT,
    LX_TRANSCRIPT_VERBOSE,
    LX_TRANSCRIPT_SRT,
    LX_TRANSCRIPT_VTT
} lx_transcript_format;

typedef struct lx_transcription_params {
    char model[LX_MAX_MODEL_NAME]; /* "": the first that hears */
    lx_upload file;                /* in the body */
    lx_transcript_format format;
    bool words, segments;               /* of a verbose answer */
    char language[LX_MAX_LANGUAGE + 1]; /* as the client says; "": it does not */
    double temperature;                 /* checked, and changes nothing */
    int32_t beam;                       /* see lx_listener_write */
    bool stream;
    int64_t timeout_ms;  /* 0: the server's */
    lx_json_notes notes; /* of the form */
} lx_transcription_params;

/* LX_ERR_INVALID with the field's name. Nothing of *p is owned. */
lx_status lx_form_read_transcription(const char *content_type, const char *body, size_t bytes,
                                     lx_transcription_params *p, lx_error *err) LX_MUST_USE;

/* --- answers --- */

typedef struct lx_json_transcript {
    const char *model, *fingerprint;
    const lx_transcription *said;
    int32_t rows; /* of the sound */
    const lx_transcription_params *asked;
} lx_json_transcript;

/* The whole answer in the form that was asked for. */
void lx_json_write_transcript(const lx_json_transcript *t, lx_buffer *out);
/* Its type, static. */
const char *lx_transcript_type(lx_transcript_format format);
/* The data of the events of a stream: token i, and the last with all of the text. */
void lx_json_write_transcript_delta(const lx_transcription *said, int32_t i, lx_buffer *out);
void lx_json_write_transcript_done(const lx_json_transcript *t, lx_buffer *out);
/* The most bytes that the answer has, and all that making it takes, that text included: of n tokens
   whose texts have token_bytes at most. */
int64_t lx_transcript_text_bytes(const lx_transcription_params *p, int64_t n, int64_t token_bytes);
int64_t lx_transcript_work_bytes(const lx_transcription_params *p, int64_t n, int64_t token_bytes);

#endif
