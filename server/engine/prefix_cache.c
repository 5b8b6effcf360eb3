/*
 * Kept prefixes in an array that is sorted by owner and then by rows. The prefix with most rows in
 * common with a given one stands next to where that would stand, so a few binary searches find the
 * longest kept prefix. Each entry knows how many rows it has in common with the one before it. So a
 * pass in order finds the longest kept prefix of each, with a stack of the prefixes of the current
 * entry. By such a pass the entry is found whose loss costs least.
 */
#include "server/engine/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const void *owner;
    int32_t *ids; /* [n, width] */
    int32_t n, slot;
    int32_t shared; /* rows in common with the entry before it, 0 for the first */
    uint64_t used;  /* the cache's time at its last use */
    bool stored;    /* see lx_prefix_cache_mark_stored */
    bool passing;   /* see lx_prefix_key */
} entry;

struct lx_prefix_cache {
    int32_t n_slots, width, n;
    uint64_t time;
    int32_t *stack;  /* [n_slots] for a search: rows of the prefixes of an entry */
    int32_t *unused; /* [n_slots] slots, the first n_slots - n have no prefix */
    entry entries[]; /* [n_slots], the first n are sorted; the other arrays follow */
};

lx_status lx_prefix_cache_new(int32_t n_slots, int32_t width, lx_prefix_cache **out, lx_error *err)
{
    size_t n = (size_t)n_slots;
    lx_prefix_cache *c = calloc(1, sizeof *c + n * (sizeof *c->entries + 2 * sizeof *c->stack));
    if (c == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d prefixes", n_slots);
    c->n_slots = n_slots;
    c->width = width;
    c->stack = (int32_t *)(c->entries + n);
    c->unused = c->stack + n;
    for (int32_t i = 0; i < n_slots; i++)
        c->unused[i] = n_slots - 1 - i;
    *out = c;
    return LX_OK;
}

void lx_prefix_cache_free(lx_prefix_cache *c)
{
    for (int32_t i = 0; c != NULL && i < c->n; i++)
        free(c->entries[i].ids);
    free(c);
}

int32_t lx_prefix_cache_count(const lx_prefix_cache *c)
{
    return c->n;
}

static size_t row_bytes(const lx_prefix_cache *c)
{
    return (size_t)c->width * sizeof(int32_t);
}

/* Rows that the entry has in common with the first n of the key. */
static int32_t common(const lx_prefix_cache *c, const entry *e, lx_prefix_key key, int32_t n)
{
    int32_t most = e->n < n ? e->n : n, i = 0;
    if (e->owner != key.owner)
        return 0;
    while (i < most && memcmp(e->ids + (size_t)i * (size_t)c->width,
                              key.ids + (size_t)i * (size_t)c->width, row_bytes(c)) == 0)
        i++;
    return i;
}

/* Whether the entry stands before the key's first n rows. A prefix stands before longer ones. */
static bool before(const lx_prefix_cache *c, const entry *e, lx_prefix_key key, int32_t n)
{
    if (e->owner != key.owner)
        return (uintptr_t)e->owner < (uintptr_t)key.owner;
    int32_t same = common(c, e, key, n);
    if (same == e->n || same == n)
        return e->n < n;
    size_t at = (size_t)same * (size_t)c->width;
    return memcmp(e->ids + at, key.ids + at, row_bytes(c)) < 0;
}

/* Where the key's first n rows stand, or would stand. */
static int32_t find_index(const lx_prefix_cache *c, lx_prefix_key key, int32_t n)
{
    int32_t low = 0, high = c->n;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (before(c, &c->entries[middle], key, n))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const lx_prefix_cache *c, int32_t index, lx_prefix_key key, int32_t n)
{
    const entry *e = &c->entries[index];
    return index < c->n && e->owner == key.owner && e->n == n && common(c, e, key, n) == n;
}

/* The longest kept prefix of the key, or NULL. If the entry before the key's rows is not a prefix
   of them, no prefix is longer than the rows in common: it would stand between the two. */
static entry *longest(lx_prefix_cache *c, lx_prefix_key key)
{
    for (int32_t n = key.n_rows; n > 0;) {
        int32_t index = find_index(c, key, n);
        if (is_at(c, index, key, n))
            return &c->entries[index];
        if (index == 0)
            return NULL;
        entry *e = &c->entries[index - 1];
        n = common(c, e, key, n);
        if (n == e->n)
            return e;
    }
    return NULL;
}

static int32_t most_shared(const lx_prefix_cache *c, lx_prefix_key key)
{
    int32_t index = find_index(c, key, key.n_rows), most = 0;
    for (int32_t i = index - 1; i <= index; i++) {
        int32_t same = i >= 0 && i < c->n ? common(c, &c->entries[i], key, key.n_rows) : 0;
        most = same > most ? same : most;
    }
    return most;
}

lx_prefix lx_prefix_cache_find(lx_prefix_cache *c, lx_prefix_key key)
{
    lx_prefix found = {.slot = -1, .shared = most_shared(c, key)};
    entry *e = longest(c, key);
    if (e != NULL) {
        e->used = ++c->time;
        found.rows = e->n;
        found.slot = e->slot;
    }
    return found;
}

static void remove_at(lx_prefix_cache *c, int32_t index)
{
    entry *e = &c->entries[index];
    if (index + 1 < c->n && e->shared < e[1].shared)
        e[1].shared = e->shared;
    free(e->ids);
    c->n--;
    memmove(c->entries + index, c->entries + index + 1,
            (size_t)(c->n - index) * sizeof *c->entries);
}

/* The cost of an entry's loss: rows to compute again, and the time for which the entry was unused.
 */
typedef struct loss {
    uint64_t rows, age;
} loss;

static bool is_less(const loss *a, const loss *b)
{
    uint64_t left = a->rows * b->age, right = b->rows * a->age; /* rows / age, across */
    return left < right || (left == right && a->age > b->age);
}

int32_t lx_prefix_cache_forget(lx_prefix_cache *c)
{
    int32_t least = -1, depth = 0;
    loss best = {0};
    for (int32_t i = 0; i < c->n; i++) {
        const entry *e = &c->entries[i];
        while (depth > 0 && c->stack[depth - 1] > e->shared)
            depth--;
        int32_t covered = depth > 0 ? c->stack[depth - 1] : 0;
        loss l = {(uint64_t)(e->n - covered), c->time - e->used};
        if (least < 0 || is_less(&l, &best)) {
            least = i;
            best = l;
        }
        c->stack[depth++] = e->n;
    }
    if (least < 0)
        return -1;
    int32_t slot = c->entries[least].slot;
    remove_at(c, least);
    c->unused[c->n_slots - c->n - 1] = slot;
    return slot;
}

int32_t lx_prefix_cache_add(lx_prefix_cache *c, lx_prefix_key key)
{
    int32_t n = key.n_rows, index = find_index(c, key, n);
    if (is_at(c, index, key, n)) {
        c->entries[index].used = ++c->time;
        c->entries[index].passing &= key.passing;
        return -1;
    }
    int32_t *ids = malloc((size_t)n * row_bytes(c));
    if (ids == NULL)
        return -1;
    memcpy(ids, key.ids, (size_t)n * row_bytes(c));
    if (c->n == c->n_slots)
        (void)lx_prefix_cache_forget(c);
    int32_t slot = c->unused[c->n_slots - c->n - 1];
    index = find_index(c, key, n); /* one before it may be gone */
    memmove(c->entries + index + 1, c->entries + index,
            (size_t)(c->n - index) * sizeof *c->entries);
    c->n++;
    c->entries[index] = (entry){.owner = key.owner,
                                .ids = ids,
                                .n = n,
                                .slot = slot,
                                .used = ++c->time,
                                .passing = key.passing};
    if (index > 0)
        c->entries[index].shared = common(c, &c->entries[index - 1], key, n);
    if (index + 1 < c->n)
        c->entries[index + 1].shared = common(c, &c->entries[index + 1], key, n);
    return slot;
}

/* --- which prefixes are stored --- */

void lx_prefix_cache_mark_stored(lx_prefix_cache *c, lx_prefix_key key)
{
    int32_t index = find_index(c, key, key.n_rows);
    if (is_at(c, index, key, key.n_rows))
        c->entries[index].stored = true;
}

/* Whether kept prefixes continue the entry with different rows. */
static bool parts(const lx_prefix_cache *c, int32_t index)
{
    int32_t n = c->entries[index].n, next = index + 1;
    if (next >= c->n || c->entries[next].shared < n)
        return false;
    for (next++; next < c->n && c->entries[next].shared > n;)
        next++;
    return next < c->n && c->entries[next].shared == n;
}

bool lx_prefix_cache_choose(lx_prefix_cache *c, int32_t least, lx_prefix_key *key, int32_t *slot)
{
    int32_t best = -1, most = least - 1, depth = 0; /* the stack: rows of stored prefixes */
    for (int32_t i = 0; i < c->n; i++) {
        const entry *e = &c->entries[i];
        while (depth > 0 && c->stack[depth - 1] > e->shared)
            depth--;
        int32_t spared = e->n - (depth > 0 ? c->stack[depth - 1] : 0);
        if (e->stored)
            c->stack[depth++] = e->n;
        else if (spared > most && (!e->passing || parts(c, i))) {
            best = i;
            most = spared;
        }
    }
    if (best < 0)
        return false;
    entry *e = &c->entries[best];
    e->stored = true;
    *key = (lx_prefix_key){.owner = e->owner, .ids = e->ids, .n_rows = e->n};
    *slot = e->slot;
    return true;
}
