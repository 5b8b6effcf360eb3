/*
 * A model folder as a whole: a good one loads, and every disagreement between its files is refused
 * with the file and the tensor, key or line at fault.
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
#include "model/model.h"
#include "model/tasks/image.h"
#include "model/tasks/task.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

static char *folder; /* .../tiny */

static int setup(void **state)
{
    folder = tiny_model_make("tiny", &tiny_model_default);
    return folder != NULL ? scratch_setup(state) : -1;
}

static int teardown(void **state)
{
    tiny_model_remove(folder);
    return scratch_teardown(state);
}

static const char *file_path(const char *file)
{
    static char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static void write_file(const char *file, const char *data, size_t n)
{
    FILE *f = fopen(file_path(file), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static char *read_file(const char *file, size_t *n)
{
    char *data = NULL;
    assert_int_equal(lx_file_read(file_path(file), (size_t)1 << 24, &data, n, NULL), LX_OK);
    return data;
}

static lx_model *load(void)
{
    lx_model *m = NULL;
    lx_error err = {0};
    if (lx_model_load(folder, &m, &err) != LX_OK)
        fail_msg("%s", err.text);
    return m;
}

static uint64_t load_hash(void)
{
    lx_model *m = load();
    uint64_t hash = m->hash;
    lx_model_free(m);
    return hash;
}

/* Makes another model the folder of this test until leave(); returns the folder before. */
static char *enter(const char *name, const tiny_model_options *o)
{
    char *before = folder;
    folder = tiny_model_make(name, o);
    assert_non_null(folder);
    return before;
}

static void leave(char *before)
{
    tiny_model_remove(folder);
    folder = before;
}

/* Loads with one file changed; the folder is as before afterwards. */
static void expect_refused(const char *file, const char *from, const char *to, const char *part)
{
    size_t n;
    char *good = read_file(file, &n), *bad = scratch_replace(good, from, to);
    lx_model *m = NULL;
    lx_error err = {0};
    write_file(file, bad, strlen(bad));
    lx_status st = lx_model_load(folder, &m, &err);
    write_file(file, good, n);
    free(good);
    free(bad);
    scratch_expect(st, &err, LX_ERR_FORMAT, part);
    assert_null(m);
}

static void a_good_folder_is_loaded(void **state)
{
    (void)state;
    const tiny_model_options *o = &tiny_model_default;
    lx_model *m = load();
    int64_t d = o->d_model, h = o->n_heads, k = d / h;
    int64_t layer = 4 * d + 3 * d * d + 3 * d + d * d + d + 2 * d * o->d_ff + o->d_ff + d;
    int64_t tables = 2 * (int64_t)o->n_vocab * d + 2 * (o->max_chars + 1) * d;
    assert_string_equal(m->name, "tiny");
    assert_string_equal(m->dir, folder);
    assert_string_equal(m->task->name, "couplet");
    assert_int_equal(m->n_parameters,
                     tables + o->n_layers * layer + 2 * d + o->n_vocab * d + o->n_vocab);
    assert_int_equal(m->state.fixed_floats, o->n_layers * h * (k * k + k));
    assert_int_equal(m->state.page_floats, 0);
    assert_int_equal(lx_vocab_size(m->vocab), o->n_vocab);
    assert_int_equal(lx_safetensors_count(m->weights), 4 + 12 * o->n_layers + 4);
    lx_model_free(m);
    lx_model_free(NULL);
}

static void an_image_model_is_loaded(void **state)
{
    (void)state;
    for (int32_t channels = 1; channels <= 3; channels += 2) {
        tiny_model_options o = tiny_model_image;
        lx_model *m = NULL;
        lx_error err = {0};
        o.n_channels = channels;
        char *dir = tiny_model_make("pictures", &o);
        assert_non_null(dir);
        lx_status st = lx_model_load(dir, &m, &err);
        if (st != LX_OK)
            fail_msg("%s", err.text);
        assert_string_equal(m->task->name, "image");
        assert_int_equal(m->task->modality, LX_IMAGE);
        assert_null(m->vocab);
        assert_int_equal(lx_image_of(&m->config)->n_channels, channels);
        assert_int_equal(lx_safetensors_find(m->weights, "head.weight")->t.rows, 9);
        assert_int_equal(lx_safetensors_find(m->weights, "embed.row.weight")->t.rows, 6);
        lx_model_free(m);
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/vocab.txt", dir);
        assert_true(tiny_model_write_vocab(path, 60));
        scratch_expect(lx_model_load(dir, &m, &err), &err, LX_ERR_FORMAT, "has no vocabulary");
        tiny_model_remove(dir);
    }
}

static void the_name_is_the_last_part_of_the_path(void **state)
{
    (void)state;
    static const char *const ends[] = {"", "/", "///"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char path[4096];
        lx_model *m = NULL;
        (void)snprintf(path, sizeof path, "%s%s", folder, ends[i]);
        assert_int_equal(lx_model_load(path, &m, NULL), LX_OK);
        assert_string_equal(m->name, "tiny");
        lx_model_free(m);
    }
}

static void a_name_that_is_no_id_is_refused(void **state)
{
    (void)state;
    char longest[80];
    memset(longest, 'x', 64);
    longest[64] = '\0';
    const char *const names[] = {"",    "/",    "///", ".",  "..",   "a/.hidden",
                                 "a b", "a\nb", "\"",  "海", longest};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lx_model *m = NULL;
        lx_error err = {0};
        lx_status st = lx_model_load(names[i], &m, &err);
        assert_int_equal(st, LX_ERR_INVALID);
        assert_non_null(strstr(err.text, "a model folder's name has"));
    }
}

static void the_hash_depends_on_every_file(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json", "vocab.txt", "model.safetensors"};
    uint64_t before = load_hash();
    assert_true(load_hash() == before);
    for (size_t i = 0; i < 3; i++) {
        size_t n;
        char *data = read_file(files[i], &n);
        if (i == 0) { /* a space before the newline that ends it */
            data[n - 1] = ' ';
            write_file(files[i], data, n);
            data[n - 1] = '\n';
        } else if (i == 1) { /* the last character becomes the one before it in Unicode */
            data[n - 2] ^= 0x20;
            write_file(files[i], data, n);
            data[n - 2] ^= 0x20;
        } else {
            data[n - 4] ^= 1; /* the last bit of the last weight */
            write_file(files[i], data, n);
            data[n - 4] ^= 1;
        }
        assert_true(load_hash() != before);
        write_file(files[i], data, n);
        free(data);
    }
    assert_true(load_hash() == before);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        lx_status status;
        const char *part;
    } cases[] = {
        {"config.json", LX_ERR_NOT_FOUND, "config.json"},
        {"model.safetensors", LX_ERR_NOT_FOUND, "model.safetensors"},
        {"vocab.txt", LX_ERR_FORMAT, "vocab.txt"},
    };
    for (size_t i = 0; i < 3; i++) {
        size_t n;
        char *data = read_file(cases[i].file, &n);
        lx_model *m = NULL;
        lx_error err = {0};
        assert_int_equal(unlink(file_path(cases[i].file)), 0);
        lx_status st = lx_model_load(folder, &m, &err);
        write_file(cases[i].file, data, n);
        free(data);
        scratch_expect(st, &err, cases[i].status, cases[i].part);
    }
    lx_model *m = NULL;
    lx_error err = {0};
    scratch_expect(lx_model_load(scratch_path("none"), &m, &err), &err, LX_ERR_NOT_FOUND, "none");
}

static void a_config_that_does_not_fit_the_weights_is_refused(void **state)
{
    (void)state;
    expect_refused("config.json", "\"n_layers\": 2", "\"n_layers\": 3",
                   "model.safetensors: tensor layers.2.norm1.weight is missing");
    expect_refused("config.json", "\"n_layers\": 2", "\"n_layers\": 1",
                   "model.safetensors: tensor layers.1.norm1.weight is not one");
    expect_refused("config.json", "\"d_ff\": 64", "\"d_ff\": 65", "tensor layers.0.ff.up.weight");
    expect_refused("config.json", "\"d_model\": 32", "\"d_model\": 64",
                   "tensor embed.token.weight");
    expect_refused("config.json", "\"d_ff\": 64", "\"d_ff\": 64, \"d_key\": 9",
                   "tensor layers.0.attn.qkv.weight");
    expect_refused("config.json", "\"d_ff\": 64", "\"d_ff\": 64, \"d_key\": 4, \"d_value\": 16",
                   "tensor layers.0.attn.out.weight");
    expect_refused("config.json", "\"kind\": \"linear\"", "\"kind\": \"quadratic\"",
                   "attention.kind \"quadratic\" is not a kind");
    expect_refused("config.json", "\"kind\": \"linear\"", "\"kind\": \"softmax\"",
                   "attention.feature_map is not a known key");
    expect_refused("config.json", "\"kind\": \"linear\"", "\"kind\": \"mlp\"", "attention.kind");
    expect_refused("config.json", "\"kind\": \"linear\"",
                   "\"kind\": \"linear\", \"direction\": \"both\"",
                   "task couplet wants attention that looks forward, and linear looks both ways");
    expect_refused("config.json", "\"kind\": \"categorical\", \"size\": 300",
                   "\"kind\": \"ctc\", \"size\": 300",
                   "head: kind ctc is for task speech, not for couplet");
    expect_refused("config.json", "\"task\": \"couplet\"", "\"task\": \"sonnet\"", "");
    expect_refused("config.json", "\"categorical\", \"size\": 300",
                   "\"categorical\", \"size\": 299", "head");
}

static void a_vocabulary_of_another_size_is_refused(void **state)
{
    (void)state;
    expect_refused("vocab.txt", "<none>\n", "<none>\na\n", "vocab.txt");
    expect_refused("vocab.txt", "<sep>\n", "<cls>\n", "");
}

/* The same header with another name or shape, all sizes unchanged. */
static void expect_weights_refused(const char *from, const char *to, const char *part)
{
    size_t n, k = strlen(from);
    char *data = read_file("model.safetensors", &n);
    char *bad = malloc(n);
    lx_model *m = NULL;
    lx_error err = {0};
    assert_non_null(bad);
    assert_int_equal(k, strlen(to));
    memcpy(bad, data, n);
    char *at = memmem(bad, n, from, k);
    assert_non_null(at);
    memcpy(at, to, k);
    write_file("model.safetensors", bad, n);
    lx_status st = lx_model_load(folder, &m, &err);
    write_file("model.safetensors", data, n);
    free(data);
    free(bad);
    scratch_expect(st, &err, LX_ERR_FORMAT, part);
    scratch_expect(st, &err, LX_ERR_FORMAT, "model.safetensors");
}

static void weights_that_do_not_fit_the_config_are_refused(void **state)
{
    (void)state;
    expect_weights_refused("final_norm.bias", "final_norm.bais",
                           "tensor final_norm.bias is missing");
    expect_weights_refused("\"head.bias\"", "\"tail.bias\"", "tensor head.bias is missing");
    /* the rows of a square matrix fit whatever its orientation; a vector is not a matrix */
    expect_weights_refused("\"shape\":[300,32]", "\"shape\":[32,300]", "tensor embed.token.weight");
    expect_weights_refused("\"shape\":[64,32]", "\"shape\":[32,64]",
                           "tensor layers.0.ff.up.weight");
    expect_weights_refused("\"shape\":[32,32]", "\"shape\":[1024 ]",
                           "tensor layers.0.attn.out.weight");
}

/* A mixer's arrays and its products without bias: exactly the declared ones. */
static void the_parameters_of_a_mixer_are_those_it_declares(void **state)
{
    (void)state;
    tiny_model_options o = tiny_model_default;
    o.feed_forward = "{\"kind\": \"channel_mix\"}";
    char *before = enter("mixed", &o);
    lx_model *m = load();
    assert_int_equal(lx_safetensors_count(m->weights), 4 + 11 * o.n_layers + 4);
    assert_int_equal(lx_safetensors_find(m->weights, "layers.1.ff.x_k")->t.cols, o.d_model);
    assert_int_equal(m->state.fixed_floats, o.n_layers * (4 * (8 * 8 + 8) + o.d_model));
    lx_model_free(m);
    expect_refused("config.json", "channel_mix", "mlp", "tensor layers.0.ff.up.weight is missing");
    expect_weights_refused("layers.1.ff.x_k", "layers.1.ff.x_q",
                           "tensor layers.1.ff.x_k is missing");
    expect_weights_refused("\"shape\":[64,32]", "\"shape\":[32,64]",
                           "tensor layers.0.ff.key.weight has shape [32, 64]");
    expect_weights_refused("layers.1.ff.key.weight", "layers.1.ff.key.wei-ht",
                           "tensor layers.1.ff.key.weight is missing");
    leave(before);
}

/* Another layer that reads layer 0's values needs layer 0. */
static void a_layer_that_needs_another_is_refused_without(void **state)
{
    (void)state;
    static const char linear[] =
        "{\"kind\": \"linear\", \"feature_map\": \"elu+1\", \"eps\": 1e-06}";
    static const char rwkv7[] =
        "{\"kind\": \"rwkv7\", \"w_rank\": 2, \"a_rank\": 2, \"v_rank\": 2, "
        "\"g_rank\": 2, \"group_eps\": 1e-05}";
    char attention[512], part[512];
    tiny_model_options o = tiny_model_default;
    (void)snprintf(attention, sizeof attention, "[%s, %s]", rwkv7, linear);
    o.attention = attention;
    char *before = enter("carried", &o);
    (void)load_hash();
    (void)snprintf(part, sizeof part, "[%s, %s]", linear, rwkv7);
    expect_refused("config.json", attention, part, "attention[1] needs what layer 0 leaves for it");
    (void)snprintf(part, sizeof part, "[%s, %.*s, \"d_value\": 4}]", rwkv7, (int)sizeof rwkv7 - 2,
                   rwkv7);
    expect_refused("config.json", attention, part, "attention[1] needs what layer 0 leaves for it");
    leave(before);
}

/* A mixer that is a whole layer has no feed-forward net; its neighbours have one. */
static void a_mixer_may_take_the_place_of_the_feed_forward_net(void **state)
{
    (void)state;
    tiny_model_options o = tiny_model_default;
    o.attention = "[{\"kind\": \"gau_quad\", \"n_heads\": 1, \"d_key\": 8, \"d_value\": 48, "
                  "\"div\": \"count\", \"div_place\": \"outside\"}, {\"kind\": \"softmax\"}]";
    char *before = enter("mixed", &o);
    lx_model *m = load();
    assert_int_equal(m->layers[0].n_branches, 1);
    assert_int_equal(m->layers[1].n_branches, 2);
    assert_int_equal(lx_safetensors_count(m->weights), 4 + (2 + 8) + (4 + 8) + 4);
    assert_int_equal(m->state.page_floats, LX_PAGE_TOKENS * (8 + 48 + 2 * 32));
    lx_model_free(m);
    expect_weights_refused("layers.0.attn.beta_k", "layers.0.attn.beta_z",
                           "tensor layers.0.attn.beta_k is missing");
    expect_refused("config.json", "\"norm\": ",
                   "\"feed_forward\": [{\"kind\": \"mlp\"}, {\"kind\": \"mlp\"}], \"norm\": ",
                   "feed_forward must be an object, because not every layer has such a net");
    leave(before);
}

/* Each layer has the net that the list names for it, and each expert a tensor of its own. */
static void layers_may_have_different_feed_forward_nets(void **state)
{
    (void)state;
    tiny_model_options o = tiny_model_default;
    o.feed_forward =
        "[{\"kind\": \"experts\", \"experts\": 3, \"active\": 2}, {\"kind\": \"mlp\"}]";
    char *before = enter("mixed", &o);
    lx_model *m = load();
    assert_string_equal(m->layers[0].branches[1].config->mixer->name, "experts");
    assert_string_equal(m->layers[1].branches[1].config->mixer->name, "mlp");
    assert_int_equal(lx_safetensors_count(m->weights), 4 + (8 + 1 + 3 * 3) + (8 + 4) + 4);
    assert_int_equal(lx_safetensors_find(m->weights, "layers.0.ff.experts.2.down.weight")->t.rows,
                     o.d_model);
    lx_model_free(m);
    expect_weights_refused("layers.0.ff.experts.1.up.weight", "layers.0.ff.experts.3.up.weight",
                           "tensor layers.0.ff.experts.1.up.weight is missing");
    expect_weights_refused("\"shape\":[64,32]", "\"shape\":[32,64]",
                           "tensor layers.0.ff.experts.0.gate.weight has shape [32, 64]");
    expect_refused("config.json", "\"experts\": 3", "\"experts\": 2",
                   "tensor layers.0.ff.router.weight has shape [3, 32]");
    expect_refused("config.json", "\"active\": 2", "\"active\": 4",
                   "feed_forward[0].active must be at most experts");
    expect_refused("config.json", ", {\"kind\": \"mlp\"}]", "]",
                   "feed_forward must be an object, or a list of n_layers objects");
    expect_refused("config.json", "{\"kind\": \"mlp\"}]", "1]",
                   "feed_forward must be an object, or a list of n_layers objects");
    expect_refused("config.json", "{\"kind\": \"mlp\"}]", "{\"kind\": \"softmax\"}]",
                   "feed_forward[1].kind \"softmax\" is not a kind that is built in");
    leave(before);
}

static void a_stride_lies_within_a_sequence(void **state)
{
    (void)state;
    tiny_model_options o = tiny_model_image;
    char longest[64], longer[64];
    const int32_t most = o.width * o.height;
    (void)snprintf(longest, sizeof longest,
                   "{\"kind\": \"strided\", \"stride\": %d, \"heads\": \"apart\"}", most);
    (void)snprintf(longer, sizeof longer,
                   "{\"kind\": \"strided\", \"stride\": %d, \"heads\": \"apart\"}", most + 1);
    o.attention = longest;
    char *before = enter("strides", &o);
    (void)load_hash();
    expect_refused("config.json", longest, longer,
                   "config.json: attention.stride must be at most the 48 tokens of the longest");
    expect_refused("config.json", longest,
                   "[{\"kind\": \"softmax\"}, {\"kind\": \"fixed\", \"stride\": 49, "
                   "\"summary\": 1, \"cells\": 1}]",
                   "config.json: attention[1].stride must be at most the 48 tokens of the longest");
    leave(before);
}

/* The rows of the hashes of all rounds, round by round, for every number of a key. */
static void hashes_have_the_shape_that_rounds_and_buckets_say(void **state)
{
    (void)state;
    tiny_model_options o = tiny_model_image;
    o.attention = "{\"kind\": \"lsh\", \"rounds\": 3, \"buckets\": 10, \"cap\": 3, "
                  "\"scale\": \"key\"}";
    char *before = enter("hashes", &o);
    (void)load_hash();
    expect_weights_refused("\"shape\":[24,5]", "\"shape\":[5,24]", "tensor layers.0.attn.hashes");
    expect_weights_refused("\"shape\":[24,5]", "\"shape\":[120 ]", "tensor layers.0.attn.hashes");
    expect_refused("config.json", "\"rounds\": 3", "\"rounds\": 2", "tensor layers.0.attn.hashes");
    expect_refused("config.json", "\"buckets\": 10", "\"buckets\": 8",
                   "tensor layers.0.attn.hashes");
    expect_refused("config.json", "\"buckets\": 10", "\"buckets\": 9",
                   "attention.buckets must be an even number");
    leave(before);
}

static void layers_are_recomputed_all_or_none(void **state)
{
    (void)state;
    tiny_model_options o = tiny_model_default;
    lx_error err = {0};
    lx_model *m = NULL;
    o.attention = "[{\"kind\": \"softmax_recompute\"}, {\"kind\": \"softmax\"}]";
    char *mixed = tiny_model_make("mixed", &o);
    assert_non_null(mixed);
    scratch_expect(lx_model_load(mixed, &m, &err), &err, LX_ERR_FORMAT,
                   "attention[1] must be recomputed, as other layers are");
    tiny_model_remove(mixed);
    o.attention = "{\"kind\": \"softmax_recompute\"}";
    char *before = enter("all", &o);
    m = load();
    assert_true(m->recomputes);
    assert_int_equal(m->state.fixed_floats, 0);
    assert_int_equal(m->state.page_floats, LX_PAGE_TOKENS * m->config.n_inputs);
    assert_int_equal(lx_model_kept_rows(m, 0, 10).n, 0);
    lx_model_free(m);
    leave(before);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int n = 1;
    for (;; n++) {
        lx_model *m = NULL;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_model_load(folder, &m, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            lx_model_free(m);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "memory");
    }
    assert_in_range(n, 400, 10000); /* the parser's too */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_folder_is_loaded),
        cmocka_unit_test(an_image_model_is_loaded),
        cmocka_unit_test(the_name_is_the_last_part_of_the_path),
        cmocka_unit_test(a_name_that_is_no_id_is_refused),
        cmocka_unit_test(the_hash_depends_on_every_file),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(a_config_that_does_not_fit_the_weights_is_refused),
        cmocka_unit_test(a_vocabulary_of_another_size_is_refused),
        cmocka_unit_test(weights_that_do_not_fit_the_config_are_refused),
        cmocka_unit_test(the_parameters_of_a_mixer_are_those_it_declares),
        cmocka_unit_test(a_layer_that_needs_another_is_refused_without),
        cmocka_unit_test(a_mixer_may_take_the_place_of_the_feed_forward_net),
        cmocka_unit_test(layers_may_have_different_feed_forward_nets),
        cmocka_unit_test(a_stride_lies_within_a_sequence),
        cmocka_unit_test(hashes_have_the_shape_that_rounds_and_buckets_say),
        cmocka_unit_test(layers_are_recomputed_all_or_none),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
