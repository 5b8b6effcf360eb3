/*
 * Which prefixes of prompts have a state kept for them, and in which slot: an index over slots,
 * that touches no state itself. An entry's key is its owner and the input rows that the transformer
 * has seen. An owner finds only its own entries, so no time and no count tells it another owner's
 * prompts; an owner is compared and never looked into.
 * A prefix may have any number of rows. The one gives way whose loss costs least: what is kept of
 * it beyond the next shorter kept prefix, in rows, divided by the time since its last use, is
 * smallest; of equals the least recently used.
 *
 * Thread: one at a time.
 */
#ifndef LINNET_SERVER_ENGINE_PREFIX_CACHE_H
#define LINNET_SERVER_ENGINE_PREFIX_CACHE_H

#include <stdint.h>

#include "common/status.h"

typedef struct lx_prefix_cache lx_prefix_cache;

typedef struct lx_prefix {
    int32_t rows;   /* of the longest kept prefix of what was looked for, 0: none */
    int32_t slot;   /* where its state is; -1: none */
    int32_t shared; /* rows that it begins with and some kept prefix of the owner too, >= rows */
} lx_prefix;

/* n_slots >= 1; a row has `width` ids. */
lx_status lx_prefix_cache_new(int32_t n_slots, int32_t width, lx_prefix_cache **out,
                              lx_error *err) LX_MUST_USE;
void lx_prefix_cache_free(lx_prefix_cache *c); /* NULL is allowed */

/* A prompt, or the beginning of one: ids[n_rows, width] of an owner, which may be NULL. */
typedef struct lx_prefix_key {
    const void *owner;
    const int32_t *ids;
    int32_t n_rows;
} lx_prefix_key;

/* The owner's longest kept prefix of these rows; it counts as used. */
lx_prefix lx_prefix_cache_find(lx_prefix_cache *c, lx_prefix_key key);
/* A slot for the state after these rows, at least one, from now on found; another prefix, of any
   owner, may be forgotten for it. -1: it is there already, or there is no memory for its key. */
int32_t lx_prefix_cache_add(lx_prefix_cache *c, lx_prefix_key key);
/* Forgets the prefix of any owner whose loss costs least, returns its slot; -1: there is none. */
int32_t lx_prefix_cache_forget(lx_prefix_cache *c);
int32_t lx_prefix_cache_count(const lx_prefix_cache *c);

#endif
