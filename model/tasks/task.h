/*
 * A task turns a request into tokens and tokens into an answer. It is the only layer that knows
 * what the numbers mean: couplet lines, images, any text. Everything below works on ids; everything
 * above on requests.
 *
 * A plan is one request, parsed: the prompt's input rows, how many tokens will be generated, and
 * for every step the input row and the constraint. It is immutable and shared by all samples (n) of
 * the request; what a sample has generated so far is passed in.
 */
#ifndef LINNET_MODEL_TASK_H
#define LINNET_MODEL_TASK_H

#include "common/buffer.h"
#include "model/model.h"

enum { LX_MAX_BANNED = 160 };

typedef struct lx_plan {
    const lx_model *model;
    int32_t n_prompt;    /* input rows before the first generated token, >= 1 */
    int32_t *prompt_ids; /* [n_prompt, n_inputs], owned */
    /* Text, with score_prompt: so many tokens of the prompt behind its rows, prompt_ids + n_prompt,
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
    void *data; /* the task's own, owned through task->plan_fini */
} lx_plan;

/* What a request asks of a task. */
typedef struct lx_task_request {
    const char *text; /* the prompt, of couplets the upper line; not NUL-terminated */
    size_t text_bytes;
    const int32_t *ids; /* instead of a text, its n_ids tokens; NULL: text */
    int32_t n_ids;
    int32_t max_prompt;   /* text: tokens that a prompt may have, 0: as the model's context says */
    bool score_prompt;    /* text: see lx_plan.n_given; others ignore it */
    bool ignore_end;      /* text: the answer ends with its last token or a stop string only */
    const char *form;     /* poem: see poem.h; NULL: none. Other tasks refuse it */
    const char *acrostic; /* poem: of acrostic_bytes, not NUL-terminated; NULL: none */
    size_t acrostic_bytes;
    bool rhyme; /* poem: even lines rhyme; others refuse it */
    bool rules; /* couplet; false: the model alone decides, the rules are not enforced */
    /* couplet, poem: a traditional character whose simplified form the model knows is read as that
       one; couplet: white space inside the line, but for line breaks, is dropped */
    bool normalize;
    const uint8_t *values; /* image: the first n_values of the raster, given (may be none) */
    int32_t n_values;
    int32_t class_number; /* image: the class to show + 1; 0: any */
} lx_task_request;

/* What comes out of a task. */
typedef enum lx_modality { LX_TEXT, LX_IMAGE, LX_SPEECH /* text of sound: speech.h */ } lx_modality;

/* The rule of one step: either one forced id, or a set of banned ones. */
typedef struct lx_constraint {
    int32_t forced;   /* -1 for none */
    bool use_mask;    /* apply the fixed mask below */
    int32_t mask_idx; /* which of the task's masks, 0 .. lx_task_masks - 1 */
    int32_t n_banned;
    int32_t banned[LX_MAX_BANNED];
} lx_constraint;

/* Of a task without plans (plan_init NULL) all below max_rows is NULL, and nothing asks for it. */
typedef struct lx_task_ops {
    const char *name; /* config.json: task */
    lx_modality modality;
    bool has_rules, normalizes; /* reads these fields of lx_task_request */

    /* Checks that the model's config and vocabulary fit the task; called by lx_model_load. */
    lx_status (*check_model)(const lx_model *model, lx_error *err);

    /* Input rows of the longest plan, generated ones too. */
    int32_t (*max_rows)(const lx_model *model);

    /* The fixed masks of this task (see kernels.h: mask_new): fills banned[head_size] for mask i.
     */
    int32_t n_masks;
    int32_t (*more_masks)(const lx_model *model); /* behind those; NULL: none */
    void (*fill_mask)(const lx_model *model, int32_t mask_idx, uint8_t *banned);

    /* Parses a request. LX_ERR_INVALID with param "prompt" for what the task cannot answer. NULL:
       it answers none. */
    lx_status (*plan_init)(lx_plan *plan, const lx_task_request *request, lx_error *err);
    void (*plan_fini)(lx_plan *plan);

    /* The input row [n_inputs] that feeds generated token number `step` (0-based) so that token
       step + 1 can be predicted. tokens[0 .. step] are valid, step + 1 < n_new. */
    void (*input)(const lx_plan *plan, int32_t step, const int32_t *tokens, int32_t *ids);

    /* The constraint for generating token `step`, tokens[0 .. step - 1] are valid. */
    void (*constrain)(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out);

    /* Whether an answer ends with this token, which is no part of its text. NULL: it never ends
       before n_new tokens. */
    bool (*ends)(const lx_plan *plan, int32_t token);

    /* The request again, as bytes and a flag: appends the line, and the flag says that the rules
       hold; or the given values, and the flag says that a byte with the class comes first. */
    bool (*restate)(const lx_plan *plan, lx_buffer *out);
    /* The other way round: the same plan comes of *request, which borrows the bytes. */
    lx_status (*reread)(const void *bytes, size_t n, bool flag, lx_task_request *request,
                        lx_error *err);

    /* Text only, otherwise NULL: appends the text of generated token `step` (one piece of a
       streamed answer): whole characters, so that one whose bytes come with several tokens comes
       with the last of them, and not at all without it. Allocates nothing else. Images:
       model/tasks/image.h. */
    void (*render)(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_buffer *out);
    /* Text only, otherwise NULL: appends a token's bytes, which may be a part of a character. */
    void (*spell)(const lx_model *model, int32_t id, lx_buffer *out);
    /* Text only, otherwise NULL: appends token i of the prompt as it was read, i < n_pieces. */
    void (*render_prompt)(const lx_plan *plan, int32_t i, lx_buffer *out);
    /* Text only, otherwise NULL: the most bytes that one of these three appends, and that
       a token's bytes have where each is written as \x and two digits behind "bytes:". */
    int32_t (*token_bytes)(const lx_model *model);
} lx_task_ops;

int32_t lx_task_masks(const lx_model *model);
const lx_task_ops *lx_task_find(const char *name); /* NULL for an unknown name */

/* Makes and frees a plan. LX_ERR_INVALID with param "model" where the task answers no requests. */
lx_status lx_plan_new(const lx_model *model, const lx_task_request *request, lx_plan **out,
                      lx_error *err) LX_MUST_USE;
void lx_plan_free(lx_plan *plan); /* NULL is allowed */

/* The whole text of n generated tokens; nothing for tasks that make none. */
void lx_plan_text(const lx_plan *plan, const int32_t *tokens, int32_t n, lx_buffer *out);

#endif
