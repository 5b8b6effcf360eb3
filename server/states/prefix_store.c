/*
 * The file of prompt states (see prefix_store.h).
 *
 * The id of a state has the number of its rows and a hash of owner, maker and rows. An index of all
 * ids stays in memory. To find the longest stored beginning of a prompt, one pass hashes its rows
 * and compares the hash after each number of rows that the index has. Hashes may collide, so a
 * reader compares owner, maker and rows with those of the blob (prefix_blob.h).
 *
 * A state that grows lacks the pages that its base has, so a reader follows the chain of bases. Use
 * of a state is use of its chain, or the store would drop bases before the states that need them.
 * The index knows an entry's base once it was written or read by this process.
 *
 * The store drops the least recently used states above its limit, and the index learns of it when a
 * read fails.
 */
#include "server/states/prefix_store.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/lock.h"
#include "common/log.h"
#include "server/auth/keys.h"
#include "server/states/prefix_blob.h"
#include "server/states/sqlite.h"

#define TTL_MS ((int64_t)30 * 24 * 3600 * 1000)
/* Bytes of states that wait to be written. A larger state may go alone. */
#define ON_THEIR_WAY ((int64_t)64 << 20)

enum { MOST_STATES = 1 << 16, LIST_PAGE = 256 };

typedef struct entry {
    int32_t rows, base; /* base: rows of the base, 0: none, or not known */
    uint64_t hash, base_hash;
} entry;

typedef struct prefix_store {
    lx_prefix_place base;
    lx_state_store *store; /* NULL: the file cannot be used */
    pthread_mutex_t mutex; /* of the index */
    entry *index;          /* [MOST_STATES], sorted by rows, then by hash */
    int32_t n;
    atomic_bool damaged; /* the log has it */
} prefix_store;

/* --- names --- */

/* Keys that share states own them under a name that no key has. */
static const lx_owner shared_owner = {.name = "*"};

static const lx_owner *owner_of(const lx_prefix_name *name)
{
    const lx_client client = {.key = name->key.owner};
    /* The store's limits alone count: the owner's are for states that its client asked to keep. */
    return client.key != NULL ? lx_key_owner(lx_key_of(&client)) : &shared_owner;
}

/* Steps of splitmix64. */
static uint64_t mix(uint64_t hash, uint64_t x)
{
    uint64_t z = (hash ^ x) + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = mix(hash, (unsigned char)*text);
    return mix(hash, 256);
}

static uint64_t hash_begin(const lx_prefix_name *name)
{
    return mix_text(mix_text((uint64_t)name->width, name->maker), owner_of(name)->name);
}

static uint64_t hash_row(const lx_prefix_name *name, uint64_t hash, int32_t row)
{
    const int32_t *ids = name->key.ids + (size_t)row * (size_t)name->width;
    for (int32_t i = 0; i < name->width; i++)
        hash = mix(hash, (uint32_t)ids[i]);
    return hash;
}

/* Hashes of the first 0, 1, ... rows. All entries of a chain are named by one pass. The caller
   frees them; NULL without memory. */
static uint64_t *hash_rows(const lx_prefix_name *name)
{
    uint64_t *hashes = malloc(((size_t)name->key.n_rows + 1) * sizeof *hashes);
    if (hashes == NULL)
        return NULL;
    hashes[0] = hash_begin(name);
    for (int32_t row = 0; row < name->key.n_rows; row++)
        hashes[row + 1] = hash_row(name, hashes[row], row);
    return hashes;
}

static entry entry_of(const uint64_t *hashes, int32_t rows, int32_t base)
{
    return (entry){rows, base, hashes[rows], base > 0 ? hashes[base] : 0};
}

static void write_id(entry e, char id[LX_STATE_ID_MAX + 1])
{
    (void)snprintf(id, LX_STATE_ID_MAX + 1, "p%08" PRIx32 "%016" PRIx64, (uint32_t)e.rows, e.hash);
}

static bool read_id(const char *id, entry *e)
{
    char again[LX_STATE_ID_MAX + 1], rows[9] = "";
    if (id[0] != 'p' || strlen(id) != 1 + 8 + 16)
        return false;
    memcpy(rows, id + 1, 8);
    *e = (entry){.rows = (int32_t)strtoul(rows, NULL, 16), .hash = strtoull(id + 9, NULL, 16)};
    write_id(*e, again);
    return e->rows > 0 && strcmp(id, again) == 0;
}

/* --- the index, under the mutex --- */

/* The order of the index: by rows, then by hash. */
static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->rows != y->rows)
        return x->rows < y->rows ? -1 : 1;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

/* Where the entry is, or would be. */
static int32_t place_of(const prefix_store *s, entry e)
{
    int32_t low = 0, high = s->n;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (compare_entries(&s->index[middle], &e) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* -1: it is not there. */
static int32_t index_of(const prefix_store *s, entry e)
{
    int32_t at = place_of(s, e);
    return at < s->n && compare_entries(&s->index[at], &e) == 0 ? at : -1;
}

static void remove_at(prefix_store *s, int32_t at)
{
    s->n--;
    memmove(s->index + at, s->index + at + 1, (size_t)(s->n - at) * sizeof *s->index);
}

/* In a full index the state of fewest rows gives way. */
static void add_entry(prefix_store *s, entry e)
{
    int32_t known = index_of(s, e);
    if (known >= 0) {
        s->index[known] = e;
        return;
    }
    if (s->n == MOST_STATES)
        remove_at(s, 0);
    int32_t at = place_of(s, e);
    memmove(s->index + at + 1, s->index + at, (size_t)(s->n - at) * sizeof *s->index);
    s->index[at] = e;
    s->n++;
}

/* The base of an entry; one of no rows: it has none. */
static entry base_of(entry e)
{
    return (entry){.rows = e.base, .hash = e.base_hash};
}

/* Forgets a state that could not be read, with its chain down to the entry that was lost. */
static void forget(prefix_store *s, entry e, entry lost)
{
    LX_HOLD(&s->mutex);
    for (int32_t at = 0; e.rows >= lost.rows && (at = index_of(s, e)) >= 0;) {
        e = base_of(s->index[at]);
        remove_at(s, at);
    }
}

static int32_t find(lx_prefix_place *p, const lx_prefix_name *name)
{
    prefix_store *s = (prefix_store *)p;
    uint64_t hash = hash_begin(name);
    int32_t best = 0, at = 0;
    LX_HOLD(&s->mutex);
    for (int32_t row = 0; row < name->key.n_rows && at < s->n; row++) {
        hash = hash_row(name, hash, row);
        for (; at < s->n && s->index[at].rows <= row + 1; at++) {
            if (s->index[at].rows == row + 1 && s->index[at].hash == hash)
                best = row + 1;
        }
    }
    return best;
}

/* --- writing --- */

static void no_answer(void *context, const lx_store_result *result)
{
    (void)context;
    (void)result;
}

/* The chain from this entry on counts as used. The queue may be full; then it is used less. */
static void use_chain(prefix_store *s, const lx_owner *owner, entry e)
{
    LX_HOLD(&s->mutex);
    for (int32_t at = 0; e.rows > 0 && (at = index_of(s, e)) >= 0; e = base_of(s->index[at])) {
        char id[LX_STATE_ID_MAX + 1];
        write_id(e, id);
        lx_store_request rq = {
            .op = LX_STORE_GET, .owner = owner, .id = id, .ttl_ms = TTL_MS, .only_use = true};
        s->store->ops->call(s->store, &rq, no_answer, NULL);
    }
}

typedef struct writing {
    prefix_store *store;
    entry entry;
    void (*done)(void *context, bool ok);
    void *context;
} writing;

static void written(void *context, const lx_store_result *result)
{
    writing *w = context;
    if (result->status == LX_OK) {
        LX_HOLD(&w->store->mutex);
        add_entry(w->store, w->entry);
    }
    w->done(w->context, result->status == LX_OK);
    free(w);
}

/* The blob of a state that lies in it. */
static unsigned char *blob_of(const lx_prefix_name *name, float *state)
{
    return (unsigned char *)state - lx_prefix_blob_head(name);
}

static float *make_room(lx_prefix_place *p, const lx_prefix_name *name, size_t n_floats)
{
    const prefix_store *s = (const prefix_store *)p;
    unsigned char *blob = s->store != NULL ? malloc(lx_prefix_blob_bytes(name, n_floats)) : NULL;
    return blob != NULL ? (float *)(void *)(blob + lx_prefix_blob_head(name)) : NULL;
}

static void drop_room(lx_prefix_place *p, const lx_prefix_name *name, float *state)
{
    (void)p;
    free(blob_of(name, state));
}

static void write_state(lx_prefix_place *p, const lx_prefix_name *name, int32_t base, float *state,
                        size_t n_floats, void (*done)(void *context, bool ok), void *context)
{
    prefix_store *s = (prefix_store *)p;
    writing *w = malloc(sizeof *w);
    uint64_t *hashes = hash_rows(name);
    unsigned char *blob = blob_of(name, state);
    if (w == NULL || hashes == NULL) {
        free(w);
        free(hashes);
        free(blob);
        done(context, false);
        return;
    }
    lx_prefix_blob_fill(name, base, n_floats, blob);
    *w = (writing){s, entry_of(hashes, name->key.n_rows, base), done, context};
    free(hashes);
    char id[LX_STATE_ID_MAX + 1];
    write_id(w->entry, id);
    lx_owner owner = *owner_of(name);
    owner.max_states = owner.max_bytes = 0;
    use_chain(s, &owner, base_of(w->entry));
    lx_store_request rq = {.op = LX_STORE_PUT,
                           .owner = &owner,
                           .id = id,
                           .blob = blob,
                           .size = lx_prefix_blob_bytes(name, n_floats),
                           .gives_blob = true,
                           .ttl_ms = TTL_MS,
                           .droppable = true};
    s->store->ops->call(s->store, &rq, written, w);
}

/* --- reading --- */

/* Of a blob. */
typedef struct reading {
    const lx_prefix_name *name;
    const lx_prefix_sizes *sizes;
    int32_t end; /* see lx_prefix_blob_read */
    float *to;
    int32_t base;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    lx_status status;
    lx_error err;
} reading;

static void was_read(void *context, const lx_store_result *result)
{
    reading *r = context;
    LX_HOLD(&r->mutex);
    r->status = result->status;
    if (result->err != NULL)
        r->err = *result->err;
    if (r->status == LX_OK)
        r->status = lx_prefix_blob_read(r->name, r->sizes, r->end, result->blob, result->size,
                                        r->to, &r->base, &r->err);
    r->done = true;
    (void)pthread_cond_signal(&r->changed);
}

static void wait_for(reading *r)
{
    LX_HOLD(&r->mutex);
    while (!r->done)
        (void)pthread_cond_wait(&r->changed, &r->mutex);
}

/* Reads one blob of a chain. *e, the blob's entry, receives its base. */
static lx_status read_blob(prefix_store *s, const uint64_t *hashes, reading *r, entry *e)
{
    char id[LX_STATE_ID_MAX + 1];
    *e = entry_of(hashes, r->name->key.n_rows, 0);
    write_id(*e, id);
    lx_store_request rq = {
        .op = LX_STORE_GET, .owner = owner_of(r->name), .id = id, .ttl_ms = TTL_MS};
    r->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    r->changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    r->done = false;
    s->store->ops->call(s->store, &rq, was_read, r);
    wait_for(r);
    (void)pthread_cond_destroy(&r->changed);
    (void)pthread_mutex_destroy(&r->mutex);
    if (r->status != LX_OK)
        return r->status;
    *e = entry_of(hashes, e->rows, r->base);
    LX_HOLD(&s->mutex);
    if (index_of(s, *e) >= 0)
        add_entry(s, *e);
    return LX_OK;
}

static lx_status read_state(lx_prefix_place *p, const lx_prefix_name *name,
                            const lx_prefix_sizes *sizes, float *to, lx_error *err)
{
    prefix_store *s = (prefix_store *)p;
    lx_prefix_name part = *name;
    entry whole, e;
    reading r = {.name = &part, .sizes = sizes, .end = -1, .to = to};
    if (s->store == NULL)
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "there is no store of prompt states");
    uint64_t *hashes = hash_rows(name);
    if (hashes == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to read a prompt's state");
    lx_status st = read_blob(s, hashes, &r, &e);
    for (whole = e; st == LX_OK && r.base > 0; st = read_blob(s, hashes, &r, &e)) {
        part.key.n_rows = r.base;
        r.end = lx_prefix_first_page(r.base);
    }
    free(hashes);
    if (st == LX_OK)
        return LX_OK;
    if (st == LX_ERR_FORMAT) {
        if (!atomic_exchange(&s->damaged, true))
            lx_log(LX_LOG_WARN, "%s; its prompt is computed, like those of other such states",
                   r.err.text);
        st = LX_ERR_NOT_FOUND;
    }
    if (st == LX_ERR_NOT_FOUND)
        forget(s, whole, e);
    if (err != NULL)
        *err = r.err;
    return st;
}

static bool works(lx_prefix_place *p)
{
    const prefix_store *s = (const prefix_store *)p;
    lx_store_stats stats = {.reachable = false};
    if (s->store != NULL)
        s->store->ops->stats(s->store, &stats);
    return stats.reachable;
}

/* --- opening --- */

/* Appends an owner's entries to the index. Their hashes differ from those of other owners. */
static lx_status index_owner(prefix_store *s, lx_state_file *f, const char *owner, lx_error *err)
{
    char after[LX_STATE_ID_MAX + 1] = "";
    lx_status st = LX_OK;
    for (size_t n = LIST_PAGE; st == LX_OK && n == LIST_PAGE;) {
        lx_store_entry *page = NULL;
        st = lx_state_file_list(f, owner, after, LIST_PAGE, &page, &n, err);
        for (size_t i = 0; st == LX_OK && i < n; i++) {
            entry e;
            if (read_id(page[i].id, &e) && s->n < MOST_STATES)
                s->index[s->n++] = e;
            memcpy(after, page[i].id, sizeof after);
        }
        free(page);
    }
    return st;
}

/* Fills the index from the file, before its thread has it. */
static lx_status index_file(prefix_store *s, const char *path, lx_error *err)
{
    lx_state_file *f = NULL;
    lx_error end = {0};
    char owner[LX_OWNER_NAME + 1];
    lx_status st = lx_state_file_open(path, true, &f, err);
    if (st != LX_OK)
        return st;
    lx_status more = lx_state_file_next_owner(f, NULL, owner, &end);
    while (more == LX_OK && st == LX_OK) {
        char before[LX_OWNER_NAME + 1];
        st = index_owner(s, f, owner, err);
        memcpy(before, owner, sizeof before);
        more = lx_state_file_next_owner(f, before, owner, &end);
    }
    if (st == LX_OK && more != LX_ERR_NOT_FOUND) {
        st = more;
        *err = end;
    }
    lx_state_file_close(f);
    qsort(s->index, (size_t)s->n, sizeof *s->index, compare_entries);
    return st;
}

static const lx_prefix_place table = {.find = find,
                                      .read = read_state,
                                      .room = make_room,
                                      .drop = drop_room,
                                      .write = write_state,
                                      .works = works};

lx_status lx_prefix_store_open(const char *path, int64_t max_bytes, lx_prefix_place **out,
                               lx_error *err)
{
    lx_error why = {0};
    prefix_store *s = calloc(1, sizeof *s);
    entry *index = calloc(MOST_STATES, sizeof *index);
    if (s == NULL || index == NULL || pthread_mutex_init(&s->mutex, NULL) != 0) {
        free(s);
        free(index);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a store of prompt states");
    }
    s->base = table;
    s->index = index;
    lx_state_store_options o = {.where = path,
                                .max_states = MOST_STATES,
                                .max_bytes = max_bytes,
                                .max_on_their_way = ON_THEIR_WAY};
    lx_status st = index_file(s, path, &why);
    if (st == LX_OK)
        st = lx_state_store_open(&o, &s->store, &why);
    if (st != LX_OK) {
        s->n = 0;
        lx_log(LX_LOG_WARN, "prompt states are not kept on disk: %s", why.text);
    }
    *out = &s->base;
    return LX_OK;
}

lx_status lx_prefix_store_remove(const char *path, bool *removed, lx_error *err)
{
    lx_state_file *f = NULL; /* while it is open no server has it, and its end removes the log */
    *removed = false;
    if (access(path, F_OK) != 0)
        return LX_OK;
    lx_status st = lx_state_file_open(path, false, &f, err);
    lx_state_file_close(f);
    if (st == LX_OK && unlink(path) != 0)
        st = lx_fail(err, LX_ERR_IO, NULL, "%s cannot be removed: %s", path, strerror(errno));
    *removed = st == LX_OK;
    return st;
}

void lx_prefix_store_close(lx_prefix_place *p)
{
    prefix_store *s = (prefix_store *)p;
    if (s == NULL)
        return;
    if (s->store != NULL)
        s->store->ops->close(s->store);
    (void)pthread_mutex_destroy(&s->mutex);
    free(s->index);
    free(s);
}

char *lx_prefix_store_path(const char *state_store)
{
    static const char end[] = "-prefixes.db";
    size_t n = strlen(state_store) - strlen(".db"), size = n + sizeof end;
    char *path = malloc(size);
    if (path != NULL)
        (void)snprintf(path, size, "%.*s%s", (int)n, state_store, end);
    return path;
}
