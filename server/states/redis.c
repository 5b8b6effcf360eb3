/*
 * The connection to Redis (see redis.h), over hiredis's blocking calls.
 *
 * The timeout of hiredis limits a single read or write, and a server that sends a byte now and then
 * could stretch a reply for ever. So commands and replies are moved piece by piece here, each piece
 * with the time that is left. Each byte that moves adds time: a state of many megabytes takes long
 * on a busy machine or a slow network. A Redis that moves nothing is late as before.
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

enum { NS_PER_BYTE = 125, MAX_WORDS = LX_REDIS_SCRIPT_WORDS + 3 }; /* 8 MB per second */

/* --- the URL --- */

static const char plain[] = "redis://", tls[] = "rediss://";

static lx_status bad_url(const char *why, lx_error *err)
{
    return lx_fail(err, LX_ERR_INVALID, "state-store", "--state-store: %s", why);
}

/* Decodes %XX of [begin, end) into out[size]. A zero byte is refused: it would cut the text. */
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
        return bad_url("the URL's user or password is too long or has a malformed %XX", err);
    return LX_OK;
}

/* `password`: from the file, NULL without one. */
static lx_status set_password(lx_redis_url *u, const char *password, lx_error *err)
{
    static const char param[] = "state-store-password-file";
    if (password != NULL && u->password[0] != '\0')
        return lx_fail(err, LX_ERR_INVALID, param,
                       "--%s: the URL of --state-store has a password too", param);
    if (password != NULL && (password[0] == '\0' || strlen(password) >= sizeof u->password))
        return lx_fail(err, LX_ERR_INVALID, param, "--%s: a password has 1 to %zu bytes", param,
                       sizeof u->password - 1);
    if (password != NULL)
        memcpy(u->password, password, strlen(password) + 1);
    return u->user[0] != '\0' && u->password[0] == '\0'
               ? bad_url("the URL has a user but no password", err)
               : LX_OK;
}

static lx_status read_host(const char *begin, const char *end, lx_redis_url *u, lx_error *err)
{
    bool bracketed = begin < end && *begin == '[';
    const char *close = bracketed ? memchr(begin, ']', (size_t)(end - begin)) : NULL;
    if (bracketed && close == NULL)
        return bad_url("the URL's host has no closing ]", err);
    const char *from = bracketed ? begin + 1 : begin, *rest = bracketed ? close + 1 : begin;
    const char *colon = memchr(rest, ':', (size_t)(end - rest));
    const char *to = bracketed ? close : colon != NULL ? colon : end;
    if (bracketed && rest != end && rest != colon)
        return bad_url("the URL's host is followed by rubbish", err);
    if (from == to || (size_t)(to - from) >= sizeof u->host)
        return bad_url("the URL has no host, or one that is too long", err);
    memcpy(u->host, from, (size_t)(to - from));
    u->host[to - from] = '\0';
    if (strcspn(u->host, " \t\r\n%?#@") != strlen(u->host))
        return bad_url("the URL's host is malformed", err);
    if (colon != NULL && (!read_number(colon + 1, end, 65535, &u->port) || u->port == 0))
        return bad_url("the URL's port is not a number in 1 .. 65535", err);
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
            err, LX_ERR_UNSUPPORTED, "state-store",
            "--state-store: rediss:// is not built in: let a TLS proxy (stunnel, HAProxy) carry a "
            "redis:// connection");
    if (strncmp(text, plain, sizeof plain - 1) != 0)
        return bad_url("it is neither memory, nor a file NAME.db, nor "
                       "redis://[user:password@]host[:port][/db]",
                       err);
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
        return bad_url("the URL's database is not a whole number", err);
    *out = u;
    return LX_OK;
}

/* --- a connection --- */

struct lx_redis {
    lx_redis_url url;
    char address[LX_REDIS_ADDRESS]; /* "": connect by the URL's name */
    redisContext *link;             /* NULL: not connected */
};

/* Its words point to texts that live until the reply is there. */
typedef struct command {
    int n;
    lx_redis_word words[MAX_WORDS];
} command;

lx_redis_word lx_redis_text(const char *text)
{
    return (lx_redis_word){text, strlen(text)};
}

lx_redis_word lx_redis_number(int64_t x, char text[LX_REDIS_NUMBER])
{
    (void)snprintf(text, LX_REDIS_NUMBER, "%lld", (long long)x);
    return lx_redis_text(text);
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

/* Sets the time left on the socket; false when there is none. */
static bool arm(lx_redis *r, int64_t deadline_ns)
{
    struct timeval left;
    return time_left(deadline_ns, &left) && redisSetTimeout(r->link, left) == REDIS_OK;
}

/* Reports why the connection failed; the caller closes it. */
static lx_status broken(lx_redis *r, int64_t deadline_ns, lx_error *err)
{
    struct timeval left;
    if (!time_left(deadline_ns, &left))
        return late(err);
    return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "Redis: %s",
                   r->link->err != 0 ? r->link->errstr : "the connection failed");
}

static bool append(lx_redis *r, const command *c)
{
    const char *texts[MAX_WORDS];
    size_t bytes[MAX_WORDS];
    for (int i = 0; i < c->n; i++) {
        texts[i] = c->words[i].data;
        bytes[i] = c->words[i].n;
    }
    return redisAppendCommandArgv(r->link, c->n, texts, bytes) == REDIS_OK;
}

static lx_status send_all(lx_redis *r, const command *c, int n, int64_t *deadline_ns, lx_error *err)
{
    int64_t start = lx_now_ns();
    for (int i = 0; i < n; i++)
        if (!append(r, &c[i]))
            return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a command to Redis");
    *deadline_ns += lx_now_ns() - start; /* copying many megabytes is not Redis's time */
    for (int done = 0; !done;) {
        size_t before = sdslen(r->link->obuf);
        if (!arm(r, *deadline_ns) || redisBufferWrite(r->link, &done) != REDIS_OK)
            return broken(r, *deadline_ns, err);
        *deadline_ns += (int64_t)(before - sdslen(r->link->obuf)) * NS_PER_BYTE;
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
        *deadline_ns += (int64_t)(r->link->reader->len - before) * NS_PER_BYTE;
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

/* Sends n commands in one write on the present connection, which is closed unless n whole replies
   come. If one reply is an error, all commands fail. */
static lx_status converse(lx_redis *r, const command *c, int n, int64_t deadline_ns,
                          redisReply **out, lx_error *err)
{
    int got = 0;
    lx_status st = send_all(r, c, n, &deadline_ns, err);
    while (st == LX_OK && got < n) {
        st = read_reply(r, &deadline_ns, &out[got], err);
        got += out[got] != NULL;
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

/* Sends a command on the new connection; only an error among its replies matters. */
static lx_status greet(lx_redis *r, const command *c, int64_t deadline_ns, lx_error *err)
{
    redisReply *reply = NULL;
    lx_status st = converse(r, c, 1, deadline_ns, &reply, err);
    if (st == LX_OK)
        freeReplyObject(reply);
    return st;
}

static lx_status log_in(lx_redis *r, int64_t deadline_ns, lx_error *err)
{
    const lx_redis_url *u = &r->url;
    char db[LX_REDIS_NUMBER];
    command select = {2, {lx_redis_text("SELECT"), lx_redis_number(u->db, db)}};
    command auth = {2, {lx_redis_text("AUTH"), lx_redis_text(u->password)}};
    if (u->user[0] != '\0')
        auth = (command){3, {auth.words[0], lx_redis_text(u->user), auth.words[1]}};
    lx_status st = u->password[0] != '\0' ? greet(r, &auth, deadline_ns, err) : LX_OK;
    return st == LX_OK && u->db != 0 ? greet(r, &select, deadline_ns, err) : st;
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

static lx_status commands(lx_redis *r, const command *c, int n, int64_t deadline_ns,
                          redisReply **out, lx_error *err)
{
    if (r->link != NULL) {
        lx_status st = converse(r, c, n, deadline_ns, out, err);
        if (st != LX_ERR_UNAVAILABLE || r->link != NULL || lx_now_ns() >= deadline_ns)
            return st;
    }
    lx_status st = connect_to(r, deadline_ns, err);
    return st == LX_OK ? converse(r, c, n, deadline_ns, out, err) : st;
}

/* --- the commands --- */

static lx_status not_found(lx_error *err)
{
    return lx_fail(err, LX_ERR_NOT_FOUND, NULL, "Redis has no such key");
}

static lx_status unexpected(const redisReply *reply, lx_error *err)
{
    return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "Redis gave a reply of unexpected type %d",
                   reply->type);
}

/* A command whose reply has this type, 0: any. *number may be NULL, or becomes the integer. */
static lx_status simple(lx_redis *r, const command *c, int type, int64_t *number,
                        int64_t deadline_ns, lx_error *err)
{
    redisReply *reply = NULL;
    lx_status st = commands(r, c, 1, deadline_ns, &reply, err);
    if (st != LX_OK)
        return st;
    if (type != 0 && reply->type != type)
        st = unexpected(reply, err);
    if (number != NULL)
        *number = reply->integer;
    freeReplyObject(reply);
    return st;
}

lx_status lx_redis_ping(lx_redis *r, int64_t deadline_ns, lx_error *err)
{
    const command c = {1, {lx_redis_text("PING")}};
    return simple(r, &c, 0, NULL, deadline_ns, err);
}

lx_status lx_redis_set(lx_redis *r, const char *key, const void *bytes, size_t n, int64_t ttl_ms,
                       int64_t deadline_ns, lx_error *err)
{
    char ttl[LX_REDIS_NUMBER];
    const command c = {5,
                       {lx_redis_text("SET"),
                        lx_redis_text(key),
                        {bytes, n},
                        lx_redis_text("PX"),
                        lx_redis_number(ttl_ms, ttl)}};
    return simple(r, &c, REDIS_REPLY_STATUS, NULL, deadline_ns, err);
}

static lx_status copy_reply(const redisReply *reply, size_t max, void **bytes, size_t *n,
                            lx_error *err)
{
    if (reply->type == REDIS_REPLY_NIL)
        return not_found(err);
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
    char ttl[LX_REDIS_NUMBER];
    bool renews = ttl_ms > 0;
    redisReply *replies[2] = {NULL, NULL};
    const command c[2] = {{renews ? 3 : 2,
                           {lx_redis_text(renews ? "PEXPIRE" : "PTTL"), lx_redis_text(key),
                            lx_redis_number(ttl_ms, ttl)}},
                          {2, {lx_redis_text("GET"), lx_redis_text(key)}}};
    lx_status st = commands(r, c, 2, deadline_ns, replies, err);
    if (st != LX_OK)
        return st;
    st = replies[0]->type == REDIS_REPLY_INTEGER ? copy_reply(replies[1], max, bytes, n, err)
                                                 : unexpected(replies[0], err);
    if (st == LX_OK)
        *left_ms = renews ? ttl_ms : replies[0]->integer;
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
    char number[LX_REDIS_NUMBER];
    redisReply *reply = NULL;
    command c = {3,
                 {lx_redis_text("EVAL"), lx_redis_text(script), lx_redis_number(n_keys, number)}};
    for (int i = 0; i < n && i < LX_REDIS_SCRIPT_WORDS; i++)
        c.words[c.n++] = given[i];
    lx_status st = commands(r, &c, 1, deadline_ns, &reply, err);
    if (st != LX_OK)
        return st;
    st = copy_list(reply, max, out, err);
    freeReplyObject(reply);
    return st;
}

lx_status lx_redis_remove(lx_redis *r, const char *key, int64_t deadline_ns, lx_error *err)
{
    int64_t removed = 0;
    const command c = {2, {lx_redis_text("DEL"), lx_redis_text(key)}};
    lx_status st = simple(r, &c, REDIS_REPLY_INTEGER, &removed, deadline_ns, err);
    return st == LX_OK && removed == 0 ? not_found(err) : st;
}
