/*
 * The file of states (see sqlite.h).
 *
 * Blobs are in a table of their own, so that the use of a state writes a few small pages. Triggers
 * keep the owners' counts, so no statement can forget them. `used` rises with every use and gives
 * the order in which states are dropped.
 *
 * Times are of the system's clock when the file is opened, and of the monotonic clock afterwards: a
 * jump of the system's clock ends no state. A clock that was set back while the server was down
 * starts at the newest use in the file.
 */
#include "server/states/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

/* APPLICATION_ID is "LnSt", in the file's head. */
enum { APPLICATION_ID = 0x4c6e5374, VERSION = 1, LOCK_WAIT_MS = 1000, MOST_EXPIRED = 64 };

static const char *const schema[] = {
    "PRAGMA application_id=1282298740", /* APPLICATION_ID */
    "PRAGMA user_version=1",
    "CREATE TABLE states(n INTEGER PRIMARY KEY, owner TEXT NOT NULL, id TEXT NOT NULL,"
    " used INTEGER NOT NULL, ends INTEGER NOT NULL, size INTEGER NOT NULL,"
    " droppable INTEGER NOT NULL, UNIQUE(owner, id))"
    " STRICT",
    "CREATE INDEX states_used ON states(used)",
    "CREATE INDEX states_ends ON states(ends)",
    "CREATE INDEX states_droppable ON states(owner, used) WHERE droppable",
    "CREATE TABLE blobs(n INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT",
    "CREATE TABLE owners(name TEXT PRIMARY KEY, states INTEGER NOT NULL, bytes INTEGER NOT NULL)"
    " STRICT, WITHOUT ROWID",
    "CREATE TRIGGER kept AFTER INSERT ON states BEGIN"
    " INSERT INTO owners VALUES(new.owner, 1, new.size) ON CONFLICT(name) DO UPDATE"
    " SET states=states+1, bytes=bytes+new.size; END",
    "CREATE TRIGGER dropped AFTER DELETE ON states BEGIN"
    " DELETE FROM blobs WHERE n=old.n;"
    " UPDATE owners SET states=states-1, bytes=bytes-old.size WHERE name=old.owner;"
    " DELETE FROM owners WHERE name=old.owner AND states=0; END",
};

typedef enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    EXPIRE,
    FIND_OWNER,
    FIND_SIZE,
    DROP,
    ADD,
    ADD_BLOB,
    COUNT,
    SOONEST,
    DROP_OLDEST,
    DROP_OWN,
    GET,
    TOUCH,
    LIST,
    NEXT_OWNER,
    N_STATEMENTS
} statement;

/* ?1 and ?2 are owner and id, ?3 is the time now. */
static const char *const texts[N_STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [EXPIRE] = "DELETE FROM states WHERE n IN (SELECT n FROM states WHERE ends<=?3 LIMIT ?4)",
    [FIND_OWNER] = "SELECT states, bytes FROM owners WHERE name=?1",
    [FIND_SIZE] = "SELECT size FROM states WHERE owner=?1 AND id=?2",
    [DROP] = "DELETE FROM states WHERE owner=?1 AND id=?2",
    [ADD] =
        "INSERT INTO states(owner, id, used, ends, size, droppable) VALUES(?1, ?2, ?4, ?5, ?6, ?7)",
    [ADD_BLOB] = "INSERT INTO blobs VALUES(last_insert_rowid(), ?1)",
    [COUNT] = "SELECT coalesce(sum(states), 0), coalesce(sum(bytes), 0) FROM owners",
    [SOONEST] = "SELECT coalesce(min(ends), 9223372036854775807) FROM states",
    [DROP_OLDEST] = "DELETE FROM states WHERE n=(SELECT n FROM states ORDER BY used LIMIT 1)",
    [DROP_OWN] =
        ("DELETE FROM states WHERE n=(SELECT n FROM states WHERE owner=?1 AND droppable AND "
         "id<>?2 ORDER BY used LIMIT 1)"),
    [GET] = ("SELECT ends, bytes FROM states JOIN blobs USING(n) WHERE owner=?1 AND id=?2 AND "
             "ends>?3"),
    [TOUCH] = "UPDATE states SET used=?4, ends=?5 WHERE owner=?1 AND id=?2",
    [LIST] = ("SELECT id, size, ends FROM states WHERE owner=?1 AND id>?2 AND ends>?3 ORDER BY id "
              "LIMIT ?4"),
    [NEXT_OWNER] = "SELECT name FROM owners WHERE name>?1 OR ?2 ORDER BY name LIMIT 1",
};

struct lx_state_file {
    sqlite3 *db;
    sqlite3_stmt *statements[N_STATEMENTS];
    int64_t opened_ms, opened_ns; /* the system's clock and the monotonic one at the open */
    int64_t used;                 /* of the newest use, in microseconds */
    bool read_only;
};

/* --- errors --- */

/* What SQLite reports, in words for a client. */
static lx_status report(sqlite3 *db, int code, lx_error *err)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    case SQLITE_FULL:
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the disk of the state store is full");
    case SQLITE_READONLY:
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the state store cannot be written: %s",
                       sqlite3_errmsg(db));
    case SQLITE_IOERR: /* also of a file that became read-only while it is open */
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL,
                       "the disk of the state store fails or is read-only");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the file of the state store is damaged");
    default:
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the state store failed: %s",
                       sqlite3_errmsg(db));
    }
}

static lx_status not_found(const char *id, lx_error *err)
{
    return lx_fail(err, LX_ERR_NOT_FOUND, "state", "there is no state %s, or it has expired", id);
}

/* --- statements --- */

/* The statement, ready for its values. */
static sqlite3_stmt *take(lx_state_file *f, statement which)
{
    sqlite3_stmt *s = f->statements[which];
    (void)sqlite3_reset(s);
    (void)sqlite3_clear_bindings(s);
    return s;
}

static sqlite3_stmt *take_about(lx_state_file *f, statement which, const char *owner,
                                const char *id)
{
    sqlite3_stmt *s = take(f, which);
    (void)sqlite3_bind_text(s, 1, owner, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(s, 2, id, -1, SQLITE_STATIC);
    return s;
}

/* Steps to a row, *row, or to the end. */
static lx_status step(lx_state_file *f, sqlite3_stmt *s, bool *row, lx_error *err)
{
    int code = sqlite3_step(s);
    if (row != NULL)
        *row = code == SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return LX_OK;
    lx_status st = report(f->db, code, err);
    (void)sqlite3_reset(s);
    return st;
}

static lx_status run(lx_state_file *f, sqlite3_stmt *s, lx_error *err)
{
    lx_status st = step(f, s, NULL, err);
    (void)sqlite3_reset(s);
    return st;
}

/* Up to two numbers of the statement's one row; zeros without a row. */
static lx_status read_numbers(lx_state_file *f, sqlite3_stmt *s, int64_t *a, int64_t *b,
                              lx_error *err)
{
    bool row = false;
    lx_status st = step(f, s, &row, err);
    *a = row ? sqlite3_column_int64(s, 0) : 0;
    if (b != NULL)
        *b = row ? sqlite3_column_int64(s, 1) : 0;
    (void)sqlite3_reset(s);
    return st;
}

/* --- time --- */

static int64_t now_ms(const lx_state_file *f)
{
    return f->opened_ms + (lx_now_ns() - f->opened_ns) / LX_NS_PER_MS;
}

static int64_t end_ms(const lx_state_file *f, int64_t ttl_ms)
{
    int64_t now = now_ms(f);
    return ttl_ms < INT64_MAX - now ? now + ttl_ms : INT64_MAX;
}

static int64_t next_use(lx_state_file *f)
{
    int64_t now = now_ms(f) * 1000;
    f->used = now > f->used ? now : f->used + 1;
    return f->used;
}

static void bind_use(lx_state_file *f, sqlite3_stmt *s, int64_t ttl_ms)
{
    (void)sqlite3_bind_int64(s, 4, next_use(f));
    (void)sqlite3_bind_int64(s, 5, end_ms(f, ttl_ms));
}

/* --- transactions --- */

lx_status lx_state_file_begin(lx_state_file *f, bool durable, lx_error *err)
{
    (void)sqlite3_exec(f->db, durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
                       NULL, NULL, NULL);
    return run(f, take(f, BEGIN), err);
}

lx_status lx_state_file_commit(lx_state_file *f, lx_error *err)
{
    return run(f, take(f, COMMIT), err);
}

void lx_state_file_rollback(lx_state_file *f)
{
    if (sqlite3_get_autocommit(f->db) == 0)
        (void)run(f, take(f, ROLLBACK), NULL);
}

/* --- put --- */

/* Drops expired states: some, or all. */
static lx_status expire(lx_state_file *f, bool all, lx_error *err)
{
    sqlite3_stmt *s = take(f, EXPIRE);
    (void)sqlite3_bind_int64(s, 3, now_ms(f));
    (void)sqlite3_bind_int64(s, 4, all ? -1 : MOST_EXPIRED);
    return run(f, s, err);
}

static bool fits(int64_t x, int64_t most)
{
    return most <= 0 || x <= most;
}

/* LX_ERR_BUSY if the owner's limits leave no room for n bytes under the id. */
static lx_status check_owner(lx_state_file *f, const lx_owner *o, const char *id, size_t n,
                             lx_error *err)
{
    int64_t states = 0, bytes = 0, old = 0;
    lx_status st = read_numbers(f, take_about(f, FIND_OWNER, o->name, NULL), &states, &bytes, err);
    bool there = false;
    if (st == LX_OK) {
        sqlite3_stmt *s = take_about(f, FIND_SIZE, o->name, id);
        st = step(f, s, &there, err);
        old = there ? sqlite3_column_int64(s, 0) : 0;
        (void)sqlite3_reset(s);
    }
    if (st != LX_OK ||
        (fits(states + !there, o->max_states) && fits(bytes - old + (int64_t)n, o->max_bytes)))
        return st;
    return lx_fail(err, LX_ERR_BUSY, "state",
                   "this key keeps %lld states with %lld bytes and no more fit (limits: %lld, "
                   "%lld; 0: none)",
                   (long long)states, (long long)bytes, (long long)o->max_states,
                   (long long)o->max_bytes);
}

/* Expired states stay until there are others in their place, but they must not count. */
static lx_status make_owners_room(lx_state_file *f, const lx_store_request *rq, lx_error *err)
{
    const lx_owner *o = rq->owner;
    if (o->max_states <= 0 && o->max_bytes <= 0)
        return LX_OK;
    lx_status st = check_owner(f, o, rq->id, rq->size, err);
    if (st == LX_ERR_BUSY) {
        st = expire(f, true, err);
        st = st == LX_OK ? check_owner(f, o, rq->id, rq->size, err) : st;
    }
    while (st == LX_ERR_BUSY) {
        lx_status dropped = run(f, take_about(f, DROP_OWN, o->name, rq->id), err);
        if (dropped != LX_OK)
            return dropped;
        if (sqlite3_changes(f->db) == 0)
            return check_owner(f, o, rq->id, rq->size, err);
        st = check_owner(f, o, rq->id, rq->size, err);
    }
    return st;
}

static lx_status add(lx_state_file *f, const lx_store_request *rq, lx_error *err)
{
    lx_status st = run(f, take_about(f, DROP, rq->owner->name, rq->id), err);
    if (st != LX_OK)
        return st;
    sqlite3_stmt *s = take_about(f, ADD, rq->owner->name, rq->id);
    bind_use(f, s, rq->ttl_ms);
    (void)sqlite3_bind_int64(s, 6, (int64_t)rq->size);
    (void)sqlite3_bind_int(s, 7, rq->droppable);
    st = run(f, s, err);
    if (st != LX_OK)
        return st;
    s = take(f, ADD_BLOB);
    (void)sqlite3_bind_blob64(s, 1, rq->size > 0 ? rq->blob : "", rq->size, SQLITE_STATIC);
    return run(f, s, err);
}

/* The newest state is the last that would be dropped, and it fits. */
static lx_status drop_oldest(lx_state_file *f, const lx_state_file_limits *limits, lx_error *err)
{
    for (;;) {
        int64_t states = 0, bytes = 0;
        lx_status st = lx_state_file_count(f, &states, &bytes, err);
        if (st != LX_OK || (states <= limits->max_states && bytes <= limits->max_bytes))
            return st;
        st = run(f, take(f, DROP_OLDEST), err);
        if (st != LX_OK)
            return st;
    }
}

lx_status lx_state_file_put(lx_state_file *f, const lx_store_request *rq,
                            const lx_state_file_limits *limits, lx_error *err)
{
    int64_t most = limits->max_bytes, own = rq->owner->max_bytes;
    if (own > 0 && own < most)
        most = own;
    if ((int64_t)rq->size > most)
        return lx_fail(err, LX_ERR_TOO_LARGE, "state", "a state of %zu bytes; the limit is %lld",
                       rq->size, (long long)most);
    lx_status st = expire(f, false, err);
    if (st == LX_OK)
        st = make_owners_room(f, rq, err);
    if (st == LX_OK)
        st = add(f, rq, err);
    return st == LX_OK ? drop_oldest(f, limits, err) : st;
}

/* --- the other operations --- */

static lx_status copy_blob(lx_state_file *f, sqlite3_stmt *s, void **bytes, size_t *n,
                           lx_error *err)
{
    const void *blob = sqlite3_column_blob(s, 1);
    size_t size = (size_t)sqlite3_column_bytes(s, 1);
    if (blob == NULL && (size > 0 || sqlite3_errcode(f->db) == SQLITE_NOMEM))
        return report(f->db, SQLITE_NOMEM, err);
    *bytes = malloc(size + 1);
    if (*bytes == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    if (blob != NULL)
        memcpy(*bytes, blob, size);
    *n = size;
    return LX_OK;
}

lx_status lx_state_file_get(lx_state_file *f, const char *owner, const char *id, void **bytes,
                            size_t *n, int64_t *left_ms, lx_error *err)
{
    bool row = false;
    int64_t now = now_ms(f);
    sqlite3_stmt *s = take_about(f, GET, owner, id);
    (void)sqlite3_bind_int64(s, 3, now);
    lx_status st = step(f, s, &row, err);
    if (st == LX_OK && !row)
        st = not_found(id, err);
    if (st == LX_OK) {
        *left_ms = sqlite3_column_int64(s, 0) - now;
        st = copy_blob(f, s, bytes, n, err);
    }
    (void)sqlite3_reset(s);
    return st;
}

lx_status lx_state_file_touch(lx_state_file *f, const char *owner, const char *id, int64_t ttl_ms,
                              lx_error *err)
{
    sqlite3_stmt *s = take_about(f, TOUCH, owner, id);
    bind_use(f, s, ttl_ms);
    return run(f, s, err);
}

lx_status lx_state_file_remove(lx_state_file *f, const char *owner, const char *id, lx_error *err)
{
    lx_status st = expire(f, false, err);
    if (st == LX_OK)
        st = run(f, take_about(f, DROP, owner, id), err);
    if (st == LX_OK && sqlite3_changes(f->db) == 0)
        st = not_found(id, err);
    return st;
}

lx_status lx_state_file_list(lx_state_file *f, const char *owner, const char *after, size_t most,
                             lx_store_entry **out, size_t *n, lx_error *err)
{
    int64_t now = now_ms(f);
    bool row = true;
    lx_status st = LX_OK;
    lx_store_entry *entries = calloc(most, sizeof *entries);
    *n = 0;
    if (entries == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a list of states");
    sqlite3_stmt *s = take_about(f, LIST, owner, after);
    (void)sqlite3_bind_int64(s, 3, now);
    (void)sqlite3_bind_int64(s, 4, (int64_t)most);
    while (*n < most && (st = step(f, s, &row, err)) == LX_OK && row) {
        lx_store_entry *e = &entries[(*n)++];
        (void)snprintf(e->id, sizeof e->id, "%s", (const char *)sqlite3_column_text(s, 0));
        e->bytes = sqlite3_column_int64(s, 1);
        e->ttl_ms = sqlite3_column_int64(s, 2) - now;
    }
    (void)sqlite3_reset(s);
    if (st == LX_OK)
        *out = entries;
    else
        free(entries);
    return st;
}

lx_status lx_state_file_next_owner(lx_state_file *f, const char *after, char out[LX_OWNER_NAME + 1],
                                   lx_error *err)
{
    bool row = false;
    sqlite3_stmt *s = take_about(f, NEXT_OWNER, after != NULL ? after : "", NULL);
    (void)sqlite3_bind_int(s, 2, after == NULL);
    lx_status st = step(f, s, &row, err);
    if (st == LX_OK && row)
        (void)snprintf(out, LX_OWNER_NAME + 1, "%s", (const char *)sqlite3_column_text(s, 0));
    (void)sqlite3_reset(s);
    if (st == LX_OK && !row)
        st = lx_fail(err, LX_ERR_NOT_FOUND, NULL, "there is no further owner");
    return st;
}

lx_status lx_state_file_count(lx_state_file *f, int64_t *states, int64_t *bytes, lx_error *err)
{
    return read_numbers(f, take(f, COUNT), states, bytes, err);
}

lx_status lx_state_file_expire(lx_state_file *f, int64_t *next_ms, lx_error *err)
{
    int64_t soonest = 0, now = now_ms(f);
    lx_status st = expire(f, false, err);
    if (st == LX_OK)
        st = read_numbers(f, take(f, SOONEST), &soonest, NULL, err);
    *next_ms = soonest == INT64_MAX ? INT64_MAX : soonest > now ? soonest - now : 0;
    return st;
}

static int note_fault(void *context, int n, char **values, char **names)
{
    (void)n;
    (void)names;
    lx_error *why = context;
    if (values[0] != NULL && strcmp(values[0], "ok") != 0)
        (void)lx_fail(why, LX_ERR_UNAVAILABLE, NULL, "the file is damaged: %s", values[0]);
    return 0;
}

/* LX_ERR_UNAVAILABLE with SQLite's first finding. */
static lx_status check(lx_state_file *f, lx_error *err)
{
    lx_error found = {0};
    int code = sqlite3_exec(f->db, "PRAGMA integrity_check(1)", note_fault, &found, NULL);
    if (code != SQLITE_OK)
        return report(f->db, code, err);
    if (found.status != LX_OK && err != NULL)
        *err = found;
    return found.status;
}

/* --- open and close --- */

void lx_state_file_close(lx_state_file *f)
{
    if (f == NULL)
        return;
    for (int i = 0; i < N_STATEMENTS; i++)
        (void)sqlite3_finalize(f->statements[i]);
    (void)sqlite3_close(f->db);
    free(f);
}

static lx_status refuse(const char *path, const char *why, lx_error *err)
{
    return lx_fail(err, LX_ERR_IO, "state-store", "--state-store: %s %s", path, why);
}

static lx_status refuse_code(lx_state_file *f, const char *path, int code, lx_error *err)
{
    char why[160];
    switch (code & 0xff) {
    case SQLITE_BUSY:
        return refuse(path, "is in use by another process", err);
    case SQLITE_NOTADB:
        return refuse(path, "is no store of states, or it is damaged", err);
    case SQLITE_CORRUPT:
        return refuse(path, "is damaged; sqlite3's .recover may save a part of it", err);
    case SQLITE_READONLY:
        return refuse(path, "cannot be written: the file or its disk is read-only", err);
    case SQLITE_FULL:
        return refuse(path, "cannot be written: the disk is full", err);
    default:
        (void)snprintf(why, sizeof why, "cannot be opened: %s",
                       sqlite3_system_errno(f->db) != 0 ? strerror(sqlite3_system_errno(f->db))
                                                        : sqlite3_errmsg(f->db));
        return refuse(path, why, err);
    }
}

static int read_number(void *context, int n, char **values, char **names)
{
    (void)n;
    (void)names;
    *(int64_t *)context = values[0] != NULL ? strtoll(values[0], NULL, 10) : 0;
    return 0;
}

static int query(lx_state_file *f, const char *text, int64_t *out)
{
    *out = 0;
    return sqlite3_exec(f->db, text, read_number, out, NULL);
}

/* False: it does not fit. */
static bool write_folder(const char *path, char *out, size_t room)
{
    const char *slash = strrchr(path, '/');
    int n = slash != NULL ? (int)(slash - path) + 1 : 0;
    return (size_t)snprintf(out, room, "%.*s.", n, path) < room;
}

/* To the disk. The error of the system, or 0. */
static int flush(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int error = file < 0 || fsync(file) != 0 ? errno : 0;
    if (file >= 0)
        (void)close(file);
    return error;
}

/* A loss of power must not undo the file's name. */
static lx_status flush_folder(const char *path, lx_error *err)
{
    char folder[4096];
    if (!write_folder(path, folder, sizeof folder))
        return refuse(path, "has too long a name", err);
    (void)flush(folder);
    return LX_OK;
}

/* SQLite would make the file for all to read, and states are private. */
static lx_status make_file(const char *path, bool *made, lx_error *err)
{
    char why[160];
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    *made = file >= 0;
    if (!*made && errno != EEXIST) {
        (void)snprintf(why, sizeof why, "cannot be made: %s", strerror(errno));
        return refuse(path, why, err);
    }
    if (!*made)
        return LX_OK;
    (void)close(file);
    return flush_folder(path, err);
}

static int create_tables(lx_state_file *f)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof schema / sizeof *schema && code == SQLITE_OK; i++)
        code = sqlite3_exec(f->db, schema[i], NULL, NULL, NULL);
    return code;
}

/* Locks the file. Refuses a file of another program or version by its head. */
static lx_status check_head(lx_state_file *f, const char *path, lx_error *err)
{
    int64_t application = 0, version = 0, tables = 0;
    char why[96];
    const char *begin = f->read_only ? "PRAGMA trusted_schema=OFF;BEGIN"
                                     : "PRAGMA locking_mode=EXCLUSIVE;PRAGMA page_size=8192;"
                                       "PRAGMA journal_mode=WAL;PRAGMA journal_size_limit=67108864;"
                                       "PRAGMA wal_autocheckpoint=4000;PRAGMA trusted_schema=OFF;"
                                       "BEGIN IMMEDIATE";
    int code = sqlite3_exec(f->db, begin, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = query(f, "SELECT count(*) FROM sqlite_schema", &tables);
    if (code == SQLITE_OK)
        code = query(f, "PRAGMA application_id", &application);
    if (code == SQLITE_OK)
        code = query(f, "PRAGMA user_version", &version);
    if (code == SQLITE_OK && tables == 0 && application == 0)
        code = create_tables(f);
    else if (code == SQLITE_OK && application != APPLICATION_ID)
        return refuse(path, "is a database of another program", err);
    else if (code == SQLITE_OK && version != VERSION) {
        (void)snprintf(why, sizeof why, "has version %lld of the format; this linnet reads %d",
                       (long long)version, VERSION);
        return refuse(path, why, err);
    }
    if (code == SQLITE_OK)
        code = sqlite3_exec(f->db, "COMMIT", NULL, NULL, NULL);
    return code == SQLITE_OK ? LX_OK : refuse_code(f, path, code, err);
}

static lx_status prepare(lx_state_file *f, const char *path, lx_error *err)
{
    int code = SQLITE_OK;
    for (int i = 0; i < N_STATEMENTS && code == SQLITE_OK; i++)
        code = sqlite3_prepare_v3(f->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &f->statements[i],
                                  NULL);
    if (code == SQLITE_OK)
        code = query(f, "SELECT max(used) FROM states", &f->used);
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    int64_t clock = (int64_t)t.tv_sec * 1000 + t.tv_nsec / LX_NS_PER_MS;
    f->opened_ms = clock > f->used / 1000 ? clock : f->used / 1000;
    f->opened_ns = lx_now_ns();
    return code == SQLITE_OK ? LX_OK : refuse_code(f, path, code, err);
}

/* Gives out the file that was opened, or closes it after a failure. */
static lx_status end_open(lx_state_file *f, const char *path, lx_status st, lx_state_file **out,
                          lx_error *err)
{
    if (st == LX_OK)
        st = check_head(f, path, err);
    if (st == LX_OK)
        st = prepare(f, path, err);
    if (st == LX_OK)
        *out = f;
    else
        lx_state_file_close(f);
    return st;
}

/* SQLite may read "file:NAME" as a URI and ":memory:" as no file. False: it does not fit. */
static bool plain_name(const char *path, char *out, size_t room)
{
    return (size_t)snprintf(out, room, "%s%s", path[0] == '/' ? "" : "./", path) < room;
}

lx_status lx_state_file_open(const char *path, bool create, lx_state_file **out, lx_error *err)
{
    char name[4096];
    if (!plain_name(path, name, sizeof name))
        return refuse(path, "has too long a name", err);
    lx_state_file *f = calloc(1, sizeof *f);
    if (f == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a store of states");
    bool made = false;
    lx_status st = create ? make_file(path, &made, err) : LX_OK;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
    int code = st == LX_OK ? sqlite3_open_v2(name, &f->db, flags, NULL) : SQLITE_OK;
    if (code != SQLITE_OK)
        st = refuse_code(f, path, code, err);
    if (st == LX_OK &&
        sqlite3_db_readonly(f->db, "main") != 0) /* a lock would fail without reason */
        st = refuse_code(f, path, SQLITE_READONLY, err);
    if (st == LX_OK)
        (void)sqlite3_busy_timeout(f->db, LOCK_WAIT_MS);
    return end_open(f, path, st, out, err);
}

/* Whether the file can be read and not written, and has no log whose states would be missed. */
static bool is_only_readable(const char *path)
{
    char log[4096], folder[4096];
    struct stat facts;
    if ((size_t)snprintf(log, sizeof log, "%s-wal", path) >= sizeof log ||
        !write_folder(path, folder, sizeof folder) || (stat(log, &facts) == 0 && facts.st_size > 0))
        return false;
    return access(path, R_OK) == 0 && (access(path, W_OK) != 0 || access(folder, W_OK) != 0);
}

/* The URI of a file that does not change: SQLite then needs neither locks nor a log. */
static bool write_uri(const char *path, char *out, size_t room)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./";
    static const char end[] = "?immutable=1";
    size_t n = (size_t)snprintf(out, room, "%s", path[0] == '/' ? "file://" : "file:./");
    for (; *path != '\0' && n + sizeof end + 3 < room; path++)
        n += (size_t)(strchr(plain, *path) != NULL
                          ? snprintf(out + n, room - n, "%c", *path)
                          : snprintf(out + n, room - n, "%%%02X", (unsigned char)*path));
    (void)snprintf(out + n, room - n, "%s", end);
    return *path == '\0';
}

static lx_status open_unchanging(const char *path, lx_state_file **out, lx_error *err)
{
    char uri[4 * 4096];
    lx_state_file *f = calloc(1, sizeof *f);
    if (f == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a store of states");
    f->read_only = true;
    lx_status st =
        write_uri(path, uri, sizeof uri) ? LX_OK : refuse(path, "has too long a name", err);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    int code = st == LX_OK ? sqlite3_open_v2(uri, &f->db, flags, NULL) : SQLITE_OK;
    if (code != SQLITE_OK)
        st = refuse_code(f, path, code, err);
    return end_open(f, path, st, out, err);
}

lx_status lx_state_file_read(const char *path, lx_state_file **out, lx_error *err)
{
    lx_status st = lx_state_file_open(path, false, out, err);
    return st == LX_ERR_IO && is_only_readable(path) ? open_unchanging(path, out, err) : st;
}

/* --- whole files --- */

/* A copy needs a sound file without expired states, which only a file that can be written loses. */
static lx_status tidy(lx_state_file *f, lx_error *err)
{
    lx_status st = check(f, err);
    return st == LX_OK && !f->read_only ? expire(f, true, err) : st;
}

lx_status lx_state_file_vacuum(lx_state_file *f, lx_error *err)
{
    lx_status st = tidy(f, err);
    int code = st == LX_OK ? sqlite3_exec(f->db, "VACUUM", NULL, NULL, NULL) : SQLITE_OK;
    if (code == SQLITE_OK && st == LX_OK) /* the log before it has the old bytes */
        code = sqlite3_exec(f->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    return code == SQLITE_OK ? st : report(f->db, code, err);
}

static lx_status copy_into(lx_state_file *f, const char *path, lx_error *err)
{
    char why[160], name[4096];
    sqlite3_stmt *s = NULL;
    if (!plain_name(path, name, sizeof name))
        return refuse(path, "has too long a name", err);
    int code = sqlite3_prepare_v2(f->db, "VACUUM INTO ?1", -1, &s, NULL);
    if (code == SQLITE_OK) {
        (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
        code = sqlite3_step(s);
    }
    int reason = (code & 0xff) == SQLITE_IOERR ? sqlite3_system_errno(f->db) : 0;
    if (code == SQLITE_DONE) /* SQLite leaves the flush to its caller */
        reason = flush(path);
    (void)sqlite3_finalize(s);
    if (reason != 0) { /* of the copy: the file was checked */
        (void)snprintf(why, sizeof why, "cannot be written: %s", strerror(reason));
        return refuse(path, why, err);
    }
    if ((code & 0xff) == SQLITE_FULL)
        return refuse_code(f, path, code, err);
    return code == SQLITE_DONE ? LX_OK : report(f->db, code, err);
}

static void remove_copy(const char *part)
{
    char journal[4096];
    (void)snprintf(journal, sizeof journal, "%s-journal", part);
    (void)unlink(journal);
    (void)unlink(part);
}

/* A copy has its name once it is whole. The name until then is fixed, so that a repetition removes
   the rest of a copy that was killed. */
lx_status lx_state_file_copy(lx_state_file *f, const char *path, lx_error *err)
{
    char part[4000];
    bool made = false;
    struct stat there;
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part)
        return refuse(path, "has too long a name", err);
    if (lstat(path, &there) == 0)
        return refuse(path, "is there", err);
    lx_status st = tidy(f, err);
    if (st != LX_OK)
        return st;
    remove_copy(part);
    st = make_file(part, &made, err);
    if (st == LX_OK && !made)
        st = refuse(part, "is there", err);
    if (st != LX_OK)
        return st;
    st = copy_into(f, part, err);
    if (st == LX_OK && rename(part, path) != 0)
        st = refuse(path, strerror(errno), err);
    if (st != LX_OK)
        remove_copy(part);
    return st == LX_OK ? flush_folder(path, err) : st;
}
