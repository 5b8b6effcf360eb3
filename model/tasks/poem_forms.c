/* Forms of poems (see poem_forms.h). */
#include "model/tasks/poem_forms.h"

#include <assert.h>
#include <string.h>

/*
 * Each form as a text. A line is its number of characters and then:
 *   r        the line rhymes, in any tone
 *   A to D   the line has rhyme A to D, which is level; a to d: which is oblique
 *   =        the line repeats the line before it
 *   , or .   the mark that follows the line
 */
#define VERSES                                                                                     \
    X("5x4", "5,5r.5,5r.")                                                                         \
    X("5x8", "5,5r.5,5r.5,5r.5,5r.")                                                               \
    X("7x4", "7,7r.7,7r.")                                                                         \
    X("7x8", "7,7r.7,7r.7,7r.7,7r.")
#define TUNES                                                                                      \
    X("渔歌子", "7A.7A.3,3A.7A.")                                                                  \
    X("忆江南", "3,5A.7,7A.5A.")                                                                   \
    X("如梦令", "6a.6a.5,6a.2a.2=.6a.")                                                            \
    X("长相思", "3A.3A.7A.5A.3A.3A.7A.5A.")                                                        \
    X("点绛唇", "4,7a.4a.5a.4,5a.3a.4a.5a.")                                                       \
    X("浣溪沙", "7A.7A.7A.7,7A.7A.")                                                               \
    X("菩萨蛮", "7a.7a.5B.5B.5c.5c.5D.5D.")                                                        \
    X("采桑子", "7,4A.4A.7A.7,4A.4A.7A.")                                                          \
    X("卜算子", "5,5a.7,5a.5,5a.7,5a.")                                                            \
    X("清平乐", "4a.5a.7a.6a.6B.6B.6,6B.")                                                         \
    X("浪淘沙", "5A.4A.7A.7,4A.5A.4A.7A.7,4A.")                                                    \
    X("鹧鸪天", "7A.7A.7,7A.3,3A.7A.7,7A.")                                                        \
    X("虞美人", "7a.5a.7B.6,3B.7c.5c.7D.6,3D.")                                                    \
    X("蝶恋花", "7a.4,5a.7a.7a.7a.4,5a.7a.7a.")                                                    \
    X("水调歌头", "5,5A.6,5A.6,6,5A.5,5A.3,3,3A.4,7A.6,6,5A.5,5A.")

static const struct form {
    const char *name, *lines;
} forms[] = {
#define X(name, lines) {name, lines},
    VERSES TUNES
#undef X
};

enum { N_FORMS = sizeof forms / sizeof *forms, N_VERSES = 4, MOST_VERSE_LINES = 8 };

/* The kinds of lines of regulated verse, with 5 and with 7 characters. */
typedef enum kind { LEVEL_OBLIQUE, OBLIQUE_LEVEL, TWO_OBLIQUE, TWO_LEVEL, N_KINDS } kind;
static const char *const tones[2][N_KINDS] = {
    {[LEVEL_OBLIQUE] = ".z.pz",
     [OBLIQUE_LEVEL] = "pp.zp",
     [TWO_OBLIQUE] = ".ppzz",
     [TWO_LEVEL] = ".zzpp"},
    {[LEVEL_OBLIQUE] = ".p.z.pz",
     [OBLIQUE_LEVEL] = ".zpp.zp",
     [TWO_OBLIQUE] = ".z.ppzz",
     [TWO_LEVEL] = ".p.zzpp"},
};

/* In a poem of 8 lines; one of 4 lines has the first four. */
static const kind orders[2][LX_PATTERNS][MOST_VERSE_LINES] = {
    {[LX_PATTERN_LEVEL] = {TWO_OBLIQUE, TWO_LEVEL, LEVEL_OBLIQUE, OBLIQUE_LEVEL, TWO_OBLIQUE,
                           TWO_LEVEL, LEVEL_OBLIQUE, OBLIQUE_LEVEL},
     [LX_PATTERN_OBLIQUE] = {LEVEL_OBLIQUE, OBLIQUE_LEVEL, TWO_OBLIQUE, TWO_LEVEL, LEVEL_OBLIQUE,
                             OBLIQUE_LEVEL, TWO_OBLIQUE, TWO_LEVEL}},
    {[LX_PATTERN_LEVEL] = {TWO_LEVEL, OBLIQUE_LEVEL, TWO_OBLIQUE, TWO_LEVEL, LEVEL_OBLIQUE,
                           OBLIQUE_LEVEL, TWO_OBLIQUE, TWO_LEVEL},
     [LX_PATTERN_OBLIQUE] = {OBLIQUE_LEVEL, TWO_LEVEL, LEVEL_OBLIQUE, OBLIQUE_LEVEL, TWO_OBLIQUE,
                             TWO_LEVEL, LEVEL_OBLIQUE, OBLIQUE_LEVEL}},
};

/* Reads one line of the text at *at and leaves *at after it. */
static lx_poem_line read_line(const char **at, int32_t begin)
{
    lx_poem_line line = {.begin = begin, .chars = *(*at)++ - '0'};
    for (; **at != ',' && **at != '.'; (*at)++) {
        char c = **at;
        if (c == '=') {
            line.repeats = true;
            continue;
        }
        line.rhyme = c == 'r' ? 1 : c >= 'a' ? c - 'a' + 1 : c - 'A' + 1;
        line.rhyme_tone = c == 'r' ? LX_TONE_UNKNOWN : c >= 'a' ? LX_TONE_OBLIQUE : LX_TONE_LEVEL;
    }
    line.stops = *(*at)++ == '.';
    return line;
}

/* Lines that end on a level tone rhyme, so the first line may. */
static void set_tones(lx_poem_form *form, lx_poem_pattern pattern)
{
    int32_t seven = form->lines[0].chars == 7;
    for (int32_t i = 0; i < form->n_lines; i++) {
        kind k = orders[seven][pattern][i];
        lx_poem_line *line = &form->lines[i];
        line->tones = tones[seven][k];
        line->rhyme = k == OBLIQUE_LEVEL || k == TWO_LEVEL;
        line->rhyme_tone = line->rhyme != 0 ? LX_TONE_LEVEL : LX_TONE_UNKNOWN;
    }
}

bool lx_poem_form_make(int32_t i, lx_poem_pattern pattern, lx_poem_form *out)
{
    if (i < 0 || i >= N_FORMS || (i >= N_VERSES && pattern != LX_PATTERN_NONE))
        return false;
    *out = (lx_poem_form){.name = forms[i].name, .index = i, .is_tune = i >= N_VERSES};
    for (const char *at = forms[i].lines; *at != '\0';) {
        assert(out->n_lines < LX_POEM_MAX_LINES);
        lx_poem_line line = read_line(&at, out->n_places);
        out->lines[out->n_lines++] = line;
        out->n_places += line.chars + 1;
        out->has_repeats = out->has_repeats || line.repeats;
    }
    assert(out->n_places <= LX_POEM_MAX_PLACES);
    if (pattern != LX_PATTERN_NONE)
        set_tones(out, pattern);
    return true;
}

int32_t lx_poem_form_find(const char *name)
{
    for (int32_t i = 0; i < N_FORMS; i++) {
        if (strcmp(forms[i].name, name) == 0)
            return i;
    }
    return -1;
}

bool lx_poem_form_is_tune(const char *name)
{
    return lx_poem_form_find(name) >= N_VERSES;
}

const char *lx_poem_form_names(void)
{
#define X(name, lines) ", " name
    static const char names[] = VERSES TUNES;
#undef X
    return names + 2;
}

const char *lx_poem_verse_names(void)
{
#define X(name, lines) ", " name
    static const char names[] = VERSES;
#undef X
    return names + 2;
}

const lx_poem_line *lx_poem_line_at(const lx_poem_form *form, int32_t place)
{
    int32_t i = 0;
    while (i + 1 < form->n_lines && form->lines[i + 1].begin <= place)
        i++;
    return &form->lines[i];
}

lx_tone lx_poem_tone_at(const lx_poem_form *form, int32_t place)
{
    const lx_poem_line *line = lx_poem_line_at(form, place);
    int32_t column = place - line->begin;
    char tone = line->tones != NULL && column < line->chars ? line->tones[column] : '.';
    return tone == 'p' ? LX_TONE_LEVEL : tone == 'z' ? LX_TONE_OBLIQUE : LX_TONE_UNKNOWN;
}
