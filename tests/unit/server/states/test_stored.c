/* Stored responses as bytes: what is written is read, and no changed or cut byte passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/states/stored.h"

static const char answer[] = "{\"id\":\"resp_1\"}", items[] = "{\"a\":1}{\"bcd\":2}",
                  rest[] = "state";
static const uint32_t item_bytes[] = {7, 9};

/* A response with its state after it. */
static void write_one(lx_buffer *out)
{
    lx_stored s = {.n_kept = 5,
                   .tail = "ab",
                   .tail_bytes = 2,
                   .instructions_sum = 7,
                   .instructions_bytes = 9,
                   .answer = answer,
                   .answer_bytes = sizeof answer - 1,
                   .items = items,
                   .items_bytes = sizeof items - 1,
                   .item_bytes = item_bytes,
                   .n_items = 2};
    lx_buffer_init(out, 4096);
    lx_stored_write(&s, out);
    assert_int_equal(out->length % 8, 0);
    lx_buffer_append(out, rest, sizeof rest);
    assert_int_equal(out->status, LX_OK);
}

static void a_response_is_read_as_it_was_written(void **state)
{
    (void)state;
    lx_buffer b;
    lx_stored s;
    write_one(&b);
    assert_true(lx_stored_begins(b.data, b.length));
    assert_int_equal(lx_stored_read(b.data, b.length, &s, NULL), LX_OK);
    assert_int_equal(s.n_kept, 5);
    assert_int_equal(s.tail_bytes, 2);
    assert_memory_equal(s.tail, "ab", 2);
    assert_int_equal(s.instructions_sum, 7);
    assert_int_equal(s.instructions_bytes, 9);
    assert_int_equal(s.answer_bytes, sizeof answer - 1);
    assert_memory_equal(s.answer, answer, s.answer_bytes);
    assert_int_equal(s.items_bytes, sizeof items - 1);
    assert_memory_equal(s.items, items, s.items_bytes);
    assert_int_equal(s.n_items, 2);
    assert_memory_equal(s.item_bytes, item_bytes, sizeof item_bytes);
    assert_int_equal(s.state_bytes, sizeof rest);
    assert_string_equal(s.state, rest);
    lx_buffer_fini(&b);
}

static void every_changed_byte_is_refused(void **state)
{
    (void)state;
    lx_buffer b;
    lx_stored s;
    write_one(&b);
    for (size_t i = 0; i < b.length - sizeof rest; i++) {
        b.data[i] = (char)(b.data[i] ^ 0x41);
        assert_int_equal(lx_stored_read(b.data, b.length, &s, NULL), LX_ERR_INVALID);
        b.data[i] = (char)(b.data[i] ^ 0x41);
    }
    lx_buffer_fini(&b);
}

static void a_cut_is_refused(void **state)
{
    (void)state;
    lx_buffer b;
    lx_stored s;
    write_one(&b);
    for (size_t n = 0; n < b.length - sizeof rest; n++) {
        char *cut = malloc(n + 1); /* its end is that of a block, which sanitizers watch */
        memcpy(cut, b.data, n);
        lx_error err = {0};
        assert_int_equal(lx_stored_read(cut, n, &s, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, "state");
        free(cut);
    }
    lx_buffer_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_is_read_as_it_was_written),
        cmocka_unit_test(every_changed_byte_is_refused),
        cmocka_unit_test(a_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
