/* JSON in: every bad request is refused with the name of its field. JSON out: test_json_answers.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/json/answers.h"
#include "server/json/requests.h"
#include "server/json/scan.h"

enum { MAX_N = 128 };

static lx_status read_text(const char *body, lx_completion_params *p, lx_error *err)
{
    *err = (lx_error){0};
    return lx_json_read_completion(body, strlen(body), MAX_N, p, err);
}

static void test_defaults(void **state)
{
    (void)state;
    lx_completion_params p;
    lx_error err;
    assert_int_equal(read_text("{\"model\":\"m\",\"prompt\":\"海\"}", &p, &err), LX_OK);
    assert_string_equal(p.model, "m");
    assert_string_equal(p.prompts[0].text, "海");
    assert_int_equal(p.prompts[0].bytes, 3);
    assert_int_equal(p.n, 1);
    assert_int_equal(p.max_tokens, 0);
    assert_int_equal(p.sampling.top_k, 0);
    assert_true(p.sampling.temperature == 0.8 && p.sampling.top_p == 1);
    assert_true(p.rules);
    assert_false(p.stream || p.include_usage || p.sampling.has_seed);
    assert_int_equal(p.timeout_ms, 0);
    lx_completion_params_fini(&p);
}

static lx_status read_chat(const char *body, lx_completion_params *p, lx_error *err)
{
    *err = (lx_error){0};
    return lx_json_read_chat(body, strlen(body), MAX_N, p, err);
}

static void test_chat_takes_the_last_message(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"月\"}]}",
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"},"
        "{\"role\":\"user\",\"content\":\"山\"},{\"role\":\"assistant\",\"content\":\"水\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"月\"}]}]}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        lx_completion_params p;
        lx_error err;
        assert_int_equal(read_chat(bodies[i], &p, &err), LX_OK);
        assert_string_equal(p.prompts[0].text, "月");
        assert_true(p.chat);
        lx_completion_params_fini(&p);
    }
}

static void test_chat_reads_both_names_of_max_tokens(void **state)
{
    (void)state;
    lx_completion_params p;
    lx_error err;
    assert_int_equal(
        read_chat("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"月\"}],"
                  "\"max_tokens\":3,\"max_completion_tokens\":5,\"n\":2,"
                  "\"logprobs\":false}",
                  &p, &err),
        LX_OK);
    assert_int_equal(p.max_tokens, 5);
    assert_int_equal(p.n, 2);
    lx_completion_params_fini(&p);
}

static void test_bad_chats(void **state)
{
    (void)state;
#define CHAT(messages, rest) "{\"model\":\"m\",\"messages\":" messages rest "}"
    static const char *const cases[][2] = {
        {"{\"model\":\"m\"}", "messages"},
        {"{\"model\":\"m\",\"prompt\":\"月\"}", "messages"},
        {CHAT("[]", ""), "messages"},
        {CHAT("\"月\"", ""), "messages"},
        {CHAT("[\"月\"]", ""), "messages"},
        {CHAT("[{\"role\":\"user\"}]", ""), "messages"},
        {CHAT("[{\"content\":\"月\"}]", ""), "messages"},
        {CHAT("[{\"role\":\"user\",\"content\":7}]", ""), "messages"},
        {CHAT("[{\"role\":\"user\",\"content\":[]}]", ""), "messages"},
        {CHAT("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", ""), "messages"},
        {CHAT("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"月\"},"
              "{\"type\":\"image_url\"}]}]",
              ""),
         "messages"},
        {CHAT("[{\"role\":\"user\",\"content\":\"月\"}]",
              ",\"continue_final_message\":true,\"add_generation_prompt\":true"),
         "continue_final_message"},
        {CHAT("[{\"role\":\"user\",\"content\":\"月\"}]", ",\"state\":\"x\""), "state"},
        {CHAT("[{\"role\":\"user\",\"content\":\"月\"}]", ",\"top_logprobs\":1"), "top_logprobs"},
        {CHAT("[{\"role\":\"user\",\"content\":\"月\"}]", ",\"logprobs\":true,\"top_logprobs\":21"),
         "top_logprobs"},
        {CHAT("[{\"role\":\"user\",\"content\":\"月\"}]",
              ",\"response_format\":{\"type\":\"xml\"}"),
         "response_format"},
        {CHAT("[{\"role\":\"user\",\"content\":\"月\"}]", ",\"response_format\":\"text\""),
         "response_format"},
        {CHAT("[{\"role\":\"user\",\"content\":\"月\"}]", ",\"logprobs\":2"), "logprobs"},
        {CHAT("[{\"role\":\"user\",\"content\":\"月\"}]", ",\"max_completion_tokens\":0"),
         "max_completion_tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_completion_params p;
        lx_error err;
        assert_int_equal(read_chat(cases[i][0], &p, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, cases[i][1]);
        lx_completion_params_fini(&p);
    }
}

static void test_all_fields(void **state)
{
    (void)state;
    lx_completion_params p;
    lx_error err;
    assert_int_equal(
        read_text("{\"model\":\"m\",\"prompt\":[\"a\"],\"n\":128,\"max_tokens\":5,\"top_k\":3,"
                  "\"temperature\":0,\"top_p\":0.5,\"seed\":9007199254740991,\"stream\":true,"
                  "\"stream_options\":{\"include_usage\":true},\"rules\":false,\"timeout_ms\":9,"
                  "\"logprobs\":0,\"unknown\":{\"n\":0}}",
                  &p, &err),
        LX_OK);
    assert_string_equal(p.prompts[0].text, "a");
    assert_int_equal(p.n, 128);
    assert_int_equal(p.max_tokens, 5);
    assert_int_equal(p.sampling.top_k, 3);
    assert_true(p.sampling.temperature == 0 && p.sampling.top_p == 0.5);
    assert_true(p.sampling.has_seed && p.sampling.seed == LX_MAX_SEED);
    assert_true(p.stream && p.include_usage && !p.rules);
    assert_int_equal(p.timeout_ms, 9);
    lx_completion_params_fini(&p);
}

static void test_null_means_absent(void **state)
{
    (void)state;
    lx_completion_params p;
    lx_error err;
    assert_int_equal(read_text("{\"model\":\"m\",\"prompt\":\"a\",\"n\":null,\"seed\":null,"
                               "\"stream\":null,\"stream_options\":null,\"logprobs\":null}",
                               &p, &err),
                     LX_OK);
    assert_int_equal(p.n, 1);
    assert_false(p.sampling.has_seed);
    lx_completion_params_fini(&p);
}

/* The field (with its value) added to an otherwise good request, and the field that is blamed. */
static const char *const bad_fields[][2] = {
    {"\"n\":0", "n"},
    {"\"n\":-1", "n"},
    {"\"n\":129", "n"},
    {"\"n\":1000000", "n"},
    {"\"n\":1.5", "n"},
    {"\"n\":\"3\"", "n"},
    {"\"n\":true", "n"},
    {"\"n\":123456789012345678901234567890", "n"},
    {"\"max_tokens\":0", "max_tokens"},
    {"\"max_tokens\":[]", "max_tokens"},
    {"\"temperature\":-0.001", "temperature"},
    {"\"temperature\":1e9", "temperature"},
    {"\"temperature\":NaN", "temperature"},
    {"\"temperature\":Infinity", "temperature"},
    {"\"temperature\":-Infinity", "temperature"},
    {"\"temperature\":1e999", "temperature"},
    {"\"temperature\":\"hot\"", "temperature"},
    {"\"temperature\":01", "temperature"},
    {"\"top_p\":0", "top_p"},
    {"\"top_p\":1.01", "top_p"},
    {"\"top_k\":-2", "top_k"},
    {"\"seed\":-2", "seed"},
    {"\"min_tokens\":-1", "min_tokens"},
    {"\"min_new_tokens\":1.5", "min_new_tokens"},
    {"\"allowed_token_ids\":[]", "allowed_token_ids"},
    {"\"allowed_token_ids\":[1,-1]", "allowed_token_ids"},
    {"\"allowed_token_ids\":7", "allowed_token_ids"},
    {"\"include_stop_str_in_output\":1", "include_stop_str_in_output"},
    {"\"return_token_ids\":\"yes\"", "return_token_ids"},
    {"\"response_format\":{\"type\":\"json_schema\"}", "response_format"},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":[]}}",
     "response_format"},
    {"\"grammar\":\"root ::= [a]\",\"regex\":\"a\"", "regex"},
    {"\"guided_choice\":\"a\"", "guided_choice"},
    {"\"structured_outputs\":\"a\"", "structured_outputs"},
    {"\"response_format\":\"text\"", "response_format"},
    {"\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":1}", "stream_options"},
    {"\"seed\":9007199254740992", "seed"},
    {"\"seed\":1.0", "seed"},
    {"\"stream\":1", "stream"},
    {"\"rules\":\"no\"", "rules"},
    {"\"timeout_ms\":0", "timeout_ms"},
    {"\"timeout_ms\":86400001", "timeout_ms"},
    {"\"stream_options\":{\"include_usage\":true}", "stream_options"},
    {"\"stream\":true,\"stream_options\":[]", "stream_options"},
    {"\"stream\":true,\"stream_options\":{\"include_usage\":1}", "stream_options"},
    {"\"logprobs\":true", "logprobs"},
    {"\"logprobs\":-1", "logprobs"},
    {"\"logprobs\":6", "logprobs"},
    {"\"echo\":1", "echo"},
    {"\"best_of\":0", "best_of"},
    {"\"best_of\":129", "best_of"},
    {"\"n\":3,\"best_of\":2", "best_of"},
    {"\"best_of\":2,\"stream\":true", "best_of"},
    {"\"stop\":5", "stop"},
    {"\"stop\":\"\"", "stop"},
    {"\"stop\":{}", "stop"},
    {"\"stop\":[\"a\",7]", "stop"},
    {"\"stop\":[\"a\",null]", "stop"},
    {"\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]", "stop"},
    {"\"logit_bias\":7", "logit_bias"},
    {"\"logit_bias\":[1]", "logit_bias"},
    {"\"logit_bias\":[[1]]", "logit_bias"},
    {"\"logit_bias\":[[1,2,3]]", "logit_bias"},
    {"\"logit_bias\":[[-1,2]]", "logit_bias"},
    {"\"logit_bias\":[[\"a\",2]]", "logit_bias"},
    {"\"logit_bias\":[[1,true]]", "logit_bias"},
    {"\"logit_bias\":[[1,2],[1,3]]", "logit_bias"},
    {"\"logit_bias\":{\"x\":1}", "logit_bias"},
    {"\"logit_bias\":{\"\":1}", "logit_bias"},
    {"\"logit_bias\":{\"-1\":1}", "logit_bias"},
    {"\"logit_bias\":{\"01\":1}", "logit_bias"},
    {"\"logit_bias\":{\"2147483648\":1}", "logit_bias"},
    {"\"logit_bias\":{\"1\":\"1\"}", "logit_bias"},
    {"\"logit_bias\":{\"1\":null}", "logit_bias"},
    {"\"logit_bias\":{\"1\":100.5}", "logit_bias"},
    {"\"logit_bias\":{\"1\":-101}", "logit_bias"},
    {"\"suffix\":\"月\"", "suffix"},
    {"\"suffix\":1", "suffix"},
    {"\"user\":1", "user"},
    {"\"presence_penalty\":2.1", "presence_penalty"},
    {"\"presence_penalty\":[1]", "presence_penalty"},
    {"\"frequency_penalty\":-2.5", "frequency_penalty"},
    {"\"frequency_penalty\":\"0\"", "frequency_penalty"},
    {"\"repetition_penalty\":0", "repetition_penalty"},
    {"\"repetition_penalty\":10.5", "repetition_penalty"},
    {"\"min_p\":-0.1", "min_p"},
    {"\"min_p\":1.1", "min_p"},
    {"\"typical_p\":0", "typical_p"},
    {"\"typical_p\":\"1\"", "typical_p"},
    {"\"n\":1,\"n\":1000", "n"},
    {"\"prompt\":\"b\"", "prompt"},
    {"\"user\":\"\xff\"", "user"},
    {"\"user\":\"\xe6\xb5\"", "user"},
    {"\"user\":\"\\ud800\"", "user"},
    {"\"user\":\"\\u0000\"", "user"},
    {"\"user\":\"a\nb\"", "user"},
};

static void test_bad_fields_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_fields / sizeof *bad_fields; i++) {
        char body[256];
        lx_completion_params p;
        lx_error err;
        (void)snprintf(body, sizeof body, "{\"model\":\"m\",\"prompt\":\"a\",%s}",
                       bad_fields[i][0]);
        lx_status st = read_text(body, &p, &err);
        lx_completion_params_fini(&p);
        if (st != LX_ERR_INVALID || strcmp(err.param, bad_fields[i][1]) != 0)
            fail_msg("%s: status %d, param \"%s\"", bad_fields[i][0], (int)st, err.param);
        assert_non_null(strstr(err.text, bad_fields[i][1]));
    }
}

static void test_prompts_of_every_form(void **state)
{
    (void)state;
    lx_completion_params p;
    lx_error err;
    assert_int_equal(read_text("{\"model\":\"m\",\"prompt\":[\"a\",\"\",\"bc\"]}", &p, &err),
                     LX_OK);
    assert_int_equal(p.n_prompts, 3);
    assert_string_equal(p.prompts[2].text, "bc");
    assert_int_equal(p.prompts[1].bytes, 0);
    lx_completion_params_fini(&p);
    assert_int_equal(read_text("{\"model\":\"m\",\"prompt\":[5,0,2147483647]}", &p, &err), LX_OK);
    assert_int_equal(p.n_prompts, 1);
    assert_null(p.prompts[0].text);
    assert_int_equal(p.prompts[0].n_ids, 3);
    assert_int_equal(p.prompts[0].ids[2], INT32_MAX);
    lx_completion_params_fini(&p);
    assert_int_equal(read_text("{\"model\":\"m\",\"prompt\":[[1,2],[],[3]]}", &p, &err), LX_OK);
    assert_int_equal(p.n_prompts, 3);
    assert_int_equal(p.prompts[1].n_ids, 0);
    assert_int_equal(p.prompts[2].ids[0], 3);
    lx_completion_params_fini(&p);
}

static void test_biases_are_sorted(void **state)
{
    (void)state;
    lx_completion_params p;
    lx_error err;
    static const char body[] =
        "{\"model\":\"m\",\"prompt\":\"a\",\"stop\":[\"x\",\"yz\"],\"best_of\":2,"
        "\"logprobs\":0,\"echo\":true,\"suffix\":\"\",\"presence_penalty\":-2,\"frequency_"
        "penalty\":0.5,"
        "\"logit_bias\":{\"50\":-100,\"7\":0.5,\"0\":100}}";
    assert_int_equal(read_text(body, &p, &err), LX_OK);
    assert_int_equal(p.n_biases, 3);
    assert_int_equal(p.biases[0].id, 0);
    assert_int_equal(p.biases[1].id, 7);
    assert_true(p.biases[1].add == 0.5f);
    assert_int_equal(p.biases[2].id, 50);
    assert_int_equal(p.stops.n, 2);
    assert_int_equal(p.stops.stop[1].bytes, 2);
    assert_int_equal(p.best_of, 2);
    assert_int_equal(p.n_logprobs, 0);
    assert_true(p.echo);
    assert_true(p.sampling.presence_penalty == -2 && p.sampling.frequency_penalty == 0.5);
    lx_completion_params_fini(&p);
}

static const struct {
    const char *body, *param;
} bad_bodies[] = {
    {"", "body"},
    {"  ", "body"},
    {"hello", "body"},
    {"[]", "body"},
    {"\"prompt\"", "body"},
    {"null", "body"},
    {"{\"model\":\"m\",\"prompt\":\"a\"} x", "prompt"},
    {"{\"model\":\"m\",\"prompt\":\"a\"}{}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":\"a\",}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":\"a\"", "prompt"},
    {"{\"model\":\"m\",\"prompt\":\"a", "prompt"},
    {"{'prompt':'a'}", "body"},
    {"\xef\xbb\xbf{}", "body"},
    {"{}", "prompt"},
    {"{\"model\":null}", "prompt"},
    {"{\"model\":5}", "model"},
    {"{\"model\":\"m\"}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":null}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":5}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[\"a\",1]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[\"a\",[1]]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[1,\"a\"]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[1,-1]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[1.5]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[2147483648]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[[1],[[2]]]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[null]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":[true,false]}", "prompt"},
    {"{\"model\":\"m\",\"prompt\":{}}", "prompt"},
};

static void test_bad_bodies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_bodies / sizeof *bad_bodies; i++) {
        lx_completion_params p;
        lx_error err;
        lx_status st = read_text(bad_bodies[i].body, &p, &err);
        lx_completion_params_fini(&p);
        if (st != LX_ERR_INVALID || strcmp(err.param, bad_bodies[i].param) != 0)
            fail_msg("%s: status %d, param \"%s\"", bad_bodies[i].body, (int)st, err.param);
        assert_true(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    }
}

static void test_trailing_nul_is_garbage(void **state)
{
    (void)state;
    static const char body[] = "{\"model\":\"m\",\"prompt\":\"a\"}";
    lx_completion_params p;
    lx_error err = {0};
    assert_int_equal(lx_json_read_completion(body, sizeof body, MAX_N, &p, &err), LX_ERR_INVALID);
    lx_completion_params_fini(&p);
}

static lx_status read_nested(int depth, lx_error *err)
{
    char body[512] = "{\"model\":\"m\",\"prompt\":\"a\",\"x\":";
    size_t n = strlen(body);
    for (int i = 1; i < depth; i++)
        body[n++] = '[';
    for (int i = 1; i < depth; i++)
        body[n++] = ']';
    body[n++] = '}';
    lx_completion_params p;
    lx_status st = lx_json_read_completion(body, n, MAX_N, &p, err);
    lx_completion_params_fini(&p);
    return st;
}

static void test_depth_is_limited(void **state)
{
    (void)state;
    lx_error err = {0};
    assert_int_equal(read_nested(LX_JSON_MAX_DEPTH, &err), LX_OK);
    assert_int_equal(read_nested(LX_JSON_MAX_DEPTH + 1, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "x");
}

static void test_brackets_in_strings_are_no_depth(void **state)
{
    (void)state;
    lx_completion_params p;
    lx_error err;
    assert_int_equal(
        read_text("{\"model\":\"m\",\"prompt\":\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}",
                  &p, &err),
        LX_OK);
    lx_completion_params_fini(&p);
}

static void test_long_model_name_is_not_found(void **state)
{
    (void)state;
    char body[256];
    lx_completion_params p;
    lx_error err;
    (void)snprintf(body, sizeof body, "{\"model\":\"%0100d\",\"prompt\":\"a\"}", 0);
    assert_int_equal(read_text(body, &p, &err), LX_ERR_NOT_FOUND);
    assert_string_equal(err.param, "model");
    assert_string_equal(p.model, "");
    lx_completion_params_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_chat_takes_the_last_message),
        cmocka_unit_test(test_chat_reads_both_names_of_max_tokens),
        cmocka_unit_test(test_bad_chats),
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_null_means_absent),
        cmocka_unit_test(test_bad_fields_are_named),
        cmocka_unit_test(test_prompts_of_every_form),
        cmocka_unit_test(test_biases_are_sorted),
        cmocka_unit_test(test_bad_bodies),
        cmocka_unit_test(test_trailing_nul_is_garbage),
        cmocka_unit_test(test_depth_is_limited),
        cmocka_unit_test(test_brackets_in_strings_are_no_depth),
        cmocka_unit_test(test_long_model_name_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
