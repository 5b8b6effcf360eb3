/*
 * An index of the prefixes of prompts whose states are kept, by slot. It touches no state. An
 * entry's key is its owner and its input rows. An owner finds only its own entries, so neither
 * times nor counts tell it another owner's prompts. An owner is compared and never dereferenced.
 *
 * If a slot is needed, the prefix gives way whose loss costs least. The cost is the number of rows
 * by which it is longer than its next shorter kept prefix, divided by the time since its last use.
 * Of equal prefixes the least recently used gives way.
 *
 * Thread: one at a time.
 */
#ifndef LINNET_SERVER_ENGINE_PREFIX_CACHE_H
#define LINNET_SERVER_ENGINE_PREFIX_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

typedef struct lx_prefix_cache lx_prefix_cache;

typedef struct lx_prefix {
    int32_t rows;   /* of the longest kept prefix, 0: none */
    int32_t slot;   /* where its state is; -1: none */
    int32_t shared; /* most rows in common with any kept prefix of the owner, >= rows */
} lx_prefix;

/* n_slots >= 1; a row has `width` ids. */
lx_status lx_prefix_cache_new(int32_t n_slots, int32_t width, lx_prefix_cache **out,
                              lx_error *err) LX_MUST_USE;
void lx_prefix_cache_free(lx_prefix_cache *c); /* NULL is allowed */

/* The first rows of a prompt, ids[n_rows, width], and their owner, which may be NULL. */
typedef struct lx_prefix_key {
    const void *owner;
    const int32_t *ids;
    int32_t n_rows;
    bool passing; /* of an addition: the end of a step in a prompt, which only branches make worth
                     storing */
} lx_prefix_key;

/* The owner's longest kept prefix of these rows, which counts as used. */
lx_prefix lx_prefix_cache_find(lx_prefix_cache *c, lx_prefix_key key);
/* A slot for the state after these rows, at least one. Another prefix, of any owner, may be
   forgotten for it. -1: the prefix is kept already, or there is no memory for its key. */
int32_t lx_prefix_cache_add(lx_prefix_cache *c, lx_prefix_key key);
/* Forgets the prefix whose loss costs least and returns its slot; -1: there is none. */
int32_t lx_prefix_cache_forget(lx_prefix_cache *c);
int32_t lx_prefix_cache_count(const lx_prefix_cache *c);

/* Marks a kept prefix as stored in a place that outlives the process. */
void lx_prefix_cache_mark_stored(lx_prefix_cache *c, lx_prefix_key key);
/* The kept prefix that most needs to be stored, which is then marked; false: none does. A prefix
   needs it if it is at least `least` rows longer than its longest stored prefix. A passing one also
   needs to be continued by kept prefixes with different rows. *key points into the cache. */
bool lx_prefix_cache_choose(lx_prefix_cache *c, int32_t least, lx_prefix_key *key, int32_t *slot);

#endif
