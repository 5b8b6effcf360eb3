/*
 * Chat templates: the text that Python's jinja2 renders (tests/golden/jinja.py), byte for byte, or
 * an error where jinja2 has an error; marks around text of a client; bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/jinja/chat.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum { NOW = 1764200000, MOST = 1 << 20 };

static lx_status render(const char *text, const json_t *own, const json_t *client, size_t most,
                        lx_jinja_text *out, lx_error *err)
{
    lx_jinja *t = NULL;
    lx_status st = lx_jinja_parse(text, strlen(text), &t, err);
    if (st == LX_OK)
        st = lx_jinja_render(t, own, client, NOW, most, out, err);
    lx_jinja_free(t);
    return st;
}

static void fini(lx_jinja_text *t)
{
    free(t->bytes);
    free(t->marks);
}

static void texts_are_jinjas(void **state)
{
    (void)state;
    json_t *cases = json_load_file(GOLDEN_JINJA "/cases.json", 0, NULL);
    assert_true(json_array_size(cases) > 60);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const char *text = json_string_value(json_object_get(one, "template"));
        const char *want = json_string_value(json_object_get(one, "text"));
        lx_jinja_text got;
        lx_error err = {0};
        lx_status st = render(text, json_object_get(one, "own"), json_object_get(one, "client"),
                              MOST, &got, &err);
        if (want == NULL) {
            assert_int_not_equal(st, LX_OK);
            assert_non_null(strstr(err.text, "chat template, line "));
            continue;
        }
        if (st != LX_OK)
            print_error("%s: %s\n", text, err.text);
        assert_int_equal(st, LX_OK);
        assert_string_equal(got.bytes, want);
        fini(&got);
    }
    json_decref(cases);
}

/* The template with one message of a client; the marked text is in brackets. */
static void expect_marks(const char *text, const char *content, const char *want)
{
    lx_error err = {0};
    lx_jinja *t = NULL;
    lx_jinja_text got;
    const lx_jinja_message message = {.role = "user", .text = content, .bytes = strlen(content)};
    const lx_jinja_chat chat = {.messages = &message, .n = 1, .begin = "<s>", .answers = true};
    must(lx_jinja_parse(text, strlen(text), &t, &err), &err);
    must(lx_jinja_render_chat(t, &chat, NOW, MOST, &got, &err), &err);
    char shown[256];
    size_t n = 0;
    for (size_t i = 0; i < got.n && n + 4 < sizeof shown; i++) {
        if (got.marks[i] == 1 && (i == 0 || got.marks[i - 1] == 0))
            shown[n++] = '[';
        shown[n++] = got.bytes[i];
        if (got.marks[i] == 1 && (i + 1 == got.n || got.marks[i + 1] == 0))
            shown[n++] = ']';
    }
    shown[n] = '\0';
    assert_string_equal(shown, want);
    fini(&got);
    lx_jinja_free(t);
}

static void what_a_client_wrote_is_marked(void **state)
{
    (void)state;
    expect_marks("{{ bos_token }}<|a|>{{ messages[0].content }}<|b|>", "<|b|>x",
                 "<s><|a|>[<|b|>x]<|b|>");
    expect_marks("{{ '<|' + messages[0]['content'] ~ '|>' }}", "im", "<|[im]|>");
    expect_marks("{{ messages[0].content | trim | upper }}!", " ab ", "[AB]!");
    expect_marks("{{ messages[0].content.replace('b', '<|x|>') }}", "abc", "[a]<|x|>[c]");
    expect_marks("{{ 'xyz'.replace('y', messages[0].content) }}", "<s>", "x[<s>]z");
    expect_marks("{{ messages[0].content.split('-')[1] }}|{{ messages[0].content[::-1] }}", "a-b",
                 "[b]|[b-a]");
    expect_marks("{{ messages[0].content | tojson }}", "a\"<s>", "\"[a\\\"<s>]\"");
    expect_marks("{{ [messages[0].content, 'y'] }}", "x", "['[x]', 'y']");
    expect_marks("{{ ', '.join([messages[0].content, 'y']) }}", "x", "[x], y");
    expect_marks("{{ '{}={}'.format('k', messages[0].content) }}", "v", "k=[v]");
    expect_marks("{% set x %}<{{ messages[0].content }}>{% endset %}{{ x | indent(1, true) }}",
                 "v\nw", " <[v\n] [w]>");
    expect_marks("{% macro m(a) %}({{ a }}){% endmacro %}{{ m(messages[0].content * 2) }}", "v",
                 "([vv])");
    expect_marks("{{ '<b>' | safe + messages[0].content }}", "a<", "<b>[a&lt;]");
    expect_marks("{{ (messages[0].content | from_json)[0] }}", "[\"<s>\"]", "[<s>]");
}

static void a_chat_goes_on_with_its_last_message(void **state)
{
    (void)state;
    static const char text[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}";
    const lx_jinja_message messages[] = {
        {.role = "user", .text = "say", .bytes = 3},
        {.role = "assistant", .text = " and so \n\u3000", .bytes = 12}};
    lx_jinja_chat chat = {.messages = messages, .n = 2, .continues = true};
    lx_error err = {0};
    lx_jinja *t = NULL;
    lx_jinja_text got;
    must(lx_jinja_parse(text, sizeof text - 1, &t, &err), &err);
    must(lx_jinja_render_chat(t, &chat, NOW, MOST, &got, &err), &err);
    assert_string_equal(got.bytes, "<user>say</user><assistant>and so");
    assert_int_equal(got.n, strlen(got.bytes));
    fini(&got);
    lx_jinja_free(t);
    must(lx_jinja_parse("{{ messages[0].content }}", 25, &t, &err), &err);
    scratch_expect(lx_jinja_render_chat(t, &chat, NOW, MOST, &got, &err), &err, LX_ERR_INVALID,
                   "last message");
    lx_jinja_free(t);
}

/* Variables and further members of a message are a client's; absent tools are none. */
static void a_chat_has_variables(void **state)
{
    (void)state;
    static const char text[] = "{{ tools }}{{ documents }}{{ style }}{{ messages[0].name }}";
    lx_error err = {0};
    lx_jinja *t = NULL;
    lx_jinja_text got;
    json_t *more = json_pack("{s:s, s:s}", "name", "me", "content", "no");
    json_t *variables = json_pack("{s:s}", "style", "bold");
    const lx_jinja_message message = {.role = "user", .text = "say", .bytes = 3, .more = more};
    lx_jinja_chat chat = {.messages = &message, .n = 1, .variables = variables};
    must(lx_jinja_parse(text, sizeof text - 1, &t, &err), &err);
    must(lx_jinja_render_chat(t, &chat, NOW, MOST, &got, &err), &err);
    assert_string_equal(got.bytes, "NoneNoneboldme");
    for (size_t i = 0; i < got.n; i++)
        assert_int_equal(got.marks[i], i >= strlen("NoneNone"));
    fini(&got);
    lx_jinja_free(t);
    json_decref(more);
    json_decref(variables);
}

static void words_of_a_template_are_found(void **state)
{
    (void)state;
    static const char text[] =
        "tools {# think #}{% macro m(a) %}{% if a is defined and a.deep %}{% for x in y or "
        "[k] %}{{ x['sub'] | map(attribute='mapped') | list }}{% endfor %}{% endif %}{% endmacro "
        "%}";
    static const char *const there[] = {"a", "deep", "y", "k", "sub", "mapped"};
    static const char *const not_there[] = {"tools", "think", "de", "z", "mapped'"};
    lx_error err = {0};
    lx_jinja *t = NULL;
    must(lx_jinja_parse(text, sizeof text - 1, &t, &err), &err);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        assert_true(lx_jinja_has_word(t, there[i]));
    for (size_t i = 0; i < sizeof not_there / sizeof *not_there; i++)
        assert_false(lx_jinja_has_word(t, not_there[i]));
    lx_jinja_free(t);
}

static void expect_error(const char *text, lx_status status, const char *words)
{
    lx_error err = {0};
    lx_jinja_text got;
    scratch_expect(render(text, NULL, NULL, 1000, &got, &err), &err, status, words);
}

static char *repeated(const char *part, size_t times)
{
    char *all = calloc(strlen(part) * times + 1, 1);
    assert_non_null(all);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * strlen(part), part, strlen(part));
    return all;
}

static void everything_is_bounded(void **state)
{
    (void)state;
    expect_error("{% for i in range(100000000) %}{% endfor %}", LX_ERR_TOO_LARGE, "");
    expect_error("{% for i in range(3000) %}{% for j in range(3000) %}{% endfor %}{% endfor %}",
                 LX_ERR_TOO_LARGE, "over");
    expect_error("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x "
                 "+ ns.x %}{% endfor %}",
                 LX_ERR_TOO_LARGE, "bytes");
    expect_error("{{ 'a' * 2000 }}", LX_ERR_TOO_LARGE, "1000 bytes");
    expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", LX_ERR_TOO_LARGE, "nesting");
    expect_error("{{ 9 ** 99 }}", LX_ERR_INVALID, "too large");
    expect_error(
        "{% set ns = namespace(x='1') %}{% for i in range(21) %}{% set ns.x = ns.x + ns.x %}"
        "{% endfor %}{{ ns.x | from_json }}",
        LX_ERR_TOO_LARGE, "bytes of JSON");
    const char *const parts[] = {"(", "[", "{% if 1 %}", "-", "not ", "{{ a|", "1 if ", "x.", "x~"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *deep = repeated(parts[i], 20000), *text = calloc(1, strlen(deep) + 16);
        assert_non_null(text);
        (void)snprintf(text, strlen(deep) + 16, "%s%s", parts[i][0] == '{' ? "" : "{{ ", deep);
        lx_error err = {0};
        lx_jinja *t = NULL;
        lx_status st = lx_jinja_parse(text, strlen(text), &t, &err);
        assert_true(st == LX_ERR_TOO_LARGE || st == LX_ERR_FORMAT);
        free(text);
        free(deep);
    }
}

static void what_is_not_there_is_named(void **state)
{
    (void)state;
    expect_error("a\nb{% include 'x' %}", LX_ERR_UNSUPPORTED, "line 2: the statement include");
    expect_error("{{ 1 | sausage }}", LX_ERR_UNSUPPORTED, "the filter sausage");
    expect_error("{{ 1 is sausage }}", LX_ERR_UNSUPPORTED, "the test sausage");
    expect_error("{{ 'é' | upper }}", LX_ERR_UNSUPPORTED, "A to Z");
    expect_error("{{ '%s' % 1 }}", LX_ERR_UNSUPPORTED, "formats");
    expect_error("{{ raise_exception('no roles') }}", LX_ERR_INVALID, "no roles");
    expect_error("{{ tools.name }}", LX_ERR_INVALID, "tools is undefined");
}

static void memory_may_be_missing(void **state)
{
    (void)state;
    const lx_jinja_message message = {.role = "user", .text = "hi", .bytes = 2};
    const lx_jinja_chat chat = {.messages = &message, .n = 1, .begin = "<s>"};
    static const char text[] = "{% for m in messages %}{{ bos_token + m.content }}{% endfor %}";
    for (int n = 1;; n++) {
        lx_error err = {0};
        lx_jinja *t = NULL;
        lx_jinja_text got = {0};
        failing_arm(n);
        lx_status st = lx_jinja_parse(text, sizeof text - 1, &t, &err);
        if (st == LX_OK)
            st = lx_jinja_render_chat(t, &chat, NOW, MOST, &got, &err);
        lx_jinja_free(t);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            assert_string_equal(got.bytes, "<s>hi");
            fini(&got);
            break;
        }
        assert_int_equal(st, LX_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_jinjas),
        cmocka_unit_test(what_a_client_wrote_is_marked),
        cmocka_unit_test(a_chat_goes_on_with_its_last_message),
        cmocka_unit_test(a_chat_has_variables),
        cmocka_unit_test(words_of_a_template_are_found),
        cmocka_unit_test(everything_is_bounded),
        cmocka_unit_test(what_is_not_there_is_named),
        cmocka_unit_test(memory_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
