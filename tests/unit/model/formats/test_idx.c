/* idx files: plain and gzip-compressed, cut, damaged, longer than they say, and larger than is so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/formats/idx.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum { N = 3, HEIGHT = 2, WIDTH = 5, SIZE = HEIGHT * WIDTH, BYTES = 16 + N * SIZE };

static const uint8_t good[BYTES] = {
    0,  0,  8,  3,  0,  0,  0,  N,  0,  0,  0,  HEIGHT, 0,  0,   0,  WIDTH,
    1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,     13, 14,  15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,     29, 255,
};

/* `good` as gzip writes it: one stored block. */
enum { GZIP_BYTES = 10 + 5 + BYTES + 8 };

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

static void make_gzip(uint8_t *out)
{
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0,     0, 0,           0,  0,
                                   0,    255,  1, BYTES, 0, 255 - BYTES, 255};
    uint32_t tail[] = {crc(good, BYTES), BYTES};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, good, BYTES);
    uint8_t *tail_at = out + sizeof head + BYTES;
    for (int i = 0; i < 8; i++)
        tail_at[i] = (uint8_t)(tail[i / 4] >> i % 4 * 8);
}

static lx_status load(const uint8_t *bytes, size_t n, int32_t limit, lx_idx *x, lx_error *err)
{
    return lx_idx_read(scratch_write("images", bytes, n), limit, x, err);
}

static void expect_images(const uint8_t *bytes, size_t n, int32_t limit, int32_t images)
{
    lx_idx x;
    lx_error err = {0};
    if (load(bytes, n, limit, &x, &err) != LX_OK)
        fail_msg("%s", err.text);
    assert_int_equal(x.n, images);
    assert_int_equal(x.height, HEIGHT);
    assert_int_equal(x.width, WIDTH);
    assert_int_equal(x.channels, 1);
    assert_memory_equal(x.values, good + 16, (size_t)images * SIZE);
    lx_idx_fini(&x);
    assert_null(x.values);
}

static void images_are_read(void **state)
{
    (void)state;
    uint8_t gzip[GZIP_BYTES];
    make_gzip(gzip);
    static const struct {
        int32_t limit, n;
    } cases[] = {{0, 3}, {1, 1}, {2, 2}, {3, 3}, {4, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_images(good, BYTES, cases[i].limit, cases[i].n);
        expect_images(gzip, GZIP_BYTES, cases[i].limit, cases[i].n);
    }
    expect_images(good, BYTES - 1, 2, 2); /* images after the limit are not read */
}

/* Its last dimension is three values per pixel. */
static const uint8_t coloured[20 + 2 * 6] = {
    0, 0, 8, 4, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0,  0,  2,
    0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
};

static void colours_are_read(void **state)
{
    (void)state;
    lx_idx x;
    lx_error err = {0};
    if (load(coloured, sizeof coloured, 0, &x, &err) != LX_OK)
        fail_msg("%s", err.text);
    assert_true(x.n == 2 && x.height == 1 && x.width == 2 && x.channels == 3);
    assert_memory_equal(x.values, coloured + 20, 12);
    lx_idx_fini(&x);
}

static void expect_refused(const uint8_t *bytes, size_t n, const char *part)
{
    lx_idx x = {.n = 77};
    lx_error err = {0};
    lx_status st = load(bytes, n, 0, &x, &err);
    scratch_expect(st, &err, LX_ERR_FORMAT, part);
    scratch_expect(st, &err, LX_ERR_FORMAT, "images");
    assert_int_equal(x.n, 77);
}

/* A byte of a file, its new value, and a part of the error. */
typedef struct change {
    size_t at;
    uint8_t to;
    const char *part;
} change;

static void expect_changes_refused(const uint8_t *whole, size_t n, const change *changes,
                                   size_t n_changes)
{
    for (size_t i = 0; i < n_changes; i++) {
        uint8_t bad[BYTES];
        assert_true(n <= sizeof bad);
        memcpy(bad, whole, n);
        bad[changes[i].at] = changes[i].to;
        expect_refused(bad, n, changes[i].part);
    }
}

static void a_bad_header_is_refused(void **state)
{
    (void)state;
    static const change cases[] = {
        {0, 1, "not an idx file"},
        {2, 9, "not an idx file"},
        {3, 1, "not an idx file"},
        {7, 0, "not within limits"},
        {11, 0, "not within limits"},
        {15, 0, "not within limits"},
        {4, 255, "not within limits"},
        {8, 255, "not within limits"},
        {14, 8, "ends or is damaged in image 1"},
        {14, 17, "not within limits"},
        {5, 1, "ends before its 65539 images of 5 x 2"},
        {7, 4, "ends or is damaged in image 4 of 4"},
        {7, 2, "longer than its 2 images"},
    };
    expect_changes_refused(good, BYTES, cases, sizeof cases / sizeof *cases);
}

static void bad_colours_are_refused(void **state)
{
    (void)state;
    static const change cases[] = {
        {3, 5, "not an idx file"},
        {19, 0, "images have 0 values per pixel"},
        {19, 4, "images have 4 values per pixel"},
        {16, 1, "images have 16777219 values per pixel"},
        {4, 64, "not within limits"},
        {7, 3, "ends or is damaged in image 3 of 3"},
        {19, 1, "longer than its 2 images"},
    };
    expect_changes_refused(coloured, sizeof coloured, cases, sizeof cases / sizeof *cases);
    for (size_t n = 1; n < sizeof coloured; n++)
        expect_refused(coloured, n, n < 20 ? "not an idx file" : "ends or is damaged");
}

static void a_cut_file_is_refused(void **state)
{
    (void)state;
    uint8_t gzip[GZIP_BYTES];
    make_gzip(gzip);
    expect_refused(good, 0, "empty");
    for (size_t n = 1; n < BYTES; n++)
        expect_refused(good, n, n < 16 ? "not an idx file" : "ends or is damaged");
    for (size_t n = 1; n < GZIP_BYTES; n++)
        expect_refused(gzip, n, "");
}

static void damage_that_gzip_can_see_is_refused(void **state)
{
    (void)state;
    uint8_t gzip[GZIP_BYTES];
    for (size_t i = 11; i < GZIP_BYTES; i++) { /* before it: bits that mean nothing */
        make_gzip(gzip);
        gzip[i] ^= 0x10;
        expect_refused(gzip, GZIP_BYTES, "");
    }
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    lx_idx x;
    lx_error err = {0};
    scratch_expect(lx_idx_read(scratch_path("none"), 0, &x, &err), &err, LX_ERR_NOT_FOUND, "none");
    scratch_expect(lx_idx_read(scratch_path("."), 0, &x, &err), &err, LX_ERR_FORMAT,
                   "not a regular file");
}

static void no_memory_is_said(void **state)
{
    (void)state;
    lx_idx x;
    lx_error err = {0};
    const char *path = scratch_write("images", good, BYTES);
    failing_arm(1);
    lx_status st = lx_idx_read(path, 0, &x, &err);
    assert_true(failing_hit());
    scratch_expect(st, &err, LX_ERR_NO_MEMORY, "images");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_read),
        cmocka_unit_test(colours_are_read),
        cmocka_unit_test(a_bad_header_is_refused),
        cmocka_unit_test(bad_colours_are_refused),
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(damage_that_gzip_can_see_is_refused),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
