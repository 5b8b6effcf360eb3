/*
 * Requests as plain structs: bodies in JSON and forms in, one struct for each route out.
 *
 * Reading is strict. Depth and number of values are limited (scan.h). Duplicate keys, trailing
 * bytes, invalid UTF-8 and numbers that are not finite are refused. Every field has its type and
 * range. An error names its field. A form's fields are read as JSON reads them (numbers, true,
 * false), everything else as text. Fields that change nothing become warnings (request_fields.h),
 * null means absent.
 *
 * A reader initialises *p, which the caller frees with its fini, also after a failure, before the
 * body. A reader fails with LX_ERR_INVALID and the name of the field in err->param, "body" for the
 * JSON as a whole.
 */
#ifndef LINNET_SERVER_JSON_REQUESTS_H
#define LINNET_SERVER_JSON_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/chat.h"
#include "model/grammar/calls.h"
#include "model/grammar/grammar.h"
#include "model/tasks/task.h"
#include "server/engine/sampling.h"
#include "server/engine/stops.h"
#include "server/json/forms.h"
#include "server/json/parts.h"

enum {
    LX_MAX_MODEL_NAME = 64,
    LX_MAX_PROMPTS = 256,
    LX_MAX_BIASES = 1024,
    LX_MAX_ASKED_BIAS = 100, /* of logit_bias, either way; so little bans a token */
    LX_MAX_ASKED_TOKENS = 1000000,
    LX_MAX_IMAGE_PROMPT = 32 << 10,
    LX_MAX_PARTIAL_IMAGES = 3,
    LX_MAX_JOB_VALUES = 1 << 24,
    LX_MAX_LANGUAGE = 35,
    LX_MAX_TOOLS = 128,
    LX_MAX_TOOLS_BYTES = 256 << 10,
    LX_MAX_VARIABLES = 64, /* of a chat's template */
    LX_MAX_VARIABLES_BYTES = 64 << 10
};

struct json_t;

/* --- completions, chats, responses --- */

/* A text, or tokens. */
typedef struct lx_prompt {
    char *text; /* owned, not only NUL-terminated text: see bytes; NULL: tokens */
    size_t bytes;
    int32_t *ids; /* [n_ids], owned */
    int32_t n_ids;
    int32_t *borders; /* [n_borders], owned: see lx_plan */
    int32_t n_borders;
} lx_prompt;

void lx_prompt_fini(lx_prompt *p);

typedef struct lx_chat_message {
    lx_chat_role role;
    int32_t at; /* of Anthropic's messages: its place in the request's list */
    char *text; /* owned */
    size_t bytes;
    /* Owned: an object with what else the template reads of the message, tool_calls,
       reasoning_content, tool_call_id and name. NULL: nothing. */
    struct json_t *more;
} lx_chat_message;

/* Fields that a body does not have. */
enum {
    LX_UNSAID_TEMPERATURE = 1,
    LX_UNSAID_TOP_P = 2,
    LX_UNSAID_TOP_K = 4,
    LX_UNSAID_MIN_P = 8,
    LX_UNSAID_REPETITION = 16
};

/* Where the thoughts of a chat's answer begin. */
typedef enum lx_thinking_begin {
    LX_THINKS_NOT,  /* all of the answer is its content */
    LX_THINKS_MARK, /* with a mark that the model may write first */
    LX_THINKS_AT_ONCE
} lx_thinking_begin;

/* Whether an answer has calls of tools. */
typedef enum lx_tool_choice { LX_TOOLS_AUTO, LX_TOOLS_NONE, LX_TOOLS_REQUIRED } lx_tool_choice;

typedef struct lx_completion_params {
    char model[LX_MAX_MODEL_NAME];
    lx_prompt *prompts; /* [n_prompts], owned */
    int32_t n_prompts;
    int32_t n, max_tokens;                           /* max_tokens 0: the whole answer */
    const char *max_tokens_field, *min_tokens_field; /* static: the names they were read by */
    bool no_tokens;     /* the client's max_tokens is 0: the prompt's scores are all it wants */
    int32_t best_of;    /* samples of which the n best are answered; 0: n */
    int32_t n_logprobs; /* likeliest tokens for each token; -1: no log-probabilities at all */
    lx_bias *biases;    /* [n_biases], owned, ids ascending; the model may not have them */
    int32_t n_biases;
    int32_t *allowed; /* [n_allowed], owned: the only ids that are drawn; NULL: all */
    int32_t n_allowed;
    int32_t min_tokens; /* before these no token ends an answer, and no stop string counts */
    lx_stops stops;
    bool keeps_stop;       /* the stop string that ended an answer is a part of it */
    bool echo;             /* the prompt, then its completion */
    bool ignore_eos;       /* the end of an answer that has no fixed one is not drawn */
    lx_task_fields fields; /* their texts are owned */
    lx_shape shape;        /* its text is owned */
    lx_sampling_params sampling;
    unsigned unsaid;     /* LX_UNSAID_ of sampling: the model may say them */
    lx_json_notes notes; /* of the body */
    bool stream, include_usage, rules, normalize;
    bool pooled;           /* it has a pool's samples and temperatures: by lx_completion_start */
    bool rank;             /* the answers are chosen from a pool, where the task has one */
    const char *draws;     /* static: the first field that says how the samples are drawn; NULL:
                              none does, so that a pool may be drawn */
    bool usage_always;     /* a stream's every event tells the usage so far */
    bool return_token_ids; /* the answer has the ids of the prompt's and its own tokens */
    bool chat;             /* read from messages, answered as chat.completion */
    bool response;         /* a chat, too; read from input, answered as a response */
    bool message;          /* a chat, too; read and answered as Anthropic's message */
    bool has_system;       /* of that: messages[0] is the field system */
    bool input_is_text;    /* of a response: input is a text, not a list of messages */
    bool continues;        /* of a chat: the answer goes on with the last message */
    bool begins_answer;    /* of a chat: the template's begin of an answer stands at the end */
    bool wants_logprobs;   /* of a chat or a response, with n_top for each token: see n_logprobs */
    int32_t n_top;
    const char *leading; /* static, of a chat: a beginning of the answer that is left out */
    char *instructions;  /* of a response: owned, also messages[0]; NULL: none */
    size_t instructions_bytes;
    lx_chat_message *messages; /* [n_messages], owned; of a chat, the last one is the prompt, too */
    int32_t n_messages;
    struct json_t *variables;   /* owned: those of the model's template, with tools; NULL: none */
    lx_tool_choice tool_choice; /* none: the tools stay in the prompt */
    char *tool_name;            /* owned: the one that is called; NULL: any */
    bool serial_calls;          /* an answer has one call at most */
    lx_calls *calls;            /* owned: in the answer's grammar; NULL: none; by lx_chat_prompt */
    int64_t call_bytes;         /* bytes of the trees of the calls' arguments */
    lx_thinking_begin thinks;   /* whether the answer may begin with thoughts; see lx_chat_prompt */
    char *state;                /* owned, NUL-terminated: see lx_state_source; NULL: from nothing */
    bool return_state;
    const char *suspend; /* the field that asked for it: "suspend" or "park"; NULL: no */
    const struct lx_saved_state *from; /* the state, filled in by the handler */
    /* Of a response: it is kept; `state` is the id of the response before it. */
    bool store;
    /* The conversation before the messages is tokens already: the template begins after an answer,
       whose last bytes are the tail. Of the prompt's first rows the state is `ahead`. Filled in by
       the handler. */
    bool follows;
    const char *tail;
    size_t tail_bytes;
    const struct lx_saved_state *ahead;
    bool knows_instructions; /* the conversation has them: they are no message */
    /* Of a response: the id of the conversation that it belongs to, owned; NULL: none. n_earlier
       messages after the instructions are the conversation's (lx_json_add_earlier). kept_bytes has
       the conversation without its state. */
    char *conversation;
    int32_t n_earlier;
    int64_t kept_bytes;
    bool truncates;     /* of a response: the client allows that the conversation is cut */
    char *metadata;     /* owned, of a response or conversation: a JSON object; NULL: none */
    char *format;       /* owned, of a response: text.format, a JSON object; NULL: none */
    int64_t timeout_ms; /* 0: the server's */
} lx_completion_params;

/* Every default: no prompt, n 1, temperature 0.8, top_p 1, top_k 0, rank, rules and normalize on.
 */
void lx_completion_params_init(lx_completion_params *p);
void lx_completion_params_fini(lx_completion_params *p);

lx_status lx_json_read_completion(const char *body, size_t bytes, int32_t max_n,
                                  lx_completion_params *p, lx_error *err) LX_MUST_USE;

/* POST /v1/chat/completions: the prompt is the text of the last message. */
lx_status lx_json_read_chat(const char *body, size_t bytes, int32_t max_n, lx_completion_params *p,
                            lx_error *err) LX_MUST_USE;

/* POST /apply-template, which reads the fields that make a chat's prompt. */
lx_status lx_json_read_template(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err) LX_MUST_USE;

/* Of objects of lx_completion_params and lx_chat_message; NULL is an object without members.
   Whether a member is there and not null; the name of member i (NULL after the last); the bytes of
   the text with an indent of 4. */
bool lx_json_has(const struct json_t *object, const char *name);
const char *lx_json_name_at(struct json_t *object, int32_t i);
size_t lx_json_indented_bytes(const struct json_t *value);
const struct json_t *lx_json_tools(const struct json_t *variables);
/* The tools as a list of a response's tools. */
void lx_json_write_tools(const struct json_t *variables, lx_buffer *out);

/* A message as the items of a response's input: how many there are, and item i as JSON. */
int32_t lx_json_count_items(const lx_chat_message *m);
void lx_json_write_item(const lx_chat_message *m, int32_t i, lx_buffer *out);

/* POST /v1/responses: messages[0] are the instructions, if there are any; the prompt is the text of
   the last message. */
lx_status lx_json_read_response(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err) LX_MUST_USE;

/* POST /v1/messages, and the fields of it that make the prompt (/v1/messages/count_tokens). */
lx_status lx_json_read_message(const char *body, size_t bytes, lx_completion_params *p,
                               lx_error *err) LX_MUST_USE;
lx_status lx_json_read_message_prompt(const char *body, size_t bytes, lx_completion_params *p,
                                      lx_error *err) LX_MUST_USE;

/* POST /v1/conversations, /v1/conversations/ID and /v1/conversations/ID/items: messages and
   metadata. A new conversation may have neither, the others must have theirs. */
lx_status lx_json_read_conversation(const char *body, size_t bytes, lx_completion_params *p,
                                    lx_error *err) LX_MUST_USE;
lx_status lx_json_read_metadata(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err) LX_MUST_USE;
lx_status lx_json_read_items(const char *body, size_t bytes, lx_completion_params *p,
                             lx_error *err) LX_MUST_USE;
/* Puts n stored items (server/states/stored.h) before the messages of a response's request and
   after its instructions. */
lx_status lx_json_add_earlier(const char *items, const uint32_t *item_bytes, uint32_t n,
                              lx_completion_params *p, lx_error *err) LX_MUST_USE;

/* --- images --- */

typedef enum lx_stream_unit {
    LX_STREAM_NO_VALUES,
    LX_STREAM_PIXELS,
    LX_STREAM_ROWS
} lx_stream_unit;

typedef struct lx_image_params {
    char model[LX_MAX_MODEL_NAME]; /* "": see lx_serving_find_model */
    char size[24];                 /* "": any */
    int32_t n;
    lx_sampling_params sampling;
    bool stream, contact_sheet;
    int64_t timeout_ms; /* 0: the server's */
    int32_t partial_images;
    lx_stream_unit stream_unit;
    lx_upload image, mask; /* edits */
    char *state;           /* owned, NUL-terminated: see lx_state_source; NULL: from nothing */
    bool return_state;
    const char *suspend;  /* see lx_completion_params */
    int32_t max_tokens;   /* values that are generated, 0: the rest of the image */
    int32_t class_number; /* the class + 1; 0: the prompt may name a class */
    char *prompt;         /* owned; NULL: none, or empty */
    size_t prompt_bytes;  /* at most LX_MAX_IMAGE_PROMPT */
    lx_json_notes notes;  /* of the body */
} lx_image_params;

/* Every default: n 1, temperature 1. */
void lx_image_params_init(lx_image_params *p);
void lx_image_params_fini(lx_image_params *p);

lx_status lx_json_read_generation(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                                  lx_error *err) LX_MUST_USE;
lx_status lx_json_read_edit(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                            lx_error *err) LX_MUST_USE;
lx_status lx_form_read_edit(const char *content_type, const char *body, size_t bytes, int32_t max_n,
                            lx_image_params *p, lx_error *err) LX_MUST_USE;

/* --- scores --- */

typedef struct lx_score_params {
    char model[LX_MAX_MODEL_NAME]; /* "": see lx_serving_find_model */
    lx_upload image;
    char *prompt, *completion; /* owned; NULL: absent */
    size_t prompt_bytes, completion_bytes;
    int64_t timeout_ms;
    lx_json_notes notes; /* of the body */
} lx_score_params;

void lx_score_params_fini(lx_score_params *p);
lx_status lx_json_read_score(const char *body, size_t bytes, lx_score_params *p,
                             lx_error *err) LX_MUST_USE;
lx_status lx_form_read_score(const char *content_type, const char *body, size_t bytes,
                             lx_score_params *p, lx_error *err) LX_MUST_USE;

/* --- states --- */

/* POST /v1/states: a request to be continued later. */
typedef struct lx_state_create {
    char model[LX_MAX_MODEL_NAME]; /* "": the first that makes images */
    char *prompt;                  /* owned; NULL: absent */
    size_t prompt_bytes;
    lx_upload image, mask; /* of an image model: the given pixels */
    int32_t class_number;  /* of a model with classes: the class + 1, 0: any */
    bool rules, normalize;
    lx_task_fields fields;       /* their texts are owned */
    lx_sampling_params sampling; /* of it only the seed is read: it is the state's */
    int64_t timeout_ms;
    lx_json_notes notes; /* of the body */
} lx_state_create;

lx_status lx_json_read_state_create(const char *body, size_t bytes, lx_state_create *p,
                                    lx_error *err) LX_MUST_USE;
void lx_state_create_fini(lx_state_create *p);

/* POST /v1/states/ID/fork */
typedef struct lx_state_fork {
    int32_t n;
    uint64_t *seeds;     /* [n], owned; NULL: the state's own */
    lx_json_notes notes; /* of the body */
} lx_state_fork;

lx_status lx_json_read_state_fork(const char *body, size_t bytes, int32_t max_n, lx_state_fork *p,
                                  lx_error *err) LX_MUST_USE;

/* --- tokens --- */

typedef struct lx_tokenize_params {
    char model[LX_MAX_MODEL_NAME]; /* "": the first of text */
    char *content;                 /* owned, freed by the caller */
    size_t bytes;
    bool add_special;    /* the tokens that the model puts before every prompt */
    bool parse_special;  /* names of special tokens in the content are these tokens */
    bool with_pieces;    /* the answer has the text of each token */
    lx_json_notes notes; /* of the body */
} lx_tokenize_params;

typedef struct lx_detokenize_params {
    char model[LX_MAX_MODEL_NAME];
    int32_t *tokens; /* [n], owned, freed by the caller; the model may not have them */
    size_t n;
    lx_json_notes notes; /* of the body */
} lx_detokenize_params;

lx_status lx_json_read_tokenize(const char *body, size_t bytes, lx_tokenize_params *p,
                                lx_error *err) LX_MUST_USE;
lx_status lx_json_read_detokenize(const char *body, size_t bytes, lx_detokenize_params *p,
                                  lx_error *err) LX_MUST_USE;
/* --- reloads --- */

/* POST /v1/models/reload, which has no field. LX_ERR_INVALID with the name of a field that is
   refused, or with "body" for malformed JSON. An empty body is allowed. */
lx_status lx_json_read_reload(const char *body, size_t bytes, lx_json_notes *notes,
                              lx_error *err) LX_MUST_USE;

/* --- sounds --- */

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

/* Nothing of *p is owned. */
lx_status lx_form_read_transcription(const char *content_type, const char *body, size_t bytes,
                                     lx_transcription_params *p, lx_error *err) LX_MUST_USE;

#endif
