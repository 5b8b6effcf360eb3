/*
 * Chat templates: a bounded interpreter of the part of Jinja in which models publish them
 * (chat_template.jinja, tokenizer_config.json). It has the settings and additions of Hugging Face's
 * transformers: trim_blocks, lstrip_blocks, break and continue, `generation` blocks,
 * `raise_exception`, `strftime_now` and its `tojson`.
 *
 * The text of a client must never become a special token of the model. So every byte of a string
 * knows whether it is the template's or a client's, through slices, replacements and filters, and
 * the rendered text comes with these marks.
 *
 * A feature that the interpreter lacks is refused by its name (LX_ERR_UNSUPPORTED): while parsing
 * if the template names it, else while rendering. Imports, includes and inheritance are lacking.
 * Changes of lists and dictionaries are refused, as in transformers' sandbox.
 */
#ifndef LINNET_MODEL_JINJA_JINJA_H
#define LINNET_MODEL_JINJA_JINJA_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    LX_JINJA_MAX_TEMPLATE = 1 << 20, /* bytes of a template's text */
    LX_JINJA_MAX_NODES = 8 << 20,    /* bytes of a parsed template */
    LX_JINJA_MAX_STEPS = 5000000,    /* of one rendering; a step is a node, or 64 bytes moved */
    LX_JINJA_MAX_DEPTH = 128,        /* of nested expressions, blocks and calls */
    LX_JINJA_MAX_VALUES = 64 << 20,  /* bytes of all values of one rendering, and below that: */
    LX_JINJA_LEAST_VALUES = 8 << 20, /* so many, and */
    LX_JINJA_VALUES_PER_BYTE = 16    /* so many for a byte that may be written */
};

/* A parsed template. It never changes: any number of threads may render it at once. */
typedef struct lx_jinja lx_jinja;

/* Parses text[n], UTF-8. The caller frees *out. LX_ERR_FORMAT names the line; LX_ERR_UNSUPPORTED,
   LX_ERR_TOO_LARGE, LX_ERR_NO_MEMORY. */
lx_status lx_jinja_parse(const char *text, size_t n, lx_jinja **out, lx_error *err) LX_MUST_USE;
void lx_jinja_free(lx_jinja *t); /* NULL is allowed */

typedef struct lx_jinja_text {
    char *bytes; /* owned: free(); NUL-terminated */
    char *marks; /* owned: free(); marks[i] is 1 where a client wrote bytes[i], else 0 */
    size_t n;
} lx_jinja_text;

/*
 * Renders the template with two objects of variables: `own` are the server's (bos_token,
 * add_generation_prompt), `client` come from a request (messages, tools); a name in `own` goes
 * first. `now` is the time that strftime_now writes, in UTC. At most max_bytes are written.
 * LX_ERR_INVALID: the template refuses the chat (raise_exception), or cannot work on it;
 * LX_ERR_UNSUPPORTED; LX_ERR_TOO_LARGE: a limit above, or max_bytes; LX_ERR_NO_MEMORY.
 */
lx_status lx_jinja_render(const lx_jinja *t, const json_t *own, const json_t *client, int64_t now,
                          size_t max_bytes, lx_jinja_text *out, lx_error *err) LX_MUST_USE;

#endif
