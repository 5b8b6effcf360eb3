/*
 * A folder's weights: model.safetensors, or where there is none the files of which
 * model.safetensors.index.json says what lies in them:
 *
 *     {"metadata": {...}, "weight_map": {"TENSOR": "FILE", ...}}
 *
 * FILE is the name of a .safetensors file of the folder. Index and files must agree.
 */
#ifndef LINNET_MODEL_SHARDS_H
#define LINNET_MODEL_SHARDS_H

#include "model/formats/safetensors.h"

/* Opens them (lx_safetensors_open), several at a time in threads of its own, which have ended when
   it returns. Of faults in several files it reports that of the one named first. Writes the path of
   the one file or of the index to `path`, for errors. */
lx_status lx_shards_open(const char *dir, char *path, size_t size, lx_safetensors **out,
                         lx_error *err) LX_MUST_USE;

#endif
