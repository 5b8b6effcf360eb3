/* See kept_results.h. */
#include "kept_results.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 13 };
#define MOST_BYTES ((size_t)512 << 20) /* then no more are kept */

static struct {
    uint64_t key;
    size_t n_bytes;
    void *bytes;
} kept[PLACES];
static size_t kept_bytes;

uint64_t hash_floats(uint64_t hash, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

results results_of(uint64_t key, int64_t n_y, int64_t n_state)
{
    size_t n = (size_t)(n_y + n_state), n_bytes = n * (sizeof(double) + sizeof(float));
    results r = {.y_scale = take(n_bytes), .n_bytes = n_bytes, .key = key};
    r.state_scale = r.y_scale + n_y;
    r.y = (float *)(r.state_scale + n_state);
    r.state = r.y + n_y;
    for (int i = 0; i < PLACES && !r.known; i++) {
        size_t at = (key + (size_t)i) % PLACES;
        if (kept[at].bytes == NULL)
            break;
        r.known = kept[at].key == key && kept[at].n_bytes == n_bytes;
        if (r.known)
            memcpy(r.y_scale, kept[at].bytes, n_bytes);
    }
    return r;
}

void keep_results(const results *r)
{
    size_t at = r->key % PLACES;
    for (int i = 0; i < PLACES && kept[at].bytes != NULL; i++)
        at = (at + 1) % PLACES;
    void *bytes = NULL;
    if (kept[at].bytes == NULL && r->n_bytes <= MOST_BYTES - kept_bytes)
        bytes = malloc(r->n_bytes);
    if (bytes == NULL)
        return;
    memcpy(bytes, r->y_scale, r->n_bytes);
    kept[at].key = r->key;
    kept[at].n_bytes = r->n_bytes;
    kept[at].bytes = bytes;
    kept_bytes += r->n_bytes;
}
