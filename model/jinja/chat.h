/* The messages of a chat through a template. Thread: any. */
#ifndef LINNET_MODEL_JINJA_CHAT_H
#define LINNET_MODEL_JINJA_CHAT_H

#include <stdbool.h>

#include "model/jinja/jinja.h"

typedef struct lx_jinja_message {
    const char *role; /* "system", "user", "assistant", "tool" */
    const char *text; /* UTF-8 of a client */
    size_t bytes;
    const json_t *more; /* an object: further members of the message; NULL: none */
} lx_jinja_message;

typedef struct lx_jinja_chat {
    const lx_jinja_message *messages; /* [n] */
    int32_t n;
    const char *begin, *end; /* bos_token and eos_token; NULL: the template finds none */
    bool answers;            /* add_generation_prompt */
    bool continues; /* the text ends with the last message, for an answer to go on with it */
    const json_t *variables; /* an object of the client's, such as tools; NULL: none */
} lx_jinja_chat;

/* Whether the template has the word as a name, as an attribute or as a whole text. If not, no
 * variable and no member of that name changes its output. */
bool lx_jinja_has_word(const lx_jinja *t, const char *word);

/* As lx_jinja_render. LX_ERR_INVALID, too, where the chat continues and the template does not write
   the last message. The caller frees out->bytes and out->marks. */
lx_status lx_jinja_render_chat(const lx_jinja *t, const lx_jinja_chat *chat, int64_t now,
                               size_t max_bytes, lx_jinja_text *out, lx_error *err) LX_MUST_USE;

#endif
