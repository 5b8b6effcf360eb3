/*
 * Texts by number, and their numbers by text: a vocabulary's tokens. All bytes lie in one block;
 * the index is a hash table of open addressing, at most half full.
 */
#ifndef LINNET_MODEL_TOKENIZERS_TEXTS_H
#define LINNET_MODEL_TOKENIZERS_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

typedef struct lx_text_place {
    uint32_t at, n;
} lx_text_place;

typedef struct lx_texts {
    lx_buffer block;
    lx_text_place *places; /* [n]; at UINT32_MAX: not set */
    int32_t n;
    int32_t *slots; /* [mask + 1], -1 for empty; NULL before lx_texts_index */
    uint32_t mask;
} lx_texts;

lx_status lx_texts_init(lx_texts *t, int32_t n, lx_error *err) LX_MUST_USE;
void lx_texts_fini(lx_texts *t); /* a zeroed one is allowed */

/* Copies bytes[n] as text `id`, which is not set before. */
lx_status lx_texts_set(lx_texts *t, int32_t id, const char *bytes, size_t n,
                       lx_error *err) LX_MUST_USE;
/* NULL when not set. */
const char *lx_texts_get(const lx_texts *t, int32_t id, size_t *n);

/* Builds the index of all texts that are set; of equal texts the lowest id is found. */
lx_status lx_texts_index(lx_texts *t, lx_error *err) LX_MUST_USE;
/* -1 when absent. */
int32_t lx_texts_find(const lx_texts *t, const char *bytes, size_t n);

/* A well mixed hash of bytes. */
uint64_t lx_texts_hash(const char *bytes, size_t n);
/* Mixes a number of 64 bits. */
static inline uint64_t lx_mix64(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

/* The smallest power of two, at least 16, that is twice n. */
static inline uint32_t lx_table_size(size_t n)
{
    uint32_t size = 16;
    while (size < 2 * n)
        size *= 2;
    return size;
}

#endif
