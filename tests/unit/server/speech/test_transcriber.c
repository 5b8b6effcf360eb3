/*
 * The threads of transcription: sounds that share a pass, full queues, cancelled sounds, passes
 * that fail, the end. Passes wait at a gate, and fail where a test says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "server/speech/transcriber.h"
#include "tests/support/failing.h"
#include "tests/support/patience.h"
#include "tests/support/scratch.h"
#include "tests/support/sound.h"

enum { MOST = SOUND_RATE, MAX_SOUNDS = 8, NEVER = -1 };

static lx_model *model;
static lx_backend *be;
static lx_metrics metrics;

static atomic_bool open_gate;
static atomic_int n_passes, n_sounds_last, n_wakes;
static atomic_int bad_rows; /* a pass with a sound of this number of rows fails */

lx_status __real_lx_encoder_run(lx_encoder *e, const lx_encoder_input *inputs, int32_t n,
                                lx_error *err);
lx_status __wrap_lx_encoder_run(lx_encoder *e, const lx_encoder_input *inputs, int32_t n,
                                lx_error *err);

lx_status __wrap_lx_encoder_run(lx_encoder *e, const lx_encoder_input *inputs, int32_t n,
                                lx_error *err)
{
    atomic_fetch_add(&n_passes, 1);
    atomic_store(&n_sounds_last, n);
    wait_until(atomic_load(&open_gate));
    for (int32_t i = 0; i < n; i++)
        if (inputs[i].n_rows == atomic_load(&bad_rows))
            return lx_fail(err, LX_ERR_DEVICE, NULL, "the result is no number");
    return __real_lx_encoder_run(e, inputs, n, err);
}

static int setup(void **state)
{
    (void)state;
    sound_open(GOLDEN_HEARING "/linear", &be, &model);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lx_model_free(model);
    be->ops->close(be);
    return 0;
}

/* --- sounds --- */

/* A WAV file of n samples of noise; its bytes. */
static size_t make_file(uint8_t *file, int32_t n, uint64_t seed)
{
    static int16_t samples[MOST];
    for (int32_t i = 0; i < n; i++)
        samples[i] = (int16_t)(scratch_random(&seed) >> (50 + i / 400 % 3));
    return sound_write(file, samples, n);
}

/* Samples of sound i: all differ in their rows. */
static int32_t length_of(int i)
{
    return 600 + 240 * i;
}

static void wake(void *context)
{
    (void)context;
    atomic_fetch_add(&n_wakes, 1);
}

static lx_hearing *new_sound(int i)
{
    static uint8_t file[SOUND_HEAD + 2 * MOST];
    lx_error err = {0};
    lx_hearing *h = NULL;
    lx_hearing_params p = {.file = file,
                           .bytes = make_file(file, length_of(i), (uint64_t)i + 1),
                           .deadline_ns = INT64_MAX,
                           .wake = wake};
    must(lx_hearing_new(&p, &h, &err), &err);
    return h;
}

static lx_transcriber *new_transcriber(int32_t max_queue)
{
    lx_transcriber *t = NULL;
    lx_error err = {0};
    atomic_store(&open_gate, true);
    atomic_store(&bad_rows, NEVER);
    must(lx_transcriber_new(model, be, max_queue, &metrics, &t, &err), &err);
    atomic_store(&n_passes, 0);
    atomic_store(&n_wakes, 0);
    return t;
}

static lx_hearing *submit(lx_transcriber *t, int i)
{
    lx_error err = {0};
    lx_hearing *h = new_sound(i);
    must(lx_transcriber_submit(t, h, &err), &err);
    return h;
}

/* The first sound is in a pass that waits at the gate; the next sounds are read, and wait. */
static void hold(lx_transcriber *t, lx_hearing **sounds, int n)
{
    atomic_store(&open_gate, false);
    sounds[0] = submit(t, 0);
    wait_until(atomic_load(&n_passes) == 1);
    for (int i = 1; i < n; i++)
        sounds[i] = submit(t, i);
}

static void free_all(lx_hearing **sounds, int n)
{
    for (int i = 0; i < n; i++)
        lx_hearing_unref(sounds[i]);
}

/* --- tests --- */

static void test_a_pass_is_shared(void **state)
{
    (void)state;
    enum { N = 4 };
    char *alone[N];
    lx_hearing *sounds[N];
    lx_transcriber *t = new_transcriber(MAX_SOUNDS);
    for (int i = 0; i < N; i++) {
        lx_hearing *h = submit(t, i);
        wait_until(lx_hearing_done(h));
        assert_int_equal(h->status, LX_OK);
        alone[i] = strdup(h->said.text);
        lx_hearing_unref(h);
    }
    atomic_store(&n_passes, 0);
    hold(t, sounds, N);
    wait_until(atomic_load(&metrics.queue_length) == N - 1);
    assert_false(lx_transcriber_idle(t));
    for (int i = 1; i < N; i++) /* they are read meanwhile */
        assert_false(lx_hearing_done(sounds[i]));
    atomic_store(&open_gate, true);
    for (int i = 0; i < N; i++)
        wait_until(lx_hearing_done(sounds[i]));
    assert_int_equal(atomic_load(&n_wakes), 2 * N);
    wait_until(lx_transcriber_idle(t));
    assert_in_range(atomic_load(&n_passes), 2, N);
    for (int i = 0; i < N; i++) {
        assert_string_equal(sounds[i]->said.text, alone[i]);
        assert_true(sounds[i]->rows > 0 && sounds[i]->started_ns >= sounds[i]->submitted_ns);
        free(alone[i]);
    }
    assert_true(lx_transcriber_step_s(t) > 0 && lx_transcriber_wait_s(t) == 0);
    free_all(sounds, N);
    lx_transcriber_stop(t);
}

static void test_the_queue_is_bounded(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_hearing *sounds[3];
    lx_transcriber *t = new_transcriber(2);
    hold(t, sounds, 3);
    lx_hearing *more = new_sound(4);
    assert_int_equal(lx_transcriber_submit(t, more, &err), LX_ERR_BUSY);
    lx_hearing_cancel(sounds[1]);
    lx_transcriber_poke(t); /* gives back its place at once */
    wait_until(lx_hearing_done(sounds[1]));
    assert_int_equal(sounds[1]->status, LX_ERR_CANCELLED);
    assert_int_equal(lx_transcriber_submit(t, more, &err), LX_OK);
    lx_transcriber_drain(t);
    lx_hearing *late = new_sound(5);
    assert_int_equal(lx_transcriber_submit(t, late, &err), LX_ERR_UNAVAILABLE);
    atomic_store(&open_gate, true);
    wait_until(lx_hearing_done(sounds[0]) && lx_hearing_done(sounds[2]) && lx_hearing_done(more));
    assert_int_equal(more->status, LX_OK); /* an accepted sound is finished */
    assert_int_equal(sounds[0]->status, LX_OK);
    lx_hearing_unref(late);
    lx_hearing_unref(more);
    free_all(sounds, 3);
    lx_transcriber_stop(t);
}

static void test_one_without_a_queue(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_hearing *held;
    lx_transcriber *t = new_transcriber(0);
    hold(t, &held, 1);
    lx_hearing *more = new_sound(1);
    assert_int_equal(lx_transcriber_submit(t, more, &err), LX_ERR_BUSY);
    atomic_store(&open_gate, true);
    wait_until(lx_hearing_done(held));
    assert_int_equal(lx_transcriber_submit(t, more, &err), LX_OK); /* its place is free by then */
    wait_until(lx_hearing_done(more));
    lx_hearing_unref(more);
    lx_hearing_unref(held);
    lx_transcriber_stop(t);
}

/* A sound that cannot be computed fails alone, and those of its pass do not. */
static void test_a_pass_that_fails(void **state)
{
    (void)state;
    enum { N = 4 };
    lx_hearing *sounds[N];
    lx_transcriber *t = new_transcriber(MAX_SOUNDS);
    lx_hearing *h = submit(t, 2);
    wait_until(lx_hearing_done(h));
    atomic_store(&bad_rows, h->rows);
    lx_hearing_unref(h);
    atomic_store(&n_passes, 0);
    hold(t, sounds, N);
    wait_until(atomic_load(&metrics.queue_length) == N - 1);
    atomic_store(&open_gate, true);
    for (int i = 0; i < N; i++) {
        wait_until(lx_hearing_done(sounds[i]));
        assert_int_equal(sounds[i]->status, i == 2 ? LX_ERR_DEVICE : LX_OK);
    }
    free_all(sounds, N);
    lx_transcriber_stop(t);
}

static void test_times(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_hearing *held;
    lx_transcriber *t = new_transcriber(MAX_SOUNDS);
    hold(t, &held, 1);
    lx_hearing *late = new_sound(1), *impatient = new_sound(2);
    late->params.deadline_ns = lx_now_ns();
    impatient->params.queue_deadline_ns = lx_now_ns();
    assert_int_equal(lx_transcriber_submit(t, late, &err), LX_OK);
    assert_int_equal(lx_transcriber_submit(t, impatient, &err), LX_OK);
    wait_until(lx_hearing_done(late) && lx_hearing_done(impatient)); /* while the pass runs */
    assert_int_equal(late->status, LX_ERR_TIMEOUT);
    assert_int_equal(impatient->status, LX_ERR_BUSY);
    assert_int_equal(atomic_load(&n_passes), 1);
    atomic_store(&open_gate, true);
    wait_until(lx_hearing_done(held));
    assert_int_equal(held->status, LX_OK);
    lx_hearing_unref(late);
    lx_hearing_unref(impatient);
    lx_hearing_unref(held);
    lx_transcriber_stop(t);
}

static void test_no_sound(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_hearing *h = NULL;
    lx_transcriber *t = new_transcriber(1);
    lx_hearing_params p = {.file = "RIFF", .bytes = 4, .deadline_ns = INT64_MAX, .wake = wake};
    must(lx_hearing_new(&p, &h, &err), &err);
    must(lx_transcriber_submit(t, h, &err), &err);
    wait_until(lx_hearing_done(h));
    assert_int_equal(h->status, LX_ERR_INVALID);
    assert_string_equal(h->err.param, "file");
    assert_int_equal(atomic_load(&n_passes), 0);
    lx_hearing_unref(h);
    lx_transcriber_stop(t);
}

/* Every one that is still there ends. */
static void test_the_end(void **state)
{
    (void)state;
    enum { N = 5 };
    lx_hearing *sounds[N];
    for (int round = 0; round < 20; round++) {
        lx_transcriber *t = new_transcriber(MAX_SOUNDS);
        for (int i = 0; i < N; i++)
            sounds[i] = submit(t, i);
        lx_transcriber_stop(t);
        assert_int_equal(atomic_load(&n_wakes), N);
        for (int i = 0; i < N; i++) {
            assert_true(lx_hearing_done(sounds[i]));
            assert_true(sounds[i]->status == LX_OK || sounds[i]->status == LX_ERR_UNAVAILABLE);
        }
        free_all(sounds, N);
    }
    lx_transcriber_stop(NULL);
}

static void test_without_memory(void **state)
{
    (void)state;
    lx_error err = {0};
    int n = 1;
    for (;; n++) {
        lx_transcriber *t = NULL;
        atomic_store(&open_gate, true);
        failing_arm(n);
        lx_status st = lx_transcriber_new(model, be, 1, &metrics, &t, &err);
        bool failed = failing_hit() != 0;
        if (st == LX_OK)
            lx_transcriber_stop(t);
        if (!failed)
            break;
        assert_int_equal(st, LX_ERR_NO_MEMORY);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pass_is_shared),
        cmocka_unit_test(test_the_queue_is_bounded),
        cmocka_unit_test(test_one_without_a_queue),
        cmocka_unit_test(test_a_pass_that_fails),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_no_sound),
        cmocka_unit_test(test_the_end),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
