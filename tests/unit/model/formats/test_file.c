/* Reading files in parts: hashes of parts, and files that change between two reads. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/formats/file.h"
#include "tests/support/scratch.h"

static void parts_have_the_hash_of_the_whole(void **state)
{
    (void)state;
    unsigned char bytes[40];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 1);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint64_t whole = lx_file_hash(LX_HASH_SEED, bytes, n);
        for (size_t a = 0; a <= n; a++) {
            for (size_t b = a; b <= n; b++) {
                lx_hasher h = {.hash = LX_HASH_SEED};
                lx_hasher_add(&h, bytes, a);
                lx_hasher_add(&h, bytes + a, b - a);
                lx_hasher_add(&h, bytes + b, n - b);
                assert_true(lx_hasher_end(&h) == whole);
            }
        }
    }
    assert_true(lx_file_hash(LX_HASH_SEED, "\0", 1) != lx_file_hash(LX_HASH_SEED, "\0\0", 2));
}

static const char text[] = "0123456789";

static lx_file begin(char path[2048])
{
    lx_file f;
    lx_error err = {0};
    (void)snprintf(path, 2048, "%s", scratch_write("part", text, sizeof text - 1));
    must(lx_file_begin(path, 100, &f, &err), &err);
    assert_int_equal(f.n_bytes, 10);
    return f;
}

static void a_part_is_read(void **state)
{
    (void)state;
    char path[2048], got[4] = "";
    lx_error err = {0};
    lx_file f = begin(path);
    must(lx_file_read_at(&f, "part", 3, got, 3, &err), &err);
    assert_string_equal(got, "345");
    assert_int_equal(lx_file_read_at(&f, "part", 8, got, 3, &err), LX_ERR_CONFLICT);
    lx_file_end(&f);
    scratch_expect(lx_file_read_at(&f, "part", 3, got, 3, &err), &err, LX_ERR_IO, "part: ");
    lx_file_end(&f);
}

/* The time of a change has the steps of a clock: writes until it is another one. */
static void overwrite(const char *path)
{
    struct stat before, now;
    assert_int_equal(stat(path, &before), 0);
    do {
        int fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, "x", 1, 0), 1);
        (void)close(fd);
        assert_int_equal(stat(path, &now), 0);
    } while (memcmp(&now.st_mtim, &before.st_mtim, sizeof now.st_mtim) == 0);
}

static void shorten(const char *path)
{
    assert_int_equal(truncate(path, 9), 0);
}

static void lengthen(const char *path)
{
    assert_int_equal(truncate(path, 11), 0);
}

static void a_change_is_found_at_the_next_read(void **state)
{
    (void)state;
    void (*const changes[])(const char *) = {overwrite, shorten, lengthen};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char path[2048], got[4];
        lx_error err = {0};
        lx_file f = begin(path);
        changes[i](path);
        scratch_expect(lx_file_read_at(&f, "part", 3, got, 3, &err), &err, LX_ERR_CONFLICT,
                       "part: the file was changed while it was read");
        lx_file_end(&f);
    }
}

static void a_file_that_is_replaced_is_still_read(void **state)
{
    (void)state;
    char path[2048], got[4] = "";
    lx_error err = {0};
    lx_file f = begin(path);
    assert_int_equal(rename(scratch_write("other", "other", 5), path), 0);
    must(lx_file_read_at(&f, "part", 3, got, 3, &err), &err);
    assert_string_equal(got, "345");
    lx_file_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_the_hash_of_the_whole),
        cmocka_unit_test(a_part_is_read),
        cmocka_unit_test(a_change_is_found_at_the_next_read),
        cmocka_unit_test(a_file_that_is_replaced_is_still_read),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
