/*
 * Weights in shards. The files that an index names are read together, in place of one file. These
 * are refused with a line that names the file: an index that disagrees with its files, a truncated
 * shard, and every allocation that fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/formats/file.h"
#include "model/formats/shards.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"
#include "tests/support/tensor_file.h"
#include "tests/support/tensor_values.h"

static const float numbers[] = {1, 2, 3, 4, 5, 6};
static const char index_name[] = "model.safetensors.index.json";
static const char good[] =
    "{\"metadata\": {\"total_size\": 48}, \"weight_map\": {\"a\": \"one.safetensors\", "
    "\"b\": \"two.safetensors\", \"c\": \"one.safetensors\"}}";

static void write_index(const char *text)
{
    (void)scratch_write(index_name, text, strlen(text));
}

/* One file holds a [2, 3] and c [1], another one b [3]. */
static void write_good(void)
{
    tensor_file *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tensor_file_add(f, "a", "[2,3]", false, numbers, 6);
    tensor_file_add(f, "c", "[1]", true, numbers + 5, 1);
    tensor_file_write(f, "one.safetensors");
    tensor_file_add(f, "b", "[3]", false, numbers + 1, 3);
    tensor_file_write(f, "two.safetensors");
    free(f);
    write_index(good);
}

static lx_status open_shards(lx_safetensors **out, lx_error *err)
{
    char dir[2048], path[4096];
    (void)snprintf(dir, sizeof dir, "%s", scratch_path(""));
    *out = NULL;
    return lx_shards_open(dir, path, sizeof path, out, err);
}

static void shards_are_read_as_one(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "c", "b"};
    lx_safetensors *f, *other;
    lx_error err = {0};
    write_good();
    if (open_shards(&f, &err) != LX_OK)
        fail_msg("%s", err.text);
    assert_int_equal(lx_safetensors_count(f), 3);
    for (int32_t i = 0; i < 3; i++) {
        const lx_tensor *t = lx_safetensors_find(f, names[i]);
        assert_ptr_equal(t, lx_safetensors_at(f, i));
        assert_int_equal(t->idx, i);
    }
    assert_true(tensor_value(f, lx_safetensors_find(f, "a"), 5) == 6);
    assert_true(tensor_value(f, lx_safetensors_find(f, "c"), 0) == 6);
    assert_true(tensor_value(f, lx_safetensors_find(f, "b"), 2) == 4);
    uint64_t hash = lx_safetensors_hash(f);
    lx_safetensors_close(f);
    tensor_file *changed = calloc(1, sizeof *changed);
    assert_non_null(changed);
    tensor_file_add(changed, "b", "[3]", false, numbers, 3);
    tensor_file_write(changed, "two.safetensors");
    free(changed);
    assert_int_equal(open_shards(&other, &err), LX_OK);
    assert_true(lx_safetensors_hash(other) != hash);
    lx_safetensors_close(other);
}

static void one_file_goes_before_an_index(void **state)
{
    (void)state;
    lx_safetensors *f;
    lx_error err = {0};
    tensor_file *one = calloc(1, sizeof *one);
    assert_non_null(one);
    write_index("no JSON");
    tensor_file_add(one, "a", "[6]", false, numbers, 6);
    tensor_file_write(one, "model.safetensors");
    free(one);
    assert_int_equal(open_shards(&f, &err), LX_OK);
    assert_int_equal(lx_safetensors_count(f), 1);
    lx_safetensors_close(f);
    assert_int_equal(unlink(scratch_path("model.safetensors")), 0);
    assert_int_equal(unlink(scratch_path(index_name)), 0);
    scratch_expect(open_shards(&f, &err), &err, LX_ERR_NOT_FOUND, "model.safetensors");
}

static const struct {
    const char *from, *to, *part;
} faults[] = {
    {"{\"metadata\"", "\"metadata\"", "index.json, line 1"},
    {"\"weight_map\"", "\"weights\"", "weight_map must be an object"},
    {"{\"a\": \"one.safetensors\", \"b\": \"two.safetensors\", \"c\": \"one.safetensors\"}", "{}",
     "weight_map must be an object with 1 to"},
    {"\"a\": \"one.safetensors\"", "\"a\": 1",
     "tensor a: \"a value that is no text\" is not the name"},
    {"\"b\": \"two.safetensors\"", "\"b\": \"model.safetensors.index.json\"",
     "tensor b: \"model.safetensors.index.json\" is not the name of a .safetensors file"},
    {"\"b\": \"two.safetensors\"", "\"b\": \"../two.safetensors\"", "is not the name"},
    {"\"b\": \"two.safetensors\"", "\"b\": \"/tmp/two.safetensors\"", "is not the name"},
    {"\"b\": \"two.safetensors\"", "\"b\": \".safetensors\"", "is not the name"},
    {"\"b\": \"two.safetensors\"", "\"b\": \"three.safetensors\"", "three.safetensors"},
    {"\"b\": \"two.safetensors\"", "\"b\": \"loop.safetensors\"", "loop.safetensors"},
    {"\"b\": \"two.safetensors\"", "\"b\": \"one.safetensors\"",
     "tensor b: \"one.safetensors\" has no such tensor"},
    {"\"c\": \"one.safetensors\"", "\"d\": \"one.safetensors\"",
     "tensor d: \"one.safetensors\" has no such tensor"},
    {", \"c\": \"one.safetensors\"", "",
     "tensor c: \"one.safetensors\" has it, but weight_map does not list it"},
    {"\"c\": \"one.safetensors\"", "\"c\": \"both.safetensors\"",
     "tensor c: \"one.safetensors\" has it, too"},
};

static void an_index_must_say_what_its_files_say(void **state)
{
    (void)state;
    tensor_file *both = calloc(1, sizeof *both);
    assert_non_null(both);
    write_good();
    tensor_file_add(both, "c", "[1]", false, numbers, 1);
    tensor_file_write(both, "both.safetensors");
    free(both);
    assert_int_equal(symlink("loop.safetensors", scratch_path("loop.safetensors")), 0);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        lx_safetensors *f;
        lx_error err = {0};
        char *text = scratch_replace(good, faults[i].from, faults[i].to);
        write_index(text);
        free(text);
        lx_status st = open_shards(&f, &err);
        assert_null(f);
        scratch_expect(st, &err, st == LX_ERR_NOT_FOUND || st == LX_ERR_IO ? st : LX_ERR_FORMAT,
                       faults[i].part);
    }
    assert_int_equal(unlink(scratch_path("loop.safetensors")), 0);
}

/* Experts with a tensor each make indexes long. */
static void an_index_may_be_long(void **state)
{
    (void)state;
    enum { MOST = 1 << 18, ENTRY_BYTES = 40 };
    static const int32_t counts[] = {80000, MOST, MOST + 1};
    size_t size = (size_t)(MOST + 2) * ENTRY_BYTES;
    char *text = malloc(size);
    assert_non_null(text);
    write_good();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        lx_safetensors *f;
        lx_error err = {0};
        size_t n = (size_t)snprintf(text, size, "{\"weight_map\": {\"a\": \"one.safetensors\"");
        for (int32_t k = 1; k < counts[i]; k++)
            n += (size_t)snprintf(text + n, size - n, ",\"e%d\": \"one.safetensors\"", k);
        (void)snprintf(text + n, size - n, "}}");
        write_index(text);
        scratch_expect(open_shards(&f, &err), &err, LX_ERR_FORMAT,
                       counts[i] <= MOST ? "has no such tensor"
                                         : "weight_map must be an object with 1 to 262144 tensors");
        assert_null(f);
    }
    free(text);
}

/* Every length of the second shard but its own. */
static void a_shard_that_is_cut_off_is_named(void **state)
{
    (void)state;
    char path[4096], *whole = NULL;
    size_t n = 0;
    write_good();
    (void)snprintf(path, sizeof path, "%s", scratch_path("two.safetensors"));
    assert_int_equal(lx_file_read(path, 1 << 20, &whole, &n, NULL), LX_OK);
    for (size_t cut = 1; cut < n; cut++) {
        lx_safetensors *f;
        lx_error err = {0};
        (void)scratch_write("two.safetensors", whole, cut);
        scratch_expect(open_shards(&f, &err), &err, LX_ERR_FORMAT, "two.safetensors");
        assert_null(f);
    }
    free(whole);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    write_good();
    for (int n = 1;; n++) {
        lx_safetensors *f;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = open_shards(&f, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            lx_safetensors_close(f);
            assert_true(n > 10);
            return;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "no memory");
        assert_null(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_are_read_as_one),
        cmocka_unit_test(one_file_goes_before_an_index),
        cmocka_unit_test(an_index_must_say_what_its_files_say),
        cmocka_unit_test(an_index_may_be_long),
        cmocka_unit_test(a_shard_that_is_cut_off_is_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
