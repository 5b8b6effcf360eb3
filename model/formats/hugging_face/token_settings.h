/*
 * Settings of tokens in other files of a folder than tokenizer.json, which alone is read here.
 * transformers reads them all, so where they say other than tokenizer.json, texts may have other
 * tokens there.
 */
#ifndef LINNET_MODEL_FORMATS_HUGGING_FACE_TOKEN_SETTINGS_H
#define LINNET_MODEL_FORMATS_HUGGING_FACE_TOKEN_SETTINGS_H

#include <stddef.h>

#include "common/status.h"

struct lx_tokenizer;

/* note[size] = the first setting of the folder's tokenizer_config.json and
   added_tokens.json that is not as in its tokenizer.json, which `t` is: with file and key, a line.
   "" where there is none. LX_ERR_IO, LX_ERR_NO_MEMORY. */
lx_status lx_hf_check_tokens(const char *folder, const struct lx_tokenizer *t, char *note,
                             size_t size, lx_error *err) LX_MUST_USE;

#endif
