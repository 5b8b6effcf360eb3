/* Answers of POST /v1/audio/transcriptions, in each of the forms that OpenAI's route has. */
#ifndef LINNET_SERVER_JSON_TRANSCRIPTIONS_H
#define LINNET_SERVER_JSON_TRANSCRIPTIONS_H

#include "common/buffer.h"
#include "model/transcribe.h"
#include "server/json/requests.h"

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
/* The most bytes that the answer has: of n tokens whose texts have token_bytes at most. */
int64_t lx_transcript_text_bytes(const lx_transcription_params *p, int64_t n, int64_t token_bytes);

#endif
