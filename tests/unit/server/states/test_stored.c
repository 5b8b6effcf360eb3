/* Stored responses and conversations as bytes: a reader gets the written fields, and refuses every
   changed or cut byte. */
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

/* An object with its state after it. */
static void write_one(lx_stored_kind kind, lx_buffer *out)
{
    lx_stored s = {.kind = kind,
                   .n_read = kind == LX_STORED_CONVERSATION,
                   .n_kept = 5,
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

static void check_reading(lx_stored_kind kind)
{
    lx_buffer b;
    lx_stored s;
    write_one(kind, &b);
    assert_int_equal(lx_stored_kind_of(b.data, b.length), kind);
    assert_int_equal(lx_stored_read(b.data, b.length, &s, NULL), LX_OK);
    assert_int_equal(s.kind, kind);
    assert_int_equal(s.n_read, kind == LX_STORED_CONVERSATION);
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

static void an_object_is_read_as_it_was_written(void **state)
{
    (void)state;
    check_reading(LX_STORED_RESPONSE);
    check_reading(LX_STORED_CONVERSATION);
}

static void check_changes(lx_stored_kind kind)
{
    lx_buffer b;
    lx_stored s;
    write_one(kind, &b);
    for (size_t i = 0; i < b.length - sizeof rest; i++) {
        b.data[i] = (char)(b.data[i] ^ 0x41);
        assert_int_equal(lx_stored_read(b.data, b.length, &s, NULL), LX_ERR_INVALID);
        b.data[i] = (char)(b.data[i] ^ 0x41);
    }
    lx_buffer_fini(&b);
}

static void every_changed_byte_is_refused(void **state)
{
    (void)state;
    check_changes(LX_STORED_RESPONSE);
    check_changes(LX_STORED_CONVERSATION);
}

static void check_cuts(lx_stored_kind kind)
{
    lx_buffer b;
    lx_stored s;
    write_one(kind, &b);
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

static void a_cut_is_refused(void **state)
{
    (void)state;
    check_cuts(LX_STORED_RESPONSE);
    check_cuts(LX_STORED_CONVERSATION);
}

/* A state cannot have read more items than there are. */
static void too_many_read_items_are_refused(void **state)
{
    (void)state;
    lx_buffer b;
    lx_stored s = {.kind = LX_STORED_CONVERSATION, .n_read = 1, .answer = answer};
    lx_buffer_init(&b, 4096);
    lx_stored_write(&s, &b);
    assert_int_equal(lx_stored_read(b.data, b.length, &s, NULL), LX_ERR_INVALID);
    lx_buffer_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_read_as_it_was_written),
        cmocka_unit_test(every_changed_byte_is_refused),
        cmocka_unit_test(a_cut_is_refused),
        cmocka_unit_test(too_many_read_items_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
