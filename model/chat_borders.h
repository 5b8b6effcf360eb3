/*
 * The tokens at which messages of a chat begin. States of prompts are kept there, because a client
 * edits, drops or adds whole messages. Thread: any.
 */
#ifndef LINNET_MODEL_CHAT_BORDERS_H
#define LINNET_MODEL_CHAT_BORDERS_H

#include <stddef.h>
#include <stdint.h>

struct lx_tokenizer;
struct lx_token_list;
struct lx_chat_marks;

/* A text, and its tokens in a longer list. */
typedef struct lx_chat_tokens {
    const struct lx_tokenizer *tokenizer;
    const char *text;
    size_t n;
    const int32_t *ids; /* of the list */
    size_t first, end;  /* the text's tokens in it */
} lx_chat_tokens;

/* Appends the indices in `ids` of the tokens with the bytes at these offsets of the text, which are
   ascending. It ends at a token that does not stand in the text as it is. */
void lx_chat_borders_at(const lx_chat_tokens *c, const int32_t *offsets, size_t n,
                        struct lx_token_list *out);

/* Appends the indices, ascending, of a rendered template's special tokens, and of the tokens with
   which its other marks begin. A mark may end a message or begin one. */
void lx_chat_borders_of(const lx_chat_tokens *c, const struct lx_chat_marks *marks,
                        struct lx_token_list *out);

#endif
