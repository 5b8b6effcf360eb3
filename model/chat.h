/*
 * Chats as the prompt of a model of text: a short list of known templates, each a table of what
 * stands around messages. Which one a model has is said by its chat_template.jinja or its
 * tokenizer_config.json. Thread: any.
 */
#ifndef LINNET_MODEL_CHAT_H
#define LINNET_MODEL_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

typedef enum lx_chat_role {
    LX_CHAT_SYSTEM,
    LX_CHAT_USER,
    LX_CHAT_ASSISTANT,
    LX_CHAT_ROLES,
    LX_CHAT_TOOL = LX_CHAT_ROLES /* which the known templates do not have */
} lx_chat_role;

enum { LX_CHAT_TEXTS = 4, LX_CHAT_MARKS = 4 };

typedef struct lx_chat_template {
    const char *name;
    uint64_t hashes[LX_CHAT_TEXTS];    /* of its texts in Jinja as models bring them; 0: no more */
    const char *begin;                 /* the token before all; NULL: none */
    const char *before[LX_CHAT_ROLES]; /* a message of each role, and the text after each */
    const char *behind;
    const char *answer; /* after the last message: here the answer begins */
    const char *end;    /* the token that ends an answer; NULL: none of the template's own */
    const char *stop;   /* a text that ends it; NULL: none */
    bool trims;         /* white space around a message is left out */
    /* Texts that begin or end a message. Where a model has no special token of such a name, the
       text in a message would be the mark itself, so no message may have it. NULL: no more. */
    const char *marks[LX_CHAT_MARKS];
    /* Blank lines separate messages, which begin with the name of a role. In a message, blank lines
     * before such a name become a line feed, however their line breaks are written. */
    bool blank_lines;
} lx_chat_template;

/* By name or by the whole text; NULL for one that is not known. */
const lx_chat_template *lx_chat_find(const char *text);
/* Appends a message's text[n] as it stands in the template's text: so that it ends no message and
   begins no other. */
void lx_chat_write(const lx_chat_template *t, const char *text, size_t n, lx_buffer *out);
/* The text between an answer's head and the answer, where the template has it before messages only:
   a blank, after "Assistant:". "" in most templates. Answers are sent without it, so that they are
   the same text when they come back as messages. */
const char *lx_chat_leading(const lx_chat_template *t);

#endif
