/* See png_maker.h. A picture's rows are collected raw, filter 0, then wrapped. */
#include "tests/support/png_maker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_RAW = 1 << 17, MAX_STORED = 65535 };

static void put(png_maker *m, const void *bytes, size_t n)
{
    assert_true(n <= sizeof m->bytes - m->n);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void put32(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

static uint32_t crc(const uint8_t *p, size_t n)
{
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    }
    return ~c;
}

static uint32_t adler(const uint8_t *p, size_t n)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < n; i++) {
        a = (a + p[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

void png_maker_fix(uint8_t *file, size_t at)
{
    size_t n = (size_t)file[at] << 24 | (size_t)file[at + 1] << 16 | (size_t)file[at + 2] << 8 |
               file[at + 3];
    put32(file + at + 8 + n, crc(file + at + 4, n + 4));
}

void png_maker_chunk(png_maker *m, const char *type, const void *data, size_t n)
{
    uint8_t word[4];
    size_t at = m->n;
    put32(word, (uint32_t)n);
    put(m, word, 4);
    put(m, type, 4);
    if (n > 0)
        put(m, data, n);
    put(m, word, 4); /* room for the checksum */
    png_maker_fix(m->bytes, at);
}

int png_maker_channels(const png_form *form)
{
    static const int channels[] = {1, 0, 3, 1, 2, 0, 4};
    return channels[form->colour_type];
}

void png_maker_begin(png_maker *m, const png_form *form)
{
    uint8_t head[13] = {0};
    m->n = 0;
    put(m, "\x89PNG\r\n\x1a\n", 8);
    put32(head, form->width);
    put32(head + 4, form->height);
    head[8] = (uint8_t)form->depth;
    head[9] = (uint8_t)form->colour_type;
    head[12] = form->interlaced;
    png_maker_chunk(m, "IHDR", head, sizeof head);
}

typedef struct raw {
    uint8_t bytes[MAX_RAW];
    size_t n;
    int n_bits; /* of the last byte that are filled, 8: all */
} raw;

static void put_bits(raw *r, unsigned value, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        if (r->n_bits == 8) {
            assert_true(r->n < sizeof r->bytes);
            r->bytes[r->n++] = 0;
            r->n_bits = 0;
        }
        r->bytes[r->n - 1] |= (uint8_t)((value >> i & 1) << (7 - r->n_bits++));
    }
}

/* Where the pixels of an interlaced picture's seven parts begin and how far apart they are. */
static const struct {
    uint32_t x, y, dx, dy;
} passes[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
              {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}, {0, 0, 1, 1}};

static void put_pass(raw *r, const png_form *form, int pass,
                     unsigned (*sample)(void *context, uint32_t x, uint32_t y, int c),
                     void *context)
{
    if (passes[pass].x >= form->width)
        return;
    for (uint32_t y = passes[pass].y; y < form->height; y += passes[pass].dy) {
        r->n_bits = 8; /* rows begin on a byte */
        put_bits(r, 0, 8);
        for (uint32_t x = passes[pass].x; x < form->width; x += passes[pass].dx) {
            for (int c = 0; c < png_maker_channels(form); c++)
                put_bits(r, sample(context, x, y, c), form->depth);
        }
    }
}

void png_maker_end(png_maker *m, const png_form *form,
                   unsigned (*sample)(void *context, uint32_t x, uint32_t y, int c), void *context,
                   size_t extra)
{
    static raw r;
    static uint8_t zlib[MAX_RAW + 64];
    size_t n = 2;
    memset(&r, 0, sizeof r);
    for (int pass = form->interlaced ? 0 : 7; pass < (form->interlaced ? 7 : 8); pass++)
        put_pass(&r, form, pass, sample, context);
    assert_true(r.n + extra <= sizeof r.bytes);
    r.n += extra;
    memcpy(zlib, "\x78\x01", 2);
    for (size_t at = 0; at < r.n;) {
        size_t k = r.n - at < MAX_STORED ? r.n - at : MAX_STORED;
        const uint8_t head[] = {at + k == r.n, (uint8_t)k, (uint8_t)(k >> 8), (uint8_t)~k,
                                (uint8_t)(~k >> 8)};
        memcpy(zlib + n, head, sizeof head);
        memcpy(zlib + n + sizeof head, r.bytes + at, k);
        n += sizeof head + k;
        at += k;
    }
    put32(zlib + n, adler(r.bytes, r.n));
    png_maker_chunk(m, "IDAT", zlib, n + 4);
    png_maker_chunk(m, "IEND", NULL, 0);
}
