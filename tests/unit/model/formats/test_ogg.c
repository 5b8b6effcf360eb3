/*
 * Ogg files: the files that libsndfile may read. Their pages are changed and summed up again.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ogg/ogg.h>
#include <sndfile.h>

#include "tests/support/sound_file.h"

enum { RATE = SOUND_FILE_RATE };

/* The page of Ogg that begins at this byte; returns where the next one does. */
static int64_t page_at(int64_t at, ogg_page *page)
{
    page->header = sound_file.bytes + at;
    page->header_len = 27 + page->header[26];
    page->body = page->header + page->header_len;
    page->body_len = 0;
    for (int i = 0; i < page->header[26]; i++)
        page->body_len += page->header[27 + i];
    return at + page->header_len + page->body_len;
}

static void opus_is_read(void **state)
{
    (void)state;
    lx_sound s;
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 1, 48000, 440);
    sound_file_must_load(&s);
    assert_in_range(s.n, RATE - 400, RATE + 400);
    lx_sound_fini(&s);
}

static void other_codings_are_refused(void **state)
{
    (void)state;
    ogg_page page;
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_VORBIS, RATE, 1, 2000, 440);
    (void)page_at(0, &page);
    memcpy(page.body, "\1Speex ", 7);
    ogg_page_checksum_set(&page);
    sound_file_refused("the Ogg file's coding is not read");
}

/* Bytes of the pages before the first that has samples. */
static int64_t vorbis_head(void)
{
    ogg_page page;
    int64_t at = 0, next = page_at(0, &page);
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
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_VORBIS, RATE, 1, 2000, 440);
    int64_t whole = sound_file.n, head = vorbis_head();
    assert_in_range(head, 1000, whole - 1);
    for (sound_file.n = 20; sound_file.n < head; sound_file.n += 70)
        sound_file_refused("the Ogg file is damaged");
    sound_file.n = whole;
    for (int64_t at = 36; at < head; at += 91) {
        sound_file.bytes[at] ^= 0x55; /* the page's sum is wrong now */
        sound_file_refused("the Ogg file is damaged");
        sound_file.bytes[at] ^= 0x55;
    }
}

static void expect_page_refused(ogg_page *page, unsigned char *byte, unsigned char changed)
{
    unsigned char kept = *byte;
    *byte = changed;
    ogg_page_checksum_set(page);
    sound_file_refused("the Ogg file is damaged");
    *byte = kept;
    ogg_page_checksum_set(page);
}

/* The sums are right, the header fields are wrong. */
static void a_wrong_vorbis_head_is_damaged(void **state)
{
    (void)state;
    ogg_page first, second;
    lx_sound s;
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_VORBIS, RATE, 1, 2000, 440);
    (void)page_at(page_at(0, &first), &second);
    expect_page_refused(&first, first.header + 5, 0);       /* no stream begins here */
    expect_page_refused(&first, first.body + 7, 9);         /* a version that is none */
    expect_page_refused(&first, first.body + 11, 0);        /* channels */
    expect_page_refused(&second, second.body + 1, 'w');     /* no comments of Vorbis */
    expect_page_refused(&second, second.header + 5, 2);     /* a stream begins again */
    expect_page_refused(&second, second.header + 14, 0x99); /* it belongs to another stream */
    sound_file_must_load(&s);
    lx_sound_fini(&s);
    long n = second.header - first.header;
    memcpy(second.header, first.header, (size_t)n);
    memcpy(first.body, "OpusHead", 8); /* its sum is wrong now: the library would read over it */
    sound_file.n = 2 * n;
    sound_file_refused("the Ogg file is damaged");
}

static void move_page(ogg_page *page, int64_t by)
{
    int64_t position = ogg_page_granulepos(page) + by;
    for (int i = 0; i < 8; i++)
        page->header[6 + i] = (unsigned char)((uint64_t)position >> 8 * i);
    ogg_page_checksum_set(page);
}

/* libsndfile would make room for missing samples, and return the former contents of that memory. */
static void a_page_far_in_front_of_another_is_refused(void **state)
{
    (void)state;
    static const int64_t away[] = {4294967296,  3000000000,    4294000000,
                                   20000000000, 1099511627776, -1099511627776};
    ogg_page page;
    for (size_t i = 0; i < sizeof away / sizeof *away; i++) {
        sound_file_make(SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 2, 3 * 48000 / 2, 440);
        int positions = 0;
        for (int64_t at = page_at(0, &page); at < sound_file.n;) {
            at = page_at(at, &page);
            positions += ogg_page_granulepos(&page) > 0;
            if (positions > 1 && at < sound_file.n) /* neither the first nor the last */
                move_page(&page, away[i]);
        }
        assert_true(positions > 2);
        sound_file_refused("the Ogg file is damaged");
    }
}

/* Writes the beginning of a page far from its end, with a wrong sum. */
static int64_t spell_page(unsigned char *to, unsigned char segments)
{
    memset(to, 0, 27);
    memcpy(to, "OggS", 4);
    to[13] = 0x7f;
    to[26] = segments;
    memset(to + 27, 255, segments);
    return 27 + segments;
}

/* The second page of a file whose comments are followed by zeros; returns the first of these. */
static unsigned char *make_with_room(ogg_page *page)
{
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 1, 48000, 440);
    (void)page_at(page_at(0, page), page);
    unsigned char *room = page->body + 100;
    for (int i = 0; i < 400; i++)
        assert_int_equal(room[i], 0);
    return room;
}

/* The library that reads it looks at sums, too. */
static void letters_of_a_page_are_no_page(void **state)
{
    (void)state;
    lx_sound s;
    ogg_page page;
    unsigned char *room = make_with_room(&page);
    (void)spell_page(room, 1);
    ogg_page_checksum_set(&page);
    sound_file_must_load(&s);
    assert_in_range(s.n, RATE - 400, RATE + 400);
    lx_sound_fini(&s);
}

static void a_page_within_another_is_one(void **state)
{
    (void)state;
    ogg_page page, within;
    unsigned char *room = make_with_room(&page);
    (void)spell_page(room, 1);
    (void)page_at(room - sound_file.bytes, &within);
    ogg_page_checksum_set(&within);
    ogg_page_checksum_set(&page);
    sound_file_refused("the Ogg file is damaged");
}

/* Appends a page of 255 segments to the stream of `last`, with the beginnings of n others in it. */
static void append_page_of_spellings(const ogg_page *last, int n, bool has_end)
{
    ogg_page page;
    unsigned char *to = sound_file.bytes + sound_file.n;
    (void)spell_page(to, 255);
    memcpy(to + 14, last->header + 14, 4); /* the stream's number */
    if (has_end) {                         /* a packet ends in it, where the last one does */
        to[27 + 254] = 254;
        memcpy(to + 6, last->header + 6, 8);
    } else {
        memset(to + 6, 0xff, 8);
    }
    int64_t end = page_at(sound_file.n, &page);
    memset(page.body, 0, (size_t)page.body_len);
    for (int i = 0; i < n; i++)
        (void)spell_page(page.body + (int64_t)i * 282, 255);
    ogg_page_checksum_set(&page);
    sound_file.n = end;
}

/* The last page of a sound, which does not end its stream. */
static void make_without_end(ogg_page *last)
{
    (void)make_with_room(last);
    for (int64_t at = 0; at < sound_file.n;)
        at = page_at(at, last);
    last->header[5] &= 0xfb;
    ogg_page_checksum_set(last);
}

/* Each would have up to 65 kB summed up. The library that decodes finds the few. */
static void many_that_only_seem_to_begin_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"the sound is damaged", "the Ogg file is damaged"};
    static const int spelled[] = {4, 230};
    for (int i = 0; i < 2; i++) {
        ogg_page last;
        make_without_end(&last);
        for (int k = 0; k < 4; k++)
            append_page_of_spellings(&last, spelled[i], true);
        sound_file_refused(texts[i]);
    }
}

/* libsndfile would read freed memory. */
static void a_page_without_the_end_of_a_packet_is_refused(void **state)
{
    (void)state;
    ogg_page last;
    make_without_end(&last);
    append_page_of_spellings(&last, 0, false);
    sound_file_refused("the Ogg file is damaged");
}

/* As one that was cut out of a broadcast. */
static void opus_may_begin_late(void **state)
{
    (void)state;
    lx_sound s;
    ogg_page page;
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 1, 48000, 440);
    for (int64_t at = 0; at < sound_file.n;) {
        at = page_at(at, &page);
        if (ogg_page_granulepos(&page) > 0)
            move_page(&page, (int64_t)48000 * 3600 * 30);
    }
    sound_file_must_load(&s);
    assert_in_range(s.n, RATE - 400, RATE + 400);
    lx_sound_fini(&s);
}

/* Files that follow each other are one sound, with any codings, rates and channels. */
static void chained_streams_are_read_as_one(void **state)
{
    (void)state;
    static const struct {
        int format, rate, channels;
    } links[] = {{SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 1},
                 {SF_FORMAT_OGG | SF_FORMAT_VORBIS, RATE, 2},
                 {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, 1}};
    enum { N_LINKS = sizeof links / sizeof *links };
    uint8_t *chain = malloc(1 << 20);
    int64_t n = 0;
    assert_non_null(chain);
    for (int i = 0; i < N_LINKS; i++) {
        lx_sound s;
        sound_file_make(links[i].format, links[i].rate, links[i].channels, links[i].rate / 2, 440);
        memcpy(chain + n, sound_file.bytes, (size_t)sound_file.n);
        n += sound_file.n;
        memcpy(sound_file.bytes, chain, (size_t)n);
        sound_file.n = n;
        sound_file_must_load(&s);
        assert_in_range(s.n, (i + 1) * (RATE / 2 - 300), (i + 1) * (RATE / 2 + 300));
        double last = 0; /* how loud the last link is */
        for (int32_t k = s.n - RATE / 4; k < s.n - RATE / 8; k++)
            last += fabs((double)s.samples[k]) / (RATE / 8.0);
        assert_true(last > 0.2);
        lx_sound_fini(&s);
    }
    free(chain);
}

/* The file twice: a page of the second stream that is not whole takes no sound with it unseen. */
static void a_damaged_second_stream_is_refused(void **state)
{
    (void)state;
    static const int formats[] = {SF_FORMAT_OGG | SF_FORMAT_VORBIS, SF_FORMAT_OGG | SF_FORMAT_OPUS};
    for (int i = 0; i < 2; i++) {
        lx_sound s;
        sound_file_make(formats[i], RATE, 1, 4000, 440);
        int64_t n = sound_file.n;
        memcpy(sound_file.bytes + n, sound_file.bytes, (size_t)n);
        sound_file.n = 2 * n;
        sound_file_must_load(&s);
        assert_in_range(s.n, 7900, 8100);
        lx_sound_fini(&s);
        for (int64_t at = n; at < 2 * n; at += at < n + 60 ? 1 : 97) {
            sound_file.bytes[at] ^= 0x10;
            sound_file_refused("");
            sound_file.bytes[at] ^= 0x10;
        }
        for (sound_file.n = 2 * n - 1; sound_file.n > n; sound_file.n -= 101)
            sound_file_refused("the Ogg file is damaged");
    }
}

/* The library would read one of them. */
static void streams_side_by_side_are_refused(void **state)
{
    (void)state;
    ogg_page page, copy;
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_OPUS, RATE, 1, 4000, 440);
    int64_t n = page_at(0, &page);
    memmove(sound_file.bytes + n, sound_file.bytes, (size_t)sound_file.n);
    sound_file.n += n;
    (void)page_at(0, &copy);
    copy.header[14] ^= 1; /* the stream's number */
    ogg_page_checksum_set(&copy);
    sound_file_refused("the Ogg file is damaged");
}

/* Pages after the last page of a stream would not be read. */
static void a_stream_ends_once(void **state)
{
    (void)state;
    ogg_page page;
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 1, 48000, 440);
    for (int64_t at = 0; at == 0 || ogg_page_granulepos(&page) <= 0;)
        at = page_at(at, &page);
    page.header[5] |= 4;
    ogg_page_checksum_set(&page);
    sound_file_refused("the Ogg file is damaged");
}

/* Each costs a reader of its own. */
static void chains_have_their_limits(void **state)
{
    (void)state;
    lx_sound s;
    sound_file_make(SF_FORMAT_OGG | SF_FORMAT_VORBIS, RATE, 1, 200, 440);
    int64_t n = sound_file.n;
    for (int i = 1; i < 33; i++)
        memcpy(sound_file.bytes + i * n, sound_file.bytes, (size_t)n);
    sound_file.n = 32 * n;
    sound_file_must_load(&s);
    assert_int_equal(s.n, 32 * 200);
    lx_sound_fini(&s);
    sound_file.n = 33 * n;
    sound_file_refused("more than 32 streams");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opus_is_read),
        cmocka_unit_test(chained_streams_are_read_as_one),
        cmocka_unit_test(a_damaged_second_stream_is_refused),
        cmocka_unit_test(streams_side_by_side_are_refused),
        cmocka_unit_test(a_stream_ends_once),
        cmocka_unit_test(chains_have_their_limits),
        cmocka_unit_test(opus_may_begin_late),
        cmocka_unit_test(letters_of_a_page_are_no_page),
        cmocka_unit_test(a_page_within_another_is_one),
        cmocka_unit_test(many_that_only_seem_to_begin_are_refused),
        cmocka_unit_test(a_page_without_the_end_of_a_packet_is_refused),
        cmocka_unit_test(other_codings_are_refused),
        cmocka_unit_test(half_a_vorbis_head_is_damaged),
        cmocka_unit_test(a_wrong_vorbis_head_is_damaged),
        cmocka_unit_test(a_page_far_in_front_of_another_is_refused),
    };
    return cmocka_run_group_tests(tests, sound_file_new, sound_file_free);
}
