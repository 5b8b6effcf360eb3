/* The parts of a redis:// URL (see redis_url.h). */
#include "server/states/redis_url.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char param[] = "state-store", file_param[] = "state-store-password-file";
static const char plain[] = "redis://", tls[] = "rediss://";

static int hex(char c)
{
    const char *digits = "0123456789abcdef", *at = NULL;
    if (c >= 'A' && c <= 'F')
        c = (char)(c - 'A' + 'a');
    if (c != '\0')
        at = strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* Decodes %XX of [begin, end) into out[size]; a zero byte would cut what follows it. */
static bool decode(const char *begin, const char *end, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = begin; p < end; p++) {
        int c = (unsigned char)*p;
        if (*p == '%') {
            if (end - p < 3 || hex(p[1]) < 0 || hex(p[2]) < 0)
                return false;
            c = hex(p[1]) * 16 + hex(p[2]);
            p += 2;
        }
        if (c == 0 || n + 1 >= size)
            return false;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return true;
}

/* A whole number of [begin, end) in 0 .. max. */
static bool read_number(const char *begin, const char *end, int32_t max, int32_t *out)
{
    int64_t n = 0;
    if (begin == end)
        return false;
    for (const char *p = begin; p < end; p++) {
        if (*p < '0' || *p > '9' || (n = n * 10 + (*p - '0')) > max)
            return false;
    }
    *out = (int32_t)n;
    return true;
}

static lx_status read_login(const char *begin, const char *end, lx_redis_url *u, lx_error *err)
{
    const char *colon = memchr(begin, ':', (size_t)(end - begin));
    const char *name_end = colon != NULL ? colon : end;
    if (!decode(begin, name_end, u->user, sizeof u->user) ||
        (colon != NULL && !decode(colon + 1, end, u->password, sizeof u->password)))
        return lx_fail(
            err, LX_ERR_INVALID, param,
            "--state-store: the URL's user or password is too long or has a malformed %%XX");
    return LX_OK;
}

/* The password from elsewhere, NULL for none, and whether there is one where one is needed. */
static lx_status set_password(lx_redis_url *u, const char *password, lx_error *err)
{
    if (password != NULL && u->password[0] != '\0')
        return lx_fail(err, LX_ERR_INVALID, file_param,
                       "--state-store-password-file: the URL of --state-store has a password too");
    if (password != NULL && (password[0] == '\0' || strlen(password) >= sizeof u->password))
        return lx_fail(err, LX_ERR_INVALID, file_param,
                       "--state-store-password-file: a password has 1 to %zu bytes",
                       sizeof u->password - 1);
    if (password != NULL)
        memcpy(u->password, password, strlen(password) + 1);
    if (u->user[0] != '\0' && u->password[0] == '\0')
        return lx_fail(err, LX_ERR_INVALID, param,
                       "--state-store: the URL has a user but no password");
    return LX_OK;
}

static lx_status read_host(const char *begin, const char *end, lx_redis_url *u, lx_error *err)
{
    bool bracketed = begin < end && *begin == '[';
    const char *close = bracketed ? memchr(begin, ']', (size_t)(end - begin)) : NULL;
    if (bracketed && close == NULL)
        return lx_fail(err, LX_ERR_INVALID, param,
                       "--state-store: the URL's host has no closing ]");
    const char *from = bracketed ? begin + 1 : begin, *rest = bracketed ? close + 1 : begin;
    const char *colon = memchr(rest, ':', (size_t)(end - rest));
    const char *to = bracketed ? close : colon != NULL ? colon : end;
    if (bracketed && rest != end && rest != colon)
        return lx_fail(err, LX_ERR_INVALID, param,
                       "--state-store: the URL's host is followed by rubbish");
    if (from == to || (size_t)(to - from) >= sizeof u->host)
        return lx_fail(err, LX_ERR_INVALID, param,
                       "--state-store: the URL has no host, or one that is too long");
    memcpy(u->host, from, (size_t)(to - from));
    u->host[to - from] = '\0';
    if (strcspn(u->host, " \t\r\n%?#@") != strlen(u->host))
        return lx_fail(err, LX_ERR_INVALID, param, "--state-store: the URL's host is malformed");
    if (colon != NULL && (!read_number(colon + 1, end, 65535, &u->port) || u->port == 0))
        return lx_fail(err, LX_ERR_INVALID, param,
                       "--state-store: the URL's port is not a number in 1 .. 65535");
    return LX_OK;
}

void lx_redis_url_hide_password(char *text)
{
    if (strncmp(text, plain, sizeof plain - 1) != 0)
        return;
    char *begin = text + sizeof plain - 1;
    char *at = memrchr(begin, '@', strcspn(begin, "/?#"));
    char *colon = at != NULL ? memchr(begin, ':', (size_t)(at - begin)) : NULL;
    if (colon != NULL)
        memset(colon + 1, '*', (size_t)(at - colon - 1));
}

lx_status lx_redis_url_parse(const char *text, const char *password, lx_redis_url *out,
                             lx_error *err)
{
    lx_redis_url u = {.port = LX_REDIS_PORT};
    if (strncmp(text, tls, sizeof tls - 1) == 0)
        return lx_fail(
            err, LX_ERR_UNSUPPORTED, param,
            "--state-store: rediss:// is not built in: let a TLS proxy (stunnel, HAProxy) carry a "
            "redis:// connection");
    if (strncmp(text, plain, sizeof plain - 1) != 0)
        return lx_fail(
            err, LX_ERR_INVALID, param,
            "--state-store: neither memory nor redis://[user:password@]host[:port][/db]");
    const char *begin = text + sizeof plain - 1, *end = begin + strcspn(begin, "/?#");
    const char *at = memrchr(begin, '@', (size_t)(end - begin));
    lx_status st = at != NULL ? read_login(begin, at, &u, err) : LX_OK;
    if (st == LX_OK)
        st = read_host(at != NULL ? at + 1 : begin, end, &u, err);
    if (st == LX_OK)
        st = set_password(&u, password, err);
    if (st != LX_OK)
        return st;
    const char *tail = *end == '/' ? end + 1 : end;
    if (*tail != '\0' &&
        (*end != '/' || !read_number(tail, tail + strlen(tail), LX_MAX_REDIS_DB, &u.db)))
        return lx_fail(err, LX_ERR_INVALID, param,
                       "--state-store: the URL's database is not a whole number");
    *out = u;
    return LX_OK;
}
