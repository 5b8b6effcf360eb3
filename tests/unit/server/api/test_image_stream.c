/*
 * Streams of images read every value once: a 256 x 256 picture told pixel by pixel would otherwise
 * read its raster 65,536 times. The test is the engine here and publishes one token at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/tasks/image.h"
#include "server/api/images.h"

enum { SIDE = 256, SIZE = SIDE * SIDE, GIVEN = 1000 };

static int64_t values_read;

void __real_lx_image_values(const lx_plan *plan, const int32_t *tokens, int32_t from, int32_t to,
                            uint8_t *out);
void __wrap_lx_image_values(const lx_plan *plan, const int32_t *tokens, int32_t from, int32_t to,
                            uint8_t *out);

void __wrap_lx_image_values(const lx_plan *plan, const int32_t *tokens, int32_t from, int32_t to,
                            uint8_t *out)
{
    values_read += to - from;
    __real_lx_image_values(plan, tokens, from, to, out);
}

static lx_model grey_model(void)
{
    lx_model m = {.task = &lx_image_task};
    *lx_image_own(&m.config) = (lx_image_config){.width = SIDE, .height = SIDE, .n_channels = 1};
    m.config.n_inputs = 1;
    m.config.n_values = m.config.head_size = 256;
    memcpy(m.config.inputs[0].name, "token", sizeof "token");
    m.config.inputs[0].size = 257;
    return m;
}

static lx_job *job_of(const lx_model *m)
{
    static const uint8_t given[GIVEN];
    static const lx_image_request own = {.values = given, .n_values = GIVEN};
    const lx_task_request request = {.own_of = &lx_image_task, .own = &own};
    lx_job_params params = {
        .n = 1, .max_new = SIZE - GIVEN, .sampling = {.temperature = 1, .top_p = 1}};
    lx_plan *plan = NULL;
    lx_job *job = NULL;
    lx_error err = {0};
    if (lx_plan_new(m, &request, &plan, &err) != LX_OK ||
        lx_job_new(plan, &params, NULL, NULL, &job, &err) != LX_OK)
        fail_msg("%s", err.text);
    return job;
}

static void pull(lx_image_answer *a, lx_buffer *out, bool ends)
{
    out->length = 0;
    assert_int_equal(lx_image_answer_pull(a, out), ends);
    assert_int_equal(out->status, LX_OK);
}

static void every_value_is_read_once(void **state)
{
    (void)state;
    lx_model m = grey_model();
    lx_job *job = job_of(&m);
    lx_served_model *served = calloc(1, sizeof *served);
    lx_image_answer *a = calloc(1, sizeof *a + sizeof *a->readers);
    assert_true(served != NULL && a != NULL);
    served->model = &m;
    a->images = (lx_images){
        .work = {.pending.served = served, .job = job, .params = lx_job_get_params(job)},
        .given = GIVEN,
        .size = SIZE,
        .raster = malloc(SIZE)};
    assert_non_null(a->images.raster);
    a->unit = LX_STREAM_PIXELS;
    a->readers[0].sent = GIVEN;
    lx_buffer_init(&a->event, LX_MAX_IMAGE_EVENT);
    lx_buffer out;
    lx_buffer_init(&out, 1 << 20);
    values_read = 0;
    for (int32_t i = 0; i < SIZE - GIVEN; i++) {
        (void)lx_job_push(job, 0, i % 256, -1.0F);
        if (i + 1 < SIZE - GIVEN) /* the last one comes with the whole picture */
            pull(a, &out, false);
    }
    assert_int_equal(values_read, SIZE - GIVEN - 1);
    lx_job_finish(job, LX_OK, NULL);
    for (bool ended = false; !ended;) {
        out.length = 0;
        ended = lx_image_answer_pull(a, &out);
        assert_int_equal(out.status, LX_OK);
    }
    assert_int_equal(values_read, SIZE - GIVEN + SIZE);
    lx_buffer_fini(&out);
    lx_buffer_fini(&a->event);
    free(a->images.raster);
    free(a);
    free(served);
    lx_job_unref(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_value_is_read_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
