/*
 * From a sound file to text: the result equals the results of its steps called in order, times lie
 * within the sound, and a sound of the wrong length is refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/ctc.h"
#include "model/transcribe.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"
#include "tests/support/sound.h"
#include "tests/support/tiny_model.h"

enum { RATE = SOUND_RATE, MOST_SAMPLES = 2 * RATE, IDS = 4 };

static lx_model *model;
static lx_backend *be;
static lx_encoder *encoder;
static lx_listener *listener;
static uint8_t file[SOUND_HEAD + 2 * MOST_SAMPLES];

static int setup(void **state)
{
    (void)state;
    lx_error err = {0};
    sound_open(GOLDEN_HEARING "/linear", &be, &model);
    must(lx_encoder_new(model, be, model->max_rows, 1, &encoder, &err), &err);
    must(lx_listener_new(model, &listener, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lx_listener_free(listener);
    lx_listener_free(NULL);
    lx_encoder_free(encoder);
    lx_model_free(model);
    be->ops->close(be);
    return 0;
}

/* A WAV file of this number of samples, and its number of bytes: tones that come and go over
   noise. */
static size_t make_file(int32_t n)
{
    static int16_t samples[MOST_SAMPLES];
    uint64_t seed = 3;
    for (int32_t i = 0; i < n; i++) {
        double noise = (double)(scratch_random(&seed) >> 40) * 0x1p-24 - 0.5;
        double tone = sin(0.05 * i * (1 + i / 1600 % 5)) * (i / 800 % 2);
        samples[i] = (int16_t)(9000 * tone + 2000 * noise);
    }
    return sound_write(file, samples, n);
}

static void the_parts_are_the_whole(void **state)
{
    (void)state;
    lx_error err = {0};
    for (int32_t width = 0; width < 9; width += 4) {
        lx_utterance u = {0};
        lx_transcription whole = {0}, parts = {0};
        size_t bytes = make_file(12345);
        must(lx_transcribe(listener, encoder, file, bytes, "file", width, &whole, &err), &err);
        must(lx_listener_read(listener, file, bytes, "file", &u, &err), &err);
        assert_int_equal(u.input.n_rows, 51); /* 152 frames, of which every third */
        assert_true(fabs(u.duration - 12345.0 / RATE) < 1e-9);
        must(lx_encoder_run(encoder, &u.input, 1, &err), &err);
        must(lx_listener_write(listener, &u, width, &parts, &err), &err);
        assert_string_equal(whole.text, parts.text);
        assert_int_equal(whole.n, parts.n);
        assert_memory_equal(whole.tokens, parts.tokens, sizeof *whole.tokens * (size_t)whole.n);
        assert_true(whole.log_p == parts.log_p);
        lx_utterance_fini(&u);
        lx_transcription_fini(&whole);
        lx_transcription_fini(&parts);
        assert_null(whole.text);
    }
}

/* Of log-probabilities that leave no doubt. */
static void texts_and_times_are_those_of_the_rows(void **state)
{
    (void)state;
    static const int said[] = {0, 2, 2, 0, 2, 1, 3, 3}; /* b, b, a, c */
    lx_error err = {0};
    lx_utterance u = {0};
    must(lx_listener_read(listener, file, make_file(200 + 21 * 80), "file", &u, &err), &err);
    assert_int_equal(u.input.n_rows, 8);
    for (int r = 0; r < 8; r++)
        for (int id = 0; id < IDS; id++)
            u.input.log_p[r * IDS + id] = id == said[r] ? -0.01f : -6;
    for (int32_t width = 0; width < 6; width += 5) {
        static const double want[][2] = {
            {0.0275, 0.0875}, {0.1175, 0.1475}, {0.1475, 0.1775}, {0.1775, 0.235}};
        lx_transcription t = {0};
        must(lx_listener_write(listener, &u, width, &t, &err), &err);
        assert_string_equal(t.text, "bbac");
        assert_int_equal(t.n, 4);
        assert_true(t.duration == u.duration);
        for (int i = 0; i < 4; i++) {
            assert_true(fabs(t.tokens[i].start - want[i][0]) < 1e-9);
            assert_true(fabs(t.tokens[i].end - want[i][1]) < 1e-9);
            assert_int_equal(t.tokens[i].text[0], t.text[i]);
            assert_ptr_equal(t.tokens[i].text, lx_vocab_text(model->vocab, t.tokens[i].id));
        }
        assert_true(t.log_p <= 0 && t.log_p > -1);
        lx_transcription_fini(&t);
    }
    for (int k = 0; k < 8 * IDS; k++)
        u.input.log_p[k] = k % IDS == 0 ? 0 : -9;
    lx_transcription t = {0};
    must(lx_listener_write(listener, &u, 0, &t, &err), &err);
    assert_string_equal(t.text, "");
    assert_int_equal(t.n, 0);
    lx_transcription_fini(&t);
    lx_utterance_fini(&u);
}

static void expect_refused(size_t bytes, const char *part)
{
    lx_error err = {0};
    lx_transcription t = {0};
    lx_status st = lx_transcribe(listener, encoder, file, bytes, "file", 0, &t, &err);
    scratch_expect(st, &err, LX_ERR_INVALID, part);
    assert_string_equal(err.param, "file");
}

static void sounds_have_limits(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_transcription t = {0};
    int32_t longest = 191 * 80 + 200 + 79; /* of 64 rows */
    assert_true(fabs(lx_listener_longest(listener) - (double)longest / RATE) < 1e-9);
    must(lx_transcribe(listener, encoder, file, make_file(longest), "file", 0, &t, &err), &err);
    lx_transcription_fini(&t);
    expect_refused(make_file(longest + 1), "the sound is longer than");
    must(lx_transcribe(listener, encoder, file, make_file(200), "file", 0, &t, &err), &err);
    lx_transcription_fini(&t);
    expect_refused(make_file(199), "the sound is shorter than 0.025 s, the least for model linear");
    expect_refused(make_file(1000) - 1, "cut");
    expect_refused(3, "this is no WAV, FLAC or Ogg file");
}

static void widths_have_limits(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_utterance u = {0};
    lx_transcription t = {0};
    must(lx_listener_read(listener, file, make_file(800), "file", &u, &err), &err);
    memset(u.input.log_p, 0, sizeof(float) * IDS * (size_t)u.input.n_rows);
    scratch_expect(lx_listener_write(listener, &u, -1, &t, &err), &err, LX_ERR_INVALID,
                   "beam is -1, not 0 to 256");
    scratch_expect(lx_listener_write(listener, &u, LX_CTC_MAX_WIDTH + 1, &t, &err), &err,
                   LX_ERR_INVALID, "beam is 257");
    assert_string_equal(err.param, "beam");
    lx_utterance_fini(&u);
    assert_true(lx_listener_bytes(listener, 256) > lx_ctc_beam_bytes(64, 256));
    assert_true(lx_listener_bytes(listener, 0) > (MOST_SAMPLES - RATE) * 4);
}

static void other_models_hear_nothing(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_model *other = NULL;
    lx_listener *l = NULL;
    char *dir = tiny_model_make("lines", &tiny_model_default);
    assert_non_null(dir);
    must(lx_model_load(dir, &other, &err), &err);
    scratch_expect(lx_listener_new(other, &l, &err), &err, LX_ERR_INVALID,
                   "model lines has the task couplet and does not transcribe sounds");
    assert_string_equal(err.param, "model");
    lx_model_free(other);
    tiny_model_remove(dir);
}

static void memory_may_be_missing(void **state)
{
    (void)state;
    size_t bytes = make_file(4000);
    for (int32_t width = 0; width < 9; width += 8) {
        int n = 1;
        for (;; n++) {
            lx_transcription t = {0};
            lx_error err = {0};
            failing_arm(n);
            lx_status st = lx_transcribe(listener, encoder, file, bytes, "file", width, &t, &err);
            if (!failing_hit()) {
                must(st, &err);
                lx_transcription_fini(&t);
                break;
            }
            assert_int_equal(st, LX_ERR_NO_MEMORY);
            assert_null(t.text);
        }
        assert_true(n > 8);
    }
    lx_listener *l = NULL;
    lx_error err = {0};
    failing_arm(1);
    lx_status st = lx_listener_new(model, &l, &err);
    assert_true(failing_hit());
    scratch_expect(st, &err, LX_ERR_NO_MEMORY, "no memory for a listener");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_are_the_whole),
        cmocka_unit_test(texts_and_times_are_those_of_the_rows),
        cmocka_unit_test(sounds_have_limits),
        cmocka_unit_test(widths_have_limits),
        cmocka_unit_test(other_models_hear_nothing),
        cmocka_unit_test(memory_may_be_missing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
