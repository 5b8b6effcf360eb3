/* Fonts as files that may be anything, and the pictures of texts. The font is Debian's
   fonts-wqy-microhei (scripts/deps test). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/formats/png.h"
#include "server/routes/card.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

#define FONT "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"

static const lx_card couplet = {.upper = "海上明月", .lower = "天际彩虹"};
static const lx_card poem = {.poem = "床前明月光，疑是地上霜。举头望明月，低头思故乡。",
                             .has_form = true};

static lx_font *open_font(void)
{
    lx_font *f = NULL;
    lx_error err = {0};
    if (lx_font_open(FONT, &f, &err) != LX_OK)
        fail_msg("%s: scripts/deps test installs it", err.text);
    return f;
}

static lx_buffer draw(const lx_card *card, lx_font *f)
{
    lx_buffer png;
    lx_error err = {0};
    lx_buffer_init(&png, LX_CARD_BYTES);
    if (lx_card_draw(card, f, &png, &err) != LX_OK)
        fail_msg("%s", err.text);
    return png;
}

static lx_picture read_back(const lx_buffer *png)
{
    lx_picture p = {0};
    lx_error err = {0};
    const lx_picture_limits limits = {LX_CARD_WIDTH, LX_CARD_HEIGHT, 3};
    assert_int_equal(lx_png_read(png->data, png->length, &limits, "png", &p, &err), LX_OK);
    assert_int_equal(p.width, LX_CARD_WIDTH);
    assert_int_equal(p.height, LX_CARD_HEIGHT);
    return p;
}

static lx_picture picture_of(const lx_card *card)
{
    lx_font *f = open_font();
    lx_buffer png = draw(card, f);
    lx_picture p = read_back(&png);
    lx_buffer_fini(&png);
    lx_font_free(f);
    return p;
}

static bool is_gold(const lx_picture *p, int32_t x, int32_t y)
{
    const uint8_t *v = p->values + ((int64_t)y * p->width + x) * 3;
    return v[0] == 0xff && v[1] == 0xdf && v[2] == 0x91;
}

/* Pixels of full ink from column `from` to column `to`. */
static int32_t count_gold(const lx_picture *p, int32_t from, int32_t to)
{
    int32_t n = 0;
    for (int32_t y = 0; y < p->height; y++)
        for (int32_t x = from; x < to; x++)
            n += is_gold(p, x, y);
    return n;
}

/* --- fonts --- */

static void test_what_is_no_font_is_refused(void **state)
{
    (void)state;
    static const char text[] = "[font]\nname = none\n";
    lx_font *f = NULL;
    lx_error err = {0};
    lx_status st = lx_font_open(scratch_path("absent.ttf"), &f, &err);
    scratch_expect(st, &err, LX_ERR_NOT_FOUND, "absent.ttf");
    st = lx_font_open(scratch_path(""), &f, &err);
    scratch_expect(st, &err, LX_ERR_FORMAT, "is no file");
    st = lx_font_open(scratch_write("text.ttf", text, sizeof text), &f, &err);
    scratch_expect(st, &err, LX_ERR_FORMAT, "text.ttf is no font");
    st = lx_font_open(scratch_write("empty.ttf", "", 0), &f, &err);
    scratch_expect(st, &err, LX_ERR_FORMAT, "empty.ttf");
    assert_int_equal(mkfifo(scratch_path("pipe.ttf"), 0600), 0);
    st = lx_font_open(scratch_path("pipe.ttf"), &f, &err);
    scratch_expect(st, &err, LX_ERR_FORMAT, "is no file");
    assert_int_equal(unlink(scratch_path("pipe.ttf")), 0);
    assert_null(f);
}

/* All of the font's file; its size in *n. */
static uint8_t *read_font(size_t *n)
{
    FILE *in = fopen(FONT, "rb");
    assert_non_null(in);
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    *n = (size_t)ftell(in);
    rewind(in);
    uint8_t *bytes = malloc(*n);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, in), *n);
    assert_int_equal(fclose(in), 0);
    return bytes;
}

/* Any file is refused, or drawn, or gives an error that names the missing part. */
static bool survives(const char *path)
{
    lx_font *f = NULL;
    lx_error err = {0};
    lx_buffer png;
    lx_status st = lx_font_open(path, &f, &err);
    if (st != LX_OK) {
        scratch_expect(st, &err, LX_ERR_FORMAT, "font");
        return false;
    }
    lx_buffer_init(&png, LX_CARD_BYTES);
    st = lx_card_draw(&couplet, f, &png, &err);
    assert_true(st == LX_OK || st == LX_ERR_NOT_FOUND || st == LX_ERR_FORMAT);
    lx_buffer_fini(&png);
    lx_font_free(f);
    return st == LX_OK;
}

static void test_a_cut_font(void **state)
{
    (void)state;
    size_t n = 0;
    uint8_t *bytes = read_font(&n);
    assert_true(survives(scratch_write("font.ttc", bytes, n)));
    for (size_t tenth = 0; tenth < 9; tenth++)
        assert_false(survives(scratch_write("font.ttc", bytes, n * tenth / 10)));
    free(bytes);
}

static void test_a_damaged_font(void **state)
{
    (void)state;
    size_t n = 0;
    uint64_t random = 7;
    uint8_t *bytes = read_font(&n);
    const char *path = scratch_write("font.ttc", bytes, n);
    FILE *out = fopen(path, "r+b");
    assert_non_null(out);
    setbuf(out, NULL);
    for (int32_t i = 0; i < 60; i++) {
        uint64_t r = scratch_random(&random);
        long at = (long)(i % 2 == 0 ? r % 4096 : r % n); /* its tables, or anywhere */
        for (int32_t undo = 0; undo < 2; undo++) {
            assert_int_equal(fseek(out, at, SEEK_SET), 0);
            int byte = undo ? bytes[at] : bytes[at] ^ (int)(1 + (r >> 40) % 255);
            assert_int_equal(fputc(byte, out), byte);
            if (!undo)
                (void)survives(path);
        }
    }
    assert_true(survives(path));
    assert_int_equal(fclose(out), 0);
    free(bytes);
}

static void test_a_font_that_shrinks_is_an_error(void **state)
{
    (void)state;
    size_t n = 0;
    uint8_t *bytes = read_font(&n);
    const char *path = scratch_write("font.ttc", bytes, n);
    lx_font *f = NULL;
    lx_error err = {0};
    lx_glyph g;
    assert_int_equal(lx_font_open(path, &f, &err), LX_OK);
    assert_int_equal(lx_font_draw(f, 0x6d77, 64, &g, &err), LX_OK);
    assert_int_equal(truncate(path, 4096), 0);
    scratch_expect(lx_font_draw(f, 0x6d77, 64, &g, &err), &err, LX_ERR_FORMAT, "U+6D77");
    lx_font_free(f);
    free(bytes);
}

static void test_a_glyph_fills_its_square(void **state)
{
    (void)state;
    lx_font *f = open_font();
    lx_error err = {0};
    lx_glyph g;
    for (int32_t size = LX_FONT_MIN_SIZE; size <= LX_FONT_MAX_SIZE; size *= 2) {
        assert_int_equal(lx_font_draw(f, 0x56fd, size, &g, &err), LX_OK); /* 国 */
        assert_true(g.left >= 0 && g.left + g.width <= size + 1);
        assert_true(g.top >= 0 && g.top + g.height <= size + 1);
        assert_true(abs(2 * g.top + g.height - size) <= 3);
        assert_true(g.width * 10 > size * 7 && g.height * 10 > size * 7);
    }
    scratch_expect(lx_font_draw(f, 0x10ffff, 64, &g, &err), &err, LX_ERR_NOT_FOUND, "U+10FFFF");
    lx_font_free(f);
}

/* --- cards --- */

static void test_the_same_text_gives_the_same_bytes(void **state)
{
    (void)state;
    lx_font *f = open_font(), *again = open_font();
    lx_card other = couplet, captioned = couplet;
    other.lower = "天际彩云";
    captioned.caption = "月满人间";
    lx_buffer first = draw(&couplet, f), changed = draw(&other, f), hung = draw(&captioned, f),
              written = draw(&poem, f), second = draw(&couplet, again);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.data, second.data, first.length);
    const lx_buffer *others[] = {&changed, &hung, &written};
    for (size_t i = 0; i < 3; i++)
        assert_true(others[i]->length != first.length ||
                    memcmp(others[i]->data, first.data, first.length) != 0);
    lx_buffer_fini(&first);
    lx_buffer_fini(&second);
    lx_buffer_fini(&changed);
    lx_buffer_fini(&hung);
    lx_buffer_fini(&written);
    lx_font_free(f);
    lx_font_free(again);
}

/* The upper line hangs on the right, of 一 there is less ink than of 國. */
static void test_the_upper_line_is_on_the_right(void **state)
{
    (void)state;
    const lx_card card = {.upper = "國國國國", .lower = "一一一一"};
    lx_picture p = picture_of(&card);
    int32_t left = count_gold(&p, 0, LX_CARD_WIDTH / 2);
    int32_t right = count_gold(&p, LX_CARD_WIDTH / 2, LX_CARD_WIDTH);
    assert_true(left > 1000 && right > 2 * left);
    assert_int_equal(count_gold(&p, LX_CARD_WIDTH / 2 - 100, LX_CARD_WIDTH / 2 + 100), 0);
    lx_picture_fini(&p);
}

/* The first line of a poem is on the right, its mark below it. */
static void test_a_poem_reads_from_the_right(void **state)
{
    (void)state;
    const lx_card card = {.poem = "國國國國，一一一一。", .has_form = true};
    lx_picture p = picture_of(&card);
    assert_true(count_gold(&p, 600, 1200) > 2 * count_gold(&p, 0, 600));
    lx_picture_fini(&p);
}

/* A caption is read from the right, too. */
static void test_a_caption_hangs_over_the_door(void **state)
{
    (void)state;
    const lx_card card = {.upper = "一", .lower = "一", .caption = "國國一一"};
    lx_picture p = picture_of(&card);
    assert_true(count_gold(&p, 600, 850) > count_gold(&p, 350, 600) + 1000);
    lx_picture_fini(&p);
}

/* Texts of any length keep to the paper, whose edge is then red all around. */
static void test_long_texts_keep_to_the_paper(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    char text[3 * MOST + 1];
    for (size_t i = 0; i < MOST; i++)
        memcpy(text + 3 * i, i % 7 == 6 ? "，" : "國", 3);
    for (size_t n = 1; n <= MOST; n = n * 2 + 1) {
        text[3 * n] = '\0';
        const lx_card cards[] = {{.upper = text, .lower = text, .caption = text},
                                 {.upper = text, .lower = text},
                                 {.poem = text},
                                 {.poem = text, .has_form = true}};
        for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
            lx_picture p = picture_of(&cards[i]);
            assert_true(count_gold(&p, 0, LX_CARD_WIDTH) > 1000);
            assert_int_equal(
                count_gold(&p, 0, 40) + count_gold(&p, LX_CARD_WIDTH - 40, LX_CARD_WIDTH), 0);
            for (int32_t x = 0; x < LX_CARD_WIDTH; x++)
                for (int32_t y = 0; y < 40; y++)
                    assert_false(is_gold(&p, x, y) || is_gold(&p, x, LX_CARD_HEIGHT - 1 - y));
            lx_picture_fini(&p);
        }
        memcpy(text + 3 * n, "國", 3);
    }
}

static void test_texts_that_cannot_be_drawn(void **state)
{
    (void)state;
    lx_font *f = open_font();
    lx_error err = {0};
    lx_buffer png;
    lx_buffer_init(&png, LX_CARD_BYTES);
    const lx_card absent = {.upper = "海\xf4\x8f\xbf\xbf", .lower = "天"}; /* U+10FFFF */
    scratch_expect(lx_card_draw(&absent, f, &png, &err), &err, LX_ERR_NOT_FOUND, "U+10FFFF");
    const lx_card empty = {.upper = "\xff\x01", .lower = "天"}, nothing = {.poem = ""};
    scratch_expect(lx_card_draw(&empty, f, &png, &err), &err, LX_ERR_INVALID, "two lines");
    scratch_expect(lx_card_draw(&nothing, f, &png, &err), &err, LX_ERR_INVALID, "a line");
    assert_int_equal(png.length, 0);
    lx_buffer_fini(&png);
    lx_font_free(f);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    int n = 0;
    for (bool hit = true; hit; n++) {
        lx_font *f = NULL;
        lx_buffer png;
        lx_buffer_init(&png, LX_CARD_BYTES);
        failing_arm(n + 1);
        lx_status st = lx_font_open(FONT, &f, NULL);
        if (st == LX_OK)
            st = lx_card_draw(&couplet, f, &png, NULL);
        hit = failing_hit();
        assert_int_equal(st, hit ? LX_ERR_NO_MEMORY : LX_OK);
        lx_buffer_fini(&png);
        lx_font_free(f);
    }
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_font_is_refused),
        cmocka_unit_test(test_a_cut_font),
        cmocka_unit_test(test_a_damaged_font),
        cmocka_unit_test(test_a_font_that_shrinks_is_an_error),
        cmocka_unit_test(test_a_glyph_fills_its_square),
        cmocka_unit_test(test_the_same_text_gives_the_same_bytes),
        cmocka_unit_test(test_the_upper_line_is_on_the_right),
        cmocka_unit_test(test_a_poem_reads_from_the_right),
        cmocka_unit_test(test_a_caption_hangs_over_the_door),
        cmocka_unit_test(test_long_texts_keep_to_the_paper),
        cmocka_unit_test(test_texts_that_cannot_be_drawn),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
