/*
 * A GGUF file as a model: one file has the config, the weights, the tokenizer and the chat
 * template. Each part has the same form as that of a folder (model/formats/hugging_face).
 *
 * A file is open from lx_gguf_open on; lx_gguf_weights hands it to the list of tensors.
 */
#ifndef LINNET_MODEL_GGUF_GGUF_H
#define LINNET_MODEL_GGUF_GGUF_H

#include "model/config.h"
#include "model/formats/hugging_face/chat.h"
#include "model/formats/safetensors.h"

struct lx_gguf;
struct lx_gguf_arch;
struct lx_tokenizer;

/* Whether a path is that of such a file: it ends in ".gguf" and is no folder. */
bool lx_gguf_is_file(const char *path);

/* Architecture i; NULL after the last. */
const char *lx_gguf_arch_name(int32_t i);

/* Reads and checks all of the file but the tensors' values. LX_ERR_NOT_FOUND, LX_ERR_IO,
   LX_ERR_FORMAT, LX_ERR_UNSUPPORTED (a type of values), LX_ERR_NO_MEMORY. */
lx_status lx_gguf_open(const char *path, struct lx_gguf **out, lx_error *err) LX_MUST_USE;
void lx_gguf_close(struct lx_gguf *f);          /* NULL is allowed */
uint64_t lx_gguf_hash(const struct lx_gguf *f); /* of the bytes before the values */

/* The model's config, and its architecture (static). */
lx_status lx_gguf_config(struct lx_gguf *f, lx_config *out, const struct lx_gguf_arch **arch,
                         lx_error *err) LX_MUST_USE;
lx_status lx_gguf_tokenizer(const struct lx_gguf *f, struct lx_tokenizer **out,
                            lx_error *err) LX_MUST_USE;
lx_status lx_gguf_chat(const struct lx_gguf *f, lx_hf_chat *out, lx_error *err) LX_MUST_USE;
/* general.sampling: as a folder's generation_config.json. */
lx_status lx_gguf_sampling(const struct lx_gguf *f, lx_text_sampling *out,
                           lx_error *err) LX_MUST_USE;
/* The tensors, every value of which has been read and checked. *out owns the file from then on;
   after an error the caller still does. */
lx_status lx_gguf_weights(struct lx_gguf *f, const struct lx_gguf_arch *arch,
                          const lx_config *config, lx_safetensors **out, lx_error *err) LX_MUST_USE;

#endif
