/*
 * redis://[user[:password]@]host[:port][/db], as redis-cli and most clients read it.
 *
 * user and password may hold %XX; a password without a user is written redis://:password@host. The
 * host may be an IPv6 address in brackets. rediss:// (TLS) is refused by name: Debian's hiredis has
 * no TLS, and a connection that is silently plain would be worse than none. No message repeats the
 * URL, since it may hold a password.
 */
#ifndef LINNET_SERVER_STATES_REDIS_URL_H
#define LINNET_SERVER_STATES_REDIS_URL_H

#include <stdint.h>

#include "common/status.h"

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

#endif
