/*
 * Parts that the families share. A family's struct begins with lx_tokenizer; the generic part owns
 * what lx_tokenizer declares, the family's free() the rest.
 */
#ifndef LINNET_MODEL_TOKENIZERS_INTERNAL_H
#define LINNET_MODEL_TOKENIZERS_INTERNAL_H

#include "model/tokenizers/texts.h"
#include "model/tokenizers/tokenizer.h"

typedef struct lx_tokenizer_family {
    const char *name;
    bool any_bytes; /* encodes malformed UTF-8, too */
    /* marks: as in lx_tokenizer_encode_marked; NULL: none. */
    lx_status (*encode)(const lx_tokenizer *t, const char *text, const char *marks, size_t n,
                        unsigned flags, lx_token_list *out, lx_error *err);
    /* The id of a name; NULL: looked up among the tokens' own bytes. */
    int32_t (*find)(const lx_tokenizer *t, const char *name);
    /* The bytes of a token that begins a text; NULL: as everywhere. */
    const char *(*first)(const lx_tokenizer *t, int32_t id, size_t *n);
    /* Frees the family's additions; NULL for nothing. */
    void (*fini)(lx_tokenizer *t);
} lx_tokenizer_family;

struct lx_tokenizer {
    const lx_tokenizer_family *family;
    lx_texts pieces;   /* by id: the bytes it stands for */
    uint8_t *specials; /* by id: 1 for a special token */
    int strip;         /* blanks that a text's start loses when it is decoded */
};

/* Makes room for n ids in a zeroed struct: pieces and specials. */
lx_status lx_tokenizer_init(lx_tokenizer *t, const lx_tokenizer_family *family, int32_t n,
                            lx_error *err) LX_MUST_USE;

/* The readers of files: see the families' files. */
lx_status lx_world_load(const char *path, lx_tokenizer **out, lx_error *err) LX_MUST_USE;
lx_status lx_characters_load(const char *path, lx_tokenizer **out, lx_error *err) LX_MUST_USE;
lx_status lx_hugging_face_load(const char *path, lx_tokenizer **out, lx_error *err) LX_MUST_USE;

#endif
