/* The probe of an idle engine: it steps, changes no answer, and finds a lost device before a job.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "tests/support/patience.h"
#include "tests/support/rig.h"

static const char *const line = "海上明月";

static void wait_for_probes(const rig *r, uint64_t n)
{
    wait_until(atomic_load(&r->metrics->probes) >= n);
}

static uint64_t answer(rig *r)
{
    lx_job *job = rig_submit(r, &(rig_request){.line = line, .seed = 7, .n = 5});
    lx_job_ref(job);
    rig_expect(job, LX_OK);
    uint64_t hash = rig_hash(job);
    lx_job_unref(job);
    return hash;
}

static void steps_while_idle(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.probe_ns = LX_NS_PER_MS});
    int64_t before = lx_engine_last_step_ns(r.engine);
    wait_for_probes(&r, 3);
    wait_until(lx_engine_last_step_ns(r.engine) > before); /* the three may have been before that */
    assert_true(lx_engine_idle(r.engine));
    assert_int_equal(r.metrics->steps, 0); /* those are of jobs */
    rig_assert_empty(&r);
    rig_stop(&r);
}

static void changes_no_answer(void **state)
{
    (void)state;
    rig quiet = rig_start((rig_options){.n_slots = 2});
    uint64_t expected = answer(&quiet);
    rig_stop(&quiet);
    rig r = rig_start((rig_options){.n_slots = 2, .probe_ns = 1});
    for (uint64_t i = 1; i < 20; i++) {
        wait_for_probes(&r, i);
        assert_int_equal(answer(&r), expected);
    }
    rig_stop(&r);
}

static void finds_a_lost_device(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.probe_ns = LX_NS_PER_MS});
    wait_for_probes(&r, 1);
    gate_lose_device();
    wait_until(!lx_engine_healthy(r.engine));
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_while_idle),
        cmocka_unit_test(changes_no_answer),
        cmocka_unit_test(finds_a_lost_device),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
