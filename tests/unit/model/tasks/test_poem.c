/*
 * The poem task without a network. Whichever allowed token is drawn, the poem keeps its form and
 * acrostic, judged here by its text. Lines in the prompt count. Requests that cannot be kept are
 * refused by their field. A plan can be restated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/tasks/poem.h"
#include "model/tasks/poem_forms.h"
#include "model/tasks/poem_words.h"
#include "model/tasks/text.h"
#include "model/utf8.h"
#include "tests/support/scratch.h"

enum { N_WORDS = 20, CHARACTER = 3, CONTEXT = 140, MAX_IDS = 64, MAX_MASKS = 64, MAX_LINES = 8 };

static const char vocabulary[] = "<end>\n<unk>\na\n，\n。\n《\n》\n？\n春\n夏\n秋\n冬\n江\n月\n"
                                 "花\n山\n水\n人\n天\n地\n風\n雪\n唐\n宋\n日\n夜\n思\n行\n"
                                 /* level and oblique words of two modern rhymes */
                                 "年\n前\n边\n烟\n间\n船\n关\n弦\n起\n里\n意\n气\n计\n际\n细\n"
                                 "峰\n峯\n";
enum { N_GROUPS = 2 };
static const char *const groups[N_GROUPS] = {"春人天日夜", "江山水地行"};
static lx_model model = {.name = "poems",
                         .task = &lx_poem_task,
                         .config = {.task = "poem", .n_inputs = 1, .inputs = {{"token", 0}}}};
static lx_poem_words *words;
static uint8_t masks[MAX_MASKS][MAX_IDS];

/* The words of the model with this table of rhymes; no bytes: without a table. */
static lx_poem_words *words_with(const char *table, size_t bytes)
{
    lx_rhymes *rhymes = NULL;
    lx_poem_words *made = NULL;
    if (bytes > 0)
        assert_int_equal(lx_rhymes_read(table, bytes, "rhymes.txt", model.tokenizer, &rhymes, NULL),
                         LX_OK);
    assert_int_equal(lx_poem_words_new(&model, rhymes, &made, NULL), LX_OK);
    return made;
}

static int make_model(void **state)
{
    if (scratch_setup(state) != 0)
        return -1;
    *lx_text_own(&model.config) = (lx_text_config){.context = CONTEXT, .begin = -1, .n_ends = 1};
    const char *path = scratch_write("vocab.txt", vocabulary, sizeof vocabulary - 1);
    lx_status st = lx_vocab_load(path, &model.vocab, NULL);
    if (st != LX_OK || lx_tokenizer_new_characters(model.vocab, &model.tokenizer, NULL) != LX_OK)
        return -1;
    static const char table[] = "春人天日夜\n江山水地行\n";
    model.task_data = words = words_with(table, sizeof table - 1);
    int32_t n = lx_tokenizer_size(model.tokenizer);
    model.config.head_size = model.config.n_values = model.config.inputs[0].size = n;
    if (n > MAX_IDS || lx_poem_task.check_model(&model, NULL) != LX_OK)
        return -1;
    assert_true(lx_task_masks(&model) <= MAX_MASKS);
    for (int32_t i = 0; i < lx_task_masks(&model); i++)
        lx_poem_task.fill_mask(&model, i, masks[i]);
    return 0;
}

static int free_model(void **state)
{
    lx_tokenizer_free(model.tokenizer);
    lx_vocab_free(model.vocab);
    lx_poem_words_free(words);
    return scratch_teardown(state);
}

/* Until the next call. */
static lx_task_fields asked;

static lx_task_request asks(const char *prompt, const char *form, const char *acrostic)
{
    asked = (lx_task_fields){0};
    asked.at[LX_ASKED_form].text = form;
    asked.at[LX_ASKED_acrostic] =
        (lx_task_value){acrostic, acrostic != NULL ? strlen(acrostic) : 0};
    return (lx_task_request){.text = prompt, .text_bytes = strlen(prompt), .fields = &asked};
}

static lx_plan *plan_of(const lx_task_request *request)
{
    lx_plan *plan = NULL;
    lx_error err = {0};
    if (lx_plan_new(&model, request, &plan, &err) != LX_OK)
        fail_msg("%s: %s", err.param, err.text);
    return plan;
}

static bool is_banned(const lx_constraint *c, int32_t id)
{
    for (int32_t i = 0; i < c->n_banned; i++) {
        if (c->banned[i] == id)
            return true;
    }
    return masks[c->mask_idx][id] != 0;
}

/* Draws any token that the constraints leave, until the answer ends; appends its text. */
static void write_poem(const lx_plan *plan, uint32_t *random, lx_buffer *out)
{
    int32_t tokens[CONTEXT];
    for (int32_t step = 0; step < plan->n_new; step++) {
        lx_constraint c;
        lx_poem_task.constrain(plan, step, tokens, &c);
        int32_t id = c.forced;
        while (id < 0 || (c.forced < 0 && is_banned(&c, id))) {
            *random = *random * 1664525u + 1013904223u;
            id = (int32_t)((*random >> 8) % (uint32_t)model.config.head_size);
        }
        tokens[step] = id;
        bool last = lx_poem_task.ends(plan, id);
        assert_int_equal(last, step + 1 == plan->n_new);
        if (!last)
            lx_poem_task.render(plan, step, tokens, out);
    }
}

/* Every character here has three bytes. */
static void judge(const char *poem, size_t bytes, int32_t chars, int32_t lines,
                  const char *acrostic)
{
    size_t line = (size_t)(chars + 1) * CHARACTER;
    assert_int_equal(bytes, (size_t)lines * line);
    for (int32_t i = 0; i < lines; i++) {
        const char *at = poem + (size_t)i * line;
        if (acrostic != NULL)
            assert_memory_equal(at, acrostic + (size_t)i * CHARACTER, CHARACTER);
        assert_memory_equal(at + (size_t)chars * CHARACTER, i % 2 == 0 ? "，" : "。", CHARACTER);
        for (int32_t k = 0; k < chars; k++) {
            char one[CHARACTER + 1] = {0};
            memcpy(one, at + (size_t)k * CHARACTER, CHARACTER);
            assert_non_null(strstr(
                "春夏秋冬江月花山水人天地風雪唐宋日夜思行年前边烟间船关弦起里意气计际细峰", one));
        }
    }
}

static void every_poem_keeps_its_form(void **state)
{
    (void)state;
    static const struct {
        const char *form, *acrostic;
        int32_t chars, lines;
    } cases[] = {
        {"5x4", NULL, 5, 4}, {"5x4", "春夏秋冬", 5, 4},         {"7x4", "春春春春", 7, 4},
        {"7x8", NULL, 7, 8}, {"5x8", "春夏秋冬江月花山", 5, 8}, {"7x8", "山水人天地風雪唐", 7, 8}};
    uint32_t random = 7;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int k = 0; k < 200; k++) {
            static const char *const prompts[] = {"唐《日》", "宋《》", "唐《江》春", "》"};
            const char *prompt = prompts[k % 4];
            lx_task_request request = asks(prompt, cases[i].form, cases[i].acrostic);
            if (k % 4 == 2 && cases[i].acrostic != NULL && strncmp(cases[i].acrostic, "春", 3) != 0)
                continue;
            lx_plan *plan = plan_of(&request);
            assert_true(plan->runs_ahead);
            lx_buffer text;
            lx_buffer_init(&text, 1 << 12);
            lx_buffer_puts(&text, strstr(prompt, "》") + CHARACTER);
            write_poem(plan, &random, &text);
            judge(text.data, text.length, cases[i].chars, cases[i].lines, cases[i].acrostic);
            lx_buffer_fini(&text);
            lx_plan_free(plan);
        }
    }
}

/* The group in which the even lines' last characters are, each once. */
static int judge_rhymes(const char *poem, int32_t chars, int32_t lines)
{
    char ends[MAX_LINES / 2][CHARACTER + 1] = {{0}};
    for (int32_t i = 0; i < lines / 2; i++) {
        int32_t at = 2 * (i + 1) * (chars + 1) - 2;
        memcpy(ends[i], poem + (size_t)at * CHARACTER, CHARACTER);
        for (int32_t k = 0; k < i; k++)
            assert_string_not_equal(ends[i], ends[k]);
    }
    for (int g = 0; g < N_GROUPS; g++) {
        int32_t n = 0;
        while (n < lines / 2 && strstr(groups[g], ends[n]) != NULL)
            n++;
        if (n == lines / 2)
            return g;
    }
    fail_msg("%s does not rhyme", poem);
    return -1;
}

static void even_lines_rhyme(void **state)
{
    (void)state;
    static const struct {
        const char *form, *prompt;
        int32_t chars, lines, group; /* -1: any */
    } cases[] = {{"5x4", "唐《日》", 5, 4, -1},
                 {"7x8", "唐《日》", 7, 8, -1},
                 {"5x8", "》春江花月唐，花雪月風人。", 5, 8, 0},
                 {"5x4", "》春江花月唐，花雪月風行", 5, 4, 1}};
    uint32_t random = 11;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool seen[N_GROUPS] = {false};
        for (int k = 0; k < 200; k++) {
            lx_task_request request = asks(cases[i].prompt, cases[i].form, NULL);
            asked.at[LX_ASKED_rhyme].text = "true";
            lx_plan *plan = plan_of(&request);
            assert_false(plan->runs_ahead);
            lx_buffer text;
            lx_buffer_init(&text, 1 << 12);
            lx_buffer_puts(&text, strstr(cases[i].prompt, "》") + CHARACTER);
            write_poem(plan, &random, &text);
            judge(text.data, text.length, cases[i].chars, cases[i].lines, NULL);
            seen[judge_rhymes(text.data, cases[i].chars, cases[i].lines)] = true;
            lx_buffer_fini(&text);
            lx_plan_free(plan);
        }
        assert_int_equal(seen[0], cases[i].group != 1);
        assert_int_equal(seen[1], cases[i].group != 0);
    }
}

/* Character i of a text, each of which has three bytes. */
static uint32_t character_at(const char *text, int32_t i)
{
    size_t at = (size_t)i * CHARACTER;
    return (uint32_t)lx_utf8_next(text, at + CHARACTER, &at);
}

/* Whether the poem has the lines of the form, its tones and modern rhymes, and repeats a line. */
static void judge_form(const char *poem, size_t bytes, const lx_poem_form *form)
{
    uint32_t ends[LX_POEM_MAX_LINES];
    const lx_rhymes *modern = lx_poem_words_table(words, LX_RHYME_MODERN);
    int32_t groups_of[LX_POEM_MAX_LINES + 1];
    memset(groups_of, -1, sizeof groups_of);
    assert_int_equal(bytes, (size_t)form->n_places * CHARACTER);
    for (int32_t i = 0; i < form->n_lines; i++) {
        const lx_poem_line *line = &form->lines[i];
        int32_t end = line->begin + line->chars;
        assert_int_equal(character_at(poem, end), line->stops ? U'。' : U'，');
        for (int32_t at = line->begin; at < end; at++) {
            assert_true(lx_poem_tone_fits(character_at(poem, at), lx_poem_tone_at(form, at)));
            assert_int_not_equal(character_at(poem, at), U'峯');
            if (line->repeats)
                assert_int_equal(character_at(poem, at), character_at(poem, at - line->chars - 1));
        }
        ends[i] = character_at(poem, end - 1);
        if (line->rhyme == 0 || line->repeats)
            continue;
        int32_t token = lx_poem_token_of(&model, poem + (size_t)(end - 1) * CHARACTER, CHARACTER);
        int32_t group = lx_rhymes_group(modern, token), *common = &groups_of[line->rhyme];
        *common = *common < 0 ? group : *common;
        assert_int_equal(group, *common);
        assert_true(lx_poem_tone_fits(ends[i], line->rhyme_tone));
        for (int32_t k = 0; k < i; k++)
            assert_true(ends[k] != ends[i] || form->lines[k].rhyme != line->rhyme);
    }
}

static void patterns_tunes_and_modern_rhymes_are_kept(void **state)
{
    (void)state;
    static const struct {
        const char *form, *pattern, *prompt;
    } cases[] = {
        {"5x4", "level", "唐《日》"},     {"5x8", "oblique", "唐《日》"},
        {"7x4", "oblique", "唐《日》"},   {"7x8", "level", "唐《日》"},
        {"如梦令", NULL, "词《日》"},     {"水调歌头", NULL, "词《日》"},
        {"菩萨蛮", NULL, "》春江花月夜"}, {"如梦令", NULL, "》山水人天地起。春江花月夜里。"},
    };
    uint32_t random = 5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_poem_form form;
        assert_true(lx_poem_form_make(lx_poem_form_find(cases[i].form),
                                      cases[i].pattern == NULL                 ? LX_PATTERN_NONE
                                      : strcmp(cases[i].pattern, "level") == 0 ? LX_PATTERN_LEVEL
                                                                               : LX_PATTERN_OBLIQUE,
                                      &form));
        for (int k = 0; k < 50; k++) {
            lx_task_request request = asks(cases[i].prompt, cases[i].form, NULL);
            asked.at[LX_ASKED_pattern].text = cases[i].pattern;
            asked.at[LX_ASKED_rhyme].text = "modern";
            lx_plan *plan = plan_of(&request);
            lx_buffer text;
            lx_buffer_init(&text, 1 << 12);
            lx_buffer_puts(&text, strstr(cases[i].prompt, "》") + CHARACTER);
            write_poem(plan, &random, &text);
            judge_form(text.data, text.length, &form);
            lx_buffer_fini(&text);
            lx_plan_free(plan);
        }
    }
}

static void old_forms_of_characters_are_not_written(void **state)
{
    (void)state;
    static const char usual[] = "峰", old[] = "峯";
    int32_t id = lx_poem_token_of(&model, old, CHARACTER);
    for (int32_t mask = 0; mask < lx_task_masks(&model); mask++)
        assert_true(masks[mask][id]);
    assert_false(masks[LX_MASK_TEXT][lx_poem_token_of(&model, usual, CHARACTER)]);
}

static void what_the_prompt_has_counts(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        int32_t n_new;
    } cases[] = {{"唐《日》", 25},
                 {"唐《日》春江花月夜，", 19},
                 {"唐《日》春江花月夜，山", 18},
                 {"唐《日》春江花月夜，春江花月夜。春江花月夜，春江花月夜", 2},
                 {"唐《日》春江花月夜，春江花月夜。春江花月夜，春江花月夜。", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_task_request request = asks(cases[i].prompt, "5x4", NULL);
        lx_plan *plan = plan_of(&request);
        assert_int_equal(plan->n_new, cases[i].n_new);
        lx_plan_free(plan);
    }
    lx_task_request scored = asks("唐《日》春", "5x4", NULL);
    scored.score_prompt = true;
    lx_plan *plan = plan_of(&scored);
    lx_constraint c;
    assert_int_equal(plan->n_new,
                     4 + 24); /* all of the prompt but its first, then the rest and its end */
    lx_poem_task.constrain(plan, 4 + 4, NULL, &c);
    assert_int_equal(c.forced, 3);
    lx_plan_free(plan);
}

static void expect_refused(lx_task_request request, const char *field, const char *part)
{
    lx_plan *plan = NULL;
    lx_error err = {0};
    assert_int_equal(lx_plan_new(&model, &request, &plan, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, field);
    if (strstr(err.text, part) == NULL)
        fail_msg("%s", err.text);
}

static void what_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    static const char prompt[] = "唐《日》";
    expect_refused(asks(prompt, "6x4", NULL), "form", "5x4, 5x8, 7x4, 7x8");
    expect_refused(asks(prompt, "", NULL), "form", "5x4");
    expect_refused(asks(prompt, NULL, "春"), "acrostic", "needs a form");
    expect_refused(asks(prompt, "5x4", ""), "acrostic", "4 Chinese characters");
    expect_refused(asks(prompt, "5x4", "春夏秋"), "acrostic", "4 Chinese characters");
    expect_refused(asks(prompt, "5x4", "春夏秋冬江"), "acrostic", "4 Chinese characters");
    expect_refused(asks(prompt, "5x8", "春夏秋，江月花山"), "acrostic", "8 Chinese characters");
    expect_refused(asks(prompt, "5x4", "春夏秋a"), "acrostic", "4 Chinese characters");
    expect_refused(asks(prompt, "5x4", "春夏秋\xe5"), "acrostic", "4 Chinese characters");
    expect_refused(asks(prompt, "5x4", "春夏秋龍"), "acrostic", "does not know 龍");
    expect_refused(asks("唐《日》春江，", "5x4", NULL), "prompt", "character 3");
    expect_refused(asks("唐《日》春江花月夜。", "5x4", NULL), "prompt", "character 6");
    expect_refused(asks("唐《日》a", "5x4", NULL), "prompt", "character 1");
    expect_refused(asks("唐《日》春", "5x4", "夏春春春"), "acrostic", "character 1");
    expect_refused(asks("春江花月夜，春江花月夜。春江花月夜，春江花月夜。春", "5x4", NULL),
                   "prompt", "longer");
    lx_buffer title;
    lx_buffer_init(&title, 512);
    lx_buffer_puts(&title, "《");
    for (int i = 0; i < 90; i++)
        lx_buffer_puts(&title, "日");
    lx_buffer_puts(&title, "》");
    expect_refused(asks(title.data, "7x8", NULL), "prompt", "no room");
    lx_buffer_fini(&title);
    static const struct {
        const char *prompt, *form, *field, *part;
    } wrong[] = {
        {"唐《日》", NULL, "rhyme", "needs a form"},
        {"》春江花月唐，花雪月風唐", "5x4", "prompt", "does not rhyme at its character 11"},
        {"》春江花月唐，花雪月風春。春江花月唐，花雪月風江", "5x4", "prompt", "23"},
        {"》春江花月唐，花雪月風春。春江花月唐，花雪月風春", "5x4", "prompt", "23"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lx_task_request request = asks(wrong[i].prompt, wrong[i].form, NULL);
        asked.at[LX_ASKED_rhyme].text = "true";
        expect_refused(request, wrong[i].field, wrong[i].part);
    }
    lx_task_request empty = asks(prompt, "5x4", "");
    empty.normalize = true; /* an empty table of simplifications; the request is kept */
    expect_refused(empty, "acrostic", "4 Chinese characters");
    lx_task_request nothing = asks("", NULL, NULL);
    nothing.normalize = true;
    expect_refused(nothing, "prompt", "empty");
    lx_task_request endless = asks(prompt, "5x4", NULL);
    endless.ignore_end = true;
    expect_refused(endless, "ignore_eos", "form");
}

static void fields_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *form, *pattern, *acrostic, *rhyme, *prompt, *field, *part;
    } refused[] = {
        {NULL, "level", NULL, NULL, "唐《日》", "pattern", "needs a form"},
        {"5x4", "flat", NULL, NULL, "唐《日》", "pattern", "level or oblique"},
        {"如梦令", "level", NULL, NULL, "唐《日》", "pattern", "如梦令 is a tune"},
        {"如梦令", NULL, "春夏秋冬江月花", NULL, "唐《日》", "acrostic", "如梦令 is a tune"},
        {"5x4", NULL, NULL, "old", "唐《日》", "rhyme", "modern"},
        {"7x4", "level", NULL, "true", "唐《日》", "rhyme", "too few words that rhyme"},
        {"5x4", "oblique", NULL, NULL, "》春江", "prompt", "pattern at its character 2"},
        {"如梦令", NULL, NULL, "modern", "》春江花月夜天", "prompt", "tone of the rhyme"},
        {"如梦令", NULL, NULL, NULL,
         "》春江花月夜雪。春江花月夜里。春江花月夜，春江花月夜雪。春江。江", "prompt",
         "form at its character 31"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        lx_task_request request = asks(refused[i].prompt, refused[i].form, refused[i].acrostic);
        asked.at[LX_ASKED_pattern].text = refused[i].pattern;
        asked.at[LX_ASKED_rhyme].text = refused[i].rhyme;
        expect_refused(request, refused[i].field, refused[i].part);
    }
}

static void without_a_form_it_is_text(void **state)
{
    (void)state;
    lx_task_request request = asks("唐《日》", NULL, NULL);
    lx_plan *plan = plan_of(&request);
    lx_constraint c;
    assert_int_equal(plan->n_new, CONTEXT - 4);
    assert_false(plan->runs_ahead);
    lx_poem_task.constrain(plan, 5, NULL, &c);
    assert_true(c.use_mask && c.forced < 0 && c.mask_idx == 0 && c.n_banned == 0);
    lx_plan_free(plan);
    request.ignore_end = true;
    plan = plan_of(&request);
    assert_false(lx_poem_task.ends(plan, 0));
    lx_plan_free(plan);
}

static void a_plan_is_restated(void **state)
{
    (void)state;
    static const char *const forms[] = {NULL, "5x4", "5x4"},
                             *acrostics[] = {NULL, NULL, "春夏秋冬"};
    for (int i = 0; i < 3; i++) {
        lx_task_request request = asks("唐《日》", forms[i], acrostics[i]);
        asked.at[LX_ASKED_rhyme].text = i == 2 ? "true" : NULL;
        lx_plan *plan = plan_of(&request);
        lx_buffer bytes;
        lx_buffer_init(&bytes, 1 << 10);
        bool flag = lx_poem_task.restate(plan, &bytes);
        assert_int_equal(flag, i > 0);
        lx_plan *copy = NULL, *none = NULL;
        assert_int_equal(lx_plan_again(&model, bytes.data, bytes.length, flag, false, &copy, NULL),
                         LX_OK);
        assert_int_equal(copy->runs_ahead, plan->runs_ahead); /* not where it rhymes */
        assert_int_equal(copy->n_new, plan->n_new);
        for (int32_t step = 0; step < 16; step++) { /* its second rhyme asks for the first */
            lx_constraint a = {0}, b = {0};
            lx_poem_task.constrain(plan, step, NULL, &a);
            lx_poem_task.constrain(copy, step, NULL, &b);
            assert_int_equal(a.forced, b.forced);
            assert_int_equal(a.mask_idx, b.mask_idx);
        }
        lx_error err = {0};
        int32_t wrong[12] = {i == 1 ? 200 : 0, i == 1 ? 0 : 33};
        if (i > 0) {
            assert_int_equal(lx_plan_again(&model, wrong, sizeof wrong, true, false, &none, &err),
                             LX_ERR_INVALID);
            assert_int_equal(lx_plan_again(&model, bytes.data, 39, true, false, &none, &err),
                             LX_ERR_INVALID);
        }
        lx_plan_free(copy);
        lx_plan_free(plan);
        lx_buffer_fini(&bytes);
    }
}

static void a_model_must_have_what_poems_need(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_text_own(&model.config)->n_ends = 0;
    assert_int_equal(lx_poem_task.check_model(&model, &err), LX_ERR_FORMAT);
    assert_string_equal(err.param, "end");
    lx_text_own(&model.config)->n_ends = 1;
    static const char few[] = "春人天日夜\n\n江山水龍";
    lx_poem_words *short_table = words_with(few, sizeof few - 1), *none = words_with(NULL, 0);
    model.task_data = short_table;
    assert_int_equal(lx_poem_task.check_model(&model, &err), LX_ERR_FORMAT);
    assert_non_null(strstr(err.text, "group 2: the vocabulary has 3 of its characters"));
    lx_poem_words_free(short_table);
    model.task_data = none;
    assert_int_equal(lx_poem_task.check_model(&model, &err), LX_OK);
    lx_task_request rhyming = asks("春", "5x4", NULL);
    asked.at[LX_ASKED_rhyme].text = "true";
    expect_refused(rhyming, "rhyme", "no table of rhymes");
    lx_poem_words_free(none);
    model.task_data = words;
    lx_tokenizer *characters = model.tokenizer;
    assert_int_equal(lx_tokenizer_new_bytes(&model.tokenizer, NULL), LX_OK);
    int32_t n = model.config.head_size;
    model.config.head_size = model.config.inputs[0].size = 256;
    assert_int_equal(lx_poem_task.check_model(&model, &err), LX_ERR_FORMAT);
    assert_string_equal(err.param, "tokenizer");
    lx_tokenizer_free(model.tokenizer);
    model.tokenizer = characters;
    model.config.head_size = model.config.inputs[0].size = n;
    lx_task_request request = asks("春", "5x4", NULL);
    model.task = &lx_text_task;
    expect_refused(request, "form", "poems");
    model.task = &lx_poem_task;
}

/* The review of a poem has the prompt without its title, and the poem as its answer. */
static void a_review_leaves_the_title_out(void **state)
{
    (void)state;
    static const struct {
        const char *prompt, *without;
    } cases[] = {{"唐《秋夜》春江，", "唐《》春江，"},
                 {"《春》", "《》"},
                 {"唐《》", NULL},
                 {"春江", NULL},
                 {"唐《春", NULL}};
    int32_t tokens[] = {7, 8, 9};
    const lx_pool_sample sample = {.tokens = tokens, .n_tokens = 3};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_task_request request = asks(cases[i].prompt, NULL, NULL);
        lx_plan *plan = plan_of(&request), *review = NULL;
        lx_token_list answer;
        lx_token_list_init(&answer, CONTEXT);
        assert_int_equal(lx_poem_task.pool->review(plan, &sample, &review, &answer, NULL), LX_OK);
        assert_int_equal(review != NULL, cases[i].without != NULL);
        if (review != NULL) {
            lx_task_request other = asks(cases[i].without, NULL, NULL);
            lx_plan *want = plan_of(&other);
            assert_int_equal(review->n_prompt, want->n_prompt);
            assert_memory_equal(review->prompt_ids, want->prompt_ids,
                                (size_t)want->n_prompt * sizeof *want->prompt_ids);
            assert_int_equal(answer.n, 3);
            assert_memory_equal(answer.ids, tokens, sizeof tokens);
            lx_plan_free(want);
        }
        lx_token_list_fini(&answer);
        lx_plan_free(review);
        lx_plan_free(plan);
    }
}

/* The score that a pool gives a sample of this text. */
static double score_of(const char *prompt, const char *form, const char *rhyme, const char *text)
{
    int32_t tokens[CONTEXT], n = 0;
    for (const char *at = text; *at != '\0'; at += CHARACTER)
        tokens[n++] = lx_poem_token_of(&model, at, CHARACTER);
    lx_task_request request = asks(prompt, form, NULL);
    asked.at[LX_ASKED_rhyme].text = rhyme;
    lx_plan *plan = plan_of(&request);
    lx_pool_sample sample = {.tokens = tokens, .n_tokens = n};
    lx_poem_task.pool->judge(plan, &sample, 1);
    lx_plan_free(plan);
    return sample.score;
}

static void a_pool_prefers_rhymes_that_are_heard(void **state)
{
    (void)state;
    static const char rhymed[] = "春夏秋冬江，月花山水年。人天地日夜，思行里气前。";
    static const char unrhymed[] = "春夏秋冬江，月花山水年。人天地日夜，思行里前气。";
    static const char equal[] = "春夏秋冬江，月花山水年。人天地日夜，思行里气年。";
    const char *prompt = "唐《春》";
    double best = score_of(prompt, "5x4", NULL, rhymed);
    assert_true(best == 0);
    assert_true(score_of(prompt, "5x4", NULL, unrhymed) < best);
    assert_true(score_of(prompt, "5x4", NULL, equal) < score_of(prompt, "5x4", NULL, unrhymed));
    /* Without a form, and with rhymes from a table, no rhyme is missed. */
    assert_true(score_of(prompt, NULL, NULL, unrhymed) == 0);
    assert_true(score_of(prompt, "5x4", "true", unrhymed) == 0);
    /* A sample that was cut off, and a poem that begins in the prompt. */
    assert_true(score_of(prompt, "5x4", NULL, "春夏秋冬江，月花山水年。人天") == 0);
    assert_true(
        score_of("唐《春》春夏秋冬江，月花山水年。", "5x4", NULL, "人天地日夜，思行里气前。") == 0);
    assert_true(
        score_of("唐《春》春夏秋冬江，月花山水年。", "5x4", NULL, "人天地日夜，思行里前气。") < 0);
    /* 如梦令: the repeated line is no rhyme of its own. */
    static const char tune[] =
        "春夏秋冬江里。月花山水人起。天地日夜思，行唐宋風雪意。年气。年气。前边烟间船际。";
    assert_true(score_of(prompt, "如梦令", NULL, tune) == score_of(prompt, NULL, NULL, tune));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_poem_keeps_its_form),
        cmocka_unit_test(even_lines_rhyme),
        cmocka_unit_test(patterns_tunes_and_modern_rhymes_are_kept),
        cmocka_unit_test(old_forms_of_characters_are_not_written),
        cmocka_unit_test(what_the_prompt_has_counts),
        cmocka_unit_test(what_cannot_be_kept_is_refused),
        cmocka_unit_test(fields_that_do_not_fit_are_refused),
        cmocka_unit_test(without_a_form_it_is_text),
        cmocka_unit_test(a_plan_is_restated),
        cmocka_unit_test(a_review_leaves_the_title_out),
        cmocka_unit_test(a_pool_prefers_rhymes_that_are_heard),
        cmocka_unit_test(a_model_must_have_what_poems_need),
    };
    return cmocka_run_group_tests(tests, make_model, free_model);
}
