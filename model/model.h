/*
 * A model folder, read and checked: config.json + model.safetensors + vocab.txt or a tokenizer, the
 * task that makes sense of its tokens, and a hash of the weights. Immutable once loaded; any thread
 * may read it.
 */
#ifndef LINNET_MODEL_MODEL_H
#define LINNET_MODEL_MODEL_H

#include "model/chat_marks.h"
#include "model/config.h"
#include "model/formats/safetensors.h"
#include "model/grammar/calls.h"
#include "model/vocab.h"

struct lx_task_ops;
struct lx_tokenizer;
struct lx_chat_template;
struct lx_jinja;
struct lx_gguf;
struct lx_gguf_arch;

enum {
    LX_MAX_BRANCHES = 3,
    LX_MODEL_NAME = 64,  /* bytes of a name, with its NUL */
    LX_TOKEN_NOTE = 256, /* bytes of a line */
};

/* What a model does with a tensor of its file: flags. */
enum {
    LX_TENSOR_USED = 1,
    LX_TENSOR_MULTIPLIES = 2, /* a matrix, or a part of one */
    LX_TENSOR_IS_TABLE = 4,
    LX_TENSOR_CUTS_BLOCKS = 8 /* the columns in use do not begin or end with a block (LX_BLOCK) */
};

/* A layer is a sequence of residual branches. Each has a norm of its own, or the input of the
   branch before it. */
typedef struct lx_branch {
    const lx_mixer_config *config; /* of the model's config */
    lx_mixer_parts parts;
    int32_t norm;         /* its number in the layer, from 1; 0: of the branch before */
    lx_norm_place norms;  /* of the layer */
    int64_t state_offset; /* where its part of a slot begins, in floats */
    int64_t page_offset;  /* where its part of each page begins, in floats */
} lx_branch;

typedef struct lx_layer {
    int32_t n_branches;
    lx_branch branches[LX_MAX_BRANCHES];
} lx_layer;

/* The tensors around the layers. */
typedef enum lx_frame_part {
    LX_FRAME_EMBED, /* number i: of input i */
    LX_FRAME_FEATURES,
    LX_FRAME_INPUT_NORM,
    LX_FRAME_FINAL_NORM,
    LX_FRAME_HEAD
} lx_frame_part;

enum { LX_MAX_FRAME = LX_MAX_INPUTS + 4 };

typedef struct lx_frame_tensor {
    char name[16 + LX_MAX_NAME]; /* in docs/weights-format.md */
    lx_frame_part part;
    int32_t i;
    lx_mixer_tensor tensor; /* its shape and role; the name above is its name */
} lx_frame_tensor;

typedef struct lx_model {
    char name[LX_MODEL_NAME]; /* the folder's name, the id clients use */
    char *dir;                /* the folder, or the one file that it is */
    struct lx_gguf *gguf; /* that file, while it is loaded; NULL: a folder, or its weights own it */
    const struct lx_gguf_arch *arch; /* of such a file */
    lx_config config;
    lx_safetensors *weights; /* every tensor of the config is there with its shape, and no other */
    uint8_t *tensor_uses;    /* of tensor i: LX_TENSOR_USED .., 0: none */
    lx_vocab *vocab;         /* NULL when the task needs none */
    struct lx_tokenizer *tokenizer; /* of text, of couplets too; otherwise NULL */
    int32_t token_bytes;            /* that a token adds to a text, or has as its name, at most */
    const struct lx_task_ops *task;
    const struct lx_chat_template *chat; /* of text, where it is a known one; else NULL */
    struct lx_jinja *jinja; /* of text: any other template; NULL: none that can be rendered */
    char *no_jinja;         /* then why not, a line; else NULL */
    char token_note[LX_TOKEN_NOTE]; /* a setting of tokens that is ignored; "": none */
    struct lx_jinja *tool_jinja;    /* the template for chats with tools; NULL: see the next */
    bool has_tool_template;         /* such chats have their own, though it may not be rendered */
    bool thinks;                    /* its templates know thoughts, between <think> and </think> */
    char *begin_name, *end_name;    /* bos_token and eos_token of a template; NULL: none */
    lx_chat_marks marks;            /* of its own templates */
    const lx_call_format *calls; /* of tools, as its template has them; NULL: none that is known */
    int32_t mark_ids[LX_CALL_MARKS]; /* of marks that are special tokens; else -1 */
    void *task_data;                 /* of the task: its `load` made it, or NULL */
    bool has_template;               /* it has one, known or not */
    uint64_t hash;                   /* of every file that is read */
    int64_t n_parameters;
    int32_t max_rows; /* input rows that a state may absorb: the task's longest plan */
    lx_layer *layers; /* [n_layers] */
    int32_t n_frame;
    lx_frame_tensor frame[LX_MAX_FRAME];
    uint64_t state_hash; /* of what decides a state's layout: kinds, their parameters and sizes */
    lx_state_layout
        state;          /* of one slot; how many pages there are is up to the maker of the states */
    bool norms_outputs; /* a branch has a norm of its output */
    bool sees_all;      /* every row sees its whole sequence: model/encoder.h, and no state */
    int64_t room;       /* then floats a sequence that any layer has during a pass */
    bool recomputes;    /* the state is the rows' ids: model/recompute.h */
    lx_state_layout work; /* then the floats of the layers' states during a step */
} lx_model;

/* Whether a path is that of a model in one file: GGUF. */
bool lx_model_is_file(const char *path);
/* The tokenizer alone, of a folder, by its config.json if that can be read, or of such a file. */
lx_status lx_model_load_tokenizer(const char *dir, struct lx_tokenizer **out,
                                  lx_error *err) LX_MUST_USE;
/* Loads the folder `dir`, or a GGUF file of that path. The first fault ends it with one line naming
 * file and key or tensor. */
lx_status lx_model_load(const char *dir, lx_model **out, lx_error *err) LX_MUST_USE;

/* A step of lx_model_load: fills m->layers, frame, state, state_hash, work, recomputes, room and
   sees_all from m->config. LX_ERR_FORMAT names the layer that does not fit the other layers. */
lx_status lx_model_set_layers(lx_model *m, lx_error *err) LX_MUST_USE;

/* Reports all of a folder's config.json that is not supported, where others wrote it. */
lx_status lx_model_faults(const char *dir, lx_config_report *report, void *context,
                          lx_error *err) LX_MUST_USE;
/* `model_type` i of other programs' folders that are read; NULL after the last. */
const char *lx_model_type(int32_t i);
/* Architecture i of GGUF files that are read; NULL after the last. */
const char *lx_model_arch(int32_t i);
void lx_model_free(lx_model *m); /* NULL is allowed; nothing made from it may be in use */

/* A tensor by the name that docs/weights-format.md has for it; NULL where there is none. */
const lx_tensor *lx_model_tensor(const lx_model *m, const char *name);

/* The tensor of the file that t is a part of, and its name; NULL where t has tensors of its own. */
const lx_tensor *lx_model_whole(const lx_model *m, const lx_mixer_parts *parts,
                                const lx_mixer_tensor *t, char name[LX_MIXER_TENSOR_NAME]);

/* The size of a state after so many input rows: pages of its growing part, and floats in all. */
int32_t lx_model_state_pages(const lx_model *m, int64_t rows);
int64_t lx_model_state_floats(const lx_model *m, int64_t rows);
/* Whether a sequence can branch (lx_batch.branch), as pauses of prompts want: its state is kept
   between steps, has no rings of rows, and its pages have only rows. */
bool lx_model_can_branch(const lx_model *m);
/* Whether guesses can be computed in a branch: it has no pages either. */
bool lx_model_can_guess(const lx_model *m);

/* Field `name` of head `head` of layer `layer`: its shape, and in *offset where it begins among a
   slot's floats. NULL when the layer has no such field or head. */
const lx_state_field *lx_model_state_field(const lx_model *m, int32_t layer, int32_t head,
                                           const char *name, int64_t *offset);
/* As above for field i, the fields that the layer has once for all heads included; NULL after the
 * last. */
const lx_state_field *lx_model_state_field_at(const lx_model *m, int32_t layer, int32_t head,
                                              int32_t i, int64_t *offset);

/* The last page of an exported state of so many rows may have later rows of a sequence that shares
   the page with it (lx_model_can_branch). Here they become zeros, as in a page of its own. */
void lx_model_clear_later_rows(const lx_model *m, int64_t rows, float *state);

/* Rows (k, v) that a layer's state keeps (rows.h): their sizes, and how many of them there are once
   the state has absorbed so many input rows. */
typedef struct lx_kept_rows {
    int32_t n_heads, d_key, d_value, n;
} lx_kept_rows;

/* All zero where the layer keeps none. */
lx_kept_rows lx_model_kept_rows(const lx_model *m, int32_t layer, int32_t rows);
/* The newest n kept rows of a head of a saved state: positions [n] ascending, k [n, d_key],
   v [n, d_value]. Head and n are at most what lx_model_kept_rows says. */
void lx_model_read_rows(const lx_model *m, int32_t layer, int32_t head, int32_t rows,
                        const float *state, int32_t n, int32_t *positions, float *k, float *v);
/* Heads of a layer's state; 0: the layer has no state. */
int32_t lx_model_state_heads(const lx_model *m, int32_t layer);

#endif
