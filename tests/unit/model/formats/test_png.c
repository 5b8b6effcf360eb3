/*
 * PNG: a written picture is read back; every form of the format gives the same values; and a file
 * that is no picture, or larger than one, is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "model/formats/png.h"
#include "tests/support/failing.h"
#include "tests/support/png_maker.h"
#include "tests/support/scratch.h"

static png_maker maker;

static lx_status load(const void *data, size_t n, int32_t n_channels, lx_picture *p, lx_error *err)
{
    lx_picture_limits limits = {28, 28, n_channels};
    return lx_png_read(data, n, &limits, "image", p, err);
}

static void expect_refused(const void *data, size_t n, const char *part)
{
    lx_picture p = {.width = 77};
    lx_error err = {0};
    lx_status st = load(data, n, 1, &p, &err);
    scratch_expect(st, &err, LX_ERR_INVALID, part);
    assert_string_equal(err.param, "image");
    assert_int_equal(p.width, 77);
}

/* --- writing --- */

static void fill(uint8_t *values, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (uint8_t)scratch_random(&seed);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = {{1, 1, 1}, {1, 28, 3}, {28, 1, 1}, {28, 28, 1}, {17, 9, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int32_t w = shapes[i][0], h = shapes[i][1], c = shapes[i][2];
        uint8_t values[28 * 28 * 3];
        lx_buffer a, b;
        lx_picture p;
        lx_error err = {0};
        fill(values, sizeof values, i);
        lx_buffer_init(&a, 1 << 16);
        lx_buffer_init(&b, 1 << 16);
        lx_buffer_puts(&b, "before");
        must(lx_png_write(values, w, h, c, &a, &err), &err);
        must(lx_png_write(values, w, h, c, &b, &err), &err);
        assert_int_equal(a.length + 6, b.length);
        assert_memory_equal(a.data, b.data + 6, a.length);
        must(load(a.data, a.length, c, &p, &err), &err);
        assert_int_equal(p.width, w);
        assert_int_equal(p.height, h);
        assert_int_equal(p.n_channels, c);
        assert_null(p.alpha);
        assert_memory_equal(p.values, values, (size_t)(w * h * c));
        lx_picture_fini(&p);
        lx_buffer_fini(&a);
        lx_buffer_fini(&b);
    }
}

static void a_full_buffer_is_said(void **state)
{
    (void)state;
    static const uint8_t values[28 * 28];
    for (size_t max = 0; max < 60; max += 7) {
        lx_buffer out;
        lx_error err = {0};
        lx_buffer_init(&out, max);
        lx_status st = lx_png_write(values, 28, 28, 1, &out, &err);
        scratch_expect(st, &err, LX_ERR_TOO_LARGE, "could not be written");
        lx_buffer_fini(&out);
    }
}

static const uint8_t *flat_image(void *context, int32_t i)
{
    uint8_t *values = context;
    for (int32_t k = 0; k < 3 * 2 * 3; k++)
        values[k] = (uint8_t)(100 * (i % 2) + i + k);
    return values;
}

/* n pictures of 3 x 2 in colour: every pixel of the sheet is one of theirs or the border's. */
static void a_sheet_shows_every_picture(void **state)
{
    (void)state;
    static const int32_t grids[][3] = {{1, 1, 1}, {2, 2, 1}, {3, 2, 2}, {4, 2, 2},
                                       {5, 3, 2}, {7, 3, 3}, {10, 4, 3}};
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        int32_t n = grids[i][0], columns = grids[i][1], lines = grids[i][2];
        uint8_t values[3 * 2 * 3];
        lx_buffer out;
        lx_picture p;
        lx_error err = {0};
        lx_buffer_init(&out, 1 << 16);
        must(lx_png_write_sheet(n, 3, 2, 3, flat_image, values, &out, &err), &err);
        must(load(out.data, out.length, 3, &p, &err), &err);
        assert_int_equal(p.width, columns * 5 + 2);
        assert_int_equal(p.height, lines * 4 + 2);
        for (int32_t y = 0; y < p.height; y++) {
            for (int32_t x = 0; x < p.width; x++) {
                int32_t image = y / 4 * columns + x / 5, row = y % 4 - 2, column = x % 5 - 2;
                const uint8_t *pixel = p.values + (y * p.width + x) * 3;
                static const uint8_t border[3] = {96, 96, 96};
                bool inside = row >= 0 && column >= 0 && image < n && x / 5 < columns;
                assert_memory_equal(
                    pixel, inside ? flat_image(values, image) + (row * 3 + column) * 3 : border, 3);
            }
        }
        lx_picture_fini(&p);
        lx_buffer_fini(&out);
    }
}

/* --- every form --- */

static unsigned sample_of(void *context, uint32_t x, uint32_t y, int c)
{
    const png_form *form = context;
    unsigned v = x * 2654435761u + y * 40503u + (unsigned)c * 977u;
    return (v ^ v >> 7) & ((1u << form->depth) - 1);
}

static uint8_t eight_bits(const png_form *form, unsigned sample)
{
    return (uint8_t)(form->depth == 16 ? (sample * 255 + 32895) >> 16
                                       : sample * 255 / ((1u << form->depth) - 1));
}

static uint8_t palette[256 * 3], palette_alpha[256];

/* The pixel's red, green, blue and alpha. */
static void expected_pixel(const png_form *form, bool transparent, uint32_t x, uint32_t y,
                           uint8_t *rgba)
{
    png_form f = *form;
    unsigned s[4];
    int n = png_maker_channels(form);
    for (int c = 0; c < n; c++)
        s[c] = sample_of(&f, x, y, c);
    rgba[3] = 255;
    if (form->colour_type == 3) {
        memcpy(rgba, palette + 3 * s[0], 3);
        rgba[3] = palette_alpha[s[0]];
        return;
    }
    for (int c = 0; c < 3; c++)
        rgba[c] = eight_bits(form, s[n >= 3 ? c : 0]);
    if (n == 2 || n == 4)
        rgba[3] = eight_bits(form, s[n - 1]);
    else if (transparent) { /* the colour of the pixel at the beginning is the one not seen */
        bool same = true;
        for (int c = 0; c < n; c++)
            same = same && s[c] == sample_of(&f, 0, 0, c);
        rgba[3] = same ? 0 : 255;
    }
}

static void put_transparency(const png_form *form)
{
    png_form f = *form;
    uint8_t key[6];
    int n = png_maker_channels(form);
    for (int c = 0; c < n; c++) {
        unsigned s = sample_of(&f, 0, 0, c);
        key[2 * c] = (uint8_t)(s >> 8);
        key[2 * c + 1] = (uint8_t)s;
    }
    if (form->colour_type == 3)
        png_maker_chunk(&maker, "tRNS", palette_alpha, (size_t)1 << form->depth);
    else
        png_maker_chunk(&maker, "tRNS", key, (size_t)n * 2);
}

static void expect_form(const png_form *form, bool transparent, int32_t n_channels)
{
    png_form f = *form;
    lx_picture p;
    lx_error err = {0};
    png_maker_begin(&maker, form);
    png_maker_chunk(&maker, "gAMA", "\0\0\xb1\x8f", 4);
    if (form->colour_type == 3)
        png_maker_chunk(&maker, "PLTE", palette, (size_t)3 << form->depth);
    if (transparent)
        put_transparency(form);
    png_maker_end(&maker, form, sample_of, &f, 0);
    must(load(maker.bytes, maker.n, n_channels, &p, &err), &err);
    bool has_alpha = transparent || form->colour_type >= 4;
    assert_int_equal(p.alpha != NULL, has_alpha);
    for (uint32_t y = 0; y < form->height; y++) {
        for (uint32_t x = 0; x < form->width; x++) {
            uint8_t e[4];
            size_t i = (size_t)y * form->width + x;
            expected_pixel(form, transparent, x, y, e);
            if (n_channels == 3)
                assert_memory_equal(p.values + 3 * i, e, 3);
            else if (form->colour_type % 4 == 0)
                assert_int_equal(p.values[i], e[0]);
            else
                assert_int_equal(p.values[i],
                                 (int)(0.299 * e[0] + 0.587 * e[1] + 0.114 * e[2] + 0.5 + 1e-9));
            if (has_alpha)
                assert_int_equal(p.alpha[i], e[3]);
        }
    }
    lx_picture_fini(&p);
}

static void every_form_gives_its_values(void **state)
{
    (void)state;
    static const int forms[][2] = {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}, {8, 2}, {16, 2}, {1, 3},
                                   {2, 3}, {4, 3}, {8, 3}, {8, 4}, {16, 4}, {8, 6}, {16, 6}};
    fill(palette, sizeof palette, 5);
    fill(palette_alpha, sizeof palette_alpha, 6);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (int k = 0; k < 4; k++) {
            png_form form = {11, 13, forms[i][0], forms[i][1], k % 2 == 1};
            bool transparent = k >= 2 && form.colour_type < 4;
            if (form.colour_type == 3 && !transparent)
                memset(palette_alpha, 255, sizeof palette_alpha);
            else
                fill(palette_alpha, sizeof palette_alpha, 6);
            expect_form(&form, transparent, 1);
            expect_form(&form, transparent, 3);
        }
    }
}

/* --- refused files --- */

static const png_form grey = {28, 28, 8, 0, false};

static unsigned some_grey(void *context, uint32_t x, uint32_t y, int c)
{
    (void)context;
    (void)c;
    return (x * 9 + y) & 255;
}

static void make_grey(void)
{
    png_maker_begin(&maker, &grey);
    png_maker_end(&maker, &grey, some_grey, NULL, 0);
}

static void what_is_no_png_is_refused(void **state)
{
    (void)state;
    expect_refused("", 0, "not a PNG");
    expect_refused("GIF89a............", 18, "not a PNG");
    expect_refused("\x89PNG\r\n\x1a", 7, "not a PNG");
    expect_refused("\x89PNG\r\n\x1a\n", 8, "cut or damaged");
}

static void a_cut_file_is_refused(void **state)
{
    (void)state;
    make_grey();
    for (size_t n = 0; n < maker.n; n++) {
        uint8_t *exact = malloc(n + 1); /* so that a read past the end is seen */
        assert_non_null(exact);
        memcpy(exact + 1, maker.bytes, n);
        expect_refused(exact + 1, n, "");
        free(exact);
    }
}

static void damage_is_refused(void **state)
{
    (void)state;
    make_grey();
    for (size_t i = 0; i < maker.n; i++) {
        maker.bytes[i] ^= 0x41;
        expect_refused(maker.bytes, maker.n, "");
        maker.bytes[i] ^= 0x41;
    }
}

static void another_head_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t to;
        const char *part;
    } cases[] = {
        {19, 29, "29 x 28 pixels, not 28 x 28"},
        {23, 29, "28 x 29 pixels"},
        {19, 0, "0 x 28"},
        {23, 0, "28 x 0"},
        {16, 255, "4278190108 x 28"},
        {20, 128, "28 x 2147483676"},
        {24, 3, "damaged"},
        {25, 5, "damaged"},
        {26, 1, "damaged"},
        {27, 1, "damaged"},
        {28, 2, "damaged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_grey();
        maker.bytes[cases[i].at] = cases[i].to;
        png_maker_fix(maker.bytes, 8);
        expect_refused(maker.bytes, maker.n, cases[i].part);
    }
}

/* Chunks that cost other readers much memory are skipped, with any contents. */
static void text_and_profiles_cost_nothing(void **state)
{
    (void)state;
    static const char *const types[] = {"zTXt", "iTXt", "tEXt", "iCCP",
                                        "sPLT", "eXIf", "hIST", "abCd"};
    static uint8_t junk[8000];
    lx_picture p;
    lx_error err = {0};
    fill(junk, sizeof junk, 9);
    memcpy(junk, "Comment\0\0x\x9c", 11);
    png_maker_begin(&maker, &grey);
    for (size_t i = 0; i < 3 * sizeof types / sizeof *types; i++)
        png_maker_chunk(&maker, types[i / 3], junk, sizeof junk);
    png_maker_end(&maker, &grey, some_grey, NULL, 0);
    must(load(maker.bytes, maker.n, 1, &p, &err), &err);
    assert_int_equal(p.values[28 + 3], 28);
    lx_picture_fini(&p);
}

static void more_data_than_the_picture_has_is_refused(void **state)
{
    (void)state;
    png_maker_begin(&maker, &grey);
    png_maker_end(&maker, &grey, some_grey, NULL, 100000);
    expect_refused(maker.bytes, maker.n, "more data than a picture of its size");
}

static double cpu_seconds(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* 64 million zeros in sixty thousand bytes, said to be 28 x 28: no more than these are expanded,
   which takes microseconds; all of them would take 0.1 s. */
static void a_bomb_costs_what_it_says(void **state)
{
    (void)state;
    enum { SIDE = 8000, TIMES = 20 };
    uint8_t *zeros = calloc(SIDE, SIDE);
    lx_buffer out;
    lx_error err = {0};
    assert_non_null(zeros);
    lx_buffer_init(&out, 1 << 20);
    must(lx_png_write(zeros, SIDE, SIDE, 1, &out, &err), &err);
    free(zeros);
    expect_refused(out.data, out.length, "8000 x 8000 pixels, not 28 x 28");
    uint8_t *file = (uint8_t *)out.data;
    memcpy(file + 16, "\0\0\0\x1c\0\0\0\x1c", 8);
    png_maker_fix(file, 8);
    double start = cpu_seconds();
    for (int i = 0; i < TIMES; i++)
        expect_refused(out.data, out.length, "more data than a picture of its size");
    assert_true(cpu_seconds() - start < 0.5);
    lx_buffer_fini(&out);
}

/* --- memory --- */

static void reading_may_find_no_memory(void **state)
{
    (void)state;
    png_form form = {9, 9, 16, 6, true};
    int n = 1;
    png_maker_begin(&maker, &form);
    png_maker_end(&maker, &form, sample_of, &form, 0);
    for (;; n++) {
        lx_picture p;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = load(maker.bytes, maker.n, 3, &p, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            lx_picture_fini(&p);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "no memory");
    }
    assert_in_range(n, 8, 40); /* the library's own are among them */
}

static void writing_may_find_no_memory(void **state)
{
    (void)state;
    uint8_t values[3 * 2 * 3];
    int n = 1;
    for (;; n++) {
        lx_buffer out;
        lx_error err = {0};
        lx_buffer_init(&out, 1 << 16);
        failing_arm(n);
        lx_status st = lx_png_write_sheet(5, 3, 2, 3, flat_image, values, &out, &err);
        bool hit = failing_hit();
        lx_buffer_fini(&out);
        if (!hit) {
            assert_int_equal(st, LX_OK);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "");
    }
    assert_in_range(n, 5, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_full_buffer_is_said),
        cmocka_unit_test(a_sheet_shows_every_picture),
        cmocka_unit_test(every_form_gives_its_values),
        cmocka_unit_test(what_is_no_png_is_refused),
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(another_head_is_refused),
        cmocka_unit_test(text_and_profiles_cost_nothing),
        cmocka_unit_test(more_data_than_the_picture_has_is_refused),
        cmocka_unit_test(a_bomb_costs_what_it_says),
        cmocka_unit_test(reading_may_find_no_memory),
        cmocka_unit_test(writing_may_find_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
