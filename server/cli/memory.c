/* Sharing out memory (see memory.h). */
#include "server/cli/memory.h"

#include <malloc.h>
#include <string.h>

#include "common/cgroup.h"
#include "common/log.h"
#include "server/json/scan.h"

enum { MIB = 1 << 20, LARGE_BLOCK = 128 << 10, MOST_BLOCKS = 32768 };
enum { STATE_ENTRY = 256 }; /* bytes per state of the store in memory, without the blob */

#define PROGRAM ((int64_t)24 * MIB) /* code, fonts, logs, tables, stacks of threads */
#define MOST_ANSWERS ((int64_t)1024 * MIB)
#define LEAST_ANSWERS ((int64_t)4 * MIB)
#define MOST_BODIES ((int64_t)128 * MIB)
#define MOST_KEPT ((int64_t)1024 * MIB)
#define MOST_ON_THEIR_WAY ((int64_t)256 * MIB)
#define LEAST_PART ((int64_t)MIB)
#define UNKNOWN ((int64_t)1024 * MIB) /* the whole, where the system does not report it */
#define SMALL ((int64_t)2048 * MIB)

/* Bytes of a connection whose client has sent most of a head: the HTTP library's memory, the
   front's buffers and the server's own structures. Measured: 30 KiB. */
#define CONNECTION ((int64_t)48 << 10)
#define TLS_CONNECTION (2 * CONNECTION)

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Memory that no budget counts: pages that the C library keeps between blocks, the kernel's part.
 */
static int64_t margin(const lx_memory *m)
{
    return m->whole / 16;
}

static int64_t connection_bytes(const lx_memory *m)
{
    return m->connections * m->connection;
}

lx_memory lx_memory_share(const lx_memory_wishes *w)
{
    lx_memory m = {.whole = w->whole > 0 ? w->whole : UNKNOWN,
                   .connection = w->tls ? TLS_CONNECTION : CONNECTION,
                   .chosen_answers = w->answers > 0};
    int64_t most = larger(m.whole / 16 / m.connection, 1);
    m.connections = (int32_t)smaller(w->connections, most);
    m.bodies = w->bodies > 0 ? w->bodies : larger(smaller(m.whole / 8, MOST_BODIES), w->one_body);
    int64_t rest = m.whole - PROGRAM - w->weights - margin(&m) - connection_bytes(&m) - m.bodies;
    rest = larger(rest, 8 * LEAST_PART);
    int64_t most_kept = w->kept_elsewhere ? MOST_ON_THEIR_WAY : MOST_KEPT;
    m.states = rest / 8 * 3;
    m.prefixes = smaller(rest / 8, w->prefixes);
    m.kept = w->kept > 0 && !w->kept_elsewhere ? w->kept : smaller(rest / 8, most_kept);
    m.answers = w->answers > 0 ? w->answers : smaller(rest / 8 * 3, MOST_ANSWERS);
    m.store = m.kept;
    if (w->kept_elsewhere) /* their bytes are those of answers */
        m.store = smaller(larger(m.kept, m.answers), MOST_ON_THEIR_WAY);
    return m;
}

int64_t lx_memory_most_states(int64_t wanted, int64_t kept)
{
    return smaller(wanted, larger(kept / STATE_ENTRY, 1));
}

int64_t lx_memory_sum(const lx_memory *m, int64_t own, int64_t held, int64_t answers)
{
    return own + held + m->prefixes + m->kept + m->bodies + connection_bytes(m) + margin(m) +
           answers;
}

int64_t lx_memory_answers(const lx_memory *m, int64_t own, int64_t held)
{
    int64_t left = m->whole - lx_memory_sum(m, own, held, 0);
    return m->chosen_answers ? m->answers : larger(smaller(left, MOST_ANSWERS), LEAST_ANSWERS);
}

int64_t lx_memory_own(const lx_memory *m, int64_t weights)
{
    return m->own + weights - m->weights;
}

/* --- from the options --- */

static lx_status check_room(int64_t bodies, const char *flag, int64_t need, lx_error *err)
{
    if (bodies >= need)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "body-memory",
                   "--body-memory is %lld MiB, but one body of --%s may need %lld MiB; raise it",
                   (long long)(bodies / MIB), flag, (long long)(need / MIB + 1));
}

/* A body, its decoded parts, and its tree of JSON (lx_request_work_bytes). */
static int64_t body_bytes(const lx_serve_options *o)
{
    return 3 * o->max_body + 1 + lx_json_most_tree_bytes(o->max_body);
}

static int64_t upload_bytes(const lx_serve_options *o)
{
    return 3 * o->max_upload + 1;
}

/* Large blocks go back to the system when they are freed. Otherwise the C library, after the first
   free of a size, keeps later blocks of that size in heaps whose holes stay, and the process grows
   past its reservations. In little memory all threads share one heap, so that they use each other's
   holes. */
static void keep_heaps_small(int64_t whole)
{
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
    (void)mallopt(M_MMAP_MAX, MOST_BLOCKS);
    if (whole < SMALL)
        (void)mallopt(M_ARENA_MAX, 1);
}

lx_status lx_memory_plan(const lx_serve_options *o, lx_serving_options *serving, lx_memory *out,
                         lx_error *err)
{
    int64_t free_bytes = lx_cgroup_free_memory();
    int32_t n_models = 0;
    lx_memory_wishes w = {
        .whole = free_bytes < 0 ? 0 : larger(free_bytes + lx_cgroup_own_memory(), 1),
        .weights = lx_serving_weigh(serving, &n_models),
        .answers = o->answer_memory * MIB,
        .bodies = o->body_memory * MIB,
        .kept = o->max_state_bytes,
        .one_body = larger(body_bytes(o), upload_bytes(o)),
        .prefixes = n_models * o->prefix_cache_mb * MIB,
        .connections = (int32_t)o->max_connections,
        .tls = o->tls_cert != NULL,
        .kept_elsewhere = strcmp(o->state_store, "memory") != 0,
    };
    *out = lx_memory_share(&w);
    keep_heaps_small(out->whole);
    serving->state_bytes = out->states;
    serving->prefix_most = out->prefixes;
    serving->has_room = lx_memory_has_room;
    serving->settle = lx_memory_settle;
    serving->memory = out;
    lx_status st = check_room(out->bodies, "max-body", body_bytes(o), err);
    return st == LX_OK ? check_room(out->bodies, "max-upload", upload_bytes(o), err) : st;
}

static long long in_mib(int64_t bytes)
{
    return (long long)((bytes + MIB - 1) / MIB);
}

lx_status lx_memory_has_room(void *memory, int64_t weights, lx_error *err)
{
    const lx_memory *m = memory;
    int64_t left = lx_cgroup_free_memory();
    if (left < 0 || weights <= left)
        return LX_OK;
    return lx_fail(err, LX_ERR_TOO_LARGE, "models",
                   "the %sweights need %lld MiB%s, and %lld MiB of memory are free",
                   m->settled ? "new " : "", in_mib(weights),
                   m->settled ? " next to the weights in use" : "", in_mib(left));
}

static void log_parts(const lx_memory *m, int64_t own, int64_t held, int64_t answers)
{
    int64_t sum = lx_memory_sum(m, own, held, answers);
    lx_log(sum > m->whole ? LX_LOG_WARN : LX_LOG_INFO,
           "memory: %lld MiB may be needed of %lld%s: program and weights %lld, slots and steps "
           "%lld, states of prompts %lld, kept states %lld, answers %lld, bodies %lld, %d "
           "connections %lld",
           in_mib(sum), in_mib(m->whole),
           sum > m->whole ? ", so a load can end the server (see docs/operations.md)" : "",
           in_mib(own), in_mib(held), in_mib(m->prefixes), in_mib(m->kept), in_mib(answers),
           in_mib(m->bodies), m->connections, in_mib(connection_bytes(m)));
}

lx_status lx_memory_settle(void *memory, const lx_serving_bytes *all, lx_error *err)
{
    lx_memory *m = memory, now = *m;
    now.prefixes = all->prefixes;
    if (!m->settled) {
        now.own = lx_cgroup_own_memory();
        now.weights = all->weights;
    }
    int64_t own = lx_memory_own(&now, all->weights);
    int64_t answers = lx_memory_answers(&now, own, all->held);
    int64_t sum = lx_memory_sum(&now, own, all->held, answers);
    now.models = own + all->held + all->prefixes;
    if (m->settled && sum > m->whole && now.models > m->models)
        return lx_fail(err, LX_ERR_TOO_LARGE, "models",
                       "with the new models %lld MiB may be needed of %lld: program and weights "
                       "%lld, slots and steps %lld, states of prompts %lld, all else %lld",
                       in_mib(sum), in_mib(m->whole), in_mib(own), in_mib(all->held),
                       in_mib(all->prefixes), in_mib(sum - now.models));
    now.settled = true;
    *m = now;
    atomic_store(m->limit, answers);
    log_parts(m, own, all->held, answers);
    return LX_OK;
}
