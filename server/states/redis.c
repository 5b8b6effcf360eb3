/*
 * The connection to Redis (see redis.h), over hiredis's blocking calls.
 *
 * hiredis's timeout is one of a single read or write, which a server that sends a byte now and then
 * could stretch for ever; so a command is written and its reply read piece by piece here, each
 * piece with the time that is left. The time grows with the bytes that have moved.
 */
#include "server/states/redis.h"

#include <hiredis/hiredis.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/hex.h"

enum { NS_PER_BYTE = 125 }; /* 8 MB a second */
enum { MAX_WORDS = LX_REDIS_SCRIPT_WORDS + 3, NUMBER_SIZE = 24 };

/* --- the URL --- */

static const char url_param[] = "state-store", file_param[] = "state-store-password-file";
static const char plain[] = "redis://", tls[] = "rediss://";

/* Decodes %XX of [begin, end) into out[size]; a zero byte would cut what follows it. */
static bool decode(const char *begin, const char *end, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = begin; p < end; p++) {
        int c = (unsigned char)*p;
        if (*p == '%') {
            if (end - p < 3 || lx_hex_digit(p[1]) < 0 || lx_hex_digit(p[2]) < 0)
                return false;
            c = lx_hex_digit(p[1]) * 16 + lx_hex_digit(p[2]);
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
            err, LX_ERR_INVALID, url_param,
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
        return lx_fail(err, LX_ERR_INVALID, url_param,
                       "--state-store: the URL has a user but no password");
    return LX_OK;
}

static lx_status read_host(const char *begin, const char *end, lx_redis_url *u, lx_error *err)
{
    bool bracketed = begin < end && *begin == '[';
    const char *close = bracketed ? memchr(begin, ']', (size_t)(end - begin)) : NULL;
    if (bracketed && close == NULL)
        return lx_fail(err, LX_ERR_INVALID, url_param,
                       "--state-store: the URL's host has no closing ]");
    const char *from = bracketed ? begin + 1 : begin, *rest = bracketed ? close + 1 : begin;
    const char *colon = memchr(rest, ':', (size_t)(end - rest));
    const char *to = bracketed ? close : colon != NULL ? colon : end;
    if (bracketed && rest != end && rest != colon)
        return lx_fail(err, LX_ERR_INVALID, url_param,
                       "--state-store: the URL's host is followed by rubbish");
    if (from == to || (size_t)(to - from) >= sizeof u->host)
        return lx_fail(err, LX_ERR_INVALID, url_param,
                       "--state-store: the URL has no host, or one that is too long");
    memcpy(u->host, from, (size_t)(to - from));
    u->host[to - from] = '\0';
    if (strcspn(u->host, " \t\r\n%?#@") != strlen(u->host))
        return lx_fail(err, LX_ERR_INVALID, url_param,
                       "--state-store: the URL's host is malformed");
    if (colon != NULL && (!read_number(colon + 1, end, 65535, &u->port) || u->port == 0))
        return lx_fail(err, LX_ERR_INVALID, url_param,
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
            err, LX_ERR_UNSUPPORTED, url_param,
            "--state-store: rediss:// is not built in: let a TLS proxy (stunnel, HAProxy) carry a "
            "redis:// connection");
    if (strncmp(text, plain, sizeof plain - 1) != 0)
        return lx_fail(
            err, LX_ERR_INVALID, url_param,
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
        return lx_fail(err, LX_ERR_INVALID, url_param,
                       "--state-store: the URL's database is not a whole number");
    *out = u;
    return LX_OK;
}

/* --- a connection --- */

struct lx_redis {
    lx_redis_url url;
    char address[LX_REDIS_ADDRESS]; /* "": connect by the URL's name */
    redisContext *link;             /* NULL: not connected */
};

typedef struct words {
    const char *at[MAX_WORDS];
    size_t bytes[MAX_WORDS];
    int n;
} words;

static void add_bytes(words *w, const void *bytes, size_t n)
{
    w->at[w->n] = bytes;
    w->bytes[w->n++] = n;
}

static void add(words *w, const char *text)
{
    add_bytes(w, text, strlen(text));
}

lx_status lx_redis_new(const lx_redis_url *url, lx_redis **out, lx_error *err)
{
    lx_redis *r = calloc(1, sizeof *r);
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a connection to Redis");
    r->url = *url;
    *out = r;
    return LX_OK;
}

static void disconnect(lx_redis *r)
{
    if (r->link != NULL)
        redisFree(r->link);
    r->link = NULL;
}

void lx_redis_free(lx_redis *r)
{
    if (r == NULL)
        return;
    disconnect(r);
    explicit_bzero(&r->url, sizeof r->url);
    free(r);
}

/* --- one command --- */

static bool time_left(int64_t deadline_ns, struct timeval *out)
{
    int64_t us = (deadline_ns - lx_now_ns()) / 1000;
    if (us <= 0)
        return false;
    *out = (struct timeval){.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    return true;
}

static lx_status late(lx_error *err)
{
    return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "Redis did not answer in time");
}

/* What has moved since `*left` bytes were there moves the deadline: a state of many megabytes takes
   its time on a busy machine or a slow network, and a Redis that takes nothing is late as ever. */
static void extend(int64_t *deadline_ns, size_t moved)
{
    *deadline_ns += (int64_t)moved * NS_PER_BYTE;
}

/* Sets the time left on the socket; false when there is none. */
static bool arm(lx_redis *r, int64_t deadline_ns)
{
    struct timeval left;
    return time_left(deadline_ns, &left) && redisSetTimeout(r->link, left) == REDIS_OK;
}

/* Why the connection failed. It is of no use any more. */
static lx_status broken(lx_redis *r, int64_t deadline_ns, lx_error *err)
{
    struct timeval left;
    if (!time_left(deadline_ns, &left))
        return late(err);
    return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "Redis: %s",
                   r->link->err != 0 ? r->link->errstr : "the connection failed");
}

static lx_status send_all(lx_redis *r, words *w, int n, int64_t *deadline_ns, lx_error *err)
{
    int64_t start = lx_now_ns();
    for (int i = 0; i < n; i++)
        if (redisAppendCommandArgv(r->link, w[i].n, w[i].at, w[i].bytes) != REDIS_OK)
            return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a command to Redis");
    *deadline_ns += lx_now_ns() - start; /* copying many megabytes is not Redis's time */
    for (int done = 0; !done;) {
        size_t before = sdslen(r->link->obuf);
        if (!arm(r, *deadline_ns) || redisBufferWrite(r->link, &done) != REDIS_OK)
            return broken(r, *deadline_ns, err);
        extend(deadline_ns, before - sdslen(r->link->obuf));
    }
    return LX_OK;
}

static lx_status read_reply(lx_redis *r, int64_t *deadline_ns, redisReply **out, lx_error *err)
{
    void *reply = NULL;
    for (;;) {
        if (redisGetReplyFromReader(r->link, &reply) != REDIS_OK)
            return broken(r, *deadline_ns, err);
        if (reply != NULL)
            break;
        size_t before = r->link->reader->len;
        if (!arm(r, *deadline_ns) || redisBufferRead(r->link) != REDIS_OK)
            return broken(r, *deadline_ns, err);
        extend(deadline_ns, r->link->reader->len - before);
    }
    *out = reply;
    return LX_OK;
}

static void drop_replies(redisReply **replies, int n)
{
    for (int i = 0; i < n; i++) {
        freeReplyObject(replies[i]);
        replies[i] = NULL;
    }
}

/* n commands in one write on the present connection, which is closed unless n whole replies came.
   An error among them fails all. */
static lx_status converse(lx_redis *r, words *w, int n, int64_t deadline_ns, redisReply **out,
                          lx_error *err)
{
    int got = 0;
    lx_status st = send_all(r, w, n, &deadline_ns, err);
    while (st == LX_OK && got < n) {
        st = read_reply(r, &deadline_ns, &out[got], err);
        got += st == LX_OK;
    }
    if (st != LX_OK)
        disconnect(r);
    for (int i = 0; i < n && st == LX_OK; i++)
        if (out[i]->type == REDIS_REPLY_ERROR)
            st = lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "Redis: %s", out[i]->str);
    if (st != LX_OK)
        drop_replies(out, got);
    return st;
}

bool lx_redis_connected(const lx_redis *r)
{
    return r->link != NULL;
}

/* --- the connection --- */

static lx_status say(lx_redis *r, words *w, int64_t deadline_ns, lx_error *err)
{
    redisReply *reply = NULL;
    lx_status st = converse(r, w, 1, deadline_ns, &reply, err);
    if (st == LX_OK)
        freeReplyObject(reply);
    return st;
}

static lx_status log_in(lx_redis *r, int64_t deadline_ns, lx_error *err)
{
    lx_status st = LX_OK;
    if (r->url.password[0] != '\0') {
        words w = {.n = 0};
        add(&w, "AUTH");
        if (r->url.user[0] != '\0')
            add(&w, r->url.user);
        add(&w, r->url.password);
        st = say(r, &w, deadline_ns, err);
    }
    if (st == LX_OK && r->url.db != 0) {
        char db[NUMBER_SIZE];
        words w = {.n = 0};
        (void)snprintf(db, sizeof db, "%d", r->url.db);
        add(&w, "SELECT");
        add(&w, db);
        st = say(r, &w, deadline_ns, err);
    }
    return st;
}

static lx_status connect_to(lx_redis *r, int64_t deadline_ns, lx_error *err)
{
    struct timeval left;
    if (!time_left(deadline_ns, &left))
        return late(err);
    const char *host = r->address[0] != '\0' ? r->address : r->url.host;
    r->link = redisConnectWithTimeout(host, r->url.port, left);
    if (r->link == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a connection to Redis");
    lx_status st = LX_OK;
    if (r->link->err != 0)
        st = lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "Redis: %s", r->link->errstr);
    else
        st = log_in(r, deadline_ns, err);
    if (st != LX_OK)
        disconnect(r); /* also when it refused the password: the next try begins anew */
    return st;
}

lx_status lx_redis_get_address(const lx_redis *r, char out[LX_REDIS_ADDRESS], lx_error *err)
{
    struct sockaddr_storage peer;
    socklen_t n = sizeof peer;
    if (r->link == NULL || getpeername(r->link->fd, (struct sockaddr *)&peer, &n) != 0 ||
        getnameinfo((struct sockaddr *)&peer, n, out, LX_REDIS_ADDRESS, NULL, 0, NI_NUMERICHOST) !=
            0)
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "Redis: the connection has no address");
    return LX_OK;
}

void lx_redis_connect_at(lx_redis *r, const char *address)
{
    (void)snprintf(r->address, sizeof r->address, "%s", address);
}

static lx_status commands(lx_redis *r, words *w, int n, int64_t deadline_ns, redisReply **out,
                          lx_error *err)
{
    if (r->link != NULL) {
        lx_status st = converse(r, w, n, deadline_ns, out, err);
        if (st != LX_ERR_UNAVAILABLE || r->link != NULL || lx_now_ns() >= deadline_ns)
            return st;
    }
    lx_status st = connect_to(r, deadline_ns, err);
    return st == LX_OK ? converse(r, w, n, deadline_ns, out, err) : st;
}

/* --- the commands --- */

static lx_status unexpected(const redisReply *reply, lx_error *err)
{
    return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "Redis gave a reply of unexpected type %d",
                   reply->type);
}

lx_status lx_redis_ping(lx_redis *r, int64_t deadline_ns, lx_error *err)
{
    redisReply *reply = NULL;
    words w = {.n = 0};
    add(&w, "PING");
    lx_status st = commands(r, &w, 1, deadline_ns, &reply, err);
    if (st == LX_OK)
        freeReplyObject(reply);
    return st;
}

lx_status lx_redis_set(lx_redis *r, const char *key, const void *bytes, size_t n, int64_t ttl_ms,
                       int64_t deadline_ns, lx_error *err)
{
    char ttl[NUMBER_SIZE];
    redisReply *reply = NULL;
    words w = {.n = 0};
    (void)snprintf(ttl, sizeof ttl, "%lld", (long long)ttl_ms);
    add(&w, "SET");
    add(&w, key);
    add_bytes(&w, bytes, n);
    add(&w, "PX");
    add(&w, ttl);
    lx_status st = commands(r, &w, 1, deadline_ns, &reply, err);
    if (st != LX_OK)
        return st;
    if (reply->type != REDIS_REPLY_STATUS)
        st = unexpected(reply, err);
    freeReplyObject(reply);
    return st;
}

static lx_status copy_reply(const redisReply *reply, size_t max, void **bytes, size_t *n,
                            lx_error *err)
{
    if (reply->type == REDIS_REPLY_NIL)
        return lx_fail(err, LX_ERR_NOT_FOUND, NULL, "Redis has no such key");
    if (reply->type != REDIS_REPLY_STRING)
        return unexpected(reply, err);
    size_t length = (size_t)reply->len;
    if (length > max)
        return lx_fail(err, LX_ERR_TOO_LARGE, NULL, "the value in Redis has %zu bytes, not %zu",
                       length, max);
    void *copy = malloc(length > 0 ? length : 1);
    if (copy == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %zu bytes from Redis", length);
    memcpy(copy, reply->str, length);
    *bytes = copy;
    *n = length;
    return LX_OK;
}

lx_status lx_redis_get(lx_redis *r, const char *key, int64_t ttl_ms, size_t max,
                       int64_t deadline_ns, void **bytes, size_t *n, int64_t *left_ms,
                       lx_error *err)
{
    char ttl[NUMBER_SIZE];
    redisReply *replies[2] = {NULL, NULL};
    words w[2] = {{.n = 0}, {.n = 0}};
    add(&w[0], ttl_ms > 0 ? "PEXPIRE" : "PTTL");
    add(&w[0], key);
    if (ttl_ms > 0) {
        (void)snprintf(ttl, sizeof ttl, "%lld", (long long)ttl_ms);
        add(&w[0], ttl);
    }
    add(&w[1], "GET");
    add(&w[1], key);
    lx_status st = commands(r, w, 2, deadline_ns, replies, err);
    if (st != LX_OK)
        return st;
    st = replies[0]->type == REDIS_REPLY_INTEGER ? copy_reply(replies[1], max, bytes, n, err)
                                                 : unexpected(replies[0], err);
    if (st == LX_OK)
        *left_ms = ttl_ms > 0 ? ttl_ms : replies[0]->integer;
    drop_replies(replies, 2);
    return st;
}

static lx_status copy_list(const redisReply *reply, size_t max, lx_redis_list *out, lx_error *err)
{
    size_t n_numbers = 0;
    lx_status st = reply->type == REDIS_REPLY_ARRAY ? LX_OK : unexpected(reply, err);
    *out = (lx_redis_list){.bytes = NULL};
    for (size_t i = 0; st == LX_OK && i < reply->elements; i++) {
        const redisReply *e = reply->element[i];
        bool number = e->type == REDIS_REPLY_INTEGER && n_numbers < 3;
        if (number)
            out->numbers[n_numbers++] = e->integer;
        else if (out->bytes == NULL && e->type == REDIS_REPLY_STRING)
            st = copy_reply(e, max, &out->bytes, &out->n, err);
        else
            st = unexpected(e, err);
    }
    if (st != LX_OK)
        free(out->bytes);
    return st;
}

lx_status lx_redis_script(lx_redis *r, const char *script, const lx_redis_word *given, int n_keys,
                          int n, size_t max, int64_t deadline_ns, lx_redis_list *out, lx_error *err)
{
    char number[NUMBER_SIZE];
    redisReply *reply = NULL;
    words w = {.n = 0};
    (void)snprintf(number, sizeof number, "%d", n_keys);
    add(&w, "EVAL");
    add(&w, script);
    add(&w, number);
    for (int i = 0; i < n && i < LX_REDIS_SCRIPT_WORDS; i++)
        add_bytes(&w, given[i].data, given[i].n);
    lx_status st = commands(r, &w, 1, deadline_ns, &reply, err);
    if (st != LX_OK)
        return st;
    st = copy_list(reply, max, out, err);
    freeReplyObject(reply);
    return st;
}

lx_status lx_redis_remove(lx_redis *r, const char *key, int64_t deadline_ns, lx_error *err)
{
    redisReply *reply = NULL;
    words w = {.n = 0};
    add(&w, "DEL");
    add(&w, key);
    lx_status st = commands(r, &w, 1, deadline_ns, &reply, err);
    if (st != LX_OK)
        return st;
    if (reply->type != REDIS_REPLY_INTEGER)
        st = unexpected(reply, err);
    else if (reply->integer == 0)
        st = lx_fail(err, LX_ERR_NOT_FOUND, NULL, "Redis has no such key");
    freeReplyObject(reply);
    return st;
}
