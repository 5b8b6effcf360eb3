/* The text task: the plan's text, and that pieces of text put together are the text of all tokens,
   wherever the answer begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/tasks/text.h"

enum { N_IDS = 260, CONTEXT = 64, BEGIN = 256, END = 10, N = 12 };

static lx_model model = {.task = &lx_text_task,
                         .config = {
                             .task = "text",
                             .n_inputs = 1,
                             .inputs = {{"token", N_IDS}},
                             .head_size = N_IDS,
                             .n_values = N_IDS,
                         }};

static int make_model(void **state)
{
    (void)state;
    *lx_text_own(&model.config) =
        (lx_text_config){.context = CONTEXT, .begin = BEGIN, .n_ends = 1, .ends = {END}};
    return lx_tokenizer_new_bytes(&model.tokenizer, NULL) == LX_OK ? 0 : -1;
}

static int free_model(void **state)
{
    (void)state;
    lx_tokenizer_free(model.tokenizer);
    return 0;
}

static lx_plan *plan_of(const lx_task_request *request)
{
    lx_plan *plan = NULL;
    assert_int_equal(lx_plan_new(&model, request, &plan, NULL), LX_OK);
    return plan;
}

static void fits(void **state)
{
    (void)state;
    lx_error err = {0};
    assert_int_equal(lx_text_task.check_model(&model, &err), LX_OK);
    assert_int_equal(lx_text_task.max_rows(&model), CONTEXT);
    uint8_t banned[N_IDS];
    lx_text_task.fill_mask(&model, 0, banned);
    for (int32_t id = 0; id < N_IDS; id++)
        assert_int_equal(banned[id], id >= 256);
    lx_text_own(&model.config)->ends[0] = 257; /* an end needs no text */
    lx_text_task.fill_mask(&model, 0, banned);
    assert_false(banned[257]);
    lx_text_own(&model.config)->ends[0] = END;
}

static void a_plan_is_what_the_request_says(void **state)
{
    (void)state;
    lx_plan *plan = plan_of(&(lx_task_request){.text = "ab", .text_bytes = 2});
    lx_constraint c;
    assert_int_equal(plan->n_prompt, 3);
    assert_int_equal(plan->n_new, CONTEXT - 3);
    assert_int_equal(plan->prompt_ids[0], BEGIN);
    assert_int_equal(plan->prompt_ids[2], 'b');
    assert_false(plan->runs_ahead);
    lx_text_task.constrain(plan, 0, NULL, &c);
    assert_true(c.use_mask && c.forced < 0 && c.n_banned == 0);
    assert_true(lx_text_task.ends(plan, END));
    assert_false(lx_text_task.ends(plan, END + 1));
    lx_plan_free(plan);
    const int32_t ids[] = {7, BEGIN};
    plan = plan_of(&(lx_task_request){.ids = ids, .n_ids = 2, .ignore_end = true});
    assert_int_equal(plan->n_prompt, 2);
    assert_true(plan->runs_ahead);
    assert_false(lx_text_task.ends(plan, END));
    lx_text_task.constrain(plan, 0, NULL, &c);
    assert_int_equal(c.n_banned, 1);
    assert_int_equal(c.banned[0], END);
    lx_plan_free(plan);
}

static void expect_refused(const lx_task_request *request, const char *part)
{
    lx_plan *plan = NULL;
    lx_error err = {0};
    assert_int_equal(lx_plan_new(&model, request, &plan, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "prompt");
    assert_non_null(strstr(err.text, part));
}

static void lengths_are_kept(void **state)
{
    (void)state;
    static char text[CONTEXT + 1];
    static int32_t ids[CONTEXT + 1];
    memset(text, 'a', sizeof text);
    lx_plan_free(plan_of(&(lx_task_request){.text = text, .text_bytes = CONTEXT - 2}));
    expect_refused(&(lx_task_request){.text = text, .text_bytes = CONTEXT - 1}, "63 tokens");
    expect_refused(&(lx_task_request){.text = text, .text_bytes = 9, .max_prompt = 9}, "9 tokens");
    lx_plan_free(plan_of(&(lx_task_request){.text = text, .text_bytes = 8, .max_prompt = 9}));
    lx_plan_free(plan_of(&(lx_task_request){.ids = ids, .n_ids = CONTEXT - 1}));
    expect_refused(&(lx_task_request){.ids = ids, .n_ids = CONTEXT}, "63 tokens");
    expect_refused(&(lx_task_request){.ids = ids, .n_ids = 0}, "empty");
    ids[3] = N_IDS;
    expect_refused(&(lx_task_request){.ids = ids, .n_ids = 4}, "token 4 is 260");
    ids[3] = -1;
    expect_refused(&(lx_task_request){.ids = ids, .n_ids = 4}, "token 4 is -1");
}

static void a_request_is_restated(void **state)
{
    (void)state;
    lx_plan *plan = plan_of(&(lx_task_request){.text = "\xe6\x98\xa5", .text_bytes = 3});
    lx_buffer bytes;
    lx_buffer_init(&bytes, 1 << 10);
    bool flag = lx_text_task.restate(plan, &bytes);
    lx_plan *copy = NULL, *none = NULL;
    assert_int_equal(lx_plan_again(&model, bytes.data, bytes.length, flag, false, &copy, NULL),
                     LX_OK);
    assert_int_equal(copy->n_prompt, plan->n_prompt);
    assert_memory_equal(copy->prompt_ids, plan->prompt_ids, 4 * sizeof(int32_t));
    lx_error err = {0};
    assert_int_equal(lx_plan_again(&model, bytes.data, 3, flag, false, &none, &err),
                     LX_ERR_INVALID);
    lx_plan_free(copy);
    lx_plan_free(plan);
    lx_buffer_fini(&bytes);
}

/* Bytes that are often parts of characters. */
static int32_t next_byte(uint64_t *random)
{
    static const unsigned char bytes[] = {0xe6, 0x98, 0xa5, 0xf0, 0x9f, 0x8e, 0x89, 0xc3,
                                          0xa9, 'a',  0x80, 0xff, 0xed, 0xa0, 0xe0, 0xf4};
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return bytes[*random >> 60];
}

static void check_pieces(const int32_t *ids, int32_t n_prompt)
{
    lx_buffer whole, pieces;
    lx_detokenizer d;
    lx_plan *plan = plan_of(&(lx_task_request){.ids = ids, .n_ids = n_prompt});
    lx_buffer_init(&whole, 1 << 10);
    lx_buffer_init(&pieces, 1 << 10);
    lx_buffer_puts(&pieces, "");
    lx_detokenizer_init(&d, model.tokenizer, 0);
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(lx_detokenizer_push(&d, ids[i], &whole, NULL), LX_OK);
        size_t before = pieces.length;
        if (i < n_prompt)
            lx_text_task.render_prompt(plan, i, &pieces);
        else
            lx_text_task.render(plan, i - n_prompt, ids + n_prompt, &pieces);
        assert_int_equal(pieces.length, whole.length);
        assert_true(pieces.length - before <= (size_t)lx_text_task.token_bytes(&model));
    }
    assert_memory_equal(pieces.data, whole.data != NULL ? whole.data : "", whole.length);
    lx_buffer_fini(&whole);
    lx_buffer_fini(&pieces);
    lx_plan_free(plan);
}

static void pieces_are_the_whole(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int32_t round = 0; round < 2000; round++) {
        int32_t ids[N];
        for (int32_t i = 0; i < N; i++)
            ids[i] = next_byte(&random);
        check_pieces(ids, 1 + round % (N - 1));
    }
}

/* A token that ends an answer has no text, and shows that the bytes before it were no character. */
static void an_end_has_no_text(void **state)
{
    (void)state;
    const int32_t prompt = 'a', tokens[] = {'b', 0xe6, END, 0x98, 'c'};
    lx_plan *plan = plan_of(&(lx_task_request){.ids = &prompt, .n_ids = 1});
    lx_buffer text;
    lx_buffer_init(&text, 1 << 10);
    lx_plan_text(plan, tokens, 2, &text);
    assert_string_equal(text.data, "b");
    text.length = 0;
    lx_plan_text(plan, tokens, 5, &text);
    assert_string_equal(text.data, "b\xef\xbf\xbd\xef\xbf\xbd"
                                   "c");
    lx_buffer_fini(&text);
    lx_plan_free(plan);
}

static void a_token_has_its_bytes(void **state)
{
    (void)state;
    lx_buffer name;
    lx_buffer_init(&name, (size_t)lx_text_task.token_bytes(&model));
    lx_text_task.spell(&model, 'a', &name);
    assert_string_equal(name.data, "a");
    name.length = 0;
    lx_text_task.spell(&model, 0xe6, &name);
    assert_string_equal(name.data, "\xe6");
    assert_int_equal(name.status, LX_OK);
    lx_buffer_fini(&name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits),
        cmocka_unit_test(a_plan_is_what_the_request_says),
        cmocka_unit_test(lengths_are_kept),
        cmocka_unit_test(a_request_is_restated),
        cmocka_unit_test(pieces_are_the_whole),
        cmocka_unit_test(an_end_has_no_text),
        cmocka_unit_test(a_token_has_its_bytes),
    };
    return cmocka_run_group_tests(tests, make_model, free_model);
}
