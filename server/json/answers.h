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
#include "server/json/parts.h"
#include "server/states/blob.h"

/* --- completions --- */

typedef struct lx_json_choice {
    int32_t index;
    bool first; /* of this choice's chunks */
    const char *text;
    size_t text_bytes;
    const char *thought; /* of a chat, in front of the text */
    size_t thought_bytes;
    const char *finish_reason; /* NULL: null */
    bool has_score;
    double mean_logprob;
    const lx_json_logprobs *logprobs; /* NULL: null */
    const lx_json_token *tokens;      /* [n_tokens], told where the answer tells ids */
    int32_t n_tokens;
    const int32_t *prompt_ids; /* [n_prompt_ids], where the answer tells ids; NULL: none here */
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

/* --- responses --- */

typedef struct lx_json_response {
    const char *id, *item_id; /* of the response, and of the one message that it puts out */
    const char *model, *fingerprint;
    int64_t created, seed;
    const char *instructions; /* NULL: none */
    size_t instructions_bytes;
    int32_t max_output_tokens; /* 0: not given */
    int32_t n_logprobs;        /* as in lx_completion_params */
    double temperature, top_p;
    const lx_json_choice *choice; /* with its finish_reason: the whole answer. NULL: in progress */
    const lx_json_usage *usage;   /* these two with the whole answer */
    const lx_json_timings *timings;
    const lx_json_notes *notes;
} lx_json_response;

/* The events in the order of a stream. */
typedef enum lx_response_event {
    LX_RESPONSE_CREATED,
    LX_RESPONSE_IN_PROGRESS,
    LX_RESPONSE_ITEM_ADDED,
    LX_RESPONSE_PART_ADDED,
    LX_RESPONSE_DELTA, /* any number of them; choice is what is new */
    LX_RESPONSE_TEXT_DONE,
    LX_RESPONSE_PART_DONE,
    LX_RESPONSE_ITEM_DONE,
    LX_RESPONSE_ENDED /* "response.completed", or "response.incomplete" */
} lx_response_event;

void lx_json_write_response(const lx_json_response *r, lx_buffer *out);
/* The event's type, and its data, which has that number in the stream, from 0 on. */
const char *lx_json_response_event_name(const lx_json_response *r, lx_response_event event);
void lx_json_write_response_event(const lx_json_response *r, lx_response_event event,
                                  int64_t number, lx_buffer *out);

/* --- images and scores --- */

typedef struct lx_json_pixels { /* usage */
    int64_t given, made;
    int64_t cached; /* of the given ones: what a state or another request had computed */
} lx_json_pixels;

typedef struct lx_json_images {
    const char *model, *fingerprint, *size;
    int64_t created, seed;
    lx_json_pixels usage;
    const lx_json_timings *timings;
    int32_t class_number;       /* what was asked for: the class + 1, 0: nothing */
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
    const char *states;         /* a JSON list of what was kept; NULL: left out */
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

/* The facts about a state in an answer. */
typedef struct lx_json_state {
    const char *id;
    const char *model; /* NULL: not served here */
    const lx_saved_state *state;
    size_t bytes;
    int64_t ttl_ms;
} lx_json_state;

void lx_json_write_state(const lx_json_state *s, lx_buffer *out);
/* {"object": "list", "data": [...]} */
void lx_json_write_state_list(const lx_json_state *states, int32_t n, lx_buffer *out);

/* One head of a state. */
typedef struct lx_json_head {
    const char *id;
    int32_t layer, head, n_layers, n_heads;
} lx_json_head;

/* s and z of one head, and what can be read off them. */
typedef struct lx_json_inspection {
    lx_json_head head;
    int32_t d_key, d_value;
    const float *s; /* [d_key, d_value] */
    const float *z; /* [d_key] */
} lx_json_inspection;

void lx_json_write_inspection(const lx_json_inspection *l, lx_buffer *out);

/* What one head keeps, whatever its kind. */
typedef struct lx_json_state_field {
    const char *name;
    int32_t rows, cols;
    const float *values; /* [rows, cols] */
} lx_json_state_field;

typedef struct lx_json_fields {
    lx_json_head head;
    int32_t n;
    const lx_json_state_field *fields; /* [n] */
} lx_json_fields;

void lx_json_write_fields(const lx_json_fields *l, lx_buffer *out);

/* The newest rows that one head keeps. */
typedef struct lx_json_rows {
    lx_json_head head;
    int32_t d_key, d_value;
    int32_t n_kept, n;        /* rows there are, and rows that follow */
    const int32_t *positions; /* [n] ascending */
    const float *k, *v;       /* [n, d_key], [n, d_value] */
} lx_json_rows;

void lx_json_write_rows(const lx_json_rows *r, lx_buffer *out);

/* Element `index` of an answer's "states". */
typedef struct lx_json_kept {
    const char *id;
    lx_status status; /* LX_OK: kept */
    const char *why;  /* not */
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
/* {"content": "..."} */
void lx_json_write_content(const lx_buffer *text, lx_buffer *out);
/* {"prompt": "..."} */
void lx_json_write_prompt(const lx_buffer *text, lx_buffer *out);

/* --- models and the server --- */

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

typedef struct lx_json_capacity {
    const char *id; /* the model's */
    int64_t slots, slots_used, queue_length, queue_limit;
    int64_t state_bytes; /* of one sample */
    double wait_s;       /* until a request sent now would begin, estimated */
    double step_s;       /* mean time of a step, 0 before the first */
} lx_json_capacity;

typedef struct lx_json_budget {
    int64_t limit, used;
} lx_json_budget;

/* status: "ready", "loading", ... */
void lx_json_write_capacity(const char *status, const lx_json_capacity *models, int32_t n,
                            lx_json_budget answers, lx_json_budget bodies, lx_buffer *out);

typedef struct lx_json_reloaded {
    const char *id, *fingerprint;
    bool changed; /* other weights than before */
} lx_json_reloaded;

void lx_json_write_reload(const lx_json_reloaded *models, int32_t n, lx_buffer *out);

#endif
