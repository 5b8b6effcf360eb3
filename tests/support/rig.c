/* See rig.h. Failing from a fixture or a helper goes through cmocka's fail_msg, on the test's own
   thread only. */
#include "tests/support/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "model/tasks/image.h"
#include "tests/support/tiny_model.h"

static char *folder;
static lx_model *model;

int rig_setup(void **state)
{
    (void)state;
    lx_error err = {0};
    lx_log_set_level(LX_LOG_ERROR);
    folder = tiny_model_make("tiny", &tiny_model_default);
    if (folder == NULL || lx_model_load(folder, &model, &err) != LX_OK) {
        print_error("no tiny model: %s\n", err.text);
        tiny_model_remove(folder);
        return -1;
    }
    return 0;
}

int rig_teardown(void **state)
{
    (void)state;
    lx_model_free(model);
    tiny_model_remove(folder);
    return 0;
}

const lx_model *rig_model(void)
{
    return model;
}

static int32_t or_default(int32_t value, int32_t fallback)
{
    return value == 0 ? fallback : value;
}

rig rig_start(rig_options o)
{
    rig r = {0};
    lx_error err = {0};
    lx_engine_options options = {.n_slots = or_default(o.n_slots, 4)};
    options.max_queue = o.max_queue < 0 ? 0 : or_default(o.max_queue, 8);
    options.max_tokens = or_default(o.max_tokens, options.n_slots + 32);
    options.prompt_chunk = or_default(o.prompt_chunk, 64);
    options.prompt_beside = or_default(o.prompt_beside, 64);
    const lx_model *served = o.model != NULL ? o.model : model;
    options.prefix_bytes =
        o.n_prefixes * (served->state.fixed_floats + served->state.page_floats) * 4;
    options.prefix_every = o.prefix_every;
    options.share_prefixes = o.share_prefixes;
    options.page_bytes = o.n_pages * served->state.page_floats * (int64_t)sizeof(float);
    options.probe_ns = o.probe_ns;
    options.ahead = o.ahead;
    options.draft = o.draft;
    options.guesser = o.guesser;
    options.move_bytes = o.move_bytes;
    options.n_spare = o.n_spare;
    r.be = gate_open_backend(o.backend != NULL ? o.backend : "cpu", or_default(o.n_threads, 1));
    r.metrics = calloc(1, sizeof *r.metrics);
    if (r.be == NULL || r.metrics == NULL)
        fail_msg("no back end");
    if (lx_transformer_new(served, r.be, options.max_tokens, options.max_tokens, &r.transformer,
                           &err) != LX_OK ||
        lx_engine_start(r.transformer, &options, r.metrics, &r.engine, &err) != LX_OK)
        fail_msg("no engine: %s", err.text);
    return r;
}

void rig_stop(rig *r)
{
    gate_open();
    gate_hold_moves(false);
    lx_engine_stop(r->engine);
    lx_transformer_free(r->transformer);
    r->be->ops->close(r->be);
    free(r->metrics);
}

lx_job *rig_job(const rig_request *q, lx_job_wake wake, void *context)
{
    const lx_image_request image = {.values = q->values, .n_values = q->n_values};
    const lx_task_request request = {.text = q->line,
                                     .text_bytes = q->line != NULL ? strlen(q->line) : 0,
                                     .rules = !q->no_rules,
                                     .own_of = &lx_image_task,
                                     .own = &image};
    lx_plan *plan = NULL;
    lx_job *job = NULL;
    lx_error err = {0};
    if (lx_plan_new(q->model != NULL ? q->model : model, &request, &plan, &err) != LX_OK)
        fail_msg("%s", err.text);
    int32_t max_new = q->keep_state ? q->max_new : or_default(q->max_new, plan->n_new);
    lx_job_params p = {
        .n = or_default(q->n, 1),
        .max_new = max_new,
        .sampling = {.has_seed = true,
                     .seed = (int64_t)q->seed,
                     .temperature = q->temperature > 0 ? (double)q->temperature : 1,
                     .top_p = q->top_p > 0 ? (double)q->top_p : 1,
                     .top_k = q->top_k,
                     .no_draft = q->no_draft},
        .deadline_ns = q->timeout_ns != 0 ? lx_now_ns() + q->timeout_ns : INT64_MAX,
        .targets = q->targets,
        .n_targets = q->targets != NULL ? max_new : 0,
        .start = q->start,
        .keep_state = q->keep_state,
        .suspendable = q->suspendable,
        .stops = q->stops,
        .n_top = q->n_top,
        .client = {.key = q->key},
        .follows = q->follows,
    };
    if (lx_job_new(plan, &p, wake, context, &job, &err) != LX_OK)
        fail_msg("%s", err.text);
    return job;
}

lx_job *rig_submit(rig *r, const rig_request *q)
{
    lx_error err = {0};
    lx_job *job = rig_job(q, NULL, NULL);
    if (lx_engine_submit(r->engine, job, &err) != LX_OK)
        fail_msg("refused: %s", err.text);
    return job;
}

void rig_expect(lx_job *job, lx_status status)
{
    lx_error err = {0};
    lx_job_wait(job);
    lx_status got = lx_job_status(job, &err);
    if (got != status)
        fail_msg("the job ended with %s (%s), not with %s", lx_status_text(got), err.text,
                 lx_status_text(status));
    lx_job_unref(job);
}

static uint64_t add_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

uint64_t rig_sample_hash(const lx_job *job, int32_t i)
{
    const int32_t *tokens = NULL;
    const float *logprobs = NULL;
    int32_t n = lx_job_tokens(job, i, &tokens, &logprobs);
    uint64_t hash = add_bytes(UINT64_C(0xcbf29ce484222325), &n, sizeof n);
    hash = add_bytes(hash, tokens, (size_t)n * sizeof *tokens);
    return add_bytes(hash, logprobs, (size_t)n * sizeof *logprobs);
}

uint64_t rig_hash(const lx_job *job)
{
    uint64_t hash = 0;
    for (int32_t i = 0; i < lx_job_get_params(job)->n; i++)
        hash = hash * 31 + rig_sample_hash(job, i);
    return hash;
}

void rig_assert_empty(rig *r)
{
    assert_true(lx_engine_idle(r->engine));
    assert_int_equal(r->metrics->slots_used, 0);
    assert_int_equal(r->metrics->pool_used, 0);
    assert_int_equal(r->metrics->queue_length, 0);
}
