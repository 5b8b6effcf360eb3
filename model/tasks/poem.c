/*
 * The poem task: see poem.h for the rules.
 *
 * A form fixes the place of every mark and of the end, and an acrostic the first characters. So a
 * step's constraint follows from its number alone, and engine and sampler may run ahead. A rhyme
 * and a repeated line follow from earlier tokens, so such a poem does not run ahead. Every token
 * that the mask leaves is one whole character, so one token stands for one character.
 */
#include "model/tasks/poem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/characters.h"
#include "model/formats/file.h"
#include "model/model_files.h"
#include "model/tasks/choose.h"
#include "model/tasks/poem_forms.h"
#include "model/tasks/poem_words.h"
#include "model/tasks/text.h"
#include "model/utf8.h"

enum { MAX_CHARACTER = 4 }; /* bytes */
enum { MOST_TITLE = 64 };   /* characters of a title that are looked at */
enum { JUDGED = 256 };      /* characters of a poem by which it is chosen */

static const char comma[] = "\xef\xbc\x8c", stop[] = "\xe3\x80\x82"; /* ，。 */
static const char before_title[] = "\xe3\x80\x8a";                   /* 《 */
static const char behind_title[] = "\xe3\x80\x8b";                   /* 》 */

/* The values of `rhyme` in requests, and in states from 1 on. */
static const char *const rhyme_names[LX_RHYME_TABLES] = {
    [LX_RHYME_BOOK] = "true", [LX_RHYME_MODERN] = "modern"};
static const char *const pattern_names[LX_PATTERNS] = {
    [LX_PATTERN_NONE] = NULL, [LX_PATTERN_LEVEL] = "level", [LX_PATTERN_OBLIQUE] = "oblique"};

/* How a plan's answer is written. */
typedef struct poem {
    bool formed, rhymes;
    lx_rhyme_table table;    /* by which it rhymes */
    lx_poem_pattern pattern; /* of the form */
    lx_poem_form form;
    int32_t n_before;                    /* characters and marks of the poem in the prompt */
    int32_t given[LX_POEM_MAX_PLACES];   /* [n_before] their tokens; -1: none */
    int32_t marks[2];                    /* tokens: ， and 。 */
    int32_t first[LX_POEM_MAX_ACROSTIC]; /* tokens that the lines begin with */
    size_t acrostic_bytes;               /* 0: none */
    char acrostic[LX_POEM_MAX_ACROSTIC * MAX_CHARACTER]; /* as it was asked for */
} poem;

/* --- the model --- */

static const lx_poem_words *words_of(const lx_model *model)
{
    return model->task_data;
}

/* Appends the text with every traditional character as its simplified form, where that is a token.
   Returns how many those are. */
static int32_t simplify(const lx_model *model, const char *text, size_t bytes, lx_buffer *out)
{
    int32_t n = 0;
    for (size_t at = 0; at < bytes;) {
        char simple[MAX_CHARACTER];
        size_t from = at;
        int32_t c = lx_utf8_next(text, bytes, &at);
        uint32_t s = c >= 0 ? lx_simplified((uint32_t)c) : 0;
        size_t length = c >= 0 && s != (uint32_t)c ? lx_utf8_put(s, simple) : 0;
        bool replaces = length > 0 && lx_poem_token_of(model, simple, length) >= 0;
        n += replaces;
        lx_buffer_append(out, replaces ? simple : text + from, replaces ? length : at - from);
    }
    return n;
}

static lx_status check_model(const lx_model *model, lx_error *err)
{
    lx_status st = lx_text_check_model(model, err);
    if (st != LX_OK)
        return st;
    if (lx_text_of(&model->config)->n_ends == 0)
        return lx_fail(err, LX_ERR_FORMAT, "end",
                       "config.json: a model of poems has a token that ends them");
    if (lx_poem_token_of(model, comma, sizeof comma - 1) < 0 ||
        lx_poem_token_of(model, stop, sizeof stop - 1) < 0)
        return lx_fail(err, LX_ERR_FORMAT, "tokenizer",
                       "the tokenizer of a model of poems has the marks %s and %s as tokens", comma,
                       stop);
    return lx_poem_words_check(words_of(model), err);
}

static lx_status load(lx_model *model, lx_error *err)
{
    char path[LX_MODEL_PATH], *bytes = NULL;
    size_t n = 0;
    lx_rhymes *rhymes = NULL;
    lx_status st = lx_text_load(model, err);
    if (st == LX_OK)
        st = lx_model_read_optional(model, "rhymes.txt", LX_MAX_RHYMES_FILE, path, &bytes, &n, err);
    if (st == LX_OK && bytes != NULL)
        st = lx_rhymes_read(bytes, n, lx_file_label(path), model->tokenizer, &rhymes, err);
    free(bytes);
    lx_poem_words *words = NULL;
    if (st == LX_OK)
        st = lx_poem_words_new(model, rhymes, &words, err);
    model->task_data = words;
    return st;
}

static void unload(lx_model *model)
{
    lx_poem_words_free(model->task_data);
}

static bool has_table(const lx_model *model, lx_rhyme_table table)
{
    return lx_poem_words_table(words_of(model), table) != NULL;
}

static void card(const lx_model *model, lx_task_card *card)
{
    lx_text_card(model, card);
    lx_card_add(card,
                (lx_card_field){"rhymes", LX_CARD_FLAG, .number = has_table(model, LX_RHYME_BOOK)});
}

static int32_t more_masks(const lx_model *model)
{
    return lx_poem_words_masks(words_of(model)) - 1;
}

static void fill_mask(const lx_model *model, int32_t mask_idx, uint8_t *banned)
{
    if (mask_idx == LX_MASK_TEXT) {
        lx_text_fill_mask(model, mask_idx, banned);
        lx_poem_words_ban_variants(words_of(model), banned);
        return;
    }
    memset(banned, 1, (size_t)model->config.head_size);
    lx_poem_words_fill(words_of(model), mask_idx, banned);
}

/* --- the form --- */

/* The place of the text among n names, -1: it is none of them. */
static int32_t place_of(const char *text, const char *const *names, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (names[i] != NULL && strcmp(names[i], text) == 0)
            return i;
    }
    return -1;
}

static lx_status read_pattern(const char *text, poem *p, lx_error *err)
{
    int32_t pattern = text != NULL ? place_of(text, pattern_names, LX_PATTERNS) : 0;
    if (pattern < 0)
        return lx_fail(err, LX_ERR_INVALID, "pattern",
                       "pattern must be level or oblique, the tone of the second character");
    p->pattern = (lx_poem_pattern)pattern;
    return LX_OK;
}

static lx_status read_rhyme(const lx_model *model, const char *text, poem *p, lx_error *err)
{
    if (text == NULL)
        return LX_OK;
    int32_t table = place_of(text, rhyme_names, LX_RHYME_TABLES);
    if (table < 0)
        return lx_fail(err, LX_ERR_INVALID, "rhyme", "rhyme must be true, false or \"modern\"");
    p->rhymes = true;
    p->table = (lx_rhyme_table)table;
    if (has_table(model, p->table))
        return LX_OK;
    return lx_fail(
        err, LX_ERR_INVALID, "rhyme",
        "%s has no table of rhymes: rhymes.txt in its folder. rhyme \"modern\" needs none",
        model->name);
}

static lx_status read_form(const char *name, bool ignores_end, poem *p, lx_error *err)
{
    int32_t i = lx_poem_form_find(name);
    if (i < 0)
        return lx_fail(err, LX_ERR_INVALID, "form", "form must be one of %s", lx_poem_form_names());
    p->formed = lx_poem_form_make(i, p->pattern, &p->form);
    if (!p->formed)
        return lx_fail(err, LX_ERR_INVALID, "pattern",
                       "pattern is for the forms %s, and %s is a tune", lx_poem_verse_names(),
                       name);
    if (ignores_end)
        return lx_fail(err, LX_ERR_INVALID, "ignore_eos",
                       "ignore_eos is not allowed with form: the poem ends after its last line");
    return LX_OK;
}

static lx_status read_fields(const lx_model *model, const lx_task_fields *fields, bool ignores_end,
                             poem *p, lx_error *err)
{
    const char *first = lx_task_first_field(fields);
    const char *form = fields->at[LX_ASKED_form].text;
    if (first == NULL)
        return LX_OK;
    if (form == NULL)
        return lx_fail(err, LX_ERR_INVALID, first, "%s needs a form, such as 5x4", first);
    lx_status st = read_rhyme(model, fields->at[LX_ASKED_rhyme].text, p, err);
    if (st == LX_OK)
        st = read_pattern(fields->at[LX_ASKED_pattern].text, p, err);
    return st == LX_OK ? read_form(form, ignores_end, p, err) : st;
}

static lx_status wrong_acrostic(const poem *p, lx_error *err)
{
    return lx_fail(err, LX_ERR_INVALID, "acrostic",
                   "acrostic must have %d Chinese characters, one for each line of %s",
                   p->form.n_lines, p->form.name);
}

static lx_status read_acrostic(const lx_model *model, const lx_task_value *asked, poem *p,
                               lx_error *err)
{
    const char *text = asked->text;
    size_t n = asked->bytes, at = 0;
    int32_t line = 0;
    if (text == NULL || !p->formed)
        return LX_OK;
    if (p->form.is_tune)
        return lx_fail(err, LX_ERR_INVALID, "acrostic",
                       "acrostic is for the forms %s, and %s is a tune", lx_poem_verse_names(),
                       p->form.name);
    for (; at < n; line++) {
        size_t from = at;
        int32_t c = lx_utf8_next(text, n, &at);
        if (line == p->form.n_lines || c < 0 || !lx_char_is_han((uint32_t)c))
            return wrong_acrostic(p, err);
        p->first[line] = lx_poem_token_of(model, text + from, at - from);
        if (p->first[line] < 0)
            return lx_fail(err, LX_ERR_INVALID, "acrostic",
                           "acrostic: the model does not know %.*s", (int)(at - from), text + from);
    }
    if (line != p->form.n_lines)
        return wrong_acrostic(p, err);
    memcpy(p->acrostic, text, n);
    p->acrostic_bytes = n;
    return LX_OK;
}

/* The token at a place of the poem: of the prompt, or generated. */
static int32_t token_at(const lx_plan *plan, int32_t place, const int32_t *tokens)
{
    const poem *p = plan->data;
    assert(place < p->n_before || tokens != NULL);
    return place < p->n_before ? p->given[place] : tokens[place - p->n_before + plan->n_given];
}

/* The token that the form has at a place, -1: any. */
static int32_t forced_at(const lx_plan *plan, int32_t place, const int32_t *tokens)
{
    const poem *p = plan->data;
    const lx_poem_line *line = lx_poem_line_at(&p->form, place);
    int32_t column = place - line->begin;
    if (column == line->chars)
        return p->marks[line->stops];
    if (line->repeats)
        return token_at(plan, place - line->chars - 1, tokens);
    return column == 0 && p->acrostic_bytes > 0 ? p->first[line - p->form.lines] : -1;
}

/* Whether the line rhymes and ends at this place. A repeated line rhymes with itself. */
static bool is_rhyme(const poem *p, int32_t place)
{
    const lx_poem_line *line = lx_poem_line_at(&p->form, place);
    return p->rhymes && line->rhyme != 0 && !line->repeats &&
           place == line->begin + line->chars - 1;
}

/* Lists the places before this one that rhyme with it. */
static int32_t rhymes_before(const poem *p, int32_t place, int32_t places[LX_POEM_MAX_LINES])
{
    const lx_poem_line *own = lx_poem_line_at(&p->form, place);
    int32_t n = 0;
    for (const lx_poem_line *line = p->form.lines; line < own; line++) {
        int32_t end = line->begin + line->chars - 1;
        if (line->rhyme == own->rhyme && is_rhyme(p, end))
            places[n++] = end;
    }
    return n;
}

/* How many lines of the form rhyme with this one. */
static int32_t count_rhymes(const poem *p, const lx_poem_line *own)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->form.n_lines; i++)
        n += p->form.lines[i].rhyme == own->rhyme && !p->form.lines[i].repeats;
    return n;
}

/* Whether the token that the prompt has at a place that rhymes does so with those before it, and
   whether there are words enough for the lines after it. */
static bool takes_rhyme(const lx_plan *plan, int32_t place, int32_t token)
{
    const poem *p = plan->data;
    const lx_poem_words *words = words_of(plan->model);
    const lx_rhymes *table = lx_poem_words_table(words, p->table);
    const lx_poem_line *line = lx_poem_line_at(&p->form, place);
    int32_t places[LX_POEM_MAX_LINES], n = rhymes_before(p, place, places);
    int32_t group = lx_rhymes_group(table, token);
    for (int32_t i = 0; i < n; i++) {
        if (p->given[places[i]] == token || lx_rhymes_group(table, p->given[places[i]]) != group)
            return false;
    }
    return group >= 0 &&
           lx_poem_words_count(words, p->table, group, line->rhyme_tone) >= count_rhymes(p, line);
}

static lx_status breaks(const char *field, const char *what, int32_t place, lx_error *err)
{
    return lx_fail(err, LX_ERR_INVALID, field,
                   "the prompt's poem does not keep the %s at its character %d", what, place + 1);
}

/* The tone that a place must have: of its pattern or of its rhyme. An acrostic may have any. */
static lx_tone tone_at(const poem *p, int32_t place)
{
    const lx_poem_line *line = lx_poem_line_at(&p->form, place);
    if (p->acrostic_bytes > 0 && place == line->begin)
        return LX_TONE_UNKNOWN;
    return is_rhyme(p, place) && line->rhyme_tone != LX_TONE_UNKNOWN
               ? line->rhyme_tone
               : lx_poem_tone_at(&p->form, place);
}

/* Takes a character that the prompt has at a place of the poem, if it keeps the form. */
static lx_status take_given(const lx_plan *plan, poem *p, int32_t place, const char *character,
                            size_t bytes, lx_error *err)
{
    if (place >= p->form.n_places)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "the prompt's poem is longer than %s",
                       p->form.name);
    size_t at = 0;
    int32_t c = lx_utf8_next(character, bytes, &at);
    int32_t token = lx_poem_token_of(plan->model, character, bytes);
    int32_t forced = forced_at(plan, place, NULL);
    bool begins = place == lx_poem_line_at(&p->form, place)->begin && p->acrostic_bytes > 0;
    p->given[place] = token;
    if (forced >= 0 ? token != forced : c < 0 || !lx_char_is_han((uint32_t)c))
        return breaks(begins && forced >= 0 ? "acrostic" : "prompt",
                      begins && forced >= 0 ? "acrostic" : "form", place, err);
    if (forced < 0 && !lx_poem_tone_fits((uint32_t)c, tone_at(p, place)))
        return breaks("prompt", p->pattern != LX_PATTERN_NONE ? "pattern" : "tone of the rhyme",
                      place, err);
    if (is_rhyme(p, place) && !takes_rhyme(plan, place, token))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "the prompt's poem does not rhyme at its character %d", place + 1);
    return LX_OK;
}

/* Where the poem begins in the prompt's text. */
static size_t find_poem(const lx_buffer *text)
{
    size_t n = sizeof behind_title - 1;
    for (size_t at = text->length; at >= n; at--) {
        if (memcmp(text->data + at - n, behind_title, n) == 0)
            return at;
    }
    return 0;
}

static lx_status check_prompt(const lx_plan *plan, poem *p, lx_error *err)
{
    const lx_model *model = plan->model;
    lx_buffer text;
    lx_buffer_init(&text, (size_t)plan->n_pieces * (size_t)lx_text_token_bytes(model) + 1);
    lx_status st = lx_tokenizer_decode(model->tokenizer, plan->prompt_ids, (size_t)plan->n_pieces,
                                       0, &text, err);
    if (st == LX_OK && text.status != LX_OK)
        st = lx_fail(err, text.status, NULL, "no memory for a prompt");
    size_t at = st == LX_OK && text.data != NULL ? find_poem(&text) : 0;
    while (st == LX_OK && text.data != NULL && at < text.length) {
        size_t from = at;
        (void)lx_utf8_next(text.data, text.length, &at);
        st = take_given(plan, p, p->n_before, text.data + from, at - from, err);
        p->n_before++;
    }
    lx_buffer_fini(&text);
    return st;
}

/* The table must have words for every rhyme of the form. */
static lx_status check_rhymes(const lx_model *model, const poem *p, lx_error *err)
{
    for (int32_t i = 0; p->rhymes && i < p->form.n_lines; i++) {
        const lx_poem_line *line = &p->form.lines[i];
        if (line->rhyme != 0 &&
            lx_poem_words_count(words_of(model), p->table, -1, line->rhyme_tone) == 0)
            return lx_fail(err, LX_ERR_INVALID, "rhyme", "%s knows too few words that rhyme for %s",
                           model->name, p->form.name);
    }
    return LX_OK;
}

/* The answer's length is known. */
static lx_status set_length(lx_plan *plan, const poem *p, lx_error *err)
{
    int32_t rest = plan->n_given + p->form.n_places - p->n_before + 1;
    if (rest > plan->n_new)
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "the prompt leaves no room for a poem of %s: the model reads %d tokens",
                       p->form.name, lx_text_max_rows(plan->model));
    plan->n_new = rest;
    plan->has_end = true;
    plan->runs_ahead = !p->rhymes && !p->form.has_repeats;
    return LX_OK;
}

/* --- the title --- */

/* Where the title begins and ends in the prompt: between the last 《 and 》, or all of the prompt.
 */
static void find_title(const char *text, size_t bytes, size_t *begin, size_t *end)
{
    size_t n = sizeof behind_title - 1;
    bool ends = false;
    *begin = 0;
    *end = bytes;
    for (size_t at = bytes; at >= n; at--) {
        const char *mark = text + at - n;
        if (!ends && memcmp(mark, behind_title, n) == 0) {
            ends = true;
            *end = at - n;
        } else if (ends && memcmp(mark, before_title, n) == 0) {
            *begin = at;
            return;
        }
    }
}

/* A warning about a title with characters that no poem has, NULL: there is none. */
static const char *judge_title(const lx_model *model, const char *text, size_t bytes)
{
    size_t at = 0, end = 0;
    int32_t n_words = 0, n_unread = 0;
    find_title(text, bytes, &at, &end);
    for (int32_t i = 0; at < end && i < MOST_TITLE; i++) {
        size_t from = at;
        int32_t c = lx_utf8_next(text, end, &at);
        if (c >= 0 && (lx_char_is_space((uint32_t)c) || lx_char_is_punctuation((uint32_t)c)))
            continue;
        bool word = c >= 0 && lx_char_is_han((uint32_t)c) &&
                    lx_poem_token_of(model, text + from, at - from) >= 0;
        n_words += word;
        n_unread += !word;
    }
    if (n_words == 0)
        return "the title has no Chinese character that the model knows, so the poem is about "
               "anything: write a Chinese title, as in 唐《静夜思》";
    return n_unread > 0 ? "the title has characters that the model does not know, so the poem may "
                          "not follow it: write a Chinese title"
                        : NULL;
}

/* --- the plan --- */

static lx_status plan_exactly(lx_plan *plan, const lx_task_request *request,
                              const lx_task_fields *fields, lx_error *err)
{
    lx_status st = lx_text_plan_init(plan, request, err);
    if (st != LX_OK)
        return st;
    if (request->text != NULL)
        plan->warning = judge_title(plan->model, request->text, request->text_bytes);
    poem *p = calloc(1, sizeof *p);
    plan->data = p;
    if (p == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a request");
    p->marks[0] = lx_poem_token_of(plan->model, comma, sizeof comma - 1);
    p->marks[1] = lx_poem_token_of(plan->model, stop, sizeof stop - 1);
    st = read_fields(plan->model, fields, request->ignore_end, p, err);
    if (st == LX_OK)
        st = read_acrostic(plan->model, &fields->at[LX_ASKED_acrostic], p, err);
    if (st == LX_OK && p->formed)
        st = check_rhymes(plan->model, p, err);
    if (st == LX_OK && p->formed)
        st = check_prompt(plan, p, err);
    return st == LX_OK && p->formed ? set_length(plan, p, err) : st;
}

/* A prompt that cannot fit is not looked at: it will be refused. */
static lx_status plan_simplified(lx_plan *plan, const lx_task_request *request,
                                 const lx_task_fields *fields, lx_error *err)
{
    const lx_model *model = plan->model;
    size_t most = (size_t)lx_text_max_rows(model) * MAX_CHARACTER; /* of a prompt that fits */
    lx_task_request simple = *request;
    lx_task_fields simply = *fields;
    lx_task_value *first = &simply.at[LX_ASKED_acrostic];
    lx_buffer text, acrostic;
    lx_buffer_init(&text, 2 * most);
    lx_buffer_init(&acrostic, 2 * most);
    lx_buffer_puts(&text, ""); /* an empty text is there, too */
    lx_buffer_puts(&acrostic, "");
    if (request->text != NULL && request->text_bytes <= most) {
        plan->n_simplified += simplify(model, request->text, request->text_bytes, &text);
        simple.text = text.data;
        simple.text_bytes = text.length;
    }
    if (first->text != NULL && first->bytes <= most) {
        plan->n_simplified += simplify(model, first->text, first->bytes, &acrostic);
        *first = (lx_task_value){acrostic.data, acrostic.length};
    }
    lx_status st = text.status != LX_OK ? text.status : acrostic.status;
    st = st == LX_OK ? plan_exactly(plan, &simple, &simply, err)
                     : lx_fail(err, st, NULL, "no memory for a prompt");
    lx_buffer_fini(&text);
    lx_buffer_fini(&acrostic);
    return st;
}

static lx_status plan_init(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    static const lx_task_fields none;
    const lx_task_fields *fields = request->fields != NULL ? request->fields : &none;
    return request->normalize ? plan_simplified(plan, request, fields, err)
                              : plan_exactly(plan, request, fields, err);
}

/* Leaves words that rhyme with the lines before and end none of them. */
static void rhyme(const lx_plan *plan, int32_t place, const int32_t *tokens, lx_constraint *out)
{
    const poem *p = plan->data;
    const lx_poem_words *words = words_of(plan->model);
    int32_t places[LX_POEM_MAX_LINES], n = rhymes_before(p, place, places), group = -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t token = token_at(plan, places[i], tokens);
        out->banned[out->n_banned++] = token;
        group = lx_rhymes_group(lx_poem_words_table(words, p->table), token);
    }
    lx_tone tone = lx_poem_line_at(&p->form, place)->rhyme_tone;
    out->mask_idx = lx_poem_words_rhyme_mask(words, p->table, group, tone);
}

static void constrain(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out)
{
    const poem *p = plan->data;
    lx_text_constrain(plan, step, tokens, out);
    int32_t place = p->n_before + step - plan->n_given;
    if (!p->formed || step < plan->n_given)
        return;
    bool ended = place == p->form.n_places;
    out->forced =
        ended ? lx_text_of(&plan->model->config)->ends[0] : forced_at(plan, place, tokens);
    out->use_mask = out->forced < 0;
    out->mask_idx = lx_poem_words_mask(ended ? LX_TONE_UNKNOWN : tone_at(p, place));
    if (!ended && is_rhyme(p, place))
        rhyme(plan, place, tokens, out);
}

/* A state has the form as one number: its place in the table of forms, plus multiples of these. The
   table of rhymes counts from 1, and the pattern as its enum does. */
enum { STATED_RHYME = 256, STATED_PATTERN = 1024 };

/* The flag says that there is a form. Then two int32_t come first, its number and the acrostic's
   bytes, then the acrostic in a field of fixed size. The prompt's tokens come last, as the text
   task writes them. */
static bool restate(const lx_plan *plan, lx_buffer *out)
{
    const poem *p = plan->data;
    if (p->formed) {
        int32_t rhymes = p->rhymes ? (int32_t)p->table + 1 : 0;
        int32_t head[2] = {p->form.index + STATED_RHYME * rhymes +
                               STATED_PATTERN * (int32_t)p->pattern,
                           (int32_t)p->acrostic_bytes};
        lx_buffer_append(out, head, sizeof head);
        lx_buffer_append(out, p->acrostic, sizeof p->acrostic);
    }
    (void)lx_text_restate(plan, out);
    return p->formed;
}

/* The fields that `restate` wrote; false: there are no such fields. */
static bool read_stated(const int32_t head[2], const char *acrostic, lx_task_fields *fields)
{
    lx_poem_form form;
    int32_t pattern = head[0] / STATED_PATTERN, rest = head[0] % STATED_PATTERN;
    int32_t rhymes = rest / STATED_RHYME;
    if (head[0] < 0 || pattern >= LX_PATTERNS || rhymes > LX_RHYME_TABLES || head[1] < 0 ||
        head[1] > LX_POEM_MAX_ACROSTIC * MAX_CHARACTER ||
        !lx_poem_form_make(rest % STATED_RHYME, (lx_poem_pattern)pattern, &form))
        return false;
    fields->at[LX_ASKED_form].text = form.name;
    fields->at[LX_ASKED_pattern].text = pattern_names[pattern];
    fields->at[LX_ASKED_rhyme].text = rhymes > 0 ? rhyme_names[rhymes - 1] : NULL;
    fields->at[LX_ASKED_acrostic] = (lx_task_value){head[1] > 0 ? acrostic : NULL, (size_t)head[1]};
    return true;
}

static lx_status replan(lx_plan *plan, const void *bytes, size_t n, bool flag, bool ignore_end,
                        lx_error *err)
{
    int32_t head[2] = {0};
    const size_t before = flag ? sizeof head + sizeof((poem *)0)->acrostic : 0;
    lx_task_fields fields = {0};
    lx_task_request request;
    if (n < before)
        return lx_fail(err, LX_ERR_INVALID, "state", "its request is cut off");
    lx_status st = lx_text_reread((const char *)bytes + before, n - before, false, &request, err);
    if (st == LX_OK && flag) {
        memcpy(head, bytes, sizeof head);
        if (!read_stated(head, (const char *)bytes + sizeof head, &fields))
            return lx_fail(err, LX_ERR_INVALID, "state", "its form is unknown");
    }
    request.ignore_end = ignore_end;
    return st == LX_OK ? plan_exactly(plan, &request, &fields, err) : st;
}

/* Writes the characters of a sample to text[most] and returns how many; later ones are left out. A
   token may be a part of a character, so the bytes of all tokens are read together. Bytes
   that are no UTF-8 are left out. */
static int32_t spell_out(const lx_model *model, const lx_pool_sample *sample, uint32_t *text,
                         int32_t most)
{
    char spelt[MAX_CHARACTER * JUDGED];
    size_t n_bytes = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < sample->n_tokens; i++) {
        size_t bytes = 0;
        const char *token = lx_tokenizer_token(model->tokenizer, sample->tokens[i], &bytes);
        if (token == NULL || bytes > sizeof spelt - n_bytes)
            break;
        memcpy(spelt + n_bytes, token, bytes);
        n_bytes += bytes;
    }
    for (size_t at = 0; at < n_bytes && n < most;) {
        int32_t c = lx_utf8_next(spelt, n_bytes, &at);
        if (c >= 0)
            text[n++] = (uint32_t)c;
        else
            at++;
    }
    return n;
}

/* The last line before line i that rhymes with it in the form, NULL: there is none. */
static const lx_poem_line *rhyme_before(const lx_poem_form *form, int32_t i)
{
    const lx_poem_line *own = &form->lines[i];
    if (own->rhyme == 0 || own->repeats)
        return NULL;
    for (int32_t k = i - 1; k >= 0; k--) {
        if (form->lines[k].rhyme == own->rhyme && !form->lines[k].repeats)
            return &form->lines[k];
    }
    return NULL;
}

/* The share of the form's rhymes that the sample misses in modern Mandarin, which a reader hears. A
   line also misses its rhyme if it ends with the same character. A request that asks for rhymes
   has them from its constraints, so none are counted there. */
static double missed_rhymes(const lx_plan *plan, const lx_pool_sample *sample)
{
    const poem *p = plan->data;
    const lx_rhymes *table = lx_poem_words_table(words_of(plan->model), LX_RHYME_MODERN);
    int32_t n_places = p->n_before + sample->n_tokens - plan->n_given, n = 0, missed = 0;
    for (int32_t i = 0; p->formed && !p->rhymes && i < p->form.n_lines; i++) {
        const lx_poem_line *line = &p->form.lines[i], *before = rhyme_before(&p->form, i);
        int32_t end = line->begin + line->chars - 1;
        if (before == NULL || end >= n_places)
            continue;
        int32_t own = token_at(plan, end, sample->tokens);
        int32_t other = token_at(plan, before->begin + before->chars - 1, sample->tokens);
        int32_t group = lx_rhymes_group(table, own);
        n++;
        missed += own == other || group < 0 || group != lx_rhymes_group(table, other);
    }
    return n > 0 ? (double)missed / n : 0;
}

static void judge(const lx_plan *plan, lx_pool_sample *samples, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        uint32_t text[JUDGED];
        int32_t n_chars = spell_out(plan->model, &samples[i], text, JUDGED);
        samples[i].score += lx_judge_poem(text, n_chars, missed_rhymes(plan, &samples[i]));
    }
}

/* The title's place in the prompt's tokens: between the last 《 and 》. False: it has none. */
static bool find_title_tokens(const lx_plan *plan, int32_t *begin, int32_t *end)
{
    const lx_model *model = plan->model;
    int32_t before = lx_poem_token_of(model, before_title, sizeof before_title - 1);
    int32_t after = lx_poem_token_of(model, behind_title, sizeof behind_title - 1);
    *end = plan->n_pieces - 1;
    while (*end >= 0 && plan->prompt_ids[*end] != after)
        (*end)--;
    *begin = *end;
    while (*begin > 0 && plan->prompt_ids[*begin - 1] != before)
        (*begin)--;
    return before >= 0 && after >= 0 && *begin > 0 && *begin < *end;
}

static bool may_review(const lx_model *model)
{
    (void)model;
    return true;
}

/* The poem again, without its title. A poem that is as likely then fits any title. */
static lx_status review(const lx_plan *plan, const lx_pool_sample *sample, lx_plan **out,
                        lx_token_list *answer, lx_error *err)
{
    int32_t begin = 0, end = 0;
    if (!find_title_tokens(plan, &begin, &end))
        return LX_OK;
    lx_token_list ids;
    lx_token_list_init(&ids, (size_t)plan->n_pieces);
    for (int32_t i = 0; i < plan->n_pieces; i++) {
        if (i < begin || i >= end)
            lx_token_list_add(&ids, plan->prompt_ids[i]);
    }
    const lx_task_request request = {.ids = ids.ids, .n_ids = (int32_t)ids.n};
    lx_status st = ids.status == LX_OK ? lx_plan_new(plan->model, &request, out, err)
                                       : lx_fail(err, ids.status, NULL, "no memory for a prompt");
    lx_token_list_fini(&ids);
    for (int32_t i = 0; st == LX_OK && i < sample->n_tokens; i++)
        lx_token_list_add(answer, sample->tokens[i]);
    return st;
}

static const lx_task_pool pool = {.n_samples = 48,
                                  .temperatures = {3, {0.5f, 0.6f, 0.7f}},
                                  .judge = judge,
                                  .n_reviewed = 16,
                                  .review_weight = -0.5,
                                  .may_review = may_review,
                                  .review = review};

const lx_task_ops lx_poem_task = {
    .name = "poem",
    .modality = LX_TEXT,
    .normalizes = true,
    .read_config = lx_text_read_config,
    .load = load,
    .unload = unload,
    .card = card,
    .check_model = check_model,
    .max_rows = lx_text_max_rows,
    .n_masks = LX_MASK_TEXT + 1,
    .more_masks = more_masks,
    .fill_mask = fill_mask,
    .plan_init = plan_init,
    .input = lx_text_input,
    .constrain = constrain,
    .ends = lx_text_ends,
    .restate = restate,
    .replan = replan,
    .pool = &pool,
    .score_name = "nats_per_token",
    .score_unit = 1,
    .read_answer = lx_text_read_answer,
    .plural = "poems",
    .render = lx_text_render,
    .spell = lx_text_spell,
    .token_bytes = lx_text_token_bytes,
    .render_prompt = lx_text_render_prompt,
};
