/*
 * The state store in this process's memory: a hash table with chains and one lock. An account
 * counts the states and bytes of an owner, and lives as long as the owner keeps a state.
 *
 * A request for an expired state drops it. A new state that finds no room drops all expired ones.
 * `soonest` is a lower bound of all ends, so a full table is searched only if a state has expired.
 * A state that has not expired is dropped only if it was put as droppable. The droppable states are
 * a list in the order of their use. For others the server has promised the id to a client.
 *
 * Blobs are reference-counted, so that a reader's copy outlives a removal and no lock is held
 * while a callback runs.
 */
#include "server/states/store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"

enum { MAX_STATES = 1 << 24, N_ACCOUNT_CHAINS = 1024 };

typedef struct blob {
    _Atomic int32_t refs;
    size_t size;
    unsigned char bytes[];
} blob;

typedef struct account {
    struct account *next;
    int64_t n, bytes;
    char owner[LX_OWNER_NAME + 1];
} account;

typedef struct entry {
    struct entry *next;
    struct entry *older, *newer; /* of the list of droppable entries; NULL at its ends */
    account *account;
    int64_t ends_ns; /* lx_now_ns() */
    bool droppable;
    blob *blob;
    char id[LX_STATE_ID_MAX + 1];
} entry;

typedef struct memory {
    lx_state_store base;
    pthread_mutex_t mutex;
    entry **buckets;
    size_t n_buckets; /* a power of two */
    account *accounts[N_ACCOUNT_CHAINS];
    entry *oldest, *newest; /* droppable entries */
    int64_t n, bytes, max_states, max_bytes;
    int64_t soonest; /* no state ends before */
} memory;

static blob *blob_new(const void *bytes, size_t size)
{
    blob *b = malloc(sizeof *b + size);
    if (b == NULL)
        return NULL;
    atomic_init(&b->refs, 1);
    b->size = size;
    memcpy(b->bytes, bytes, size);
    return b;
}

static void blob_unref(blob *b)
{
    if (b != NULL && atomic_fetch_sub(&b->refs, 1) == 1)
        free(b);
}

/* FNV-1a. A client that chooses colliding ids makes a chain no longer than its limit of states. */
static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h ^ h >> 32;
}

static uint64_t hash_owner(const char *name)
{
    return hash(UINT64_C(14695981039346656037), name);
}

/* The link to the entry of the owner's id, or the end of its chain. */
static entry **find(memory *m, const char *owner, const char *id)
{
    entry **at = &m->buckets[hash(hash_owner(owner), id) & (m->n_buckets - 1)];
    while (*at != NULL && (strcmp((*at)->id, id) != 0 || strcmp((*at)->account->owner, owner) != 0))
        at = &(*at)->next;
    return at;
}

/* The link to the owner's account, or the end of its chain. */
static account **find_account(memory *m, const char *owner)
{
    account **at = &m->accounts[hash_owner(owner) % N_ACCOUNT_CHAINS];
    while (*at != NULL && strcmp((*at)->owner, owner) != 0)
        at = &(*at)->next;
    return at;
}

static void book(memory *m, account *a, int64_t n, int64_t bytes)
{
    m->n += n;
    m->bytes += bytes;
    a->n += n;
    a->bytes += bytes;
}

/* Takes the entry out of the list of droppable ones. */
static void leave_list(memory *m, entry *e)
{
    if (!e->droppable)
        return;
    *(e->older != NULL ? &e->older->newer : &m->oldest) = e->newer;
    *(e->newer != NULL ? &e->newer->older : &m->newest) = e->older;
    e->droppable = false;
    e->older = e->newer = NULL;
}

/* Makes the entry the last that is dropped. */
static void join_list(memory *m, entry *e)
{
    e->droppable = true;
    e->older = m->newest;
    e->newer = NULL;
    *(e->older != NULL ? &e->older->newer : &m->oldest) = e;
    m->newest = e;
}

static void unlink_entry(memory *m, entry **at)
{
    entry *e = *at;
    account *a = e->account;
    leave_list(m, e);
    *at = e->next;
    book(m, a, -1, -(int64_t)e->blob->size);
    if (a->n == 0) {
        *find_account(m, a->owner) = a->next;
        free(a);
    }
    blob_unref(e->blob);
    free(e);
}

static void drop_expired(memory *m, int64_t now)
{
    if (now < m->soonest)
        return;
    m->soonest = INT64_MAX;
    for (size_t i = 0; i < m->n_buckets; i++) {
        for (entry **at = &m->buckets[i]; *at != NULL;) {
            if ((*at)->ends_ns <= now) {
                unlink_entry(m, at);
            } else {
                m->soonest = (*at)->ends_ns < m->soonest ? (*at)->ends_ns : m->soonest;
                at = &(*at)->next;
            }
        }
    }
}

static int64_t end_of(memory *m, int64_t ttl_ms)
{
    int64_t now = lx_now_ns(), room = (INT64_MAX - now) / LX_NS_PER_MS;
    int64_t end = ttl_ms < room ? now + ttl_ms * LX_NS_PER_MS : INT64_MAX;
    m->soonest = end < m->soonest ? end : m->soonest;
    return end;
}

/* Whether n states with so many bytes leave room for a new blob in place of the old one, if any. */
static bool fits(int64_t n, int64_t bytes, const entry *old, size_t size, int64_t max_n,
                 int64_t max_bytes)
{
    return n + (old == NULL) <= max_n &&
           bytes + (int64_t)size - (old == NULL ? 0 : (int64_t)old->blob->size) <= max_bytes;
}

/* LX_ERR_BUSY if the blob does not fit. The text does not show the counts of other owners. */
static lx_status check_room(memory *m, const lx_owner *o, const entry *old, size_t size,
                            lx_error *err)
{
    const account *a = *find_account(m, o->name);
    int64_t n = a != NULL ? a->n : 0, bytes = a != NULL ? a->bytes : 0;
    int64_t max_n = o->max_states > 0 ? o->max_states : m->max_states;
    int64_t max_bytes = o->max_bytes > 0 ? o->max_bytes : m->max_bytes;
    if (!fits(n, bytes, old, size, max_n, max_bytes))
        return lx_fail(err, LX_ERR_BUSY, "state",
                       "this key keeps %lld states with %lld bytes and no more fit (limits: %lld, "
                       "%lld)",
                       (long long)n, (long long)bytes, (long long)max_n, (long long)max_bytes);
    if (!fits(m->n, m->bytes, old, size, m->max_states, m->max_bytes))
        return lx_fail(err, LX_ERR_BUSY, "state",
                       "the server keeps no more states (limits of all: %lld states, %lld bytes)",
                       (long long)m->max_states, (long long)m->max_bytes);
    return LX_OK;
}

/* Drops the least recently used droppable state, but for this one: of the owner where it alone
   lacks room. False when there is none. */
static bool drop_one(memory *m, const lx_owner *o, const entry *but, size_t size)
{
    const account *own = *find_account(m, o->name);
    bool all = fits(m->n, m->bytes, but, size, m->max_states, m->max_bytes);
    for (entry *e = m->oldest; e != NULL; e = e->newer) {
        if (e == but || (all && e->account != own))
            continue;
        unlink_entry(m, find(m, e->account->owner, e->id));
        return true;
    }
    return false;
}

/* A new entry at the end of a chain, with its owner's account; NULL without memory. */
static entry *entry_new(memory *m, entry **at, const char *owner, const char *id)
{
    entry *e = calloc(1, sizeof *e);
    account **held = find_account(m, owner);
    if (e != NULL && *held == NULL && (*held = calloc(1, sizeof **held)) != NULL)
        memcpy((*held)->owner, owner, strnlen(owner, LX_OWNER_NAME));
    if (e == NULL || *held == NULL) {
        free(e);
        return NULL;
    }
    e->account = *held;
    memcpy(e->id, id, strnlen(id, LX_STATE_ID_MAX));
    *at = e;
    return e;
}

/* Makes room for the blob under the request's id. */
static lx_status make_room(memory *m, const lx_store_request *rq, size_t size, lx_error *err)
{
    const char *owner = rq->owner->name;
    lx_status st = check_room(m, rq->owner, *find(m, owner, rq->id), size, err);
    if (st == LX_ERR_BUSY) {
        drop_expired(m, lx_now_ns());
        st = check_room(m, rq->owner, *find(m, owner, rq->id), size, err);
    }
    while (st == LX_ERR_BUSY && drop_one(m, rq->owner, *find(m, owner, rq->id), size))
        st = check_room(m, rq->owner, *find(m, owner, rq->id), size, err);
    return st;
}

/* Under the lock; takes the blob when it succeeds. */
static lx_status keep(memory *m, const lx_store_request *rq, blob *b, lx_error *err)
{
    lx_status st = make_room(m, rq, b->size, err);
    if (st != LX_OK)
        return st;
    entry **at = find(m, rq->owner->name, rq->id);
    bool is_new = *at == NULL;
    entry *e = is_new ? entry_new(m, at, rq->owner->name, rq->id) : *at;
    if (e == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    book(m, e->account, is_new, (int64_t)b->size - (is_new ? 0 : (int64_t)e->blob->size));
    blob_unref(e->blob); /* NULL: a new one */
    e->blob = b;
    e->ends_ns = end_of(m, rq->ttl_ms);
    leave_list(m, e);
    if (rq->droppable)
        join_list(m, e);
    return LX_OK;
}

static lx_status memory_put(memory *m, const lx_store_request *rq, lx_error *err)
{
    int64_t most = m->max_bytes, own = rq->owner->max_bytes;
    if (own > 0 && own < most)
        most = own;
    if (rq->size > (size_t)most)
        return lx_fail(err, LX_ERR_TOO_LARGE, "state", "a state of %zu bytes; the limit is %lld",
                       rq->size, (long long)most);
    blob *b = blob_new(rq->blob, rq->size);
    if (b == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    LX_HOLD(&m->mutex);
    lx_status st = keep(m, rq, b, err);
    if (st != LX_OK)
        blob_unref(b);
    return st;
}

/* Gets the blob, with a reference in *out, or removes it. */
static lx_status memory_find(memory *m, const lx_store_request *rq, blob **out,
                             lx_store_result *result, lx_error *err)
{
    LX_HOLD(&m->mutex);
    entry **at = find(m, rq->owner->name, rq->id), *e = *at;
    bool alive = e != NULL && e->ends_ns > lx_now_ns();
    if (alive && rq->op == LX_STORE_GET) {
        *out = e->blob;
        atomic_fetch_add(&(*out)->refs, 1);
        if (rq->ttl_ms > 0) {
            e->ends_ns = end_of(m, rq->ttl_ms);
            if (e->droppable) {
                leave_list(m, e);
                join_list(m, e);
            }
        }
        result->ttl_ms = (e->ends_ns - lx_now_ns()) / LX_NS_PER_MS;
        result->blob = (*out)->bytes;
        result->size = (*out)->size;
    } else if (e != NULL) {
        unlink_entry(m, at);
    }
    return alive ? LX_OK
                 : lx_fail(err, LX_ERR_NOT_FOUND, "state",
                           "there is no state %s, or it has expired", rq->id);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const lx_store_entry *)a)->id, ((const lx_store_entry *)b)->id);
}

/* Copies the owner's states after the id to out[n], in no order; the number is at most that of the
   account. Under the lock. */
static size_t collect(const memory *m, const account *a, const char *after, lx_store_entry *out)
{
    int64_t now = lx_now_ns();
    size_t n = 0;
    for (size_t i = 0; i < m->n_buckets; i++)
        for (const entry *e = m->buckets[i]; e != NULL; e = e->next)
            if (e->account == a && e->ends_ns > now && strcmp(e->id, after) > 0) {
                memcpy(out[n].id, e->id, sizeof e->id);
                out[n].bytes = (int64_t)e->blob->size;
                out[n++].ttl_ms = (e->ends_ns - now) / LX_NS_PER_MS;
            }
    return n;
}

/* *entries is owned by the caller; NULL when there are none. */
static lx_status memory_list(memory *m, const lx_store_request *rq, lx_store_entry **entries,
                             lx_store_result *result, lx_error *err)
{
    LX_HOLD(&m->mutex);
    const account *a = *find_account(m, rq->owner->name);
    if (a == NULL)
        return LX_OK;
    *entries = calloc((size_t)a->n, sizeof **entries);
    if (*entries == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a list of states");
    size_t n = collect(m, a, rq->id, *entries);
    qsort(*entries, n, sizeof **entries, by_id);
    result->blob = *entries;
    result->size = (n < rq->most ? n : rq->most) * sizeof **entries;
    return LX_OK;
}

static void memory_call(lx_state_store *s, const lx_store_request *rq, lx_store_done done,
                        void *context)
{
    memory *m = (memory *)s;
    lx_store_result result = {.ttl_ms = 0};
    lx_error err = {0};
    blob *b = NULL;
    lx_store_entry *entries = NULL;
    if (rq->op == LX_STORE_PUT)
        result.status = memory_put(m, rq, &err);
    else if (rq->op == LX_STORE_LIST)
        result.status = memory_list(m, rq, &entries, &result, &err);
    else
        result.status = memory_find(m, rq, &b, &result, &err);
    if (result.status != LX_OK)
        result.err = &err;
    if (rq->gives_blob)
        free((void *)(uintptr_t)rq->blob);
    done(context, &result);
    blob_unref(b);
    free(entries);
}

static void memory_stats(lx_state_store *s, lx_store_stats *out)
{
    memory *m = (memory *)s;
    LX_HOLD(&m->mutex);
    drop_expired(m, lx_now_ns());
    *out = (lx_store_stats){.states = m->n,
                            .bytes = m->bytes,
                            .max_states = m->max_states,
                            .max_bytes = m->max_bytes,
                            .reachable = true};
}

static void memory_close(lx_state_store *s)
{
    memory *m = (memory *)s;
    for (size_t i = 0; i < m->n_buckets; i++)
        while (m->buckets[i] != NULL)
            unlink_entry(m, &m->buckets[i]);
    (void)pthread_mutex_destroy(&m->mutex);
    free(m->buckets);
    free(m);
}

static const lx_store_ops memory_ops = {
    .name = "memory",
    .call = memory_call,
    .stats = memory_stats,
    .close = memory_close,
};

lx_status lx_state_memory_open(int64_t max_states, int64_t max_bytes, lx_state_store **out,
                               lx_error *err)
{
    if (max_states < 1 || max_states > MAX_STATES)
        return lx_fail(err, LX_ERR_INVALID, "max_states", "%lld states, not in 1 .. %d",
                       (long long)max_states, MAX_STATES);
    if (max_bytes < 1)
        return lx_fail(err, LX_ERR_INVALID, "max_state_bytes", "%lld bytes, not at least 1",
                       (long long)max_bytes);
    memory *m = calloc(1, sizeof *m);
    size_t n = 16;
    while (n < (size_t)max_states)
        n *= 2;
    entry **buckets = calloc(n, sizeof *buckets);
    if (m == NULL || buckets == NULL || pthread_mutex_init(&m->mutex, NULL) != 0) {
        free(m);
        free(buckets);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a store of states");
    }
    m->base.ops = &memory_ops;
    m->buckets = buckets;
    m->n_buckets = n;
    m->max_states = max_states;
    m->max_bytes = max_bytes;
    m->soonest = INT64_MAX;
    *out = &m->base;
    return LX_OK;
}
