/* The chat template of a model's folder. */
#ifndef LINNET_MODEL_FORMATS_HUGGING_FACE_CHAT_H
#define LINNET_MODEL_FORMATS_HUGGING_FACE_CHAT_H

#include <stdint.h>

#include "common/status.h"

/* A folder's information on chats; strings are malloc'ed, NULL where nothing says them. */
typedef struct lx_hf_chat {
    char *text;        /* the template */
    char *begin, *end; /* bos_token and eos_token of tokenizer_config.json */
} lx_hf_chat;

void lx_hf_chat_fini(lx_hf_chat *chat);

/* The folder's chat_template.jinja, or where there is none chat_template of its
   tokenizer_config.json, or of a list of them the one called default; and the names of the first
   and last token. LX_ERR_FORMAT, LX_ERR_IO, LX_ERR_NO_MEMORY. */
lx_status lx_hf_read_chat(const char *folder, lx_hf_chat *out, lx_error *err) LX_MUST_USE;

/* The tokens that generation_config.json says end an answer: at most `most` of them to ids. Without
   such a file *n is 0. LX_ERR_FORMAT, LX_ERR_IO, LX_ERR_NO_MEMORY. */
lx_status lx_hf_read_generation_ends(const char *folder, int32_t most, int32_t *ids, int32_t *n,
                                     lx_error *err) LX_MUST_USE;

#endif
