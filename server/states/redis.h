/*
 * One connection to a Redis server (or Valkey, KeyDB: RESP2), with the few commands that a store of
 * blobs needs, each within a deadline.
 *
 * The first command that needs a connection makes it, and so does the first one after a failure.
 * Every command may be repeated without harm. So if the server or a balancer has closed an idle
 * connection, the command is sent once more on a new one before it fails. A command that passes its
 * deadline closes the connection, because its late reply would be read as the next command's.
 *
 * A name server may take seconds and knows no deadline. So only one link connects by name, and the
 * other links get the address of its peer.
 *
 * Every failure of the connection, of the server or of a deadline is LX_ERR_UNAVAILABLE, with the
 * reason in the text. Thread: one at a time. Only redis.c includes hiredis.
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
 * User and password may hold %XX. A password without a user is written redis://:password@host. The
 * host may be an IPv6 address in brackets. rediss:// (TLS) is refused, because Debian's hiredis has
 * no TLS and the connection must not be plain unnoticed. No message repeats the URL, since it may
 * hold a password.
 */
enum { LX_REDIS_PORT = 6379, LX_MAX_REDIS_DB = 1 << 20 };

typedef struct lx_redis_url {
    char user[128], password[512], host[256]; /* user and password: "" for none */
    int32_t port, db;
} lx_redis_url;

/* `password`: for a URL without a password, or NULL. LX_ERR_INVALID or LX_ERR_UNSUPPORTED with
   param "state-store" or "state-store-password-file". */
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
/* Later connections go to this numeric address, not to the URL's host; the present one stays. */
void lx_redis_connect_at(lx_redis *r, const char *address);

/* Deadlines are times of lx_now_ns(). Each byte that moves adds 125 ns to them. Keys are text. */
lx_status lx_redis_ping(lx_redis *r, int64_t deadline_ns, lx_error *err) LX_MUST_USE;
/* Stores the bytes for ttl_ms > 0 milliseconds, in place of an earlier value. */
lx_status lx_redis_set(lx_redis *r, const char *key, const void *bytes, size_t n, int64_t ttl_ms,
                       int64_t deadline_ns, lx_error *err) LX_MUST_USE;
/* *bytes is malloc'ed for the caller. *left_ms is the rest of the key's time (-1: for ever); with
   ttl_ms > 0 the time starts again. LX_ERR_NOT_FOUND; LX_ERR_TOO_LARGE above max bytes. */
lx_status lx_redis_get(lx_redis *r, const char *key, int64_t ttl_ms, size_t max,
                       int64_t deadline_ns, void **bytes, size_t *n, int64_t *left_ms,
                       lx_error *err) LX_MUST_USE;
/* A script (EVAL) with its keys, then its arguments, n <= LX_REDIS_SCRIPT_WORDS in all. It returns
   a list of up to 3 numbers and at most one string, which is malloc'ed for the caller.
   LX_ERR_TOO_LARGE: the string has more than max bytes. */
enum { LX_REDIS_SCRIPT_WORDS = 8, LX_REDIS_NUMBER = 24 };
typedef struct lx_redis_word {
    const void *data;
    size_t n;
} lx_redis_word;
lx_redis_word lx_redis_text(const char *text);
lx_redis_word lx_redis_number(int64_t x, char text[LX_REDIS_NUMBER]); /* points to `text` */
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
