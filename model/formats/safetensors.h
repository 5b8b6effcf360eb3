/*
 * A safetensors file (or several as one: shards): 8 bytes of little-endian header length N, N bytes
 * of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}}, then the data.
 *
 * A tensor may also be in blocks (dtype Q8_0 or Q4_0, lx_dtype) if the file's __metadata__ has the
 * version of their layout: LX_BLOCKS_KEY with LX_BLOCKS_VERSION. `linnet convert` writes such files
 * (model/convert.h), and other programs do not know these names.
 *
 * Opening checks everything: the header's size, every dtype, that shape and dtype
 * give exactly end - begin bytes, that the tensors tile the data area with no gap, overlap or rest,
 * and that no value is NaN or infinite. The first fault is LX_ERR_FORMAT naming file and tensor.
 *
 * The values stay in the file, which is open but not mapped: lx_safetensors_read copies a tensor's
 * into the caller's memory. A file that someone shortens or overwrites between the opening and the
 * last read makes opening or reading fail with LX_ERR_CONFLICT.
 */
#ifndef LINNET_MODEL_SAFETENSORS_H
#define LINNET_MODEL_SAFETENSORS_H

#include <stdbool.h>

#include "kernels/kernels.h"

#define LX_BLOCKS_KEY "linnet_blocks"
#define LX_BLOCKS_VERSION "1"

enum { LX_MAX_FILE_TENSORS = 4096 };

typedef struct lx_safetensors lx_safetensors;

typedef struct lx_tensor {
    const char *name; /* owned by the file object */
    int32_t idx;      /* its place in the file, as for lx_safetensors_at */
    int32_t n_dims;   /* of more than 2 `t` has all but the last as rows */
    int64_t planes;   /* the first size of 3 dimensions; otherwise 0 */
    lx_host_tensor t; /* type and shape, a vector has rows = 1; data is NULL */
} lx_tensor;

lx_status lx_safetensors_open(const char *path, lx_safetensors **out, lx_error *err) LX_MUST_USE;
/* Files that have no tensor of the same name as one: their tensors, file by file. It owns the
   files; after an error the caller still does. */
lx_status lx_safetensors_join(lx_safetensors *const *files, int32_t n, lx_safetensors **out,
                              lx_error *err) LX_MUST_USE;
void lx_safetensors_close(lx_safetensors *f); /* NULL is allowed */

int32_t lx_safetensors_count(const lx_safetensors *f);
const lx_tensor *lx_safetensors_at(const lx_safetensors *f, int32_t i);          /* in file order */
const lx_tensor *lx_safetensors_find(const lx_safetensors *f, const char *name); /* or NULL */

/* How many bytes the values of a tensor have. */
size_t lx_safetensors_bytes(const lx_tensor *t);
/* Copies the values of a tensor of `f` to `data`. From any thread. */
lx_status lx_safetensors_read(const lx_safetensors *f, const lx_tensor *t, void *data,
                              lx_error *err) LX_MUST_USE;
/* Whether it can be read in rows: it is no other reader's (lx_safetensors_from). */
bool lx_safetensors_has_rows(const lx_safetensors *f);
/* Rows first .. of it. From any thread. */
lx_status lx_safetensors_read_rows(const lx_safetensors *f, const lx_tensor *t, int64_t first,
                                   int64_t rows, void *data, lx_error *err) LX_MUST_USE;
/* Its numbers as f32: rows * cols of them. */
lx_status lx_safetensors_numbers(const lx_safetensors *f, const lx_tensor *t, float *data,
                                 lx_error *err) LX_MUST_USE;
/* Tensors that another reader has. `read` fills data with the values of tensor i, from any thread;
   `end` closes the files, `free` frees the context. */
typedef struct lx_tensor_source {
    void *context;
    lx_status (*read)(void *context, int32_t i, void *data, lx_error *err);
    void (*end)(void *context);
    void (*free)(void *context);
} lx_tensor_source;

/* A list of n tensors with their names, types and shapes, which are copied. It owns the context;
   after an error the caller still does. `hash`: of all bytes of the files. */
lx_status lx_safetensors_from(const lx_tensor *tensors, int32_t n, const lx_tensor_source *source,
                              uint64_t hash, lx_safetensors **out, lx_error *err) LX_MUST_USE;

/* Whether no value of n bytes of a type is NaN or infinite. */
bool lx_safetensors_is_finite(const unsigned char *data, uint64_t n_bytes, lx_dtype dtype);

/* Closes the files: names, types and shapes stay, and nothing can be read any more. */
void lx_safetensors_end(lx_safetensors *f);

/* 64-bit hash of all bytes of the file (lx_hasher), or of the hashes of joined ones. */
uint64_t lx_safetensors_hash(const lx_safetensors *f);

#endif
