/* The metrics page: exact lines, bucket borders, escaping, and promtool's opinion where it is
   installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/engine/metrics.h"

static char *render(const char *const *names, const lx_metrics *const *metrics, int32_t n)
{
    lx_buffer b;
    lx_buffer_init(&b, 1 << 20);
    lx_metrics_render(names, metrics, n, &b);
    char *text = lx_buffer_take(&b, NULL);
    assert_non_null(text);
    return text;
}

static void assert_line(const char *text, const char *line)
{
    char with_ends[256];
    (void)snprintf(with_ends, sizeof with_ends, "\n%s\n", line);
    if (strstr(text, with_ends) == NULL)
        fail_msg("no line \"%s\" in\n%s", line, text);
}

static void shows_counters_gauges_and_outcomes(void **state)
{
    (void)state;
    static lx_metrics m;
    m.requests[LX_OUTCOME_OK] = 3;
    m.requests[LX_OUTCOME_CANCELLED] = 2;
    m.generated_tokens = UINT64_C(12345678901);
    m.slots_total = 64;
    m.queue_length = 5;
    char *text = render((const char *[]){"couplet"}, (const lx_metrics *[]){&m}, 1);
    assert_line(text, "linnet_requests_total{model=\"couplet\",outcome=\"ok\"} 3");
    assert_line(text, "linnet_requests_total{model=\"couplet\",outcome=\"cancelled\"} 2");
    assert_line(text, "linnet_requests_total{model=\"couplet\",outcome=\"error\"} 0");
    assert_line(text, "linnet_generated_tokens_total{model=\"couplet\"} 12345678901");
    assert_line(text, "linnet_slots{model=\"couplet\"} 64");
    assert_line(text, "linnet_queue_length{model=\"couplet\"} 5");
    assert_line(text, "# TYPE linnet_slots gauge");
    assert_line(text, "# TYPE linnet_generated_tokens_total counter");
    free(text);
}

static void a_family_is_written_once_for_all_models(void **state)
{
    (void)state;
    static lx_metrics a, b;
    a.steps = 1;
    b.steps = 2;
    char *text = render((const char *[]){"one", "two"}, (const lx_metrics *[]){&a, &b}, 2);
    assert_line(text, "# TYPE linnet_steps_total counter\nlinnet_steps_total{model=\"one\"} 1\n"
                      "linnet_steps_total{model=\"two\"} 2");
    free(text);
}

static void buckets_are_cumulative_and_closed_above(void **state)
{
    (void)state;
    static lx_metrics m;
    lx_histogram_observe(&m.inter_token, 10000);                /* exactly 10 us */
    lx_histogram_observe(&m.inter_token, 10001);                /* just above */
    lx_histogram_observe(&m.inter_token, 500000000);            /* 0.5 s */
    lx_histogram_observe(&m.inter_token, INT64_C(60000000000)); /* above the last bound */
    lx_histogram_observe(&m.inter_token, -5);                   /* a clock gone wrong counts as 0 */
    char *text = render((const char *[]){"m"}, (const lx_metrics *[]){&m}, 1);
    assert_line(text, "linnet_inter_token_seconds_bucket{model=\"m\",le=\"1e-05\"} 2");
    assert_line(text, "linnet_inter_token_seconds_bucket{model=\"m\",le=\"2e-05\"} 3");
    assert_line(text, "linnet_inter_token_seconds_bucket{model=\"m\",le=\"0.2\"} 3");
    assert_line(text, "linnet_inter_token_seconds_bucket{model=\"m\",le=\"0.5\"} 4");
    assert_line(text, "linnet_inter_token_seconds_bucket{model=\"m\",le=\"20.0\"} 4");
    assert_line(text, "linnet_inter_token_seconds_bucket{model=\"m\",le=\"+Inf\"} 5");
    assert_line(text, "linnet_inter_token_seconds_sum{model=\"m\"} 60.500020001");
    assert_line(text, "linnet_inter_token_seconds_count{model=\"m\"} 5");
    free(text);
}

/* Each bound's own value falls into its bucket, one nanosecond more into the next. */
static void every_bound_is_where_its_text_says(void **state)
{
    (void)state;
    static const int64_t first[] = {1, 2, 5};
    int64_t unit = 10000;
    for (int32_t i = 0; i < LX_N_BUCKETS; i++) {
        lx_histogram h = {0};
        int64_t bound = first[i % 3] * unit;
        lx_histogram_observe(&h, bound);
        lx_histogram_observe(&h, bound + 1);
        assert_int_equal(h.buckets[i], 1);
        assert_int_equal(h.buckets[i + 1], 1);
        unit *= i % 3 == 2 ? 10 : 1;
    }
}

static void label_values_are_escaped(void **state)
{
    (void)state;
    static lx_metrics m;
    char *text = render((const char *[]){"a\"b\\c\nd"}, (const lx_metrics *[]){&m}, 1);
    assert_line(text, "linnet_slots{model=\"a\\\"b\\\\c\\nd\"} 0");
    free(text);
}

static void promtool_accepts_the_page(void **state)
{
    (void)state;
    if (system("command -v promtool >/dev/null") != 0) {
        print_message("promtool is not installed (package prometheus)\n");
        skip();
    }
    static lx_metrics m;
    lx_histogram_observe(&m.step_time, 1234567);
    char *text = render((const char *[]){"one", "two"}, (const lx_metrics *[]){&m, &m}, 2);
    FILE *pipe = popen("promtool check metrics", "w");
    assert_non_null(pipe);
    assert_int_equal(fputs(text, pipe) < 0, 0);
    assert_int_equal(pclose(pipe), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_counters_gauges_and_outcomes),
        cmocka_unit_test(a_family_is_written_once_for_all_models),
        cmocka_unit_test(buckets_are_cumulative_and_closed_above),
        cmocka_unit_test(every_bound_is_where_its_text_says),
        cmocka_unit_test(label_values_are_escaped),
        cmocka_unit_test(promtool_accepts_the_page),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
