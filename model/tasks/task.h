/*
 * A task turns a request into tokens and tokens into an answer. It is the only layer that knows
 * the meaning of tokens: couplet lines, images, any text. All layers below work on ids, all layers
 * above on requests.
 *
 * A new task touches its own file, one line of tasks.def, and its tests. Its table (lx_task_ops)
 * has all that the rest of the program asks of it: how it reads its keys of config.json, the files
 * of the folder that it loads, and what /v1/models says. A field of requests that only this task
 * reads is one line of fields.def.
 *
 * A plan is one request, parsed: the prompt's input rows, how many tokens will be generated, and
 * for every step the input row and the constraint. It is immutable and shared by all samples (n) of
 * the request; a sample's tokens so far are passed in.
 */
#ifndef LINNET_MODEL_TASK_H
#define LINNET_MODEL_TASK_H

#include "common/buffer.h"
#include "model/grammar/grammar.h"
#include "model/model.h"
#include "model/tokenizers/tokenizer.h"

enum {
    LX_MAX_BANNED = 160,
    LX_MAX_CARD = 8,
    LX_MAX_TEMPERATURES = 4,
    LX_BORDER_ROWS = 16 /* rows from one border to the next: a step costs about as much as these */
};

typedef struct lx_temperatures {
    int32_t n; /* 0: one temperature for all samples */
    float at[LX_MAX_TEMPERATURES];
} lx_temperatures;

typedef struct lx_task_ops lx_task_ops;
struct lx_config_reader;
struct lx_config_object;

typedef struct lx_plan {
    const lx_model *model;
    int32_t n_prompt;    /* input rows before the first generated token, >= 1 */
    int32_t *prompt_ids; /* [n_prompt, n_inputs], owned */
    /* Rows before which messages of a chat begin or end, ascending, LX_BORDER_ROWS apart: a later
       prompt may part from this one there. Owned. */
    int32_t *borders;
    int32_t n_borders;
    /* Text, with score_prompt: so many tokens of the prompt after its rows, prompt_ids + n_prompt,
       are the first of the answer, so that they are scored; n_new counts them too. */
    int32_t n_given;
    bool scored;          /* asked for with score_prompt */
    int32_t n_new;        /* tokens a complete answer has, at most where the task says `ends` */
    int32_t n_unknown;    /* characters of the prompt that the vocabulary has not: read as <unk> */
    int32_t n_simplified; /* characters of the prompt that were read as their simplified form */
    int32_t n_pieces;     /* tokens the prompt's own text has, see render_prompt */
    int32_t n_open;       /* text: before this token no end is drawn, and no stop string counts */
    bool has_end;         /* where the task says `ends`: the end is token n_new, no earlier one */
    /* input() passes tokens on as ids and constrain() does not look at them, so both may be asked
       with lx_drawn_id in the place of tokens that are not known yet. */
    bool runs_ahead;
    bool ignores_end;      /* see lx_task_request.ignore_end */
    lx_follower *follower; /* of the grammar that the answers keep; owned; NULL: none */
    bool backward;         /* couplets: the prompt is a lower line, and the answer its upper one */
    const char *warning;   /* static: why the answer may not follow the prompt; NULL: it may */
    void *data;            /* the task's own, one block of malloc, or NULL; lx_plan_free frees it */
} lx_plan;

/* Fields of requests that one task reads and the others refuse (fields.def): LX_ASKED_form ... */
enum {
#define FIELD(task, name, kind) LX_ASKED_##name,
#include "model/tasks/fields.def"
#undef FIELD
    LX_N_ASKED
};

typedef struct lx_task_value {
    const char *text; /* NUL-terminated after `bytes`; NULL: the request leaves the field out */
    size_t bytes;
} lx_task_value;

typedef struct lx_task_fields {
    lx_task_value at[LX_N_ASKED];
} lx_task_fields;

/* The part of a request that a task reads. */
typedef struct lx_task_request {
    const char *text; /* the prompt, of couplets the upper line; not NUL-terminated */
    size_t text_bytes;
    const int32_t *ids; /* instead of a text, its n_ids tokens; NULL: text */
    int32_t n_ids;
    const int32_t *borders; /* [n_borders] of the ids, ascending: see lx_plan */
    int32_t n_borders;
    int32_t max_prompt; /* tokens that a prompt of any text may have, 0: as the model's context */
    /* Where the task says `ends`: see lx_plan.n_given, and whether the answer ends with its last
       token or a stop string only. */
    bool score_prompt, ignore_end;
    lx_shape shape;    /* the answers keep this grammar; only where the task says `shapes` */
    int32_t n_answers; /* with a shape: how many answers the plan has; 0: 1 */
    bool rules;        /* the answer keeps the task's rules, where it has rules */
    bool either_way;   /* a prompt that reads like an answer gets its prompt: lx_plan.backward */
    bool normalize;    /* the prompt is read in the task's usual spelling, where it has one */
    const lx_task_fields *fields; /* NULL: none */
    /* Values that only the task own_of reads, in a struct of that task; NULL: none. */
    const lx_task_ops *own_of;
    const void *own;
} lx_task_request;

/* The kind of a task's answers. */
typedef enum lx_modality { LX_TEXT, LX_IMAGE, LX_SPEECH /* text of sound: speech.h */ } lx_modality;

/* What /v1/models says of a task's models, field by field. */
typedef enum lx_card_kind {
    LX_CARD_INT,
    LX_CARD_FLAG,
    LX_CARD_REAL,
    LX_CARD_WORD,
    LX_CARD_WORDS /* the first word of each of n texts, which lie `apart` bytes from each other */
} lx_card_kind;

typedef struct lx_card_field {
    const char *name;
    lx_card_kind kind;
    double number; /* INT, FLAG, REAL */
    const char *text;
    size_t apart;
    int32_t n;
} lx_card_field;

typedef struct lx_task_card {
    int32_t n;
    lx_card_field fields[LX_MAX_CARD];
} lx_task_card;

/* The rule of one step: either one forced id, or sets of allowed and of banned ones. */
typedef struct lx_constraint {
    int32_t forced;   /* -1 for none */
    bool use_mask;    /* apply the fixed mask below */
    int32_t mask_idx; /* which of the task's masks, 0 .. lx_task_masks - 1 */
    int32_t n_banned;
    int32_t banned[LX_MAX_BANNED];
    const uint32_t *allowed; /* as in lx_sampling; NULL, as the caller sets it: all ids are */
    uint32_t *room;          /* the caller's, for the bits of `allowed`: lx_task_words of them */
} lx_constraint;

/* A finished sample of a pool. */
typedef struct lx_pool_sample {
    const int32_t *tokens; /* [n_tokens] generated ones */
    int32_t n_tokens;
    double score;  /* at first the mean log-probability; judges add to it */
    bool reviewed; /* `review` is the mean log-probability of its review's answer */
    double review;
    /* For lx_choose_diverse, zeros at first: whether the sample is chosen, and how like it is to
       the likest chosen sample. */
    bool chosen;
    double like;
} lx_pool_sample;

/*
 * A pool: of one prompt more samples are drawn than are answered, and choose.h chooses among them.
 * Sample i is drawn at temperatures[i % n_temperatures].
 *
 * A review asks the model about a sample with a second plan, whose answer is known. Couplets: how
 * likely the prompt is as the answer to the sample. Poems: how likely the poem is without its
 * title. It costs one more job of prompt rows, so only the best samples get one.
 */
typedef struct lx_task_pool {
    int32_t n_samples;
    lx_temperatures temperatures;
    /* Pure: adds the faults of the samples' texts to their scores. */
    void (*judge)(const lx_plan *plan, lx_pool_sample *samples, int32_t n);
    int32_t n_reviewed;   /* samples that get a review at most, 0: none does */
    double review_weight; /* by which the review's mean log-probability adds to the score */
    bool (*may_review)(const lx_model *model);
    /* The plan of a sample's review and its answer, an initialised list. *out NULL: the sample has
       no review. */
    lx_status (*review)(const lx_plan *plan, const lx_pool_sample *sample, lx_plan **out,
                        lx_token_list *answer, lx_error *err);
} lx_task_pool;

/* A task without plans has NULL in all members after max_rows. */
struct lx_task_ops {
    const char *name; /* config.json: task */
    lx_modality modality;
    bool has_rules, normalizes; /* reads these fields of lx_task_request */
    bool shapes;                /* answers keep lx_task_request.shape */

    /* Takes the task's keys from the root of config.json into config->own. */
    void (*read_config)(struct lx_config_reader *r, struct lx_config_object s, lx_config *config);
    /* Loads the task's files (model_files.h): vocabulary or tokenizer, and model->task_data, which
       `unload` frees; NULL: there is none. */
    lx_status (*load)(lx_model *model, lx_error *err);
    void (*unload)(lx_model *model);
    /* Appends the task's fields of the model card. */
    void (*card)(const lx_model *model, lx_task_card *card);

    /* Checks that the model's config and vocabulary fit the task; called by lx_model_load. */
    lx_status (*check_model)(const lx_model *model, lx_error *err);

    /* Input rows of the longest plan, generated ones too. */
    int32_t (*max_rows)(const lx_model *model);

    /* The fixed masks of this task (see kernels.h: mask_new): fills banned[head_size] for mask i.
     */
    int32_t n_masks;
    int32_t (*more_masks)(const lx_model *model); /* after those; NULL: none */
    void (*fill_mask)(const lx_model *model, int32_t mask_idx, uint8_t *banned);

    const char *plural; /* how errors name such models: "poems"; for tasks of fields.def */

    /* Parses a request. LX_ERR_INVALID with param "prompt" for a prompt that the task cannot
       answer. NULL: the task answers no requests. */
    lx_status (*plan_init)(lx_plan *plan, const lx_task_request *request, lx_error *err);

    /* The input row [n_inputs] that feeds generated token number `step` (0-based) so that token
       step + 1 can be predicted. tokens[0 .. step] are valid, step + 1 < n_new. */
    void (*input)(const lx_plan *plan, int32_t step, const int32_t *tokens, int32_t *ids);

    /* The constraint for generating token `step`, tokens[0 .. step - 1] are valid. */
    void (*constrain)(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out);

    /* Whether an answer ends with this token, which is no part of its text. NULL: it never ends
       before n_new tokens. */
    bool (*ends)(const lx_plan *plan, int32_t token);

    /* The request again, as bytes and a flag. Couplets: the line; the flag says that the rules
     * hold. Images: the given values; the flag says that a byte with the class comes first. */
    bool (*restate)(const lx_plan *plan, lx_buffer *out);
    /* Makes the plan of such bytes and flag, which is the plan that was restated. */
    lx_status (*replan)(lx_plan *plan, const void *bytes, size_t n, bool flag, bool ignore_end,
                        lx_error *err);

    const lx_task_pool *pool; /* NULL: the samples are answered as they are drawn */

    /* Scores: the name of the mean, "nats_per_token", and how many nats its unit has. */
    const char *score_name;
    double score_unit;
    /* Text only, otherwise NULL: appends the tokens of a given answer, for scoring against the
       plan, to a list of at most n_new. LX_ERR_INVALID with param "completion". */
    lx_status (*read_answer)(const lx_plan *plan, const char *text, size_t bytes,
                             lx_token_list *out, lx_error *err);

    /* Text only, otherwise NULL: appends the text of generated token `step` (one piece of a
       streamed answer). Only whole characters are appended: a character of several tokens comes
       with its last token, and never without it. Allocates nothing else. Images:
       model/tasks/image.h. */
    void (*render)(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_buffer *out);
    /* Text only, otherwise NULL: appends a token's bytes, which may be a part of a character. */
    void (*spell)(const lx_model *model, int32_t id, lx_buffer *out);
    /* Text only, otherwise NULL: appends token i of the prompt as it was read, i < n_pieces. */
    void (*render_prompt)(const lx_plan *plan, int32_t i, lx_buffer *out);
    /* Text only, otherwise NULL: the most bytes that one of these three appends, and that
       a token's bytes have where each is written as \x and two digits after "bytes:". */
    int32_t (*token_bytes)(const lx_model *model);
};

/* For `card`: appends a field. */
void lx_card_add(lx_task_card *card, lx_card_field field);

/* request->own where it is of this task; NULL otherwise. */
const void *lx_task_own(const lx_task_request *request, const lx_task_ops *task);

/* Field i of fields.def, and the first of them that a request has; NULL: none. */
const char *lx_task_field_name(int32_t i);
const char *lx_task_first_field(const lx_task_fields *fields);

int32_t lx_task_masks(const lx_model *model);
/* Words of lx_constraint.room; 0 where no answer keeps a grammar. */
int32_t lx_task_words(const lx_model *model);
const lx_task_ops *lx_task_find(const char *name); /* NULL for an unknown name */

/* Makes and frees a plan. LX_ERR_INVALID with param "model" where the task answers no requests. */
lx_status lx_plan_new(const lx_model *model, const lx_task_request *request, lx_plan **out,
                      lx_error *err) LX_MUST_USE;
/* The plan that `restate` wrote as these bytes and flag. */
lx_status lx_plan_again(const lx_model *model, const void *bytes, size_t n, bool flag,
                        bool ignore_end, lx_plan **out, lx_error *err) LX_MUST_USE;
void lx_plan_free(lx_plan *plan); /* NULL is allowed */
/* The source of the answers' grammar; NULL: none. */
const lx_shape *lx_plan_shape(const lx_plan *plan);
/* Bytes of the grammar and its places; 0: none. */
int64_t lx_plan_shape_bytes(const lx_plan *plan);
/* Why no token could follow in an answer; NULL: one could. */
const char *lx_plan_stuck(const lx_plan *plan);

/* The whole text of n generated tokens; nothing for tasks that make none. */
void lx_plan_text(const lx_plan *plan, const int32_t *tokens, int32_t n, lx_buffer *out);

#endif
