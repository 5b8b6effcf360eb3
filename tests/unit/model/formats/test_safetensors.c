/*
 * The weights reader: a good file's tensors, one bad file for every check, every truncation, and
 * thousands of damaged files of which none may do more than be refused.
 */
#include <math.h>
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
#include "model/formats/safetensors.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"
#include "tests/support/tensor_values.h"

/* a: 2 x 3 F32 = 1 .. 6; b: 5 BF16; c: 1 x 2 F16. In the header b comes first. */
static const char good_header[] =
    "{\"__metadata__\":{\"format\":\"linnet\"},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[5],\"data_offsets\":[24,34]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"c.d_e-1\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[34,38]}}  ";
enum { DATA_BYTES = 38 };

static void fill_data(unsigned char *data)
{
    static const float a[] = {1, 2, 3, 4, 5, 6};
    static const uint16_t b[] = {0x3f80, 0xbf80, 0x0000, 0x7f7f, 0x0001};
    static const uint16_t c[] = {0x3c00, 0x7bff};
    memcpy(data, a, sizeof a);
    memcpy(data + 24, b, sizeof b);
    memcpy(data + 34, c, sizeof c);
}

/* A file: length field, header, data. Returns its size; `file` has room for it. */
static size_t build(unsigned char *file, const char *header, size_t n_header, uint64_t length,
                    const unsigned char *data, size_t n_data)
{
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(length >> 8 * i);
    memcpy(file + 8, header, n_header);
    if (n_data > 0)
        memcpy(file + 8 + n_header, data, n_data);
    return 8 + n_header + n_data;
}

static size_t build_good(unsigned char *file)
{
    unsigned char data[DATA_BYTES];
    fill_data(data);
    size_t n = sizeof good_header - 1;
    return build(file, good_header, n, n, data, DATA_BYTES);
}

static lx_status open_bytes(const void *bytes, size_t n, lx_safetensors **out, lx_error *err)
{
    *out = NULL;
    return lx_safetensors_open(scratch_write("w.safetensors", bytes, n), out, err);
}

static void a_good_file_is_read(void **state)
{
    (void)state;
    unsigned char file[1024];
    lx_safetensors *f;
    lx_error err = {0};
    if (open_bytes(file, build_good(file), &f, &err) != LX_OK)
        fail_msg("%s", err.text);
    assert_int_equal(lx_safetensors_count(f), 3);
    const char *names[] = {"a", "b", "c.d_e-1"};
    for (int32_t i = 0; i < 3; i++) {
        assert_string_equal(lx_safetensors_at(f, i)->name, names[i]);
        assert_int_equal(lx_safetensors_at(f, i)->idx, i);
        assert_ptr_equal(lx_safetensors_find(f, names[i]), lx_safetensors_at(f, i));
    }
    const lx_tensor *a = lx_safetensors_at(f, 0), *b = lx_safetensors_at(f, 1);
    const lx_tensor *c = lx_safetensors_at(f, 2);
    assert_true(a->n_dims == 2 && a->t.rows == 2 && a->t.cols == 3 && a->t.dtype == LX_F32);
    assert_true(b->n_dims == 1 && b->t.rows == 1 && b->t.cols == 5 && b->t.dtype == LX_BF16);
    assert_true(c->n_dims == 2 && c->t.rows == 1 && c->t.cols == 2 && c->t.dtype == LX_F16);
    for (int i = 0; i < 6; i++)
        assert_true(tensor_value(f, a, i) == (float)(i + 1));
    assert_true(tensor_value(f, b, 1) == -1.0f);
    assert_true(tensor_value(f, c, 1) == 65504.0f);
    assert_null(lx_safetensors_find(f, "d"));
    lx_safetensors_close(f);
    lx_safetensors_close(NULL);
}

static uint64_t hash_of(const void *bytes, size_t n)
{
    lx_safetensors *f;
    assert_int_equal(open_bytes(bytes, n, &f, NULL), LX_OK);
    uint64_t hash = lx_safetensors_hash(f);
    lx_safetensors_close(f);
    return hash;
}

static void the_hash_sees_every_byte(void **state)
{
    (void)state;
    unsigned char file[1024];
    size_t n = build_good(file);
    uint64_t first = hash_of(file, n);
    assert_true(hash_of(file, n) == first);
    for (size_t i = n - DATA_BYTES; i < n; i++) {
        file[i] ^= 1; /* never makes an infinity of these values */
        assert_true(hash_of(file, n) != first);
        file[i] ^= 1;
    }
}

#define A "\"shape\":[2,3],\"data_offsets\":[0,24]"
#define B "\"shape\":[5],\"data_offsets\":[24,34]"
static const struct {
    const char *from, *to, *part;
} header_faults[] = {
    {"\"F32\"", "\"F64\"", "tensor a: dtype"},
    {"\"F32\"", "\"f32\"", "tensor a: dtype"},
    {"\"F32\"", "4", "tensor a: dtype"},
    {"\"dtype\":\"F32\",", "", "tensor a: must have"},
    {A, A ",\"x\":1", "tensor a: must have"},
    {A, "\"shape\":[2,3],\"offsets\":[0,24]", "tensor a: data_offsets"},
    {A, "\"form\":[2,3],\"data_offsets\":[0,24]", "tensor a: shape"},
    {"[2,3]", "[]", "tensor a: shape"},
    {"[2,3]", "6", "tensor a: shape"},
    {"[2,3]", "[2,2,3]", "tensor a: data_offsets"},
    {"[2,3]", "[2,3,1,1,1,1,1,1,1]", "tensor a: shape"},
    {"[2,3]", "[4294967296,4294967296,4294967296,3]", "tensor a: shape"},
    {"[2,3]", "[1,1,1,7]", "tensor a: data_offsets"},
    {"[2,3]", "[2,-3]", "tensor a: shape"},
    {"[2,3]", "[2,3.0]", "tensor a: shape"},
    {"[2,3]", "[2,\"3\"]", "tensor a: shape"},
    {"[2,3]", "[0,3]", "tensor a: shape"},
    {"[2,3]", "[9223372036854775807,9223372036854775807]", "tensor a: shape"},
    {"[2,3]", "[4294967296,4294967296]", "tensor a: shape"},
    {"[2,3]", "[2305843009213693952,3]", "tensor a: shape"},
    {"[2,3]", "[2,4]", "tensor a: data_offsets hold 24 bytes, dtype and shape need 32"},
    {"[0,24]", "[0]", "tensor a: data_offsets"},
    {"[0,24]", "[0,24,34]", "tensor a: data_offsets"},
    {"[0,24]", "[24,0]", "tensor a: data_offsets"},
    {"[0,24]", "[-24,0]", "tensor a: data_offsets"},
    {"[0,24]", "[0,24.0]", "tensor a: data_offsets"},
    {"[0,24]", "[0,9223372036854775807]", "tensor a: ends at"},
    {"[0,24]", "[0,18446744073709551615]", "data_offsets must be"},
    {"[0,24]", "[15,39]", "tensor a: ends at data byte 39, the file has 38"},
    {"[0,24]", "[1,25]", "tensor a: begins at data byte 1, nothing ends at 0"},
    {"[24,34]", "[23,33]", "tensor b: begins at data byte 23, a ends at 24"},
    {"[34,38]", "[0,4]", "begins at data byte 0, "},
    {B, "\"shape\":[4],\"data_offsets\":[24,32]", "tensor c.d_e-1: begins"},
    {"[1,2],\"data_offsets\":[34,38]", "[1],\"data_offsets\":[34,36]",
     "the last tensor, c.d_e-1, ends at 36"},
    {"\"b\":", "\"a\":", "duplicate"},
    {"\"b\":", "\"\":", "tensor : a name"},
    {"\"b\":", "\"b c\":", "tensor b c: a name"},
    {"\"b\":", "\"b\\n\":", "tensor b?: a name"},
    {"\"b\":{", "\"b\":[{", "header"},
    {"{\"dtype\":\"BF16\"," B "}", "7", "tensor b: must have"},
    {"{\"format\":\"linnet\"}", "7", "__metadata__ must be an object"},
    {"{\"format\":\"linnet\"}", "{\"format\":7}", "__metadata__ may hold text only"},
    {"[34,38]}}", "[34,38]}", "header"},
    {"[34,38]}}", "[34,38]}}}", "header"},
    {"[34,38]}}", "[34,38]}} x", "header"},
};

static void every_fault_of_the_header_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof header_faults / sizeof *header_faults; i++) {
        unsigned char file[1024], data[DATA_BYTES];
        lx_safetensors *f;
        lx_error err = {0};
        char *header = scratch_replace(good_header, header_faults[i].from, header_faults[i].to);
        fill_data(data);
        size_t n = strlen(header), size = build(file, header, n, n, data, DATA_BYTES);
        lx_status st = open_bytes(file, size, &f, &err);
        scratch_expect(st, &err, LX_ERR_FORMAT, header_faults[i].part);
        scratch_expect(st, &err, LX_ERR_FORMAT, "w.safetensors");
        assert_null(f);
        free(header);
    }
}

static void every_fault_of_the_frame_is_found(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *header, *part;
    } cases[] = {
        {0, "", "header"},
        {2, "[]", "not an object"},
        {2, "{}", "0 tensors"},
        {19, "{\"__metadata__\":{}} ", "0 tensors"},
        {3, "{}", "a header of 3 bytes"},
        {UINT64_MAX, "{}", "a header of 18446744073709551615 bytes"},
        {UINT64_MAX - 7, "{}", "a header of"},
        {INT64_MAX, "{}", "a header of"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char file[64];
        lx_safetensors *f;
        lx_error err = {0};
        size_t n = strlen(cases[i].header);
        size_t size = build(file, cases[i].header, n, cases[i].length, NULL, 0);
        scratch_expect(open_bytes(file, size, &f, &err), &err, LX_ERR_FORMAT, cases[i].part);
    }
    lx_safetensors *f = NULL;
    lx_error err = {0};
    scratch_expect(open_bytes("1234567", 7, &f, &err), &err, LX_ERR_FORMAT, "no room");
    scratch_expect(open_bytes("", 0, &f, &err), &err, LX_ERR_FORMAT, "empty");
    scratch_expect(lx_safetensors_open(scratch_path("."), &f, &err), &err, LX_ERR_FORMAT,
                   "not a regular file");
    scratch_expect(lx_safetensors_open(scratch_path("none"), &f, &err), &err, LX_ERR_NOT_FOUND,
                   "none");
    scratch_expect(lx_safetensors_open("/dev/zero", &f, &err), &err, LX_ERR_FORMAT,
                   "not a regular file");
}

static void a_header_over_the_limit_is_not_parsed(void **state)
{
    (void)state;
    size_t n = ((size_t)16 << 20) + 1;
    unsigned char *file = malloc(n + 8);
    lx_safetensors *f;
    lx_error err = {0};
    assert_non_null(file);
    memset(file, ' ', n + 8);
    (void)build(file, "{}", 2, n, NULL, 0);
    scratch_expect(open_bytes(file, n + 8, &f, &err), &err, LX_ERR_FORMAT, "at most 16777216");
    free(file);
}

/* --- blocks --- */

/* a: 2 x 64 Q4_0; b: 32 Q8_0; c: one F32. */
static const char block_header[] =
    "{\"__metadata__\":{\"linnet_blocks\":\"1\"},"
    "\"a\":{\"dtype\":\"Q4_0\",\"shape\":[2,64],\"data_offsets\":[0,72]},"
    "\"b\":{\"dtype\":\"Q8_0\",\"shape\":[32],\"data_offsets\":[72,106]},"
    "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[106,110]}}";
enum { BLOCK_BYTES = 110 };

static lx_status open_blocks(const char *from, const char *to, const unsigned char *data,
                             lx_safetensors **out, lx_error *err)
{
    unsigned char file[1024];
    char *header = scratch_replace(block_header, from, to);
    size_t n = strlen(header), size = build(file, header, n, n, data, BLOCK_BYTES);
    free(header);
    return open_bytes(file, size, out, err);
}

static void tensors_in_blocks_are_read(void **state)
{
    (void)state;
    unsigned char data[BLOCK_BYTES];
    lx_safetensors *f;
    lx_error err = {0};
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 % 59); /* no scale is infinite */
    if (open_blocks("Q8_0", "Q8_0", data, &f, &err) != LX_OK)
        fail_msg("%s", err.text);
    const lx_tensor *a = lx_safetensors_at(f, 0), *b = lx_safetensors_at(f, 1);
    assert_true(a->t.dtype == LX_Q4_0 && a->t.rows == 2 && a->t.cols == 64 && a->n_dims == 2);
    assert_true(b->t.dtype == LX_Q8_0 && b->t.rows == 1 && b->t.cols == 32 && b->n_dims == 1);
    const lx_host_tensor first = {LX_Q4_0, 2, 64, data}, second = {LX_Q8_0, 1, 32, data + 72};
    float numbers[128];
    assert_int_equal(lx_safetensors_numbers(f, a, numbers, &err), LX_OK);
    for (int i = 0; i < 128; i++)
        assert_true(numbers[i] == lx_host_tensor_at(&first, i));
    assert_int_equal(lx_safetensors_numbers(f, b, numbers, &err), LX_OK);
    for (int i = 0; i < 32; i++)
        assert_true(numbers[i] == lx_host_tensor_at(&second, i));
    lx_safetensors_close(f);
}

static void every_fault_of_blocks_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *part;
    } faults[] = {
        {"{\"linnet_blocks\":\"1\"}", "{}", "tensor a: its dtype is one of blocks"},
        {"{\"linnet_blocks\":\"1\"}", "{\"linnet_blocks\":\"2\"}", "tensor a: its dtype is one of"},
        {"{\"linnet_blocks\":\"1\"}", "{\"linnet_blocks\":\"\"}", "tensor a: its dtype is one of"},
        {"\"__metadata__\":{\"linnet_blocks\":\"1\"},", "", "tensor a: its dtype is one of"},
        {"{\"linnet_blocks\":\"1\"}", "{\"linnet_blocks\":1}", "__metadata__ may hold text only"},
        {"Q4_0", "Q4_1", "tensor a: dtype must be"},
        {"[2,64]", "[4,48]", "tensor a: shape"},
        {"[2,64]", "[64,2]", "tensor a: shape"},
        {"[2,64]", "[3,64]", "tensor a: data_offsets hold 72 bytes, dtype and shape need 108"},
        {"[2,64]", "[144115188075855872,64]", "tensor a: "},
        {"Q8_0", "Q4_0", "tensor b: data_offsets hold 34 bytes, dtype and shape need 18"},
    };
    unsigned char data[BLOCK_BYTES] = {0};
    lx_safetensors *f;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        lx_error err = {0};
        lx_status st = open_blocks(faults[i].from, faults[i].to, data, &f, &err);
        scratch_expect(st, &err, LX_ERR_FORMAT, faults[i].part);
    }
    static const size_t scales[] = {0, 18, 36, 54, 72};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        lx_error err = {0};
        memset(data, 0xff, sizeof data); /* codes of all values */
        memset(data + 106, 0, 4);
        for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
            data[scales[k] + 1] = k == i ? (i % 2 == 0 ? 0x7c : 0xfe) : 0x7b;
        lx_status st = open_blocks("Q8_0", "Q8_0", data, &f, &err);
        scratch_expect(st, &err, LX_ERR_FORMAT,
                       i < 4 ? "tensor a: has a value that is NaN or infinite"
                             : "tensor b: has a value that is NaN or infinite");
    }
}

/* Every place of a tensor, in a block of eight bytes and after the last one. */
static void no_value_may_be_infinite(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        size_t bytes;
        uint32_t bad[4], good[4];
    } types[] = {
        {"F32",
         4,
         {0x7f800000, 0xff800000, 0x7fc00000, 0xffffffff},
         {0x7f7fffff, 0xff7fffff, 0x80000000, 0x00000001}},
        {"BF16", 2, {0x7f80, 0xff80, 0x7fc0, 0xffff}, {0x7f7f, 0xff7f, 0x8000, 0x0001}},
        {"F16", 2, {0x7c00, 0xfc00, 0x7e00, 0xffff}, {0x7bff, 0xfbff, 0x8000, 0x0001}},
    };
    for (size_t t = 0; t < 3; t++) {
        for (size_t n = 1; n <= 11; n++) {
            for (size_t at = 0; at < n; at++) {
                char header[128];
                unsigned char file[256], data[64];
                lx_safetensors *f;
                lx_error err = {0};
                size_t size = n * types[t].bytes;
                int k =
                    snprintf(header, sizeof header,
                             "{\"x\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
                             types[t].dtype, n, size);
                for (size_t i = 0; i < n; i++)
                    memcpy(data + i * types[t].bytes, &types[t].good[(i + at) % 4], types[t].bytes);
                size_t all = build(file, header, (size_t)k, (uint64_t)k, data, size);
                assert_int_equal(open_bytes(file, all, &f, &err), LX_OK);
                lx_safetensors_close(f);
                memcpy(file + 8 + k + at * types[t].bytes, &types[t].bad[(n + at) % 4],
                       types[t].bytes);
                scratch_expect(open_bytes(file, all, &f, &err), &err, LX_ERR_FORMAT,
                               "tensor x: has a value that is NaN or infinite");
            }
        }
    }
}

static void no_truncation_and_no_rest_is_accepted(void **state)
{
    (void)state;
    unsigned char file[1024] = {0};
    lx_safetensors *f;
    lx_error err = {0};
    size_t n = build_good(file);
    for (size_t cut = 0; cut < n; cut++)
        scratch_expect(open_bytes(file, cut, &f, &err), &err, LX_ERR_FORMAT, "w.safetensors");
    for (size_t more = 1; more < 20; more++)
        scratch_expect(open_bytes(file, n + more, &f, &err), &err, LX_ERR_FORMAT,
                       "the last tensor, c.d_e-1, ends at 38");
}

/* An accepted tensor can be read to its last element. */
static void read_all(const lx_safetensors *f)
{
    for (int32_t i = 0; i < lx_safetensors_count(f); i++) {
        const lx_tensor *t = lx_safetensors_at(f, i);
        for (int64_t j = 0; j < t->t.rows * t->t.cols; j++)
            assert_true(isfinite(tensor_value(f, t, j)));
        assert_ptr_equal(lx_safetensors_find(f, t->name), t);
    }
}

static void no_damage_is_fatal(void **state)
{
    (void)state;
    unsigned char file[1024], copy[1024];
    size_t n = build_good(file);
    uint64_t r = 3;
    int accepted = 0;
    for (int i = 0; i < 4000; i++) {
        lx_safetensors *f;
        lx_error err = {0};
        memcpy(copy, file, n);
        for (uint64_t k = 1 + scratch_random(&r) % 3; k > 0; k--) {
            size_t at = scratch_random(&r) % n;
            /* now and then a digit for a digit, so that the JSON stays whole */
            copy[at] = copy[at] >= '0' && copy[at] <= '9' && i % 2 == 0
                           ? (unsigned char)('0' + scratch_random(&r) % 10)
                           : (unsigned char)scratch_random(&r);
        }
        lx_status st = open_bytes(copy, n, &f, &err);
        if (st == LX_OK) {
            accepted++;
            read_all(f);
            lx_safetensors_close(f);
        } else {
            scratch_expect(st, &err, LX_ERR_FORMAT, "w.safetensors");
        }
    }
    assert_in_range(accepted, 1, 3999);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    unsigned char file[1024];
    char path[2048];
    (void)snprintf(path, sizeof path, "%s", scratch_write("w.safetensors", file, build_good(file)));
    int n = 1;
    for (;; n++) {
        lx_safetensors *f = NULL;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_safetensors_open(path, &f, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            lx_safetensors_close(f);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "w.safetensors");
        assert_null(f);
    }
    assert_in_range(n, 50, 1000); /* the parser's too */
}

/* An odd tensor first, so that the second begins within a word of the hash; it is read in parts. */
enum { N_LARGE = 140000 };

static size_t build_large(unsigned char **file)
{
    static const uint16_t small = 0x3c00;
    char header[256];
    int k = snprintf(header, sizeof header,
                     "{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
                     "\"b\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[2,%d]}}",
                     N_LARGE, 2 + 4 * N_LARGE);
    unsigned char *data = malloc(2 + 4 * N_LARGE);
    *file = malloc(512 + 4 * N_LARGE);
    assert_true(data != NULL && *file != NULL);
    memcpy(data, &small, 2);
    for (int32_t i = 0; i < N_LARGE; i++) {
        float value = (float)i;
        memcpy(data + 2 + (size_t)i * 4, &value, 4);
    }
    size_t n = build(*file, header, (size_t)k, (uint64_t)k, data, 2 + 4 * N_LARGE);
    free(data);
    return n;
}

static void a_large_tensor_is_read_in_parts(void **state)
{
    (void)state;
    static const int32_t places[] = {0, 1, 65535, 65536, 131071, 131072, N_LARGE - 1};
    unsigned char *file;
    lx_safetensors *f;
    lx_error err = {0};
    size_t n = build_large(&file);
    must(open_bytes(file, n, &f, &err), &err);
    const lx_tensor *b = lx_safetensors_find(f, "b");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        assert_true(tensor_value(f, b, places[i]) == (float)places[i]);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        unsigned char *byte = file + n - (size_t)(N_LARGE - places[i]) * sizeof(float);
        *byte ^= 1;
        assert_true(hash_of(file, n) != lx_safetensors_hash(f));
        *byte ^= 1;
    }
    assert_true(hash_of(file, n) == lx_safetensors_hash(f));
    lx_safetensors_close(f);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint32_t infinite = 0x7f800000, before;
        unsigned char *at = file + n - (size_t)(N_LARGE - places[i]) * 4;
        memcpy(&before, at, 4);
        memcpy(at, &infinite, 4);
        scratch_expect(open_bytes(file, n, &f, &err), &err, LX_ERR_FORMAT,
                       "tensor b: has a value that is NaN or infinite");
        memcpy(at, &before, 4);
    }
    free(file);
}

/* Someone copies another file over an open one: it is cut off first, at once or at any place. */
static void a_file_that_is_shortened_is_refused(void **state)
{
    (void)state;
    unsigned char *file;
    size_t n = build_large(&file);
    float *numbers = malloc(sizeof *numbers * N_LARGE);
    assert_non_null(numbers);
    for (size_t left = 0; left < n; left += n / 50) {
        lx_safetensors *f;
        lx_error err = {0};
        must(open_bytes(file, n, &f, &err), &err);
        assert_int_equal(truncate(scratch_path("w.safetensors"), (off_t)left), 0);
        for (int32_t i = 0; i < 2; i++)
            scratch_expect(lx_safetensors_numbers(f, lx_safetensors_at(f, i), numbers, &err), &err,
                           LX_ERR_CONFLICT,
                           "w.safetensors: the file was changed while it was read");
        lx_safetensors_close(f);
    }
    free(numbers);
    free(file);
}

static void names_and_shapes_outlast_the_files(void **state)
{
    (void)state;
    unsigned char file[1024];
    float numbers[6];
    lx_safetensors *f;
    lx_error err = {0};
    must(open_bytes(file, build_good(file), &f, &err), &err);
    lx_safetensors_end(f);
    lx_safetensors_end(f);
    const lx_tensor *a = lx_safetensors_find(f, "a");
    assert_true(a->t.rows == 2 && a->t.cols == 3 && a->t.data == NULL);
    scratch_expect(lx_safetensors_numbers(f, a, numbers, &err), &err, LX_ERR_IO, "w.safetensors");
    lx_safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(the_hash_sees_every_byte),
        cmocka_unit_test(every_fault_of_the_header_is_found),
        cmocka_unit_test(every_fault_of_the_frame_is_found),
        cmocka_unit_test(a_header_over_the_limit_is_not_parsed),
        cmocka_unit_test(tensors_in_blocks_are_read),
        cmocka_unit_test(every_fault_of_blocks_is_found),
        cmocka_unit_test(no_value_may_be_infinite),
        cmocka_unit_test(no_truncation_and_no_rest_is_accepted),
        cmocka_unit_test(no_damage_is_fatal),
        cmocka_unit_test(a_large_tensor_is_read_in_parts),
        cmocka_unit_test(a_file_that_is_shortened_is_refused),
        cmocka_unit_test(names_and_shapes_outlast_the_files),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
