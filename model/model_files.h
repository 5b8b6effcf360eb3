/*
 * The files of a model's folder, or of its base: read into the model and into its hash. For
 * load.c and for tasks, which load their own files (model/tasks/task.h).
 */
#ifndef LINNET_MODEL_MODEL_FILES_H
#define LINNET_MODEL_MODEL_FILES_H

#include "model/model.h"

enum { LX_MODEL_PATH = 4096 };

/* path[LX_MODEL_PATH] = DIR/BASE/FILE; LX_ERR_INVALID where it is too long. */
lx_status lx_model_path(char *path, const char *dir, const char *base, const char *file,
                        lx_error *err) LX_MUST_USE;
/* name[LX_MODEL_NAME] = the last part of a folder's path, of a GGUF file's without its ending,
   whose first `end` bytes are the path without '/' at its end; LX_ERR_INVALID where no model may
   have that name. */
lx_status lx_model_name(const char *dir, char *name, size_t *end, lx_error *err) LX_MUST_USE;
/* Adds the bytes of a file to the model's hash. */
lx_status lx_model_hash_file(lx_model *m, const char *path, lx_error *err) LX_MUST_USE;
/* After a file was hashed and then loaded: checks that both read the same bytes, or a later reload
   would take the model for one with the new bytes. `before` is the hash without the file. */
lx_status lx_model_check_hash(lx_model *m, uint64_t before, const char *path,
                              lx_error *err) LX_MUST_USE;

/* The whole of a file that a folder may lack; *bytes is NULL where it is not there. The caller
   frees *bytes; path[LX_MODEL_PATH] receives the file's path, for errors. */
lx_status lx_model_read_optional(lx_model *m, const char *file, size_t most, char *path,
                                 char **bytes, size_t *n, lx_error *err) LX_MUST_USE;
/* vocab.txt into m->vocab and m->tokenizer, where it is there: the task checks whether it is. */
lx_status lx_model_read_vocab(lx_model *m, lx_error *err) LX_MUST_USE;
/* A tokenizer's file, or "bytes", into m->tokenizer. */
lx_status lx_model_read_tokenizer(lx_model *m, const char *file, lx_error *err) LX_MUST_USE;

#endif
