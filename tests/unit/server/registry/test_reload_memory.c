/*
 * Reloads: which requests share one, and when a model before the current one must be gone. A model
 * has as much memory for growing states after a reload as it had before. Only a device, which would
 * need it twice at once, may have less until the next reload.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/log.h"
#include "server/registry/serving_internal.h"
#include "tests/support/patience.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

enum { MIB = 1 << 20, SLOTS = 4 };

static _Atomic int64_t device_memory;

static lx_status memory_of_device(lx_backend *be, int64_t *free_bytes, lx_error *err)
{
    (void)be;
    (void)err;
    *free_bytes = device_memory;
    return LX_OK;
}

static tiny_model_options options(uint64_t seed)
{
    tiny_model_options o = tiny_model_image;
    o.attention = "{\"kind\": \"softmax\"}";
    o.seed = seed;
    return o;
}

/* --- a server and its reloads --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char *folder;
static uint64_t seed;

static void wake(void *context)
{
    (void)context;
    (void)pthread_mutex_lock(&lock);
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

/* Stands for the plan of memory. */
static struct {
    lx_serving_bytes all; /* of the last call */
    int64_t weights;      /* new ones */
    int32_t n_settled;
    bool is_full, is_too_much;
} plan;

static lx_status has_room(void *memory, int64_t weights, lx_error *err)
{
    assert_ptr_equal(memory, &plan);
    plan.weights = weights;
    return plan.is_full ? lx_fail(err, LX_ERR_TOO_LARGE, "models", "no room") : LX_OK;
}

static lx_status settle(void *memory, const lx_serving_bytes *all, lx_error *err)
{
    assert_ptr_equal(memory, &plan);
    plan.all = *all;
    plan.n_settled++;
    return plan.is_too_much ? lx_fail(err, LX_ERR_TOO_LARGE, "models", "too much") : LX_OK;
}

static lx_serving *serve(int64_t page_bytes)
{
    lx_serving *s = NULL;
    lx_error err = {0};
    tiny_model_options o = options(++seed);
    folder = tiny_model_make("grows", &o);
    assert_non_null(folder);
    lx_serving_options options = {.backend = "cpu",
                                  .backend_options = {.n_threads = 1},
                                  .model_dir = folder,
                                  .n_slots = SLOTS,
                                  .state_bytes = MIB,
                                  .page_bytes = page_bytes,
                                  .prefix_bytes = MIB / 8,
                                  .prefix_most = MIB / 8,
                                  .has_room = has_room,
                                  .settle = settle,
                                  .memory = &plan};
    memset(&plan, 0, sizeof plan);
    assert_int_equal(lx_serving_new(&s, &err), LX_OK);
    if (lx_serving_load(s, &options, &err) != LX_OK)
        fail_msg("%s", err.text);
    return s;
}

static void stop(lx_serving *s)
{
    lx_serving_free(s);
    tiny_model_remove(folder);
}

/* Other weights, in a new file: the model before still reads its own. */
static void replace_weights(void)
{
    char from[4096], to[4096];
    tiny_model_options o = options(++seed);
    char *other = tiny_model_make("other", &o);
    assert_non_null(other);
    (void)snprintf(from, sizeof from, "%s/model.safetensors", other);
    (void)snprintf(to, sizeof to, "%s/model.safetensors", folder);
    assert_int_equal(rename(from, to), 0);
    tiny_model_remove(other);
}

static lx_reload *ask(lx_serving *s)
{
    lx_reload *r = NULL;
    lx_error err = {0};
    if (lx_reload_start(s, wake, NULL, &r, &err) != LX_OK)
        fail_msg("%s", err.text);
    return r;
}

static void wait_for_end(const lx_reload *r)
{
    (void)pthread_mutex_lock(&lock);
    while (!lx_reload_done(r))
        (void)pthread_cond_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
}

/* Waits for its end: whether it brought new weights. */
static bool has_changed(lx_reload *r)
{
    const lx_reloaded_model *models = NULL;
    int32_t n = 0;
    lx_error err = {0};
    wait_for_end(r);
    if (lx_reload_result(r, &models, &n, &err) != LX_OK)
        fail_msg("%s", err.text);
    assert_int_equal(n, 1);
    bool is_new = models[0].changed;
    lx_reload_release(r);
    return is_new;
}

static void reload(lx_serving *s)
{
    replace_weights();
    assert_true(has_changed(ask(s)));
}

static int64_t pool(lx_serving *s)
{
    int32_t turn = lx_serving_enter(s);
    int64_t bytes = atomic_load(&lx_serving_at(s, 0)->metrics.pool_bytes);
    lx_serving_leave(s, turn);
    return bytes;
}

/* --- tests --- */

static void a_reload_keeps_the_memory_of_what_grows(void **state)
{
    (void)state;
    lx_serving *s = serve(0);
    int64_t first = pool(s);
    assert_in_range(first, MIB / 4, MIB);
    lx_serving_bytes all = plan.all;
    assert_in_range(all.held, first, MIB);
    assert_true(all.weights > 0 && all.prefixes > 0);
    reload(s);
    assert_int_equal(pool(s), first);
    assert_int_equal(plan.n_settled, 2);
    assert_int_equal(plan.all.held, all.held);
    assert_int_equal(plan.all.prefixes, all.prefixes);
    assert_int_equal(plan.weights, all.weights);
    stop(s);
}

static void a_reload_that_has_no_room_changes_nothing(void **state)
{
    (void)state;
    const lx_reloaded_model *models = NULL;
    int32_t n = 0;
    lx_error err = {0};
    lx_serving *s = serve(0);
    uint64_t hash = lx_serving_at(s, 0)->model->hash;
    replace_weights();
    plan.is_full = true;
    lx_reload *r = ask(s);
    wait_for_end(r);
    scratch_expect(lx_reload_result(r, &models, &n, &err), &err, LX_ERR_TOO_LARGE, "no room");
    lx_reload_release(r);
    assert_int_equal(plan.n_settled, 1);
    plan.is_full = false;
    plan.is_too_much = true;
    r = ask(s);
    wait_for_end(r);
    scratch_expect(lx_reload_result(r, &models, &n, &err), &err, LX_ERR_TOO_LARGE, "too much");
    lx_reload_release(r);
    assert_int_equal(lx_serving_at(s, 0)->model->hash, hash);
    plan.is_too_much = false;
    assert_true(has_changed(ask(s)));
    assert_false(has_changed(ask(s))); /* nothing to plan */
    assert_int_equal(plan.n_settled, 3);
    stop(s);
}

static void a_device_may_have_less_until_the_next_reload(void **state)
{
    (void)state;
    lx_serving *s = serve(0);
    int64_t first = pool(s);
    static lx_kernels device; /* models use it until the last one is freed */
    device = *s->be->ops;
    device.is_device = true;
    device.memory = memory_of_device;
    s->be->ops = &device;
    device_memory = MIB;
    reload(s);
    assert_in_range(pool(s), 1, first - 1);
    device_memory = 64 * MIB;
    reload(s);
    assert_int_equal(pool(s), first);
    stop(s);
}

static void what_was_asked_for_stays(void **state)
{
    (void)state;
    lx_serving *s = serve(2 * MIB);
    assert_int_equal(pool(s), 2 * MIB);
    reload(s);
    assert_int_equal(pool(s), 2 * MIB);
    stop(s);
}

/* --- requests for reloads --- */

static int32_t n_joined(lx_serving *s)
{
    (void)pthread_mutex_lock(&s->lock);
    int32_t n = s->waiting != NULL ? s->waiting->refs - 1 : -1;
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

static void requests_join_the_reload_that_waits(void **state)
{
    (void)state;
    enum { MANY = 40 };
    lx_reload *first, *others[MANY];
    lx_serving *s = serve(0);
    int32_t turn = lx_serving_enter(s);
    lx_served_model *old = lx_serving_at(s, 0);
    lx_served_ref(old); /* as a request does */
    lx_serving_leave(s, turn);
    reload(s);
    replace_weights();
    first = ask(s);              /* waits for `old` */
    wait_until(n_joined(s) < 0); /* it has begun */
    for (int32_t i = 0; i < MANY; i++) {
        others[i] = ask(s);
        assert_int_equal(n_joined(s), i + 1);
    }
    assert_false(lx_reload_done(first) || lx_reload_done(others[0]));
    lx_served_unref(old);
    assert_true(has_changed(first));
    for (int32_t i = 0; i < MANY; i++)
        assert_false(has_changed(others[i]));
    stop(s);
}

static void the_end_answers_those_that_wait(void **state)
{
    (void)state;
    lx_error err = {0};
    const lx_reloaded_model *models = NULL;
    int32_t n = 0;
    lx_serving *s = serve(0);
    int32_t turn = lx_serving_enter(s);
    lx_served_ref(lx_serving_at(s, 0)); /* for good */
    lx_serving_leave(s, turn);
    reload(s);
    replace_weights();
    lx_reload *begun = ask(s);
    wait_until(n_joined(s) < 0); /* it has begun */
    lx_reload *waiting = ask(s);
    stop(s);
    assert_true(lx_reload_done(begun) && lx_reload_done(waiting));
    scratch_expect(lx_reload_result(begun, &models, &n, &err), &err, LX_ERR_UNAVAILABLE,
                   "stopping");
    scratch_expect(lx_reload_result(waiting, &models, &n, &err), &err, LX_ERR_UNAVAILABLE,
                   "stopping");
    lx_reload_release(begun);
    lx_reload_release(waiting);
}

static int setup(void **state)
{
    (void)state;
    lx_log_set_level(LX_LOG_ERROR);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reload_keeps_the_memory_of_what_grows),
        cmocka_unit_test(a_reload_that_has_no_room_changes_nothing),
        cmocka_unit_test(a_device_may_have_less_until_the_next_reload),
        cmocka_unit_test(what_was_asked_for_stays),
        cmocka_unit_test(requests_join_the_reload_that_waits),
        cmocka_unit_test(the_end_answers_those_that_wait),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
