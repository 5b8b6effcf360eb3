/* The page without JavaScript: the form as it is read, the template as it is filled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/routes/assets.h"
#include "server/routes/page.h"

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
    const lx_form_limits limits = {.n = 128, .images = 1000};
    return lx_form_read(body, strlen(body), &limits, form, err);
}

static void test_line_has_no_white_space(void **state)
{
    (void)state;
    static const struct {
        const char *upper, *expected;
    } cases[] = {
        {"", ""},
        {" \t\r\n", ""},
        {"海上明月", "海上明月"},
        {" 海上　明 月\n", "海上明月"},
        {"\xc2\xa0海", "海"},
        {"\xff \xe6\xb5", "\xff\xe6\xb5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_form form = {.upper_bytes = strlen(cases[i].upper)};
        memcpy(form.upper, cases[i].upper, form.upper_bytes);
        char line[LX_FORM_TEXT_BYTES];
        assert_int_equal(lx_form_line(&form, line), strlen(cases[i].expected));
        assert_string_equal(line, cases[i].expected);
    }
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
        assert_false(f.image);
        assert_int_equal(f.n, 5);
        assert_string_equal(f.n_text, "5");
        assert_false(f.has_seed);
        assert_string_equal(f.seed_text, "");
        assert_true(f.temperature == 0.8);
    }
}

static void test_image_form(void **state)
{
    (void)state;
    lx_form f;
    lx_error err;
    assert_int_equal(read_form("task=image", &f, &err), LX_OK);
    assert_true(f.image);
    assert_int_equal(f.n, 16);
    assert_true(f.temperature == 1);
    assert_int_equal(read_form("n=64&seed=3&task=image&temperature=0.50", &f, &err), LX_OK);
    assert_int_equal(f.n, LX_FORM_MAX_IMAGES);
    assert_true(f.has_seed);
    assert_string_equal(f.temperature_text, "0.50");
    assert_int_equal(read_form("task=image&n=65", &f, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "n");
    assert_int_equal(read_form("task=imagery&n=65", &f, &err), LX_OK);
    assert_false(f.image);
    const lx_form_limits few = {.n = 128, .images = 4};
    assert_int_equal(lx_form_read("task=image&n=5", 14, &few, &f, &err), LX_ERR_INVALID);
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
    assert_int_equal(read_form("n=0&upper=abc&temperature=hot&seed=%22", &f, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "n");
    assert_string_equal(f.upper, "abc");
    assert_string_equal(f.n_text, "0");
    assert_string_equal(f.temperature_text, "hot");
    assert_string_equal(f.seed_text, "\"");
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
    char number[LX_FORM_NUMBER_BYTES + 16] = "seed=";
    memset(number + 5, '1', LX_FORM_NUMBER_BYTES);
    assert_int_equal(read_form(number, &f, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "seed");
    assert_string_equal(f.seed_text, "");
}

static const char template[] = "<input value=\"{{upper}}\"> {{other}} <!--linnet:answers--> end";
static const char both[] = "{{n}} {{temperature}} {{seed}}|<!--linnet:answers-->|"
                           "{{image_n}} {{image_temperature}} {{image_seed}}|<!--linnet:images-->";

static void render_template(const char *html, const lx_page *page, lx_buffer *out)
{
    lx_buffer_init(out, 100000);
    lx_page_render(html, strlen(html), page, out);
    assert_int_equal(out->status, LX_OK);
}

static void render(const lx_page *page, lx_buffer *out)
{
    render_template(template, page, out);
}

/* A form as it comes from a browser. */
static lx_form sent(const char *body)
{
    lx_form f;
    lx_error err;
    (void)read_form(body, &f, &err);
    return f;
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
    lx_form form = sent("upper=\"><script>{{upper}}<!--linnet:answers-->");
    render(&(lx_page){.form = &form, .error = "bad <b>"}, &out);
    assert_string_equal(
        out.data, "<input value=\"&quot;&gt;&lt;script&gt;{{upper}}&lt;!--linnet:answers--&gt;"
                  "\"> {{other}} <p class=\"error\" role=\"alert\">bad &lt;b&gt;</p> end");
    lx_buffer_fini(&out);
}

static void test_answers_page(void **state)
{
    (void)state;
    const lx_page_answer answers[] = {{"天涯故人", 12, -2.314}, {"<i>", 3, -2.9}};
    lx_form form = sent("upper= 海上明月 ");
    lx_page page = {.form = &form, .answers = answers, .n_answers = 2, .seed = 7};
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

static void test_each_form_keeps_what_it_sent(void **state)
{
    (void)state;
    static const struct {
        const char *body, *expected;
    } cases[] = {
        {"n=3&temperature=0.10&seed=7", "3 0.10 7|E|16 1 |"},
        {"n=&temperature=&seed=", "5 0.8 |E|16 1 |"},
        {"n=<&temperature=x&seed=-1", "&lt; x -1|E|16 1 |"},
        {"task=image&n=9&temperature=2&seed=0", "5 0.8 ||9 2 0|E"},
        {"task=image", "5 0.8 ||16 1 |E"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lx_buffer out;
        lx_form form = sent(cases[i].body);
        render_template(both, &(lx_page){.form = &form, .error = "E"}, &out);
        const char *error = "<p class=\"error\" role=\"alert\">E</p>";
        char *at = strstr(out.data, error);
        assert_non_null(at);
        memmove(at + 1, at + strlen(error), strlen(at + strlen(error)) + 1);
        *at = 'E';
        assert_string_equal(out.data, cases[i].expected);
        lx_buffer_fini(&out);
    }
    lx_buffer out;
    render_template(both, &(lx_page){0}, &out);
    assert_string_equal(out.data, "5 0.8 ||16 1 |");
    lx_buffer_fini(&out);
}

static void test_images_page(void **state)
{
    (void)state;
    lx_buffer png, images, out;
    lx_buffer_init(&png, 100);
    lx_buffer_append(&png, "\x89PNG", 4);
    lx_buffer_init(&images, 10000);
    lx_page_add_image(0, 28, 20, &png, &images);
    lx_page_add_image(1, 28, 20, &png, &images);
    lx_form form = sent("task=image&n=2");
    lx_page page = {.form = &form, .images = &images, .grey = true, .seed = 11};
    render_template(both, &page, &out);
    assert_non_null(strstr(out.data, "5 0.8 ||2 1 |<section class=\"pictures\">"));
    assert_non_null(strstr(out.data, "<ul class=\"tiles grey\">"));
    assert_non_null(strstr(out.data,
                           "<li><img class=\"picture\" alt=\"2\" width=\"28\" height=\"20\" "
                           "src=\"data:image/png;base64,iVBORw==\"></li>"));
    assert_non_null(strstr(out.data, "seed 11"));
    lx_buffer_fini(&out);
    page.grey = false;
    render_template(both, &page, &out);
    assert_non_null(strstr(out.data, "<ul class=\"tiles\">"));
    lx_buffer_fini(&out);
    lx_buffer_fini(&images);
    lx_buffer_fini(&png);
}

static void test_the_real_template_has_its_places(void **state)
{
    (void)state;
    const lx_asset *html = lx_asset_find("/index.html");
    assert_non_null(html);
    lx_buffer out;
    lx_buffer_init(&out, 1 << 20);
    lx_form form = sent("upper=上联在此&n=12345&temperature=6.7&seed=89012");
    lx_page page = {.form = &form, .error = "错误在此"};
    lx_page_render((const char *)html->data, html->size, &page, &out);
    static const char *const expected[] = {"value=\"上联在此\"", "value=\"12345\"", "value=\"6.7\"",
                                           "value=\"89012\"", "role=\"alert\">错误在此</p>"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_non_null(strstr(out.data, expected[i]));
    assert_null(strstr(out.data, "{{"));
    assert_null(strstr(out.data, "<!--linnet"));
    lx_buffer_fini(&out);
    form = sent("task=image&n=12345&temperature=6.7&seed=89012");
    lx_buffer_init(&out, 1 << 20);
    lx_page_render((const char *)html->data, html->size, &page, &out);
    for (size_t i = 1; i < sizeof expected / sizeof *expected; i++)
        assert_non_null(strstr(out.data, expected[i]));
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
        cmocka_unit_test(test_line_has_no_white_space),
        cmocka_unit_test(test_form_defaults),
        cmocka_unit_test(test_image_form),
        cmocka_unit_test(test_form_fields),
        cmocka_unit_test(test_bad_form_names_the_field),
        cmocka_unit_test(test_fields_behind_a_bad_one_are_kept_for_the_page),
        cmocka_unit_test(test_long_field_is_refused),
        cmocka_unit_test(test_empty_page),
        cmocka_unit_test(test_error_page_escapes),
        cmocka_unit_test(test_answers_page),
        cmocka_unit_test(test_each_form_keeps_what_it_sent),
        cmocka_unit_test(test_images_page),
        cmocka_unit_test(test_the_real_template_has_its_places),
        cmocka_unit_test(test_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
