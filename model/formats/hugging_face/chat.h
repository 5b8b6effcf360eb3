/* The chat template of a model's folder. */
#ifndef LINNET_MODEL_FORMATS_HUGGING_FACE_CHAT_H
#define LINNET_MODEL_FORMATS_HUGGING_FACE_CHAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "model/tasks/text_config.h"

/* A folder's information on chats; strings are malloc'ed, NULL where nothing says them. */
typedef struct lx_hf_chat {
    char *text;        /* the template */
    char *tool_text;   /* the template for chats with tools; NULL: the one above */
    bool named;        /* the templates are a list; without a `text` none of them is the default */
    char *begin, *end; /* bos_token and eos_token of tokenizer_config.json */
} lx_hf_chat;

void lx_hf_chat_fini(lx_hf_chat *chat);

/* A folder within a model's, with its templates but the default one; that for tools. */
#define LX_HF_TEMPLATES "additional_chat_templates"
#define LX_HF_TOOL_TEMPLATE "tool_use.jinja"

/* The folder's chat_template.jinja and additional_chat_templates/tool_use.jinja, or without both
 * chat_template of its tokenizer_config.json: a text, or a list with the templates default and
 * tool_use. Also the names of the first and last
 * token. LX_ERR_FORMAT, LX_ERR_IO, LX_ERR_NO_MEMORY. */
lx_status lx_hf_read_chat(const char *folder, lx_hf_chat *out, lx_error *err) LX_MUST_USE;

/* What generation_config.json says of answers. */
typedef struct lx_hf_generation {
    int32_t ends[LX_MAX_ENDS]; /* [n_ends]: the tokens that end an answer */
    int32_t n_ends;
    lx_text_sampling sampling;
} lx_hf_generation;

/* Without such a file nothing is said. LX_ERR_FORMAT names the key; LX_ERR_IO, LX_ERR_NO_MEMORY. */
lx_status lx_hf_read_generation(const char *folder, lx_hf_generation *out,
                                lx_error *err) LX_MUST_USE;

/* A file of the folder, of at most 4 MiB; *bytes is NULL where there is none of that name. */
lx_status lx_hf_read_part(const char *folder, const char *name, char **bytes, size_t *n,
                          lx_error *err) LX_MUST_USE;

#endif
