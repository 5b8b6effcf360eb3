/*
 * From a GGUF file to a model: its metadata become a config.json of Linnet's own format
 * (docs/weights-format.md), and its tensors a list as a weights file has it. A table per
 * architecture has the names of tensors and what llama.cpp's converter did to their values, which
 * is undone.
 */
#ifndef LINNET_MODEL_GGUF_READER_H
#define LINNET_MODEL_GGUF_READER_H

#include <jansson.h>

#include "model/config.h"
#include "model/formats/gguf/file.h"
#include "model/formats/hugging_face/names.h"

/* The first fault stays, and makes later calls do nothing and return 0. */
typedef struct lx_gguf_reader {
    lx_gguf *f;
    const char *arch; /* the keys of a model begin with its architecture's name and a dot */
    lx_status st;
    lx_error *err;
} lx_gguf_reader;

/* Changes that the converter made to a tensor: flags. */
enum {
    LX_GGUF_VECTOR = 1,          /* a vector was given more dimensions */
    LX_GGUF_HEADS = 2,           /* a row per head was flattened */
    LX_GGUF_MINUS_EXP = 4,       /* x became -exp(x) */
    LX_GGUF_TILED = 8,           /* the heads of values were put in another order: rows */
    LX_GGUF_TILED_SINGLE = 16,   /* as above, one row per head */
    LX_GGUF_TILED_COLUMNS = 32,  /* as above, columns */
    LX_GGUF_AFTER_KEYS = 64,     /* .. of the rows after those of queries and keys */
    LX_GGUF_PAIRS = 128,         /* the halves of a head's rows were put in turn */
    LX_GGUF_SLICES = 256,        /* RWKV-6: five parts in the order w, k, v, r, g */
    LX_GGUF_SLICE_COLUMNS = 512, /* as above, one matrix per part, where each row had the parts */
    LX_GGUF_RESCALED = 1024      /* divided by a power of two that grows with the layer */
};

/* A tensor after "blk.I.". */
typedef struct lx_gguf_undo {
    const char *name; /* NULL after the last */
    unsigned flags;
} lx_gguf_undo;

typedef struct lx_gguf_arch {
    const char *name;
    const struct lx_tensor_names *names;
    const lx_gguf_undo *undo;
    /* A tensor whose rows are arrays of these names, each after "blk.I."; or NULL. */
    const char *fused;
    const char *const *fused_parts; /* NULL after the last */
    /* Fills the config; keys that are left then are unknown. */
    void (*read)(lx_gguf_reader *r, json_t *root);
    const char *ignored; /* keys that change no result, with a space between each two */
} lx_gguf_arch;

extern const lx_gguf_arch *const lx_gguf_archs[]; /* NULL after the last */

/* --- values of metadata; `key` is the part after "ARCH." --- */

#define LX_GGUF_NEEDED INT64_MIN /* as a fallback: the key must be there */
int32_t lx_gguf_int(lx_gguf_reader *r, const char *key, int32_t min, int32_t max, int64_t fallback);
double lx_gguf_real(lx_gguf_reader *r, const char *key, double min, double max, double fallback);
/* One number, no array, flag or text. */
bool lx_gguf_is_number(const lx_gguf_value *v);
/* "FILE: ARCH.KEY WHAT" */
void lx_gguf_wrong(lx_gguf_reader *r, const char *key, const char *what);

/* A text of any key; *out is malloc'ed, or NULL where the file has none. */
lx_status lx_gguf_text(const lx_gguf *f, const char *key, char **out, lx_error *err) LX_MUST_USE;
/* The first `max` tokens whose names alone say that they end an answer, such as <|im_end|>: those
   that llama.cpp knows. None where the list of tokens is bad, which lx_gguf_tokenizer says. */
lx_status lx_gguf_named_ends(const lx_gguf *f, int32_t *ids, int32_t max, int32_t *n_ids,
                             lx_error *err) LX_MUST_USE;
/* Whether every prompt begins with the token tokenizer.ggml.bos_token_id. */
bool lx_gguf_begins(const lx_gguf *f);
/* A token's id under a key: -1 where there is none. */
lx_status lx_gguf_token(const lx_gguf *f, const char *key, int32_t *out, lx_error *err) LX_MUST_USE;

#endif
