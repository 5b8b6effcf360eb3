/*
 * PNG files: every kind of picture the format has, made here by hand and with zlib, read to the
 * values worked out here; every kind of damage; what a file may cost; what is written comes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>
#include <zlib.h>

#include "model/png.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGBA = 6, MAX_FILE = 64 << 20 };

static const lx_picture_limits limits_grey = {64, 64, 1}, limits_rgb = {64, 64, 3};

/* --- making files ----------------------------------------------------------------------------- */

typedef struct picture {
    int width, height, type, depth;
    bool interlaced, transparent; /* transparent: with a tRNS chunk */
} picture;

static const uint8_t palette[16][4] = {
    {0, 0, 0, 0},       {255, 255, 255, 128}, {200, 10, 20, 255}, {1, 2, 3, 7},
    {90, 80, 70, 255},  {0, 255, 0, 255},     {0, 0, 255, 255},   {255, 0, 0, 255},
    {5, 6, 7, 255},     {50, 60, 70, 255},    {9, 99, 199, 255},  {128, 127, 126, 255},
    {254, 253, 1, 255}, {33, 66, 99, 255},    {77, 77, 77, 255},  {111, 112, 113, 255}};
enum { N_TRANSPARENT = 4 }; /* of the palette; the others are opaque */

static int n_samples(int type)
{
    static const int n[] = {1, 0, 3, 1, 2, 0, 4};
    return n[type];
}

/* Sample c of pixel (x, y). */
static unsigned sample(const picture *p, int y, int x, int c)
{
    uint64_t state = (uint64_t)(y * 1000003 + x * 1009 + c * 17 + p->type);
    unsigned v = (unsigned)(scratch_random(&state) >> 20) & ((1U << p->depth) - 1);
    return p->type == PALETTE ? v % 16 : v;
}

static void put_number(lx_buffer *b, uint32_t n)
{
    const uint8_t bytes[] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    lx_buffer_append(b, bytes, 4);
}

static void put_chunk(lx_buffer *b, const char *type, const void *data, size_t n)
{
    put_number(b, (uint32_t)n);
    lx_buffer_append(b, type, 4);
    if (n > 0)
        lx_buffer_append(b, data, n);
    put_number(b, (uint32_t)crc32(0, (const Bytef *)b->data + b->length - n - 4, (uInt)n + 4));
}

static void put_head(lx_buffer *b, const picture *p)
{
    lx_buffer head;
    lx_buffer_init(&head, 13);
    put_number(&head, (uint32_t)p->width);
    put_number(&head, (uint32_t)p->height);
    const uint8_t rest[] = {(uint8_t)p->depth, (uint8_t)p->type, 0, 0, p->interlaced};
    lx_buffer_append(&head, rest, 5);
    lx_buffer_append(b, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(b, "IHDR", head.data, head.length);
    lx_buffer_fini(&head);
}

/* The pixels (x0 + i dx, y0 + j dy) as rows with filter 0. */
static void put_pass(lx_buffer *raw, const picture *p, int x0, int y0, int dx, int dy)
{
    for (int y = y0; x0 < p->width && y < p->height; y += dy) {
        unsigned bits = 0, n_bits = 0;
        lx_buffer_append(raw, "", 1);
        for (int x = x0; x < p->width; x += dx) {
            for (int c = 0; c < n_samples(p->type); c++) {
                bits = bits << p->depth | sample(p, y, x, c);
                for (n_bits += (unsigned)p->depth; n_bits >= 8; n_bits -= 8)
                    lx_buffer_append(raw, &(uint8_t){(uint8_t)(bits >> (n_bits - 8))}, 1);
            }
        }
        if (n_bits > 0)
            lx_buffer_append(raw, &(uint8_t){(uint8_t)(bits << (8 - n_bits))}, 1);
    }
}

static void put_pixels(lx_buffer *b, const picture *p)
{
    static const int passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                     {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    lx_buffer raw;
    lx_buffer_init(&raw, MAX_FILE);
    if (p->interlaced) {
        for (int i = 0; i < 7; i++)
            put_pass(&raw, p, passes[i][0], passes[i][1], passes[i][2], passes[i][3]);
    } else {
        put_pass(&raw, p, 0, 0, 1, 1);
    }
    uLongf n = compressBound(raw.length);
    uint8_t *packed = malloc(n);
    assert_non_null(packed);
    assert_int_equal(compress(packed, &n, (const Bytef *)raw.data, raw.length), Z_OK);
    put_chunk(b, "IDAT", packed, n / 2); /* in two parts, as large files have it */
    put_chunk(b, "IDAT", packed + n / 2, n - n / 2);
    free(packed);
    lx_buffer_fini(&raw);
}

/* What is transparent: the colour of the first pixel, or the palette's first entries. */
static void put_transparency(lx_buffer *b, const picture *p)
{
    uint8_t data[6] = {0};
    for (int c = 0; c < 3 && p->type != PALETTE; c++) {
        unsigned v = c < n_samples(p->type) ? sample(p, 0, 0, c) : 0;
        data[2 * c] = (uint8_t)(v >> 8);
        data[2 * c + 1] = (uint8_t)v;
    }
    for (int i = 0; i < N_TRANSPARENT && p->type == PALETTE; i++)
        data[i] = palette[i][3];
    put_chunk(b, "tRNS", data, p->type == GREY ? 2 : p->type == RGB ? 6 : N_TRANSPARENT);
}

static void put_palette(lx_buffer *b, int depth)
{
    uint8_t data[48];
    int n = depth < 4 ? 1 << depth : 16;
    for (int i = 0; i < 3 * n; i++)
        data[i] = palette[i / 3][i % 3];
    put_chunk(b, "PLTE", data, (size_t)(3 * n));
}

/* A whole file; `extra`, of n bytes, stands between head and pixels. */
static lx_buffer make(const picture *p, const void *extra, size_t n)
{
    lx_buffer b;
    lx_buffer_init(&b, MAX_FILE);
    put_head(&b, p);
    if (n > 0)
        lx_buffer_append(&b, extra, n);
    if (p->type == PALETTE)
        put_palette(&b, p->depth);
    if (p->transparent)
        put_transparency(&b, p);
    put_pixels(&b, p);
    put_chunk(&b, "IEND", NULL, 0);
    assert_int_equal(b.status, LX_OK);
    return b;
}

/* --- what reading them must give -------------------------------------------------------------- */

static uint8_t to_8_bits(unsigned v, int depth)
{
    unsigned max = (1U << depth) - 1;
    return (uint8_t)((v * 255 + max / 2) / max);
}

/* Red, green, blue, alpha of a pixel in 8 bits. */
static void colour_of(const picture *p, int y, int x, uint8_t *rgba)
{
    int n = n_samples(p->type), n_colours = n > 2 ? 3 : 1;
    bool same = true;
    if (p->type == PALETTE) {
        unsigned i = sample(p, y, x, 0);
        memcpy(rgba, palette[i], 4);
        rgba[3] = p->transparent && i < N_TRANSPARENT ? palette[i][3] : 255;
        return;
    }
    for (int c = 0; c < 3; c++)
        rgba[c] = to_8_bits(sample(p, y, x, c % n_colours), p->depth);
    for (int c = 0; c < n; c++)
        same = same && sample(p, y, x, c) == sample(p, 0, 0, c);
    rgba[3] = n % 2 == 0               ? to_8_bits(sample(p, y, x, n - 1), p->depth)
              : p->transparent && same ? 0
                                       : 255;
}

static void expect_pixel(const lx_picture *got, const picture *p, int y, int x)
{
    uint8_t rgba[4];
    const uint8_t *v = got->values + (y * p->width + x) * got->n_channels;
    colour_of(p, y, x, rgba);
    bool grey = p->type == GREY || p->type == GREY_ALPHA;
    int luma = (299 * rgba[0] + 587 * rgba[1] + 114 * rgba[2] + 500) / 1000;
    if (got->n_channels == 1)
        assert_int_equal(v[0], grey ? rgba[0] : luma);
    else
        assert_memory_equal(v, rgba, 3);
    if (got->alpha != NULL)
        assert_int_equal(got->alpha[y * p->width + x], rgba[3]);
}

static lx_status read_file(const lx_buffer *b, const lx_picture_limits *limits, lx_picture *out,
                           lx_error *err)
{
    return lx_png_read(b->data, b->length, limits, "image", out, err);
}

static void expect_read(const picture *p, const lx_picture_limits *limits)
{
    lx_buffer b = make(p, NULL, 0);
    lx_picture got;
    lx_error err = {0};
    if (read_file(&b, limits, &got, &err) != LX_OK)
        fail_msg("type %d, depth %d: %s", p->type, p->depth, err.text);
    assert_int_equal(got.width, p->width);
    assert_int_equal(got.height, p->height);
    assert_int_equal(got.n_channels, limits->n_channels);
    bool has_alpha = p->transparent || p->type == GREY_ALPHA || p->type == RGBA;
    assert_int_equal(got.alpha != NULL, has_alpha);
    for (int y = 0; y < p->height; y++) {
        for (int x = 0; x < p->width; x++)
            expect_pixel(&got, p, y, x);
    }
    lx_picture_fini(&got);
    assert_null(got.values);
    lx_buffer_fini(&b);
}

static void every_kind_is_read(void **state)
{
    (void)state;
    static const int kinds[][2] = {{GREY, 1},    {GREY, 2},    {GREY, 4},       {GREY, 8},
                                   {GREY, 16},   {RGB, 8},     {RGB, 16},       {PALETTE, 1},
                                   {PALETTE, 2}, {PALETTE, 4}, {PALETTE, 8},    {GREY_ALPHA, 8},
                                   {RGBA, 8},    {RGBA, 16},   {GREY_ALPHA, 16}};
    static const int sizes[][2] = {{1, 1}, {3, 5}, {28, 28}, {33, 17}, {64, 2}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (size_t k = 0; k < 4 * sizeof sizes / sizeof *sizes; k++) {
            picture p = {sizes[k / 4][0], sizes[k / 4][1], kinds[i][0], kinds[i][1], k % 2, false};
            p.transparent = k % 4 > 1 && p.type < GREY_ALPHA;
            if (p.type == PALETTE && p.depth < 2 && p.transparent)
                continue; /* more entries than the palette has */
            expect_read(&p, &limits_grey);
            expect_read(&p, &limits_rgb);
        }
    }
}

/* --- refused ---------------------------------------------------------------------------------- */

static const picture plain = {28, 28, RGB, 8, false, false};

static void expect_refused(const void *data, size_t n, const char *part)
{
    lx_picture p = {.width = 77};
    lx_error err = {0};
    /* a copy of the exact size: reading past its end is an error under AddressSanitizer */
    void *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    scratch_expect(lx_png_read(copy, n, &limits_grey, "mask", &p, &err), &err, LX_ERR_INVALID,
                   part);
    assert_string_equal(err.param, "mask");
    assert_int_equal(p.width, 77);
    free(copy);
}

static void what_is_no_png_is_refused(void **state)
{
    (void)state;
    expect_refused("", 0, "not a PNG");
    expect_refused("GIF89a\x01\0\x01\0\0\0\0", 13, "not a PNG");
    expect_refused("\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0", 20, "not a PNG");
    expect_refused("\x89PNG\r\n\x1a\n", 8, "cut or damaged");
    expect_refused("\x89PNG\n\x1a\nxxxxxxxxxxxxxxxxxxxxxxxxxxx", 34, "not a PNG");
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    lx_buffer b = make(&plain, NULL, 0);
    for (size_t n = 0; n < b.length; n++)
        expect_refused(b.data, n, n < 8 ? "not a PNG" : "cut");
    lx_buffer_fini(&b);
}

static void a_wrong_checksum_is_refused(void **state)
{
    (void)state;
    lx_buffer extra;
    lx_buffer_init(&extra, 100);
    put_chunk(&extra, "tEXt", "Title\0x", 7);
    lx_buffer b = make(&plain, extra.data, extra.length);
    size_t n_chunks = 0;
    for (size_t at = 8; at < b.length; n_chunks++) {
        const uint8_t *c = (const uint8_t *)b.data + at;
        at += 12 + ((size_t)c[2] << 8 | c[3]);
        b.data[at - 1] ^= 1;
        expect_refused(b.data, b.length, "CRC");
        b.data[at - 1] ^= 1;
    }
    assert_int_equal(n_chunks, 5); /* IHDR tEXt IDAT IDAT IEND */
    lx_buffer_fini(&b);
    lx_buffer_fini(&extra);
}

static void heads_are_checked(void **state)
{
    (void)state;
    static const picture larger[] = {{65, 1, GREY, 8, false, false},
                                     {1, 65, GREY, 8, false, false},
                                     {0, 1, GREY, 8, false, false},
                                     {1, 0, GREY, 8, false, false},
                                     {INT32_MAX, INT32_MAX, RGBA, 16, true, false},
                                     {-1, -1, GREY, 1, false, false}};
    static const picture wrong[] = {{8, 8, GREY, 3, false, false},
                                    {8, 8, RGB, 4, false, false},
                                    {8, 8, 1, 8, false, false},
                                    {8, 8, 7, 8, false, false},
                                    {8, 8, PALETTE, 16, false, false}};
    for (size_t i = 0; i < sizeof larger / sizeof *larger + sizeof wrong / sizeof *wrong; i++) {
        size_t k = sizeof larger / sizeof *larger;
        lx_buffer b;
        lx_buffer_init(&b, 100);
        put_head(&b, i < k ? &larger[i] : &wrong[i - k]);
        expect_refused(b.data, b.length, i < k ? "not 64 x 64" : "damaged");
        lx_buffer_fini(&b);
    }
}

/* Chunks missing, or two that must not be. */
static void wrong_orders_are_refused(void **state)
{
    (void)state;
    static const picture with_palette = {8, 8, PALETTE, 4, false, false};
    for (int how = 0; how < 4; how++) {
        lx_buffer b;
        lx_buffer_init(&b, MAX_FILE);
        put_head(&b, &with_palette);
        if (how == 1) /* no pixels */
            put_palette(&b, 4);
        if (how == 2)
            put_head(&b, &with_palette);
        if (how == 3)
            put_chunk(&b, "CrIt", "critical and unknown", 20);
        if (how == 3)
            put_palette(&b, 4);
        if (how != 1) /* how 0: no palette */
            put_pixels(&b, &with_palette);
        put_chunk(&b, "IEND", NULL, 0);
        expect_refused(b.data, b.length, "damaged");
        lx_buffer_fini(&b);
    }
}

/* Pixels that are not there, or are no deflate stream. */
static void wrong_pixels_are_refused(void **state)
{
    (void)state;
    static const char *const data[] = {"x\x9c\x03\0\0\0\0\1", "not compressed", ""};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        lx_buffer b;
        lx_buffer_init(&b, 1000);
        put_head(&b, &plain);
        put_chunk(&b, "IDAT", data[i], i == 0 ? 8 : strlen(data[i]));
        put_chunk(&b, "IEND", NULL, 0);
        expect_refused(b.data, b.length, "damaged");
        lx_buffer_fini(&b);
    }
}

/* --- what a file may cost --------------------------------------------------------------------- */

static long peak_kib(void)
{
    struct rusage u;
    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return u.ru_maxrss;
}

/* `n_mib` MiB of zeros, compressed piece by piece. */
static void put_zeros(lx_buffer *out, int n_mib)
{
    static uint8_t zeros[1 << 16], packed[1 << 16];
    z_stream z = {0};
    assert_int_equal(deflateInit(&z, 9), Z_OK);
    for (int i = 0; i <= n_mib * 16; i++) {
        z.next_in = zeros;
        z.avail_in = i < n_mib * 16 ? sizeof zeros : 0;
        do {
            z.next_out = packed;
            z.avail_out = sizeof packed;
            (void)deflate(&z, i < n_mib * 16 ? Z_NO_FLUSH : Z_FINISH);
            lx_buffer_append(out, packed, sizeof packed - z.avail_out);
        } while (z.avail_out == 0);
    }
    assert_int_equal(deflateEnd(&z), Z_OK);
    assert_int_equal(out->status, LX_OK);
}

/* Reads; memory must not have grown by more than a little. */
static lx_status read_cheaply(const lx_buffer *b, lx_error *err)
{
    lx_picture p = {0};
    long before = peak_kib();
    lx_status st = read_file(b, &limits_rgb, &p, err);
    if (peak_kib() - before > 4096)
        fail_msg("%ld KiB for a picture of 28 x 28", peak_kib() - before);
    lx_picture_fini(&p);
    return st;
}

/* Pixels that unpack to far more than the picture has. */
static void a_bomb_is_refused(void **state)
{
    (void)state;
    lx_buffer zeros, b;
    lx_error err = {0};
    lx_buffer_init(&zeros, MAX_FILE);
    lx_buffer_init(&b, MAX_FILE);
    put_zeros(&zeros, 200);
    put_head(&b, &plain);
    put_chunk(&b, "IDAT", zeros.data, zeros.length);
    put_chunk(&b, "IEND", NULL, 0);
    scratch_expect(read_cheaply(&b, &err), &err, LX_ERR_INVALID, "more data than a picture");
    lx_buffer_fini(&b);
    lx_buffer_fini(&zeros);
}

/* Texts and profiles are passed over, packed or not. */
static void text_costs_nothing(void **state)
{
    (void)state;
    static const char *const types[] = {"zTXt", "iCCP", "iTXt", "tEXt", "abCd"};
    static const char *const heads[] = {"a\0\0", "a\0\0", "a\0\1\0\0\0", "a\0", ""};
    static const size_t n_heads[] = {3, 3, 6, 2, 0};
    lx_buffer zeros;
    lx_buffer_init(&zeros, MAX_FILE);
    put_zeros(&zeros, 100);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        lx_buffer data, extra;
        lx_error err = {0};
        lx_buffer_init(&data, MAX_FILE);
        lx_buffer_init(&extra, MAX_FILE);
        lx_buffer_append(&data, heads[i], n_heads[i]);
        lx_buffer_append(&data, zeros.data, zeros.length);
        for (int k = 0; k < 20; k++)
            put_chunk(&extra, types[i], data.data, data.length);
        lx_buffer b = make(&plain, extra.data, extra.length);
        if (read_cheaply(&b, &err) != LX_OK)
            fail_msg("%s: %s", types[i], err.text);
        lx_buffer_fini(&b);
        lx_buffer_fini(&extra);
        lx_buffer_fini(&data);
    }
    lx_buffer_fini(&zeros);
}

static void many_chunks_cost_nothing(void **state)
{
    (void)state;
    lx_buffer extra;
    lx_error err = {0};
    lx_buffer_init(&extra, MAX_FILE);
    for (int i = 0; i < 100000; i++)
        put_chunk(&extra, i % 2 == 0 ? "tEXt" : "sPLT", "a\0\10b", 4);
    lx_buffer b = make(&plain, extra.data, extra.length);
    if (read_cheaply(&b, &err) != LX_OK)
        fail_msg("%s", err.text);
    lx_buffer_fini(&b);
    lx_buffer_fini(&extra);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void fill(uint8_t *values, int32_t n, uint64_t seed)
{
    for (int32_t i = 0; i < n; i++)
        values[i] = (uint8_t)(seed == 0 ? (uint64_t)i / 7 : scratch_random(&seed) >> 30);
}

static void what_is_written_comes_back(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{1, 1}, {28, 28}, {7, 64}, {64, 3}, {64, 64}};
    static uint8_t values[64 * 64 * 3];
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        int32_t w = sizes[i / 4][0], h = sizes[i / 4][1], c = i % 2 == 0 ? 1 : 3;
        lx_buffer a, b;
        lx_picture p;
        lx_buffer_init(&a, MAX_FILE);
        lx_buffer_init(&b, MAX_FILE);
        fill(values, w * h * c, i % 4 / 2);
        assert_int_equal(lx_png_write(values, w, h, c, &a, NULL), LX_OK);
        assert_int_equal(lx_png_write(values, w, h, c, &b, NULL), LX_OK);
        assert_int_equal(a.length, b.length);
        assert_memory_equal(a.data, b.data, a.length); /* the same values, the same bytes */
        assert_int_equal(a.data[24], 8);
        assert_int_equal(a.data[25], c == 1 ? GREY : RGB);
        assert_int_equal(read_file(&a, c == 1 ? &limits_grey : &limits_rgb, &p, NULL), LX_OK);
        assert_true(p.width == w && p.height == h && p.n_channels == c && p.alpha == NULL);
        assert_memory_equal(p.values, values, (size_t)(w * h * c));
        lx_picture_fini(&p);
        lx_buffer_fini(&a);
        lx_buffer_fini(&b);
    }
}

typedef struct images {
    int32_t size;
    uint8_t values[64];
} images;

static const uint8_t *image_of(void *context, int32_t i)
{
    images *s = context;
    fill(s->values, s->size, (uint64_t)i + 1);
    return s->values;
}

/* The value a sheet must have: images of w x h with a border of 2 around each. */
static uint8_t sheet_value(images *s, int32_t n, int32_t columns, const int32_t *whc, int32_t y,
                           int32_t x, int32_t c)
{
    int32_t w = whc[0], h = whc[1], line = y / (h + 2), column = x / (w + 2);
    int32_t dy = y % (h + 2) - 2, dx = x % (w + 2) - 2, i = line * columns + column;
    if (dy < 0 || dx < 0 || column >= columns || i >= n)
        return 96;
    return image_of(s, i)[(dy * w + dx) * whc[2] + c];
}

static void expect_sheet(int32_t n, int32_t columns, const int32_t *whc)
{
    int32_t w = whc[0], h = whc[1], c = whc[2], lines = (n + columns - 1) / columns;
    images s = {.size = w * h * c};
    lx_picture_limits limits = {4096, 4096, c};
    lx_buffer b;
    lx_picture p;
    lx_buffer_init(&b, MAX_FILE);
    assert_int_equal(lx_png_write_sheet(n, w, h, c, image_of, &s, &b, NULL), LX_OK);
    assert_int_equal(read_file(&b, &limits, &p, NULL), LX_OK);
    assert_int_equal(p.width, columns * (w + 2) + 2);
    assert_int_equal(p.height, lines * (h + 2) + 2);
    for (int32_t i = 0; i < p.width * p.height * c; i++)
        assert_int_equal(p.values[i],
                         sheet_value(&s, n, columns, whc, i / c / p.width, i / c % p.width, i % c));
    lx_picture_fini(&p);
    lx_buffer_fini(&b);
}

static void sheets_are_near_square(void **state)
{
    (void)state;
    static const int32_t cases[][2] = {{1, 1}, {2, 2}, {3, 2}, {4, 2}, {5, 3}, {1000, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_sheet(cases[i][0], cases[i][1], (const int32_t[]){5, 3, 1});
        expect_sheet(cases[i][0], cases[i][1], (const int32_t[]){2, 4, 3});
    }
}

static void a_full_buffer_is_reported(void **state)
{
    (void)state;
    static uint8_t values[28 * 28];
    lx_buffer whole;
    lx_buffer_init(&whole, MAX_FILE);
    assert_int_equal(lx_png_write(values, 28, 28, 1, &whole, NULL), LX_OK);
    for (size_t max = 0; max < whole.length; max++) {
        lx_buffer b;
        lx_error err = {0};
        lx_buffer_init(&b, max);
        scratch_expect(lx_png_write(values, 28, 28, 1, &b, &err), &err, LX_ERR_TOO_LARGE,
                       "too large");
        lx_buffer_fini(&b);
    }
    lx_buffer_fini(&whole);
}

/* --- damage ----------------------------------------------------------------------------------- */

static void no_damage_is_fatal(void **state)
{
    (void)state;
    static const picture kinds[] = {{28, 28, RGB, 8, false, true},
                                    {9, 7, PALETTE, 4, true, true},
                                    {17, 3, GREY_ALPHA, 16, true, false}};
    uint64_t r = 3;
    for (int i = 0; i < 3000; i++) {
        lx_buffer b = make(&kinds[i % 3], NULL, 0);
        lx_picture p = {0};
        for (uint64_t k = 1 + scratch_random(&r) % 3; k > 0; k--)
            b.data[scratch_random(&r) % b.length] = (char)scratch_random(&r);
        lx_status st = read_file(&b, &limits_grey, &p, NULL);
        assert_true(st == LX_OK || st == LX_ERR_INVALID);
        assert_int_equal(p.values != NULL, st == LX_OK);
        lx_picture_fini(&p);
        lx_buffer_fini(&b);
    }
}

static lx_status read_transparent(const lx_buffer *b, lx_error *err)
{
    lx_picture p = {0};
    lx_status st = read_file(b, &limits_rgb, &p, err);
    assert_int_equal(p.values != NULL, st == LX_OK);
    lx_picture_fini(&p);
    return st;
}

static lx_status write_sheet(const lx_buffer *unused, lx_error *err)
{
    (void)unused;
    images s = {.size = 60};
    lx_buffer b;
    lx_buffer_init(&b, MAX_FILE);
    lx_status st = lx_png_write_sheet(5, 5, 4, 3, image_of, &s, &b, err);
    lx_buffer_fini(&b);
    return st;
}

/* The library's allocations are among them. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const picture kind = {9, 9, PALETTE, 4, true, true};
    lx_status (*const actions[])(const lx_buffer *, lx_error *) = {read_transparent, write_sheet};
    lx_buffer file = make(&kind, NULL, 0);
    for (size_t i = 0; i < 2; i++) {
        int n = 1;
        for (;; n++) {
            lx_error err = {0};
            failing_arm(n);
            lx_status st = actions[i](&file, &err);
            if (!failing_hit()) {
                assert_int_equal(st, LX_OK);
                break;
            }
            scratch_expect(st, &err, LX_ERR_NO_MEMORY, "");
        }
        assert_in_range(n, 6, 60);
    }
    lx_buffer_fini(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_read),         cmocka_unit_test(what_is_no_png_is_refused),
        cmocka_unit_test(cut_files_are_refused),      cmocka_unit_test(a_wrong_checksum_is_refused),
        cmocka_unit_test(heads_are_checked),          cmocka_unit_test(wrong_orders_are_refused),
        cmocka_unit_test(wrong_pixels_are_refused),   cmocka_unit_test(a_bomb_is_refused),
        cmocka_unit_test(text_costs_nothing),         cmocka_unit_test(many_chunks_cost_nothing),
        cmocka_unit_test(what_is_written_comes_back), cmocka_unit_test(sheets_are_near_square),
        cmocka_unit_test(a_full_buffer_is_reported),  cmocka_unit_test(no_damage_is_fatal),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
