/* Requests for transcriptions, and their answers, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/json/answers.h"
#include "tests/support/failing.h"

static const char type[] = "multipart/form-data; boundary=B";
#define FIELD(name, value)                                                                         \
    "--B\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FILE_FIELD                                                                                 \
    "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n"
#define END "--B--\r\n"

static lx_status read_form(const char *body, lx_transcription_params *p, lx_error *err)
{
    *err = (lx_error){0};
    return lx_form_read_transcription(type, body, strlen(body), p, err);
}

static void test_defaults(void **state)
{
    (void)state;
    lx_error err;
    lx_transcription_params p;
    assert_int_equal(read_form(FILE_FIELD END, &p, &err), LX_OK);
    assert_int_equal(p.file.bytes, 4);
    assert_memory_equal(p.file.data, "RIFF", 4);
    assert_null(p.file.owned);
    assert_string_equal(p.model, "");
    assert_int_equal(p.format, LX_TRANSCRIPT_JSON);
    assert_false(p.words || p.segments || p.stream || p.notes.n_fields > 0);
    assert_int_equal(p.beam, 0);
    assert_int_equal(p.timeout_ms, 0);
}

static void test_every_field(void **state)
{
    (void)state;
    lx_error err;
    lx_transcription_params p;
    assert_int_equal(
        read_form(FIELD("model", "ears") FIELD("response_format", "verbose_json")
                      FIELD("timestamp_granularities[]", "word") FILE_FIELD FIELD(
                          "timestamp_granularities[]", "segment") FIELD("language", "de")
                          FIELD("prompt", "7") FIELD("temperature", "0.2") FIELD("beam", "16")
                              FIELD("timeout_ms", "250") FIELD("stream", "false") END,
                  &p, &err),
        LX_OK);
    assert_string_equal(p.model, "ears");
    assert_int_equal(p.format, LX_TRANSCRIPT_VERBOSE);
    assert_true(p.words && p.segments && !p.stream);
    assert_string_equal(p.language, "de");
    assert_int_equal(p.beam, 16);
    assert_int_equal(p.timeout_ms, 250);
    assert_int_equal(p.notes.n_fields, 3);
    assert_string_equal(p.notes.fields[0].name, "language");
    assert_string_equal(p.notes.fields[1].name, "prompt");
    assert_string_equal(p.notes.fields[2].name, "temperature");
}

/* Form, and the field at fault. */
static const char *const bad_forms[][2] = {
    {"--C--\r\n", "body"},
    {END, "file"},
    {FILE_FIELD FILE_FIELD END, "file"},
    {FILE_FIELD FIELD("response_format", "mp3") END, "response_format"},
    {FILE_FIELD FIELD("response_format", "text") FIELD("stream", "true") END, "response_format"},
    {FILE_FIELD FIELD("timestamp_granularities[]", "word") END, "timestamp_granularities"},
    {FILE_FIELD FIELD("response_format", "verbose_json")
         FIELD("timestamp_granularities[]", "letter") END,
     "timestamp_granularities"},
    {FILE_FIELD FIELD("include", "a") FIELD("include[]", "b") END, "include"},
    {FILE_FIELD FIELD("include[]", "a") FIELD("include", "b") END, "include"},
    {FILE_FIELD FIELD("include[]", "\xff") END, "include"},
    {FILE_FIELD FIELD("temperature", "1.01") END, "temperature"},
    {FILE_FIELD FIELD("beam", "257") END, "beam"},
    {FILE_FIELD FIELD("beam", "4.5") END, "beam"},
    {FILE_FIELD FIELD("language", "123456789012345678901234567890123456") END, "language"},
    {FILE_FIELD FIELD("stream", "perhaps") END, "stream"},
    {FILE_FIELD FIELD("timeout_ms", "0") END, "timeout_ms"},
    {FILE_FIELD FIELD("model", "") END, "model"},
};

static void test_bad_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_forms / sizeof *bad_forms; i++) {
        lx_error err;
        lx_transcription_params p;
        if (read_form(bad_forms[i][0], &p, &err) == LX_OK)
            fail_msg("form %zu is taken", i);
        assert_string_equal(err.param, bad_forms[i][1]);
    }
}

/* Each allocation fails once: that is an error, and nothing leaks. */
static void test_without_memory(void **state)
{
    (void)state;
    static const char body[] = FILE_FIELD FIELD("model", "ears") FIELD("include[]", "logprobs") END;
    lx_error err;
    lx_transcription_params p;
    int n = 1;
    for (;; n++) {
        failing_arm(n);
        lx_status st = read_form(body, &p, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            break;
        }
        assert_int_equal(st, LX_ERR_NO_MEMORY);
    }
    assert_true(n > 4);
}

/* --- answers --- */

static lx_spoken tokens[] = {
    {"on", 1, 0.25, 0.5},
    {"e\"", 2, 0.5, 0.75},
    {"\xe4\xb8\x89", 3, 3661.75, 3662.0},
};
static char all_text[] = "one\"\xe4\xb8\x89";
static const lx_transcription said = {
    .text = all_text, .n = 3, .tokens = tokens, .log_p = -1, .duration = 3663.5};

static void check(const lx_transcription_params *asked, const char *want)
{
    lx_json_transcript t = {
        .model = "ears", .fingerprint = "f", .said = &said, .rows = 90, .asked = asked};
    lx_buffer out;
    lx_buffer_init(&out, 4096);
    lx_json_write_transcript(&t, &out);
    assert_int_equal(out.status, LX_OK);
    assert_string_equal(out.data, want);
    lx_buffer_fini(&out);
}

#define TEXT "\"one\\\"\xe4\xb8\x89\""
#define PLAIN                                                                                      \
    "{\"text\":" TEXT ",\"usage\":{\"type\":\"duration\",\"seconds\":3663.5},\"model\":\"ears\","  \
    "\"system_fingerprint\":\"f\""

static void test_json(void **state)
{
    (void)state;
    check(&(lx_transcription_params){.format = LX_TRANSCRIPT_JSON}, PLAIN "}");
    check(&(lx_transcription_params){.format = LX_TRANSCRIPT_JSON,
                                     .notes = {.n_fields = 1, .fields = {{.name = "prompt"}}}},
          PLAIN ",\"warnings\":[{\"param\":\"prompt\",\"message\":\"prompt changes nothing "
                "here\"}]}");
    assert_string_equal(lx_transcript_type(LX_TRANSCRIPT_JSON), "application/json");
}

/* A second of silence ends a segment. */
static void test_verbose(void **state)
{
    (void)state;
    check(
        &(lx_transcription_params){
            .format = LX_TRANSCRIPT_VERBOSE, .segments = true, .words = true, .language = "en"},
        PLAIN ",\"task\":\"transcribe\",\"language\":\"en\",\"duration\":3663.5,\"segments\":["
              "{\"id\":0,\"seek\":0,\"start\":0.25,\"end\":0.75,\"text\":\"one\\\"\",\"tokens\":["
              "1,2],\"temperature\":0.0},"
              "{\"id\":1,\"seek\":0,\"start\":3661.75,\"end\":3662.0,\"text\":\"\xe4\xb8\x89\","
              "\"tokens\":[3],\"temperature\":0.0}],"
              "\"words\":[{\"word\":\"on\",\"start\":0.25,\"end\":0.5},"
              "{\"word\":\"e\\\"\",\"start\":0.5,\"end\":0.75},"
              "{\"word\":\"\xe4\xb8\x89\",\"start\":3661.75,\"end\":3662.0}]}");
}

static void test_texts(void **state)
{
    (void)state;
    check(&(lx_transcription_params){.format = LX_TRANSCRIPT_TEXT}, "one\"\xe4\xb8\x89\n");
    check(&(lx_transcription_params){.format = LX_TRANSCRIPT_SRT},
          "1\n00:00:00,250 --> 00:00:00,750\none\"\n\n"
          "2\n01:01:01,750 --> 01:01:02,000\n\xe4\xb8\x89\n\n");
    check(&(lx_transcription_params){.format = LX_TRANSCRIPT_VTT},
          "WEBVTT\n\n00:00:00.250 --> 00:00:00.750\none\"\n\n"
          "01:01:01.750 --> 01:01:02.000\n\xe4\xb8\x89\n\n");
}

static void test_events(void **state)
{
    (void)state;
    const lx_transcription_params asked = {.stream = true};
    lx_json_transcript t = {
        .model = "ears", .fingerprint = "f", .said = &said, .rows = 90, .asked = &asked};
    lx_buffer out;
    lx_buffer_init(&out, 4096);
    lx_json_write_transcript_delta(&said, 1, &out);
    assert_string_equal(out.data, "{\"type\":\"transcript.text.delta\",\"delta\":\"e\\\"\"}");
    out.length = 0;
    lx_json_write_transcript_done(&t, &out);
    assert_string_equal(
        out.data, "{\"type\":\"transcript.text.done\",\"text\":" TEXT
                  ",\"usage\":{\"type\":\"tokens\",\"input_tokens\":90,\"input_token_details\":{"
                  "\"audio_tokens\":90,\"text_tokens\":0},\"output_tokens\":3,\"total_tokens\":93},"
                  "\"model\":\"ears\",\"system_fingerprint\":\"f\"}");
    lx_buffer_fini(&out);
}

/* The longest answer there is: every token is a segment of its own, and all its bytes are escaped.
 */
static void test_the_bound_holds(void **state)
{
    (void)state;
    enum { N = 300, BYTES = 40 };
    char token[BYTES + 1];
    memset(token, 1, BYTES);
    token[BYTES] = '\0';
    lx_spoken *many = calloc(N, sizeof *many);
    char *text = calloc(N, BYTES + 1);
    assert_true(many != NULL && text != NULL);
    for (int i = 0; i < N; i++) {
        double at = 1e5 + i * 3.123456789;
        many[i] = (lx_spoken){token, 1023, at, at + 0.987654321};
        memcpy(text + (size_t)i * BYTES, token, BYTES);
    }
    const lx_transcription longest = {.text = text, .n = N, .tokens = many, .duration = 1e6 / 3};
    const lx_transcription_params asked = {.format = LX_TRANSCRIPT_VERBOSE,
                                           .segments = true,
                                           .words = true,
                                           .notes = {.n_fields = LX_MAX_NOTED},
                                           .language = "12345678901234567890123456789012345"};
    lx_json_transcript t = {.model = "ears", .fingerprint = "f", .said = &longest, .asked = &asked};
    lx_buffer out;
    lx_buffer_init(&out, (size_t)lx_transcript_text_bytes(&asked, N, BYTES));
    lx_json_write_transcript(&t, &out);
    assert_int_equal(out.status, LX_OK);
    assert_true(out.length > (size_t)N * BYTES * 6 * 3);
    lx_buffer_fini(&out);
    free(many);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_bad_forms),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_verbose),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_the_bound_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
