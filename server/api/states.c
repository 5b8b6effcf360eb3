/* /v1/states: saved generation states, created from a prompt, described, downloaded, uploaded and
   deleted. Copies: state_fork.c; inspecting one: state_inspect.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "model/tasks/image.h"
#include "server/api/cost.h"
#include "server/api/generation.h"
#include "server/api/state_request.h"
#include "server/api/token_rules.h"
#include "server/json/states.h"

enum { MAX_LIST = 1 << 20 };

static const char octets[] = "application/octet-stream";

/* With the warnings of the request that made it; NULL: none. */
static void respond_made(lx_api *api, int status, const lx_json_state *facts,
                         const lx_json_notes *notes, lx_response *rs)
{
    lx_json_state own = *facts;
    lx_buffer body;
    lx_buffer_init(&body, MAX_LIST);
    own.model = lx_state_model_name(api, facts->state);
    lx_json_write_state(&own, &body);
    if (notes != NULL)
        lx_json_append_notes(notes, &body);
    lx_respond_json(rs, status, &body);
}

static void respond_facts(lx_api *api, int status, const char *id, const lx_saved_state *s,
                          size_t bytes, int64_t ttl_ms, lx_response *rs)
{
    respond_made(api, status, &(lx_json_state){id, NULL, s, bytes, ttl_ms}, NULL, rs);
}

static void answer_facts(lx_state_request *r, lx_response *rs)
{
    lx_saved_state s = {0};
    lx_error err = {0};
    size_t bytes = 0;
    int64_t ttl_ms = 0;
    lx_status st = lx_state_request_read(r, &s, &bytes, &ttl_ms, &err);
    if (st == LX_OK)
        respond_facts(r->api, 200, r->id, &s, bytes, ttl_ms, rs);
    else
        lx_respond_status(rs, st, &err);
    lx_state_fini(&s);
}

static void answer_blob(lx_state_request *r, lx_response *rs)
{
    size_t n = 0;
    const void *blob = lx_store_call_blob(r->call, &n, NULL);
    lx_buffer body;
    lx_buffer_init(&body, n);
    lx_buffer_append(&body, blob, n);
    lx_response_take(rs, 200, octets, &body);
    lx_buffer_fini(&body);
}

void lx_handle_state_get(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_state_request *r = lx_state_request_new(api, rq, rs);
    if (r == NULL)
        return;
    r->answer = strncmp(rq->accept, octets, sizeof octets - 1) == 0 ? answer_blob : answer_facts;
    lx_state_request_store(r, LX_STORE_GET, NULL, 0, rq, rs);
}

static void answer_nothing(lx_state_request *r, lx_response *rs)
{
    (void)r;
    rs->status = 204;
}

void lx_handle_state_delete(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_state_request *r = lx_state_request_new(api, rq, rs);
    if (r == NULL)
        return;
    r->answer = answer_nothing;
    lx_state_request_store(r, LX_STORE_REMOVE, NULL, 0, rq, rs);
}

static void answer_uploaded(lx_state_request *r, lx_response *rs)
{
    respond_facts(r->api, 201, r->id, &r->uploaded, r->uploaded_bytes, r->api->state_ttl_ms, rs);
}

/* An uploaded state is checked as a whole before it is kept. */
void lx_handle_state_put(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (strncmp(rq->content_type, octets, sizeof octets - 1) != 0) {
        lx_respond_unread(rs, octets);
        return;
    }
    lx_state_request *r = lx_state_request_new(api, rq, rs);
    if (r == NULL)
        return;
    lx_error err = {0};
    lx_saved_state s = {0};
    lx_served_model *served = NULL;
    lx_plan *plan = NULL;
    lx_status st = lx_state_from_blob(api, rq->body, rq->body_bytes, &s, &err);
    if (st == LX_OK)
        st = lx_state_model(api, &s, &served, &err);
    if (st == LX_OK)
        st = lx_state_plan(&s, served->model, false, &plan, &err);
    lx_plan_free(plan);
    r->answer = answer_uploaded;
    r->uploaded = lx_state_facts(&s);
    lx_state_fini(&s);
    r->uploaded_bytes = rq->body_bytes;
    if (st == LX_OK) {
        lx_state_request_store(r, LX_STORE_PUT, rq->body, rq->body_bytes, rq, rs);
        return;
    }
    lx_respond_status(rs, st, &err);
    lx_state_request_free(r);
}

/* --- making --- */

/* A state from a prompt: a job that generates nothing and keeps its state. */
static lx_status kept_state(lx_work *w, lx_error *err)
{
    lx_status st = lx_work_status(w, err);
    lx_work_count(w, st);
    if (st != LX_OK)
        return st;
    if (w->saver.n == 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    if (w->saver.states[0].status != LX_OK)
        *err = w->saver.states[0].err;
    return w->saver.states[0].status;
}

static void create_finish(void *context, lx_response *rs)
{
    lx_work *w = context;
    lx_error err = {0};
    lx_status st = kept_state(w, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        return;
    }
    const lx_kept_state *k = &w->saver.states[0];
    lx_saved_state s = {.seed = (uint64_t)w->params->sampling.seed,
                        .start = {.rows = k->rows, .n_tokens = k->tokens}};
    lx_state_describe(w->served->model, &s);
    (void)snprintf(s.made_by, sizeof s.made_by, "%s", w->served->fingerprint);
    int32_t turn = lx_serving_enter(w->api->serving);
    respond_made(w->api, 201, &(lx_json_state){k->id, NULL, &s, k->bytes, w->api->state_ttl_ms},
                 w->notes, rs);
    lx_serving_leave(w->api->serving, turn);
}

/* The first field of the request that only models of text read; NULL: none. `rules` and `normalize`
   are true where the request leaves them out. */
static const char *text_field(const lx_state_create *p)
{
    return p->prompt != NULL          ? "prompt"
           : p->poem.form != NULL     ? "form"
           : p->poem.acrostic != NULL ? "acrostic"
           : p->poem.rhyme            ? "rhyme"
           : !p->rules                ? "rules"
           : !p->normalize            ? "normalize"
                                      : NULL;
}

/* The first field of the request that only models of images read; NULL: none. */
static const char *image_field(const lx_state_create *p)
{
    return p->image.data != NULL  ? "image"
           : p->mask.data != NULL ? "mask"
           : p->class_number > 0  ? "class"
                                  : NULL;
}

static lx_status plan_image(lx_served_model *served, const lx_state_create *p, lx_plan **plan,
                            lx_error *err)
{
    const char *unread = text_field(p);
    lx_image_request own = {.class_number = p->class_number, .values = NULL};
    const lx_task_request request = {.own_of = &lx_image_task, .own = &own};
    uint8_t *values = NULL;
    lx_status st = LX_OK;
    if (unread != NULL)
        return lx_fail(err, LX_ERR_INVALID, unread, "model %s makes images: leave %s out",
                       served->model->name, unread);
    if (p->mask.data != NULL && p->image.data == NULL)
        return lx_fail(err, LX_ERR_INVALID, "mask", "mask is only allowed with image");
    if (p->image.data != NULL)
        st = lx_picture_read_prefix(
            &served->model->config, (lx_png_file){p->image.data, p->image.bytes},
            (lx_png_file){p->mask.data, p->mask.bytes}, &values, &own.n_values, err);
    own.values = values;
    if (st == LX_OK)
        st = lx_work_plan(served, &request, plan, err);
    free(values);
    return st;
}

static lx_status plan_text(const lx_api *api, lx_served_model *served, lx_state_create *p,
                           lx_plan **plan, lx_error *err)
{
    const char *unread = image_field(p);
    if (unread != NULL)
        return lx_fail(err, LX_ERR_INVALID, unread, "model %s makes text: leave %s out",
                       served->model->name, unread);
    if (p->prompt == NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "prompt is missing");
    lx_note_unread(served->model->task, p->rules, p->normalize, &p->notes);
    lx_task_request request = {.text = p->prompt,
                               .text_bytes = p->prompt_bytes,
                               .max_prompt = api->max_prompt,
                               .rules = p->rules,
                               .normalize = p->normalize,
                               .own_of = &lx_poem_task,
                               .own = &p->poem};
    return lx_work_plan(served, &request, plan, err);
}

static void start_create(lx_api *api, lx_served_model *served, const lx_state_create *p,
                         lx_plan *plan, const lx_request *rq, lx_response *rs)
{
    lx_work_params params = {.n = 1,
                             .sampling = p->sampling,
                             .timeout_ms = p->timeout_ms,
                             .return_state = true,
                             .state_only = true,
                             .notes = &p->notes};
    lx_work_defer(api, served, plan, &params, lx_cost_facts(), rq, create_finish, rs);
}

void lx_handle_states_create(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_is_json(rq)) {
        lx_respond_unread(rs, "application/json");
        return;
    }
    lx_error err = {0};
    lx_state_create p = {0};
    lx_served_model *served = NULL;
    lx_plan *plan = NULL;
    lx_status st = lx_api_check_ready(api, &err);
    if (st == LX_OK)
        st = lx_json_read_state_create(rq->body, rq->body_bytes, &p, &err);
    if (st == LX_OK) {
        lx_modality modality = p.prompt != NULL ? LX_TEXT : LX_IMAGE;
        st = lx_api_find_model(api, p.model, lx_api_made_by(api, p.model, modality), &served, &err);
    }
    if (st == LX_OK)
        st = served->model->task->modality == LX_TEXT ? plan_text(api, served, &p, &plan, &err)
                                                      : plan_image(served, &p, &plan, &err);
    if (st == LX_OK)
        start_create(api, served, &p, plan, rq, rs);
    else
        lx_api_refuse(api, p.model, st, &err, rs);
    lx_state_create_fini(&p);
}
