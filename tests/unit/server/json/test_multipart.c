/* multipart/form-data: forms of clients, each way to break them, and damage at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buffer.h"
#include "server/json/forms.h"

static const char type[] = "multipart/form-data; boundary=XyZ";

#define PART(name, value) "--XyZ\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value
#define END "\r\n--XyZ--\r\n"

static lx_status parse(const char *content_type, const char *body, size_t bytes, lx_multipart *m,
                       lx_error *err)
{
    /* a copy of the exact size: reading past its end is an error under AddressSanitizer */
    char *copy = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, body, bytes);
    *err = (lx_error){0};
    lx_status st = lx_multipart_parse(content_type, copy, bytes, m, err);
    if (st == LX_OK) { /* seen through the caller's body, which lives on */
        for (int32_t i = 0; i < m->n; i++)
            m->parts[i].data = body + (m->parts[i].data - copy);
    }
    free(copy);
    return st;
}

static void check_part(const lx_part *p, const char *name, const char *value, size_t bytes,
                       bool is_file)
{
    assert_string_equal(p->name, name);
    assert_int_equal(p->bytes, bytes);
    assert_memory_equal(p->data, value, bytes);
    assert_int_equal(p->is_file, is_file);
}

static void test_fields_and_files(void **state)
{
    (void)state;
    static const char body[] =
        PART("n", "3") "\r\n" PART("prompt", "") "\r\n"
                                                 "--XyZ\r\n"
                                                 "content-disposition:form-data; "
                                                 "filename=\"a;b.png\"; name=\"image\"\r\n"
                                                 "Content-Type: image/png\r\n"
                                                 "Content-Transfer-Encoding: binary\r\n\r\n"
                                                 "\x89PNG\r\n\0\r\n--Xy\r\n" END;
    lx_multipart m;
    lx_error err;
    assert_int_equal(parse(type, body, sizeof body - 1, &m, &err), LX_OK);
    assert_int_equal(m.n, 3);
    check_part(&m.parts[0], "n", "3", 1, false);
    check_part(&m.parts[1], "prompt", "", 0, false);
    check_part(&m.parts[2], "image", "\x89PNG\r\n\0\r\n--Xy\r\n", 15, true);
}

static void test_no_part(void **state)
{
    (void)state;
    lx_multipart m;
    lx_error err;
    assert_int_equal(parse(type, "--XyZ--\r\n", 9, &m, &err), LX_OK);
    assert_int_equal(m.n, 0);
}

static void test_content_types(void **state)
{
    (void)state;
    static const char body[] = PART("n", "3") END;
    static const char *const good[] = {
        "multipart/form-data; boundary=XyZ",
        "multipart/form-data;boundary=\"XyZ\"",
        "Multipart/Form-Data; charset=utf-8; BOUNDARY=XyZ",
        "multipart/form-data; boundary=XyZ;",
    };
    static const char *const bad[] = {
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"XyZ",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data boundary=XyZ",
        "multipart/form-data; boundary=XyZ; boundary=ABC",
        "multipart/form-data; boundary=X\x01Z",
        "multipart/form-data; boundary=\"XyZ \"",
        "multipart/form-data; "
        "boundary=0123456789012345678901234567890123456789012345678901234567890"
        "1234567890",
    };
    lx_multipart m;
    lx_error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(parse(good[i], body, sizeof body - 1, &m, &err), LX_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i], body, sizeof body - 1, &m, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, "Content-Type");
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",
        "n=3",
        "--XyZ",
        "--XyZ-",
        "\r\n" PART("n", "3") END,
        "--ABC" END,
        PART("n", "3"),
        PART("n", "3") "\r\n--XyZ",
        PART("n", "3") "\n--XyZ--\r\n",
        PART("n", "3") "\r\n--XyZ--\r\nmore",
        PART("n", "3") "\r\n--XyZ \r\n" END,
        PART("n", "3") "\r\n--XyZ\r\n\r\n" END,
        PART("", "3") END,
        "--XyZ\r\n\r\n3" END,
        "--XyZ\r\nContent-Type: text/plain\r\n\r\n3" END,
        "--XyZ\r\nContent-Disposition: form-data\r\n\r\n3" END,
        "--XyZ\r\nContent-Disposition: form-data; name=\"n\r\n\r\n3" END,
        "--XyZ\r\nContent-Disposition: form-data; name=n; name=m\r\n\r\n3" END,
        "--XyZ\r\nContent-Disposition: attachment; name=\"n\"\r\n\r\n3" END,
        PART("n\x1b[2J", "3") END,
        PART("\xff\xfe", "3") END,
        PART("\xe6\xb5\xb7", "3") END,
        "--XyZ\r\nContent-Disposition: form-data; name=\"n\"\r\n"
        "Content-Disposition: form-data; name=\"m\"\r\n\r\n3" END,
        "--XyZ\r\nContent-Disposition: form-data; name=\"n\"\r\n"
        "Content-Transfer-Encoding: base64\r\n\r\nMw==" END,
        "--XyZ\r\nContent-Disposition: form-data; name=\"n\"\r\nno header\r\n\r\n3" END,
        "--XyZ\r\nContent-Disposition: form-data; "
        "name=\"a234567890123456789012345678901234567890123456789012345678901234\"\r\n\r\n3" END,
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        lx_multipart m;
        lx_error err;
        if (parse(type, bodies[i], strlen(bodies[i]), &m, &err) != LX_ERR_INVALID)
            fail_msg("body %zu is taken", i);
        assert_string_equal(err.param, "body");
    }
}

static void test_limits(void **state)
{
    (void)state;
    for (int32_t n = LX_MAX_PARTS; n <= LX_MAX_PARTS + 1; n++) {
        lx_buffer b;
        lx_buffer_init(&b, 100000);
        for (int32_t i = 0; i < n; i++)
            lx_buffer_printf(&b, "%s" PART("x%d", "v%d"), i > 0 ? "\r\n" : "", i, i);
        lx_buffer_puts(&b, END);
        lx_multipart m;
        lx_error err;
        lx_status st = parse(type, b.data, b.length, &m, &err);
        assert_int_equal(st, n <= LX_MAX_PARTS ? LX_OK : LX_ERR_INVALID);
        if (st == LX_OK)
            check_part(&m.parts[n - 1], "x31", "v31", 3, false);
        lx_buffer_fini(&b);
    }
    for (int extra = 0; extra <= LX_MAX_PART_HEAD; extra += LX_MAX_PART_HEAD) {
        lx_buffer b;
        lx_buffer_init(&b, 100000);
        lx_buffer_puts(&b, "--XyZ\r\nContent-Disposition: form-data; name=n\r\nX-More: ");
        for (int i = 0; i < extra; i++)
            lx_buffer_puts(&b, "x");
        lx_buffer_puts(&b, "\r\n\r\n3" END);
        lx_multipart m;
        lx_error err;
        assert_int_equal(parse(type, b.data, b.length, &m, &err),
                         extra == 0 ? LX_OK : LX_ERR_INVALID);
        lx_buffer_fini(&b);
    }
}

/* Cuts at, and changes of, every byte: never a crash, and every part that is found lies in the
   body. */
static void test_damage(void **state)
{
    (void)state;
    static const char body[] = PART("n", "3") "\r\n" PART("image\"; filename=\"a", "data") END;
    char changed[sizeof body];
    for (size_t i = 0; i < sizeof body - 1; i++) {
        lx_multipart m;
        lx_error err;
        lx_status cut = parse(type, body, i, &m, &err);
        assert_true((cut == LX_OK) == (i == sizeof body - 3)); /* only the last CRLF may go */
        for (int with = 0; with < 256; with += 17) {
            memcpy(changed, body, sizeof body);
            changed[i] = (char)with;
            if (parse(type, changed, sizeof body - 1, &m, &err) != LX_OK)
                continue;
            for (int32_t p = 0; p < m.n; p++) {
                assert_true(m.parts[p].data >= changed);
                assert_true(m.parts[p].data + m.parts[p].bytes <= changed + sizeof body);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_and_files), cmocka_unit_test(test_no_part),
        cmocka_unit_test(test_content_types),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),           cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
