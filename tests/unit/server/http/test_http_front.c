/* Requests of clients as the HTTP library gets them: plain, or refused; whole and in single
   bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/front.h"

enum { ROOM = 128 * 1024 };

static bool takes_uploads(const char *method, const char *path)
{
    return strcmp(method, "POST") == 0 && strcmp(path, "/up") == 0;
}

static const lx_body_limits limits = {
    .body = {1000, "max-body"}, .upload = {2000, "max-upload"}, .takes_uploads = takes_uploads};

#define POST "POST /x HTTP/1.1\r\nHost: h\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define UPLOAD(target, type, length)                                                               \
    "POST " target " HTTP/1.1\r\nHost: h\r\nContent-Type: " type "\r\nContent-Length: " length     \
    "\r\n\r\n"
#define FORM "multipart/form-data; boundary=x"
#define STAND_IN_UP "POST /up HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n"
#define STAND_IN "POST /x HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n"

#define ORIGIN_STAND_IN                                                                            \
    "POST /x HTTP/1.1\r\nOrigin: https://a\r\nHost: -\r\nConnection: close\r\n\r\n"

typedef struct front_case {
    const char *what, *in;
    size_t n;        /* 0: to the NUL */
    const char *out; /* NULL: as it came in */
    int fault;       /* of the last request */
    const char *param;
    int requests;
} front_case;

static const front_case cases[] = {
    {"GET", "GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n", 0, NULL, 0, "", 1},
    {"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", 0, NULL, 0, "", 1},
    {"part of a head", "GET / HTTP/1.1\r\nHost: h\r\n", 0, "", 0, "", 0},
    {"two requests", POST "\r\n" POST "\r\n", 0, NULL, 0, "", 2},
    {"empty lines before", "\r\n\r\nGET / HTTP/1.0\r\n\r\n", 0, "GET / HTTP/1.0\r\n\r\n", 0, "", 1},
    {"body by length", POST "Content-Length: 3\r\n\r\nabc" POST "\r\n", 0, NULL, 0, "", 2},
    {"white space around values",
     "GET / HTTP/1.1\r\nHost:h\r\nAuthorization:\t Bearer k \t\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n\r\n", 0, "", 1},
    {"white space after a length", POST "Content-Length: 3 \t\r\n\r\nabc", 0,
     POST "Content-Length: 3\r\n\r\nabc", 0, "", 1},
    {"headers without a use", "GET / HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nUpgrade: h2c\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, "", 1},
    {"chunks", CHUNKED "2;a=b\r\nab\r\n0003\r\ncde\r\n0\r\n\r\n", 0,
     CHUNKED "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n", 0, "", 1},
    {"trailer", CHUNKED "1\r\na\r\n00\r\nA: b\r\n\r\n" POST "\r\n", 0,
     CHUNKED "1\r\na\r\n0\r\n\r\n" POST "\r\n", 0, "", 2},
    {"absolute target", "GET http://a:80/b?c HTTP/1.1\r\nHost: h\r\n\r\n", 0,
     "GET /b?c HTTP/1.1\r\nHost: a:80\r\n\r\n", 0, "", 1},
    {"absolute target without a path", "GET HTTPS://a?c HTTP/1.1\r\nHost: h\r\n\r\n", 0,
     "GET /?c HTTP/1.1\r\nHost: a\r\n\r\n", 0, "", 1},
    {"absolute target alone", "GET http://a HTTP/1.0\r\n\r\n", 0,
     "GET / HTTP/1.0\r\nHost: a\r\n\r\n", 0, "", 1},
    {"star", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 0, NULL, 0, "", 1},

    {"five empty lines before", "\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", 400, "request", 1},
    {"folded header", POST "Transfer-Enc: chunked\r\n oding\r\n\r\n", 0, STAND_IN, 400, "headers",
     1},
    {"folded by a tab", POST "A: b\r\n\tc\r\n\r\n", 0, STAND_IN, 400, "headers", 1},
    {"folded first header", "GET / HTTP/1.1\r\n A: b\r\nHost: h\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", 400, "headers", 1},
    {"NUL in a value", POST "A: b\0c\r\n\r\n", sizeof(POST "A: b\0c\r\n\r\n") - 1, STAND_IN, 400,
     "headers", 1},
    {"NUL in a name", POST "A\0: b\r\n\r\n", sizeof(POST "A\0: b\r\n\r\n") - 1, STAND_IN, 400,
     "headers", 1},
    {"NUL in the target", "GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n",
     sizeof("GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n") - 1,
     "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", 400, "request", 1},
    {"bare CR in a value", POST "A: b\rc\r\n\r\n", 0, STAND_IN, 400, "headers", 1},
    {"bare LF", POST "A: b\n", 0, STAND_IN, 400, "request", 1},
    {"bare LF after the head", POST "A: b\r\n\n", 0, STAND_IN, 400, "request", 1},
    {"space before the colon", POST "Content-Length : 3\r\n\r\nabc", 0, STAND_IN, 400, "headers",
     1},
    {"no colon", POST "nonsense\r\n\r\n", 0, STAND_IN, 400, "headers", 1},
    {"two spaces", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", 400, "request", 1},
    {"target without a slash", "GET x HTTP/1.1\r\nHost: h\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", 400, "request", 1},
    {"user in the target", "GET http://u@a/ HTTP/1.1\r\nHost: h\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", 400, "request", 1},
    {"chunks in HTTP/1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", 400, "Transfer-Encoding", 1},
    {"absolute target without Host", "GET http://a/ HTTP/1.1\r\n\r\n", 0,
     "GET / HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", 400, "Host", 1},
    {"second request", POST "\r\n" POST "A\r\n\r\n" POST "\r\n", 0, POST "\r\n" STAND_IN, 400,
     "headers", 2},
    {"body over the limit", POST "Content-Length: 1001\r\n\r\n", 0, STAND_IN, 413, "body", 1},
    {"upload", UPLOAD("/up", FORM, "2000"), 0, NULL, 0, "", 1},
    {"upload with a query", UPLOAD("/up?a=b", FORM, "2000"), 0, NULL, 0, "", 1},
    {"upload over the limit", UPLOAD("/up", FORM, "2001"), 0, STAND_IN_UP, 413, "body", 1},
    {"JSON where uploads go", UPLOAD("/up", "application/json", "1001"), 0, STAND_IN_UP, 413,
     "body", 1},
    {"form where none go", UPLOAD("/x", FORM, "1001"), 0, STAND_IN, 413, "body", 1},
    {"form and JSON", UPLOAD("/up", FORM "\r\nContent-Type: application/json", "1001"), 0,
     STAND_IN_UP, 400, "Content-Type", 1},

    {"refused with an origin", POST "Origin:  https://a \t\r\nContent-Length: 1001\r\n\r\n", 0,
     ORIGIN_STAND_IN, 413, "body", 1},
    {"origin in a body", POST "Content-Length: 1001\r\n\r\nOrigin: https://a\r\n", 0, STAND_IN, 413,
     "body", 1},
    {"two origins", POST "Origin: https://a\r\nOrigin: https://a\r\n\r\n", 0, STAND_IN, 400,
     "Origin", 1},
    {"folded origin", POST "Origin: https://a\r\n b\r\n\r\n", 0, ORIGIN_STAND_IN, 400, "headers",
     1},
    {"control character in an origin", POST "Origin: a\rb\r\n\r\n", 0, STAND_IN, 400, "headers", 1},

    {"chunk line by bare LF", CHUNKED "2\nab\r\n0\r\n\r\n", 0, CHUNKED "0\r\n\r\n", 400, "body", 1},
    {"extension by bare LF", CHUNKED "2;a\nab\r\n0\r\n\r\n", 0, CHUNKED "0\r\n\r\n", 400, "body",
     1},
    {"chunk's data by bare LF", CHUNKED "2\r\nab\n0\r\n\r\n", 0, CHUNKED "2\r\nab\r\n0\r\n\r\n",
     400, "body", 1},
    {"chunk's data too long", CHUNKED "2\r\nabc\r\n0\r\n\r\n", 0, CHUNKED "2\r\nab\r\n0\r\n\r\n",
     400, "body", 1},
    {"size that is none", CHUNKED "x\r\n", 0, CHUNKED "0\r\n\r\n", 400, "body", 1},
    {"no size", CHUNKED ";a\r\n", 0, CHUNKED "0\r\n\r\n", 400, "body", 1},
    {"signed size", CHUNKED "+2\r\nab\r\n", 0, CHUNKED "0\r\n\r\n", 400, "body", 1},
    {"size beyond 60 bits", CHUNKED "1000000000000000\r\n", 0, CHUNKED "0\r\n\r\n", 400, "body", 1},
    {"NUL in an extension", CHUNKED "1;\0\r\na\r\n", sizeof(CHUNKED "1;\0\r\na\r\n") - 1,
     CHUNKED "0\r\n\r\n", 400, "body", 1},
    {"folded trailer", CHUNKED "0\r\nA: b\r\n c\r\n\r\n", 0, CHUNKED "0\r\n\r\n", 400, "headers",
     1},
    {"trailer by bare LF", CHUNKED "0\r\nA: b\n\r\n", 0, CHUNKED "0\r\n\r\n", 400, "headers", 1},
};

/* The whole case in blocks; returns the output. */
static size_t run(lx_front *f, const char *in, size_t n, size_t block, char *out)
{
    size_t got = 0;
    lx_front_init(f, &limits);
    for (size_t at = 0; at < n; at += block) {
        assert_true(lx_front_add(f, in + at, n - at < block ? n - at : block));
        size_t more = 0;
        while ((more = lx_front_take(f, out + got, 5)) > 0)
            got += more;
    }
    return got;
}

static void check_case(const front_case *c, size_t block, char *out)
{
    lx_front f;
    lx_error err = {0};
    size_t n = c->n != 0 ? c->n : strlen(c->in);
    size_t got = run(&f, c->in, n, block, out);
    const char *wanted = c->out != NULL ? c->out : c->in;
    out[got] = '\0';
    if (strcmp(out, wanted) != 0 || f.n_requests != c->requests || f.fault != c->fault)
        print_error("%s, blocks of %zu:\n%s", c->what, block, out);
    assert_string_equal(out, wanted);
    assert_int_equal(f.n_requests, c->requests);
    assert_int_equal(lx_front_fault(&f, c->requests - 1, &err), c->fault);
    assert_string_equal(err.param, c->param);
    assert_int_equal(lx_front_fault(&f, c->requests, &err), 0);
    assert_int_equal(lx_front_fault(&f, c->requests - 2, &err), 0);
    lx_front_fini(&f);
}

static void what_comes_out(void **state)
{
    (void)state;
    static char out[ROOM];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t block = 1; block <= LX_FRONT_BLOCK; block = block * 3 + 1)
            check_case(&cases[i], block, out);
}

static void long_heads(void **state)
{
    (void)state;
    static char in[ROOM], out[ROOM];
    static const struct {
        const char *begin, *end;
        size_t total;
        int fault;
    } heads[] = {{"GET / HTTP/1.1\r\nHost: h\r\nAccept: ", "\r\n\r\n", LX_HTTP_HEAD_BYTES, 0},
                 {"GET / HTTP/1.1\r\nHost: h\r\nAccept: ", "\r\n\r\n", LX_HTTP_HEAD_BYTES + 1, 431},
                 {"GET / HTTP/1.1\r\nHost: h\r\nAccept: ", "", LX_HTTP_HEAD_BYTES, 431},
                 {"GET /", " HTTP/1.1\r\nHost: h\r\n\r\n", LX_HTTP_HEAD_BYTES, 0},
                 {"GET /", "", LX_HTTP_HEAD_BYTES, 414},
                 {"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;", "\r\n",
                  LX_MAX_CHUNK_LINE + 200, 400},
                 {CHUNKED "0\r\nA: ", "", 2 * LX_HTTP_HEAD_BYTES, 431}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        size_t n = heads[i].total, begin = strlen(heads[i].begin), end = strlen(heads[i].end);
        memset(in, 'a', n);
        memcpy(in, heads[i].begin, begin);
        memcpy(in + n - end, heads[i].end, end);
        for (size_t block = 1; block <= LX_FRONT_BLOCK; block *= 2) {
            lx_front f;
            (void)run(&f, in, n, block, out);
            assert_int_equal(f.fault, heads[i].fault);
            assert_int_equal(f.n_requests, 1);
            lx_front_fini(&f);
        }
    }
}

static void query_arguments(void **state)
{
    (void)state;
    static char out[ROOM];
    for (int n = LX_MAX_QUERY_ARGUMENTS; n <= LX_MAX_QUERY_ARGUMENTS + 1; n++) {
        char in[1024], more[2 * LX_MAX_QUERY_ARGUMENTS + 1] = "";
        for (int i = 1; i < n; i++)
            memcpy(more + 2 * (i - 1), "&a", 3);
        (void)snprintf(in, sizeof in, "GET /x?a%s HTTP/1.1\r\nHost: h\r\n\r\n", more);
        lx_front f;
        size_t got = run(&f, in, strlen(in), LX_FRONT_BLOCK, out);
        out[got] = '\0';
        assert_int_equal(f.fault, n > LX_MAX_QUERY_ARGUMENTS ? 414 : 0);
        if (f.fault != 0)
            assert_string_equal(out, "GET /x HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n");
        lx_front_fini(&f);
    }
}

/* Signs in the path are no arguments, and neither are their escapes, so a request is not refused
   for them. */
static void signs_in_the_path(void **state)
{
    (void)state;
    static char out[ROOM];
    char in[1024], many[4 * LX_MAX_QUERY_ARGUMENTS] = "";
    memset(many, '&', sizeof many - 1);
    (void)snprintf(in, sizeof in, "GET /%s?a&b HTTP/1.1\r\nHost: h\r\n\r\n", many);
    lx_front f;
    size_t got = run(&f, in, strlen(in), LX_FRONT_BLOCK, out);
    assert_int_equal(f.fault, 0);
    assert_int_equal(got, strlen(in));
    assert_memory_equal(out, in, got);
    lx_front_fini(&f);
}

static void nothing_is_held_between_requests(void **state)
{
    (void)state;
    static char out[ROOM];
    const char *in = CHUNKED "2\r\nab\r\n0\r\n\r\n";
    lx_front f;
    (void)run(&f, in, strlen(in), 7, out);
    assert_null(f.in.data);
    assert_null(f.out.data);
    lx_front_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_out),
        cmocka_unit_test(long_heads),
        cmocka_unit_test(query_arguments),
        cmocka_unit_test(signs_in_the_path),
        cmocka_unit_test(nothing_is_held_between_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
