/*
 * The couplet task without a network: the reading of a prompt or its error, its rows, and that the
 * pair keeps every rule whichever allowed token is chosen. Tokens come from a small sampler here
 * that knows masks and bans; lx_couplet_check judges the result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/characters.h"
#include "model/tasks/couplet.h"
#include "model/utf8.h"
#include "tests/support/tiny_model.h"

enum { MAX_CHARS = 32, N_VOCAB = 140, N_INPUTS = 4 };

static lx_model model;
static uint8_t masks[2][N_VOCAB];

static void set_input(int32_t i, const char *name, int32_t size)
{
    (void)snprintf(model.config.inputs[i].name, LX_MAX_NAME, "%s", name);
    model.config.inputs[i].size = size;
}

static int make_model(void **state)
{
    (void)state;
    char path[] = "/tmp/linnet-vocab-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || !tiny_model_write_vocab(path, N_VOCAB))
        return -1;
    lx_status st = lx_vocab_load(path, &model.vocab, NULL);
    (void)unlink(path);
    model.task = lx_task_find("couplet");
    model.config = (lx_config){.n_inputs = N_INPUTS, .head_size = N_VOCAB};
    lx_couplet_own(&model.config)->max_chars = MAX_CHARS;
    set_input(0, "token", N_VOCAB);
    set_input(1, "position", MAX_CHARS + 1);
    set_input(2, "countdown", MAX_CHARS + 1);
    set_input(3, "mirror", N_VOCAB);
    if (st != LX_OK || model.task == NULL || model.task->check_model(&model, NULL) != LX_OK)
        return -1;
    for (int32_t i = 0; i < 2; i++)
        model.task->fill_mask(&model, i, masks[i]);
    return 0;
}

static int free_model(void **state)
{
    (void)state;
    lx_vocab_free(model.vocab);
    return 0;
}

static lx_status plan_bytes(const char *text, size_t n, bool rules, lx_plan **plan, lx_error *err)
{
    lx_task_request request = {.text = text, .text_bytes = n, .rules = rules};
    return lx_plan_new(&model, &request, plan, err);
}

static lx_plan *must_plan(const char *text, bool rules)
{
    lx_plan *plan = NULL;
    lx_error err = {0};
    if (plan_bytes(text, strlen(text), rules, &plan, &err) != LX_OK)
        fail_msg("%s: %s", text, err.text);
    return plan;
}

static int32_t id_of(const char *text)
{
    size_t pos = 0;
    return lx_vocab_char(model.vocab, (uint32_t)lx_utf8_next(text, strlen(text), &pos));
}

static int32_t special_of(const char *name)
{
    return lx_vocab_special(model.vocab, name);
}

static int32_t decode(const char *text, size_t n, uint32_t *out, int32_t max)
{
    int32_t count = 0;
    for (size_t pos = 0; pos < n;) {
        int32_t c = lx_utf8_next(text, n, &pos);
        assert_true(c >= 0 && count < max);
        out[count++] = (uint32_t)c;
    }
    return count;
}

/* --- reading --- */

typedef struct refusal {
    const char *text;
    const char *says; /* part of the error's text */
} refusal;

#define TEN "春夏秋冬风花雪月山水"
static const refusal refusals[] = {
    {"", "empty"},
    {" \t\n\xe3\x80\x80", "empty"},
    {TEN TEN TEN "三十三", "33 characters, at most 32"},
    {"海\xff月", "byte 4"},
    {"海上\xe6\x98", "not valid UTF-8"},
    {"\xed\xa0\x80", "not valid UTF-8"}, /* a surrogate */
    {"\xc0\xaf", "not valid UTF-8"},     /* overlong */
    {"海\x01月", "control character U+0001 at character 2"},
    {"海月\x7f", "control character U+007F at character 3"},
    {"海\xc2\x81月", "control character U+0081"},
    {"海上 明月", "white space at character 3"},
    {"海上\n明月", "white space at character 3"},
    {"海\xe3\x80\x80月", "white space at character 2"},
    {"海😀月", "\"😀\" (U+1F600) at character 2"},
    {"海❤月", "U+2764"},
    {"海B月", "\"B\" (U+0042) at character 2"},
    {"海あ月", "U+3042"},
    {"海é月", "U+00E9"},
    {"海\xe2\x80\x8d月", "invisible character U+200D"},
    {"\xef\xbb\xbf海月", "invisible character U+FEFF"},
    {"海\xe2\x80\xae月", "invisible character U+202E"},
    {"海\xef\xb8\x8f", "invisible character U+FE0F"},
    {"海\xef\xbf\xbd月", "U+FFFD"},
    {"海\xee\x80\x80月", "U+E000"},
    {"海\xf4\x8f\xbf\xbf", "U+10FFFF"},
};

static void assert_refused(const refusal *r, bool rules, bool normalize)
{
    lx_plan *plan = NULL;
    lx_error err = {0};
    lx_task_request request = {
        .text = r->text, .text_bytes = strlen(r->text), .rules = rules, .normalize = normalize};
    if (lx_plan_new(&model, &request, &plan, &err) != LX_ERR_INVALID)
        fail_msg("\"%s\" was not refused", r->text);
    assert_string_equal(err.param, "prompt");
    if (strstr(err.text, r->says) == NULL)
        fail_msg("\"%s\": \"%s\" does not say \"%s\"", r->text, err.text, r->says);
}

static void refuses_what_it_cannot_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_refused(&refusals[i], false, false);
        assert_refused(&refusals[i], true, false);
    }
}

/* White space that ends a line, and places as they were written. */
static void normalize_refuses_line_breaks(void **state)
{
    (void)state;
    static const refusal breaks[] = {{"海上 \n明月", "white space at character 4"},
                                     {"海\xe2\x80\xa8月", "character 2"},
                                     {"海\xc2\x85月", "character 2"}};
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++)
        assert_refused(&breaks[i], true, true);
}

static void refuses_a_nul_byte(void **state)
{
    (void)state;
    lx_plan *plan = NULL;
    lx_error err = {0};
    assert_int_equal(plan_bytes("海\0月", 7, true, &plan, &err), LX_ERR_INVALID);
    assert_non_null(strstr(err.text, "U+0000"));
}

typedef struct reading {
    const char *text;
    const char *read_as;
} reading;

static const reading readings[] = {
    {"海上明月", "海上明月"},
    {"  海上明月\n", "海上明月"},
    {"\xe3\x80\x80海\xc2\xa0", "海"},
    {"春,夏;秋:冬?雪!", "春，夏；秋：冬？雪！"},
    {"海-月…", "海-月…"},
    {"A7", "A7"},
    {"々〇", "々〇"},
    {"㐀䶿一鿿", "㐀䶿一鿿"},         /* extension A, main block */
    {"𠀀𪛟𪜀𮯠", "𠀀𪛟𪜀𮯠"}, /* B, C to F */
    {"𰀀𲎯", "𰀀𲎯"},                 /* G, H */
    {"豈", "豈"},                             /* compatibility */
    {"！", "！"},
    {"《海》“月”—", "《海》“月”—"},
    {"月", "月"},
    {TEN TEN TEN "一二", TEN TEN TEN "一二"},
    {"  " TEN TEN TEN "一二  ", TEN TEN TEN "一二"},
};

/* With rules, marks come back as the line has them; so the reading shows in rows and marks. */
static void reads_lines_as_they_are_meant(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        const char *want = readings[i].read_as;
        uint32_t chars[MAX_CHARS];
        int32_t n = decode(want, strlen(want), chars, MAX_CHARS);
        lx_plan *plan = must_plan(readings[i].text, true);
        assert_int_equal(plan->n_new, n);
        assert_int_equal(plan->n_prompt, n + 2);
        for (int32_t k = 0; k < n; k++) {
            int32_t id = lx_vocab_char(model.vocab, chars[k]);
            assert_int_equal(plan->prompt_ids[(k + 1) * N_INPUTS],
                             id >= 0 ? id : special_of("<unk>"));
        }
        lx_plan_free(plan);
    }
}

/* The results of normalize, and the number of simplified characters. */
static const struct {
    const char *text, *read_as;
    int32_t n_simplified;
} normalized[] = {
    {" 海 上\xe3\x80\x80明\t\xc2\xa0月 ", "海上明月", 0},
    {"門風, 雲", "門风，云", 2}, /* the vocabulary has no 门 */
    {"风風", "风风", 1},
    {"乾㑶", "乾㑶", 0}, /* 㐹 is in no vocabulary */
};

static void reads_lines_normalized(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof normalized / sizeof *normalized; i++) {
        lx_plan *plan = NULL, *want = must_plan(normalized[i].read_as, true);
        lx_task_request request = {.text = normalized[i].text,
                                   .text_bytes = strlen(normalized[i].text),
                                   .rules = true,
                                   .normalize = true};
        assert_int_equal(lx_plan_new(&model, &request, &plan, NULL), LX_OK);
        assert_int_equal(plan->n_prompt, want->n_prompt);
        assert_int_equal(plan->n_simplified, normalized[i].n_simplified);
        assert_memory_equal(plan->prompt_ids, want->prompt_ids,
                            (size_t)want->n_prompt * N_INPUTS * sizeof *want->prompt_ids);
        lx_plan_free(plan);
        lx_plan_free(want);
    }
}

static void assert_row(const int32_t *row, int32_t token, int32_t position, int32_t countdown,
                       int32_t mirror)
{
    const int32_t want[N_INPUTS] = {token, position, countdown, mirror};
    for (int32_t i = 0; i < N_INPUTS; i++) {
        if (row[i] != want[i])
            fail_msg("input %d is %d, not %d", i, row[i], want[i]);
    }
}

static void makes_the_rows_of_training(void **state)
{
    (void)state;
    lx_plan *plan = must_plan("海上龘", true); /* the last one is not in the vocabulary */
    int32_t sea = id_of("海"), on = id_of("上"), unk = special_of("<unk>");
    int32_t none = special_of("<none>"), ids[N_INPUTS];
    const int32_t *rows = plan->prompt_ids;
    assert_row(rows, special_of("<s>"), 0, 0, none);
    assert_row(rows + 4, sea, 1, 0, none);
    assert_row(rows + 8, on, 2, 0, none);
    assert_row(rows + 12, unk, 3, 0, none);
    assert_row(rows + 16, special_of("<sep>"), 1, 3, sea);
    const int32_t tokens[] = {id_of("山"), id_of("水"), id_of("人")};
    model.task->input(plan, 0, tokens, ids);
    assert_row(ids, id_of("山"), 2, 2, on);
    model.task->input(plan, 1, tokens, ids);
    assert_row(ids, id_of("水"), 3, 1, unk);
    lx_plan_free(plan);
}

static void scores_a_given_lower_line(void **state)
{
    (void)state;
    lx_plan *plan = must_plan("海,上", false);
    lx_token_list ids;
    lx_error err = {0};
    const char *lower = " 山,龘\n";
    lx_token_list_init(&ids, 3);
    assert_int_equal(model.task->read_answer(plan, lower, strlen(lower), &ids, &err), LX_OK);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.ids[0], id_of("山"));
    assert_int_equal(ids.ids[1], id_of("，"));
    assert_int_equal(ids.ids[2], special_of("<unk>"));
    assert_int_equal(model.task->read_answer(plan, "山", 3, &ids, &err), LX_ERR_INVALID);
    assert_non_null(strstr(err.text, "1 characters, the upper line 3"));
    assert_int_equal(model.task->read_answer(plan, "\xff", 1, &ids, &err), LX_ERR_INVALID);
    lx_token_list_fini(&ids);
    lx_plan_free(plan);
}

/* --- the rules --- */

static uint64_t seed = 1;

static int32_t random_below(int32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int32_t)((seed >> 33) % (uint64_t)n);
}

/* Any allowed id, all equally likely: worse than any model. */
static int32_t choose(const lx_constraint *c)
{
    int32_t allowed[N_VOCAB], n = 0;
    if (c->forced >= 0)
        return c->forced;
    assert_true(c->n_banned <= LX_MAX_BANNED);
    for (int32_t id = 0; id < N_VOCAB; id++) {
        bool banned = c->use_mask && masks[c->mask_idx][id];
        for (int32_t i = 0; i < c->n_banned && !banned; i++)
            banned = c->banned[i] == id;
        if (!banned)
            allowed[n++] = id;
    }
    assert_true(n > 0);
    return allowed[random_below(n)];
}

static int32_t answer(const lx_plan *plan, int32_t *tokens, uint32_t *lower)
{
    lx_buffer text;
    lx_buffer_init(&text, 4096);
    for (int32_t step = 0; step < plan->n_new; step++) {
        lx_constraint c = {0};
        model.task->constrain(plan, step, tokens, &c);
        tokens[step] = choose(&c);
    }
    lx_plan_text(plan, tokens, plan->n_new, &text);
    assert_int_equal(text.status, LX_OK);
    int32_t n = decode(text.data, text.length, lower, MAX_CHARS);
    lx_buffer_fini(&text);
    return n;
}

static void assert_keeps_rules(const char *upper_text)
{
    uint32_t upper[MAX_CHARS], lower[MAX_CHARS];
    int32_t tokens[MAX_CHARS], n_upper = decode(upper_text, strlen(upper_text), upper, MAX_CHARS);
    lx_plan *plan = must_plan(upper_text, true);
    int32_t n_lower = answer(plan, tokens, lower);
    unsigned broken = lx_couplet_check(upper, n_upper, lower, n_lower);
    for (int32_t i = 0; i < LX_COUPLET_N_RULES; i++) {
        if (broken & 1u << i)
            fail_msg("\"%s\": the answer breaks \"%s\"", upper_text, lx_couplet_rule_name(i));
    }
    for (int32_t i = 0; i < n_upper; i++) {
        if (!lx_char_is_punctuation(upper[i]))
            assert_false(lx_vocab_is_special(model.vocab, tokens[i]));
    }
    lx_plan_free(plan);
}

static const char *const adversarial[] = {
    "月",
    "！",
    "，，，，",
    "龘",
    "龘龘龘",
    "龘靐龘靐",
    "《龘》",
    "，。，。", /* one mark in the vocabulary, one not */
    "月月月月月月月月月月月月月月月月月月月月月月月月月月月月月月月月", /* 32 */
    "海上明月春风花雨山水天地人心一二三千里云中日年江河红绿大小高低",   /* 31 different ones */
    "龘靐齉齾爩鱻麤灪籱爨麣驫鸜讟钃饢齼龖龗靇鱺鸞驪钀癵韊顳躩躨躞躝躠", /* 32 unknown ones */
    "风风雨雨，花花草草",
    "月月，年年，月月，年年",
    "一二一，一二一",
    "A7A7-…",
    "々〇々〇",
    "月龘月龘月",
};

static void every_answer_keeps_every_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof adversarial / sizeof *adversarial; i++) {
        for (int32_t k = 0; k < 100; k++)
            assert_keeps_rules(adversarial[i]);
    }
}

/* Lines drawn from few characters, so that they repeat a lot; marks and unknown ones among them. */
static void answers_to_random_lines_keep_every_rule(void **state)
{
    (void)state;
    static const char *const pool[] = {"海", "上", "明", "月", "春", "，", "、", "。",
                                       "龘", "靐", "山", "水", "！", "A",  "〇", "々"};
    for (int32_t round = 0; round < 4000; round++) {
        char text[4 * MAX_CHARS + 1] = "";
        int used = 0;
        int32_t n = 1 + random_below(MAX_CHARS), from = 2 + random_below(15);
        for (int32_t i = 0; i < n; i++)
            used +=
                snprintf(text + used, sizeof text - (size_t)used, "%s", pool[random_below(from)]);
        assert_keeps_rules(text);
    }
}

/* Without rules only the structural tokens are out of reach, and <unk> is shown as U+FFFD. */
static void without_rules_anything_but_structure_may_come(void **state)
{
    (void)state;
    bool seen[N_VOCAB] = {false};
    lx_plan *plan = must_plan("海，海海", false);
    for (int32_t round = 0; round < 4000; round++) {
        int32_t tokens[MAX_CHARS];
        uint32_t lower[MAX_CHARS];
        assert_int_equal(answer(plan, tokens, lower), 4);
        for (int32_t i = 0; i < 4; i++) {
            seen[tokens[i]] = true;
            assert_int_equal(lower[i] == 0xfffd, tokens[i] == special_of("<unk>"));
        }
    }
    for (int32_t id = 0; id < N_VOCAB; id++) {
        bool structural = lx_vocab_is_special(model.vocab, id) && id != special_of("<unk>");
        assert_int_equal(seen[id], !structural);
    }
    lx_plan_free(plan);
}

/* A mark outside the vocabulary is fed as <unk> and written as the upper line has it. */
static void marks_are_written_as_the_upper_line_has_them(void **state)
{
    (void)state;
    lx_plan *plan = must_plan("海。上,", true);
    int32_t tokens[MAX_CHARS];
    uint32_t lower[MAX_CHARS];
    assert_int_equal(answer(plan, tokens, lower), 4);
    assert_int_equal(tokens[1], special_of("<unk>"));
    assert_int_equal(tokens[3], id_of("，"));
    assert_int_equal(lower[1], 0x3002);
    assert_int_equal(lower[3], 0xff0c);
    lx_plan_free(plan);
}

/* --- models that do not fit --- */

static void assert_unfit(lx_model *broken, const char *says)
{
    lx_error err = {0};
    assert_int_equal(model.task->check_model(broken, &err), LX_ERR_FORMAT);
    if (strstr(err.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

/* The tiny vocabulary has no <back>, so a line that ends with a level tone gets a lower line. */
static void answers_forward_without_a_mark(void **state)
{
    (void)state;
    const char *line = "春风";
    lx_task_request request = {.text = line, .text_bytes = strlen(line), .either_way = true};
    lx_plan *plan = NULL;
    assert_int_equal(lx_plan_new(&model, &request, &plan, NULL), LX_OK);
    assert_false(plan->backward);
    assert_int_equal(plan->prompt_ids[(plan->n_prompt - 1) * N_INPUTS], special_of("<sep>"));
    lx_plan_free(plan);
}

/* The review of an answer has the answer as its line and the line as its answer. */
static void a_review_turns_the_pair_round(void **state)
{
    (void)state;
    const lx_task_pool *pool = model.task->pool;
    assert_false(pool->may_review(&model)); /* without <back> */
    lx_plan *plan = must_plan("海，上龘", true), *review = NULL;
    int32_t tokens[] = {id_of("明"), id_of("，"), id_of("月"), id_of("春")};
    lx_pool_sample sample = {.tokens = tokens, .n_tokens = 4};
    for (int32_t backward = 0; backward < 2; backward++) {
        lx_token_list answer;
        lx_token_list_init(&answer, MAX_CHARS);
        plan->backward = backward;
        assert_int_equal(pool->review(plan, &sample, &review, &answer, NULL), LX_OK);
        assert_int_equal(review->backward, !backward);
        assert_int_equal(review->n_new, 4);
        const int32_t *rows = review->prompt_ids;
        for (int32_t i = 0; i < 4; i++) {
            assert_int_equal(rows[(i + 1) * N_INPUTS], tokens[i]);
            assert_int_equal(answer.ids[i], i == 3 ? special_of("<unk>")
                                                   : id_of((const char *[]){"海", "，", "上"}[i]));
        }
        if (backward)
            assert_int_equal(rows[5 * N_INPUTS], special_of("<sep>"));
        lx_token_list_fini(&answer);
        lx_plan_free(review);
        review = NULL;
    }
    /* An unknown character cannot be read again, and an answer that was cut has no pair. */
    lx_token_list none;
    lx_token_list_init(&none, MAX_CHARS);
    tokens[0] = special_of("<unk>");
    assert_int_equal(pool->review(plan, &sample, &review, &none, NULL), LX_OK);
    assert_null(review);
    sample = (lx_pool_sample){.tokens = tokens + 1, .n_tokens = 3};
    assert_int_equal(pool->review(plan, &sample, &review, &none, NULL), LX_OK);
    assert_true(review == NULL && none.n == 0);
    lx_plan_free(plan);
}

static void refuses_models_that_do_not_fit(void **state)
{
    (void)state;
    lx_model m = model;
    m.vocab = NULL;
    assert_unfit(&m, "vocab.txt");
    m = model;
    m.config.head_size = N_VOCAB + 1;
    assert_unfit(&m, "head");
    m = model;
    lx_couplet_own(&m.config)->max_chars = 0;
    assert_unfit(&m, "max_chars");
    lx_couplet_own(&m.config)->max_chars = LX_MAX_BANNED;
    assert_unfit(&m, "max_chars");
    m = model;
    m.config.n_inputs = 3;
    assert_unfit(&m, "inputs");
    m = model;
    m.config.inputs[1].size = MAX_CHARS;
    assert_unfit(&m, "position");
    m = model;
    m.config.inputs[3].name[0] = 'x';
    assert_unfit(&m, "mirror");
    m = model;
    lx_couplet_own(&m.config)->max_chars =
        70; /* 140 banned characters could leave nothing to choose */
    m.config.inputs[1].size = m.config.inputs[2].size = 71;
    assert_unfit(&m, "need more than 140");
    assert_null(lx_task_find("crossword"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_it_cannot_answer),
        cmocka_unit_test(refuses_a_nul_byte),
        cmocka_unit_test(reads_lines_as_they_are_meant),
        cmocka_unit_test(reads_lines_normalized),
        cmocka_unit_test(normalize_refuses_line_breaks),
        cmocka_unit_test(makes_the_rows_of_training),
        cmocka_unit_test(scores_a_given_lower_line),
        cmocka_unit_test(every_answer_keeps_every_rule),
        cmocka_unit_test(answers_to_random_lines_keep_every_rule),
        cmocka_unit_test(without_rules_anything_but_structure_may_come),
        cmocka_unit_test(marks_are_written_as_the_upper_line_has_them),
        cmocka_unit_test(answers_forward_without_a_mark),
        cmocka_unit_test(a_review_turns_the_pair_round),
        cmocka_unit_test(refuses_models_that_do_not_fit),
    };
    return cmocka_run_group_tests_name("couplet", tests, make_model, free_model);
}
