/* The copy task: the rows of a sequence by their inputs' names, refused requests, and the text of
   an answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/tasks/copy.h"
#include "tests/support/scratch.h"

enum { ALPHABET = 4, LENGTH = 5, N_INPUTS = 3, ROOM = 64 };

static const char symbols[] = "a\nb\n\xe6\xb5\xb7\n7\n<sep>\n"; /* the third one has three bytes */

static lx_model model = {
    .task = &lx_copy_task,
    .config = {
        .task = "copy",
        .n_inputs = N_INPUTS,
        .inputs = {{"place", LENGTH + 1}, {"token", ALPHABET + 1}, {"position", 2 * LENGTH}},
        .head_kind = LX_HEAD_CATEGORICAL,
        .head_size = ALPHABET + 1,
        .n_values = ALPHABET + 1,
    }};

static int setup(void **state)
{
    *lx_copy_own(&model.config) = (lx_copy_config){ALPHABET, LENGTH};
    if (scratch_setup(state) != 0)
        return -1;
    const char *path = scratch_write("vocab.txt", symbols, sizeof symbols - 1);
    return lx_vocab_load(path, &model.vocab, NULL) == LX_OK ? 0 : -1;
}

static int teardown(void **state)
{
    lx_vocab_free(model.vocab);
    return scratch_teardown(state);
}

static lx_plan *plan_of(const lx_task_request *request)
{
    lx_plan *plan = NULL;
    assert_int_equal(lx_plan_new(&model, request, &plan, NULL), LX_OK);
    return plan;
}

static lx_task_request text_of(const char *text)
{
    return (lx_task_request){.text = text, .text_bytes = strlen(text)};
}

static void fits(void **state)
{
    (void)state;
    lx_error err = {0};
    uint8_t banned[ALPHABET + 1];
    assert_int_equal(lx_copy_task.check_model(&model, &err), LX_OK);
    assert_int_equal(lx_copy_task.max_rows(&model), 2 * LENGTH);
    lx_copy_task.fill_mask(&model, 0, banned);
    for (int32_t id = 0; id <= ALPHABET; id++)
        assert_int_equal(banned[id], id == ALPHABET);
    assert_ptr_equal(lx_task_find("copy"), &lx_copy_task);
}

/* place, token, position of every row: three symbols, the separator, two of the copy. */
static void the_rows_are_those_of_the_sequence(void **state)
{
    (void)state;
    static const int32_t want[][N_INPUTS] = {{1, 1, 0},        {2, 3, 1}, {3, 1, 2},
                                             {0, ALPHABET, 3}, {1, 2, 4}, {2, 0, 5}};
    static const int32_t written[] = {2, 0}; /* for any prompt */
    lx_task_request request = text_of("b7b");
    lx_plan *plan = plan_of(&request);
    assert_int_equal(plan->n_prompt, 4);
    assert_int_equal(plan->n_new, 3);
    assert_int_equal(plan->n_pieces, 3);
    assert_true(plan->runs_ahead);
    assert_memory_equal(plan->prompt_ids, want, 4 * sizeof want[0]);
    for (int32_t step = 0; step < 2; step++) {
        int32_t ids[N_INPUTS];
        lx_constraint c;
        lx_copy_task.input(plan, step, written, ids);
        assert_memory_equal(ids, want[4 + step], sizeof ids);
        lx_copy_task.constrain(plan, step, written, &c);
        assert_true(c.forced < 0 && c.use_mask && c.mask_idx == 0 && c.n_banned == 0);
    }
    lx_plan_free(plan);
}

static void tokens_are_symbols(void **state)
{
    (void)state;
    const int32_t ids[] = {1, 3, 1};
    lx_task_request request = text_of("b7b");
    lx_plan *text = plan_of(&request);
    lx_plan *list = plan_of(&(lx_task_request){.ids = ids, .n_ids = 3});
    assert_memory_equal(text->prompt_ids, list->prompt_ids, sizeof(int32_t[4][N_INPUTS]));
    lx_plan_free(text);
    lx_plan_free(list);
}

static void expect_refused(const lx_task_request *request, const char *part)
{
    lx_plan *plan = NULL;
    lx_error err = {0};
    assert_int_equal(lx_plan_new(&model, request, &plan, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "prompt");
    assert_non_null(strstr(err.text, part));
}

static void what_is_no_sequence_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } texts[] = {{"", "empty"},
                 {"ab ba", "character 3, \" \", is no symbol: this model's are a to 7"},
                 {"ab\xe5\xb1\xb1", "character 3"},
                 {"<sep>", "character 1"},
                 {"a\xe6\xb5", "byte 2"},
                 {"ababab", "more than 5 symbols"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lx_task_request request = text_of(texts[i].text);
        expect_refused(&request, texts[i].part);
    }
    static const int32_t ids[LENGTH + 1], separator[] = {0, ALPHABET}, negative[] = {-1};
    expect_refused(&(lx_task_request){.ids = ids, .n_ids = 0}, "empty");
    expect_refused(&(lx_task_request){.ids = ids, .n_ids = LENGTH + 1}, "6 symbols, at most 5");
    expect_refused(&(lx_task_request){.ids = separator, .n_ids = 2}, "token 2 is 4");
    expect_refused(&(lx_task_request){.ids = negative, .n_ids = 1}, "token 1 is -1");
    lx_task_request longest = {.ids = ids, .n_ids = LENGTH};
    lx_plan_free(plan_of(&longest));
}

static void a_text_is_its_symbols(void **state)
{
    (void)state;
    const int32_t tokens[] = {2, 0, 3};
    lx_task_request request = text_of("b\xe6\xb5\xb7"
                                      "a");
    lx_plan *plan = plan_of(&request);
    lx_buffer text;
    lx_buffer_init(&text, ROOM);
    for (int32_t i = 0; i < plan->n_pieces; i++)
        lx_copy_task.render_prompt(plan, i, &text);
    lx_plan_text(plan, tokens, 3, &text);
    assert_string_equal(text.data, "b\xe6\xb5\xb7"
                                   "a\xe6\xb5\xb7"
                                   "a7");
    text.length = 0;
    lx_copy_task.spell(&model, ALPHABET, &text);
    assert_string_equal(text.data, "<sep>");
    assert_true(text.length <= (size_t)lx_copy_task.token_bytes(&model));
    lx_buffer_fini(&text);
    lx_plan_free(plan);
}

static void a_request_is_restated(void **state)
{
    (void)state;
    lx_task_request request = text_of("7ab");
    lx_plan *plan = plan_of(&request), *copy = NULL, *none = NULL;
    lx_buffer bytes;
    lx_error err = {0};
    lx_buffer_init(&bytes, ROOM);
    bool flag = lx_copy_task.restate(plan, &bytes);
    assert_int_equal(lx_plan_again(&model, bytes.data, bytes.length, flag, false, &copy, NULL),
                     LX_OK);
    assert_memory_equal(copy->prompt_ids, plan->prompt_ids, sizeof(int32_t[4][N_INPUTS]));
    assert_int_equal(lx_plan_again(&model, bytes.data, 3, flag, false, &none, &err),
                     LX_ERR_INVALID);
    assert_int_equal(lx_plan_again(&model, bytes.data, 4, true, false, &none, &err),
                     LX_ERR_INVALID);
    lx_plan_free(copy);
    lx_plan_free(plan);
    lx_buffer_fini(&bytes);
}

static void an_answer_is_scored_by_its_symbols(void **state)
{
    (void)state;
    static const int32_t want[] = {3, 2, 0};
    lx_token_list ids;
    lx_error err = {0};
    lx_task_request request = text_of("aab");
    lx_plan *plan = plan_of(&request);
    const char answer[] = "7\xe6\xb5\xb7"
                          "a";
    lx_token_list_init(&ids, 3);
    assert_int_equal(lx_copy_task.read_answer(plan, answer, strlen(answer), &ids, &err), LX_OK);
    assert_int_equal(ids.n, 3);
    assert_memory_equal(ids.ids, want, sizeof want);
    static const char *const wrong[] = {"aa", "aabb", "", "a b"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lx_token_list_fini(&ids);
        assert_int_equal(lx_copy_task.read_answer(plan, wrong[i], strlen(wrong[i]), &ids, &err),
                         LX_ERR_INVALID);
        assert_string_equal(err.param, "completion");
    }
    lx_token_list_fini(&ids);
    lx_plan_free(plan);
}

/* Every symbol is about equally frequent; seeds and numbers name different sequences. */
static void sequences_are_drawn_by_seed(void **state)
{
    (void)state;
    enum { N = 4000 };
    static int32_t ids[N], again[N];
    int32_t counts[ALPHABET] = {0}, same = 0;
    lx_copy_sequence(&model.config, 7, 3, N, ids);
    lx_copy_sequence(&model.config, 7, 3, N, again);
    assert_memory_equal(ids, again, sizeof ids);
    for (int32_t i = 0; i < N; i++)
        counts[ids[i]]++;
    for (int32_t id = 0; id < ALPHABET; id++)
        assert_in_range(counts[id], N / ALPHABET - 150, N / ALPHABET + 150); /* 5 deviations */
    for (int32_t other = 0; other < 2; other++) {
        lx_copy_sequence(&model.config, (uint64_t)(7 + other), (uint32_t)(4 - other), N, again);
        same = 0;
        for (int32_t i = 0; i < N; i++)
            same += ids[i] == again[i];
        assert_in_range(same, N / ALPHABET - 150, N / ALPHABET + 150);
    }
}

/* --- models that do not fit --- */

static void expect_unfit(const lx_model *m, const char *part)
{
    lx_error err = {0};
    scratch_expect(lx_copy_task.check_model(m, &err), &err, LX_ERR_FORMAT, part);
}

static void inputs_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static lx_model m;
    m = model;
    m.config.inputs[2].size = LENGTH;
    expect_unfit(&m, "position: size 5, but this alphabet and length need 10");
    memcpy(m.config.inputs[2].name, "mirror", sizeof "mirror");
    expect_unfit(&m, "no input mirror");
    m = model;
    m.config.n_inputs = 1;
    expect_unfit(&m, "needs the input token");
    m = model;
    m.config.head_size = ALPHABET;
    expect_unfit(&m, "head");
    m = model;
    m.config.head_kind = LX_HEAD_LOGISTIC_MIXTURE;
    expect_unfit(&m, "head");
}

static void expect_unfit_vocabulary(const char *text, const char *part)
{
    static lx_model m;
    m = model;
    const char *path = scratch_write("other.txt", text, strlen(text));
    assert_int_equal(lx_vocab_load(path, &m.vocab, NULL), LX_OK);
    expect_unfit(&m, part);
    lx_vocab_free(m.vocab);
}

static void vocabularies_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static lx_model m;
    m = model;
    m.vocab = NULL;
    expect_unfit(&m, "vocab.txt: the copy task needs it");
    expect_unfit_vocabulary("a\nb\nc\n<sep>\n", "4 entries, but an alphabet of 4 and <sep> are 5");
    expect_unfit_vocabulary("a\nb\n<s>\nd\n<sep>\n", "line 3: <s> is no symbol");
    expect_unfit_vocabulary("a\nb\nc\nd\n<end>\n", "line 5 must be <sep>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits),
        cmocka_unit_test(the_rows_are_those_of_the_sequence),
        cmocka_unit_test(tokens_are_symbols),
        cmocka_unit_test(what_is_no_sequence_is_refused),
        cmocka_unit_test(a_text_is_its_symbols),
        cmocka_unit_test(a_request_is_restated),
        cmocka_unit_test(an_answer_is_scored_by_its_symbols),
        cmocka_unit_test(sequences_are_drawn_by_seed),
        cmocka_unit_test(inputs_that_do_not_fit_are_refused),
        cmocka_unit_test(vocabularies_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
