/*
 * Answers as plain structs, and their JSON. A writer appends to *out, whose status says whether
 * memory or room was missing; a writer owns nothing. Thread: any.
 *
 * Answers are written piece by piece (fields.h), so that writing them takes little more than their
 * text.
 */
#ifndef LINNET_SERVER_JSON_ANSWERS_H
#define LINNET_SERVER_JSON_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "model/config.h"
#include "model/tasks/task.h"
#include "model/tokenizers/tokenizer.h"
#include "model/transcribe.h"
#include "server/json/requests.h"
#include "server/states/blob.h"

/* --- completions --- */

/* A call of a tool, or a further part of one in a stream. */
typedef struct lx_json_call {
    int32_t index;
    bool is_new; /* else its id and its name were sent before */
    const char *id;
    const char *name;
    size_t name_bytes;
    const char *arguments; /* JSON, or the next part of it */
    size_t bytes;
    bool ended; /* the arguments end with it: they were not cut */
} lx_json_call;

typedef struct lx_json_choice {
    int32_t index;
    bool first; /* of this choice's chunks */
    const char *text;
    size_t text_bytes;
    const char *thought; /* of a chat, in front of the text */
    size_t thought_bytes;
    const lx_json_call *calls; /* [n_calls] of a chat, after the text */
    int32_t n_calls;
    const char *finish_reason; /* NULL: null */
    bool has_score;
    double mean_logprob;
    const lx_json_logprobs *logprobs; /* NULL: null */
    const lx_json_token *tokens;      /* [n_tokens], told where the answer tells ids */
    int32_t n_tokens;
    const int32_t *prompt_ids; /* [n_prompt_ids], where the answer tells ids; NULL: none here */
    int32_t n_prompt_ids;
    bool tones; /* the answer has the tones of the text's characters (model/tones.h) */
} lx_json_choice;

/* A couplet's prompt as it was read. */
typedef struct lx_json_line {
    lx_buffer text;
    bool backward; /* it is a lower line, and the answer an upper one */
} lx_json_line;

typedef struct lx_json_completion {
    const char *id, *model, *fingerprint;
    int64_t created, seed;
    const lx_json_choice *choices;
    int32_t n_choices;
    const lx_json_usage *usage; /* NULL: none */
    bool null_usage;            /* without usage, say "usage": null */
    const lx_json_timings *timings;
    bool token_ids;   /* every choice has the ids of its tokens, the first also the prompt's */
    bool chat, chunk; /* which object: text_completion, chat.completion or chat.completion.chunk */
    const lx_json_notes *notes; /* sent as warnings; NULL: none */
    const char *states;         /* a JSON list of kept states (lx_json_append_kept); NULL: none */
    /* [n_lines] a couplet's prompts, whose tones the answer has: one prompt makes a text, several
       prompts make a list. NULL: there are none. */
    const lx_json_line *lines;
    int32_t n_lines;
} lx_json_completion;

void lx_json_write_completion(const lx_json_completion *c, lx_buffer *out);

/* {"error": {"message", "type", "param", "code"}}; an empty param is null. */
void lx_json_write_error(const char *message, const char *type, const char *param, const char *code,
                         lx_buffer *out);
/* Anthropic's: {"type": "error", "error": {"type", "message"}}, with "param" and "code" as above.
 */
void lx_json_write_message_error(const char *message, const char *type, const char *param,
                                 const char *code, lx_buffer *out);

/* --- images and scores --- */

typedef struct lx_json_pixels { /* usage */
    int64_t given, made;
    int64_t cached; /* given pixels that a state or another request had computed */
} lx_json_pixels;

typedef struct lx_json_images {
    const char *model, *fingerprint, *size;
    int64_t created, seed;
    lx_json_pixels usage;
    const lx_json_timings *timings;
    int32_t class_number;       /* the class that was asked for, + 1; 0: none */
    const lx_json_notes *notes; /* sent as warnings; NULL: none */
} lx_json_images;

/* begin, then add for each image, then end. */
void lx_json_images_begin(const lx_json_images *a, lx_buffer *out);
/* suspended: the picture is not whole, as the server stops. */
void lx_json_images_add(int32_t index, const lx_buffer *png, double bits_per_dim, bool suspended,
                        lx_buffer *out);
/* states: see lx_json_image_event. */
void lx_json_images_end(const char *states, lx_buffer *out);

/* An event that carries a picture. */
typedef struct lx_json_image_event {
    const char *type, *size;
    int64_t created;
    int32_t index;   /* which sample */
    int32_t partial; /* which partial image, -1: the last picture, with all that follows */
    int64_t seed;
    double bits_per_dim;
    lx_json_pixels usage;
    int32_t class_number;       /* of the last picture; see lx_json_images */
    const lx_json_notes *notes; /* of the last picture, sent as warnings; NULL: none */
    const char *states;         /* a JSON list of kept states; NULL: left out */
} lx_json_image_event;

void lx_json_write_image_event(const lx_json_image_event *e, const lx_buffer *png, lx_buffer *out);
/* An event of n new values from `start` in the raster. */
void lx_json_write_values_event(const char *type, int32_t index, int32_t start,
                                const uint8_t *values, int32_t n, lx_buffer *out);

typedef struct lx_json_score {
    const char *model, *fingerprint;
    const char *mean_name; /* "bits_per_dim" */
    int64_t n_prompt;
    int32_t n;
    const float *logprobs; /* [n], natural logarithms */
    double unit;           /* nats that make one of the answer's units */
    const lx_json_timings *timings;
} lx_json_score;

/* The mean and every value's surprise, -logprob / unit. */
void lx_json_write_score(const lx_json_score *s, lx_buffer *out);

/* --- states --- */

/* Element `index` of an answer's "states". */
typedef struct lx_json_kept {
    const char *id;
    const char *code; /* of the error's kind; NULL: kept */
    const char *why;  /* not kept */
    int32_t index, tokens, rows;
    size_t bytes;         /* of the blob */
    int64_t memory_bytes; /* of the network's state in it */
} lx_json_kept;

void lx_json_append_kept(const lx_json_kept *k, lx_buffer *out);

/* --- tokens --- */

/* {"tokens": [...]}: numbers, or with pieces {"id", "piece"}, a piece being a text or, where that
   is not UTF-8, its bytes. */
void lx_json_write_tokens(const lx_tokenizer *t, const lx_token_list *list, bool with_pieces,
                          lx_buffer *out);
/* {"prompt": "..."} */
void lx_json_write_prompt(const lx_buffer *text, lx_buffer *out);

/* --- transcriptions, in each of the forms that OpenAI's route has --- */

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
