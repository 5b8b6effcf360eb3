/* One request's job (see generation.h). */
#include "server/api/generation.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/lock.h"
#include "common/log.h"
#include "common/random.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* lx_kept_state and its call of the store, with the overhead of malloc. */
enum { KEPT_BYTES = 2048, BLOB_HEAD = 1024, ROW_TEXT = 16 };

void lx_work_choose_seed(lx_work_params *p)
{
    if (p->sampling.has_seed)
        return;
    uint64_t seed = p->from != NULL ? p->from->seed : lx_random_bits() & (uint64_t)LX_MAX_SEED;
    p->sampling.has_seed = true;
    p->sampling.seed = (int64_t)seed;
}

int32_t lx_work_new_tokens(const lx_work_params *p, const lx_plan *plan)
{
    int32_t there = p->from != NULL ? p->from->start.n_tokens : plan->n_given;
    int32_t most = plan->n_new - there;
    if (p->state_only || p->prompt_only)
        return 0;
    return p->max_new > 0 && p->max_new < most ? p->max_new : most;
}

void lx_work_set_load(lx_work_params *p, lx_plan *const *plans, int32_t n_plans)
{
    int64_t n_tokens = 0;
    for (int32_t i = 0; i < n_plans; i++)
        n_tokens += plans[i]->n_given + lx_work_new_tokens(p, plans[i]);
    p->load.n_tokens = ((int64_t)p->n + p->n_reviews) * n_tokens;
    p->load.n_samples = (int64_t)p->n * n_plans;
}

static lx_job_params job_params(const lx_api *api, const lx_work_params *p, const lx_plan *plan)
{
    int64_t timeout = lx_api_timeout_ns(api, p->timeout_ms);
    int64_t now = lx_now_ns(), queue = api->queue_timeout_ns, first = api->first_token_timeout_ns;
    lx_job_start start = p->from != NULL ? p->from->start : (lx_job_start){0};
    if (p->ahead != NULL) {
        start.rows = p->ahead->start.rows;
        start.state = p->ahead->start.state;
    }
    int32_t max_new = start.n_tokens + plan->n_given + lx_work_new_tokens(p, plan);
    const int32_t *given = plan->n_given > 0 ? plan->prompt_ids + plan->n_prompt : NULL;
    return (lx_job_params){
        .n = p->n,
        .max_new = max_new,
        .start = start,
        .keep_state = p->return_state,
        .suspendable = p->suspend != NULL,
        .sampling = p->sampling,
        .deadline_ns = now + timeout,
        .queue_deadline_ns = queue > 0 ? now + queue : 0,
        .first_deadline_ns = first > 0 ? now + first : 0,
        .targets = p->targets != NULL ? p->targets : given,
        .n_targets = p->targets != NULL ? max_new : plan->n_given,
        .n_biases = p->n_biases,
        .biases = p->biases,
        .n_top = p->n_top,
        .stops = p->stops,
        .reserve = p->reserve,
        .first = p->first,
    };
}

void lx_note_unread(const lx_task_ops *task, bool rules, bool normalize, lx_json_notes *notes)
{
    if (!rules && !task->has_rules)
        lx_json_note(notes, "rules", "only couplets have rules", NULL);
    if (!normalize && !task->normalizes)
        lx_json_note(notes, "normalize", "only couplets and poems are normalized", NULL);
}

lx_status lx_work_plan(lx_served_model *served, const lx_task_request *request, lx_plan **out,
                       lx_error *err)
{
    lx_status st = lx_plan_new(served->model, request, out, err);
    if (st != LX_OK)
        lx_served_count(served, st);
    return st;
}

lx_status lx_work_plan_from(lx_served_model *served, const lx_saved_state *from, bool ignore_end,
                            lx_plan **out, lx_error *err)
{
    lx_status st = lx_state_check(from, served->model, err);
    lx_plan *plan = NULL;
    if (st == LX_OK)
        st = lx_state_plan(from, served->model, ignore_end, &plan, err);
    if (st == LX_OK && from->start.n_tokens >= plan->n_new) {
        lx_plan_free(plan);
        st = lx_fail(err, LX_ERR_INVALID, "state",
                     "the state's answer is complete: nothing is left to generate");
    }
    if (st == LX_OK)
        *out = plan;
    else
        lx_served_count(served, st);
    return st;
}

/* lx_state_saver_start makes the blobs in turn, in a buffer that doubles. The store's own
   memory takes it over at once, under its own limit; a store elsewhere may have all of them
   waiting. */
static int64_t keep_bytes(const lx_api *api, int64_t n, int64_t blob)
{
    return n * KEPT_BYTES + (api->states->ops->outlives ? 3 + n : 3) * blob;
}

/* An upper bound of a blob: its numbers and tokens, and ROW_TEXT bytes of the request for each row,
   and the source of a grammar. */
static int64_t blob_bytes(const lx_plan *plan, const lx_job_params *p)
{
    const lx_shape *shape = lx_plan_shape(plan);
    return (shape != NULL ? (int64_t)shape->bytes : 0) +
           lx_model_state_floats(plan->model, lx_job_rows(plan, p)) * (int64_t)sizeof(float) +
           (plan->n_prompt + 1) * (int64_t)ROW_TEXT + p->max_new * (int64_t)sizeof(int32_t) +
           BLOB_HEAD;
}

int64_t lx_work_bytes(const lx_api *api, lx_plan *const *plans, int32_t n_plans,
                      const lx_work_params *p)
{
    int64_t bytes = 0, blob = 0;
    for (int32_t i = 0; i < n_plans; i++) {
        lx_job_params params = job_params(api, p, plans[i]);
        bytes += (int64_t)sizeof(lx_work) + lx_job_bytes(plans[i], &params);
        if (p->n_reviews > 0)
            bytes += lx_review_bytes(plans[i], p->n_reviews, params.max_new);
        int64_t own = blob_bytes(plans[i], &params);
        blob = own > blob ? own : blob;
    }
    if (p->return_state || p->suspend != NULL)
        bytes += keep_bytes(api, (int64_t)n_plans * p->n * (p->kept_twice ? 2 : 1), blob);
    return bytes;
}

lx_status lx_work_reserve(lx_api *api, lx_served_model *served, int64_t bytes, const char *param,
                          lx_reserve **out, int32_t *retry_after_s, lx_error *err)
{
    lx_status st = lx_pending_reserve(api, served, bytes, param, out, retry_after_s, err);
    if (st != LX_OK)
        lx_served_count(served, st);
    return st;
}

/* Another server continues the request, and finds its state in the store. */
static lx_status check_suspend(const lx_api *api, const lx_work_params *p, lx_error *err)
{
    if (p->suspend == NULL)
        return LX_OK;
    if (p->n != 1)
        return lx_fail(err, LX_ERR_INVALID, p->suspend, "%s is for one sample: n must be 1",
                       p->suspend);
    if (!api->states->ops->outlives)
        return lx_fail(
            err, LX_ERR_INVALID, p->suspend,
            "%s needs a store that outlives the server (--state-store FILE.db or redis://...)",
            p->suspend);
    return LX_OK;
}

static lx_status add_review(lx_work *w, int32_t n, lx_error *err)
{
    w->review = calloc(1, sizeof *w->review);
    if (w->review == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    *w->review = (lx_review){
        .pool = w->job, .wake = w->rq.wake, .wake_context = w->rq.wake_context, .most = n};
    return LX_OK;
}

lx_status lx_work_start(lx_work *w, lx_api *api, lx_served_model *served, lx_plan *plan,
                        const lx_work_params *p, const lx_request *rq, int32_t *retry_after_s,
                        lx_error *err)
{
    *w = (lx_work){.created = (int64_t)time(NULL),
                   .return_state = p->return_state,
                   .suspend = p->suspend,
                   .rq = {.wake = rq->wake,
                          .wake_context = rq->wake_context,
                          .owner = rq->owner,
                          .facts = rq->facts}};
    lx_pending_init(&w->pending, api, served);
    lx_facts_set_model(rq->facts, served->model->name);
    w->pending.reserve = lx_reserve_ref(p->reserve);
    lx_work_params own = *p;
    lx_work_choose_seed(&own);
    lx_job_params params = job_params(api, &own, plan);
    w->deadline_ns = lx_pending_read_by(params.deadline_ns);
    params.client = rq->client;
    lx_status st = check_suspend(api, p, err);
    if (st == LX_OK && p->first == NULL)
        st = lx_pending_take(&w->pending, rq, &p->load, retry_after_s, err);
    if (st == LX_OK)
        st = lx_job_new(plan, &params, rq->wake, rq->wake_context, &w->job, err);
    else
        lx_plan_free(plan);
    if (st == LX_OK && p->n_reviews > 0)
        st = add_review(w, p->n_reviews, err);
    if (st == LX_OK) {
        w->params = lx_job_get_params(w->job);
        st = lx_serving_submit(served, w->job, err);
    }
    if (st == LX_OK)
        return LX_OK;
    if (st == LX_ERR_BUSY)
        *retry_after_s = lx_engine_retry_after_s(served->engine);
    lx_served_count(served, st);
    lx_pending_refund(&w->pending);
    lx_work_fini(w);
    return st;
}

static void release(void *context)
{
    lx_work *w = context;
    lx_work_fini(w);
    free(w->notes);
    free(w);
}

/* The notes that the answer will have in it. False without memory. */
static bool keep_notes(lx_work *w, const lx_json_notes *notes)
{
    if (notes == NULL || lx_json_count_notes(notes) == 0)
        return true;
    w->notes = malloc(sizeof *w->notes);
    if (w->notes != NULL)
        *w->notes = *notes;
    return w->notes != NULL;
}

void lx_work_defer(lx_api *api, lx_served_model *served, lx_plan *plan, const lx_work_params *p,
                   int64_t answer_bytes, const lx_request *rq,
                   void (*finish)(void *work, lx_response *rs), lx_response *rs)
{
    lx_error err = {0};
    int32_t retry_after_s = 0;
    lx_work_params own = *p;
    lx_work_set_load(&own, &plan, 1);
    int64_t bytes = lx_work_bytes(api, &plan, 1, p) + answer_bytes + lx_cost_notes(p->notes);
    lx_work *w = calloc(1, sizeof *w);
    lx_status st =
        w != NULL ? lx_work_reserve(api, served, bytes, "body", &own.reserve, &retry_after_s, &err)
                  : lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    if (st == LX_OK)
        st = lx_work_start(w, api, served, plan, &own, rq, &retry_after_s, &err);
    else
        lx_plan_free(plan);
    lx_reserve_unref(own.reserve);
    if (st == LX_OK && !keep_notes(w, p->notes)) {
        st = lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
        lx_work_cancel(w);
        lx_work_fini(w);
    }
    if (st != LX_OK) {
        free(w);
        lx_respond_unstarted(rs, st, &err, retry_after_s);
        return;
    }
    lx_work_await_end(w);
    rs->deferred = (lx_deferred){.context = w,
                                 .advance = lx_work_advance,
                                 .is_done = lx_work_is_done,
                                 .finish = finish,
                                 .cancel = lx_work_cancel,
                                 .release = release,
                                 .deadline_ns = w->deadline_ns};
}

void lx_work_fini(lx_work *w)
{
    if (w->review != NULL)
        lx_review_fini(w->review);
    free(w->review);
    w->review = NULL;
    if (w->job != NULL) {
        lx_state_saver_fini(&w->saver);
        lx_job_detach(w->job);
        lx_job_unref(w->job);
    }
    w->job = NULL;
    lx_pending_fini(&w->pending);
}

/* Adds its tokens to the facts of the request for the log, once. When it returns they are there,
   also if another thread added them: the connection's thread writes the line of a client that left,
   while a watcher cancels its work. */
static void note_tokens(lx_work *w)
{
    static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;
    if (w->rq.facts == NULL)
        return;
    LX_HOLD(&noting);
    if (w->noted)
        return;
    w->noted = true;
    lx_job_times t = lx_job_get_times(w->job);
    bool has_token = t.first_token > t.submitted && t.submitted > 0;
    lx_facts_add(w->rq.facts, lx_work_prompt_rows(w),
                 w->params->start.rows + lx_job_cached_rows(w->job), lx_work_tokens(w),
                 has_token ? (t.first_token - t.submitted) * 1000 / LX_NS_PER_MS : 0);
}

bool lx_work_count(lx_work *w, lx_status status)
{
    note_tokens(w);
    return lx_pending_count(&w->pending, status, lx_job_get_times(w->job).submitted);
}

static lx_phase phase_of(const lx_job *job)
{
    lx_job_times t = lx_job_get_times(job);
    if (lx_job_finished(job))
        return LX_PHASE_ANSWER;
    if (t.started == 0)
        return LX_PHASE_QUEUE;
    return t.first_token == 0 ? LX_PHASE_PROMPT : LX_PHASE_DECODE;
}

void lx_work_await_end(lx_work *w)
{
    for (int32_t i = 0; i < w->params->n; i++)
        lx_job_want(w->job, i, INT32_MAX);
}

/* Whether the states of a finished job go into the store. */
static bool keeps_states(const lx_work *w)
{
    return (w->return_state && lx_job_status(w->job, NULL) == LX_OK) || lx_job_suspended(w->job);
}

void lx_work_advance(void *context)
{
    lx_work *w = context;
    if (w->review != NULL)
        lx_review_advance(w->review, &w->pending);
    if (w->kept || !lx_job_finished(w->job) || !keeps_states(w))
        return;
    if (!w->keeping) {
        w->keeping = true;
        lx_error err = {0};
        if (lx_state_saver_start(&w->saver, w->pending.api, w->pending.served, w->job, &w->rq,
                                 &err) != LX_OK)
            lx_log(LX_LOG_WARN, "%s", err.text);
    }
    w->kept = lx_state_saver_advance(&w->saver);
}

bool lx_work_is_done(const void *context)
{
    const lx_work *w = context;
    return lx_job_finished(w->job) && (w->kept || !keeps_states(w)) &&
           (w->review == NULL || lx_review_is_done(w->review));
}

void lx_work_cancel(void *context)
{
    lx_work *w = context;
    note_tokens(w);
    lx_pending_abandon(&w->pending, phase_of(w->job), lx_job_get_times(w->job).submitted);
    bool reviewed = w->review != NULL && lx_review_cancel(w->review);
    if (lx_job_finished(w->job) && !reviewed)
        return;
    lx_job_cancel(w->job);
    lx_engine_poke(w->pending.served->engine);
}

bool lx_work_suspended(const lx_work *w)
{
    return w->kept && lx_job_suspended(w->job) && w->saver.n > 0 &&
           w->saver.states[0].status == LX_OK;
}

static void append_kept(const lx_kept_state *s, int32_t index, lx_buffer *text)
{
    lx_buffer_puts(text, text->length > 1 ? "," : ""); /* after the list's bracket */
    lx_json_append_kept(
        &(lx_json_kept){.id = s->id,
                        .code = s->status != LX_OK ? lx_api_error_code(s->status) : NULL,
                        .why = s->err.text,
                        .index = index,
                        .tokens = s->tokens,
                        .rows = s->rows,
                        .bytes = s->bytes,
                        .memory_bytes = s->memory_bytes},
        text);
}

static bool is_among(int32_t x, const int32_t *list, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return false;
}

const char *lx_works_states(const lx_work *works, int32_t n, const int32_t *chosen,
                            int32_t n_chosen, lx_buffer *text)
{
    int64_t n_states = 0;
    for (int32_t i = 0; i < n; i++)
        n_states += works[i].params->n;
    lx_buffer_init(text, (size_t)lx_cost_states(n_states));
    if (!works[0].return_state && !lx_work_suspended(&works[0]))
        return NULL;
    lx_buffer_puts(text, "[");
    for (int32_t i = 0; i < n * n_chosen; i++) {
        const lx_state_saver *saver = &works[i / n_chosen].saver;
        if (chosen[i] < saver->n)
            append_kept(&saver->states[chosen[i]], i, text);
    }
    int32_t index = n * n_chosen;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < works[i].saver.n; k++)
            if (n_chosen == 0 || !is_among(k, chosen + i * n_chosen, n_chosen))
                append_kept(&works[i].saver.states[k], index++, text);
    lx_buffer_puts(text, "]");
    return text->data;
}

int32_t lx_works_unkept(const lx_work *works, int32_t n)
{
    int32_t unkept = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < works[i].saver.n; k++)
            unkept += works[i].saver.states[k].status != LX_OK;
    return unkept;
}

lx_status lx_work_status(const lx_work *w, lx_error *err)
{
    if (lx_work_suspended(w))
        return LX_OK;
    lx_status st = lx_job_status(w->job, err);
    if (lx_job_suspended(w->job))
        return lx_fail(err, LX_ERR_UNAVAILABLE, w->suspend,
                       "the server is stopping, and the request's state could not be kept");
    if (st == LX_OK && w->review != NULL)
        st = lx_review_status(w->review, err);
    return lx_pending_status(&w->pending, st, err);
}

lx_status lx_works_status(lx_work *works, int32_t n, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n; i++) {
        st = st == LX_OK ? lx_work_status(&works[i], err) : st;
        note_tokens(&works[i]);
    }
    return st;
}

int64_t lx_work_tokens(const lx_work *w)
{
    int64_t n = 0;
    for (int32_t i = 0; i < w->params->n; i++)
        n += lx_job_tokens(w->job, i, NULL, NULL) - w->params->start.n_tokens;
    int32_t n_given = lx_job_plan(w->job)->n_given; /* with one sample only */
    return n > n_given ? n - n_given : 0;
}

static double ms_between(int64_t from, int64_t to)
{
    return from != 0 && to >= from ? (double)(to - from) / (double)LX_NS_PER_MS : 0;
}

int64_t lx_work_prompt_rows(const lx_work *w)
{
    const lx_plan *plan = lx_job_plan(w->job);
    return plan->n_prompt + plan->n_given + w->params->start.n_tokens;
}

static int64_t steps_between(uint64_t from, uint64_t to)
{
    return to > from ? (int64_t)(to - from) : 0;
}

/* 0: not known yet. */
static int64_t earlier(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

lx_json_timings lx_works_timings(const lx_work *works, int32_t n)
{
    lx_job_times all = {0};
    lx_json_timings out = {0};
    for (int32_t i = 0; i < n; i++) {
        lx_job_times t = lx_job_get_times(works[i].job);
        if (works[i].review != NULL)
            lx_review_add_end(works[i].review, &t);
        all.submitted = earlier(all.submitted, t.submitted);
        all.started = earlier(all.started, t.started);
        all.first_token = earlier(all.first_token, t.first_token);
        all.last_token = t.last_token > all.last_token ? t.last_token : all.last_token;
        all.finished = t.finished > all.finished ? t.finished : all.finished;
        if (i == 0 || t.submitted_step < all.submitted_step)
            all.submitted_step = t.submitted_step;
        if (i == 0 || t.started_step < all.started_step)
            all.started_step = t.started_step;
        if (t.finished_step > all.finished_step)
            all.finished_step = t.finished_step;
        int32_t there = works[i].params->start.rows + lx_job_cached_rows(works[i].job);
        out.cache_n += there;
        out.prompt_n += lx_work_prompt_rows(&works[i]) - there;
        out.predicted_n += lx_work_tokens(&works[i]);
        int64_t drafted = 0, accepted = 0;
        lx_job_drafted(works[i].job, &drafted, &accepted);
        out.draft_n += drafted;
        out.draft_n_accepted += accepted;
    }
    out.queue_steps = steps_between(all.submitted_step, all.started_step);
    out.total_steps = steps_between(all.submitted_step, all.finished_step);
    out.queue_ms = ms_between(all.submitted, all.started);
    out.ttft_ms = ms_between(all.submitted, all.first_token);
    out.prompt_ms = ms_between(all.started, all.first_token);
    out.predicted_ms = ms_between(all.first_token, all.finished);
    out.state_ms = works[0].return_state ? ms_between(all.last_token, all.finished) : 0;
    out.total_ms = ms_between(all.submitted, all.finished);
    return out;
}

lx_json_timings lx_work_timings(const lx_work *w)
{
    return lx_works_timings(w, 1);
}
