/*
 * States as bytes: a written state is read back, and no truncated, damaged or forged state, nor one
 * made by other weights, gets through.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/crc32c.h"
#include "server/states/blob.h"
#include "tests/support/failing.h"

enum { PAGE = 5, N_FLOATS = 24, FIXED = N_FLOATS - PAGE, CRC_BYTES = 4, MAC_BYTES = 32 };

static const char key[] = "a key";
static const float floats[N_FLOATS] = {1.5f, -2, 3e-38f, 0};
static const int32_t tokens[] = {7, 0, 255};

static const lx_task_ops couplet = {.name = "couplet", .modality = LX_TEXT};
static const lx_model model = {.name = "small",
                               .hash = 0x1234,
                               .task = &couplet,
                               .config = {.n_layers = 2},
                               .max_rows = 30,
                               .state_hash = 0x5678,
                               .state = {.fixed_floats = FIXED, .page_floats = PAGE}};
/* As states were when no kind grew. */
static const lx_model linear = {.name = "small",
                                .hash = 0x1234,
                                .task = &couplet,
                                .config = {.n_layers = 2},
                                .max_rows = 30,
                                .state_hash = 0x5678,
                                .state = {.fixed_floats = N_FLOATS}};

static lx_saved_state example(void)
{
    return (lx_saved_state){
        .model_hash = 0x1234,
        .n_layers = 2,
        .fixed_floats = FIXED,
        .page_floats = PAGE,
        .layout = 0x5678,
        .modality = LX_TEXT,
        .rules = true,
        .request = "海上x",
        .request_bytes = 7,
        .seed = UINT64_MAX - 1,
        .made_by = "linnet-test",
        .start = {.n_tokens = 3, .tokens = tokens, .rows = 7, .state = floats, .first_sample = 4}};
}

static lx_buffer written(const lx_saved_state *s, bool with_key)
{
    lx_buffer b;
    lx_buffer_init(&b, 100000);
    assert_int_equal(lx_state_write(s, with_key ? key : NULL, with_key ? sizeof key : 0, &b, NULL),
                     LX_OK);
    return b;
}

static void assert_round_trip(const lx_saved_state *s, bool with_key)
{
    lx_buffer b = written(s, with_key);
    lx_saved_state got;
    lx_error err;
    const void *k = with_key ? key : NULL;
    assert_int_equal(lx_state_read(b.data, b.length, k, sizeof key, &got, &err), LX_OK);
    assert_int_equal(lx_state_check(&got, &model, &err), LX_OK);
    assert_int_equal(got.request_bytes, s->request_bytes);
    assert_memory_equal(got.request, s->request, s->request_bytes);
    assert_true(got.seed == s->seed);
    assert_string_equal(got.made_by, s->made_by);
    assert_true(got.rules == s->rules);
    assert_int_equal(got.start.n_tokens, s->start.n_tokens);
    assert_memory_equal(got.start.tokens, tokens, (size_t)s->start.n_tokens * sizeof *tokens);
    assert_int_equal(got.start.rows, s->start.rows);
    assert_int_equal(got.start.first_sample, s->start.first_sample);
    assert_true((got.start.state == NULL) == (s->start.rows == 0));
    if (got.start.state != NULL)
        assert_memory_equal(got.start.state, floats, sizeof floats);
    lx_state_fini(&got);
    lx_buffer_fini(&b);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    lx_saved_state s = example();
    assert_round_trip(&s, false);
    assert_round_trip(&s, true);
    for (size_t n = 0; n <= 7; n++) { /* padding */
        s.request_bytes = n;
        assert_round_trip(&s, true);
    }
    s.start.n_tokens = s.start.rows = 0;
    s.start.state = NULL;
    s.rules = false;
    assert_round_trip(&s, false);
}

static lx_status read_status(const void *bytes, size_t n, bool with_key)
{
    lx_saved_state got = {0};
    lx_error err = {0};
    lx_status st = lx_state_read(bytes, n, with_key ? key : NULL, sizeof key, &got, &err);
    if (st == LX_OK)
        lx_state_fini(&got);
    else
        assert_string_equal(err.param, "state");
    return st;
}

static void nothing_changed_gets_through(void **state)
{
    (void)state;
    lx_saved_state s = example();
    for (int with_key = 0; with_key < 2; with_key++) {
        lx_buffer b = written(&s, with_key);
        for (size_t i = 0; i < b.length; i++) {
            b.data[i] = (char)(b.data[i] ^ 1 << i % 8);
            assert_int_equal(read_status(b.data, b.length, with_key), LX_ERR_INVALID);
            b.data[i] = (char)(b.data[i] ^ 1 << i % 8);
        }
        for (size_t n = 0; n < b.length; n++)
            assert_int_equal(read_status(b.data, n, with_key), LX_ERR_INVALID);
        lx_buffer_append(&b, "\0\0\0\0", 4);
        assert_int_equal(read_status(b.data, b.length, with_key), LX_ERR_INVALID);
        lx_buffer_fini(&b);
    }
}

/* An attacker with knowledge of the format changes a number and makes the CRC right again. */
static void a_forged_state_has_no_signature(void **state)
{
    (void)state;
    lx_saved_state s = example();
    lx_buffer b = written(&s, true);
    b.data[32] = (char)(b.data[32] ^ 1);
    size_t end = b.length - MAC_BYTES - CRC_BYTES;
    b.data[end - 1] = (char)(b.data[end - 1] ^ 1);
    uint32_t crc = lx_crc32c(0, b.data, end);
    memcpy(b.data + end, &crc, sizeof crc);
    assert_int_equal(read_status(b.data, b.length, true), LX_ERR_INVALID);
    lx_buffer_fini(&b);
    b = written(&s, false);
    assert_int_equal(read_status(b.data, b.length, true), LX_ERR_INVALID);
    assert_int_equal(read_status(b.data, b.length, false), LX_OK);
    lx_buffer_fini(&b);
    b = written(&s, true); /* a server without a key takes it */
    assert_int_equal(read_status(b.data, b.length, false), LX_OK);
    lx_buffer_fini(&b);
}

/* Every number of the head replaced by extreme ones, with the CRC made right. */
static void sizes_that_lie_are_refused(void **state)
{
    (void)state;
    static const uint64_t values[] = {UINT64_MAX, INT64_MAX, 1ULL << 62, 1ULL << 32, 1ULL << 31, 1};
    lx_saved_state s = example();
    lx_buffer b = written(&s, false);
    for (size_t at = 8; at < 88; at += 4) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char copy[1000];
            memcpy(copy, b.data, b.length);
            memcpy(copy + at, &values[v], at < 56 && at % 8 == 0 ? 8 : 4);
            uint32_t crc = lx_crc32c(0, copy, b.length - CRC_BYTES);
            memcpy(copy + b.length - CRC_BYTES, &crc, sizeof crc);
            lx_saved_state got = {0};
            if (lx_state_read(copy, b.length, NULL, 0, &got, NULL) == LX_OK)
                assert_int_equal(got.start.n_tokens, 3); /* a number that says no size */
            lx_state_fini(&got);
        }
    }
    lx_buffer_fini(&b);
}

/* Fields that the format calls zero: a blob has one form, so no data can hide in it. */
static void zeros_are_zeros(void **state)
{
    (void)state;
    lx_saved_state s = example();
    lx_buffer b = written(&s, false);
    size_t end_of_request = 192 + s.request_bytes;
    assert_true(end_of_request % 4 != 0);
    const size_t places[] = {88 + strlen(s.made_by) + 1, 183, end_of_request};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char copy[1000];
        memcpy(copy, b.data, b.length);
        copy[places[i]] ^= 1;
        uint32_t crc = lx_crc32c(0, copy, b.length - CRC_BYTES);
        memcpy(copy + b.length - CRC_BYTES, &crc, sizeof crc);
        lx_saved_state got = {0};
        lx_error err = {0};
        assert_int_equal(lx_state_read(copy, b.length, NULL, 0, &got, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, "state");
    }
    lx_buffer_fini(&b);
}

/* The bytes that former versions wrote: magic 1, kind 1, and two numbers that were zero. */
static void as_first_version(lx_buffer *b)
{
    const uint32_t kind = 1;
    b->data[7] = '1';
    memcpy(b->data + 56, &kind, sizeof kind);
    memset(b->data + 184, 0, 8);
    uint32_t crc = lx_crc32c(0, b->data, b->length - CRC_BYTES);
    memcpy(b->data + b->length - CRC_BYTES, &crc, sizeof crc);
}

static void the_first_version_is_read(void **state)
{
    (void)state;
    lx_saved_state s = example(), got = {0};
    lx_error err = {0};
    s.fixed_floats = N_FLOATS;
    s.page_floats = 0;
    lx_buffer b = written(&s, false);
    as_first_version(&b);
    assert_int_equal(lx_state_read(b.data, b.length, NULL, 0, &got, &err), LX_OK);
    assert_int_equal(lx_state_check(&got, &linear, &err), LX_OK);
    assert_int_equal(lx_state_check(&got, &model, &err), LX_ERR_INVALID);
    assert_memory_equal(got.start.state, floats, sizeof floats);
    lx_buffer again = written(&got, false); /* of a copy, too */
    lx_state_fini(&got);
    assert_int_equal(again.data[7], '2');
    assert_int_equal(read_status(again.data, again.length, false), LX_OK);
    lx_buffer_fini(&again);
    for (size_t at = 84; at <= 184; at += 100) { /* zeros in this version */
        b.data[at] = 1;
        as_first_version(&b);
        b.data[at] = 1;
        uint32_t crc = lx_crc32c(0, b.data, b.length - CRC_BYTES);
        memcpy(b.data + b.length - CRC_BYTES, &crc, sizeof crc);
        assert_int_equal(read_status(b.data, b.length, false), LX_ERR_INVALID);
        b.data[at] = 0;
    }
    lx_buffer_fini(&b);
}

static lx_status checked(lx_saved_state s)
{
    lx_error err = {0};
    lx_status st = lx_state_check(&s, &model, &err);
    assert_string_equal(err.param, st == LX_OK ? "" : "state");
    return st;
}

static void a_state_fits_its_model_only(void **state)
{
    (void)state;
    const float not_finite[N_FLOATS] = {1, __builtin_nanf("")};
    lx_saved_state s = example();
    assert_int_equal(checked(s), LX_OK);
    s.model_hash++;
    assert_int_equal(checked(s), LX_ERR_INVALID);
    s = example();
    s.n_layers = 3;
    assert_int_equal(checked(s), LX_ERR_INVALID);
    s = example();
    s.fixed_floats--;
    assert_int_equal(checked(s), LX_ERR_INVALID);
    s = example();
    s.page_floats++;
    assert_int_equal(checked(s), LX_ERR_INVALID);
    s = example();
    s.layout++;
    assert_int_equal(checked(s), LX_ERR_INVALID);
    s = example();
    s.start.rows = 31;
    assert_int_equal(checked(s), LX_ERR_INVALID);
    s = example();
    s.modality = LX_IMAGE;
    assert_int_equal(checked(s), LX_ERR_INVALID);
    s = example();
    s.start.state = not_finite;
    assert_int_equal(checked(s), LX_ERR_INVALID);
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    lx_saved_state s = example(), got = {0};
    lx_buffer b = written(&s, false), small;
    failing_arm(1);
    lx_status st = lx_state_read(b.data, b.length, NULL, 0, &got, NULL);
    assert_true(failing_hit());
    assert_int_equal(st, LX_ERR_NO_MEMORY);
    lx_buffer_init(&small, b.length - 1);
    assert_int_equal(lx_state_write(&s, NULL, 0, &small, NULL), LX_ERR_TOO_LARGE);
    lx_buffer_fini(&small);
    lx_buffer_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(nothing_changed_gets_through),
        cmocka_unit_test(a_forged_state_has_no_signature),
        cmocka_unit_test(sizes_that_lie_are_refused),
        cmocka_unit_test(zeros_are_zeros),
        cmocka_unit_test(the_first_version_is_read),
        cmocka_unit_test(a_state_fits_its_model_only),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
