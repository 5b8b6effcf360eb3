/*
 * The URL of a Redis server, and the connection to one that refuses, hangs up, stays silent or
 * talks nonsense. tests/http/test_redis.py tests with a real Redis.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/states/redis.h"
#include "tests/support/failing.h"

/* --- URLs --- */

static const struct {
    const char *text, *user, *password, *host;
    int32_t port, db;
} good[] = {
    {"redis://localhost", "", "", "localhost", 6379, 0},
    {"redis://10.0.0.1:6390", "", "", "10.0.0.1", 6390, 0},
    {"redis://redis.example/", "", "", "redis.example", 6379, 0},
    {"redis://h:1/15", "", "", "h", 1, 15},
    {"redis://:secret@h", "", "secret", "h", 6379, 0},
    {"redis://ann:s%40e%3Ac%2Fr@h:2/3", "ann", "s@e:c/r", "h", 2, 3},
    {"redis://ann:with@sign@h", "ann", "with@sign", "h", 6379, 0},
    {"redis://ann:a:b@h", "ann", "a:b", "h", 6379, 0},
    {"redis://[::1]", "", "", "::1", 6379, 0},
    {"redis://u:p@[fe80::1]:65535/0", "u", "p", "fe80::1", 65535, 0},
};

static void test_good_urls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        lx_redis_url u;
        lx_error err = {0};
        assert_int_equal(lx_redis_url_parse(good[i].text, NULL, &u, &err), LX_OK);
        assert_string_equal(u.user, good[i].user);
        assert_string_equal(u.password, good[i].password);
        assert_string_equal(u.host, good[i].host);
        assert_int_equal(u.port, good[i].port);
        assert_int_equal(u.db, good[i].db);
    }
}

static void test_passwords_from_elsewhere(void **state)
{
    (void)state;
    lx_redis_url u;
    lx_error err = {0};
    char longest[sizeof u.password + 1];
    memset(longest, 'p', sizeof longest);
    longest[sizeof u.password] = '\0';
    assert_int_equal(lx_redis_url_parse("redis://ann@h", "s@c:r/t", &u, &err), LX_OK);
    assert_string_equal(u.user, "ann");
    assert_string_equal(u.password, "s@c:r/t");
    assert_int_equal(lx_redis_url_parse("redis://h", longest + 1, &u, &err), LX_OK);
    static const char *const urls[] = {"redis://:a@h", "redis://h", "redis://h"};
    const char *const passwords[] = {"b", "", longest};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lx_redis_url_parse(urls[i], passwords[i], &u, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, "state-store-password-file");
    }
}

static void test_passwords_are_hidden(void **state)
{
    (void)state;
    static const char *const urls[][2] = {
        {"redis://:secret@h/1", "redis://:******@h/1"},
        {"redis://ann:a:b@c@h:1", "redis://ann:*****@h:1"},
        {"redis://h:6379/1", "redis://h:6379/1"},
        {"redis://ann@h", "redis://ann@h"},
        {"memory", "memory"},
        {"redis://", "redis://"},
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", urls[i][0]);
        lx_redis_url_hide_password(text);
        assert_string_equal(text, urls[i][1]);
    }
}

static const char *const bad[] = {
    "",
    "redis",
    "redis:/h",
    "http://h",
    "redis://",
    "redis:///0",
    "redis://:6379",
    "redis://h:",
    "redis://h:0",
    "redis://h:65536",
    "redis://h:-1",
    "redis://h:6379x",
    "redis://h:99999999999999999999",
    "redis://h/x",
    "redis://h/1/2",
    "redis://h/-1",
    "redis://h/99999999999",
    "redis://h?db=1",
    "redis://h/1?ssl=1",
    "redis://h#1",
    "redis://h h",
    "redis://[::1",
    "redis://[]",
    "redis://[::1]x",
    "redis://[::1]x:1",
    "redis://secret@h",
    "redis://ann:@h",
    "redis://:sec%4@h",
    "redis://:sec%zzret@h",
    "redis://:sec%00ret@h",
    "redis://:sec%",
    "redis://ann:secret@",
};

static void test_bad_urls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lx_redis_url u;
        lx_error err = {0};
        if (lx_redis_url_parse(bad[i], NULL, &u, &err) == LX_OK)
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.status, LX_ERR_INVALID);
        assert_string_equal(err.param, "state-store");
        assert_true(err.text[0] != '\0');
        assert_null(strstr(err.text, "secret"));
    }
}

static void test_tls_is_refused_by_name(void **state)
{
    (void)state;
    lx_redis_url u;
    lx_error err = {0};
    assert_int_equal(lx_redis_url_parse("rediss://:secret@h", NULL, &u, &err), LX_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "rediss"));
    assert_null(strstr(err.text, "secret"));
}

/* Every length of each part, up to over its room: no overrun (the sanitizers look), no cut. */
static void test_long_parts(void **state)
{
    (void)state;
    static const char *const shapes[] = {"redis://%s", "redis://:%s@h", "redis://%s:p@h"};
    char part[700], url[800];
    for (int shape = 0; shape < 3; shape++) {
        for (size_t n = 1; n < sizeof part; n++) {
            memset(part, 'a', n);
            part[n] = '\0';
            (void)snprintf(url, sizeof url, shapes[shape], part); /* NOLINT: one of three above */
            lx_redis_url u;
            bool fits = lx_redis_url_parse(url, NULL, &u, NULL) == LX_OK;
            const char *read[] = {u.host, u.password, u.user};
            const size_t room[] = {sizeof u.host, sizeof u.password, sizeof u.user};
            assert_int_equal(fits, n < room[shape]);
            if (fits)
                assert_string_equal(read[shape], part);
        }
    }
}

/* --- a server of the test's own --- */

/* Accepts connections one after another. Each gets the next script after its first bytes came, and
   is then closed. A script that ends with ~ leaves its connection open and silent. The first script
   may be slow: it reads its bytes in PAUSES parts, each after a pause. */
enum { PAUSES = 16, PAUSE_MS = 20 };
typedef struct fake {
    int listener, port;
    size_t slow_bytes;
    const char *const *scripts; /* NULL at the end */
    pthread_t thread;
    int accepted;
} fake;

static void read_slowly(int fd, size_t bytes)
{
    static char part[1 << 20];
    for (size_t left = bytes, paused = bytes; left > 0;) {
        if (left <= paused) {
            const struct timespec pause = {.tv_nsec = PAUSE_MS * LX_NS_PER_MS};
            (void)nanosleep(&pause, NULL); /* check-tests: a server that is slow */
            paused -= bytes / PAUSES;
        }
        ssize_t got = recv(fd, part, left < sizeof part ? left : sizeof part, 0);
        if (got <= 0)
            return;
        left -= (size_t)got;
    }
}

static void *serve(void *context)
{
    fake *f = context;
    for (; f->scripts[f->accepted] != NULL; f->accepted++) {
        const char *script = f->scripts[f->accepted];
        int fd = accept(f->listener, NULL, NULL);
        char request[4096];
        if (fd < 0)
            return NULL;
        ssize_t got = recv(fd, request, sizeof request, 0);
        if (got > 0 && f->slow_bytes > (size_t)got)
            read_slowly(fd, f->slow_bytes - (size_t)got);
        f->slow_bytes = 0;
        if (got > 0)
            (void)send(fd, script, strcspn(script, "~"), MSG_NOSIGNAL);
        while (strchr(script, '~') != NULL && recv(fd, request, sizeof request, 0) > 0)
            ; /* until the client gives up */
        (void)close(fd);
    }
    return NULL;
}

static lx_redis *fake_start(fake *f, const char *const *scripts)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *f = (fake){.listener = socket(AF_INET, SOCK_STREAM, 0), .scripts = scripts};
    assert_int_equal(bind(f->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(f->listener, 8), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &size), 0);
    f->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
    lx_redis_url url = {.host = "127.0.0.1", .port = f->port};
    lx_redis *r = NULL;
    assert_int_equal(lx_redis_new(&url, &r, NULL), LX_OK);
    return r;
}

static void fake_stop(fake *f, lx_redis *r)
{
    lx_redis_free(r);
    (void)shutdown(f->listener, SHUT_RDWR);
    (void)pthread_join(f->thread, NULL);
    (void)close(f->listener);
}

static int64_t in_ms(int64_t ms)
{
    return lx_now_ns() + ms * LX_NS_PER_MS;
}

enum { LONG_MS = 30000, SHORT_MS = 100 };

static lx_status get(lx_redis *r, int64_t ms, char *text, size_t size, lx_error *err)
{
    void *bytes = NULL;
    size_t n = 0;
    int64_t left_ms = 0;
    lx_status st = lx_redis_get(r, "k", 0, size - 1, in_ms(ms), &bytes, &n, &left_ms, err);
    if (st == LX_OK) {
        assert_int_equal(left_ms, 7);
        memcpy(text, bytes, n);
        text[n] = '\0';
        free(bytes);
    }
    return st;
}

/* Replies that are no value. Each is refused with words, and the next connection works. */
static void test_unusable_replies(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        lx_status status;
    } cases[] = {
        {":-2\r\n$-1\r\n", LX_ERR_NOT_FOUND},
        {"-LOADING Redis is loading the dataset in memory\r\n-LOADING\r\n", LX_ERR_UNAVAILABLE},
        {":7\r\n-WRONGTYPE Operation against a key\r\n", LX_ERR_UNAVAILABLE},
        {":7\r\n:1\r\n", LX_ERR_UNAVAILABLE},
        {"+OK\r\n$1\r\na\r\n", LX_ERR_UNAVAILABLE},
        {":7\r\n*1\r\n$1\r\na\r\n", LX_ERR_UNAVAILABLE},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", LX_ERR_UNAVAILABLE},
        {":7\r\n$5\r\nab", LX_ERR_UNAVAILABLE}, /* cut */
        {":7\r\n$99\r\n012345678901234567890123456789012345678901234567890123456789"
         "012345678901234567890123456789012345678\r\n",
         LX_ERR_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const scripts[] = {cases[i].reply, ":7\r\n$2\r\nok\r\n", NULL};
        fake f;
        lx_error err = {0};
        char text[64];
        lx_redis *r = fake_start(&f, scripts);
        assert_int_equal(get(r, LONG_MS, text, sizeof text, &err), cases[i].status);
        assert_true(err.text[0] != '\0');
        assert_int_equal(get(r, LONG_MS, text, sizeof text, &err), LX_OK);
        assert_string_equal(text, "ok");
        fake_stop(&f, r);
    }
}

/* The server closes after each reply, as one that was restarted has: the command is sent again. */
static void test_closed_connection_is_replaced(void **state)
{
    (void)state;
    static const char *const scripts[] = {":7\r\n$1\r\na\r\n", ":7\r\n$1\r\nb\r\n",
                                          ":7\r\n$1\r\nc\r\n", NULL};
    fake f;
    lx_redis *r = fake_start(&f, scripts);
    for (int i = 0; i < 3; i++) {
        char text[8];
        lx_error err = {0};
        assert_int_equal(get(r, LONG_MS, text, sizeof text, &err), LX_OK);
        assert_int_equal(text[0], 'a' + i);
    }
    fake_stop(&f, r);
}

/* No answer, or one that does not end: the deadline ends it, and no byte of it reaches the next. */
static void test_silence_ends_at_the_deadline(void **state)
{
    (void)state;
    static const char *const scripts[] = {"~", ":7\r\n$9\r\nhalf~", ":7\r\n$2\r\nok\r\n", NULL};
    fake f;
    char text[64];
    lx_redis *r = fake_start(&f, scripts);
    for (int i = 0; i < 2; i++) {
        lx_error err = {0};
        int64_t start = lx_now_ns();
        assert_int_equal(get(r, SHORT_MS, text, sizeof text, &err), LX_ERR_UNAVAILABLE);
        assert_true(lx_now_ns() - start >= (SHORT_MS - 1) * LX_NS_PER_MS);
        assert_non_null(strstr(err.text, "in time"));
    }
    assert_int_equal(get(r, LONG_MS, text, sizeof text, NULL), LX_OK);
    assert_string_equal(text, "ok");
    fake_stop(&f, r);
}

/* A state of many bytes may take longer than a short command, as long as its bytes move. */
static void test_time_grows_with_the_bytes(void **state)
{
    (void)state;
    enum { BYTES = 16 << 20, AROUND = 64 }; /* and the command's other words */
    static const char *const scripts[] = {"+OK\r\n", NULL};
    fake f;
    lx_error err = {0};
    char *bytes = calloc(1, BYTES);
    assert_non_null(bytes);
    lx_redis *r = fake_start(&f, scripts);
    f.slow_bytes = BYTES + AROUND / 2; /* before anything connects */
    int64_t start = lx_now_ns();
    lx_status st = lx_redis_set(r, "k", bytes, BYTES, LONG_MS, in_ms(SHORT_MS), &err);
    if (st != LX_OK)
        fail_msg("%s", err.text);
    assert_true(lx_now_ns() - start > 2 * SHORT_MS * LX_NS_PER_MS);
    fake_stop(&f, r);
    free(bytes);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    fake f;
    lx_redis *r = fake_start(&f, none);
    (void)pthread_join(f.thread, NULL);
    (void)close(f.listener);
    lx_error err = {0};
    assert_int_equal(lx_redis_ping(r, in_ms(LONG_MS), &err), LX_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "refused"));
    assert_int_equal(lx_redis_ping(r, lx_now_ns(), &err), LX_ERR_UNAVAILABLE);
    lx_redis_free(r);
}

static void test_refused_password_is_said(void **state)
{
    (void)state;
    static const char *const scripts[] = {"-WRONGPASS invalid username-password pair\r\n", NULL};
    fake f;
    lx_redis_free(fake_start(&f, scripts));
    lx_redis_url url = {.host = "127.0.0.1", .port = f.port, .password = "secret", .db = 1};
    lx_redis *r = NULL;
    lx_error err = {0};
    assert_int_equal(lx_redis_new(&url, &r, &err), LX_OK);
    assert_int_equal(lx_redis_ping(r, in_ms(LONG_MS), &err), LX_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "WRONGPASS"));
    assert_null(strstr(err.text, "secret"));
    fake_stop(&f, r);
}

static void test_failing_allocation(void **state)
{
    (void)state;
    lx_redis_url url = {.host = "127.0.0.1", .port = 1};
    lx_redis *r = NULL;
    lx_error err = {0};
    failing_arm(1);
    lx_status st = lx_redis_new(&url, &r, &err);
    assert_int_equal(failing_hit(), 1);
    assert_int_equal(st, LX_ERR_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_urls),
        cmocka_unit_test(test_passwords_from_elsewhere),
        cmocka_unit_test(test_passwords_are_hidden),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_tls_is_refused_by_name),
        cmocka_unit_test(test_long_parts),
        cmocka_unit_test(test_unusable_replies),
        cmocka_unit_test(test_closed_connection_is_replaced),
        cmocka_unit_test(test_silence_ends_at_the_deadline),
        cmocka_unit_test(test_time_grows_with_the_bytes),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_refused_password_is_said),
        cmocka_unit_test(test_failing_allocation),
    };
    (void)signal(SIGPIPE, SIG_IGN); /* as the server does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
