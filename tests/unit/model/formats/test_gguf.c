/*
 * GGUF files. The numbers of every type of blocks are those of the package `gguf`, to the bit. A
 * file that ends at any byte is refused, and one with another byte anywhere is read or refused.
 * A file that is shortened after it was opened is refused.
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
#include <jansson.h>

#include "common/hex.h"
#include "model/formats/gguf/reader.h"
#include "model/formats/gguf/values.h"
#include "model/formats/safetensors.h"
#include "model/tokenizers/tokenizer.h"
#include "model/utf8.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

/* --- blocks --- */

/* The bytes of a text of hexadecimal digits, which the caller frees. */
static unsigned char *bytes_of(const json_t *text, size_t *n)
{
    const char *digits = json_string_value(text);
    *n = json_string_length(text) / 2;
    unsigned char *out = malloc(*n);
    assert_non_null(out);
    for (size_t i = 0; i < *n; i++)
        out[i] =
            (unsigned char)(16 * lx_hex_digit(digits[2 * i]) + lx_hex_digit(digits[2 * i + 1]));
    return out;
}

static void check_blocks(const char *name, const json_t *want)
{
    size_t n_bytes = 0, n_numbers = 0;
    unsigned char *blocks = bytes_of(json_object_get(want, "blocks"), &n_bytes);
    unsigned char *numbers = bytes_of(json_object_get(want, "numbers"), &n_numbers);
    const lx_gguf_type *t =
        lx_gguf_type_of((uint32_t)json_integer_value(json_object_get(want, "id")));
    assert_non_null(t);
    assert_string_equal(t->name, name);
    assert_int_equal(n_bytes % t->bytes, 0);
    assert_int_equal(n_numbers, n_bytes / t->bytes * t->block * sizeof(float));
    assert_true(lx_gguf_scales_are_finite(t, blocks, n_bytes));
    for (size_t i = 0; i < n_bytes / t->bytes; i++) {
        float found[LX_GGUF_MAX_BLOCK];
        lx_gguf_numbers(t, blocks + i * t->bytes, t->bytes, found);
        for (size_t k = 0; k < t->block; k++) {
            float wanted;
            memcpy(&wanted, numbers + (i * t->block + k) * sizeof wanted, sizeof wanted);
            if (!(found[k] == wanted))
                fail_msg("%s: block %zu, number %zu is %a, not %a", name, i, k, (double)found[k],
                         (double)wanted);
        }
    }
    for (uint32_t i = 0; i < t->n_scales; i++) { /* an infinite scale is found */
        unsigned char *high = blocks + t->scales_at + 2 * i + 1, kept = *high;
        *high |= 0x7c;
        assert_false(lx_gguf_scales_are_finite(t, blocks, n_bytes));
        *high = kept;
    }
    free(blocks);
    free(numbers);
}

static void blocks_have_their_numbers(void **state)
{
    (void)state;
    const char *name;
    json_t *want, *all = json_load_file(GOLDEN_GGUF, 0, NULL);
    assert_int_equal(json_object_size(all), 12);
    json_object_foreach(all, name, want) check_blocks(name, want);
    json_decref(all);
}

/* --- the container --- */

typedef struct image {
    unsigned char bytes[1 << 15];
    size_t n;
} image;

static void put(image *f, const void *bytes, size_t n)
{
    memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}

static void put_number(image *f, uint64_t x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        f->bytes[f->n++] = (unsigned char)(x >> 8 * i);
}

static void put_text(image *f, const char *text)
{
    put_number(f, strlen(text), 8);
    put(f, text, strlen(text));
}

static void pad(image *f)
{
    while (f->n % 32 != 0)
        f->bytes[f->n++] = 0;
}

/* A key of every form, and two tensors: a, [2, 32] of Q8_0, and b, [3] of F32. */
static image good(void)
{
    image f = {.n = 0};
    put(&f, "GGUF", 4);
    put_number(&f, 3, 4);
    put_number(&f, 2, 8);
    put_number(&f, 4, 8);
    put_text(&f, "general.architecture");
    put_number(&f, LX_GGUF_TEXT, 4);
    put_text(&f, "llama");
    put_text(&f, "general.alignment");
    put_number(&f, LX_GGUF_U32, 4);
    put_number(&f, 32, 4);
    put_text(&f, "flags");
    put_number(&f, LX_GGUF_ARRAY, 4);
    put_number(&f, LX_GGUF_BOOL, 4);
    put_number(&f, 2, 8);
    put_number(&f, 0x0001, 2);
    put_text(&f, "texts");
    put_number(&f, LX_GGUF_ARRAY, 4);
    put_number(&f, LX_GGUF_TEXT, 4);
    put_number(&f, 2, 8);
    put_text(&f, "");
    put_text(&f, "two");
    const uint64_t shapes[2][4] = {{2, 32, 2, 8}, {1, 3, 0, 0}}; /* dimensions, type */
    for (int i = 0; i < 2; i++) {
        put_text(&f, i == 0 ? "a" : "b");
        put_number(&f, shapes[i][0], 4);
        for (uint64_t k = 1; k <= shapes[i][0]; k++)
            put_number(&f, shapes[i][k], 8);
        put_number(&f, shapes[i][3], 4);
        put_number(&f, i == 0 ? 0 : 96, 8);
    }
    pad(&f);
    for (int i = 0; i < 2; i++) {
        put_number(&f, 0x3c00, 2); /* a scale of 1 */
        for (int k = 0; k < 32; k++)
            put_number(&f, (uint64_t)k, 1);
    }
    pad(&f);
    put_number(&f, 0x3f800000, 4);
    put_number(&f, 0x40000000, 4);
    put_number(&f, 0xc0400000, 4);
    return f;
}

static lx_status open_image(const image *f, size_t n, lx_gguf **out, lx_error *err)
{
    *out = NULL;
    return lx_gguf_open(scratch_write("m.gguf", f->bytes, n), out, err);
}

static lx_status list_tensors(lx_gguf *f, lx_safetensors **out, lx_error *err)
{
    static lx_config config;
    config.n_layers = config.n_heads = 1;
    return lx_gguf_weights(f, lx_gguf_archs[0], &config, out, err);
}

static void a_good_file_is_read(void **state)
{
    (void)state;
    image f = good();
    lx_gguf *g = NULL;
    lx_error err = {0};
    lx_safetensors *tensors = NULL;
    float numbers[64];
    must(open_image(&f, f.n, &g, &err), &err);
    const lx_gguf_value *texts = lx_gguf_find(g, "texts"), *flags = lx_gguf_find(g, "flags");
    assert_non_null(texts);
    assert_null(lx_gguf_find(g, "text"));
    assert_int_equal(texts->n, 2);
    assert_true(lx_gguf_number_at(g, flags, 0) == 1 && lx_gguf_number_at(g, flags, 1) == 0);
    uint64_t at = texts->at;
    size_t n = 1;
    (void)lx_gguf_text_at(g, &at, &n);
    assert_int_equal(n, 0);
    assert_memory_equal(lx_gguf_text_at(g, &at, &n), "two", 3);
    must(list_tensors(g, &tensors, &err), &err);
    const lx_tensor *a = lx_safetensors_find(tensors, "a"), *b = lx_safetensors_find(tensors, "b");
    assert_true(a->n_dims == 2 && a->t.rows == 2 && a->t.cols == 32 && a->t.dtype == LX_Q8_0);
    assert_true(b->n_dims == 1 && b->t.rows == 1 && b->t.cols == 3);
    assert_int_equal(lx_safetensors_bytes(a), 68);
    must(lx_safetensors_numbers(tensors, a, numbers, &err), &err);
    assert_true(numbers[0] == 0 && numbers[31] == 31 && numbers[63] == 31);
    must(lx_safetensors_numbers(tensors, b, numbers, &err), &err);
    assert_true(numbers[0] == 1 && numbers[1] == 2 && numbers[2] == -3);
    lx_safetensors_close(tensors);
}

static void expect_one_line(lx_status st, const lx_error *err)
{
    assert_true(st == LX_ERR_FORMAT || st == LX_ERR_UNSUPPORTED);
    assert_non_null(strstr(err->text, "m.gguf: "));
    assert_null(strchr(err->text, '\n'));
}

static void every_end_is_refused(void **state)
{
    (void)state;
    image f = good();
    for (size_t n = 1; n < f.n; n++) {
        lx_gguf *g = NULL;
        lx_error err = {0};
        expect_one_line(open_image(&f, n, &g, &err), &err);
    }
}

/* Every byte before the data with several other values. */
static void every_other_byte_is_read_or_refused(void **state)
{
    (void)state;
    static const unsigned char changes[] = {0x01, 0x80, 0xff, 0x7f, 0x10};
    image f = good();
    for (size_t i = 0; i < f.n; i++) {
        for (size_t k = 0; k < sizeof changes; k++) {
            lx_gguf *g = NULL;
            lx_error err = {0};
            lx_safetensors *tensors = NULL;
            f.bytes[i] ^= changes[k];
            lx_status st = open_image(&f, f.n, &g, &err);
            f.bytes[i] ^= changes[k];
            if (st == LX_OK)
                st = list_tensors(g, &tensors, &err);
            if (st != LX_OK)
                expect_one_line(st, &err);
            if (tensors == NULL)
                lx_gguf_close(g);
            lx_safetensors_close(tensors);
        }
    }
}

static void a_file_that_is_shortened_is_refused(void **state)
{
    (void)state;
    image f = good();
    lx_gguf *g = NULL;
    lx_error err = {0};
    lx_safetensors *tensors = NULL;
    must(open_image(&f, f.n, &g, &err), &err);
    assert_int_equal(truncate(scratch_path("m.gguf"), 64), 0);
    scratch_expect(list_tensors(g, &tensors, &err), &err, LX_ERR_CONFLICT, "m.gguf: the file was");
    lx_gguf_close(g);
    must(open_image(&f, f.n, &g, &err), &err);
    must(list_tensors(g, &tensors, &err), &err);
    assert_int_equal(truncate(scratch_path("m.gguf"), 64), 0);
    float numbers[64];
    const lx_tensor *a = lx_safetensors_find(tensors, "a");
    scratch_expect(lx_safetensors_read(tensors, a, numbers, &err), &err, LX_ERR_CONFLICT,
                   "m.gguf: the file was");
    lx_safetensors_close(tensors);
}

/* --- memory --- */

static void put_key(image *f, const char *key, lx_gguf_kind kind)
{
    put_text(f, key);
    put_number(f, kind, 4);
}

static void put_array(image *f, const char *key, uint64_t n)
{
    put_key(f, key, LX_GGUF_ARRAY);
    put_number(f, LX_GGUF_TEXT, 4);
    put_number(f, n, 8);
}

static void put_tensor(image *f, const char *name, uint64_t rows, uint64_t *at)
{
    put_text(f, name);
    put_number(f, rows > 0 ? 2 : 1, 4);
    put_number(f, 32, 8);
    if (rows > 0)
        put_number(f, rows, 8);
    put_number(f, rows > 0 ? 8 : 0, 4); /* Q8_0, F32 */
    put_number(f, *at, 8);
    *at += (rows > 0 ? rows * 34 : 128) + 31;
    *at -= *at % 32;
}

enum { N_TOKENS = 257 };

static void put_llama_keys(image *f)
{
    static const char *const keys[] = {"embedding_length", "block_count", "feed_forward_length",
                                       "attention.head_count"};
    static const uint64_t sizes[] = {32, 1, 32, 2};
    put_key(f, "general.architecture", LX_GGUF_TEXT);
    put_text(f, "llama");
    for (int i = 0; i < 4; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "llama.%s", keys[i]);
        put_key(f, key, LX_GGUF_U32);
        put_number(f, sizes[i], 4);
    }
    put_key(f, "llama.attention.layer_norm_rms_epsilon", LX_GGUF_F32);
    put_number(f, 0x3727c5ac, 4); /* 1e-5 */
    put_key(f, "tokenizer.ggml.model", LX_GGUF_TEXT);
    put_text(f, "gpt2");
    put_key(f, "tokenizer.ggml.pre", LX_GGUF_TEXT);
    put_text(f, "smollm");
    put_key(f, "tokenizer.ggml.eos_token_id", LX_GGUF_U32);
    put_number(f, 3, 4);
    put_key(f, "tokenizer.chat_template", LX_GGUF_TEXT);
    put_text(f, "{{ messages }}");
}

/* The letter that a file writes a byte as: printable bytes are themselves, all others follow
 * *moved.
 */
static uint32_t letter_of(int byte, uint32_t *moved)
{
    bool itself = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    return itself ? (uint32_t)byte : (*moved)++;
}

/* A llama of one layer, whose tokens are bytes and a pair of them. */
static image whole(void)
{
    static const char *const names[] = {"attn_q",      "attn_k",    "attn_v",
                                        "attn_output", "ffn_gate",  "ffn_up",
                                        "ffn_down",    "attn_norm", "ffn_norm"};
    static image f;
    uint64_t at = 0;
    f.n = 0;
    put(&f, "GGUF", 4);
    put_number(&f, 3, 4);
    put_number(&f, 11, 8);
    put_number(&f, 12, 8);
    put_llama_keys(&f);
    uint32_t moved = 0x100;
    put_array(&f, "tokenizer.ggml.tokens", N_TOKENS);
    for (int byte = 0; byte < 256; byte++) {
        char letter[8] = "";
        (void)lx_utf8_put(letter_of(byte, &moved), letter);
        put_text(&f, letter);
    }
    put_text(&f, "ab");
    put_array(&f, "tokenizer.ggml.merges", 1);
    put_text(&f, "a b");
    put_tensor(&f, "token_embd.weight", N_TOKENS, &at);
    put_tensor(&f, "output_norm.weight", 0, &at);
    for (int i = 0; i < 9; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "blk.0.%s.weight", names[i]);
        put_tensor(&f, name, i < 7 ? 32 : 0, &at);
    }
    pad(&f);
    memset(f.bytes + f.n, 0, at);
    f.n += at;
    return f;
}

/* All that loading a model does with the file; returns the first fault. */
static lx_status read_all(const char *path, lx_error *err)
{
    static lx_config config;
    lx_gguf *g = NULL;
    const lx_gguf_arch *arch = NULL;
    lx_safetensors *tensors = NULL;
    lx_tokenizer *tokenizer = NULL;
    lx_hf_chat chat = {.text = NULL};
    float numbers[1024];
    lx_status st = lx_gguf_open(path, &g, err);
    if (st == LX_OK)
        st = lx_gguf_config(g, &config, &arch, err);
    if (st == LX_OK)
        st = lx_gguf_tokenizer(g, &tokenizer, err);
    if (st == LX_OK)
        st = lx_gguf_chat(g, &chat, err);
    if (st == LX_OK)
        st = lx_gguf_weights(g, arch, &config, &tensors, err);
    if (st == LX_OK)
        st = lx_safetensors_read(tensors, lx_safetensors_find(tensors, "blk.0.attn_q.weight"),
                                 numbers, err);
    if (tensors == NULL)
        lx_gguf_close(g);
    lx_safetensors_close(tensors);
    lx_tokenizer_free(tokenizer);
    lx_hf_chat_fini(&chat);
    if (st == LX_OK)
        assert_int_equal(lx_text_of(&config)->n_ends, 1);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    image f = whole();
    char path[2048];
    (void)snprintf(path, sizeof path, "%s", scratch_write("m.gguf", f.bytes, f.n));
    int n = 1;
    for (;; n++) {
        lx_error err = {0};
        failing_arm(n);
        lx_status st = read_all(path, &err);
        if (!failing_hit()) {
            must(st, &err);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "memory");
    }
    assert_in_range(n, 1000, 20000); /* most of them are the tokenizer's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_their_numbers),
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(every_end_is_refused),
        cmocka_unit_test(every_other_byte_is_read_or_refused),
        cmocka_unit_test(a_file_that_is_shortened_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
