/*
 * The state store in Redis: a bounded queue of calls, N_WORKERS threads with a connection each that
 * carry them out, and a watcher that pings the server once per second. A call is one round trip.
 *
 * A state is the key "linnet:state:OWNER:ID", or "linnet:state:ID" for the owner without a name.
 * Its value is the blob, and its expiry the state's time. So any server with the same Redis
 * continues the state, and Redis limits the bytes (maxmemory) and drops expired states. An id has
 * no colon, so no owner's name makes two states one key. States of owners with own limits are
 * counted in Redis too.
 *
 * An outage makes no request wait, because the store has a mode `down`. The watcher, or the first
 * call that loses its connection or its time, sets the mode. Then all waiting and new calls end at
 * once with LX_ERR_UNAVAILABLE, and the watcher pings more often until the server answers. Only the
 * watcher connects by name: a name server that is slow for a moment must not make a worker's call
 * late, which would set the mode. Generation does not use the store, so it continues.
 */
#include "server/states/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"
#include "common/log.h"
#include "server/states/queue.h"
#include "server/states/redis.h"

enum {
    N_WORKERS = 4,
    N_THREADS = N_WORKERS + 1, /* the last one is the watcher */
    WATCH_UP_MS = 1000,
    WATCH_DOWN_MS = 200,
};

#define KEY_PREFIX "linnet:state:"
#define ENDS_PREFIX "linnet:ends:"
#define SIZES_PREFIX "linnet:sizes:"

typedef struct redis_store {
    lx_state_store base;
    int64_t timeout_ns;
    char name[300]; /* for the log: host, port, db */
    lx_redis *links[N_THREADS];
    pthread_t threads[N_THREADS];
    int n_threads;
    _Atomic int32_t next_link; /* workers take their links as they start */
    lx_store_queue queue;
    pthread_cond_t changed;         /* for the watcher: went down, or the end; CLOCK_MONOTONIC */
    char address[LX_REDIS_ADDRESS]; /* where Redis answered last; under the queue's mutex */
} redis_store;

/* --- values that are counted for their owner ---
 *
 * An owner with limits has a sorted set of its ids by the time they end, and a hash of their bytes
 * with the sum under the empty id. Each command is one script, so that any number of servers with
 * the same Redis agree on the counts. The next set drops expired ids from them. A value that Redis
 * evicts, or that another program deletes, counts until its time is over.
 */

enum { N_KEYS = 3 };

/* KEYS: the value, the ends, the sizes. ARGV[1]: the id. */
#define FUNCTIONS                                                                                  \
    "local clock = redis.call('TIME')\n"                                                           \
    "local now = clock[1] * 1000 + math.floor(clock[2] / 1000)\n"                                  \
    "local function drop(id)\n"                                                                    \
    "  redis.call('ZREM', KEYS[2], id)\n"                                                          \
    "  local size = redis.call('HGET', KEYS[3], id)\n"                                             \
    "  if size then\n"                                                                             \
    "    redis.call('HDEL', KEYS[3], id)\n"                                                        \
    "    redis.call('HINCRBY', KEYS[3], '', '-' .. size)\n"                                        \
    "  end\n"                                                                                      \
    "end\n"                                                                                        \
    "local function note(id, size, ttl)\n"                                                         \
    "  drop(id)\n"                                                                                 \
    "  redis.call('ZADD', KEYS[2], now + ttl, id)\n"                                               \
    "  redis.call('HSET', KEYS[3], id, size)\n"                                                    \
    "  redis.call('HINCRBY', KEYS[3], '', size)\n"                                                 \
    "  for i = 2, 3 do\n"                                                                          \
    "    if redis.call('PTTL', KEYS[i]) < tonumber(ttl) then\n"                                    \
    "      redis.call('PEXPIRE', KEYS[i], ttl)\n"                                                  \
    "    end\n"                                                                                    \
    "  end\n"                                                                                      \
    "end\n"

/* ARGV: id, bytes, ttl, most ids, most bytes (0: no limit). {whether it was kept, ids, bytes} */
static const char set_script[] = FUNCTIONS
    "for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do drop(id) end\n"
    "local function sum() return tonumber(redis.call('HGET', KEYS[3], '') or 0) end\n"
    "local n, bytes = redis.call('ZCARD', KEYS[2]), sum()\n"
    "local old = redis.call('HGET', KEYS[3], ARGV[1])\n"
    "local more, max_n, max_bytes = old and 0 or 1, tonumber(ARGV[4]), tonumber(ARGV[5])\n"
    "if max_n > 0 and n + more > max_n or\n"
    "   max_bytes > 0 and bytes - tonumber(old or 0) + #ARGV[2] > max_bytes then\n"
    "  return {0, n, bytes}\n"
    "end\n"
    "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])\n"
    "note(ARGV[1], #ARGV[2], ARGV[3])\n"
    "return {1, n + more, sum()}\n";

/* ARGV: id, ttl or 0. {whether it is there, its time left, its bytes} */
static const char get_script[] =
    FUNCTIONS "local ttl = tonumber(ARGV[2])\n"
              "if ttl > 0 then redis.call('PEXPIRE', KEYS[1], ttl) end\n"
              "local value = redis.call('GET', KEYS[1])\n"
              "if not value then drop(ARGV[1]) return {0} end\n"
              "if ttl > 0 then note(ARGV[1], #value, ttl) end\n"
              "return {1, redis.call('PTTL', KEYS[1]), value}\n";

/* ARGV: id. {how many were removed} */
static const char remove_script[] =
    FUNCTIONS "drop(ARGV[1])\nreturn {redis.call('DEL', KEYS[1])}\n";

static lx_status unreachable(const lx_error *why, lx_error *err)
{
    return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the state store does not answer: %s", why->text);
}

/* --- up and down --- */

static void set_down(redis_store *s, const lx_error *why)
{
    lx_error err;
    (void)unreachable(why, &err);
    bool news = lx_store_queue_set_down(&s->queue, &err);
    (void)pthread_mutex_lock(&s->queue.mutex);
    (void)pthread_cond_signal(&s->changed);
    (void)pthread_mutex_unlock(&s->queue.mutex);
    if (news)
        lx_log(LX_LOG_WARN, "state store %s is down: %s", s->name, why->text);
}

static void set_up(redis_store *s, const char address[LX_REDIS_ADDRESS])
{
    (void)pthread_mutex_lock(&s->queue.mutex);
    bool news = s->queue.down;
    s->queue.down = false;
    memcpy(s->address, address, sizeof s->address);
    (void)pthread_mutex_unlock(&s->queue.mutex);
    if (news)
        lx_log(LX_LOG_INFO, "state store %s answers", s->name);
}

static void ask(redis_store *s, lx_redis *link)
{
    lx_error err = {0};
    char address[LX_REDIS_ADDRESS] = "";
    lx_status st = lx_redis_ping(link, lx_now_ns() + s->timeout_ns, &err);
    if (st == LX_OK)
        st = lx_redis_get_address(link, address, &err);
    if (st == LX_OK)
        set_up(s, address);
    else
        set_down(s, &err);
}

/* --- the threads --- */

/* A call on its way: the connection, the value's key, and the end of its time. */
typedef struct exchange {
    lx_redis *link;
    const lx_store_item *item;
    int64_t deadline_ns;
    char key[sizeof KEY_PREFIX + LX_OWNER_NAME + 1 + LX_STATE_ID_MAX];
} exchange;

/* Reads and removals that find nothing are LX_ERR_NOT_FOUND; work_off() names the id. */
static lx_status converse_counted(const exchange *x, lx_store_result *result, void **bytes,
                                  lx_error *err)
{
    const lx_store_item *c = x->item;
    static const char *const scripts[] = {[LX_STORE_PUT] = set_script,
                                          [LX_STORE_GET] = get_script,
                                          [LX_STORE_REMOVE] = remove_script};
    char ends[sizeof ENDS_PREFIX + LX_OWNER_NAME], sizes[sizeof SIZES_PREFIX + LX_OWNER_NAME];
    char texts[3][LX_REDIS_NUMBER];
    const lx_owner *o = &c->owner;
    lx_redis_list list;
    (void)snprintf(ends, sizeof ends, ENDS_PREFIX "%s", o->name);
    (void)snprintf(sizes, sizeof sizes, SIZES_PREFIX "%s", o->name);
    lx_redis_word words[LX_REDIS_SCRIPT_WORDS] = {lx_redis_text(x->key), lx_redis_text(ends),
                                                  lx_redis_text(sizes), lx_redis_text(c->id)};
    int n = N_KEYS + 1;
    if (c->op == LX_STORE_PUT)
        words[n++] = (lx_redis_word){c->blob, c->size};
    if (c->op != LX_STORE_REMOVE)
        words[n++] = lx_redis_number(c->ttl_ms, texts[0]);
    if (c->op == LX_STORE_PUT) {
        words[n++] = lx_redis_number(o->max_states, texts[1]);
        words[n++] = lx_redis_number(o->max_bytes, texts[2]);
    }
    lx_status st = lx_redis_script(x->link, scripts[c->op], words, N_KEYS, n, LX_REDIS_MAX_BLOB,
                                   x->deadline_ns, &list, err);
    if (st != LX_OK)
        return st;
    if (c->op == LX_STORE_GET) {
        *bytes = list.bytes;
        result->size = list.n;
        result->ttl_ms = list.numbers[1];
        return list.bytes != NULL ? LX_OK : LX_ERR_NOT_FOUND;
    }
    if (list.numbers[0] != 0 || c->op == LX_STORE_REMOVE)
        return list.numbers[0] != 0 ? LX_OK : LX_ERR_NOT_FOUND;
    return lx_fail(err, LX_ERR_BUSY, "state",
                   "this key keeps %lld states with %lld bytes and no more fit (limits: %lld, "
                   "%lld; 0: none)",
                   (long long)list.numbers[1], (long long)list.numbers[2], (long long)o->max_states,
                   (long long)o->max_bytes);
}

static lx_status converse(const exchange *x, lx_store_result *result, void **bytes, lx_error *err)
{
    const lx_store_item *c = x->item;
    if (c->owner.max_states > 0 || c->owner.max_bytes > 0)
        return converse_counted(x, result, bytes, err);
    switch (c->op) {
    case LX_STORE_PUT:
        return lx_redis_set(x->link, x->key, c->blob, c->size, c->ttl_ms, x->deadline_ns, err);
    case LX_STORE_GET:
        return lx_redis_get(x->link, x->key, c->ttl_ms, LX_REDIS_MAX_BLOB, x->deadline_ns, bytes,
                            &result->size, &result->ttl_ms, err);
    case LX_STORE_REMOVE:
    case LX_STORE_LIST:
        break;
    }
    return lx_redis_remove(x->link, x->key, x->deadline_ns, err);
}

/* Carries out the call, reports its end to the caller and frees it. */
static void work_off(redis_store *s, lx_redis *link, lx_store_item *c)
{
    lx_store_result result = {.ttl_ms = 0};
    lx_error why = {0}, reported = {0};
    void *bytes = NULL;
    exchange x = {.link = link, .item = c, .deadline_ns = c->added_ns + s->timeout_ns};
    (void)snprintf(x.key, sizeof x.key, KEY_PREFIX "%s%s%s", c->owner.name,
                   c->owner.name[0] != '\0' ? ":" : "", c->id);
    result.status = converse(&x, &result, &bytes, &why);
    result.blob = bytes;
    if (result.status == LX_ERR_NOT_FOUND)
        (void)lx_fail(&reported, LX_ERR_NOT_FOUND, "state",
                      "there is no state %s, or it has expired", c->id);
    else if (result.status == LX_ERR_UNAVAILABLE)
        (void)unreachable(&why, &reported);
    else
        reported = why;
    if (result.status == LX_ERR_UNAVAILABLE && !lx_redis_connected(link))
        set_down(s, &why); /* before the caller, which may try again at once */
    lx_store_queue_finish(&s->queue, c, &result, &reported);
    free(bytes);
}

/* The next call, or NULL at the end. The link gets the address for a new connection; there is one,
   because calls wait only while the server answers the watcher. */
static lx_store_item *take_call(redis_store *s, lx_redis *link)
{
    lx_store_queue *q = &s->queue;
    LX_HOLD(&q->mutex);
    while (q->first == NULL && !q->stopping)
        (void)pthread_cond_wait(&q->more, &q->mutex);
    lx_store_item *c = lx_store_queue_take(q);
    if (c != NULL)
        lx_redis_connect_at(link, s->address);
    return c;
}

static void *run_worker(void *context)
{
    redis_store *s = context;
    lx_redis *link = s->links[atomic_fetch_add(&s->next_link, 1)];
    for (lx_store_item *c = take_call(s, link); c != NULL; c = take_call(s, link))
        work_off(s, link, c);
    return NULL;
}

static void *run_watcher(void *context)
{
    redis_store *s = context;
    lx_redis *link = s->links[N_WORKERS];
    (void)pthread_mutex_lock(&s->queue.mutex);
    while (!s->queue.stopping) {
        bool down = s->queue.down;
        int64_t end = lx_now_ns() + (down ? WATCH_DOWN_MS : WATCH_UP_MS) * LX_NS_PER_MS;
        const struct timespec until = {.tv_sec = end / LX_NS_PER_S, .tv_nsec = end % LX_NS_PER_S};
        while (!s->queue.stopping && s->queue.down == down && lx_now_ns() < end)
            (void)pthread_cond_timedwait(&s->changed, &s->queue.mutex, &until);
        if (s->queue.stopping || s->queue.down != down)
            continue;
        (void)pthread_mutex_unlock(&s->queue.mutex);
        ask(s, link);
        (void)pthread_mutex_lock(&s->queue.mutex);
    }
    (void)pthread_mutex_unlock(&s->queue.mutex);
    return NULL;
}

/* --- the calls --- */

static void redis_call(lx_state_store *base, const lx_store_request *rq, lx_store_done done,
                       void *context)
{
    lx_error err;
    if (rq->op != LX_STORE_LIST) {
        lx_store_queue_add(&((redis_store *)base)->queue, rq, done, context);
        return;
    }
    lx_store_result result = {.err = &err};
    result.status = lx_fail(&err, LX_ERR_UNSUPPORTED, NULL,
                            "states in Redis cannot be listed; a file or memory can list them");
    done(context, &result);
}

static void redis_stats(lx_state_store *base, lx_store_stats *out)
{
    redis_store *s = (redis_store *)base;
    LX_HOLD(&s->queue.mutex);
    *out = (lx_store_stats){
        .states = -1, .bytes = -1, .max_states = -1, .max_bytes = -1, .reachable = !s->queue.down};
}

/* --- open and close --- */

static void redis_close(lx_state_store *base)
{
    redis_store *s = (redis_store *)base;
    lx_store_queue_stop(&s->queue);
    (void)pthread_mutex_lock(&s->queue.mutex);
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->queue.mutex);
    for (int i = 0; i < s->n_threads; i++)
        (void)pthread_join(s->threads[i], NULL);
    for (int i = 0; i < N_THREADS; i++)
        lx_redis_free(s->links[i]);
    (void)pthread_cond_destroy(&s->changed);
    lx_store_queue_fini(&s->queue);
    free(s);
}

static const lx_store_ops redis_ops = {
    .name = "redis",
    .outlives = true,
    .call = redis_call,
    .stats = redis_stats,
    .close = redis_close,
};

static lx_status start_threads(redis_store *s, lx_error *err)
{
    for (int i = 0; i < N_THREADS; i++) {
        void *(*run)(void *) = i < N_WORKERS ? run_worker : run_watcher;
        if (pthread_create(&s->threads[i], NULL, run, s) != 0)
            return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no thread for the state store");
        s->n_threads++;
    }
    return LX_OK;
}

lx_status lx_state_redis_check(const char *url, const char *password, lx_error *err)
{
    lx_redis_url parsed;
    return lx_redis_url_parse(url, password, &parsed, err);
}

lx_status lx_state_redis_open(const char *url, const char *password, int64_t timeout_ms,
                              int64_t max_bytes, lx_state_store **out, lx_error *err)
{
    lx_redis_url parsed;
    lx_status st = lx_redis_url_parse(url, password, &parsed, err);
    if (st != LX_OK)
        return st;
    redis_store *s = calloc(1, sizeof *s);
    if (s == NULL || !lx_timed_cond_init(&s->changed) ||
        lx_store_queue_init(&s->queue, (size_t)max_bytes, LX_REDIS_MAX_BLOB, err) != LX_OK) {
        free(s);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a store of states");
    }
    s->base.ops = &redis_ops;
    s->timeout_ns = timeout_ms * LX_NS_PER_MS;
    (void)snprintf(s->name, sizeof s->name, "redis %s port %d db %d", parsed.host, parsed.port,
                   parsed.db);
    for (int i = 0; i < N_THREADS && st == LX_OK; i++)
        st = lx_redis_new(&parsed, &s->links[i], err);
    explicit_bzero(&parsed, sizeof parsed);
    if (st == LX_OK) {
        ask(s, s->links[N_WORKERS]);
        st = start_threads(s, err);
    }
    if (st != LX_OK) {
        redis_close(&s->base);
        return st;
    }
    lx_log(LX_LOG_INFO, "states are kept in %s", s->name);
    *out = &s->base;
    return LX_OK;
}
