/* Requests for images and scores, as JSON and as forms; their answers, byte for byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/json/answers.h"
#include "server/json/requests.h"
#include "tests/support/failing.h"

enum { MAX_N = 1000 };

static const char form_type[] = "multipart/form-data; boundary=B";
#define PART(name, value)                                                                          \
    "--B\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FILE_PART(name, value)                                                                     \
    "--B\r\nContent-Disposition: form-data; name=\"" name                                          \
    "\"; filename=\"f.png\"\r\nContent-Type: image/png\r\n\r\n" value "\r\n"
#define END "--B--\r\n"
#define URL "data:image/png;base64,"
#define IMAGES "\"images\":[{\"image_url\":\"" URL "Zm9v\"}]"

static lx_status read_generation(const char *body, lx_image_params *p, lx_error *err)
{
    *err = (lx_error){0};
    return lx_json_read_generation(body, strlen(body), MAX_N, p, err);
}

static lx_status read_edit(const char *body, lx_image_params *p, lx_error *err)
{
    *err = (lx_error){0};
    return lx_json_read_edit(body, strlen(body), MAX_N, p, err);
}

static lx_status read_form(const char *body, lx_image_params *p, lx_error *err)
{
    *err = (lx_error){0};
    return lx_form_read_edit(form_type, body, strlen(body), MAX_N, p, err);
}

/* --- generations --- */

static void test_defaults(void **state)
{
    (void)state;
    lx_image_params p;
    lx_error err;
    assert_int_equal(read_generation("{}", &p, &err), LX_OK);
    assert_string_equal(p.model, "");
    assert_string_equal(p.size, "");
    assert_int_equal(p.n, 1);
    assert_true(p.sampling.temperature == 1);
    assert_false(p.sampling.has_seed || p.stream || p.contact_sheet);
    assert_int_equal(p.partial_images, 0);
    assert_int_equal(p.stream_unit, LX_STREAM_NO_VALUES);
    assert_int_equal(p.timeout_ms, 0);
    assert_null(p.image.data);
    lx_image_params_fini(&p);
}

static void test_all_fields(void **state)
{
    (void)state;
    lx_image_params p;
    lx_error err;
    assert_int_equal(
        read_generation("{\"model\":\"m\",\"prompt\":\"a digit\",\"n\":1000,\"size\":\"28x28\","
                        "\"seed\":9007199254740991,\"temperature\":0.5,\"stream\":true,"
                        "\"partial_images\":3,\"stream_unit\":\"row\",\"timeout_ms\":7,"
                        "\"response_format\":\"b64_json\",\"output_format\":\"png\","
                        "\"background\":\"auto\",\"quality\":\"high\",\"moderation\":\"low\","
                        "\"style\":\"vivid\",\"user\":\"u\",\"output_compression\":50,\"x\":{}}",
                        &p, &err),
        LX_OK);
    assert_string_equal(p.model, "m");
    assert_string_equal(p.size, "28x28");
    assert_int_equal(p.n, 1000);
    assert_true(p.sampling.has_seed && p.sampling.seed == LX_MAX_SEED);
    assert_true(p.sampling.temperature == 0.5 && p.stream);
    assert_int_equal(p.partial_images, 3);
    assert_int_equal(p.stream_unit, LX_STREAM_ROWS);
    assert_int_equal(p.timeout_ms, 7);
    lx_image_params_fini(&p);
}

static void test_null_and_auto_mean_absent(void **state)
{
    (void)state;
    lx_image_params p;
    lx_error err;
    assert_int_equal(read_generation("{\"model\":null,\"prompt\":null,\"n\":null,\"size\":\"auto\","
                                     "\"seed\":null,\"stream_unit\":null,\"response_format\":null}",
                                     &p, &err),
                     LX_OK);
    assert_string_equal(p.size, "");
    assert_false(p.sampling.has_seed);
    lx_image_params_fini(&p);
}

/* Fields of an otherwise good request, and the field that is blamed. */
static const char *const bad_fields[][2] = {
    {"\"n\":0", "n"},
    {"\"n\":1001", "n"},
    {"\"n\":\"3\"", "n"},
    {"\"n\":1.0", "n"},
    {"\"n\":99999999999999999999999", "n"},
    {"\"model\":3", "model"},
    {"\"prompt\":[\"a\"]", "prompt"},
    {"\"prompt\":7", "prompt"},
    {"\"size\":28", "size"},
    {"\"size\":\"\"", "size"},
    {"\"size\":\"1234567890x12345678901234567890\"", "size"},
    {"\"seed\":-2", "seed"},
    {"\"seed\":9007199254740992", "seed"},
    {"\"seed\":\"1\"", "seed"},
    {"\"temperature\":-0.1", "temperature"},
    {"\"temperature\":10.1", "temperature"},
    {"\"temperature\":NaN", "temperature"},
    {"\"response_format\":\"url\"", "response_format"},
    {"\"response_format\":1", "response_format"},
    {"\"output_format\":\"jpeg\"", "output_format"},
    {"\"contact_sheet\":1", "contact_sheet"},
    {"\"stream\":true,\"contact_sheet\":true", "contact_sheet"},
    {"\"stream\":\"true\"", "stream"},
    {"\"stream\":true,\"partial_images\":4", "partial_images"},
    {"\"stream\":true,\"partial_images\":-1", "partial_images"},
    {"\"partial_images\":1", "partial_images"},
    {"\"stream\":true,\"stream_unit\":\"column\"", "stream_unit"},
    {"\"stream\":true,\"stream_unit\":1", "stream_unit"},
    {"\"stream_unit\":\"row\"", "stream_unit"},
    {"\"stream\":false,\"stream_unit\":\"pixel\"", "stream_unit"},
    {"\"timeout_ms\":0", "timeout_ms"},
    {"\"n\":1,\"n\":2", "n"},
};

static void test_bad_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_fields / sizeof *bad_fields; i++) {
        char body[256];
        lx_image_params p;
        lx_error err;
        (void)snprintf(body, sizeof body, "{%s}", bad_fields[i][0]);
        if (read_generation(body, &p, &err) != LX_ERR_INVALID)
            fail_msg("%s is taken", body);
        assert_string_equal(err.param, bad_fields[i][1]);
        lx_image_params_fini(&p);
        (void)snprintf(body, sizeof body, "{%s,%s}", IMAGES, bad_fields[i][0]);
        assert_int_equal(read_edit(body, &p, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, bad_fields[i][1]);
        lx_image_params_fini(&p);
    }
}

static void test_names_no_model_has(void **state)
{
    (void)state;
    lx_image_params p;
    lx_error err;
    assert_int_equal(read_generation("{\"model\":\"\"}", &p, &err), LX_ERR_NOT_FOUND);
    assert_int_equal(read_generation("{\"model\":\"0123456789012345678901234567890123456789012345"
                                     "678901234567890123456789\"}",
                                     &p, &err),
                     LX_ERR_NOT_FOUND);
}

/* --- edits --- */

static void test_edit_json(void **state)
{
    (void)state;
    lx_image_params p;
    lx_error err;
    assert_int_equal(read_edit("{" IMAGES ",\"n\":2}", &p, &err), LX_OK);
    assert_int_equal(p.n, 2);
    assert_int_equal(p.image.bytes, 3);
    assert_memory_equal(p.image.data, "foo", 3);
    assert_null(p.mask.data);
    lx_image_params_fini(&p);
    assert_null(p.image.data);
    assert_int_equal(
        read_edit("{" IMAGES ",\"mask\":{\"image_url\":\"DATA:;BASE64,Zg==\"}}", &p, &err), LX_OK);
    assert_int_equal(p.mask.bytes, 1);
    assert_memory_equal(p.mask.data, "f", 1);
    lx_image_params_fini(&p);
}

static const char *const bad_edits[][2] = {
    {"", "images"},
    {"\"images\":null", "images"},
    {"\"images\":[]", "images"},
    {"\"images\":{\"image_url\":\"" URL "Zm9v\"}", "images"},
    {"\"images\":[{\"image_url\":\"" URL "Zm9v\"},{\"image_url\":\"" URL "Zm9v\"}]", "images"},
    {"\"images\":[\"" URL "Zm9v\"]", "images"},
    {"\"images\":[{\"file_id\":\"file-1\"}]", "images"},
    {"\"images\":[{\"image_url\":7}]", "images"},
    {"\"images\":[{\"image_url\":\"https://example.org/a.png\"}]", "images"},
    {"\"images\":[{\"image_url\":\"data:image/png,foo\"}]", "images"},
    {"\"images\":[{\"image_url\":\"data:;base64\"}]", "images"},
    {"\"images\":[{\"image_url\":\"data:base64,Zm9v\"}]", "images"},
    {"\"images\":[{\"image_url\":\"" URL "Zm9\"}]", "images"},
    {"\"images\":[{\"image_url\":\"" URL "Zm9 \"}]", "images"},
    {IMAGES ",\"mask\":\"" URL "Zm9v\"", "mask"},
    {IMAGES ",\"mask\":{}", "mask"},
    {IMAGES ",\"mask\":{\"image_url\":\"" URL "=\"}", "mask"},
};

static void test_bad_edits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_edits / sizeof *bad_edits; i++) {
        char body[256];
        lx_image_params p;
        lx_error err;
        (void)snprintf(body, sizeof body, "{%s}", bad_edits[i][0]);
        if (read_edit(body, &p, &err) != LX_ERR_INVALID)
            fail_msg("%s is taken", body);
        assert_string_equal(err.param, bad_edits[i][1]);
        lx_image_params_fini(&p);
    }
}

static void test_edit_form(void **state)
{
    (void)state;
    static const char body[] = PART("prompt", "a, \"b\" 七") PART("n", "12") PART("stream", "true")
        PART("partial_images", "2") PART("temperature", "1e-1") PART("seed", "5") PART("model", "7")
            PART("user", "{}") FILE_PART("image[]", "foo") FILE_PART("mask", "ba")
                FILE_PART("markup", "ignored") END;
    lx_image_params p;
    lx_error err;
    assert_int_equal(read_form(body, &p, &err), LX_OK);
    assert_string_equal(p.model, "7"); /* text, although it looks like a number */
    assert_int_equal(p.n, 12);
    assert_true(p.stream && p.sampling.has_seed && p.sampling.seed == 5 &&
                p.sampling.temperature == 0.1);
    assert_int_equal(p.partial_images, 2);
    assert_int_equal(p.image.bytes, 3);
    assert_memory_equal(p.image.data, "foo", 3);
    assert_int_equal(p.mask.bytes, 2);
    assert_int_equal(p.notes.n_fields, 1);
    assert_string_equal(p.notes.fields[0].name, "markup");
    lx_image_params_fini(&p);
}

static const char *const bad_forms[][2] = {
    {PART("n", "1") END, "image"},
    {FILE_PART("image", "a") FILE_PART("image", "b") END, "image"},
    {FILE_PART("image", "a") FILE_PART("image[]", "b") END, "image"},
    {FILE_PART("image", "a") FILE_PART("mask", "b") FILE_PART("mask", "c") END, "mask"},
    {FILE_PART("image", "a") PART("n", "") END, "n"},
    {FILE_PART("image", "a") PART("n", "two") END, "n"},
    {FILE_PART("image", "a") PART("n", "2x") END, "n"},
    {FILE_PART("image", "a") PART("n", "1001") END, "n"},
    {FILE_PART("image", "a") PART("n", "[1]") END, "n"},
    {FILE_PART("image", "a") PART("n", "1") PART("n", "2") END, "n"},
    {FILE_PART("image", "a") PART("stream", "maybe") END, "stream"},
    {FILE_PART("image", "a") FILE_PART("n", "1") END, "n"},
    {FILE_PART("image", "a") FILE_PART("prompt", "b") END, "prompt"},
    {FILE_PART("image", "a") PART("temperature", "warm") END, "temperature"},
    {FILE_PART("image", "a") PART("size", "\xff") END, "size"},
    {FILE_PART("image", "a"), "body"},
    {"", "body"},
};

static void test_bad_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_forms / sizeof *bad_forms; i++) {
        lx_image_params p;
        lx_error err;
        if (read_form(bad_forms[i][0], &p, &err) != LX_ERR_INVALID)
            fail_msg("form %zu is taken", i);
        assert_string_equal(err.param, bad_forms[i][1]);
        lx_image_params_fini(&p);
    }
}

/* --- scores --- */

static void test_score_json(void **state)
{
    (void)state;
    static const char body[] = "{\"model\":\"m\",\"prompt\":\"a\",\"completion\":\"bc\","
                               "\"image\":\"" URL "Zm9v\",\"timeout_ms\":3}";
    lx_score_params p;
    lx_error err = {0};
    assert_int_equal(lx_json_read_score(body, sizeof body - 1, &p, &err), LX_OK);
    assert_string_equal(p.model, "m");
    assert_string_equal(p.prompt, "a");
    assert_string_equal(p.completion, "bc");
    assert_int_equal(p.completion_bytes, 2);
    assert_memory_equal(p.image.data, "foo", 3);
    assert_int_equal(p.timeout_ms, 3);
    lx_score_params_fini(&p);
    assert_int_equal(lx_json_read_score("{}", 2, &p, &err), LX_OK);
    assert_true(p.prompt == NULL && p.completion == NULL && p.image.data == NULL);
    lx_score_params_fini(&p);
}

static void test_bad_scores(void **state)
{
    (void)state;
    static const char *const bodies[][2] = {
        {"{\"prompt\":1}", "prompt"},
        {"{\"completion\":[]}", "completion"},
        {"{\"image\":{}}", "image"},
        {"{\"image\":\"foo\"}", "image"},
        {"{\"timeout_ms\":\"1\"}", "timeout_ms"},
        {"[]", "body"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        lx_score_params p;
        lx_error err = {0};
        assert_int_equal(lx_json_read_score(bodies[i][0], strlen(bodies[i][0]), &p, &err),
                         LX_ERR_INVALID);
        assert_string_equal(err.param, bodies[i][1]);
        lx_score_params_fini(&p);
    }
}

static void test_score_form(void **state)
{
    (void)state;
    static const char body[] = PART("model", "m") FILE_PART("image", "foo") END;
    lx_score_params p;
    lx_error err = {0};
    assert_int_equal(lx_form_read_score(form_type, body, sizeof body - 1, &p, &err), LX_OK);
    assert_string_equal(p.model, "m");
    assert_memory_equal(p.image.data, "foo", 3);
    lx_score_params_fini(&p);
}

/* --- answers --- */

static lx_buffer text_buffer(const char *text)
{
    lx_buffer b;
    lx_buffer_init(&b, 4096);
    lx_buffer_puts(&b, text);
    return b;
}

static void check_and_free(lx_buffer *b, const char *expected)
{
    assert_int_equal(b->status, LX_OK);
    assert_string_equal(b->data, expected);
    lx_buffer_fini(b);
}

static void test_images_answer(void **state)
{
    (void)state;
    lx_json_timings t = {
        .queue_ms = 1, .ttft_ms = 2, .predicted_n = 5, .predicted_ms = 500, .total_ms = 3};
    lx_json_images head = {.model = "m",
                           .fingerprint = "f",
                           .size = "2x3",
                           .created = 11,
                           .seed = 5,
                           .usage = {.given = 2, .made = 8, .cached = 1},
                           .timings = &t};
    lx_buffer png = text_buffer("foo"), out = text_buffer("");
    lx_json_images_begin(&head, &out);
    lx_json_images_add(0, &png, 0.5, true, &out);
    lx_json_images_add(1, &png, (double)NAN, false, &out);
    lx_json_images_end("[{\"index\":0}]", &out);
    lx_buffer_fini(&png);
    check_and_free(
        &out,
        "{\"created\":11,\"background\":\"opaque\",\"output_format\":\"png\",\"size\":\"2x3\","
        "\"model\":\"m\",\"system_fingerprint\":\"f\",\"seed\":5,\"usage\":{"
        "\"input_tokens\":2,\"input_tokens_details\":{\"image_tokens\":2,\"text_tokens\":0,"
        "\"cached_tokens\":1},\"output_tokens\":8,\"total_tokens\":10},\"timings\":{\"queue_ms\":1."
        "0,\"ttft_ms\":2."
        "0,\"total_ms\":3.0,\"state_ms\":0.0,\"cache_n\":0,\"queue_steps\":0,\"total_steps\":0,"
        "\"prompt_n\":0,"
        "\"prompt_ms\":0.0,"
        "\"prompt_per_token_ms\":0.0,\"prompt_per_second\":0.0,\"predicted_n\":5,"
        "\"predicted_ms\":500.0,\"predicted_per_token_ms\":100.0,"
        "\"predicted_per_second\":10.0},\"data\":[{\"b64_json\":\"Zm9v\",\"bits_per_dim\":0.5,"
        "\"finish_reason\":\"parked\"},{\"b64_json\":\"Zm9v\",\"bits_per_dim\":null}],"
        "\"states\":[{\"index\":0}]}");
}

static void test_events(void **state)
{
    (void)state;
    lx_json_image_event e = {
        .type = "image_edit.partial_image", .size = "2x3", .created = 11, .index = 4, .partial = 1};
    lx_buffer png = text_buffer("foo"), out = text_buffer("");
    lx_json_write_image_event(&e, &png, &out);
    check_and_free(&out, "{\"type\":\"image_edit.partial_image\",\"index\":4,\"created_at\":11,"
                         "\"size\":\"2x3\",\"quality\":\"auto\",\"background\":\"opaque\","
                         "\"output_format\":\"png\",\"partial_image_index\":1,"
                         "\"b64_json\":\"Zm9v\"}");
    e.type = "image_edit.completed";
    e.partial = -1;
    e.seed = 7;
    e.bits_per_dim = 1.25;
    e.usage = (lx_json_pixels){.given = 1, .made = 5};
    e.states = "[1]";
    out = text_buffer("");
    lx_json_write_image_event(&e, &png, &out);
    check_and_free(&out, "{\"type\":\"image_edit.completed\",\"index\":4,\"created_at\":11,"
                         "\"size\":\"2x3\",\"quality\":\"auto\",\"background\":\"opaque\","
                         "\"output_format\":\"png\",\"seed\":7,\"bits_per_dim\":1.25,\"usage\":{"
                         "\"input_tokens\":1,\"input_tokens_details\":{\"image_tokens\":1,"
                         "\"text_tokens\":0,\"cached_tokens\":0},\"output_tokens\":5,"
                         "\"total_tokens\":6},\"b64_json\":\"Zm9v\",\"states\":[1]}");
    lx_buffer_fini(&png);
    static const uint8_t values[] = {0, 9, 10, 99, 100, 255};
    out = text_buffer("");
    lx_json_write_values_event("t", 2, 56, values, 6, &out);
    check_and_free(&out,
                   "{\"type\":\"t\",\"index\":2,\"start\":56,\"values\":[0,9,10,99,100,255]}");
}

static void test_score_answer(void **state)
{
    (void)state;
    static const float logprobs[] = {-1.0f, -0.5f, -INFINITY};
    lx_json_timings t = {.queue_ms = 0};
    lx_json_score s = {.model = "m",
                       .fingerprint = "f",
                       .mean_name = "nats_per_character",
                       .n_prompt = 3,
                       .n = 2,
                       .logprobs = logprobs,
                       .unit = 0.5,
                       .timings = &t};
    lx_buffer out = text_buffer("");
    lx_json_write_score(&s, &out);
    assert_non_null(strstr(out.data, "\"nats_per_character\":1.5,"));
    assert_non_null(strstr(out.data, "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,"
                                     "\"total_tokens\":5}"));
    assert_non_null(strstr(out.data, ",\"surprise\":[2,1]}"));
    lx_buffer_fini(&out);
    s.n = 3; /* an impossible value has no number in JSON */
    out = text_buffer("");
    lx_json_write_score(&s, &out);
    assert_non_null(strstr(out.data, "\"nats_per_character\":null"));
    assert_non_null(strstr(out.data, "[2,1,null]}"));
    lx_buffer_fini(&out);
}

static void test_lost_memory(void **state)
{
    (void)state;
    static const char body[] = "{" IMAGES ",\"mask\":{\"image_url\":\"" URL "Zg==\"}}";
    static const char score[] = "{\"prompt\":\"a\",\"completion\":\"b\",\"image\":\"" URL "Zm9v\"}";
    for (int n = 1; n <= 2; n++) {
        lx_image_params p;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_json_read_edit(body, sizeof body - 1, MAX_N, &p, &err);
        assert_true(failing_hit());
        assert_int_equal(st, LX_ERR_NO_MEMORY);
        lx_image_params_fini(&p);
    }
    for (int n = 1; n <= 3; n++) {
        lx_score_params p;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_json_read_score(score, sizeof score - 1, &p, &err);
        assert_true(failing_hit());
        assert_int_equal(st, LX_ERR_NO_MEMORY);
        lx_score_params_fini(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_null_and_auto_mean_absent),
        cmocka_unit_test(test_bad_fields),
        cmocka_unit_test(test_names_no_model_has),
        cmocka_unit_test(test_edit_json),
        cmocka_unit_test(test_bad_edits),
        cmocka_unit_test(test_edit_form),
        cmocka_unit_test(test_bad_forms),
        cmocka_unit_test(test_score_json),
        cmocka_unit_test(test_bad_scores),
        cmocka_unit_test(test_score_form),
        cmocka_unit_test(test_images_answer),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_score_answer),
        cmocka_unit_test(test_lost_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
