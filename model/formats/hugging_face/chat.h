/* The chat template of a model's folder. */
#ifndef LINNET_MODEL_FORMATS_HUGGING_FACE_CHAT_H
#define LINNET_MODEL_FORMATS_HUGGING_FACE_CHAT_H

#include "common/status.h"

/* The folder's chat_template.jinja, or where there is none chat_template of its
   tokenizer_config.json, or of a list of them the one called default: *out is malloc'ed, NULL where
   there is no such file or field. LX_ERR_FORMAT, LX_ERR_IO,
   LX_ERR_NO_MEMORY. */
lx_status lx_hf_read_chat(const char *folder, char **out, lx_error *err) LX_MUST_USE;

#endif
