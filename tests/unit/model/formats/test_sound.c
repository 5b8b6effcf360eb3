/*
 * Sound: WAV, FLAC and Ogg give the written samples at the requested rate. A file that is no sound,
 * is damaged, or is longer than the limit is refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <sndfile.h>

#include "tests/support/failing.h"
#include "tests/support/scratch.h"
#include "tests/support/sound_file.h"

enum { RATE = SOUND_FILE_RATE, MOST = SOUND_FILE_MOST, WAV_RATE = 24 };

static const double TURN = 6.283185307179586;

/* Compares the samples with the tone of `make`, except for `edge` samples at both ends. */
static void expect_tone(const lx_sound *s, double loud, double hertz, int edge, double tolerance)
{
    for (int i = edge; i < s->n - edge; i++) {
        double want = loud * sin(TURN * hertz * i / RATE);
        if (fabs(s->samples[i] - want) > tolerance)
            fail_msg("sample %d is %g, not %g", i, (double)s->samples[i], want);
    }
}

/* --- reading --- */

static void every_form_gives_its_samples(void **state)
{
    (void)state;
    static const struct {
        int format;
        double tolerance;
    } forms[] = {
        {SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 0.01},   {SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1e-4},
        {SF_FORMAT_WAV | SF_FORMAT_PCM_24, 1e-6},   {SF_FORMAT_WAV | SF_FORMAT_PCM_32, 1e-6},
        {SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1e-6},    {SF_FORMAT_WAV | SF_FORMAT_DOUBLE, 1e-6},
        {SF_FORMAT_WAV | SF_FORMAT_ULAW, 0.02},     {SF_FORMAT_WAV | SF_FORMAT_ALAW, 0.02},
        {SF_FORMAT_WAVEX | SF_FORMAT_PCM_16, 1e-4}, {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1e-4},
        {SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 1e-6},  {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 0.05}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        lx_sound s;
        sound_file_make(forms[i].format, RATE, 1, 5000, 440);
        sound_file_must_load(&s);
        assert_int_equal(s.n, 5000);
        expect_tone(&s, 0.5, 440, 300, forms[i].tolerance);
        lx_sound_fini(&s);
        sound_file_make(forms[i].format, RATE, 2, 5000, 440);
        sound_file_must_load(&s);
        assert_int_equal(s.n, 5000);
        expect_tone(&s, 0.375, 440, 300, forms[i].tolerance);
        lx_sound_fini(&s);
    }
}

/* A tone that both rates have stays; one that the lower has not is gone, and is no other tone. */
static void another_rate_is_resampled(void **state)
{
    (void)state;
    static const int rates[] = {4000, 11025, 16000, 44100, 48000, 192000};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        lx_sound s;
        sound_file_make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, rates[i], 1, rates[i], 440);
        sound_file_must_load(&s);
        assert_in_range(s.n, RATE - 40, RATE + 40);
        expect_tone(&s, 0.5, 440, 400, 0.002);
        lx_sound_fini(&s);
        if (rates[i] < 16000)
            continue;
        sound_file_make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, rates[i], 1, rates[i], 5500);
        sound_file_must_load(&s);
        expect_tone(&s, 0, 0, 400, 0.002);
        lx_sound_fini(&s);
    }
}

static void floats_beyond_full_scale_are_clipped(void **state)
{
    (void)state;
    lx_sound s;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, RATE, 1, 100, 440);
    float loud[] = {7.5f, -1e30f};
    memcpy(sound_file.bytes + sound_file.n - sizeof loud, loud, sizeof loud);
    sound_file_must_load(&s);
    assert_true(s.samples[98] == 1 && s.samples[99] == -1);
    lx_sound_fini(&s);
    /* At another rate a wave may exceed the clipped one. */
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 2 * RATE, 1, 2000, 1500);
    for (sf_count_t at = sound_file.n - 4 * 2000; at < sound_file.n; at += 4) {
        memcpy(loud, sound_file.bytes + at, 4);
        loud[0] = loud[0] < 0 ? -1 : 1;
        memcpy(sound_file.bytes + at, loud, 4);
    }
    sound_file_must_load(&s);
    for (int32_t i = 0; i < s.n; i++)
        assert_true(s.samples[i] >= -1 && s.samples[i] <= 1);
    lx_sound_fini(&s);
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, RATE, 1, 100, 440);
    float loud[] = {0, NAN};
    memcpy(sound_file.bytes + sound_file.n - sizeof loud, loud, sizeof loud);
    sound_file_refused("a sample of the sound is no number");
}

/* --- refused files --- */

/* A FLAC file's own word on how many samples it has; 0: it does not know. */
static void claim(uint32_t n)
{
    for (int i = 0; i < 4; i++)
        sound_file.bytes[25 - i] = (uint8_t)(n >> 8 * i);
    sound_file.bytes[21] &= 0xf0;
}

static void what_is_no_sound_is_refused(void **state)
{
    (void)state;
    static const char *const others[] = {
        "", "R", "ID", "RIFF", "RIFF....AVI LIST", "\x89PNG\r\n\x1a\n", "FORM....AIFFCOMM"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        sound_file.n = (sf_count_t)strlen(others[i]);
        memcpy(sound_file.bytes, others[i], strlen(others[i]));
        sound_file_refused("this is no WAV, FLAC or Ogg file");
    }
    sound_file_make(SF_FORMAT_AIFF | SF_FORMAT_PCM_16, RATE, 1, 100, 440);
    sound_file_refused("this is no WAV, FLAC or Ogg file");
}

static void common_kinds_that_are_not_read_are_named(void **state)
{
    (void)state;
    static const char *const heads[][2] = {{"ID3\4mp3", "MP3"},
                                           {"\xff\xfb\x90\x64", "MP3"},
                                           {"....ftypM4A ", "MP4"},
                                           {"\x1a\x45\xdf\xa3webm", "WebM"}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char text[80];
        sound_file.n = (sf_count_t)strlen(heads[i][0]);
        memcpy(sound_file.bytes, heads[i][0], strlen(heads[i][0]));
        (void)snprintf(text, sizeof text,
                       "%s files are not read; convert the sound to WAV, FLAC or Ogg", heads[i][1]);
        sound_file_refused(text);
    }
}

static void a_head_alone_is_damaged(void **state)
{
    (void)state;
    static const char *const kinds[] = {"FLAC", "Ogg", "WAV"};
    static const char heads[][37] = {"fLaC and other text after this magic",
                                     "OggS and other text after this magic",
                                     "RIFF\x1c\0\0\0WAVE and text that is none!"};
    for (size_t i = 0; i < 3; i++) {
        char text[40];
        sound_file.n = 36;
        memcpy(sound_file.bytes, heads[i], 36);
        (void)snprintf(text, sizeof text, "the %s file is damaged", kinds[i]);
        sound_file_refused(text);
    }
}

static void other_codings_are_refused(void **state)
{
    (void)state;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, RATE, 1, 2000, 440);
    sound_file_refused("the WAV file's coding is not read");
}

static void a_cut_file_is_refused(void **state)
{
    (void)state;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    sound_file.n -= 500;
    sound_file_refused("the WAV file is cut");
    sound_file_make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    sound_file.n /= 2;
    sound_file_refused("the sound is damaged or cut after");
    sound_file_make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    claim(5001);
    sound_file_refused("the sound is damaged or cut after 0.6 s");
}

/* A copy of the file; the caller frees it. */
static uint8_t *copy_of_file(sf_count_t *n)
{
    uint8_t *copy = malloc((size_t)sound_file.n);
    assert_non_null(copy);
    memcpy(copy, sound_file.bytes, (size_t)sound_file.n);
    *n = sound_file.n;
    return copy;
}

static void append(const void *bytes, sf_count_t n)
{
    memcpy(sound_file.bytes + sound_file.n, bytes, (size_t)n);
    sound_file.n += n;
}

/* Joined files: a sound whose second half is not read is refused, for any halves. */
static void nothing_follows_a_sound_unread(void **state)
{
    (void)state;
    static const struct {
        int format;
        const char *refused;
    } halves[] = {
        {SF_FORMAT_WAV | SF_FORMAT_PCM_16, "other data follows the WAV file's samples"},
        {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "other data follows it"},
        {SF_FORMAT_OGG | SF_FORMAT_VORBIS, "the Ogg file is damaged"},
    };
    enum { HALVES = sizeof halves / sizeof *halves };
    for (int first = 0; first < HALVES; first++)
        for (int second = 0; second < HALVES; second++) {
            sf_count_t n;
            if (first == 2 && second == 2)
                continue; /* a chain, which is read */
            sound_file_make(halves[second].format, RATE, 1, 4000, 440);
            uint8_t *tail = copy_of_file(&n);
            sound_file_make(halves[first].format, RATE, 1, 5000, 440);
            append(tail, n);
            sound_file_refused(halves[first].refused);
            free(tail);
        }
}

static void bytes_that_are_no_sound_follow_none(void **state)
{
    (void)state;
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                                  SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                  SF_FORMAT_OGG | SF_FORMAT_VORBIS};
    for (int i = 0; i < 3; i++) {
        sound_file_make(formats[i], RATE, 1, 5000, 440);
        append("\1\2 bytes of no kind", 19);
        sound_file_refused(i == 2 ? "the Ogg file is damaged" : "other data follows");
    }
}

/* Tags and zeros are no sound. */
static void tags_may_follow(void **state)
{
    (void)state;
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                                  SF_FORMAT_FLAC | SF_FORMAT_PCM_16};
    static const uint8_t zeros[500], tag[128] = "TAGa title";
    for (int i = 0; i < 2; i++)
        for (int with_zeros = 0; with_zeros < 2; with_zeros++) {
            lx_sound s;
            sound_file_make(formats[i], RATE, 1, 5000, 440);
            append(with_zeros ? zeros : tag, with_zeros ? sizeof zeros : sizeof tag);
            sound_file_must_load(&s);
            assert_int_equal(s.n, 5000);
            lx_sound_fini(&s);
        }
}

/* A FLAC file is read to its end, whatever its header promises. */
static void a_flac_head_hides_no_samples(void **state)
{
    (void)state;
    lx_sound s;
    sound_file_make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    claim(0);
    sound_file_must_load(&s);
    assert_int_equal(s.n, 5000);
    lx_sound_fini(&s);
    claim(4000);
    sound_file_refused("the sound is damaged or cut after 0.6 s, or other data follows it");
    claim(5000);
    sound_file.bytes[sound_file.n / 2] ^= 1;
    sound_file_refused("the sound is damaged");
}

/* A program that writes a stream does not know its size. */
static void a_streamed_file_is_read_to_its_end(void **state)
{
    (void)state;
    lx_sound s;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    memset(sound_file.bytes + 4, 0xff, 4);
    memset(sound_file.bytes + 40, 0xff, 4);
    sound_file_must_load(&s);
    assert_int_equal(s.n, 5000);
    lx_sound_fini(&s);
}

static void put_size(sf_count_t at, uint32_t size)
{
    for (int b = 0; b < 4; b++)
        sound_file.bytes[at + b] = (uint8_t)(size >> 8 * b);
}

/* Recorders and programs that stream write sizes before they know them. */
static void a_wav_file_is_judged_by_its_data(void **state)
{
    (void)state;
    enum { N = 5000, DATA = 2 * N, UNTRUE = 1234 };
    static const uint32_t sizes[][2] = {/* of the file, of its data; UNTRUE fits neither */
                                        {44 + DATA, DATA},
                                        {0, 0},
                                        {36, 0},
                                        {0, DATA},
                                        {UINT32_MAX, DATA},
                                        {UINT32_MAX, UINT32_MAX},
                                        {36 + DATA, UINT32_MAX},
                                        {0, 0x7fffffff},
                                        {UNTRUE, DATA},
                                        {UNTRUE, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        lx_sound s;
        sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, N, 440);
        assert_int_equal(sound_file.n, 44 + DATA);
        put_size(4, sizes[i][0]);
        put_size(40, sizes[i][1]);
        sound_file_must_load(&s);
        assert_int_equal(s.n, N);
        expect_tone(&s, 0.5, 440, 0, 1e-4);
        lx_sound_fini(&s);
    }
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, N, 440);
    put_size(40, DATA + 2);
    sound_file_refused("the WAV file is cut");
    /* Chunks after the data may be truncated, and an empty data chunk before others counts. */
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, N, 440);
    memcpy(sound_file.bytes + sound_file.n, "LIST\xff\0\0\0tail", 12);
    sound_file.n += 12;
    lx_sound s;
    sound_file_must_load(&s);
    assert_int_equal(s.n, N);
    lx_sound_fini(&s);
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 0, 440);
    memcpy(sound_file.bytes + sound_file.n, "LIST\4\0\0\0tail", 12);
    sound_file.n += 12;
    sound_file_refused("the sound is empty");
}

static double seconds_of_thread(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The least of some, as others take the processor's caches. */
static double seconds_to_load(int rate, int channels)
{
    double least = INFINITY;
    sound_file_make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, rate, channels, 2 * rate - rate / 100, 0);
    for (int i = 0; i < 7; i++) {
        lx_sound s;
        double begin = seconds_of_thread();
        sound_file_must_load(&s);
        least = fmin(least, seconds_of_thread() - begin);
        lx_sound_fini(&s);
    }
    return least;
}

/* A small file of the highest rate and two channels is less work than three usual ones. */
static void a_high_rate_costs_little_more(void **state)
{
    (void)state;
    double usual = seconds_to_load(48000, 1), high = seconds_to_load(192000, 2);
    print_message("%.1f ms, a usual sound takes %.1f\n", high * 1e3, usual * 1e3);
    assert_true(high < 3 * usual);
}

static void no_samples_are_refused(void **state)
{
    (void)state;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 0, 440);
    sound_file_refused("the sound is empty");
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 44100, 1, 0, 440);
    sound_file_refused("the sound is empty");
}

static void too_long_is_refused(void **state)
{
    (void)state;
    lx_sound s;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, MOST, 440);
    sound_file_must_load(&s);
    assert_int_equal(s.n, MOST);
    lx_sound_fini(&s);
    static const int rates[] = {RATE, 16000, 44100};
    for (int i = 0; i < 3; i++) {
        sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, rates[i], 1,
                        2 * rates[i] + rates[i] / 100, 440);
        sound_file_refused("the sound is longer than 2.0 s");
    }
    /* A sound without a length in its header is measured while it is read. */
    for (int i = 0; i < 2; i++) {
        sound_file_make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, rates[i], 1, 2 * rates[i] + 9000, 440);
        claim(0);
        sound_file_refused("the sound is longer than 2.0 s");
    }
}

static void other_channels_and_rates_are_refused(void **state)
{
    (void)state;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 8, 100, 440);
    sound_file_refused("the sound has 8 channels, not 1 or 2");
    sound_file_make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, RATE, 3, 100, 440);
    sound_file_refused("the sound has 3 channels, not 1 or 2");
    static const uint32_t rates[] = {1, 3999, 192001, 0x7fffffff};
    for (int i = 0; i < 4; i++) {
        sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 100, 440);
        for (int b = 0; b < 4; b++)
            sound_file.bytes[WAV_RATE + b] = (uint8_t)(rates[i] >> 8 * b);
        sound_file_refused("samples per second, not 4000 to 192000");
    }
}

/* A wrong byte anywhere gives samples within the limits, or an error text. */
static void damage_stays_within_limits(void **state)
{
    (void)state;
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                                  SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                  SF_FORMAT_OGG | SF_FORMAT_VORBIS};
    for (int f = 0; f < 3; f++) {
        sound_file_make(formats[f], RATE, 1, 3000, 440);
        for (sf_count_t at = 0; at < sound_file.n; at += at < 100 ? 1 : 37) {
            uint8_t kept = sound_file.bytes[at];
            sound_file.bytes[at] ^= 0x81;
            lx_sound s;
            lx_error err = {0};
            lx_status st = sound_file_load(&s, &err);
            if (st == LX_OK) {
                assert_in_range(s.n, 1, MOST);
                lx_sound_fini(&s);
            } else {
                scratch_expect(st, &err, LX_ERR_INVALID, "");
            }
            sound_file.bytes[at] = kept;
        }
    }
}

static void memory_may_be_missing(void **state)
{
    (void)state;
    int n = 1;
    sound_file_make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 3000, 440);
    for (;; n++) {
        lx_sound s;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = sound_file_load(&s, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            lx_sound_fini(&s);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "no memory for a sound");
    }
    assert_int_equal(n, 3); /* the library's own are not among them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_its_samples),
        cmocka_unit_test(another_rate_is_resampled),
        cmocka_unit_test(floats_beyond_full_scale_are_clipped),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(what_is_no_sound_is_refused),
        cmocka_unit_test(common_kinds_that_are_not_read_are_named),
        cmocka_unit_test(a_head_alone_is_damaged),
        cmocka_unit_test(other_codings_are_refused),
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(nothing_follows_a_sound_unread),
        cmocka_unit_test(bytes_that_are_no_sound_follow_none),
        cmocka_unit_test(tags_may_follow),
        cmocka_unit_test(a_flac_head_hides_no_samples),
        cmocka_unit_test(a_streamed_file_is_read_to_its_end),
        cmocka_unit_test(a_wav_file_is_judged_by_its_data),
        cmocka_unit_test(a_high_rate_costs_little_more),
        cmocka_unit_test(no_samples_are_refused),
        cmocka_unit_test(too_long_is_refused),
        cmocka_unit_test(other_channels_and_rates_are_refused),
        cmocka_unit_test(damage_stays_within_limits),
        cmocka_unit_test(memory_may_be_missing),
    };
    return cmocka_run_group_tests(tests, sound_file_new, sound_file_free);
}
