/* Taking keys of a config.json of Hugging Face: each is checked, copied and removed. */
#ifndef LINNET_MODEL_HUGGING_FACE_READER_H
#define LINNET_MODEL_HUGGING_FACE_READER_H

#include <jansson.h>

#include "model/config.h"

/* The first fault stays, and makes later calls do nothing. */
typedef struct lx_hf_reader {
    const char *path;
    json_t *root;
    lx_status st;
    lx_error *err;
} lx_hf_reader;

/* A kind: fills the config; keys that are left then are unknown. */
typedef struct lx_hf_kind {
    const char *const *model_types; /* NULL behind the last */
    void (*read)(lx_hf_reader *r, lx_config *out);
} lx_hf_kind;

extern const lx_hf_kind lx_hf_rwkv7;

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
/* What all texts have: task, inputs, head and tokenizer, from vocab_size on. */
void lx_hf_read_text(lx_hf_reader *r, lx_config *c);
/* Keys that cannot change a result; NULL behind the last. */
void lx_hf_ignore(lx_hf_reader *r, const char *const *keys);

#endif
