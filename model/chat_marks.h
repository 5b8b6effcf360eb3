/*
 * The texts that begin and end messages in a model's own chat template, as far as its tokenizer
 * does not tell them from a client's text. A special token is told apart: a client's text never
 * becomes one. A mark such as <|im_end|> that is no special token, or a line "User:", is text like
 * any other, so it could make a message speak for another role. Thread: any.
 */
#ifndef LINNET_MODEL_CHAT_MARKS_H
#define LINNET_MODEL_CHAT_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

struct lx_jinja;
struct lx_tokenizer;

enum { LX_MAX_MARKS = 32, LX_MARK_BYTES = 64 };

typedef struct lx_chat_mark {
    char text[LX_MARK_BYTES];
    /* It is no token: an answer ends before it. A token that is not special may be in an answer: it
     * marks a call, or a part of a call. */
    bool ends;
} lx_chat_mark;

typedef struct lx_chat_marks {
    lx_chat_mark mark[LX_MAX_MARKS];
    int32_t n;
} lx_chat_marks;

/* Adds those of a template, which was parsed from `text`, to *out. `begin` and `end` are its
   bos_token and eos_token. They are found in the template's text and in short chats that it
   renders. LX_ERR_UNSUPPORTED: there are more than LX_MAX_MARKS; LX_ERR_NO_MEMORY. */
lx_status lx_chat_find_marks(const struct lx_jinja *t, const char *text, const char *begin,
                             const char *end, const struct lx_tokenizer *tokenizer,
                             lx_chat_marks *out, lx_error *err) LX_MUST_USE;

#endif
