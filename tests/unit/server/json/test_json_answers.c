/* Answers as JSON: completions, chats, chunks and errors, byte for byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/json/answers.h"
#include "server/json/requests.h"

static void check_written(lx_buffer *out, const char *expected)
{
    assert_int_equal(out->status, LX_OK);
    assert_string_equal(out->data, expected);
    lx_buffer_fini(out);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_answers),
        cmocka_unit_test(test_write_completion),
        cmocka_unit_test(test_write_chunk_without_usage),
        cmocka_unit_test(test_write_error),
        cmocka_unit_test(test_text_that_is_no_utf8_is_an_error_not_a_crash),
        cmocka_unit_test(test_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
