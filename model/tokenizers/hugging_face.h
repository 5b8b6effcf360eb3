/*
 * A tokenizer.json: its reader (model/tokenizers/json) fills it in, and hugging_face.c runs it.
 *
 *   text -> added tokens | normalizer -> added tokens | splitter -> a word -> BPE or Unigram ->
 * template
 */
#ifndef LINNET_MODEL_TOKENIZERS_HUGGING_FACE_H
#define LINNET_MODEL_TOKENIZERS_HUGGING_FACE_H

#include "model/tokenizers/added.h"
#include "model/tokenizers/bpe.h"
#include "model/tokenizers/internal.h"
#include "model/tokenizers/normalizer.h"
#include "model/tokenizers/splitter.h"
#include "model/tokenizers/unigram.h"

enum { LX_TEMPLATE_MAX = 16 };

typedef struct lx_template {
    int32_t ids[LX_TEMPLATE_MAX];
    int32_t n;
} lx_template;

typedef struct lx_hugging_face {
    lx_tokenizer base;    /* first */
    lx_texts names;       /* by id: the model's vocabulary as the file writes it */
    lx_texts added_names; /* by id: the added tokens, as the file writes them */
    lx_texts added_texts; /* by id: their texts as the search looks for them */
    lx_added added_raw, added_normalized;
    bool normalizes_specials; /* some of added_normalized are special */
    lx_normalizer normalizer;
    lx_splitter splitter;
    lx_bpe bpe;
    lx_unigram unigram;
    int32_t byte_ids[256]; /* byte-level: the token of a byte; fallback: <0xNN>; -1 for none */
    int32_t unknown;       /* -1 for none */
    bool fuse_unknown, byte_fallback, ignore_merges;
    lx_template before, behind;
    bool first_without_marks; /* decoder Metaspace: a text's first token loses every `mark` */
    char mark[5];
    lx_texts first_pieces; /* of these tokens, by id */
} lx_hugging_face;

/* The three families. */
extern const lx_tokenizer_family lx_byte_level_family, lx_fallback_family, lx_unigram_family;

/* The added token of that id; NULL: it is none, or `t` is of another family. */
const lx_added_token *lx_hugging_face_added(const lx_tokenizer *t, int32_t id);
/* Whether `t` has GPT-2's one step before BPE, ByteLevel, and this puts no blank before a text. */
bool lx_hugging_face_is_gpt2(const lx_tokenizer *t);

#endif
