/*
 * Speech: sound in, text out, by a model that sees its whole input at once. Such a model makes no
 * plans, so whatever wants an answer token by token is refused; it has model/encoder.h and
 * model/transcribe.h instead.
 */
#ifndef LINNET_MODEL_SPEECH_H
#define LINNET_MODEL_SPEECH_H

#include "model/mel.h"
#include "model/tasks/task.h"

/* The keys of "speech" in config.json: how sound becomes rows. */
LX_TASK_PART(lx_mel_config, lx_speech_of, lx_speech_own)

extern const lx_task_ops lx_speech_task;

/* The place of "<blank>" in the vocabulary, and of the value for no character in the head. */
enum { LX_SPEECH_BLANK = 0 };

/* Samples of the longest sound: one more would be a row more than model->max_rows. */
int64_t lx_speech_most_samples(const lx_config *c);

#endif
