/*
 * One connection to a Redis server (or Valkey, KeyDB: RESP2): the few commands a store of blobs
 * needs, each within a deadline.
 *
 * Connecting happens inside the first command that needs it, and again after a failure. All
 * commands may be repeated without harm, so one that finds its connection closed (an idle one that
 * the server or a balancer dropped) is sent once more on a fresh one before it fails. A command
 * that passed its deadline costs the connection: its reply could come later and be taken for
 * another's.
 *
 * A connection by name asks a name server, which may take seconds and knows no deadline; so one
 * link does that, and its peer's address is given to the others.
 *
 * Every failure of the connection, of the server or of a deadline is LX_ERR_UNAVAILABLE, with the
 * reason in the text. Thread: one at a time. The only file that includes hiredis is redis.c.
 */
#ifndef LINNET_SERVER_STATES_REDIS_H
#define LINNET_SERVER_STATES_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/*
 * redis://[user[:password]@]host[:port][/db], as redis-cli and most clients read it.
 *
 * user and password may hold %XX; a password without a user is written redis://:password@host. The
 * host may be an IPv6 address in brackets. rediss:// (TLS) is refused by name: Debian's hiredis has
 * no TLS, and a connection that is silently plain would be worse than none. No message repeats the
 * URL, since it may hold a password.
 */
enum { LX_REDIS_PORT = 6379, LX_MAX_REDIS_DB = 1 << 20 };

typedef struct lx_redis_url {
    char user[128], password[512], host[256]; /* user and password: "" for none */
    int32_t port, db;
} lx_redis_url;

/* password: of a URL that has none, NULL for none. LX_ERR_INVALID or LX_ERR_UNSUPPORTED with param
   "state-store" or "state-store-password-file". */
lx_status lx_redis_url_parse(const char *text, const char *password, lx_redis_url *out,
                             lx_error *err) LX_MUST_USE;
/* Stars in place of the password, where the text has one. */
void lx_redis_url_hide_password(char *text);

typedef struct lx_redis lx_redis;

/* Does not connect. `url` is copied. */
lx_status lx_redis_new(const lx_redis_url *url, lx_redis **out, lx_error *err) LX_MUST_USE;
void lx_redis_free(lx_redis *r); /* NULL is allowed */

/* The numeric address of the server that the link is connected to, for lx_redis_connect_at of other
   links. LX_ERR_UNAVAILABLE when it is not connected. */
enum { LX_REDIS_ADDRESS = 64 };
lx_status lx_redis_get_address(const lx_redis *r, char out[LX_REDIS_ADDRESS],
                               lx_error *err) LX_MUST_USE;
/* Later connects go to this numeric address instead of the URL's host. The present connection
 * stays.
 */
void lx_redis_connect_at(lx_redis *r, const char *address);

/* Deadlines are lx_now_ns() times, and later by 125 ns for each byte that goes over the connection.
   Keys are text. */
lx_status lx_redis_ping(lx_redis *r, int64_t deadline_ns, lx_error *err) LX_MUST_USE;
/* Stores the bytes for ttl_ms > 0 milliseconds, in place of what was there. */
lx_status lx_redis_set(lx_redis *r, const char *key, const void *bytes, size_t n, int64_t ttl_ms,
                       int64_t deadline_ns, lx_error *err) LX_MUST_USE;
/* *bytes is malloc'ed for the caller; *left_ms is what remains of the key's time (-1: for ever),
   which starts anew when ttl_ms > 0. LX_ERR_NOT_FOUND; LX_ERR_TOO_LARGE above max bytes. */
lx_status lx_redis_get(lx_redis *r, const char *key, int64_t ttl_ms, size_t max,
                       int64_t deadline_ns, void **bytes, size_t *n, int64_t *left_ms,
                       lx_error *err) LX_MUST_USE;
/* A script (EVAL) with its keys, then its arguments, n <= LX_REDIS_SCRIPT_WORDS in all. It returns
   a list: up to 3 numbers and at most one string, which is malloc'ed for the caller;
   LX_ERR_TOO_LARGE when that has more than max bytes. */
enum { LX_REDIS_SCRIPT_WORDS = 8 };
typedef struct lx_redis_word {
    const void *data;
    size_t n;
} lx_redis_word;
typedef struct lx_redis_list {
    int64_t numbers[3];
    void *bytes; /* NULL: no string */
    size_t n;
} lx_redis_list;
lx_status lx_redis_script(lx_redis *r, const char *script, const lx_redis_word *words, int n_keys,
                          int n, size_t max, int64_t deadline_ns, lx_redis_list *out,
                          lx_error *err) LX_MUST_USE;
/* LX_ERR_NOT_FOUND when there is no such key. */
lx_status lx_redis_remove(lx_redis *r, const char *key, int64_t deadline_ns,
                          lx_error *err) LX_MUST_USE;
/* Whether there is still a connection after the last command: a failure of it ends it. */
bool lx_redis_connected(const lx_redis *r);

#endif
