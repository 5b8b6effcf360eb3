/*
 * A folder of a speech model: a good one loads, and every disagreement is refused with the key at
 * fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/formats/file.h"
#include "model/tasks/speech.h"
#include "tests/support/scratch.h"

static const char *const files[] = {"config.json", "vocab.txt", "model.safetensors"};

static char *read_golden(const char *file, size_t *n)
{
    char path[1024], *data = NULL;
    (void)snprintf(path, sizeof path, "%s/linear/%s", GOLDEN_HEARING, file);
    assert_int_equal(lx_file_read(path, (size_t)1 << 24, &data, n, NULL), LX_OK);
    return data;
}

/* The scratch folder becomes the good one. */
static int setup(void **state)
{
    if (scratch_setup(state) != 0)
        return -1;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t n;
        char *data = read_golden(files[i], &n);
        (void)scratch_write(files[i], data, n);
        free(data);
    }
    return 0;
}

static lx_status load(lx_model **m, lx_error *err)
{
    char dir[2048];
    (void)snprintf(dir, sizeof dir, "%s", scratch_path(""));
    return lx_model_load(dir, m, err);
}

/* Loads with one file changed; the folder is as before afterwards. */
static void expect_refused(const char *file, const char *from, const char *to, const char *part)
{
    size_t n;
    lx_model *m = NULL;
    lx_error err = {0};
    char *good = read_golden(file, &n), *bad = scratch_replace(good, from, to);
    (void)scratch_write(file, bad, strlen(bad));
    lx_status st = load(&m, &err);
    (void)scratch_write(file, good, n);
    free(good);
    free(bad);
    scratch_expect(st, &err, LX_ERR_FORMAT, part);
    assert_null(m);
}

static void a_good_folder_is_loaded(void **state)
{
    (void)state;
    lx_model *m = NULL;
    lx_error err = {0};
    if (load(&m, &err) != LX_OK)
        fail_msg("%s", err.text);
    assert_ptr_equal(m->task, &lx_speech_task);
    assert_int_equal(m->task->modality, LX_SPEECH);
    assert_true(m->sees_all);
    assert_int_equal(m->max_rows, 64);
    assert_int_equal(m->state.fixed_floats, 0);
    assert_int_equal(m->state.page_floats, 0);
    assert_int_equal(m->room, 2 * (8 * 8 + 8));
    assert_int_equal(lx_speech_of(&m->config)->rate, 8000);
    assert_int_equal(lx_speech_of(&m->config)->context, 1);
    assert_int_equal(m->config.head_kind, LX_HEAD_CTC);
    assert_int_equal(lx_speech_most_samples(&m->config), 191 * 80 + 200 + 79);
    lx_model_free(m);
}

static void keys_must_go_together(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"\"direction\": \"both\"", "\"direction\": \"forward\"",
         "task speech wants attention that looks both ways, and linear looks forward"},
        {"\"direction\": \"both\"", "\"direction\": \"back\"", "attention.direction must be"},
        {"\"kind\": \"ctc\"", "\"kind\": \"categorical\"", "head: task speech wants kind ctc"},
        {"\"size\": 4", "\"size\": 1", "head.size must be a whole number from 2 to 1024"},
        {"\"size\": 4", "\"size\": 5", "head: size 5, but vocab.txt has 4 entries"},
        {"\"size\": 64", "\"size\": 4097", "inputs: position: size 4097, at most 4096"},
        {"\"name\": \"position\"", "\"name\": \"token\"", "a model of speech has one, position"},
        {"\"norm\": \"pre\"", "\"norm\": \"reversible\"", "norm: reversible is not for"},
        {"\"bands\": 6", "\"bands\": 0", "speech.bands must be a whole number from 1 to 256"},
        {"\"bands\": 6", "\"bands\": 200", "speech.bands 200 of frame 200 are too many"},
        {"\"hop\": 80", "\"hop\": 201", "speech.hop is 201, not 1 to 200"},
        {"\"lowest\": 20", "\"lowest\": 4000", "speech.lowest is 4000, not 0 to 3999"},
        {"\"sample_rate\": 8000,", "", "speech.sample_rate is missing"},
        {"\"stride\": 3", "\"strides\": 3", "speech.stride is missing"},
        {"\"task\": \"speech\"", "\"task\": \"hearing\"", "speech is not a known key"},
        {"\"d_ff\": 32,", "\"d_ff\": 32, \"feed_forward\": {\"kind\": \"channel_mix\"},",
         "feed_forward.kind channel_mix looks forward"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused("config.json", cases[i][0], cases[i][1], cases[i][2]);
}

#define ATTENTION                                                                                  \
    "{\n    \"kind\": \"linear\",\n    \"feature_map\": \"elu+1\",\n    \"eps\": 1e-06,\n"         \
    "    \"direction\": \"both\"\n  }"

static void layers_look_the_same_way(void **state)
{
    (void)state;
    expect_refused("config.json", ATTENTION, "[" ATTENTION ", {\"kind\": \"softmax\"}]",
                   "attention[1] (softmax) looks forward, attention[0] (linear) both ways");
}

static void longest_sounds_are_bounded(void **state)
{
    (void)state;
    size_t n;
    lx_model *m = NULL;
    lx_error err = {0};
    char *good = read_golden("config.json", &n);
    char *wide = scratch_replace(good, "\"size\": 64", "\"size\": 4096");
    char *slow = scratch_replace(wide, "\"stride\": 3", "\"stride\": 64");
    (void)scratch_write("config.json", slow, strlen(slow));
    lx_status st = load(&m, &err);
    (void)scratch_write("config.json", good, n);
    free(good);
    free(wide);
    free(slow);
    scratch_expect(st, &err, LX_ERR_FORMAT,
                   "4096 positions of speech.stride 64 and speech.hop 80 are more than 16777216 "
                   "samples");
}

static void vocabularies_begin_with_nothing(void **state)
{
    (void)state;
    expect_refused("vocab.txt", "<blank>\na", "a\n<blank>", "line 1 must be <blank>");
    expect_refused("vocab.txt", "\nb\n", "\n<b>\n", "line 3: <b> can not be said");
}

static void tensors_are_those_of_the_features(void **state)
{
    (void)state;
    expect_refused("config.json", "\"context\": 1", "\"context\": 2",
                   "tensor features.weight has shape [16, 18], the config asks for [16, 30]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_folder_is_loaded),
        cmocka_unit_test(keys_must_go_together),
        cmocka_unit_test(layers_look_the_same_way),
        cmocka_unit_test(longest_sounds_are_bounded),
        cmocka_unit_test(vocabularies_begin_with_nothing),
        cmocka_unit_test(tensors_are_those_of_the_features),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
