/*
 * From the bytes of a sound file to its text, in three stages that may run on three threads:
 *
 *     lx_listener_read    file -> samples -> rows of features           (sound.h, mel.h)
 *     lx_encoder_run      rows -> log-probabilities, several at a time  (encoder.h)
 *     lx_listener_write   log-probabilities -> text and tokens          (ctc.h)
 *
 * lx_transcribe is all three for one file. Times are in seconds from the first sample.
 */
#ifndef LINNET_MODEL_TRANSCRIBE_H
#define LINNET_MODEL_TRANSCRIBE_H

#include "model/encoder.h"

/* The parts that a model needs to hear. It never changes once it is made; any thread. */
typedef struct lx_listener lx_listener;

/* A sound that was read. input.rows and input.log_p lie in one allocation of the utterance. */
typedef struct lx_utterance {
    lx_encoder_input input; /* log_p: room, undefined until a pass has written it */
    double duration;        /* of the sound */
    void *memory;           /* owned */
    /* Ends a search early, see lx_ctc_input. The caller sets it after the sound was read. NULL: the
       search runs to its end. */
    lx_status (*fault)(const void *context, lx_error *err);
    const void *context;
} lx_utterance;

typedef struct lx_spoken {
    const char *text;  /* UTF-8, the model's */
    int32_t id;        /* in the model's vocabulary; never the blank */
    double start, end; /* start < end <= the duration; no token starts before the one before it */
} lx_spoken;

typedef struct lx_transcription {
    char *text;        /* the tokens' texts, concatenated; "" when nothing was said; owned */
    int32_t n;         /* tokens */
    lx_spoken *tokens; /* [n], owned */
    double log_p;      /* nats; greedy: of the best path; beam: of the text, over the paths kept */
    double duration;
} lx_transcription;

/* model: of task speech (else LX_ERR_INVALID, "model"); must outlive the listener. */
lx_status lx_listener_new(const lx_model *model, lx_listener **out, lx_error *err) LX_MUST_USE;
void lx_listener_free(lx_listener *l); /* NULL is allowed */

/* The longest sound in seconds: its rows are the model's max_rows. */
double lx_listener_longest(const lx_listener *l);
/* The most that one file takes until its transcription is freed, all stages together, without the
   file's own bytes: width as below. */
int64_t lx_listener_bytes(const lx_listener *l, int32_t width);

/* Rows of the model's longest sound, multiplied by the file's samples (rate x channels x seconds)
 * per samples of the longest sound at the model's rate, at least once. */
lx_status lx_listener_weigh(const lx_listener *l, const void *file, size_t bytes, const char *param,
                            int64_t *rows, lx_error *err) LX_MUST_USE;
/* LX_ERR_INVALID with `param` and a text for a person for what sound.h refuses, and for a sound
   that is shorter than a frame or longer than the longest. LX_ERR_NO_MEMORY. */
lx_status lx_listener_read(const lx_listener *l, const void *file, size_t bytes, const char *param,
                           lx_utterance *out, lx_error *err) LX_MUST_USE;
void lx_utterance_fini(lx_utterance *u); /* zeros are allowed */

/* After a pass over u->input. width 0: greedy; 1 .. LX_CTC_MAX_WIDTH: prefix-beam search, else
   LX_ERR_INVALID with "beam". LX_ERR_NO_MEMORY, or what u->fault says. */
lx_status lx_listener_write(const lx_listener *l, const lx_utterance *u, int32_t width,
                            lx_transcription *out, lx_error *err) LX_MUST_USE;
void lx_transcription_fini(lx_transcription *t); /* zeros are allowed */

/* All stages; the encoder is one of the listener's model, and this thread its only user. */
lx_status lx_transcribe(const lx_listener *l, lx_encoder *e, const void *file, size_t bytes,
                        const char *param, int32_t width, lx_transcription *out,
                        lx_error *err) LX_MUST_USE;

#endif
