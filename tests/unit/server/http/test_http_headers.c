/* Request framing: requests that are refused before a body is read, and proper requests that
   pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/headers.h"

static const lx_body_limit most = {1000, "max-body"};

typedef struct framing_case {
    const char *what;
    const char *method, *version;
    const char *headers[6][2]; /* name, value; ended by NULL */
    int status;                /* 0: accepted */
    const char *param;
} framing_case;

static const framing_case cases[] = {
    {"plain GET", "GET", "HTTP/1.1", {{"Host", "x"}}, 0, ""},
    {"HTTP/1.0 needs no host", "GET", "HTTP/1.0", {{NULL}}, 0, ""},
    {"length", "POST", "HTTP/1.1", {{"Host", "x"}, {"Content-Length", "1000"}}, 0, ""},
    {"chunked", "POST", "HTTP/1.1", {{"Host", "x"}, {"transfer-encoding", "Chunked"}}, 0, ""},
    {"coded",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Encoding", "GZIP"}, {"Content-Length", "4"}},
     415,
     "Content-Encoding"},
    {"coded in chunks",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"content-encoding", "br, zstd"}, {"Transfer-Encoding", "chunked"}},
     415,
     "Content-Encoding"},
    {"identity",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Encoding", "Identity"}, {"Content-Length", "4"}},
     0,
     ""},
    {"coded, and empty", "GET", "HTTP/1.1", {{"Host", "x"}, {"Content-Encoding", "gzip"}}, 0, ""},
    {"tab in a value", "GET", "HTTP/1.1", {{"Host", "x"}, {"X-A", "a\tb"}}, 0, ""},
    {"no host", "GET", "HTTP/1.1", {{NULL}}, 400, "Host"},
    {"two hosts", "GET", "HTTP/1.1", {{"Host", "x"}, {"HOST", "x"}}, 400, "Host"},
    {"two hosts in 1.0", "GET", "HTTP/1.0", {{"Host", "x"}, {"Host", "y"}}, 400, "Host"},
    {"length over the limit",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Length", "1001"}},
     413,
     "body"},
    {"length twice",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Length", "4"}, {"content-length", "4"}},
     400,
     "Content-Length"},
    {"list of lengths",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Length", "4, 4"}},
     400,
     "Content-Length"},
    {"empty length",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Length", ""}},
     400,
     "Content-Length"},
    {"signed length",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Length", "+4"}},
     400,
     "Content-Length"},
    {"length beyond 64 bits",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Length", "18446744073709551620"}},
     400,
     "Content-Length"},
    {"both",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Length", "4"}, {"Transfer-Encoding", "chunked"}},
     400,
     "Content-Length"},
    {"unknown encoding",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Transfer-Encoding", "gzip"}},
     400,
     "Transfer-Encoding"},
    {"list of encodings",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Transfer-Encoding", "chunked, gzip"}},
     400,
     "Transfer-Encoding"},
    {"chunked twice",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
     400,
     "Transfer-Encoding"},
    {"space before the colon",
     "POST",
     "HTTP/1.1",
     {{"Host", "x"}, {"Content-Length ", "4"}},
     400,
     "headers"},
    {"empty name", "GET", "HTTP/1.1", {{"Host", "x"}, {"", "4"}}, 400, "headers"},
    {"control character", "GET", "HTTP/1.1", {{"Host", "x"}, {"X-A", "a\x0b"}}, 400, "headers"},
    {"method with a space", "GE T", "HTTP/1.1", {{"Host", "x"}}, 400, "method"},
    {"endless method", "GETGETGETGETGETGET", "HTTP/1.1", {{"Host", "x"}}, 400, "method"},
    {"other version", "GET", "HTTP/2.0", {{"Host", "x"}}, 505, "version"},
};

static void test_framing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const framing_case *c = &cases[i];
        lx_header_check check;
        lx_header_check_begin(&check, c->method, c->version);
        for (int h = 0; h < 6 && c->headers[h][0] != NULL; h++)
            lx_header_check_add(&check, c->headers[h][0], strlen(c->headers[h][0]),
                                c->headers[h][1], strlen(c->headers[h][1]));
        int status = lx_header_check_end(&check, most);
        if (status != c->status || strcmp(check.error.param, c->param) != 0)
            fail_msg("%s: status %d param \"%s\", expected %d \"%s\"", c->what, status,
                     check.error.param, c->status, c->param);
        assert_int_equal(c->status != 0, check.error.text[0] != '\0');
    }
}

static bool takes_uploads(const char *method, const char *path)
{
    return strcmp(method, "POST") == 0 && strcmp(path, "/up") == 0;
}

static void test_a_limit_is_that_of_method_path_and_type(void **state)
{
    (void)state;
    lx_body_limits l = {
        .body = most, .upload = {2000, "max-upload"}, .takes_uploads = takes_uploads};
    assert_string_equal(lx_body_limit_of(&l, "POST", "/up", true).flag, "max-upload");
    assert_int_equal(lx_body_limit_of(&l, "POST", "/up", true).bytes, 2000);
    assert_string_equal(lx_body_limit_of(&l, "POST", "/up", false).flag, "max-body");
    assert_int_equal(lx_body_limit_of(&l, "PUT", "/up", true).bytes, 1000);
    assert_int_equal(lx_body_limit_of(&l, "POST", "/", true).bytes, 1000);
    l.takes_uploads = NULL;
    assert_int_equal(lx_body_limit_of(&l, "POST", "/up", true).bytes, 1000);
}

static void test_a_form_is_one_by_its_only_type(void **state)
{
    (void)state;
    static const struct {
        const char *types[3];
        bool is_form;
    } heads[] = {{{NULL}, false},
                 {{"multipart/form-data"}, true},
                 {{"Multipart/Form-Data; boundary=x"}, true},
                 {{"multipart/form-data\t;boundary=x"}, true},
                 {{"multipart/form-dat"}, false},
                 {{"multipart/form-data2"}, false},
                 {{"application/json"}, false},
                 {{"multipart/form-data", "application/json"}, false},
                 {{"application/json", "multipart/form-data"}, false},
                 {{"multipart/form-data", "multipart/form-data"}, false}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        lx_header_check check;
        lx_header_check_begin(&check, "POST", "HTTP/1.1");
        for (int t = 0; t < 3 && heads[i].types[t] != NULL; t++)
            lx_header_check_add(&check, "content-Type", 12, heads[i].types[t],
                                strlen(heads[i].types[t]));
        bool once = heads[i].types[1] == NULL;
        if ((once && check.is_form != heads[i].is_form) || (check.fault == 400) == once)
            fail_msg("head %zu", i);
    }
}

static void test_a_large_body_is_refused_with_its_limit(void **state)
{
    (void)state;
    lx_header_check check;
    lx_header_check_begin(&check, "POST", "HTTP/1.0");
    lx_header_check_add(&check, "Content-Length", 14, "1001", 4);
    assert_int_equal(lx_header_check_end(&check, most), 413);
    assert_string_equal(check.error.text,
                        "the body has 1001 bytes, more than the 1000 allowed (--max-body)");
}

static void test_nul_in_a_value_is_refused(void **state)
{
    (void)state;
    lx_header_check check;
    lx_header_check_begin(&check, "GET", "HTTP/1.1");
    lx_header_check_add(&check, "Host", 4, "x\0y", 3);
    assert_int_equal(lx_header_check_end(&check, most), 400);
}

static void test_number_of_headers_is_limited(void **state)
{
    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        lx_header_check check;
        lx_header_check_begin(&check, "GET", "HTTP/1.1");
        lx_header_check_add(&check, "Host", 4, "x", 1);
        for (int i = 1; i < LX_MAX_REQUEST_HEADERS + extra; i++)
            lx_header_check_add(&check, "A", 1, "b", 1);
        assert_int_equal(lx_header_check_end(&check, most), extra ? 431 : 0);
    }
}

static void test_traces(void **state)
{
    (void)state;
#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
    static const char *const good[] = {"00-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-00",
                                       "cc-" TRACE "-" PARENT "-01",
                                       "cc-" TRACE "-" PARENT "-01-what-comes-later"};
    static const char *const bad[] = {
        "",
        "00",
        "00-" TRACE "-" PARENT,
        "00-" TRACE "-" PARENT "-1",
        "00-" TRACE "-" PARENT "-0x",
        "00-" TRACE "-" PARENT "-01-more",
        "00-" TRACE "-" PARENT "-011",
        "cc-" TRACE "-" PARENT "-01.more",
        "ff-" TRACE "-" PARENT "-01",
        "0-" TRACE "-" PARENT "-011",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473\n-" PARENT "-01",
        "00_" TRACE "_" PARENT "_01",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char id[LX_TRACE_ID + 1] = "poison";
        assert_true(lx_trace_id_read(good[i], id));
        assert_string_equal(id, TRACE);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char id[LX_TRACE_ID + 1] = "poison";
        assert_false(lx_trace_id_read(bad[i], id));
        assert_string_equal(id, "poison");
    }
}

static void test_request_ids(void **state)
{
    (void)state;
    char longest[66];
    memset(longest, 'a', sizeof longest - 1);
    longest[65] = '\0';
    assert_true(lx_request_id_ok("abc-DEF_1.2"));
    assert_true(lx_request_id_ok(longest + 1));
    assert_false(lx_request_id_ok(longest));
    assert_false(lx_request_id_ok(""));
    assert_false(lx_request_id_ok("a b"));
    assert_false(lx_request_id_ok("a\r\nSet-Cookie: x"));
    assert_false(lx_request_id_ok("<script>"));
    assert_false(lx_request_id_ok("a+b"));
}

static void test_the_quality_of_a_type(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        int quality;
    } heads[] = {{"", 0},
                 {"*/*", 0},
                 {"a/b", 1000},
                 {"A/B", 1000},
                 {"a/bc", 0},
                 {"a/b;q=0", 0},
                 {"a/b ; Q=0.000", 0},
                 {"a/b;q=0.5", 500},
                 {"a/b;q=0.1234", 123},
                 {"a/b;q=1.0", 1000},
                 {"a/b;q=", 0},
                 {"a/b;v=2;q=0.25, c/d", 250},
                 {"c/d;q=0.5, a/b", 1000},
                 {"c/d;q=0.5,,\ta/b\t;q=0.7", 700},
                 {"c/d;a/b", 0},
                 {"a/b;", 1000}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (lx_accept_quality(heads[i].accept, "a/b") != heads[i].quality)
            fail_msg("\"%s\": %d", heads[i].accept, lx_accept_quality(heads[i].accept, "a/b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framing),
        cmocka_unit_test(test_a_limit_is_that_of_method_path_and_type),
        cmocka_unit_test(test_a_form_is_one_by_its_only_type),
        cmocka_unit_test(test_a_large_body_is_refused_with_its_limit),
        cmocka_unit_test(test_nul_in_a_value_is_refused),
        cmocka_unit_test(test_the_quality_of_a_type),
        cmocka_unit_test(test_number_of_headers_is_limited),
        cmocka_unit_test(test_request_ids),
        cmocka_unit_test(test_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
