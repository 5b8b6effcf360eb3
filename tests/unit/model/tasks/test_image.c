/*
 * The image task. Every input stream is compared with the pictures that it is made from, worked out
 * here from a padded copy. Given and generated values are treated alike, wherever the border
 * between them is. Some models and requests are refused, and a stored state keeps a part of the
 * picture.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/tasks/image.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum {
    MAX_SIDE = 9,
    MAX_SIZE = MAX_SIDE * MAX_SIDE * 3,
    OUTSIDE = 256,
    N_NAMES = 12,
    N_INPUTS = 8,
    SHOWN = 2
};

static const char *const names[N_NAMES] = {
    "token", "w", "ww", "n", "nw", "ne", "nn", "row", "column", "channel", "position", "class"};

/* --- the streams, another way --- */

/* A picture with two rows of OUTSIDE above it and two columns on each side. */
typedef struct padded {
    int32_t width, height, n_channels;
    int32_t v[MAX_SIDE + 2][MAX_SIDE + 4][3];
    int32_t flat[MAX_SIZE + 1]; /* raster order, OUTSIDE before its first value */
} padded;

static void pad(padded *p, const lx_config *config, const uint8_t *values)
{
    const lx_image_config *c = lx_image_of(config);
    p->width = c->width;
    p->height = c->height;
    p->n_channels = c->n_channels;
    for (int32_t i = 0; i < (MAX_SIDE + 2) * (MAX_SIDE + 4) * 3; i++)
        (&p->v[0][0][0])[i] = OUTSIDE;
    p->flat[0] = OUTSIDE;
    int32_t t = 0;
    for (int32_t y = 0; y < c->height; y++) {
        for (int32_t x = 0; x < c->width; x++) {
            for (int32_t k = 0; k < c->n_channels; k++, t++)
                p->flat[t + 1] = p->v[y + 2][x + 2][k] = values[t];
        }
    }
}

/* The id of a stream for the value of channel k at (x, y). */
static int32_t expected_id(const padded *p, const char *name, int32_t y, int32_t x, int32_t k)
{
    int32_t t = y * p->width * p->n_channels + x * p->n_channels + k;
    const int32_t ids[N_NAMES] = {p->flat[t],
                                  p->v[y + 2][x + 1][k],
                                  p->v[y + 2][x][k],
                                  p->v[y + 1][x + 2][k],
                                  p->v[y + 1][x + 1][k],
                                  p->v[y + 1][x + 3][k],
                                  p->v[y][x + 2][k],
                                  y,
                                  x,
                                  k,
                                  t,
                                  SHOWN};
    for (int32_t i = 0; i < N_NAMES; i++) {
        if (strcmp(names[i], name) == 0)
            return ids[i];
    }
    fail_msg("no stream %s", name);
    return -1;
}

/* --- models --- */

static int32_t size_of(const lx_image_config *c, int32_t name)
{
    const int32_t sizes[] = {c->height, c->width, c->n_channels,
                             c->width * c->height * c->n_channels, c->n_classes + 1};
    return name < 7 ? OUTSIDE + 1 : sizes[name - 7];
}

/* With n of the inputs, beginning with `first`; `token` is always the last but one. */
static lx_model model_of(int32_t width, int32_t height, int32_t n_channels, int32_t first)
{
    lx_model m = {.task = &lx_image_task};
    lx_config *c = &m.config;
    lx_image_config *own = lx_image_own(c);
    own->width = width;
    own->height = height;
    own->n_channels = n_channels;
    c->n_values = c->head_size = 256;
    c->n_inputs = N_INPUTS;
    for (int32_t i = 0; i < N_INPUTS; i++) {
        int32_t name = i == N_INPUTS - 2 ? 0 : 1 + (first + i) % (N_NAMES - 1);
        if (strcmp(names[name], "class") == 0)
            own->n_classes = snprintf(own->classes[0], LX_MAX_CLASS_NAMES, "zero 0 零") > 0 ? 3 : 0;
        (void)snprintf(c->inputs[i].name, sizeof c->inputs[i].name, "%s", names[name]);
        c->inputs[i].size = size_of(own, name);
    }
    return m;
}

static void fill(uint8_t *values, int32_t n, uint64_t seed)
{
    for (int32_t i = 0; i < n; i++)
        values[i] = (uint8_t)(scratch_random(&seed) >> 20);
}

static lx_plan *plan_of(const lx_model *m, const uint8_t *values, int32_t n)
{
    const lx_image_request own = {values, n,
                                  lx_image_of(&m->config)->n_classes > 0 ? SHOWN + 1 : 0};
    const lx_task_request request = {.own_of = &lx_image_task, .own = &own};
    lx_plan *plan = NULL;
    lx_error err = {0};
    if (lx_plan_new(m, &request, &plan, &err) != LX_OK)
        fail_msg("%s", err.text);
    return plan;
}

/* --- tests --- */

static void expect_row(const lx_model *m, const padded *p, int32_t t, const int32_t *ids)
{
    const lx_config *c = &m->config;
    const lx_image_config *own = lx_image_of(c);
    int32_t k = t % own->n_channels, x = t / own->n_channels % own->width,
            y = t / own->n_channels / own->width;
    for (int32_t i = 0; i < c->n_inputs; i++) {
        int32_t id = expected_id(p, c->inputs[i].name, y, x, k);
        if (ids[i] != id)
            fail_msg("%d x %d x %d, value %d: %s is %d, not %d", own->width, own->height,
                     own->n_channels, t, c->inputs[i].name, ids[i], id);
        assert_in_range(id, 0, c->inputs[i].size - 1);
    }
}

/* All rows of one picture of which the first n values are given. */
static void expect_rows(const lx_model *m, const uint8_t *values, int32_t n)
{
    static padded p;
    int32_t size = lx_image_size(&m->config), tokens[MAX_SIZE], ids[N_INPUTS];
    uint8_t raster[MAX_SIZE];
    lx_plan *plan = plan_of(m, values, n);
    pad(&p, &m->config, values);
    assert_int_equal(plan->n_prompt, n + 1);
    assert_int_equal(plan->n_new, size - n);
    assert_int_equal(lx_image_given(plan), n);
    for (int32_t t = 0; t <= n; t++)
        expect_row(m, &p, t, plan->prompt_ids + t * m->config.n_inputs);
    for (int32_t i = 0; i < size - n; i++)
        tokens[i] = -1; /* not made yet: must not be looked at */
    for (int32_t step = 0; step + 1 < plan->n_new; step++) {
        tokens[step] = values[n + step];
        m->task->input(plan, step, tokens, ids);
        expect_row(m, &p, n + step + 1, ids);
    }
    tokens[size - n - 1] = values[size - 1];
    for (int32_t k = 0; k <= size - n; k++) {
        memset(raster, 0xee, sizeof raster);
        lx_image_values(plan, tokens, 0, n + k, raster);
        assert_memory_equal(raster, values, (size_t)(n + k));
        assert_true(n + k == size || raster[n + k] == 0xee);
        int32_t from = (n + k) / 3;
        memset(raster, 0xee, sizeof raster); /* no value that was not asked for is written */
        lx_image_values(plan, tokens, from, n + k, raster);
        assert_memory_equal(raster, values + from, (size_t)(n + k - from));
        assert_true(n + k - from == size || raster[n + k - from] == 0xee);
    }
    lx_plan_free(plan);
}

static void streams_are_as_described(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{1, 1}, {1, 5}, {5, 1}, {2, 2}, {3, 2}, {9, 4}, {4, 9}};
    uint8_t values[MAX_SIZE];
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        for (int32_t first = 0; first < N_NAMES - 1; first += 3) {
            lx_model m = model_of(sizes[i / 2][0], sizes[i / 2][1], i % 2 == 0 ? 1 : 3, first);
            int32_t size = lx_image_size(&m.config);
            assert_int_equal(size, sizes[i / 2][0] * sizes[i / 2][1] * (i % 2 == 0 ? 1 : 3));
            assert_int_equal(lx_image_task.check_model(&m, NULL), LX_OK);
            fill(values, size, i + 1);
            for (int32_t n = 0; n < size; n++)
                expect_rows(&m, values, n);
        }
    }
}

/* Every picture of a strip has the inputs that it would have alone. */
static void a_strip_is_pictures_with_one_state(void **state)
{
    (void)state;
    enum { COUNT = 3, WIDTH = 4, PERIOD = 3 };
    for (int32_t first = 0; first < N_NAMES - 1; first++) {
        lx_model alone = model_of(WIDTH, PERIOD, 3, first), strip = alone;
        int32_t size = lx_image_size(&alone.config), n_inputs = alone.config.n_inputs;
        uint8_t values[COUNT * WIDTH * PERIOD * 3];
        lx_image_own(&strip.config)->height = COUNT * PERIOD;
        lx_image_own(&strip.config)->period = PERIOD;
        assert_int_equal(lx_image_task.check_model(&strip, NULL), LX_OK);
        fill(values, COUNT * size, (uint64_t)first + 1);
        lx_plan *all = plan_of(&strip, values, COUNT * size - 1);
        for (int32_t i = 0; i < COUNT; i++) {
            lx_plan *one = plan_of(&alone, values + i * size, size - 1);
            assert_memory_equal(all->prompt_ids + i * size * n_inputs, one->prompt_ids,
                                (size_t)(size * n_inputs) * sizeof *one->prompt_ids);
            lx_plan_free(one);
        }
        lx_plan_free(all);
    }
}

static void nothing_is_forbidden(void **state)
{
    (void)state;
    lx_model m = model_of(4, 4, 1, 0);
    uint8_t values[3] = {1, 2, 3}, banned[256];
    int32_t tokens[13] = {0};
    lx_constraint c = {.n_banned = 5, .use_mask = true};
    lx_buffer text;
    lx_plan *plan = plan_of(&m, values, 3);
    for (int32_t step = 0; step < plan->n_new; step++) {
        m.task->constrain(plan, step, tokens, &c);
        assert_true(c.forced == -1 && !c.use_mask && c.n_banned == 0);
    }
    memset(banned, 1, sizeof banned);
    m.task->fill_mask(&m, 0, banned);
    for (size_t i = 0; i < sizeof banned; i++)
        assert_int_equal(banned[i], 0);
    lx_buffer_init(&text, 100);
    lx_plan_text(plan, tokens, plan->n_new, &text); /* there is none */
    assert_true(text.length == 0 && text.status == LX_OK);
    assert_int_equal(m.task->modality, LX_IMAGE);
    assert_ptr_equal(lx_task_find("image"), &lx_image_task);
    lx_plan_free(plan);
}

static void refuse_model(const lx_model *m, const char *part)
{
    lx_error err = {0};
    scratch_expect(lx_image_task.check_model(m, &err), &err, LX_ERR_FORMAT, part);
}

static void other_models_are_refused(void **state)
{
    (void)state;
    const lx_model good = model_of(5, 4, 3, 0);
    static char vocab; /* only looked at for being there */
    lx_model m = good;
    m.vocab = (lx_vocab *)(void *)&vocab;
    refuse_model(&m, "vocab.txt: the image task has no vocabulary");
    for (int32_t n = 255; n < 258; n += 2) {
        m = good;
        m.config.n_values = n;
        refuse_model(&m, "head");
    }
    m = good;
    (void)snprintf(m.config.inputs[2].name, LX_MAX_NAME, "mirror");
    refuse_model(&m, "no input mirror");
    m = good;
    m.config.inputs[N_INPUTS - 2] = (lx_input){"position", 60};
    refuse_model(&m, "needs the input token");
    for (int32_t first = 0; first < N_NAMES - 1; first++) {
        for (int32_t i = 0; i < N_INPUTS; i++) {
            m = model_of(5, 4, 3, first);
            m.config.inputs[i].size += i % 2 == 0 ? 1 : -1;
            refuse_model(&m, m.config.inputs[i].name);
            refuse_model(&m, "but this image needs");
        }
    }
}

static void refuse_request(const lx_model *m, const lx_task_request *q, const char *param)
{
    lx_plan *plan = NULL;
    lx_error err = {0};
    assert_int_equal(lx_plan_new(m, q, &plan, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, param);
    assert_true(err.text[0] != '\0');
    assert_null(plan);
}

static lx_model classes_model(void)
{
    lx_model m = model_of(5, 4, 1, N_NAMES - 3); /* has the input class */
    assert_int_equal(lx_image_own(&m.config)->n_classes, 3);
    (void)snprintf(lx_image_own(&m.config)->classes[1], LX_MAX_CLASS_NAMES, "one 1 一");
    (void)snprintf(lx_image_own(&m.config)->classes[2], LX_MAX_CLASS_NAMES, "twenty-one 21 廿一");
    return m;
}

static void a_text_names_a_class(void **state)
{
    (void)state;
    lx_model m = classes_model();
    static const struct {
        const char *text;
        int32_t found;
    } texts[] = {
        {"zero", 1},     {"0", 1},          {"A Zero, please", 1},
        {"请画零。", 1}, {"one", 2},        {"ONE!", 2},
        {"1.", 2},       {"  the one ", 2}, {"", 0},
        {"someone", 0},  {"ones", 0},       {"10", 0},
        {"a digit", 0},  {"0 or 1", 0},     {"one and one", 2},
        {"21", 3},       {"twenty-one", 0}, /* names "one" too */
        {"\xe9\x9b", 0},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t found = lx_image_find_class(&m.config, texts[i].text, strlen(texts[i].text));
        if (found != texts[i].found)
            fail_msg("\"%s\" names %d, not %d", texts[i].text, found, texts[i].found);
    }
    assert_int_equal(lx_image_find_class(&m.config, "one\0zero", 3), 2); /* no further */
    lx_image_own(&m.config)->n_classes = 0;
    assert_int_equal(lx_image_find_class(&m.config, "zero", 4), 0);
}

static void a_class_is_restated(void **state)
{
    (void)state;
    lx_model m = classes_model();
    uint8_t values[3] = {7, 8, 9};
    for (int32_t number = 0; number <= 3; number++) {
        const lx_image_request own = {values, 3, number};
        const lx_task_request request = {.own_of = &lx_image_task, .own = &own};
        lx_plan *plan = NULL, *again = NULL;
        lx_buffer bytes;
        assert_int_equal(lx_plan_new(&m, &request, &plan, NULL), LX_OK);
        assert_int_equal(lx_image_class(plan), number);
        lx_buffer_init(&bytes, 100);
        bool flag = m.task->restate(plan, &bytes);
        assert_int_equal(bytes.length, number > 0 ? 4 : 3);
        assert_int_equal(lx_plan_again(&m, bytes.data, bytes.length, flag, false, &again, NULL),
                         LX_OK);
        uint8_t back[3];
        assert_int_equal(lx_image_class(again), number);
        assert_int_equal(lx_image_given(again), 3);
        lx_image_values(again, NULL, 0, 3, back);
        assert_memory_equal(back, values, 3);
        lx_buffer_fini(&bytes);
        lx_plan_free(again);
        lx_plan_free(plan);
    }
    lx_plan *none = NULL;
    lx_error err = {0};
    assert_int_equal(lx_plan_again(&m, "", 0, true, false, &none, &err), LX_ERR_INVALID);
    assert_string_equal(err.param, "state");
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    lx_model m = model_of(5, 4, 3, 0);
    uint8_t values[61] = {0};
    refuse_request(&m, &(lx_task_request){.text = "海", .text_bytes = 3}, "prompt");
    refuse_request(
        &m,
        &(lx_task_request){.own_of = &lx_image_task, .own = &(lx_image_request){.class_number = 1}},
        "class");
    lx_model classes = classes_model();
    refuse_request(
        &classes,
        &(lx_task_request){.own_of = &lx_image_task, .own = &(lx_image_request){.class_number = 4}},
        "class");
    refuse_request(&m,
                   &(lx_task_request){.own_of = &lx_image_task,
                                      .own = &(lx_image_request){.values = values, .n_values = 60}},
                   "image");
    refuse_request(&m,
                   &(lx_task_request){.own_of = &lx_image_task,
                                      .own = &(lx_image_request){.values = values, .n_values = 61}},
                   "image");
    refuse_request(
        &m,
        &(lx_task_request){.own_of = &lx_image_task,
                           .own = &(lx_image_request){.values = values, .n_values = INT32_MAX}},
        "image");
    refuse_request(&m,
                   &(lx_task_request){.own_of = &lx_image_task,
                                      .own = &(lx_image_request){.values = values, .n_values = -1}},
                   "image");
    lx_plan_free(plan_of(&m, values, 59));
    lx_plan_free(plan_of(&m, NULL, 0));
}

/* A plan must not look at the request's values later. */
static void a_plan_has_values_of_its_own(void **state)
{
    (void)state;
    lx_model m = model_of(3, 3, 1, 0);
    uint8_t values[4] = {9, 8, 7, 6}, raster[9];
    int32_t token = 5;
    lx_plan *plan = plan_of(&m, values, 4);
    memset(values, 0, sizeof values);
    lx_image_values(plan, &token, 0, 5, raster);
    assert_memory_equal(raster, "\x09\x08\x07\x06\x05", 5);
    lx_plan_free(plan);
}

/* Tokens are places in the palette, values its own; of two that are as near the lower is taken. */
static void a_palette_stands_between(void **state)
{
    (void)state;
    static const uint8_t given[] = {0, 4, 5, 132, 133, 254};
    static const int32_t levels[] = {0, 0, 1, 1, 2, 2};
    lx_model m = model_of(4, 2, 1, 0);
    lx_config *c = &m.config;
    lx_image_config *own = lx_image_own(c);
    memcpy(own->palette, "\x00\x09\xff", 3);
    own->n_palette = 3;
    lx_error err = {0};
    scratch_expect(lx_image_task.check_model(&m, &err), &err, LX_ERR_FORMAT, "an image has 3");
    c->n_values = c->head_size = 3;
    for (int32_t i = 0; i < c->n_inputs; i++)
        c->inputs[i].size = c->inputs[i].size == 257 ? 4 : c->inputs[i].size;
    assert_int_equal(lx_image_task.check_model(&m, NULL), LX_OK);
    lx_plan *plan = plan_of(&m, given, 6);
    int32_t at = c->n_inputs - 2, tokens[] = {2, 1}; /* where `token` is */
    assert_string_equal(c->inputs[at].name, "token");
    for (int32_t t = 0; t <= 6; t++)
        assert_int_equal(plan->prompt_ids[t * c->n_inputs + at], t > 0 ? levels[t - 1] : 3);
    uint8_t raster[8];
    lx_image_values(plan, tokens, 0, 8, raster);
    assert_memory_equal(raster, "\x00\x00\x09\x09\xff\xff\xff\x09", 8);
    lx_buffer bytes;
    lx_buffer_init(&bytes, 64);
    assert_int_equal(lx_image_task.restate(plan, &bytes), own->n_classes > 0);
    assert_memory_equal(bytes.data + bytes.length - 6, raster, 6);
    lx_buffer_fini(&bytes);
    lx_plan_free(plan);
    for (int32_t value = 0; value < 256; value++) {
        int32_t level = lx_image_level(c, (uint8_t)value), far = 256;
        for (int32_t i = 0; i < 3; i++)
            far = abs(own->palette[i] - value) < far ? abs(own->palette[i] - value) : far;
        assert_int_equal(abs(own->palette[level] - value), far);
    }
}

static void what_is_kept_is_a_beginning(void **state)
{
    (void)state;
    for (int32_t channels = 1; channels <= 3; channels += 2) {
        lx_config c = {0};
        *lx_image_own(&c) = (lx_image_config){.width = 5, .height = 3, .n_channels = channels};
        for (int32_t kept = 0; kept <= 15; kept++) {
            uint8_t keep[15] = {0};
            for (int32_t i = 0; i < kept; i++)
                keep[i] = (uint8_t)(255 - 10 * i);
            assert_int_equal(lx_image_kept(&c, keep), kept * channels);
            for (int32_t i = kept + 1; i < 15; i++) { /* one pixel after a cleared one */
                keep[i] = 1;
                assert_int_equal(lx_image_kept(&c, keep), -1);
                keep[i] = 0;
            }
        }
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    lx_model m = model_of(5, 4, 3, 0);
    uint8_t values[30] = {0};
    int n = 1;
    for (;; n++) {
        lx_plan *plan = NULL;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_plan_new(
            &m,
            &(lx_task_request){.own_of = &lx_image_task,
                               .own = &(lx_image_request){.values = values, .n_values = 30}},
            &plan, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            lx_plan_free(plan);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "no memory");
        assert_null(plan);
    }
    assert_int_equal(n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_as_described),
        cmocka_unit_test(a_strip_is_pictures_with_one_state),
        cmocka_unit_test(nothing_is_forbidden),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(a_text_names_a_class),
        cmocka_unit_test(a_class_is_restated),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(a_plan_has_values_of_its_own),
        cmocka_unit_test(a_palette_stands_between),
        cmocka_unit_test(what_is_kept_is_a_beginning),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
