/*
 * The types of a GGUF tensor's values. The kernels hold values of a type of lx_dtype as they are.
 * Other types are blocks of small whole numbers with one or two f16 scales. `repack` makes a block
 * of a larger type of lx_dtype with equal values. `unpack` makes f32 numbers of blocks whose values
 * no such type has, in the order of operations of ggml's plain code, so the bits are those of ggml.
 */
#ifndef LINNET_MODEL_GGUF_VALUES_H
#define LINNET_MODEL_GGUF_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { LX_GGUF_MAX_BLOCK = 256 /* numbers */ };

typedef struct lx_gguf_type {
    const char *name;
    uint32_t id;                  /* in the file */
    uint32_t block;               /* numbers of a block */
    uint32_t bytes;               /* of a block */
    lx_dtype dtype;               /* F32_OF_BLOCKS: no type of the kernels has its values */
    uint32_t n_scales, scales_at; /* f16 scales, from this byte of a block on; 0: no scales */
    /* Both NULL: a block is one of `dtype` as it is. */
    void (*repack)(const unsigned char *block, unsigned char *to);
    void (*unpack)(const unsigned char *block, float *to);
} lx_gguf_type;

/* NULL: the type is not supported. */
const lx_gguf_type *lx_gguf_type_of(uint32_t id);
/* Whole blocks of a type with `repack`, as blocks of its dtype. */
void lx_gguf_repack(const lx_gguf_type *t, const unsigned char *blocks, uint64_t n_bytes,
                    unsigned char *to);
/* The numbers of whole blocks. */
void lx_gguf_numbers(const lx_gguf_type *t, const unsigned char *blocks, uint64_t n_bytes,
                     float *to);
/* The name that ggml has for a type that is not supported; NULL: it has none. */
const char *lx_gguf_type_name(uint32_t id);
/* The names of the supported types, for errors. */
extern const char lx_gguf_type_names[];

/* Whether no scale of whole blocks is NaN or infinite. Types without scales:
   lx_safetensors_is_finite. */
bool lx_gguf_scales_are_finite(const lx_gguf_type *t, const unsigned char *data, uint64_t n_bytes);

#endif
