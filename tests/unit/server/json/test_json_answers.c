/* Answers as JSON: completions, chats, chunks and errors, byte for byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/model.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

static void check_written(lx_buffer *out, const char *expected)
{
    assert_int_equal(out->status, LX_OK);
    assert_string_equal(out->data, expected);
    lx_buffer_fini(out);
}

static void test_put(void **state)
{
    (void)state;
    const char *volatile none = NULL; /* the compiler warns of a NULL that it sees */
    lx_buffer out;
    lx_buffer_init(&out, 4096);
    lx_json_put(&out, "{'text':%s,'part':%.*s,'none':%s,'int':%d,'long':%jd", "a\"\n月", 2, "xyz",
                none, -3, (int64_t)1 << 40);
    lx_json_put(&out, ",'real':%f,'whole':%f,'small':%f,'nan':%f,'yes':%i,'no':%i,'empty':''}", 0.1,
                2.0, 1e-7, (double)NAN, 1, 0);
    check_written(&out, "{\"text\":\"a\\\"\\n月\",\"part\":\"xy\",\"none\":null,\"int\":-3,"
                        "\"long\":1099511627776,\"real\":0.1,\"whole\":2.0,\"small\":1e-7,"
                        "\"nan\":null,\"yes\":true,\"no\":false,\"empty\":\"\"}");
    lx_buffer_init(&out, 4096);
    lx_json_put(&out, "{'text':%s}", "\xff"); /* not UTF-8 */
    assert_int_equal(out.status, LX_ERR_NO_MEMORY);
    lx_buffer_fini(&out);
    lx_buffer_init(&out, 8);
    lx_json_put(&out, "{'text':%s}", "too long");
    assert_int_equal(out.status, LX_ERR_TOO_LARGE);
    lx_buffer_fini(&out);
}

static void test_chat_answers(void **state)
{
    (void)state;
    lx_json_choice choice = {.first = true, .text = "月", .text_bytes = 3, .finish_reason = "stop"};
    lx_json_completion c = {.id = "chatcmpl-1",
                            .model = "m",
                            .fingerprint = "f",
                            .created = 5,
                            .seed = 7,
                            .choices = &choice,
                            .n_choices = 1,
                            .chat = true};
    lx_buffer out;
    lx_buffer_init(&out, 4096);
    lx_json_write_completion(&c, &out);
    assert_string_equal(
        out.data,
        "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":5,"
        "\"model\":\"m\",\"system_fingerprint\":\"f\",\"seed\":7,\"choices\":[{\"index\":0,"
        "\"message\":{\"role\":\"assistant\",\"content\":\"月\"},\"logprobs\":null,"
        "\"finish_reason\":\"stop\"}]}");
    lx_buffer_fini(&out);
    lx_buffer_init(&out, 4096);
    c.chunk = true;
    choice.first = false;
    choice.finish_reason = NULL;
    lx_json_write_completion(&c, &out);
    assert_non_null(strstr(out.data, "\"object\":\"chat.completion.chunk\""));
    assert_non_null(strstr(out.data, "\"delta\":{\"content\":\"月\"},\"logprobs\":null,"
                                     "\"finish_reason\":null"));
    lx_buffer_fini(&out);
}

static void test_write_completion(void **state)
{
    (void)state;
    const lx_json_choice choices[] = {
        {.index = 0,
         .text = "天\"",
         .text_bytes = 4,
         .finish_reason = "stop",
         .has_score = true,
         .mean_logprob = -0.5},
        {.index = 1, .text = "", .has_score = true, .mean_logprob = (double)NAN},
    };
    const lx_json_usage usage = {.prompt_tokens = 6, .completion_tokens = 8, .cached_tokens = 2};
    lx_json_completion c = {.id = "cmpl-1",
                            .model = "m",
                            .fingerprint = "f",
                            .created = 5,
                            .seed = LX_MAX_SEED,
                            .choices = choices,
                            .n_choices = 2,
                            .usage = &usage};
    lx_buffer out;
    lx_buffer_init(&out, 10000);
    lx_json_write_completion(&c, &out);
    check_written(&out, "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":5,"
                        "\"model\":\"m\",\"system_fingerprint\":\"f\",\"seed\":9007199254740991,"
                        "\"choices\":[{\"index\":0,\"text\":\"天\\\"\",\"logprobs\":null,"
                        "\"finish_reason\":\"stop\",\"mean_logprob\":-0.5},{\"index\":1,"
                        "\"text\":\"\",\"logprobs\":null,\"finish_reason\":null,"
                        "\"mean_logprob\":null}],\"usage\":{\"prompt_tokens\":6,"
                        "\"completion_tokens\":8,\"total_tokens\":14,"
                        "\"prompt_tokens_details\":{\"cached_tokens\":2}}}");
}

static void test_write_chunk_without_usage(void **state)
{
    (void)state;
    lx_json_completion c = {.id = "i", .model = "m", .fingerprint = "f", .null_usage = true};
    lx_buffer out;
    lx_buffer_init(&out, 10000);
    lx_json_write_completion(&c, &out);
    check_written(&out,
                  "{\"id\":\"i\",\"object\":\"text_completion\",\"created\":0,\"model\":\"m\","
                  "\"system_fingerprint\":\"f\",\"seed\":0,\"choices\":[],\"usage\":null}");
}

static void test_write_error(void **state)
{
    (void)state;
    lx_buffer out;
    lx_buffer_init(&out, 10000);
    lx_json_write_error("bad \"n\"", "t", "", NULL, &out);
    check_written(&out, "{\"error\":{\"message\":\"bad \\\"n\\\"\",\"type\":\"t\",\"param\":null,"
                        "\"code\":null}}");
}

static void test_text_that_is_no_utf8_is_an_error_not_a_crash(void **state)
{
    (void)state;
    const lx_json_choice bad = {.text = "\xff", .text_bytes = 1};
    lx_json_completion c = {
        .id = "i", .model = "m", .fingerprint = "f", .choices = &bad, .n_choices = 1};
    lx_buffer out;
    lx_buffer_init(&out, 10000);
    lx_json_write_completion(&c, &out);
    assert_int_not_equal(out.status, LX_OK);
    lx_buffer_fini(&out);
}

static void test_full_buffer_is_an_error(void **state)
{
    (void)state;
    lx_buffer out;
    lx_buffer_init(&out, 20);
    lx_json_write_error("a long message", "t", "p", "c", &out);
    assert_int_equal(out.status, LX_ERR_TOO_LARGE);
    lx_buffer_fini(&out);
}

/* --- cost of writing --- */

/* Before every block that the JSON library asks for; as large as the strictest alignment. */
typedef union block {
    size_t bytes;
    max_align_t aligned;
} block;

static struct {
    json_malloc_t take;
    json_free_t give;
    size_t now, most;
} memory;

static void *take(size_t n)
{
    block *b = memory.take(sizeof *b + n);
    assert_non_null(b);
    b->bytes = n;
    memory.now += n;
    memory.most = memory.now > memory.most ? memory.now : memory.most;
    return b + 1;
}

static void give(void *p)
{
    block *b = p != NULL ? (block *)p - 1 : NULL;
    if (b == NULL)
        return;
    memory.now -= b->bytes;
    memory.give(b);
}

/* server/api/pending.h counts an answer's text and no tree of it. */
static void test_a_long_answer_takes_its_text_and_little_more(void **state)
{
    (void)state;
    enum { TOKENS = 2000, PIECE = 4096 };
    static lx_json_token tokens[TOKENS];
    static const lx_model model = {.token_bytes = 8};
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (lx_json_token){.text = "月", .bytes = 3, .id = i, .logprob = -0.5};
    const lx_json_logprobs logprobs = {.tokens = tokens, .n = TOKENS, .model = &model};
    const lx_json_choice choice = {
        .text = "月", .text_bytes = 3, .logprobs = &logprobs, .tokens = tokens, .n_tokens = TOKENS};
    lx_json_completion c = {.id = "i",
                            .model = "m",
                            .fingerprint = "f",
                            .choices = &choice,
                            .n_choices = 1,
                            .token_ids = true};
    json_get_alloc_funcs(&memory.take, &memory.give);
    json_set_alloc_funcs(take, give);
    for (int chat = 0; chat < 2; chat++) {
        lx_buffer out;
        lx_buffer_init(&out, 1 << 20);
        memory.most = 0;
        c.chat = chat;
        lx_json_write_completion(&c, &out);
        assert_int_equal(out.status, LX_OK);
        assert_true(out.length > (size_t)TOKENS * 10);
        assert_true(memory.most > 0 && memory.most < PIECE);
        assert_int_equal(memory.now, 0);
        lx_buffer_fini(&out);
    }
    json_set_alloc_funcs(memory.take, memory.give);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_chat_answers),
        cmocka_unit_test(test_write_completion),
        cmocka_unit_test(test_write_chunk_without_usage),
        cmocka_unit_test(test_write_error),
        cmocka_unit_test(test_text_that_is_no_utf8_is_an_error_not_a_crash),
        cmocka_unit_test(test_full_buffer_is_an_error),
        cmocka_unit_test(test_a_long_answer_takes_its_text_and_little_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
