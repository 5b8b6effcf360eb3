/* Taking keys of a config.json of Hugging Face: each is checked, copied and removed. */
#ifndef LINNET_MODEL_HUGGING_FACE_READER_H
#define LINNET_MODEL_HUGGING_FACE_READER_H

#include <jansson.h>

#include "model/config.h"
#include "model/formats/hugging_face/faults.h"
#include "model/formats/hugging_face/names.h"

enum { LX_HF_MAX_WIDTH = 1 << 16, LX_HF_MAX_D_FF = 1 << 18 };

/* The first fault stays, and makes later calls do nothing; with `report` they report every one
   instead, and go on as if its key were missing. */
typedef struct lx_hf_reader {
    const char *path;
    const char *prefix; /* of keys, of an object in the file: "attn."; NULL: none */
    json_t *root;
    lx_hf_report *report; /* NULL: none */
    void *context;
    lx_status st;
    lx_error *err;
} lx_hf_reader;

/* A kind: fills the config; keys that are left then are unknown. */
typedef struct lx_hf_kind {
    const char *const *model_types; /* NULL behind the last */
    void (*read)(lx_hf_reader *r, lx_config *out);
} lx_hf_kind;

extern const lx_hf_kind lx_hf_rwkv7, lx_hf_gated_deltanet, lx_hf_delta_net, lx_hf_mamba2, lx_hf_kda,
    lx_hf_gla, lx_hf_retnet, lx_hf_hgrn2, lx_hf_rwkv6, lx_hf_qwen, lx_hf_qwen_text;

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
/* What all texts have: task, inputs, head and tokenizer, from vocab_size on; the last two as they
   are usually. */
void lx_hf_read_text(lx_hf_reader *r, lx_config *c, int32_t vocab_size, int32_t context);
/* Blocks of fla's kinds: names, norms, sizes and a gated feed-forward net; n_layers and
   hidden_ratio as usual. */
void lx_hf_read_blocks(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                       const struct lx_tensor_names *tied_names, int32_t n_layers, double ratio);
/* `size` times the factor of a key, whole columns; 1 after a fault. */
int32_t lx_hf_columns(lx_hf_reader *r, const char *key, int32_t size, double fallback);
extern const lx_tensor_name lx_hf_model_names[], lx_hf_tied_model_names[];
extern const lx_tensor_name lx_hf_rwkv_names[], lx_hf_tied_rwkv_names[];
/* What RWKV's kinds have around their mixers; a feed-forward net is hidden_ratio times as wide as
   the model, up to a multiple of 32. */
void lx_hf_read_rwkv(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                     const struct lx_tensor_names *tied_names, double ratio);
#define LX_HF_GATED_MLP_NAMES                                                                      \
    {"ff.gate", "mlp.gate_proj"}, {"ff.up", "mlp.up_proj"},                                        \
    {                                                                                              \
        "ff.down", "mlp.down_proj"                                                                 \
    }
/* The same mixer in every layer, but for those that `attn` makes softmax layers. */
void lx_hf_set_mixers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *m);
/* The base of a rotation. */
int32_t lx_hf_base(lx_hf_reader *r, const char *key, double fallback);
/* What is left is unknown. */
void lx_hf_refuse_rest(lx_hf_reader *r);
/* Keys that cannot change a result; NULL behind the last. */
void lx_hf_ignore(lx_hf_reader *r, const char *const *keys);
/* Those that any config may have. */
void lx_hf_ignore_common(lx_hf_reader *r);

#endif
