/*
 * Sound: WAV, FLAC and Ogg become the samples that were written, at the rate that is asked for; and
 * what is no sound, is damaged, or is more of it than is heard, is refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ogg/ogg.h>
#include <sndfile.h>

#include "model/formats/sound.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum { RATE = 8000, MOST = 2 * RATE, ROOM = 1 << 22, WAV_RATE = 24 };

static const double TURN = 6.283185307179586;

/* --- files, written by the library into memory --- */

typedef struct made {
    uint8_t *bytes;
    sf_count_t n, at;
} made;

static sf_count_t made_length(void *context)
{
    return ((made *)context)->n;
}

static sf_count_t made_seek(sf_count_t offset, int whence, void *context)
{
    made *m = context;
    m->at = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m->at : m->n);
    return m->at;
}

static sf_count_t made_read(void *to, sf_count_t n, void *context)
{
    made *m = context;
    n = n < m->n - m->at ? n : m->n - m->at;
    memcpy(to, m->bytes + m->at, (size_t)n);
    m->at += n;
    return n;
}

static sf_count_t made_write(const void *from, sf_count_t n, void *context)
{
    made *m = context;
    assert_true(m->at + n <= ROOM);
    memcpy(m->bytes + m->at, from, (size_t)n);
    m->at += n;
    m->n = m->n > m->at ? m->n : m->at;
    return n;
}

static sf_count_t made_tell(void *context)
{
    return ((made *)context)->at;
}

static made buffer;

static int make_buffer(void **state)
{
    (void)state;
    buffer.bytes = malloc(ROOM);
    return buffer.bytes == NULL ? -1 : 0;
}

static int free_buffer(void **state)
{
    (void)state;
    free(buffer.bytes);
    return 0;
}

/* n frames of a tone of `hertz`; in the second channel, if any, it is half as loud. */
static void make(int format, int rate, int channels, int64_t n, double hertz)
{
    SF_VIRTUAL_IO calls = {made_length, made_seek, made_read, made_write, made_tell};
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    buffer.n = buffer.at = 0;
    SNDFILE *f = sf_open_virtual(&calls, SFM_WRITE, &info, &buffer);
    assert_non_null(f);
    for (int64_t i = 0; i < n; i++) {
        float frame[16];
        for (int c = 0; c < channels; c++)
            frame[c] = (float)((c == 1 ? 0.25 : 0.5) * sin(TURN * hertz * (double)i / rate));
        assert_int_equal(sf_writef_float(f, frame, 1), 1);
    }
    assert_int_equal(sf_close(f), 0);
}

static lx_status load(lx_sound *s, lx_error *err)
{
    return lx_sound_read(buffer.bytes, (size_t)buffer.n, &(lx_sound_limits){RATE, MOST}, "file", s,
                         err);
}

static void must_load(lx_sound *s)
{
    lx_error err = {0};
    if (load(s, &err) != LX_OK)
        fail_msg("%s", err.text);
}

static void expect_refused(const char *part)
{
    lx_sound s = {.n = 77};
    lx_error err = {0};
    lx_status st = load(&s, &err);
    scratch_expect(st, &err, LX_ERR_INVALID, part);
    assert_string_equal(err.param, "file");
    assert_int_equal(s.n, 77);
}

/* The tone of `make` beside what was read, but for `edge` samples at both ends. */
static void expect_tone(const lx_sound *s, double loud, double hertz, int edge, double tolerance)
{
    for (int i = edge; i < s->n - edge; i++) {
        double want = loud * sin(TURN * hertz * i / RATE);
        if (fabs(s->samples[i] - want) > tolerance)
            fail_msg("sample %d is %g, not %g", i, (double)s->samples[i], want);
    }
}

/* --- what is read --- */

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
        make(forms[i].format, RATE, 1, 5000, 440);
        must_load(&s);
        assert_int_equal(s.n, 5000);
        expect_tone(&s, 0.5, 440, 300, forms[i].tolerance);
        lx_sound_fini(&s);
        make(forms[i].format, RATE, 2, 5000, 440);
        must_load(&s);
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
        make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, rates[i], 1, rates[i], 440);
        must_load(&s);
        assert_in_range(s.n, RATE - 40, RATE + 40);
        expect_tone(&s, 0.5, 440, 400, 0.002);
        lx_sound_fini(&s);
        if (rates[i] < 16000)
            continue;
        make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, rates[i], 1, rates[i], 5500);
        must_load(&s);
        expect_tone(&s, 0, 0, 400, 0.002);
        lx_sound_fini(&s);
    }
}

static void opus_is_read(void **state)
{
    (void)state;
    lx_sound s;
    make(SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 1, 48000, 440);
    must_load(&s);
    assert_in_range(s.n, RATE - 400, RATE + 400);
    lx_sound_fini(&s);
}

static void floats_beyond_full_scale_are_clipped(void **state)
{
    (void)state;
    lx_sound s;
    make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, RATE, 1, 100, 440);
    float loud[] = {7.5f, -1e30f};
    memcpy(buffer.bytes + buffer.n - sizeof loud, loud, sizeof loud);
    must_load(&s);
    assert_true(s.samples[98] == 1 && s.samples[99] == -1);
    lx_sound_fini(&s);
    /* At another rate a wave may go beyond what was clipped. */
    make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 2 * RATE, 1, 2000, 1500);
    for (sf_count_t at = buffer.n - 4 * 2000; at < buffer.n; at += 4) {
        memcpy(loud, buffer.bytes + at, 4);
        loud[0] = loud[0] < 0 ? -1 : 1;
        memcpy(buffer.bytes + at, loud, 4);
    }
    must_load(&s);
    for (int32_t i = 0; i < s.n; i++)
        assert_true(s.samples[i] >= -1 && s.samples[i] <= 1);
    lx_sound_fini(&s);
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    make(SF_FORMAT_WAV | SF_FORMAT_FLOAT, RATE, 1, 100, 440);
    float loud[] = {0, NAN};
    memcpy(buffer.bytes + buffer.n - sizeof loud, loud, sizeof loud);
    expect_refused("a sample of the sound is no number");
}

/* --- what is refused --- */

/* A FLAC file's own word on how many samples it has; 0: it does not know. */
static void claim(uint32_t n)
{
    for (int i = 0; i < 4; i++)
        buffer.bytes[25 - i] = (uint8_t)(n >> 8 * i);
    buffer.bytes[21] &= 0xf0;
}

static void what_is_no_sound_is_refused(void **state)
{
    (void)state;
    static const char *const others[] = {
        "", "R", "RIFF", "RIFF....AVI LIST", "ID3\4mp3", "\x89PNG\r\n\x1a\n", "FORM....AIFFCOMM"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        buffer.n = (sf_count_t)strlen(others[i]);
        memcpy(buffer.bytes, others[i], strlen(others[i]));
        expect_refused("this is no WAV, FLAC or Ogg file");
    }
    make(SF_FORMAT_AIFF | SF_FORMAT_PCM_16, RATE, 1, 100, 440);
    expect_refused("this is no WAV, FLAC or Ogg file");
}

static void a_head_alone_is_damaged(void **state)
{
    (void)state;
    static const char *const kinds[] = {"FLAC", "Ogg", "WAV"};
    static const char heads[][37] = {"fLaC and text behind it that is none",
                                     "OggS and text behind it that is none",
                                     "RIFF\x1c\0\0\0WAVE and text that is none!"};
    for (size_t i = 0; i < 3; i++) {
        char text[40];
        buffer.n = 36;
        memcpy(buffer.bytes, heads[i], 36);
        (void)snprintf(text, sizeof text, "the %s file is damaged", kinds[i]);
        expect_refused(text);
    }
}

/* The page of Ogg that begins at this byte; returns where the next one does. */
static sf_count_t page_at(sf_count_t at, ogg_page *page)
{
    page->header = buffer.bytes + at;
    page->header_len = 27 + page->header[26];
    page->body = page->header + page->header_len;
    page->body_len = 0;
    for (int i = 0; i < page->header[26]; i++)
        page->body_len += page->header[27 + i];
    return at + page->header_len + page->body_len;
}

static void other_codings_are_refused(void **state)
{
    (void)state;
    ogg_page page;
    make(SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, RATE, 1, 2000, 440);
    expect_refused("the WAV file's coding is not read");
    make(SF_FORMAT_OGG | SF_FORMAT_VORBIS, RATE, 1, 2000, 440);
    (void)page_at(0, &page);
    memcpy(page.body, "\1Speex ", 7);
    ogg_page_checksum_set(&page);
    expect_refused("the Ogg file's coding is not read");
}

/* Bytes of the pages before the first that has samples. */
static sf_count_t vorbis_head(void)
{
    ogg_page page;
    sf_count_t at = 0, next = page_at(0, &page);
    while (ogg_page_granulepos(&page) == 0) {
        at = next;
        next = page_at(at, &page);
    }
    return at;
}

/* libsndfile would keep memory for ever for each of these. */
static void half_a_vorbis_head_is_damaged(void **state)
{
    (void)state;
    make(SF_FORMAT_OGG | SF_FORMAT_VORBIS, RATE, 1, 2000, 440);
    sf_count_t whole = buffer.n, head = vorbis_head();
    assert_in_range(head, 1000, whole - 1);
    for (buffer.n = 20; buffer.n < head; buffer.n += 70)
        expect_refused("the Ogg file is damaged");
    buffer.n = whole;
    for (sf_count_t at = 36; at < head; at += 91) {
        buffer.bytes[at] ^= 0x55; /* the page's sum is wrong now */
        expect_refused("the Ogg file is damaged");
        buffer.bytes[at] ^= 0x55;
    }
}

static void expect_page_refused(ogg_page *page, unsigned char *byte, unsigned char changed)
{
    unsigned char kept = *byte;
    *byte = changed;
    ogg_page_checksum_set(page);
    expect_refused("the Ogg file is damaged");
    *byte = kept;
    ogg_page_checksum_set(page);
}

/* Their sums are right, what they say is not. */
static void a_wrong_vorbis_head_is_damaged(void **state)
{
    (void)state;
    ogg_page first, second;
    lx_sound s;
    make(SF_FORMAT_OGG | SF_FORMAT_VORBIS, RATE, 1, 2000, 440);
    (void)page_at(page_at(0, &first), &second);
    expect_page_refused(&first, first.header + 5, 0);       /* no stream begins here */
    expect_page_refused(&first, first.body + 7, 9);         /* a version that is none */
    expect_page_refused(&first, first.body + 11, 0);        /* channels */
    expect_page_refused(&second, second.body + 1, 'w');     /* no comments of Vorbis */
    expect_page_refused(&second, second.header + 5, 2);     /* a stream begins again */
    expect_page_refused(&second, second.header + 14, 0x99); /* it belongs to another stream */
    must_load(&s);
    lx_sound_fini(&s);
    long n = second.header - first.header;
    memcpy(second.header, first.header, (size_t)n);
    memcpy(first.body, "OpusHead", 8); /* its sum is wrong now: the library would read over it */
    buffer.n = 2 * n;
    expect_refused("the Ogg file is damaged");
}

static void a_cut_file_is_refused(void **state)
{
    (void)state;
    make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    buffer.n -= 500;
    expect_refused("the WAV file is cut");
    make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    buffer.n /= 2;
    expect_refused("the sound is damaged or cut after");
    make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    claim(5001);
    expect_refused("the sound is damaged or cut after 0.6 s");
}

/* A program that writes a stream does not know its size. */
static void a_streamed_file_is_read_to_its_end(void **state)
{
    (void)state;
    lx_sound s;
    make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 5000, 440);
    memset(buffer.bytes + 4, 0xff, 4);
    memset(buffer.bytes + 40, 0xff, 4);
    must_load(&s);
    assert_int_equal(s.n, 5000);
    lx_sound_fini(&s);
}

static void no_samples_are_refused(void **state)
{
    (void)state;
    make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 0, 440);
    expect_refused("the sound is empty");
    make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 44100, 1, 0, 440);
    expect_refused("the sound is empty");
}

static void too_long_is_refused(void **state)
{
    (void)state;
    lx_sound s;
    make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, MOST, 440);
    must_load(&s);
    assert_int_equal(s.n, MOST);
    lx_sound_fini(&s);
    static const int rates[] = {RATE, 16000, 44100};
    for (int i = 0; i < 3; i++) {
        make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, rates[i], 1, 2 * rates[i] + rates[i] / 100, 440);
        expect_refused("the sound is longer than 2.0 s");
    }
    /* One that says nothing of its length is found out while it is read. */
    for (int i = 0; i < 2; i++) {
        make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, rates[i], 1, 2 * rates[i] + 9000, 440);
        claim(0);
        expect_refused("the sound is longer than 2.0 s");
    }
}

static void other_channels_and_rates_are_refused(void **state)
{
    (void)state;
    make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 8, 100, 440);
    expect_refused("the sound has 8 channels, not 1 or 2");
    make(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, RATE, 3, 100, 440);
    expect_refused("the sound has 3 channels, not 1 or 2");
    static const uint32_t rates[] = {1, 3999, 192001, 0x7fffffff};
    for (int i = 0; i < 4; i++) {
        make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, 100, 440);
        for (int b = 0; b < 4; b++)
            buffer.bytes[WAV_RATE + b] = (uint8_t)(rates[i] >> 8 * b);
        expect_refused("samples a second, not 4000 to 192000");
    }
}

/* Any byte that is wrong gives samples within the limits, or a text of what is wrong. */
static void damage_stays_within_limits(void **state)
{
    (void)state;
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                                  SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                  SF_FORMAT_OGG | SF_FORMAT_VORBIS};
    for (int f = 0; f < 3; f++) {
        make(formats[f], RATE, 1, 3000, 440);
        for (sf_count_t at = 0; at < buffer.n; at += at < 100 ? 1 : 37) {
            uint8_t kept = buffer.bytes[at];
            buffer.bytes[at] ^= 0x81;
            lx_sound s;
            lx_error err = {0};
            lx_status st = load(&s, &err);
            if (st == LX_OK) {
                assert_in_range(s.n, 1, MOST);
                lx_sound_fini(&s);
            } else {
                scratch_expect(st, &err, LX_ERR_INVALID, "");
            }
            buffer.bytes[at] = kept;
        }
    }
}

static void memory_may_be_missing(void **state)
{
    (void)state;
    int n = 1;
    make(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 3000, 440);
    for (;; n++) {
        lx_sound s;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = load(&s, &err);
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
        cmocka_unit_test(opus_is_read),
        cmocka_unit_test(floats_beyond_full_scale_are_clipped),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(what_is_no_sound_is_refused),
        cmocka_unit_test(a_head_alone_is_damaged),
        cmocka_unit_test(other_codings_are_refused),
        cmocka_unit_test(half_a_vorbis_head_is_damaged),
        cmocka_unit_test(a_wrong_vorbis_head_is_damaged),
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(a_streamed_file_is_read_to_its_end),
        cmocka_unit_test(no_samples_are_refused),
        cmocka_unit_test(too_long_is_refused),
        cmocka_unit_test(other_channels_and_rates_are_refused),
        cmocka_unit_test(damage_stays_within_limits),
        cmocka_unit_test(memory_may_be_missing),
    };
    return cmocka_run_group_tests(tests, make_buffer, free_buffer);
}
