/*
 * Digests, whichever code this build computes them by: the published vectors of SHA-256 (FIPS
 * 180-4's examples, NIST's message of a million letters) and of HMAC-SHA-256 (RFC 4231).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/auth/digest.h"

static void expect(const unsigned char digest[LX_SHA256_BYTES], const char *hex)
{
    char text[2 * LX_SHA256_BYTES + 1];
    for (int i = 0; i < LX_SHA256_BYTES; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, hex);
}

static void expect_sha256(const void *bytes, size_t n, const char *hex)
{
    unsigned char digest[LX_SHA256_BYTES];
    assert_int_equal(lx_sha256(bytes, n, digest, NULL), LX_OK);
    expect(digest, hex);
}

static void published_messages(void **state)
{
    (void)state;
    static const struct {
        const char *message, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "mn"
         "opqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_sha256(cases[i].message, strlen(cases[i].message), cases[i].hex);
}

static void a_million_letters(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    expect_sha256(text, N, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

/* Every length around the ends of blocks: the digest of all their digests, by Python's hashlib. */
static void every_length_around_a_block(void **state)
{
    (void)state;
    enum { MOST = 200 };
    unsigned char text[MOST], digests[(MOST + 1) * LX_SHA256_BYTES];
    for (int i = 0; i < MOST; i++)
        text[i] = (unsigned char)(i * 7 + 1);
    for (size_t n = 0; n <= MOST; n++)
        assert_int_equal(lx_sha256(text, n, digests + n * LX_SHA256_BYTES, NULL), LX_OK);
    expect_sha256(digests, sizeof digests,
                  "a762260eaf7d0bf0f3e5c702dd2bc7de18bb629df9cad5b668d384084812f4f8");
}

static void expect_hmac(int key_byte, size_t key_bytes, const char *message, const char *hex)
{
    unsigned char key[200], digest[LX_SHA256_BYTES];
    for (size_t i = 0; i < key_bytes; i++) /* -1: 1, 2, 3 ... */
        key[i] = (unsigned char)(key_byte >= 0 ? (size_t)key_byte : i + 1);
    assert_int_equal(lx_hmac_sha256(key, key_bytes, message, strlen(message), digest, NULL), LX_OK);
    expect(digest, hex);
}

static void published_keys(void **state)
{
    (void)state;
    unsigned char digest[LX_SHA256_BYTES];
    char bytes[51] = {0};
    expect_hmac(0x0b, 20, "Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_int_equal(lx_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, digest, NULL),
                     LX_OK);
    expect(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(bytes, 0xdd, 50);
    expect_hmac(0xaa, 20, bytes,
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    memset(bytes, 0xcd, 50);
    expect_hmac(-1, 25, bytes, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    expect_hmac(0xaa, 131, "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    expect_hmac(0xaa, 131,
                "This is a test using a larger than block-size key and a larger than block-size "
                "data. The key needs to be hashed before being used by the HMAC algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void equal_means_every_byte(void **state)
{
    (void)state;
    unsigned char a[LX_SHA256_BYTES] = {0}, b[LX_SHA256_BYTES] = {0};
    assert_true(lx_equal_in_constant_time(a, b, sizeof a));
    for (size_t i = 0; i < sizeof a; i++)
        for (int bit = 1; bit < 256; bit *= 2) {
            b[i] = (unsigned char)bit;
            assert_false(lx_equal_in_constant_time(a, b, sizeof a));
            b[i] = 0;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_messages),          cmocka_unit_test(a_million_letters),
        cmocka_unit_test(every_length_around_a_block), cmocka_unit_test(published_keys),
        cmocka_unit_test(equal_means_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
