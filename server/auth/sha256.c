/*
 * SHA-256 (FIPS 180-4) and HMAC (RFC 2104), which replace digest.c where LINNET_TLS is off. Keys
 * and signed states have the same bytes in both builds. tests/unit/server/auth/test_digest.c has
 * the published vectors.
 */
#include <stdint.h>
#include <string.h>

#include "server/auth/digest.h"

enum { BLOCK = 64, LENGTH_BYTES = 8, ROUNDS = 64 };

typedef struct sha256 {
    uint32_t h[8];
    uint8_t block[BLOCK];
    size_t filled; /* bytes in the block */
    uint64_t n;    /* bytes in all */
} sha256;

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Section 6.2.2: the words of the message, then a round for each. */
static void mix(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[ROUNDS], v[8];
    for (int t = 0; t < 16; t++)
        w[t] = big_endian(block + 4 * t);
    for (int t = 16; t < ROUNDS; t++) {
        uint32_t low = turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t high = turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = high + w[t - 7] + low + w[t - 16];
    }
    memcpy(v, h, sizeof v);
    for (int t = 0; t < ROUNDS; t++) {
        uint32_t e = v[4], a = v[0];
        uint32_t first = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
                         ((e & v[5]) ^ (~e & v[6])) + k[t] + w[t];
        uint32_t second =
            (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

static void begin(sha256 *s)
{
    *s = (sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                        0x1f83d9ab, 0x5be0cd19}};
}

static void add(sha256 *s, const void *bytes, size_t n)
{
    const uint8_t *from = bytes;
    s->n += n;
    while (n > 0) {
        size_t part = BLOCK - s->filled < n ? BLOCK - s->filled : n;
        memcpy(s->block + s->filled, from, part);
        s->filled += part;
        from += part;
        n -= part;
        if (s->filled == BLOCK) {
            mix(s->h, s->block);
            s->filled = 0;
        }
    }
}

/* Section 5.1.1: a bit, zeros, and the length in bits at the end of a block. */
static void end(sha256 *s, unsigned char out[LX_SHA256_BYTES])
{
    static const uint8_t padding[BLOCK] = {0x80};
    uint64_t bits = 8 * s->n;
    uint8_t length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    size_t room = (2 * BLOCK - LENGTH_BYTES - s->filled) % BLOCK;
    add(s, padding, room > 0 ? room : BLOCK);
    add(s, length, sizeof length);
    for (int i = 0; i < LX_SHA256_BYTES; i++)
        out[i] = (unsigned char)(s->h[i / 4] >> (24 - 8 * (i % 4)));
    explicit_bzero(s, sizeof *s);
}

lx_status lx_sha256(const void *bytes, size_t n, unsigned char out[LX_SHA256_BYTES], lx_error *err)
{
    (void)err;
    sha256 s;
    begin(&s);
    add(&s, bytes, n);
    end(&s, out);
    return LX_OK;
}

/* The hash of the key with every byte changed by `mask`, and then of the message. */
static void keyed(const uint8_t key[BLOCK], uint8_t mask, const void *bytes, size_t n,
                  unsigned char out[LX_SHA256_BYTES])
{
    sha256 s;
    uint8_t pad[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        pad[i] = key[i] ^ mask;
    begin(&s);
    add(&s, pad, sizeof pad);
    add(&s, bytes, n);
    end(&s, out);
    explicit_bzero(pad, sizeof pad);
}

lx_status lx_hmac_sha256(const void *key, size_t key_bytes, const void *bytes, size_t n,
                         unsigned char out[LX_SHA256_BYTES], lx_error *err)
{
    uint8_t block[BLOCK] = {0};
    lx_status st = LX_OK;
    if (key_bytes > BLOCK)
        st = lx_sha256(key, key_bytes, block, err);
    else
        memcpy(block, key, key_bytes);
    keyed(block, 0x36, bytes, n, out);
    keyed(block, 0x5c, out, LX_SHA256_BYTES, out);
    explicit_bzero(block, sizeof block);
    return st;
}

bool lx_equal_in_constant_time(const void *a, const void *b, size_t n)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t differing = 0;
    for (size_t i = 0; i < n; i++)
        differing = (uint8_t)(differing | (x[i] ^ y[i]));
    return differing == 0;
}
