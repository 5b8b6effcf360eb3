/*
 * Tokenizers: text to token ids and back, one family per file, with one interface.
 *
 *   bytes        a token is a byte, 256 ids, no file
 *   characters   vocab.txt (model/vocab.h), a token is a character
 *   world        RWKV's vocabulary of lines "id literal length": the longest match at every byte
 *   byte-level   Hugging Face's tokenizer.json, BPE over bytes written as letters (GPT-2, GPT-NeoX,
 *                Llama 3, Qwen), split by the file's own regular expression
 *   fallback     Hugging Face's tokenizer.json, BPE over characters; where it is so written,
 *                unknown ones become byte tokens (Llama, Mistral)
 *   unigram      Hugging Face's tokenizer.json, pieces with scores (T5, XLM-RoBERTa)
 *
 * If a tokenizer.json needs a feature that is not built in, loading fails and names the field
 * (LX_ERR_UNSUPPORTED). These are models other than BPE and Unigram, and every normalizer,
 * pre-tokenizer, post-processor and decoder that could not give exactly the ids of the `tokenizers`
 * library.
 *
 * A new family: a file NAME.c with a table lx_tokenizer_family, a line in tokenizer.c's look-up of
 * files, a fuzzer in tests/fuzz and the comparison with its reference in tests/http.
 *
 * Units: text is bytes; unless said otherwise it is valid UTF-8 and may hold NULs. Ids are
 * 0 .. lx_tokenizer_size() - 1. Thread: a loaded tokenizer never changes, any number of threads may
 * use it at once; lists and detokenizers are one thread's at a time.
 */
#ifndef LINNET_MODEL_TOKENIZERS_TOKENIZER_H
#define LINNET_MODEL_TOKENIZERS_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"

enum {
    LX_TOKENIZER_MAX_FILE = 64 << 20, /* bytes of a file that is read */
    LX_TOKENIZER_MAX_IDS = 1 << 20,
    LX_TOKENIZER_MAX_MERGES = 1 << 21,
    LX_TOKENIZER_MAX_TOKEN = 1024,    /* bytes of one token, of an added token too */
    LX_TOKENIZER_MAX_TEXT = 16 << 20, /* bytes of one text to encode */
};

typedef struct lx_tokenizer lx_tokenizer;

/* Ids that grow up to `max`. Errors are sticky as in lx_buffer: TOO_LARGE or NO_MEMORY. */
typedef struct lx_token_list {
    int32_t *ids; /* owned; NULL while empty */
    size_t n, max, capacity;
    lx_status status;
} lx_token_list;

void lx_token_list_init(lx_token_list *list, size_t max);
void lx_token_list_add(lx_token_list *list, int32_t id);
void lx_token_list_fini(lx_token_list *list);

/* --- loading --- */

/* The tokenizer of a model's folder: tokenizer.json, rwkv_vocab_v20230424.txt or vocab.txt, the
   first that is there. LX_ERR_NOT_FOUND when none is; otherwise as lx_tokenizer_load_file. */
lx_status lx_tokenizer_load(const char *folder, lx_tokenizer **out, lx_error *err) LX_MUST_USE;

/* One file; its content decides the family: '{' begins a tokenizer.json, a line with a number
   and a literal RWKV's vocabulary. LX_ERR_NOT_FOUND, LX_ERR_IO, LX_ERR_FORMAT (the text names file
   and field or line), LX_ERR_UNSUPPORTED, LX_ERR_NO_MEMORY. */
lx_status lx_tokenizer_load_file(const char *path, lx_tokenizer **out, lx_error *err) LX_MUST_USE;

/* The object of a tokenizer.json that a reader of another format has made; `label` names the file
   in errors. */
struct json_t;
lx_status lx_tokenizer_from_json(struct json_t *root, const char *label, lx_tokenizer **out,
                                 lx_error *err) LX_MUST_USE;
/* RWKV's vocabulary: literal() has token id as Python writes bytes, without the quotes, or is NULL
   where there is no such token. Token 0 ends a text; ids are 1 .. n - 1. */
typedef const char *lx_tokenizer_literal(const void *context, int32_t id, size_t *n_bytes);
lx_status lx_tokenizer_from_literals(int32_t n, lx_tokenizer_literal *literal, const void *context,
                                     const char *label, lx_tokenizer **out,
                                     lx_error *err) LX_MUST_USE;

/* Bytes as tokens. */
lx_status lx_tokenizer_new_bytes(lx_tokenizer **out, lx_error *err) LX_MUST_USE;

/* Characters as tokens, of a vocabulary that must live as long. */
struct lx_vocab;
lx_status lx_tokenizer_new_characters(const struct lx_vocab *vocab, lx_tokenizer **out,
                                      lx_error *err) LX_MUST_USE;

void lx_tokenizer_free(lx_tokenizer *t); /* NULL is allowed */

/* --- the tokens --- */

const char *lx_tokenizer_family_name(const lx_tokenizer *t); /* "byte-level" */
int32_t lx_tokenizer_size(const lx_tokenizer *t);            /* the highest id + 1 */

/* The bytes that a token stands for inside a text, not always whole characters; a special token's
   are its name. NULL for an id that no token has. They live as long as the tokenizer. */
const char *lx_tokenizer_token(const lx_tokenizer *t, int32_t id, size_t *n_bytes);

/* A token that is not text: begin, end, a role. */
bool lx_tokenizer_is_special(const lx_tokenizer *t, int32_t id);

/* The id of the token written exactly so in the file ("<|im_end|>"), -1 when there is none. */
int32_t lx_tokenizer_find(const lx_tokenizer *t, const char *name);

/* --- text to ids --- */

enum {
    LX_ENCODE_TEMPLATE = 1,      /* the special tokens that the file puts around every text */
    LX_ENCODE_PLAIN_SPECIALS = 2 /* names of special tokens in the text are text, not tokens */
};

/*
 * Appends the ids of text[n]. Takes O(n log n) time, with Unigram O(n) times the longest piece, and
 * at most 100 n bytes of memory in addition to the list. LX_ERR_INVALID (with the byte's position):
 * not UTF-8, except for bytes and world, which take any bytes; a character that the vocabulary has
 * no token for. LX_ERR_TOO_LARGE: over LX_TOKENIZER_MAX_TEXT bytes, over out->max ids, or a regular
 * expression over its match limit. After an error the content of `out` is of no use.
 */
lx_status lx_tokenizer_encode(const lx_tokenizer *t, const char *text, size_t n, unsigned flags,
                              lx_token_list *out, lx_error *err) LX_MUST_USE;

/* As lx_tokenizer_encode, for a text that is a client's where marks[i] is 1, and ours where it is
 * 0. A text becomes a special token only where all its bytes are ours. */
lx_status lx_tokenizer_encode_marked(const lx_tokenizer *t, const char *text, const char *marks,
                                     size_t n, unsigned flags, lx_token_list *out,
                                     lx_error *err) LX_MUST_USE;

/* --- ids to text --- */

enum {
    LX_DECODE_SPECIALS = 1, /* special tokens by their names; otherwise they are left out */
    LX_DECODE_CONTINUES = 2 /* text stands before: a blank that only begins a text is kept */
};

/* A text that comes token by token. Plain data: copying it forks the stream. */
typedef struct lx_detokenizer {
    const lx_tokenizer *t;
    unsigned flags;
    bool started;          /* a token has been put out */
    int strip;             /* blanks at the start that are still to be left out */
    unsigned char held[4]; /* the beginning of a character */
    size_t n_held;
} lx_detokenizer;

void lx_detokenizer_init(lx_detokenizer *d, const lx_tokenizer *t, unsigned flags);

/* A stream that continues after bytes[n], the last bytes that were put out or held back; three
 * decide. */
void lx_detokenizer_resume(lx_detokenizer *d, const lx_tokenizer *t, unsigned flags,
                           const void *bytes, size_t n);

/* Appends what `id` completes: whole characters only. The beginning of a character is held back;
   bytes that can be part of none become U+FFFD, one for every longest beginning of a character, as
   Unicode recommends. LX_ERR_INVALID: no such id (0 .. size - 1). `out` keeps its own errors;
   NULL: the text is dropped. Allocates nothing but in `out`. */
lx_status lx_detokenizer_push(lx_detokenizer *d, int32_t id, lx_buffer *out,
                              lx_error *err) LX_MUST_USE;
/* The end: a character that never became whole is one U+FFFD. */
void lx_detokenizer_finish(lx_detokenizer *d, lx_buffer *out);

/* All of it at once, as the bytes are: not always UTF-8. */
lx_status lx_tokenizer_decode(const lx_tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                              lx_buffer *out, lx_error *err) LX_MUST_USE;

#endif
