/* Taking keys of a config.json of Hugging Face: each is checked, copied and removed. */
#ifndef LINNET_MODEL_HUGGING_FACE_READER_H
#define LINNET_MODEL_HUGGING_FACE_READER_H

#include <jansson.h>

#include "model/config.h"
#include "model/formats/hugging_face/names.h"

/* The first fault stays, and makes later calls do nothing; with `report` they report every one
   instead, and go on as if its key were missing. */
typedef struct lx_hf_reader {
    const char *path;
    const char *prefix; /* of keys, of an object in the file: "attn."; NULL: none */
    json_t *root;
    lx_config_report *report; /* NULL: none */
    void *context;
    lx_status st;
    lx_error *err;
} lx_hf_reader;

/* A kind: fills the config; keys that are left then are unknown. */
typedef struct lx_hf_kind {
    const char *model_types[3]; /* NULL after the last */
    void (*read)(lx_hf_reader *r, lx_config *out);
} lx_hf_kind;

#define HF_KIND(name) extern const lx_hf_kind lx_hf_##name;
#include "model/formats/hugging_face/kinds.def"
#include "model/tasks/text_config.h"
#undef HF_KIND

enum { LX_HF_MAX_SOFTMAX_HEAD = 1024 }; /* columns of a head of grouped_query */

/* --- keys --- */

/* "FILE: KEY WHAT" */
void lx_hf_wrong(lx_hf_reader *r, const char *key, const char *what);
/* A key that is missing or null is `fallback`. */
int32_t lx_hf_int(lx_hf_reader *r, const char *key, int32_t min, int32_t max, int32_t fallback);
bool lx_hf_flag(lx_hf_reader *r, const char *key, bool fallback);
double lx_hf_number(lx_hf_reader *r, const char *key, double min, double max, double fallback);
/* The one value that is implemented, which is the fallback, too. */
void lx_hf_only_flag(lx_hf_reader *r, const char *key, bool value);
void lx_hf_only_word(lx_hf_reader *r, const char *key, const char *value);
void lx_hf_only_null(lx_hf_reader *r, const char *key);
/* A key that repeats the number of the key `other` in the authors' own files. */
void lx_hf_only_number(lx_hf_reader *r, const char *key, double value, const char *other);
/* A range [0, Infinity] of time steps. */
void lx_hf_only_unbounded(lx_hf_reader *r, const char *key);
/* The one of two names of a key that the file has; two values must be equal. */
const char *lx_hf_either(lx_hf_reader *r, const char *key, const char *other);
/* Keys that cannot change a result, with a space between each two. */
void lx_hf_ignore(lx_hf_reader *r, const char *keys);
/* Keys that any config may have. */
void lx_hf_ignore_common(lx_hf_reader *r);
/* Every key that is left is unknown. */
void lx_hf_refuse_rest(lx_hf_reader *r);

/* --- parts that several kinds share --- */

/* Keys of all texts: task, inputs, head and tokenizer; vocab_size and context where the file does
   not say them. */
void lx_hf_read_text(lx_hf_reader *r, lx_config *c, int32_t vocab_size, int32_t context);
/* Adds the tokens of eos_token_id, one or a list, to the tokens that end an answer. */
void lx_hf_read_ends(lx_hf_reader *r, const lx_config *config, lx_text_config *c);
/* A mixer of this kind with the model's sizes; heads and parameters are the caller's. */
lx_mixer_config lx_hf_mixer(const lx_config *c, const char *kind);
/* Every layer has this mixer, whose heads become the config's. */
void lx_hf_set_mixer(lx_config *c, const lx_mixer_config *m);
/* As lx_hf_set_mixer, except for layers that the key `attn` makes softmax layers (grouped_query).
 */
void lx_hf_set_mixers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *m);
/* `size` times the factor of a key, whole columns; 1 after a fault. */
int32_t lx_hf_columns(lx_hf_reader *r, const char *key, int32_t size, double fallback);
/* d_key and d_value of the mixer's heads, from expand_k and expand_v. */
void lx_hf_expand(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m, double expand_k,
                  double expand_v);
/* The parameter `conv`, from use_short_conv and conv_size. */
void lx_hf_conv(lx_hf_reader *r, lx_mixer_config *m, bool fallback);
/* The parameters `base` and `zeros` of grouped_query: the base of its rotation. */
void lx_hf_read_base(lx_hf_reader *r, lx_mixer_config *m, const char *key, double fallback);
/* The rotation of grouped_query in hybrids of transformers: keys of the object rope_parameters, in
   older files keys of the root. base and share are the defaults of rope_theta and of
   partial_rotary_factor. With a share of 1 all columns of a head must turn. With 0 the key says
   nothing, since the mixer itself has the number of columns. */
void lx_hf_read_rotation(lx_hf_reader *r, lx_mixer_config *m, double base, double share);
/* Keys around the layers of hybrids of transformers, with the numbers of a file that does not say
   them. RMSNorm stands before every branch, and gated_mlp after every mixer. */
typedef struct lx_hf_hybrid {
    const struct lx_tensor_names *names;
    const char *eps_key, *d_ff_key; /* NULL: rms_norm_eps, intermediate_size */
    double eps;
    int32_t d_model, n_layers, d_ff, vocab_size, context;
    bool tied;
} lx_hf_hybrid;
void lx_hf_read_hybrid(lx_hf_reader *r, lx_config *c, const lx_hf_hybrid *usual);
/* grouped_query of hybrids of transformers, with the numbers of a file that does not say them. */
typedef struct lx_hf_heads {
    int32_t heads, key_heads, size; /* key_heads 0: as many as heads; size 0: d_model / heads */
    const char *norm;               /* of queries and keys; NULL: none */
} lx_hf_heads;
lx_mixer_config lx_hf_read_heads(lx_hf_reader *r, const lx_config *c, const lx_hf_heads *usual);
/* The mixer experts, with the keys of their number, width (NULL: intermediate_size) and active ones
   (NULL: num_experts_per_tok), and the numbers of a file that does not say them. */
typedef struct lx_hf_experts {
    const char *count_key, *width_key;
    int32_t n, active, width;
    const char *active_key;
} lx_hf_experts;
lx_mixer_config lx_hf_read_experts(lx_hf_reader *r, const lx_config *c, const lx_hf_experts *usual);
/* The router of DeepSeek-V3: sigmoids, a bias for the choice, weights that the key `normalise` lets
   be divided by their sum and routed_scaling_factor scales, topk_group of the groups that the key
   `groups` counts. */
typedef struct lx_hf_router {
    const char *count_key, *active_key; /* of the experts, as in lx_hf_experts */
    const char *normalise, *groups;
    double scale;
    int32_t n_groups, active_groups; /* 0: 1 */
} lx_hf_router;
void lx_hf_read_router(lx_hf_reader *r, lx_mixer_config *m, const lx_hf_router *usual);
/* Kimi-Linear and its relatives, latent.c. mla: the sizes of heads and latents, whose norms have an
   eps of their own. */
lx_mixer_config lx_hf_read_mla(lx_hf_reader *r, const lx_config *c);
/* kda of heads of `size` columns, without biases; rank 0: no pairs. */
lx_mixer_config lx_hf_unbiased_kda(lx_hf_reader *r, const lx_config *c, int32_t heads, int32_t size,
                                   int32_t taps, int32_t rank);
/* The experts' net for all tokens: num_shared_experts times as wide as an expert. */
void lx_hf_read_shared_net(lx_hf_reader *r, lx_mixer_config *experts);
/* Places the experts as mlp_layer_types says, or after the first first_k_dense_replace layers. */
void lx_hf_place_experts(lx_hf_reader *r, lx_config *c, const lx_mixer_config *experts,
                         int32_t usual_first);
/* gated_deltanet of hybrids of transformers: the keys that begin with linear_. size: of heads where
   the file does not say it; 0: 3/4 of d_model together for keys, twice as much for values. */
lx_mixer_config lx_hf_read_delta(lx_hf_reader *r, const lx_config *c, int32_t key_heads,
                                 int32_t value_heads, int32_t size);
/* mamba2 of hybrids of transformers, with a feed-forward net: the keys that begin with mamba_, and
   time_step_limit. inner: columns of the mixer. */
lx_mixer_config lx_hf_read_mamba(lx_hf_reader *r, const lx_config *c, int64_t inner, float eps);
/* Groups, taps and biases of mamba2, whose heads are known; keys: of the number of heads and
   groups, of taps, and of the biases of convolution and products. */
void lx_hf_read_mamba_parts(lx_hf_reader *r, lx_mixer_config *m, const char *const keys[],
                            int32_t usual_groups);
/* Every layer that layer_types lists must be one of Mamba. */
void lx_hf_only_mamba_layers(lx_hf_reader *r);
/* A type of layers: the words for it in layer_types, and its mixer. */
typedef struct lx_hf_layer_type {
    const char *words[2]; /* NULL: none */
    const lx_mixer_config *mixer;
} lx_hf_layer_type;
/* Places the mixers of n types as layer_types says. Without the key the result is false, and all
   layers have the first mixer, but every `every`-th the second one (0: none). */
bool lx_hf_place_layers(lx_hf_reader *r, lx_config *c, const lx_hf_layer_type *types, size_t n,
                        int32_t every);

/* fla's blocks: names, norms, sizes and a gated feed-forward net; n_layers and hidden_ratio where
   the file does not say them. */
void lx_hf_read_blocks(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                       int32_t n_layers, double ratio);
/* Parts of RWKV's kinds around their mixers; a feed-forward net is hidden_ratio times as wide as
   the model, up to a multiple of 32. */
void lx_hf_read_rwkv(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                     double ratio);
/* fla's names of a layer's tensors. */
extern const lx_tensor_name lx_hf_layer_names[];
/* For a kind's lx_tensor_names: fla's names around the layers, and of layers OWN before fla's. */
#define LX_HF_FLA_NAMES(OWN)                                                                       \
    {                                                                                              \
        .layers = "model.layers.", .embed = "model.embeddings",                                    \
        .input_norm = "model.layers.0.pre_norm", .final_norm = "model.norm", .tables = {           \
            {.names = (OWN)},                                                                      \
            {.names = lx_hf_layer_names}                                                           \
        }                                                                                          \
    }
/* transformers' names of grouped_query, mamba2 and gated_mlp in a layer of hybrids. */
#define LX_HF_SOFTMAX_NAMES                                                                        \
    {"attn.q", "self_attn.q_proj"}, {"attn.k", "self_attn.k_proj"},                                \
        {"attn.v", "self_attn.v_proj"}, {"attn.out", "self_attn.o_proj"},                          \
    {                                                                                              \
        "attn", "self_attn"                                                                        \
    }
#define LX_HF_MAMBA_NAMES                                                                          \
    {"attn.in", "mamba.in_proj"}, {"attn.out", "mamba.out_proj"}, {"attn.conv", "mamba.conv1d"},   \
    {                                                                                              \
        "attn", "mamba"                                                                            \
    }
/* Of experts below THEIRS: a tensor for each expert, or one for all. */
#define LX_HF_EXPERT_NAMES(THEIRS, GATE, UP, DOWN)                                                 \
    {"ff.experts.*.gate", THEIRS ".*." GATE}, {"ff.experts.*.up", THEIRS ".*." UP},                \
        {"ff.experts.*.down", THEIRS ".*." DOWN}, {"ff.experts.gate_up", THEIRS ".gate_up_proj"},  \
    {                                                                                              \
        "ff.experts.down", THEIRS ".down_proj"                                                     \
    }
#define LX_HF_GATED_MLP_NAMES                                                                      \
    {"ff.gate", "mlp.gate_proj"}, {"ff.up", "mlp.up_proj"},                                        \
    {                                                                                              \
        "ff.down", "mlp.down_proj"                                                                 \
    }

#endif
