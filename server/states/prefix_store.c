/*
 * The file of prompt states (see prefix_store.h).
 *
 * The id of a state has the number of its rows and a hash of owner, maker and rows. An index of all
 * ids stays in memory. To find the longest stored beginning of a prompt, one pass hashes its rows
 * and compares the hash after each number of rows that the index has. Hashes may collide, so a
 * reader compares owner, maker and rows with those of the blob. A CRC-32C finds damage.
 *
 * The store drops the least recently used states above its limit, and the index learns of it when a
 * read fails.
 */
#include "server/states/prefix_store.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/crc32c.h"
#include "common/lock.h"
#include "common/log.h"
#include "server/auth/keys.h"
#include "server/states/sqlite.h"

#define TTL_MS ((int64_t)30 * 24 * 3600 * 1000)
/* Bytes of states that wait to be written. A larger state may go alone. */
#define ON_THEIR_WAY ((int64_t)64 << 20)

enum { MOST_STATES = 1 << 16, LIST_PAGE = 256, CRC_BYTES = 4 };

static const char magic[8] = {'L', 'I', 'N', 'P', 'R', 'E', 'F', '1'};

/* The blob's head, without padding. After it come ids[rows, width], the floats and the CRC. */
typedef struct head {
    char magic[8];
    uint64_t n_floats;
    uint32_t rows, width;
    char maker[LX_PREFIX_MAKER];
} head;

typedef struct entry {
    int32_t rows;
    uint64_t hash;
} entry;

typedef struct prefix_store {
    lx_prefix_place base;
    lx_state_store *store; /* NULL: the file cannot be used */
    pthread_mutex_t mutex; /* of the index */
    entry *index;          /* [MOST_STATES], sorted by rows */
    int32_t n;
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

static entry entry_of(const lx_prefix_name *name)
{
    entry e = {name->key.n_rows, hash_begin(name)};
    for (int32_t row = 0; row < e.rows; row++)
        e.hash = hash_row(name, e.hash, row);
    return e;
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
    *e = (entry){(int32_t)strtoul(rows, NULL, 16), strtoull(id + 9, NULL, 16)};
    write_id(*e, again);
    return e->rows > 0 && strcmp(id, again) == 0;
}

/* --- the index, under the mutex --- */

/* Where entries of at least so many rows begin. */
static int32_t place_of(const prefix_store *s, int32_t rows)
{
    int32_t low = 0, high = s->n;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (s->index[middle].rows < rows)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* -1: it is not there. */
static int32_t index_of(const prefix_store *s, entry e)
{
    for (int32_t i = place_of(s, e.rows); i < s->n && s->index[i].rows == e.rows; i++) {
        if (s->index[i].hash == e.hash)
            return i;
    }
    return -1;
}

static void remove_at(prefix_store *s, int32_t at)
{
    s->n--;
    memmove(s->index + at, s->index + at + 1, (size_t)(s->n - at) * sizeof *s->index);
}

/* In a full index the state of fewest rows gives way. */
static void add_entry(prefix_store *s, entry e)
{
    if (index_of(s, e) >= 0)
        return;
    if (s->n == MOST_STATES)
        remove_at(s, 0);
    int32_t at = place_of(s, e.rows);
    memmove(s->index + at + 1, s->index + at, (size_t)(s->n - at) * sizeof *s->index);
    s->index[at] = e;
    s->n++;
}

static void forget(prefix_store *s, entry e)
{
    LX_HOLD(&s->mutex);
    int32_t at = index_of(s, e);
    if (at >= 0)
        remove_at(s, at);
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

static size_t id_bytes(const lx_prefix_name *name)
{
    return (size_t)name->key.n_rows * (size_t)name->width * sizeof *name->key.ids;
}

static size_t blob_bytes(const lx_prefix_name *name, size_t n_floats)
{
    return sizeof(head) + id_bytes(name) + n_floats * sizeof(float) + CRC_BYTES;
}

static head head_of(const lx_prefix_name *name, size_t n_floats)
{
    head h = {
        .n_floats = n_floats, .rows = (uint32_t)name->key.n_rows, .width = (uint32_t)name->width};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.maker, name->maker, strnlen(name->maker, sizeof h.maker - 1));
    return h;
}

static void fill_blob(const lx_prefix_name *name, const float *state, size_t n_floats,
                      unsigned char *blob)
{
    size_t n = blob_bytes(name, n_floats) - CRC_BYTES;
    head h = head_of(name, n_floats);
    memcpy(blob, &h, sizeof h);
    memcpy(blob + sizeof h, name->key.ids, id_bytes(name));
    memcpy(blob + sizeof h + id_bytes(name), state, n_floats * sizeof *state);
    uint32_t crc = lx_crc32c(0, blob, n);
    memcpy(blob + n, &crc, sizeof crc);
}

static void write_state(lx_prefix_place *p, const lx_prefix_name *name, const float *state,
                        size_t n_floats, void (*done)(void *context, bool ok), void *context)
{
    prefix_store *s = (prefix_store *)p;
    writing *w = malloc(sizeof *w);
    size_t n = blob_bytes(name, n_floats);
    unsigned char *blob = s->store != NULL ? malloc(n) : NULL;
    if (blob == NULL || w == NULL) {
        free(w);
        free(blob);
        done(context, false);
        return;
    }
    fill_blob(name, state, n_floats, blob);
    *w = (writing){s, entry_of(name), done, context};
    char id[LX_STATE_ID_MAX + 1];
    write_id(w->entry, id);
    lx_owner owner = *owner_of(name);
    owner.max_states = owner.max_bytes = 0;
    lx_store_request rq = {.op = LX_STORE_PUT,
                           .owner = &owner,
                           .id = id,
                           .blob = blob,
                           .size = n,
                           .ttl_ms = TTL_MS,
                           .droppable = true};
    s->store->ops->call(s->store, &rq, written, w);
    free(blob);
}

/* --- reading --- */

typedef struct reading {
    const lx_prefix_name *name;
    float *to;
    size_t n_floats;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    lx_status status;
    lx_error err;
} reading;

/* Copies the floats of a blob that has exactly the wanted rows, of the wanted maker. */
static lx_status take_floats(const reading *r, const unsigned char *blob, size_t n, lx_error *err)
{
    uint32_t crc = 0;
    head h = head_of(r->name, r->n_floats);
    size_t ids = id_bytes(r->name);
    bool fits = n == blob_bytes(r->name, r->n_floats);
    if (fits)
        memcpy(&crc, blob + n - CRC_BYTES, sizeof crc);
    if (!fits || crc != lx_crc32c(0, blob, n - CRC_BYTES) || memcmp(blob, &h, sizeof h) != 0 ||
        memcmp(blob + sizeof h, r->name->key.ids, ids) != 0)
        return lx_fail(err, LX_ERR_NOT_FOUND, NULL, "a stored prompt state is damaged");
    memcpy(r->to, blob + sizeof h + ids, r->n_floats * sizeof *r->to);
    return LX_OK;
}

static void was_read(void *context, const lx_store_result *result)
{
    reading *r = context;
    LX_HOLD(&r->mutex);
    r->status = result->status;
    if (result->err != NULL)
        r->err = *result->err;
    if (r->status == LX_OK)
        r->status = take_floats(r, result->blob, result->size, &r->err);
    r->done = true;
    (void)pthread_cond_signal(&r->changed);
}

static void wait_for(reading *r)
{
    LX_HOLD(&r->mutex);
    while (!r->done)
        (void)pthread_cond_wait(&r->changed, &r->mutex);
}

static lx_status read_state(lx_prefix_place *p, const lx_prefix_name *name, float *to,
                            size_t n_floats, lx_error *err)
{
    prefix_store *s = (prefix_store *)p;
    reading r = {.name = name,
                 .to = to,
                 .n_floats = n_floats,
                 .mutex = PTHREAD_MUTEX_INITIALIZER,
                 .changed = PTHREAD_COND_INITIALIZER};
    if (s->store == NULL)
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "there is no store of prompt states");
    entry e = entry_of(name);
    char id[LX_STATE_ID_MAX + 1];
    write_id(e, id);
    lx_store_request rq = {.op = LX_STORE_GET, .owner = owner_of(name), .id = id, .ttl_ms = TTL_MS};
    s->store->ops->call(s->store, &rq, was_read, &r);
    wait_for(&r);
    (void)pthread_cond_destroy(&r.changed);
    (void)pthread_mutex_destroy(&r.mutex);
    if (r.status == LX_OK)
        return LX_OK;
    if (r.status == LX_ERR_NOT_FOUND)
        forget(s, e);
    if (err != NULL)
        *err = r.err;
    return r.status;
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

static lx_status index_owner(prefix_store *s, lx_state_file *f, const char *owner, lx_error *err)
{
    char after[LX_STATE_ID_MAX + 1] = "";
    lx_status st = LX_OK;
    for (size_t n = LIST_PAGE; st == LX_OK && n == LIST_PAGE;) {
        lx_store_entry *page = NULL;
        st = lx_state_file_list(f, owner, after, LIST_PAGE, &page, &n, err);
        for (size_t i = 0; st == LX_OK && i < n; i++) {
            entry e;
            if (read_id(page[i].id, &e))
                add_entry(s, e);
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
    return st;
}

static const lx_prefix_place table = {
    .find = find, .read = read_state, .write = write_state, .works = works};

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
