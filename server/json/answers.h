/*
 * JSON in and out as plain structs: the only part of the server that knows the JSON library.
 *
 * Reading is strict: depth and number of values limited (scan.h), no duplicate keys, no
 * trailing bytes, valid UTF-8, finite numbers, every field of the right type and within its range;
 * a fault names its field. Fields that change nothing become warnings
 * (server/json/request_fields.h), null means absent.
 */
#ifndef LINNET_SERVER_JSON_ANSWERS_H
#define LINNET_SERVER_JSON_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "kernels/kernels.h"
#include "model/chat.h"
#include "model/tasks/poem.h"
#include "server/engine/sampling.h"
#include "server/engine/stops.h"
#include "server/json/limits.h"
#include "server/json/parts.h"

enum { LX_MAX_PROMPTS = 256, LX_MAX_BIASES = 1024, LX_MAX_ASKED_TOKENS = 1000000 };
enum { LX_MAX_ASKED_BIAS = 100 }; /* of logit_bias, either way; so little bans a token */

/* A text, or tokens. */
typedef struct lx_prompt {
    char *text; /* owned, not only NUL-terminated text: see bytes; NULL: tokens */
    size_t bytes;
    int32_t *ids; /* [n_ids], owned */
    int32_t n_ids;
} lx_prompt;

typedef struct lx_chat_message {
    lx_chat_role role;
    char *text; /* owned */
    size_t bytes;
} lx_chat_message;

/* Frees the texts of a request that was read from JSON. */
void lx_poem_fields_fini(lx_poem_request *p);

typedef struct lx_completion_params {
    char model[LX_MAX_MODEL_NAME];
    lx_prompt *prompts; /* [n_prompts], owned */
    int32_t n_prompts;
    int32_t n, max_tokens;                           /* max_tokens 0: the whole answer */
    const char *max_tokens_field, *min_tokens_field; /* static: the names they were read by */
    bool no_tokens;     /* the client's max_tokens is 0: the prompt's scores are all it wants */
    int32_t best_of;    /* samples of which the n best are answered; 0: n */
    int32_t n_logprobs; /* likeliest tokens beside each one; -1: no log-probabilities at all */
    lx_bias *biases;    /* [n_biases], owned, ids ascending; the model may not have them */
    int32_t n_biases;
    int32_t *allowed; /* [n_allowed], owned: the only ids that are drawn; NULL: all */
    int32_t n_allowed;
    int32_t min_tokens; /* before these no token ends an answer, and no stop string counts */
    lx_stops stops;
    bool keeps_stop;      /* the stop string that ended an answer is a part of it */
    bool echo;            /* the prompt, then its completion */
    bool ignore_eos;      /* the end of an answer that has no fixed one is not drawn */
    lx_poem_request poem; /* its texts are owned */
    lx_sampling_params sampling;
    lx_json_notes notes; /* of the body */
    bool stream, include_usage, rules, normalize;
    bool usage_always;     /* a stream's every event tells the usage so far */
    bool return_token_ids; /* the answer has the ids of the prompt's and its own tokens */
    bool chat;             /* read from messages, answered as chat.completion */
    bool response;         /* a chat, too; read from input, answered as a response */
    bool input_is_text;    /* of a response: input is a text, not a list of messages */
    bool continues;        /* of a chat: the answer goes on with the last message */
    bool begins_answer;    /* of a chat: the template's begin of an answer stands at the end */
    bool wants_logprobs;   /* of a chat or a response, with n_top beside each: see n_logprobs */
    int32_t n_top;
    const char *leading; /* static, of a chat: what an answer may begin with and is not told */
    char *instructions;  /* of a response: owned, also messages[0]; NULL: none */
    size_t instructions_bytes;
    lx_chat_message *messages; /* [n_messages], owned; of a chat, the last one is the prompt, too */
    int32_t n_messages;
    char *state; /* owned, NUL-terminated: see lx_state_source; NULL: from nothing */
    bool return_state;
    const char *suspend; /* the field that asked for it: "suspend" or "park"; NULL: no */
    const struct lx_saved_state *from; /* what `state` stands for, filled in by the handler */
    int64_t timeout_ms;                /* 0: the server's */
} lx_completion_params;

/* Every default: no prompt, n 1, temperature 0.8, top_p 1, top_k 0, rules and normalize on. */
void lx_completion_params_init(lx_completion_params *p);
void lx_completion_params_fini(lx_completion_params *p);

/* LX_ERR_INVALID with err->param naming the field ("body" when it is the JSON as a whole).
 *p is initialised by the call and must be freed with fini, also after a failure. */
lx_status lx_json_read_completion(const char *body, size_t bytes, int32_t max_n,
                                  lx_completion_params *p, lx_error *err) LX_MUST_USE;

/* The same for POST /v1/chat/completions: the prompt is the text of the last message. */
lx_status lx_json_read_chat(const char *body, size_t bytes, int32_t max_n, lx_completion_params *p,
                            lx_error *err) LX_MUST_USE;

/* The same for POST /v1/responses: messages[0] are the instructions, if there are any; the prompt
   is the text of the last message. */
lx_status lx_json_read_response(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err) LX_MUST_USE;

typedef struct lx_json_choice {
    int32_t index;
    bool first; /* of this choice's chunks */
    const char *text;
    size_t text_bytes;
    const char *finish_reason; /* NULL: null */
    bool has_score;
    double mean_logprob;
    const lx_json_logprobs *logprobs; /* NULL: null */
    const lx_json_token *tokens;      /* [n_tokens], told where the answer tells ids */
    int32_t n_tokens;
    const int32_t *prompt_ids; /* [n_prompt_ids], likewise; NULL: not told here */
    int32_t n_prompt_ids;
} lx_json_choice;

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
    const char *states;         /* NULL, or JSON of what was kept: lx_json_append_kept */
} lx_json_completion;

void lx_json_write_completion(const lx_json_completion *c, lx_buffer *out);

/* {"error": {"message", "type", "param", "code"}}; an empty param is null. */
void lx_json_write_error(const char *message, const char *type, const char *param, const char *code,
                         lx_buffer *out);

typedef struct lx_json_model {
    const char *id, *task, *fingerprint;
    int64_t created;
    int64_t n_parameters, n_vocab, n_embd, n_layers, n_heads, state_bytes, slots;
    lx_modality modality;
    lx_task_card card;                /* the task's own fields */
    const char *kinds[LX_MAX_LAYERS]; /* [n_kinds] of attention, each once */
    int32_t n_kinds;
    bool state_grows; /* with every token; otherwise state_bytes at any length */
} lx_json_model;

void lx_json_write_models(const lx_json_model *models, int32_t n, lx_buffer *out);
void lx_json_write_model(const lx_json_model *model, lx_buffer *out);

typedef struct lx_json_health {
    const char *status, *version, *backend;
    int64_t uptime_s, last_step_ms;
} lx_json_health;

void lx_json_write_health(const lx_json_health *h, lx_buffer *out);

#endif
