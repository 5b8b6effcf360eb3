/* See engine_requests.h. */
#include "tests/support/engine_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

const char *const request_lines[5] = {"月", "海上明月", "春风，春雨", "山山水水，花花草草",
                                      "千里云中日，年年花不去"};
const lx_stops request_stops = {.n = 2, .stop = {{.bytes = 3, .text = "月"}, {3, "日"}}};
static const int32_t targets[] = {20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};

/* 48 values, as many as a picture has. */
static const uint8_t *pixels(void)
{
    static uint8_t values[48];
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = (uint8_t)(i * 11);
    return values;
}

rig_request line_request(int32_t i)
{
    rig_request q = {.line = request_lines[i % 5], .seed = (uint64_t)i, .n = 1 + i % 3};
    switch (i % 6) {
    case 0:
        break;
    case 1:
        q.no_rules = true;
        q.n_top = 4;
        break;
    case 2:
        q.no_rules = true;
        q.stops = &request_stops;
        break;
    case 3: /* "10 more": the whole line, and its state */
        q = (rig_request){
            .line = request_lines[3], .seed = 7, .no_rules = true, .keep_state = true};
        q.max_new = 9;
        break;
    case 4:
        q = (rig_request){.line = request_lines[4], .targets = targets, .n_top = 2};
        break;
    default: /* nothing but the state after the prompt */
        q = (rig_request){.line = request_lines[4], .keep_state = true};
    }
    return q;
}

rig_request picture_request(const lx_model *pictures, int32_t i)
{
    rig_request q = {.model = pictures,
                     .seed = (uint64_t)i,
                     .n = 1 + i % 3,
                     .values = pixels(),
                     .n_values = i % 9 == 7 ? 47 : i * 5 % 30,
                     .temperature = i % 5 == 4 ? 0.2f : 1};
    if (i % 3 == 0) { /* ends before the picture does */
        q.keep_state = true;
        q.max_new = 1 + i % 8;
        q.n = 1;
    }
    return q;
}

void assert_same_answer(const lx_job *got, const lx_job *want)
{
    const lx_job_params *p = lx_job_get_params(want);
    size_t state = (size_t)lx_job_plan(want)->model->state.fixed_floats * sizeof(float);
    assert_true(rig_hash(got) == rig_hash(want));
    for (int32_t i = 0; i < p->n; i++) {
        int32_t rows = 0, rows_got = 0, n = lx_job_tokens(want, i, NULL, NULL);
        const float *s = lx_job_state(want, i, &rows), *t = lx_job_state(got, i, &rows_got);
        assert_int_equal(rows_got, rows);
        if (p->keep_state)
            assert_memory_equal(t, s, state);
        if (p->n_top > 0)
            assert_memory_equal(lx_job_top(got, i), lx_job_top(want, i),
                                (size_t)(n * p->n_top) * sizeof(lx_sample));
    }
}

void assert_answer_begins(const lx_job *part, const lx_job *whole)
{
    for (int32_t i = 0; i < lx_job_get_params(part)->n; i++) {
        const int32_t *some, *all;
        int32_t n = lx_job_tokens(part, i, &some, NULL);
        assert_true(lx_job_tokens(whole, i, &all, NULL) >= n);
        assert_memory_equal(some, all, (size_t)n * sizeof *some);
    }
}
