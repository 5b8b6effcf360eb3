/* The page without JavaScript: the form as it is read, the template as it is filled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/assets.h"
#include "server/page.h"

static void test_escape(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"海上明月", "海上明月"},
        {"<script>alert(\"1\" & '2')</script>",
         "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;"},
        {"a\x01\x7f\n", "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xff<\xe6\xb5", "\xef\xbf\xbd&lt;\xef\xbf\xbd\xef\xbf\xbd"},
        {"&amp;", "&amp;amp;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_buffer out;
        lx_buffer_init(&out, 1000);
        lx_buffer_puts(&out, "");
        lx_page_escape(cases[i].text, strlen(cases[i].text), &out);
        assert_string_equal(out.data, cases[i].expected);
        lx_buffer_fini(&out);
    }
}

static lx_status read_form(const char *body, lx_form *form, lx_error *err)
{
    *err = (lx_error){0};
    return lx_form_read(body, strlen(body), 128, form, err);
}

static void test_form_defaults(void **state)
{
    (void)state;
    static const char *const bodies[] = {"", "&&", "upper=&n=&seed=&temperature=", "other=1&=2&x"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        lx_form f;
        lx_error err;
        assert_int_equal(read_form(bodies[i], &f, &err), LX_OK);
        assert_int_equal(f.upper_bytes, 0);
        assert_int_equal(f.n, 1);
        assert_false(f.has_seed);
        assert_true(f.temperature > 0.79 && f.temperature < 0.81);
    }
}

static void test_form_fields(void **state)
{
    (void)state;
    lx_form f;
    lx_error err;
    assert_int_equal(
        read_form("upper=%E6%B5%B7+a%2b%zz%4&n=7&seed=9007199254740991&temperature=0.5", &f, &err),
        LX_OK);
    assert_string_equal(f.upper, "海 a+%zz%4");
    assert_int_equal(f.n, 7);
    assert_true(f.has_seed);
    assert_true(f.seed == INT64_C(9007199254740991));
    assert_true(f.temperature == 0.5);
    assert_int_equal(read_form("upper=a%00b", &f, &err), LX_OK);
    assert_int_equal(f.upper_bytes, 3);
}

static void test_bad_form_names_the_field(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"n=0", "n"},
        {"n=129", "n"},
        {"n=1.5", "n"},
        {"n=1x", "n"},
        {"n=nan", "n"},
        {"seed=-1", "seed"},
        {"seed=9007199254740992", "seed"},
        {"temperature=nan", "temperature"},
        {"temperature=1e999", "temperature"},
        {"temperature=-0.1", "temperature"},
        {"temperature=11", "temperature"},
        {"n=0&seed=-1", "n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_form f;
        lx_error err;
        assert_int_equal(read_form(cases[i][0], &f, &err), LX_ERR_INVALID);
        assert_string_equal(err.param, cases[i][1]);
        assert_non_null(strstr(err.text, cases[i][1]));
    }
}

static void test_fields_behind_a_bad_one_are_kept_for_the_page(void **state)
{
    (void)state;
    lx_form f;
    lx_error err;
    assert_int_equal(read_form("n=0&upper=abc", &f, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "n");
    assert_string_equal(f.upper, "abc");
}

static void test_long_field_is_refused(void **state)
{
    (void)state;
    char body[LX_FORM_TEXT_BYTES + 16] = "upper=";
    lx_form f;
    lx_error err;
    memset(body + 6, 'a', LX_FORM_TEXT_BYTES - 1);
    assert_int_equal(read_form(body, &f, &err), LX_OK);
    assert_int_equal(f.upper_bytes, LX_FORM_TEXT_BYTES - 1);
    body[6 + LX_FORM_TEXT_BYTES - 1] = 'a';
    assert_int_equal(read_form(body, &f, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "prompt");
}

static const char template[] = "<input value=\"{{upper}}\"> {{other}} <!--linnet:answers--> end";

static void render(const lx_page *page, lx_buffer *out)
{
    lx_buffer_init(out, 100000);
    lx_page_render(template, sizeof template - 1, page, out);
    assert_int_equal(out->status, LX_OK);
}

static void test_empty_page(void **state)
{
    (void)state;
    lx_buffer out;
    render(&(lx_page){0}, &out);
    assert_string_equal(out.data, "<input value=\"\"> {{other}}  end");
    lx_buffer_fini(&out);
}

static void test_error_page_escapes(void **state)
{
    (void)state;
    lx_buffer out;
    const char *upper = "\"><script>{{upper}}<!--linnet:answers-->";
    render(&(lx_page){.upper = upper, .upper_bytes = strlen(upper), .error = "bad <b>"}, &out);
    assert_string_equal(
        out.data, "<input value=\"&quot;&gt;&lt;script&gt;{{upper}}&lt;!--linnet:answers--&gt;"
                  "\"> {{other}} <p class=\"error\" role=\"alert\">bad &lt;b&gt;</p> end");
    lx_buffer_fini(&out);
}

static void test_answers_page(void **state)
{
    (void)state;
    const lx_page_answer answers[] = {{"天涯故人", 12, -2.314}, {"<i>", 3, -2.9}};
    lx_page page = {
        .upper = " 海上明月 ", .upper_bytes = 14, .answers = answers, .n_answers = 2, .seed = 7};
    lx_buffer out;
    render(&page, &out);
    assert_non_null(strstr(out.data, "<p class=\"scroll upper\" lang=\"zh\">海上明月</p>"));
    assert_non_null(strstr(out.data, "<p class=\"scroll lower\" lang=\"zh\">天涯故人</p>"));
    assert_non_null(strstr(out.data, "<small class=\"score\">-2.31</small>"));
    assert_non_null(strstr(out.data, "<span class=\"line\">&lt;i&gt;</span>"));
    assert_non_null(strstr(out.data, "seed 7"));
    assert_null(strstr(out.data, "<i>"));
    lx_buffer_fini(&out);
}

static void test_the_real_template_has_both_places(void **state)
{
    (void)state;
    const lx_asset *html = lx_asset_find("/index.html");
    assert_non_null(html);
    lx_buffer out;
    lx_buffer_init(&out, 1 << 20);
    lx_page page = {.upper = "上联在此", .upper_bytes = 12, .error = "错误在此"};
    lx_page_render((const char *)html->data, html->size, &page, &out);
    assert_non_null(strstr(out.data, "value=\"上联在此\""));
    assert_non_null(strstr(out.data, "role=\"alert\">错误在此</p>"));
    assert_null(strstr(out.data, "{{"));
    assert_null(strstr(out.data, "<!--linnet"));
    lx_buffer_fini(&out);
}

static void test_full_buffer_is_an_error(void **state)
{
    (void)state;
    lx_buffer out;
    lx_buffer_init(&out, 10);
    lx_page_render(template, sizeof template - 1, &(lx_page){0}, &out);
    assert_int_equal(out.status, LX_ERR_TOO_LARGE);
    lx_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_form_defaults),
        cmocka_unit_test(test_form_fields),
        cmocka_unit_test(test_bad_form_names_the_field),
        cmocka_unit_test(test_fields_behind_a_bad_one_are_kept_for_the_page),
        cmocka_unit_test(test_long_field_is_refused),
        cmocka_unit_test(test_empty_page),
        cmocka_unit_test(test_error_page_escapes),
        cmocka_unit_test(test_answers_page),
        cmocka_unit_test(test_the_real_template_has_both_places),
        cmocka_unit_test(test_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
