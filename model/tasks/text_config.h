/* The keys of "text" in config.json, of every task whose tokens are text. */
#ifndef LINNET_MODEL_TEXT_CONFIG_H
#define LINNET_MODEL_TEXT_CONFIG_H

#include "model/config.h"

enum { LX_MAX_ENDS = 8, LX_MAX_CONTEXT = 1 << 18 /* a state keeps its prompt: blob.h */ };

/* How generation_config.json wants tokens to be drawn; NAN: it does not say. */
typedef struct lx_text_sampling {
    double temperature, top_p, top_k, min_p, repetition_penalty;
} lx_text_sampling;

typedef struct lx_text_config {
    char tokenizer[LX_MAX_NAME];       /* a file of the folder, or "bytes" */
    int32_t context;                   /* tokens of prompt and answer, at most */
    int32_t begin;                     /* the token before every prompt, -1: none */
    int32_t n_ends, ends[LX_MAX_ENDS]; /* tokens that end an answer */
    lx_text_sampling sampling;         /* no part of the model's hash: it changes no state */
} lx_text_config;
LX_TASK_PART(lx_text_config, lx_text_of, lx_text_own)

#endif
