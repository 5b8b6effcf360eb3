/*
 * Features of sound: the values that numpy computes in float64 (tests/golden/generate_speech.py),
 * their sizes and times, and refused settings.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/mel.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum { MOST = 16384 }; /* floats of a fixture */

static const lx_mel_config digits = {8000, 200, 80, 40, 20, 3, 7};

static lx_mel *must_new(const lx_mel_config *c)
{
    lx_mel *m = NULL;
    lx_error err = {0};
    if (lx_mel_new(c, &m, &err) != LX_OK)
        fail_msg("%s", err.text);
    return m;
}

static void read_all(FILE *f, void *to, size_t bytes)
{
    assert_int_equal(fread(to, 1, bytes, f), bytes);
}

static float samples[MOST], want[MOST], got[MOST];

/* The largest difference from the fixture's rows. */
static double off_of(const char *name)
{
    char path[1024];
    int32_t head[3], settings[7];
    (void)snprintf(path, sizeof path, "%s/%s.bin", GOLDEN_SPEECH, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    read_all(f, head, sizeof head);
    read_all(f, settings, sizeof settings);
    lx_mel_config c = {settings[0], settings[1], settings[2], settings[3],
                       settings[4], settings[5], settings[6]};
    lx_mel *m = must_new(&c);
    assert_int_equal(lx_mel_rows(m, head[0]), head[1]);
    assert_int_equal(lx_mel_width(m), head[2]);
    size_t n = (size_t)head[0], n_rows = (size_t)head[1] * (size_t)head[2];
    assert_true(n <= MOST && n_rows <= MOST);
    read_all(f, samples, sizeof *samples * n);
    read_all(f, want, sizeof *want * n_rows);
    assert_int_equal(fgetc(f), EOF);
    (void)fclose(f);
    assert_int_equal(lx_mel_compute(m, samples, head[0], got, NULL), LX_OK);
    double most = 0;
    for (size_t i = 0; i < n_rows; i++)
        most = fmax(most, fabs((double)got[i] - (double)want[i]));
    lx_mel_free(m);
    return most;
}

static void features_are_those_of_numpy(void **state)
{
    (void)state;
    static const char *const names[] = {"digits", "one-frame", "wide-band", "silence"};
    for (int i = 0; i < 4; i++) {
        double off = off_of(names[i]);
        if (!(off < 1e-4))
            fail_msg("%s: off by %g", names[i], off);
    }
}

static void a_row_is_a_frame_with_its_neighbours(void **state)
{
    (void)state;
    lx_mel_config alone = digits, wide = digits;
    alone.stride = 1;
    alone.context = 0;
    wide.stride = 2;
    wide.context = 3;
    lx_mel *a = must_new(&alone), *w = must_new(&wide);
    enum { N = 1000, FRAMES = 11, ROWS = 6, BANDS = 40 };
    float frames[FRAMES * BANDS], rows[ROWS * BANDS * 7];
    uint64_t seed = 3;
    for (int i = 0; i < N; i++)
        samples[i] = (float)(scratch_random(&seed) >> 40) * 0x1p-24f - 0.5f;
    assert_int_equal(lx_mel_rows(a, N), FRAMES);
    assert_int_equal(lx_mel_rows(w, N), ROWS);
    assert_int_equal(lx_mel_compute(a, samples, N, frames, NULL), LX_OK);
    assert_int_equal(lx_mel_compute(w, samples, N, rows, NULL), LX_OK);
    for (int r = 0; r < ROWS; r++)
        for (int off = -3; off <= 3; off++) {
            int t = 2 * r + off < 0 ? 0 : 2 * r + off > FRAMES - 1 ? FRAMES - 1 : 2 * r + off;
            assert_memory_equal(rows + (r * 7 + off + 3) * BANDS, frames + t * BANDS,
                                sizeof *rows * BANDS);
        }
    lx_mel_free(a);
    lx_mel_free(w);
}

static void rows_and_times_follow_from_samples(void **state)
{
    (void)state;
    lx_mel *m = must_new(&digits);
    assert_int_equal(lx_mel_rows(m, 0), 0);
    assert_int_equal(lx_mel_rows(m, 199), 0);
    assert_int_equal(lx_mel_rows(m, 200), 1);
    assert_int_equal(lx_mel_rows(m, 200 + 3 * 80 - 1), 1);
    assert_int_equal(lx_mel_rows(m, 200 + 3 * 80), 2);
    assert_int_equal(lx_mel_width(m), 600);
    assert_true(fabs(lx_mel_seconds(m, 0) - 0.0125) < 1e-9);
    assert_true(fabs(lx_mel_seconds(m, 10) - 0.3125) < 1e-9);
    lx_mel_free(m);
    lx_mel_free(NULL);
}

static void settings_that_are_none_are_named(void **state)
{
    (void)state;
    static const struct {
        lx_mel_config c;
        const char *param, *text;
    } cases[] = {{{3999, 200, 80, 40, 20, 3, 7}, "sample_rate", "is 3999, not 4000 to 192000"},
                 {{8000, 15, 8, 4, 20, 3, 7}, "frame", "is 15, not 16 to 8192"},
                 {{8000, 200, 0, 40, 20, 3, 7}, "hop", "is 0, not 1 to 200"},
                 {{8000, 200, 201, 40, 20, 3, 7}, "hop", "is 201, not 1 to 200"},
                 {{8000, 200, 80, 0, 20, 3, 7}, "bands", "is 0, not 1 to 256"},
                 {{8000, 200, 80, 40, 4000, 3, 7}, "lowest", "is 4000, not 0 to 3999"},
                 {{8000, 200, 80, 40, 20, 0, 7}, "stride", "is 0, not 1 to 64"},
                 {{8000, 200, 80, 40, 20, 3, 65}, "context", "is 65, not 0 to 64"},
                 {{8000, 16, 8, 40, 20, 3, 7}, "bands", "has no bin of the spectrum"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_mel *m = NULL;
        lx_error err = {0};
        lx_status st = lx_mel_new(&cases[i].c, &m, &err);
        scratch_expect(st, &err, LX_ERR_INVALID, cases[i].text);
        assert_string_equal(err.param, cases[i].param);
        assert_null(m);
    }
}

static void memory_may_be_missing(void **state)
{
    (void)state;
    int n = 1;
    for (;; n++) {
        float rows[2 * 600];
        lx_mel *m = NULL;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_mel_new(&digits, &m, &err);
        if (st == LX_OK)
            st = lx_mel_compute(m, samples, 500, rows, &err);
        lx_mel_free(m);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "no memory for");
    }
    assert_int_equal(n, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_of_numpy),
        cmocka_unit_test(a_row_is_a_frame_with_its_neighbours),
        cmocka_unit_test(rows_and_times_follow_from_samples),
        cmocka_unit_test(settings_that_are_none_are_named),
        cmocka_unit_test(memory_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
