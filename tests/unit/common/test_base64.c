/* Base64: the vectors of RFC 4648, every length, and texts that a strict decoder refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base64.h"
#include "tests/support/failing.h"

static const char *const vectors[][2] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        lx_buffer b;
        lx_buffer_init(&b, 100);
        lx_base64_append(vectors[i][0], strlen(vectors[i][0]), &b);
        assert_string_equal(b.data, vectors[i][1]);
        uint8_t *bytes = NULL;
        size_t n = 99;
        lx_error err = {0};
        assert_int_equal(lx_base64_decode(b.data, b.length, "image", &bytes, &n, &err), LX_OK);
        assert_int_equal(n, strlen(vectors[i][0]));
        assert_memory_equal(bytes, vectors[i][0], n);
        free(bytes);
        lx_buffer_fini(&b);
    }
}

static void test_every_length_and_byte_comes_back(void **state)
{
    (void)state;
    enum { N = 3000 };
    static uint8_t data[N];
    for (size_t i = 0; i < N; i++)
        data[i] = (uint8_t)(i * 167 + i / 256);
    for (size_t length = 0; length <= N; length += length < 20 ? 1 : 331) {
        lx_buffer b;
        lx_buffer_init(&b, 2 * N);
        lx_base64_append(data, length, &b);
        assert_int_equal(b.length, (length + 2) / 3 * 4);
        uint8_t *bytes = NULL;
        size_t n = 0;
        assert_int_equal(lx_base64_decode(b.data, b.length, "image", &bytes, &n, NULL), LX_OK);
        assert_int_equal(n, length);
        assert_memory_equal(bytes, data, n);
        free(bytes);
        lx_buffer_fini(&b);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Z",         "Zg",   "Zg=",  "Zm9v=",    "====",     "Z===",
        "Zg=a",      "Z=g=", "Zh==", "Zm9=",     "Zm-v",     "Zm_v",
        "Zm9v\nZ",   "Zm9 ", " Zm9", "Zg==Zg==", "Zm9v====", "\xff\xff\xff\xff",
        "Zm9vZg=\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint8_t *bytes = NULL;
        size_t n = 0;
        lx_error err = {0};
        assert_int_equal(lx_base64_decode(texts[i], strlen(texts[i]), "mask", &bytes, &n, &err),
                         LX_ERR_INVALID);
        assert_string_equal(err.param, "mask");
        assert_null(bytes);
    }
}

static void test_a_nul_is_no_character(void **state)
{
    (void)state;
    uint8_t *bytes = NULL;
    size_t n = 0;
    assert_int_equal(lx_base64_decode("Zm\0v", 4, "image", &bytes, &n, NULL), LX_ERR_INVALID);
}

static void test_lost_memory(void **state)
{
    (void)state;
    uint8_t *bytes = NULL;
    size_t n = 0;
    lx_error err = {0};
    failing_arm(1);
    lx_status st = lx_base64_decode("Zm9v", 4, "image", &bytes, &n, &err);
    assert_true(failing_hit());
    assert_int_equal(st, LX_ERR_NO_MEMORY);
    assert_null(bytes);
}

static void test_a_full_buffer_is_noticed(void **state)
{
    (void)state;
    static const uint8_t data[3000];
    lx_buffer b;
    lx_buffer_init(&b, 2000);
    lx_base64_append(data, sizeof data, &b);
    assert_int_equal(b.status, LX_ERR_TOO_LARGE);
    lx_buffer_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),     cmocka_unit_test(test_every_length_and_byte_comes_back),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_a_nul_is_no_character),
        cmocka_unit_test(test_lost_memory), cmocka_unit_test(test_a_full_buffer_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
