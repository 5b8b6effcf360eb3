/*
 * Model folders as Hugging Face's transformers and flash-linear-attention write them: a config.json
 * whose `model_type` says which kind, model.safetensors with the kind's own names, a tokenizer.
 *
 * Every key of config.json that a result depends on is read, with the default of the kind's own
 * config class where it is missing or null. Keys that cannot change a result are ignored by name.
 * Every other key, and every value that is not implemented, is refused by name (LX_ERR_FORMAT).
 */
#ifndef LINNET_MODEL_HUGGING_FACE_FOLDER_H
#define LINNET_MODEL_HUGGING_FACE_FOLDER_H

#include "model/config.h"

/* Reads and checks the config.json `path`. *is_theirs says whether it is one of these; where it is
   not, or no JSON, the result is LX_OK and *out is as before. */
lx_status lx_hf_config_load(const char *path, lx_config *out, bool *is_theirs,
                            lx_error *err) LX_MUST_USE;

/* Reports every fault of such a file, in the order in which they are found; none where it is not
   one. The result is that of reading it at all. */
lx_status lx_hf_config_faults(const char *path, lx_config_report *report, void *context,
                              lx_error *err) LX_MUST_USE;

/* Type i of the types that are read; NULL after the last. */
const char *lx_hf_model_type(int32_t i);

#endif
