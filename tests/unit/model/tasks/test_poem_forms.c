/*
 * Forms of poems. Known poems keep the form that they were written in, with all places of their
 * rhymes, and famous regulated verse keeps its pattern. A line with a lone level character does
 * not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/tasks/poem_forms.h"
#include "model/utf8.h"

/* The characters of the text without its marks; their number. */
static int32_t characters_of(const char *text, uint32_t *out, int32_t most)
{
    int32_t n = 0;
    for (size_t at = 0; at < strlen(text);) {
        int32_t c = lx_utf8_next(text, strlen(text), &at);
        assert_true(c >= 0 && n < most);
        if (c != U'，' && c != U'。')
            out[n++] = (uint32_t)c;
    }
    return n;
}

/* The place of the first character whose tone the form does not allow, -1: there is none. */
static int32_t first_wrong(const char *name, lx_poem_pattern pattern, const char *poem)
{
    lx_poem_form form;
    uint32_t text[LX_POEM_MAX_PLACES];
    assert_true(lx_poem_form_make(lx_poem_form_find(name), pattern, &form));
    int32_t n = characters_of(poem, text, LX_POEM_MAX_PLACES), at = 0;
    for (int32_t i = 0; i < form.n_lines; i++) {
        for (int32_t k = 0; k < form.lines[i].chars; k++, at++) {
            lx_tone wanted = lx_poem_tone_at(&form, form.lines[i].begin + k);
            lx_tone own = lx_tone_of(text[at]);
            if (wanted != LX_TONE_UNKNOWN && own != wanted && own != LX_TONE_BOTH)
                return at;
        }
    }
    assert_int_equal(at, n);
    return -1;
}

static void regulated_verse_keeps_its_pattern(void **state)
{
    (void)state;
    static const struct {
        const char *form;
        lx_poem_pattern pattern;
        const char *poem;
    } poems[] = {
        {"5x4", LX_PATTERN_OBLIQUE, "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。"},
        {"5x4", LX_PATTERN_LEVEL, "鸣筝金粟柱，素手玉房前。欲得周郎顾，时时误拂弦。"},
        {"7x4", LX_PATTERN_LEVEL,
         "朝辞白帝彩云间，千里江陵一日还。两岸猿声啼不住，轻舟已过万重山。"},
        {"7x4", LX_PATTERN_OBLIQUE,
         "月落乌啼霜满天，江枫渔火对愁眠。姑苏城外寒山寺，夜半钟声到客船。"},
        {"5x8", LX_PATTERN_OBLIQUE,
         "好雨知时节，当春乃发生。随风潜入夜，润物细无声。"
         "野径云俱黑，江船火独明。晓看红湿处，花重锦官城。"},
        {"7x8", LX_PATTERN_OBLIQUE,
         "昨夜星辰昨夜风，画楼西畔桂堂东。身无彩凤双飞翼，心有灵犀一点通。"
         "隔座送钩春酒暖，分曹射覆蜡灯红。嗟余听鼓应官去，走马兰台类转蓬。"},
    };
    for (size_t i = 0; i < sizeof poems / sizeof *poems; i++)
        assert_int_equal(first_wrong(poems[i].form, poems[i].pattern, poems[i].poem), -1);
    /* 大 in the place of 黄 leaves 河 alone; 静夜思 is no regulated verse. */
    assert_int_equal(
        first_wrong("5x4", LX_PATTERN_OBLIQUE, "白日依山尽，大河入海流。欲穷千里目，更上一层楼。"),
        5);
    assert_int_equal(
        first_wrong("5x4", LX_PATTERN_LEVEL, "床前明月光，疑是地上霜。举头望明月，低头思故乡。"),
        4);
    assert_int_equal(
        first_wrong("5x4", LX_PATTERN_OBLIQUE, "白日依山尽，黄河入海流。欲穷千里目，更上高层楼。"),
        17);
}

static void level_ends_of_regulated_verse_rhyme(void **state)
{
    (void)state;
    lx_poem_form form;
    for (int pattern = LX_PATTERN_LEVEL; pattern < LX_PATTERNS; pattern++) {
        for (int32_t i = 0; lx_poem_form_make(i, (lx_poem_pattern)pattern, &form); i++) {
            for (int32_t k = 0; k < form.n_lines; k++) {
                bool rhymes = k % 2 == 1 || (k == 0 && form.lines[0].chars == 7);
                assert_int_equal(form.lines[k].rhyme, rhymes);
                int32_t end = form.lines[k].begin + form.lines[k].chars - 1;
                assert_int_equal(lx_poem_tone_at(&form, end),
                                 rhymes ? LX_TONE_LEVEL : LX_TONE_OBLIQUE);
                assert_int_equal(lx_poem_tone_at(&form, end + 1), LX_TONE_UNKNOWN);
                assert_int_equal(form.lines[k].stops, k % 2 == 1);
            }
        }
    }
    assert_false(lx_poem_form_make(lx_poem_form_find("如梦令"), LX_PATTERN_LEVEL, &form));
    assert_false(lx_poem_form_make(-1, LX_PATTERN_NONE, &form));
}

/* Lyrics of the Tang and the Song. */
static void tunes_have_their_lines(void **state)
{
    (void)state;
    static const struct {
        const char *name, *poem;
    } poems[] = {
        {"渔歌子", "西塞山前白鹭飞。桃花流水鳜鱼肥。青箬笠，绿蓑衣。斜风细雨不须归。"},
        {"忆江南", "江南好，风景旧曾谙。日出江花红胜火，春来江水绿如蓝。能不忆江南。"},
        {"如梦令",
         "常记溪亭日暮。沉醉不知归路。兴尽晚回舟，误入藕花深处。争渡。争渡。惊起一滩鸥鹭。"},
        {"长相思", "汴水流。泗水流。流到瓜州古渡头。吴山点点愁。思悠悠。恨悠悠。恨到归时方始休。月"
                   "明人倚楼。"},
        {"点绛唇", "醉漾轻舟，信流引到花深处。尘缘相误。无计花间住。"
                   "烟水茫茫，千里斜阳暮。山无数。乱红如雨。不记来时路。"},
        {"浣溪沙", "一曲新词酒一杯。去年天气旧亭台。夕阳西下几时回。"
                   "无可奈何花落去，似曾相识燕归来。小园香径独徘徊。"},
        {"菩萨蛮", "平林漠漠烟如织。寒山一带伤心碧。暝色入高楼。有人楼上愁。"
                   "玉阶空伫立。宿鸟归飞急。何处是归程。长亭更短亭。"},
        {"采桑子", "群芳过后西湖好，狼籍残红。飞絮濛濛。垂柳阑干尽日风。"
                   "笙歌散尽游人去，始觉春空。垂下帘栊。双燕归来细雨中。"},
        {"卜算子", "驿外断桥边，寂寞开无主。已是黄昏独自愁，更著风和雨。"
                   "无意苦争春，一任群芳妒。零落成泥碾作尘，只有香如故。"},
        {"清平乐", "别来春半。触目柔肠断。砌下落梅如雪乱。拂了一身还满。"
                   "雁来音信无凭。路遥归梦难成。离恨恰如春草，更行更远还生。"},
        {"浪淘沙", "帘外雨潺潺。春意阑珊。罗衾不耐五更寒。梦里不知身是客，一晌贪欢。"
                   "独自莫凭阑。无限江山。别时容易见时难。流水落花春去也，天上人间。"},
        {"鹧鸪天", "彩袖殷勤捧玉钟。当年拚却醉颜红。舞低杨柳楼心月，歌尽桃花扇底风。"
                   "从别后，忆相逢。几回魂梦与君同。今宵剩把银釭照，犹恐相逢是梦中。"},
        {"虞美人", "春花秋月何时了。往事知多少。小楼昨夜又东风。故国不堪回首，月明中。"
                   "雕阑玉砌应犹在。只是朱颜改。问君能有几多愁。恰似一江春水，向东流。"},
        {"蝶恋花", "花褪残红青杏小。燕子飞时，绿水人家绕。枝上柳绵吹又少。天涯何处无芳草。"
                   "墙里秋千墙外道。墙外行人，墙里佳人笑。笑渐不闻声渐悄。多情却被无情恼。"},
        {"水调歌头", "明月几时有，把酒问青天。不知天上宫阙，今夕是何年。我欲乘风归去，又恐琼楼玉宇"
                     "，高处不胜寒。"
                     "起舞弄清影，何似在人间。转朱阁，低绮户，照无眠。不应有恨，何事长向别时圆。"
                     "人有悲欢离合，月有阴晴圆缺，此事古难全。但愿人长久，千里共婵娟。"},
    };
    lx_poem_form form;
    for (size_t i = 0; i < sizeof poems / sizeof *poems; i++) {
        assert_true(lx_poem_form_make(lx_poem_form_find(poems[i].name), LX_PATTERN_NONE, &form));
        size_t at = 0, n = strlen(poems[i].poem);
        assert_true(form.is_tune);
        for (int32_t place = 0; place < form.n_places; place++) {
            const lx_poem_line *line = lx_poem_line_at(&form, place);
            int32_t c = lx_utf8_next(poems[i].poem, n, &at);
            bool mark = c == U'，' || c == U'。', ends = place == line->begin + line->chars;
            if (mark != ends || (mark && line->stops != (c == U'。')))
                fail_msg("%s, place %d", poems[i].name, place);
            lx_tone own = lx_tone_of((uint32_t)c);
            if (place + 1 == line->begin + line->chars && line->rhyme != 0)
                assert_true(own == line->rhyme_tone || own == LX_TONE_BOTH);
        }
        assert_int_equal(at, n);
    }
    assert_false(
        lx_poem_form_make(lx_poem_form_find("5x4") + 4 + (int32_t)(sizeof poems / sizeof *poems),
                          LX_PATTERN_NONE, &form)); /* there are no others */
}

static void the_repeated_line_is_marked(void **state)
{
    (void)state;
    lx_poem_form form;
    assert_true(lx_poem_form_make(lx_poem_form_find("如梦令"), LX_PATTERN_NONE, &form));
    assert_true(form.has_repeats && form.lines[5].repeats);
    assert_int_equal(form.lines[4].chars, form.lines[5].chars);
}

static void forms_are_found_by_name(void **state)
{
    (void)state;
    assert_int_equal(lx_poem_form_find("5x4"), 0); /* states keep these numbers */
    assert_int_equal(lx_poem_form_find("7x8"), 3);
    assert_int_equal(lx_poem_form_find("9x9"), -1);
    assert_string_equal(lx_poem_verse_names(), "5x4, 5x8, 7x4, 7x8");
    assert_non_null(strstr(lx_poem_form_names(), "7x8, 渔歌子, "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regulated_verse_keeps_its_pattern),
        cmocka_unit_test(level_ends_of_regulated_verse_rhyme),
        cmocka_unit_test(tunes_have_their_lines),
        cmocka_unit_test(the_repeated_line_is_marked),
        cmocka_unit_test(forms_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
