/*
 * A mixer: one residual branch of a layer, x += A(norm(x)). A sequence mixer lets a token see those
 * before it, through a state; a feed-forward net is a mixer without one. A file of this folder is a
 * mixer, top to bottom: its source and equations, its declarations, and the function that queues
 * its operations.
 *
 * The rest of the program knows only a mixer's declarations. Its parameters (lx_mixer) are the keys
 * of the object that names it in config.json. From the tensors (lx_mixer_parts) come the check of a
 * weights file, their loading and the list of `linnet inspect DIR`; from the state fields a slot's
 * bytes, the layout of saved states and what GET /v1/states/ID/look shows; from the scratch the
 * activation buffers, which all layers share.
 *
 * A new mixer touches: its file here, one line in mixers.def, tests/mixers/NAME.json for its tests,
 * weights/train for its training.
 */
#ifndef LINNET_MODEL_MIXERS_MIXER_H
#define LINNET_MODEL_MIXERS_MIXER_H

#include "kernels/kernels.h"

enum {
    LX_MAX_MIXER_PARAMS = 12,
    LX_MAX_PARAM_LIST = 16,
    LX_MAX_MIXER_PATTERNS = 16,
    LX_MAX_MIXER_TENSORS = 24,
    LX_MAX_MIXER_FIELDS = 8,
    LX_MAX_MIXER_DERIVED = 8,
    LX_MAX_MIXER_SCRATCH = 24,
    LX_MIXER_TENSOR_NAME = 80
};

typedef struct lx_mixer lx_mixer;

/* --- what config.json says of a mixer --- */

typedef enum lx_param_kind {
    LX_PARAM_INT,  /* a whole number from min to max */
    LX_PARAM_WORD, /* one of `words`; its value is its place among them */
    LX_PARAM_INTS, /* a list of 1 to LX_MAX_PARAM_LIST of them; one such key a mixer at most */
    LX_PARAM_FLAG, /* true or false */
    LX_PARAM_EPS,  /* a small number that keeps a quotient finite, 1e-30 to 1 */
    LX_PARAM_SCALE /* a factor, 1e-6 to 1e6; always optional, and 1 where it is not there */
} lx_param_kind;

typedef union lx_param_value {
    int32_t i; /* INT, WORD; FLAG: 0 or 1 */
    float f;   /* EPS, SCALE */
} lx_param_value;

/* A key of the object that names the mixer. */
typedef struct lx_mixer_param {
    const char *name; /* static */
    lx_param_kind kind;
    int32_t min, max;
    const char *const *words; /* NULL after the last */
    bool optional;            /* 0 where it is not there */
    bool is_within_sequence;  /* INT: at most the tokens of the model's longest sequence */
} lx_mixer_param;

/* The words of an optional key "direction", in the order of lx_direction; NULL after the last. */
typedef enum lx_direction { LX_FORWARD, LX_BOTH } lx_direction;
extern const char *const lx_mixer_directions[];

/* Which side of a branch A has a norm: x += A(norm(x)), x += norm(A(x)), or x += norm(A(norm(x))).
 */
typedef enum lx_norm_place { LX_NORM_BEFORE, LX_NORM_AFTER, LX_NORM_AROUND } lx_norm_place;

/* A mixer of a layer with its parameters, and the model's sizes that it may use. */
typedef struct lx_mixer_config {
    const lx_mixer *mixer;
    lx_norm_place norms; /* of a sequence mixer: of all branches of its layers, with wiring PRE */
    int32_t n_layers, d_model, n_heads, d_key, d_value, d_ff;
    lx_activation activation;
    lx_param_value params[LX_MAX_MIXER_PARAMS]; /* in the order of their declaration */
    int32_t n_list, list[LX_MAX_PARAM_LIST];    /* of the key that is a list */
} lx_mixer_config;

/* --- what a mixer declares --- */

typedef enum lx_tensor_role {
    LX_TENSOR_PRODUCT, /* y = W x + b: NAME.weight [rows, cols], NAME.bias [rows] */
    LX_TENSOR_MAP,     /* y = W x: NAME.weight [rows, cols] */
    LX_TENSOR_ARRAY,   /* numbers that no product multiplies: NAME [rows, cols], [cols] if rows 0 */
    /* Of the frame, which model.c declares: */
    LX_TENSOR_TABLE, /* a row for each id of an input: NAME.weight [rows, cols] */
    LX_TENSOR_NORM   /* NAME.weight [cols], NAME.bias [cols] unless the norms are RMSNorms */
} lx_tensor_role;

/* Parameters of a mixer: tensors of these names after "layers.I." in the weights file. A * in a
   name stands for the number of an expert. */
typedef struct lx_mixer_tensor {
    const char *name;   /* "attn.qkv"; static */
    int64_t rows, cols; /* outputs, inputs */
    lx_tensor_role role;
    /* MAP only: these are columns first .. of the file's tensor, which has so many; 0: its own. */
    int64_t first, all_cols;
    /* Rows of the file's tensor: `block` of them every `apart`, from `first_row` on; block 0: all.
     */
    int64_t first_row, block, apart;
    /* So many pairs at the end of each block are neighbours in the file. In the matrix their first
       rows come before all second ones, as `rotary` takes them. */
    int64_t pairs;
    /* MAP only: the rows of so many experts, one after another. Each expert is a tensor of the file
       with `expert_rows` rows, and its rows in the matrix are padded with zeros. 0: no experts. */
    int32_t n_experts;
    int64_t expert_rows;
    bool joins_next; /* one matrix with the rows of the next tensor after these */
    /* MAP only: where the file has a tensor of this name (static, whole, without .weight) it is
       that one instead: of its `part_rows` rows, for each expert so many, those from part_row on.
       NULL: none. */
    const char *part_of;
    int64_t part_row, part_rows;
} lx_mixer_tensor;

typedef struct lx_mixer_parts lx_mixer_parts;
typedef struct lx_mixer_derived lx_mixer_derived;

/* Makes d->n numbers. c, p: of the mixer that declared them. `from`: the source arrays,
 * concatenated; NULL without any. */
typedef void lx_mixer_fill(const lx_mixer_config *c, const lx_mixer_parts *p,
                           const lx_mixer_derived *d, const float *from, float *to);

/* Numbers that operations take but no file holds, made once when the weights are loaded. */
struct lx_mixer_derived {
    int32_t from, n_from; /* arrays they are made of, by their places among the tensors; or none */
    int64_t n;
    lx_mixer_fill *fill;
    double number; /* parameters of `fill` */
    int32_t count;
};

/* A part of the state, f32, row-major. A layer's state holds, for every head in turn, all fields in
 * the order of their declaration. After all heads it has the fields that exist once, in their
 * order. */
typedef struct lx_state_field {
    const char *name; /* "s"; static */
    int32_t rows, cols;
    bool once; /* for all heads */
} lx_state_field;

struct lx_mixer_parts {
    int32_t layer; /* whose they are, from 0: known before they are declared, as the next one */
    const char *prefix; /* static: of the names of tensors, after "layers.I." */
    int32_t n_tensors, n_derived, n_fields, n_scratch;
    lx_mixer_tensor tensors[LX_MAX_MIXER_TENSORS];
    lx_mixer_derived derived[LX_MAX_MIXER_DERIVED];
    int32_t n_heads; /* how often the fields, or the rows, repeat; 0 without a state */
    lx_state_field fields[LX_MAX_MIXER_FIELDS];
    /* Whether the first field of every head is something else than zeros before the first token:
       tensor `initial`, an array [n_heads rows, cols]. */
    bool has_initial;
    int32_t initial;
    /* Rows (k, v) as attend_rows keeps them: `ring` of them in the slot, after the fields, or all
     * in pages where ring is 0. row_key 0: none. */
    int32_t row_key, row_value, ring;
    int64_t in_page;    /* floats of a page that an operation lays out by itself; 0: none */
    int32_t n_patterns; /* of the heads in turn */
    lx_rows_pattern patterns[LX_MAX_MIXER_PATTERNS];
    int32_t second_ring;    /* a second ring of such rows, after the first, of this size; 0: none */
    lx_rows_pattern second; /* of all heads there */
    int64_t scratch[LX_MAX_MIXER_SCRATCH]; /* floats per token row of each activation buffer */
    /* Every row sees all rows of its sequence, which is whole: only models that are given their
       whole input at once may have such layers (model/encoder.h), and they keep no state. Instead
       they have, in `states` from `offset` on, room for so many floats of each sequence, whose
       content is undefined at first and is another layer's afterwards. */
    bool sees_all;
    int64_t room;
    /* Floats per token row that layer 0 leaves for all other layers; 0: nothing. Where any layer
       has it, layer 0 has as much. */
    int64_t carried;
};

/* The inputs and outputs of a mixer's queue function. Everything is borrowed for the call. */
typedef struct lx_mixer_call {
    lx_backend *be;
    const lx_mixer_config *config;
    const lx_mixer_parts *parts;
    lx_matrix *const *weights; /* in the order of `tensors`; NULL for arrays and joined tensors */
    lx_array *const *arrays;   /* in the order of `tensors`, row-major; NULL for products */
    lx_array *const *derived;  /* in the order of `derived` */
    lx_array *const *scratch;  /* in the order of `scratch`; their content is undefined */
    lx_array *carried;         /* what layer 0 leaves, once it did; NULL: nothing */
    lx_rows rows;              /* T: all token rows, or without a state those with an output */
    const lx_array *x;         /* [T, d_model] input; may be `residual` */
    lx_array *residual;        /* [T, d_model] the branch's output is added to it */
    /* NULL, or [n_outputs, d_model] in the last branch with a state. Only rows with an output are
       needed after that: their part of the residual goes here (lx_mixer_rest). */
    lx_array *outputs;
    int32_t n_outputs;
    lx_states *states;
    int64_t offset;      /* where this branch's part of a slot, or its room, begins, in floats */
    int64_t page_offset; /* where its part of a page begins */
} lx_mixer_call;

struct lx_mixer {
    const char *name;    /* in config.json */
    const char *summary; /* one line for `linnet inspect --kinds` */
    const void *variant; /* a parameter of functions that several kinds share; or NULL */
    bool is_feed_forward;
    bool is_whole_layer; /* its layers have no feed-forward net, unless the next field says so */
    /* The FLAG parameter, counted from 1, that gives layers of a whole-layer mixer a feed-forward
       net; 0: none. */
    int32_t feed_forward;
    bool is_recomputed; /* its state is there during a step only; of all layers or none */
    /* Whether a back end has all operations that `queue` queues; NULL: every one has. */
    bool (*is_on)(const lx_mixer_config *config, const lx_kernels *ops);
    int32_t n_params;
    const lx_mixer_param *params;
    /* The fault of a combination of keys that each are right, as "KEY must ..."; NULL: no fault.
     * May be NULL.
     */
    const char *(*check)(const lx_mixer_config *config);
    /* Fills *parts, which is zero but for `layer` and `prefix`, by the functions below. The config
       has been read and checked. */
    void (*declare)(const lx_mixer_config *config, lx_mixer_parts *parts);
    void (*queue)(const lx_mixer_call *call);
};

/* Defines the mixer of a file that has functions `declare` and `queue`; LX_MIXER also takes the
   array `params`. Further fields follow, the summary among them. */
#define LX_MIXER_PLAIN(NAME, ...)                                                                  \
    const lx_mixer lx_mixer_##NAME = {                                                             \
        .name = #NAME, .declare = declare, .queue = queue, __VA_ARGS__}
#define LX_MIXER(NAME, ...)                                                                        \
    LX_MIXER_PLAIN(NAME, .n_params = sizeof params / sizeof *params, .params = params, __VA_ARGS__)

/* NULL for an unknown name. */
const lx_mixer *lx_mixer_find(const char *name);
/* Mixer i in the order of mixers.def; NULL after the last. */
const lx_mixer *lx_mixer_at(int32_t i);

/* The value of the parameter of this name, which the mixer has. */
lx_param_value *lx_mixer_value(lx_mixer_config *c, const char *name);
/* Sets the parameter of this name, a WORD, to one of its words. */
void lx_mixer_set_word(lx_mixer_config *c, const char *name, const char *word);

/* The value of parameter i, a SCALE. */
float lx_mixer_scale(const lx_mixer_config *c, int32_t i);

/* For `declare`; more than the maximum of each is a programming error (asserted). */
void lx_mixer_add_product(lx_mixer_parts *p, const char *name, int64_t outputs, int64_t inputs);
void lx_mixer_add_map(lx_mixer_parts *p, const char *name, int64_t outputs, int64_t inputs);
/* Columns first .. first + inputs - 1 of a tensor that has all_inputs. */
void lx_mixer_add_map_part(lx_mixer_parts *p, const char *name, int64_t outputs, int64_t inputs,
                           int64_t first, int64_t all_inputs);
void lx_mixer_add_array(lx_mixer_parts *p, const char *name, int64_t rows, int64_t cols);
/* One matrix of n_experts maps, of tensors whose names have the expert's number in place of a *,
   which one expert needs not have. */
void lx_mixer_add_experts(lx_mixer_parts *p, const char *name, int32_t n_experts, int64_t outputs,
                          int64_t inputs);
/* The tensor may be rows part_row .. of another one, see lx_mixer_tensor. */
void lx_mixer_add_part_of(lx_mixer_parts *p, int32_t tensor, const char *name, int64_t part_row,
                          int64_t part_rows);
/* n consecutive products, all with a bias or none, become one in the place of the first: their rows
 * follow each other. */
void lx_mixer_join(lx_mixer_parts *p, int32_t first, int32_t n);
/* Of a product's rows `block` every `apart`, from first_row on: it names a tensor with others, too.
 */
void lx_mixer_take_rows(lx_mixer_parts *p, int32_t tensor, int64_t first_row, int64_t block,
                        int64_t apart);
/* The last `rows` rows of each block that lx_mixer_take_rows takes are pairs, which are neighbours
   in the file and halves in the matrix. */
void lx_mixer_part_pairs(lx_mixer_parts *p, int32_t tensor, int64_t rows);
void lx_mixer_add_derived(lx_mixer_parts *p, int32_t from, int32_t n_from, int64_t n,
                          lx_mixer_fill *fill);
/* As lx_mixer_add_derived, from one array (none with from -1), with a parameter for the fill. */
void lx_mixer_add_derived_by(lx_mixer_parts *p, int32_t from, int64_t n, lx_mixer_fill *fill,
                             double number);
/* The same number n times. */
void lx_mixer_add_constant(lx_mixer_parts *p, int64_t n, double number);
void lx_mixer_add_field(lx_mixer_parts *p, const char *name, int32_t rows, int32_t cols);
void lx_mixer_add_field_once(lx_mixer_parts *p, const char *name, int32_t rows, int32_t cols);
/* The start values of every head's first field: an array of this name. */
void lx_mixer_add_initial(lx_mixer_parts *p, const char *name);
void lx_mixer_add_scratch(lx_mixer_parts *p, int64_t floats_per_row);
void lx_mixer_add_rows(lx_mixer_parts *p, int32_t n_heads, int32_t d_key, int32_t d_value,
                       int32_t ring);
/* So many floats of every page. */
void lx_mixer_add_growing(lx_mixer_parts *p, int64_t floats_per_page);
/* As lx_mixer_add_rows, with a ring that is large enough for this pattern, which all heads have. */
void lx_mixer_add_pattern_ring(lx_mixer_parts *p, int32_t n_heads, int32_t d_key, int32_t d_value,
                               const lx_rows_pattern *pattern);
/* A second ring of such rows, large enough for this pattern. */
void lx_mixer_add_second_ring(lx_mixer_parts *p, const lx_rows_pattern *pattern);

/* How many tensors of the file make up this one: one for each expert, else 1. */
int32_t lx_mixer_file_tensors(const lx_mixer_tensor *t);
/* The name of tensor i of these in docs/weights-format.md, without .weight or .bias. */
void lx_mixer_tensor_name(const lx_mixer_parts *p, const lx_mixer_tensor *t, int32_t i,
                          char out[LX_MIXER_TENSOR_NAME]);
/* The shape of each tensor in the file. */
int64_t lx_mixer_file_rows(const lx_mixer_tensor *t);
int64_t lx_mixer_file_cols(const lx_mixer_tensor *t);
/* The row of the file's tensor that is row i here. */
int64_t lx_mixer_file_row(const lx_mixer_tensor *t, int64_t i);

/* Floats of one head's fields, of those of all heads, of the ring without the second one, of a
   layer's whole state in the slot, and of its part of a page. */
int64_t lx_mixer_head_floats(const lx_mixer_parts *p);
int64_t lx_mixer_heads_floats(const lx_mixer_parts *p);
int64_t lx_mixer_ring_floats(const lx_mixer_parts *p);
/* Of all fields: where in the layer's part of the slot the ring begins. */
int64_t lx_mixer_fields_floats(const lx_mixer_parts *p);
int64_t lx_mixer_state_floats(const lx_mixer_parts *p);
int64_t lx_mixer_page_floats(const lx_mixer_parts *p);

/* For `queue`: y[r] = activation(W x[r] + b) + residual[r] for every row of the call. */
void lx_mixer_product(const lx_mixer_call *call, lx_array *y, const lx_array *x, int32_t weight,
                      lx_activation activation, const lx_array *residual);
/* For `queue` of a branch with a state, once that is written: the call for what is left. Where only
   rows with an output are needed, it has their residual. False: no row has an output, and nothing
   is left to do. */
bool lx_mixer_rest(const lx_mixer_call *call, lx_mixer_call *rest);
/* The rows of such a call: x, of n floats, or those with an output copied to `spare`. */
const lx_array *lx_mixer_rest_rows(const lx_mixer_call *rest, const lx_array *x, int32_t n,
                                   lx_array *spare);
/* For `queue` of a branch with a state, as its last: adds the product of x to the residual. `spare`
   may be overwritten and has room for rows as wide as x. */
void lx_mixer_end(const lx_mixer_call *call, const lx_array *x, int32_t weight, lx_array *spare);
/* For `queue`: the first tensor's product of x into the first scratch, `attend`, which makes the
   second scratch of that, and product `out` of the second, added to the residual. */
void lx_mixer_queue_attention(const lx_mixer_call *call, int32_t out,
                              void (*attend)(const lx_mixer_call *call));

#endif
