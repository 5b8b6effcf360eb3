/* CRC-32C against published check values, and in pieces of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/crc32c.h"

static void known_values(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0}, ones[32];
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(lx_crc32c(0, "", 0), 0);
    assert_int_equal(lx_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(lx_crc32c(0, zeros, sizeof zeros), 0x8A9136AA); /* RFC 3720, B.4 */
    assert_int_equal(lx_crc32c(0, ones, sizeof ones), 0x62A8AB43);
}

static void pieces_give_the_same(void **state)
{
    (void)state;
    unsigned char bytes[100];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    uint32_t whole = lx_crc32c(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        uint32_t first = lx_crc32c(0, bytes, cut);
        assert_int_equal(lx_crc32c(first, bytes + cut, sizeof bytes - cut), whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(pieces_give_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
