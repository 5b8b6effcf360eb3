/*
 * The state store in a file: a queue of calls, and one thread that carries them out.
 *
 * The thread takes all calls that wait as one transaction, so that many clients share one wait for
 * the disk. A call is answered after the commit: with `synchronous=FULL` an acknowledged state
 * survives kill -9 and a loss of power. A transaction that only reads states and starts their time
 * again does not wait for the disk.
 *
 * If a transaction fails, each of its calls is tried alone, so that only the calls that cannot
 * succeed fail. A state can be read from a full or read-only disk; then its time does not start
 * again.
 *
 * While no call comes, the thread drops expired states. It waits for the next end of a state, at
 * least for a second and at most for a minute.
 */
#include "server/states/store.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/lock.h"
#include "common/log.h"
#include "server/states/queue.h"
#include "server/states/sqlite.h"

enum { MOST_CALLS = 64 }; /* in one transaction */
/* Between looks for expired states, unless more have expired than one transaction drops. */
enum { LEAST_WAIT_MS = 1000, MOST_WAIT_MS = 60000 };

typedef struct outcome {
    lx_store_result result;
    lx_error err;
    void *bytes; /* owned: the result's blob */
} outcome;

/* The demand of a call on the disk. */
typedef enum effort {
    READS,
    CHANGES, /* a few pages */
    GROWS    /* a new state */
} effort;

typedef struct sqlite_store {
    lx_state_store base;
    lx_store_queue queue;
    pthread_t thread;
    bool started;
    lx_state_file_limits limits;
    _Atomic int64_t n, bytes; /* held */
    atomic_bool works;        /* see note_health */
    /* of the thread */
    int64_t expire_ns; /* lx_now_ns() time of the next look for expired states */
    effort failed;     /* the largest of the transactions that failed since the store worked */
    lx_state_file *file;
    int32_t n_calls;
    lx_store_item *calls[MOST_CALLS];
    outcome outcomes[MOST_CALLS];
} sqlite_store;

/* --- one call --- */

static lx_status list(sqlite_store *s, const lx_store_item *c, outcome *o)
{
    lx_store_entry *entries = NULL;
    size_t n = 0;
    lx_status st =
        lx_state_file_list(s->file, c->owner.name, c->id, c->most, &entries, &n, &o->err);
    o->bytes = entries;
    o->result.size = n * sizeof *entries;
    return st;
}

static lx_status carry_out(sqlite_store *s, const lx_store_item *c, outcome *o)
{
    switch (c->op) {
    case LX_STORE_PUT:
        return lx_state_file_put(s->file,
                                 &(lx_store_request){.owner = &c->owner,
                                                     .id = c->id,
                                                     .blob = c->blob,
                                                     .size = c->size,
                                                     .ttl_ms = c->ttl_ms,
                                                     .droppable = c->droppable},
                                 &s->limits, &o->err);
    case LX_STORE_GET:
        if (c->only_use)
            return LX_OK;
        return lx_state_file_get(s->file, c->owner.name, c->id, &o->bytes, &o->result.size,
                                 &o->result.ttl_ms, &o->err);
    case LX_STORE_REMOVE:
        return lx_state_file_remove(s->file, c->owner.name, c->id, &o->err);
    case LX_STORE_LIST:
        break;
    }
    return list(s, c, o);
}

/* --- transactions --- */

static bool is_durable(const lx_store_item *c)
{
    return c->op == LX_STORE_PUT || c->op == LX_STORE_REMOVE;
}

static bool is_touched(const lx_store_item *c, const outcome *o)
{
    return c->op == LX_STORE_GET && c->ttl_ms > 0 && o->result.status == LX_OK;
}

static effort effort_of(const lx_store_item *c, const outcome *o)
{
    if (c->op == LX_STORE_PUT)
        return GROWS;
    return c->op == LX_STORE_REMOVE || is_touched(c, o) ? CHANGES : READS;
}

static void clear(outcome *o)
{
    free(o->bytes);
    *o = (outcome){0};
}

/* The store failed, not the call. */
static bool is_fault(lx_status st)
{
    return st == LX_ERR_UNAVAILABLE || st == LX_ERR_NO_MEMORY;
}

static lx_status touch(sqlite_store *s, const lx_store_item *c, outcome *o, lx_error *err)
{
    if (!is_touched(c, o))
        return LX_OK;
    o->result.ttl_ms = c->ttl_ms;
    return lx_state_file_touch(s->file, c->owner.name, c->id, c->ttl_ms, err);
}

/* Carries out calls [first, end) as one transaction. A fault of the store undoes all of them. */
static lx_status transact(sqlite_store *s, int32_t first, int32_t end, lx_error *err)
{
    bool durable = false;
    for (int32_t i = first; i < end; i++)
        durable |= is_durable(s->calls[i]);
    lx_status st = lx_state_file_begin(s->file, durable, err);
    for (int32_t i = first; st == LX_OK && i < end; i++) {
        outcome *o = &s->outcomes[i];
        clear(o);
        o->result.status = carry_out(s, s->calls[i], o);
        if (is_fault(o->result.status)) {
            *err = o->err;
            st = o->result.status;
        } else {
            st = touch(s, s->calls[i], o, err);
        }
    }
    int64_t n = 0, bytes = 0;
    if (st == LX_OK)
        st = lx_state_file_count(s->file, &n, &bytes, err);
    if (st == LX_OK)
        st = lx_state_file_commit(s->file, err);
    if (st != LX_OK) {
        lx_state_file_rollback(s->file);
        return st;
    }
    atomic_store(&s->n, n);
    atomic_store(&s->bytes, bytes);
    return LX_OK;
}

/* A call whose transaction failed: reading needs none. */
static void salvage(sqlite_store *s, int32_t i, lx_status st, const lx_error *why)
{
    outcome *o = &s->outcomes[i];
    clear(o);
    if (!is_durable(s->calls[i])) {
        o->result.status = carry_out(s, s->calls[i], o);
    } else {
        o->result.status = st;
        o->err = *why;
    }
}

/* The largest effort of all calls; after a success only calls that succeeded count. */
static effort effort_of_all(const sqlite_store *s, lx_status st)
{
    effort most = READS;
    for (int32_t i = 0; i < s->n_calls; i++) {
        const outcome *o = &s->outcomes[i];
        effort own = effort_of(s->calls[i], o);
        if ((st != LX_OK || o->result.status == LX_OK) && own > most)
            most = own;
    }
    return most;
}

/* The store works again when a transaction succeeds that asks as much as the one that failed: a
   full or read-only disk can still be read. */
static void note_health(sqlite_store *s, lx_status st, const lx_error *why)
{
    effort now = effort_of_all(s, st);
    bool worked = atomic_load(&s->works), works = st == LX_OK && (worked || now >= s->failed);
    if (st != LX_OK)
        s->failed = !worked && s->failed > now ? s->failed : now;
    atomic_store(&s->works, works);
    if (worked && !works)
        lx_log(LX_LOG_WARN, "state store: %s", why->text);
    else if (works && !worked)
        lx_log(LX_LOG_INFO, "the state store works again");
}

static void work_off(sqlite_store *s)
{
    lx_error why = {0};
    lx_status st = transact(s, 0, s->n_calls, &why);
    for (int32_t i = 0; st != LX_OK && i < s->n_calls; i++) {
        lx_error own = {0};
        lx_status alone = transact(s, i, i + 1, &own);
        if (alone != LX_OK)
            salvage(s, i, alone, &own);
    }
    note_health(s, st, &why);
    for (int32_t i = 0; i < s->n_calls; i++) {
        outcome *o = &s->outcomes[i];
        o->result.blob = o->bytes;
        lx_store_queue_finish(&s->queue, s->calls[i], &o->result, &o->err);
        clear(o);
    }
}

/* --- expired states --- */

static int64_t look_after(int64_t ms)
{
    ms = ms > LEAST_WAIT_MS ? ms : LEAST_WAIT_MS;
    return lx_now_ns() + (ms < MOST_WAIT_MS ? ms : MOST_WAIT_MS) * LX_NS_PER_MS;
}

/* Calls that come meanwhile go between two transactions. After a failure of the disk the states
   stay, as no request finds them. */
static void expire(sqlite_store *s)
{
    int64_t next_ms = INT64_MAX, n = 0, bytes = 0;
    lx_error err = {0};
    lx_status st = lx_state_file_begin(s->file, false, &err);
    if (st == LX_OK)
        st = lx_state_file_expire(s->file, &next_ms, &err);
    if (st == LX_OK)
        st = lx_state_file_count(s->file, &n, &bytes, &err);
    if (st == LX_OK)
        st = lx_state_file_commit(s->file, &err);
    if (st == LX_OK) {
        atomic_store(&s->n, n);
        atomic_store(&s->bytes, bytes);
        s->expire_ns = next_ms > 0 ? look_after(next_ms) : lx_now_ns();
    } else {
        lx_state_file_rollback(s->file);
        s->expire_ns = look_after(MOST_WAIT_MS);
    }
}

/* The calls may have made states that end before all others. */
static void note_ends(sqlite_store *s)
{
    for (int32_t i = 0; i < s->n_calls; i++) {
        int64_t end = s->calls[i]->ttl_ms > 0 ? look_after(s->calls[i]->ttl_ms) : s->expire_ns;
        s->expire_ns = end < s->expire_ns ? end : s->expire_ns;
    }
}

/* --- the thread --- */

/* Waits for calls and takes them, or for the time of expired states. False at the end. */
static bool take_calls(sqlite_store *s)
{
    lx_store_queue *q = &s->queue;
    const struct timespec until = {.tv_sec = s->expire_ns / LX_NS_PER_S,
                                   .tv_nsec = s->expire_ns % LX_NS_PER_S};
    LX_HOLD(&q->mutex);
    while (q->first == NULL && !q->stopping && lx_now_ns() < s->expire_ns)
        (void)pthread_cond_timedwait(&q->more, &q->mutex, &until);
    s->n_calls = 0;
    while (s->n_calls < MOST_CALLS && q->first != NULL)
        s->calls[s->n_calls++] = lx_store_queue_take(q);
    return s->n_calls > 0 || !q->stopping;
}

static void *run(void *context)
{
    sqlite_store *s = context;
    while (take_calls(s)) {
        note_ends(s);
        if (s->n_calls > 0)
            work_off(s);
        if (lx_now_ns() >= s->expire_ns)
            expire(s);
    }
    return NULL;
}

/* --- the store --- */

static void sqlite_call(lx_state_store *base, const lx_store_request *rq, lx_store_done done,
                        void *context)
{
    lx_store_queue_add(&((sqlite_store *)base)->queue, rq, done, context);
}

static void sqlite_stats(lx_state_store *base, lx_store_stats *out)
{
    sqlite_store *s = (sqlite_store *)base;
    *out = (lx_store_stats){.states = atomic_load(&s->n),
                            .bytes = atomic_load(&s->bytes),
                            .max_states = s->limits.max_states,
                            .max_bytes = s->limits.max_bytes,
                            .reachable = atomic_load(&s->works)};
}

static void sqlite_close(lx_state_store *base)
{
    sqlite_store *s = (sqlite_store *)base;
    lx_store_queue_stop(&s->queue);
    if (s->started)
        (void)pthread_join(s->thread, NULL);
    lx_state_file_close(s->file);
    lx_store_queue_fini(&s->queue);
    free(s);
}

static const lx_store_ops sqlite_ops = {
    .name = "sqlite",
    .outlives = true,
    .call = sqlite_call,
    .stats = sqlite_stats,
    .close = sqlite_close,
};

static lx_status open_file(sqlite_store *s, const lx_state_store_options *o, lx_error *err)
{
    int64_t n = 0, bytes = 0;
    lx_status st = lx_state_file_open(o->where, true, &s->file, err);
    if (st == LX_OK)
        st = lx_state_file_count(s->file, &n, &bytes, err);
    atomic_init(&s->n, n);
    atomic_init(&s->bytes, bytes);
    atomic_init(&s->works, true);
    if (st == LX_OK && pthread_create(&s->thread, NULL, run, s) != 0)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no thread for the state store");
    s->started = st == LX_OK;
    return st;
}

lx_status lx_state_sqlite_check(lx_error *err)
{
    (void)err;
    return LX_OK;
}

lx_status lx_state_sqlite_open(const lx_state_store_options *o, lx_state_store **out, lx_error *err)
{
    sqlite_store *s = calloc(1, sizeof *s);
    if (s == NULL || lx_store_queue_init(&s->queue, (size_t)o->max_on_their_way,
                                         LX_STATE_FILE_MAX_BLOB, err) != LX_OK) {
        free(s);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a store of states");
    }
    s->base.ops = &sqlite_ops;
    s->limits = (lx_state_file_limits){o->max_states, o->max_bytes};
    lx_status st = open_file(s, o, err);
    if (st != LX_OK) {
        sqlite_close(&s->base);
        return st;
    }
    lx_log(LX_LOG_INFO, "states are kept in %s: %lld states with %lld bytes", o->where,
           (long long)atomic_load(&s->n), (long long)atomic_load(&s->bytes));
    *out = &s->base;
    return LX_OK;
}
