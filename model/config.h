/*
 * config.json of a model folder: everything that could differ between two models, validated. This
 * file has the keys that all models have; a task reads its own keys (model/tasks/task.h).
 *
 * An unknown key, an unknown value, a missing key or a number out of range is LX_ERR_FORMAT with a
 * text that names file and key. The keys are described in docs/weights-format.md.
 */
#ifndef LINNET_MODEL_CONFIG_H
#define LINNET_MODEL_CONFIG_H

#include "model/mixers/mixer.h"

enum {
    LX_MAX_INPUTS = 12,
    LX_MAX_NAME = 32,
    LX_MAX_BASE = 128,
    LX_MAX_LAYERS = 256,
    LX_MAX_HEADS = 1024,
    LX_MAX_HEAD_SIZE = 4096,
    LX_MAX_WIDTH = 1 << 16,
    LX_MAX_D_FF = 1 << 18, /* of all columns of a head's queries, keys and values, too */
    LX_MAX_IDS = 1 << 24,
    LX_TASK_PART_BYTES = 7168
};

/* How the residual branches A of the layers are wired; a norm is each branch's own. */
typedef enum lx_wiring {
    LX_WIRING_PRE,       /* x += A(norm(x)) */
    LX_WIRING_POST,      /* x = norm(x + A(x)) */
    LX_WIRING_REVERSIBLE /* two streams, both x at first: x1 += A(norm(x2)), then x2 += B(norm(x1)),
                            and so on; final norm and head see both, side by side */
} lx_wiring;
typedef enum lx_head_kind {
    LX_HEAD_CATEGORICAL,
    LX_HEAD_LOGISTIC_MIXTURE,
    LX_HEAD_CTC /* a value a row, of which 0 is none: model/ctc.h */
} lx_head_kind;

/* The branches of a layer: a sequence mixer and, unless that is a whole layer (lx_mixer), a
   feed-forward net; or one of these alone. */
typedef enum lx_layer_branches { LX_LAYER_USUAL, LX_LAYER_MIXER, LX_LAYER_NET } lx_layer_branches;

/* One input stream: row `id` of its table is added to the embedding of a token. */
typedef struct lx_input {
    char name[LX_MAX_NAME];
    int32_t size;
} lx_input;

/* Room for the keys of a task; the task's header has the type and a function that reaches it. */
typedef struct lx_task_part {
    _Alignas(8) unsigned char bytes[LX_TASK_PART_BYTES];
} lx_task_part;

/* For the header of a task: OF and OWN reach its part of a config, of which TYPE is the type. */
#define LX_TASK_PART(TYPE, OF, OWN)                                                                \
    _Static_assert(sizeof(TYPE) <= LX_TASK_PART_BYTES, "a config has room for it");                \
    static inline const TYPE *OF(const lx_config *c)                                               \
    {                                                                                              \
        return (const void *)c->own.bytes;                                                         \
    }                                                                                              \
    static inline TYPE *OWN(lx_config *c)                                                          \
    {                                                                                              \
        return (void *)c->own.bytes;                                                               \
    }

typedef struct lx_config {
    /* A folder, from this one on, whose config.json this one changes and whose weights, vocabulary
       and tokenizer it shares; "": none. */
    char base[LX_MAX_BASE];
    char task[LX_MAX_NAME];
    const char
        *family; /* static: model_type of a folder of others; NULL: a folder of Linnet's own */
    int32_t n_layers, n_heads, d_model, d_ff;
    int32_t d_key, d_value; /* d_model / n_heads unless said otherwise */
    lx_wiring wiring;
    bool rms_norm;      /* the norms are RMSNorm, without a bias, instead of LayerNorm */
    bool norm_plus_one; /* of these: their weights are added to 1 */
    float norm_eps;
    float embedding_scale; /* of the sum of the input embeddings; 0: 1 */
    float head_scale;      /* of the final norm, and so of the logits; 0: 1 */
    bool input_norm;       /* a norm between the sum of the input embeddings and the first layer */
    lx_activation activation;
    uint8_t branches[LX_MAX_LAYERS]; /* lx_layer_branches */
    int32_t n_mixers;                /* 1: all layers have one mixer; otherwise n_layers */
    lx_mixer_config mixers[LX_MAX_LAYERS];
    /* A second sequence mixer of every layer, with the same input as the first one. Its kind is
       NULL where there is none. Only with the wiring PRE. */
    lx_mixer_config beside;
    /* feed_forwards[0] is the net of every layer that has one, or with n_feed_forwards = n_layers
       each layer has its own. */
    int32_t n_feed_forwards;
    lx_mixer_config feed_forwards[LX_MAX_LAYERS];
    int32_t n_inputs;
    lx_input inputs[LX_MAX_INPUTS];
    lx_head_kind head_kind;
    bool plain_head; /* the head has no bias */
    /* The folder's own names of tensors; NULL: those of docs/weights-format.md. */
    const struct lx_tensor_names *names;
    int32_t n_further_layers; /* with `names`: that the folder has after the last one, unread */
    bool tied_head;           /* with `names`: the head is the table of the inputs */
    int32_t head_size;        /* rows of the head's matrix: ids, or 3 a component */
    int32_t n_values;         /* tokens are 0 .. n_values - 1 (head.size, head.levels) */
    int32_t n_components;     /* logistic_mixture, otherwise 0 */
    int32_t n_features;       /* floats of a row of features that the first layer sees; 0: none */
    lx_task_part own;         /* of the task: lx_text_config, lx_image_config, .. */
} lx_config;

/* The sequence mixer of a layer; of a layer without one that of another layer. */
static inline const lx_mixer_config *lx_config_mixer(const lx_config *c, int32_t layer)
{
    return &c->mixers[c->n_mixers > 1 ? layer : 0];
}

/* Whether a layer has a sequence mixer. */
static inline bool lx_config_has_mixer(const lx_config *c, int32_t layer)
{
    return c->branches[layer] != LX_LAYER_NET;
}

/* Whether a layer has a feed-forward net. */
static inline bool lx_config_has_feed_forward(const lx_config *c, int32_t layer)
{
    const lx_mixer_config *m = lx_config_mixer(c, layer);
    int32_t given = m->mixer->feed_forward;
    if (c->branches[layer] != LX_LAYER_USUAL)
        return c->branches[layer] == LX_LAYER_NET;
    return !m->mixer->is_whole_layer || (given > 0 && m->params[given - 1].i);
}

/* The feed-forward net of a layer that has one. */
static inline const lx_mixer_config *lx_config_feed_forward(const lx_config *c, int32_t layer)
{
    return &c->feed_forwards[c->n_feed_forwards > 1 ? layer : 0];
}

/* The width of what final norm and head see. */
static inline int32_t lx_config_output_width(const lx_config *c)
{
    return c->wiring == LX_WIRING_REVERSIBLE ? 2 * c->d_model : c->d_model;
}

/* One fault of a config.json, as an error's text says it. */
typedef void lx_config_report(void *context, const lx_error *fault);

/* Reads and checks `path`. */
lx_status lx_config_load(const char *path, lx_config *out, lx_error *err) LX_MUST_USE;
/* Checks the object of such a file, whose keys it removes; `label` names the file in errors. */
struct json_t;
lx_status lx_config_from(struct json_t *root, const char *label, lx_config *out,
                         lx_error *err) LX_MUST_USE;
/* LX_ERR_FORMAT names a mixer's parameter that must lie within a sequence and does not; most: the
   tokens of the model's longest. */
lx_status lx_config_check_lengths(const lx_config *c, int32_t most, lx_error *err) LX_MUST_USE;

#endif
