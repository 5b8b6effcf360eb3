/* The thread that draws: paintings in turn, ones that are given up, and too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "server/routes/painter.h"
#include "tests/support/failing.h"
#include "tests/support/patience.h"

/* Drawing stops at the gate. */
static atomic_bool open_gate;
static atomic_int n_begun, n_drawn, n_wakes;

static lx_status draw(void *context, lx_font *font, lx_buffer *png, lx_error *err)
{
    atomic_fetch_add(&n_begun, 1);
    wait_until(atomic_load(&open_gate));
    assert_null(font);
    lx_buffer_puts(png, context);
    atomic_fetch_add(&n_drawn, 1);
    if (strcmp(context, "lacks") == 0)
        return lx_fail(err, LX_ERR_NOT_FOUND, NULL, "a font lacks a character");
    return strcmp(context, "wrong") == 0 ? lx_fail(err, LX_ERR_INVALID, "line", "it is wrong")
                                         : LX_OK;
}

static void wake(void *context)
{
    assert_null(context);
    atomic_fetch_add(&n_wakes, 1);
}

static lx_painter *new_painter(bool gate)
{
    lx_painter *p = NULL;
    lx_error err = {0};
    atomic_store(&open_gate, gate);
    atomic_store(&n_begun, 0);
    atomic_store(&n_drawn, 0);
    atomic_store(&n_wakes, 0);
    assert_int_equal(lx_painter_new(NULL, &p, &err), LX_OK);
    assert_false(lx_painter_has_font(p));
    return p;
}

static lx_response take(lx_painter *p, lx_painting *g, const char *what)
{
    lx_response rs = {0};
    *g = (lx_painting){.draw = draw, .context = (char *)(uintptr_t)what, .wake = wake};
    lx_painter_take(p, g, 77, &rs);
    return rs;
}

/* The response that the client gets. */
static lx_response answer(const lx_response *taken)
{
    const lx_deferred *d = &taken->deferred;
    lx_response rs = {0};
    assert_non_null(d->context);
    assert_int_equal(d->deadline_ns, 77);
    wait_until(d->is_done(d->context));
    d->finish(d->context, &rs);
    d->release(d->context);
    return rs;
}

static void test_paintings_are_drawn_in_turn(void **state)
{
    (void)state;
    lx_painter *p = new_painter(true);
    lx_painting g[3];
    static const char *const what[] = {"one", "two", "three"};
    lx_response taken[3];
    for (int32_t i = 0; i < 3; i++)
        taken[i] = take(p, &g[i], what[i]);
    for (int32_t i = 2; i >= 0; i--) {
        lx_response rs = answer(&taken[i]);
        assert_int_equal(rs.status, 200);
        assert_string_equal(rs.content_type, "image/png");
        assert_string_equal(rs.body, what[i]);
        free(rs.body);
    }
    assert_int_equal(atomic_load(&n_drawn), 3);
    assert_int_equal(atomic_load(&n_wakes), 3);
    lx_painter_free(p);
}

static void test_what_cannot_be_drawn(void **state)
{
    (void)state;
    lx_painter *p = new_painter(true);
    lx_painting g;
    lx_response taken = take(p, &g, "wrong"), rs = answer(&taken);
    assert_int_equal(rs.status, 400);
    assert_non_null(strstr(rs.body, "it is wrong"));
    free(rs.body);
    taken = take(p, &g, "lacks");
    rs = answer(&taken);
    assert_int_equal(rs.status, 200);
    assert_null(rs.body);
    assert_memory_equal(rs.static_body, "\x89PNG", 4);
    lx_painter_free(p);
}

/* Released while it waits, a painting is not drawn; while it is drawn, its release waits. */
static void *release(void *context)
{
    const lx_response *taken = context;
    taken->deferred.release(taken->deferred.context);
    return NULL;
}

static void test_one_that_is_given_up(void **state)
{
    (void)state;
    lx_painter *p = new_painter(false);
    lx_painting under_way, waiting[3], last;
    lx_response first = take(p, &under_way, "first"), taken[3];
    wait_until(atomic_load(&n_begun) == 1);
    for (int32_t i = 0; i < 3; i++)
        taken[i] = take(p, &waiting[i], "never");
    (void)release(&taken[1]);
    (void)release(&taken[2]); /* this is the last one: others are put after the one before it */
    lx_response end = take(p, &last, "last");
    (void)release(&taken[0]);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release, &first), 0);
    assert_int_equal(atomic_load(&n_drawn), 0);
    atomic_store(&open_gate, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(atomic_load(&n_drawn) >= 1); /* it was over before it was released */
    lx_response rs = answer(&end);
    assert_string_equal(rs.body, "last");
    free(rs.body);
    assert_int_equal(atomic_load(&n_drawn), 2);
    lx_painter_free(p);
}

static void test_a_cancelled_one_is_not_drawn(void **state)
{
    (void)state;
    lx_painter *p = new_painter(false);
    lx_painting g[2];
    lx_response first = take(p, &g[0], "first"), second = take(p, &g[1], "never");
    second.deferred.cancel(second.deferred.context);
    atomic_store(&open_gate, true);
    lx_response rs = answer(&first), none = answer(&second);
    assert_int_equal(rs.status, 200);
    assert_int_equal(none.status, 499);
    assert_int_equal(atomic_load(&n_drawn), 1);
    free(rs.body);
    free(none.body);
    lx_painter_free(p);
}

static void test_too_many_are_refused(void **state)
{
    (void)state;
    lx_painter *p = new_painter(false);
    lx_painting g[LX_PAINTER_MAX_WAITING + 2];
    lx_response taken[LX_PAINTER_MAX_WAITING + 1];
    taken[0] = take(p, &g[0], "first");
    wait_until(atomic_load(&n_begun) == 1);
    for (int32_t i = 1; i <= LX_PAINTER_MAX_WAITING; i++)
        taken[i] = take(p, &g[i], "waits");
    lx_response refused = take(p, &g[LX_PAINTER_MAX_WAITING + 1], "one too many");
    assert_int_equal(refused.status, 429);
    assert_string_equal(refused.headers[0].name, "Retry-After");
    assert_null(refused.deferred.context);
    free(refused.body);
    atomic_store(&open_gate, true);
    for (int32_t i = 0; i <= LX_PAINTER_MAX_WAITING; i++) {
        lx_response rs = answer(&taken[i]);
        assert_int_equal(rs.status, 200);
        free(rs.body);
    }
    assert_int_equal(atomic_load(&n_drawn), LX_PAINTER_MAX_WAITING + 1);
    lx_painter_free(p);
}

static void test_without_memory(void **state)
{
    (void)state;
    lx_painter *p = NULL;
    lx_error err = {0};
    failing_arm(1);
    assert_int_equal(lx_painter_new(NULL, &p, &err), LX_ERR_NO_MEMORY);
    assert_true(failing_hit());
    lx_painter_free(p);
    assert_false(lx_painter_has_font(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paintings_are_drawn_in_turn),
        cmocka_unit_test(test_what_cannot_be_drawn),
        cmocka_unit_test(test_one_that_is_given_up),
        cmocka_unit_test(test_a_cancelled_one_is_not_drawn),
        cmocka_unit_test(test_too_many_are_refused),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
