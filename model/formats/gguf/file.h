/*
 * The container of a GGUF file: "GGUF", a version, then metadata (keys with values), then a list of
 * tensors, then, from a multiple of the alignment on, the tensors' data. All numbers are
 * little-endian.
 *
 * Opening checks every number of the file before it is used. Counts and lengths are compared with
 * the bytes that are left, and products of dimensions must not wrap. Tensors must tile the data
 * area, and no key or name may be there twice. The first fault is LX_ERR_FORMAT with a line that
 * names the file and the part. Opening takes memory for twice the bytes before the data area. The
 * file is read and not mapped, as all files of models are (model/formats/file.h).
 *
 * Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3.
 */
#ifndef LINNET_MODEL_GGUF_FILE_H
#define LINNET_MODEL_GGUF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/formats/file.h"
#include "model/formats/gguf/gguf.h"

struct lx_gguf_type;

/* The types of metadata values, with the numbers that the file has for them. */
typedef enum lx_gguf_kind {
    LX_GGUF_U8,
    LX_GGUF_I8,
    LX_GGUF_U16,
    LX_GGUF_I16,
    LX_GGUF_U32,
    LX_GGUF_I32,
    LX_GGUF_F32,
    LX_GGUF_BOOL,
    LX_GGUF_TEXT,
    LX_GGUF_ARRAY,
    LX_GGUF_U64,
    LX_GGUF_I64,
    LX_GGUF_F64,
    LX_GGUF_KINDS
} lx_gguf_kind;

/* A key and its value. An array has its items' kind. */
typedef struct lx_gguf_value {
    uint64_t key_at, key_bytes;
    uint64_t at; /* the value, or the first item: a place in the header */
    uint64_t n;  /* items; 1 where it is no array */
    lx_gguf_kind kind;
    bool is_array;
    bool used; /* a reader asked for it */
} lx_gguf_value;

enum { LX_GGUF_NAME = 64 /* bytes of a tensor's name with its NUL */, LX_GGUF_DIMS = 4 };

typedef struct lx_gguf_tensor {
    char name[LX_GGUF_NAME];
    const struct lx_gguf_type *type;
    int32_t n_dims;
    int64_t dims[LX_GGUF_DIMS]; /* the columns first; 1 after the last */
    uint64_t at, n_bytes;       /* in the data area */
} lx_gguf_tensor;

typedef struct lx_gguf {
    lx_file file;
    char *label; /* the file, for errors */
    unsigned char *header;
    uint64_t n_read;   /* bytes of the header that are in memory */
    uint64_t capacity; /* bytes that `header` has room for */
    uint64_t data_at;  /* where the data area begins */
    int32_t n_values, n_tensors;
    lx_gguf_value *values;   /* [n_values] by key */
    lx_gguf_tensor *tensors; /* [n_tensors] in the order of the data */
    uint64_t hash;           /* of the header */
} lx_gguf;

/* Frees the metadata: only the tensors can be read afterwards. */
void lx_gguf_drop_values(lx_gguf *f);

/* The value of a key; NULL: the file has none. */
lx_gguf_value *lx_gguf_find(const lx_gguf *f, const char *key);
const lx_gguf_tensor *lx_gguf_find_tensor(const lx_gguf *f, const char *name);

/* Item i of a value of numbers or flags. */
double lx_gguf_number_at(const lx_gguf *f, const lx_gguf_value *v, uint64_t i);
/* The text of which the length is at *at, which moves to the next text of an array. The text lies
   in the header and has no NUL after it. */
const char *lx_gguf_text_at(const lx_gguf *f, uint64_t *at, size_t *n);

#endif
