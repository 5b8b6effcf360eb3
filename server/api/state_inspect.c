/* GET /v1/states/ID/inspect: the numbers in the state of one head. */
#include <stdlib.h>

#include "server/api/state_request.h"
#include "server/json/states.h"

/* Of rows that a state keeps the newest are shown. */
enum { MAX_BODY = 64 << 20, MAX_ROWS = 1024, MAX_FIELDS = LX_MAX_BRANCHES * LX_MAX_MIXER_FIELDS };

static lx_status read_index(const lx_request *rq, const char *name, int32_t *out, lx_error *err)
{
    const char *text = rq->argument(rq->query, name);
    char *end = NULL;
    *out = 0;
    if (text == NULL)
        return LX_OK;
    long x = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || x > 1 << 20) /* strtol takes " 1" and "+1" */
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be a whole number from 0 on", name);
    *out = (int32_t)x;
    return LX_OK;
}

static lx_status check_index(const char *name, int32_t x, int32_t n, lx_error *err)
{
    if (x < n)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, name, "%s is %d, the model has 0 to %d", name, x, n - 1);
}

static void write_fields(const lx_state_request *r, const float *state, const lx_model *m,
                         lx_buffer *out)
{
    lx_json_state_field fields[MAX_FIELDS];
    const lx_state_field *f = NULL;
    int32_t n = 0;
    int64_t at = 0;
    while (n < MAX_FIELDS && (f = lx_model_state_field_at(m, r->layer, r->head, n, &at)) != NULL)
        fields[n++] = (lx_json_state_field){f->name, f->rows, f->cols, state + at};
    lx_json_write_fields(&(lx_json_fields){.id = r->id,
                                           .layer = r->layer,
                                           .head = r->head,
                                           .n_layers = m->config.n_layers,
                                           .n_heads = lx_model_state_heads(m, r->layer),
                                           .n = n,
                                           .fields = fields},
                         out);
}

/* s and z of a head of linear attention; every field by its name of a kind that has others. */
static void write_sums(const lx_state_request *r, const float *state, const lx_model *m,
                       lx_buffer *out)
{
    int64_t at_s = 0, at_z = 0;
    const lx_state_field *field = lx_model_state_field(m, r->layer, r->head, "s", &at_s);
    if (field == NULL || lx_model_state_field(m, r->layer, r->head, "z", &at_z) == NULL) {
        write_fields(r, state, m, out);
        return;
    }
    lx_json_write_inspection(&(lx_json_inspection){.id = r->id,
                                                   .layer = r->layer,
                                                   .head = r->head,
                                                   .n_layers = m->config.n_layers,
                                                   .n_heads = lx_model_state_heads(m, r->layer),
                                                   .d_key = field->rows,
                                                   .d_value = field->cols,
                                                   .s = state + at_s,
                                                   .z = state + at_z},
                             out);
}

static void write_rows(const lx_state_request *r, const lx_saved_state *s, const lx_model *m,
                       lx_buffer *out)
{
    lx_kept_rows kept = lx_model_kept_rows(m, r->layer, s->start.rows);
    int32_t n = kept.n < MAX_ROWS ? kept.n : MAX_ROWS;
    int32_t *positions = calloc((size_t)n + 1, sizeof *positions);
    float *k = calloc((size_t)n * (size_t)kept.d_key + 1, sizeof *k);
    float *v = calloc((size_t)n * (size_t)kept.d_value + 1, sizeof *v);
    if (positions == NULL || k == NULL || v == NULL) {
        out->status = LX_ERR_NO_MEMORY;
    } else {
        lx_model_read_rows(m, r->layer, r->head, s->start.rows, s->start.state, n, positions, k, v);
        lx_json_write_rows(&(lx_json_rows){.id = r->id,
                                           .layer = r->layer,
                                           .head = r->head,
                                           .n_layers = m->config.n_layers,
                                           .n_heads = kept.n_heads,
                                           .d_key = kept.d_key,
                                           .d_value = kept.d_value,
                                           .n_kept = kept.n,
                                           .n = n,
                                           .positions = positions,
                                           .k = k,
                                           .v = v},
                           out);
    }
    free(positions);
    free(k);
    free(v);
}

/* A state of nothing yet is zeros. */
static void write_head(const lx_state_request *r, const lx_saved_state *s, const lx_model *m,
                       lx_buffer *out)
{
    if (lx_model_kept_rows(m, r->layer, 0).n_heads > 0) {
        write_rows(r, s, m, out);
        return;
    }
    float *nothing = NULL;
    if (s->start.state == NULL)
        nothing = calloc((size_t)m->state.fixed_floats, sizeof *nothing);
    if (s->start.state == NULL && nothing == NULL)
        out->status = LX_ERR_NO_MEMORY;
    else
        write_sums(r, nothing != NULL ? nothing : s->start.state, m, out);
    free(nothing);
}

static void answer_inspection(lx_state_request *r, lx_response *rs)
{
    lx_saved_state s = {0};
    lx_error err = {0};
    lx_served_model *served = NULL;
    size_t bytes = 0;
    lx_status st = lx_state_request_read(r, &s, &bytes, NULL, &err);
    if (st == LX_OK)
        st = lx_state_model(r->api, &s, &served, &err);
    if (st == LX_OK)
        st = check_index("layer", r->layer, served->model->config.n_layers, &err);
    if (st == LX_OK)
        st = check_index("head", r->head, lx_model_state_heads(served->model, r->layer), &err);
    if (st == LX_OK) {
        lx_buffer body;
        lx_buffer_init(&body, MAX_BODY);
        write_head(r, &s, served->model, &body);
        lx_respond_json(rs, 200, &body);
    } else {
        lx_respond_status(rs, st, &err);
    }
    lx_state_fini(&s);
}

void lx_handle_state_inspect(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_state_request *r = lx_state_request_new(api, rq, rs);
    if (r == NULL)
        return;
    lx_error err = {0};
    lx_status st = read_index(rq, "layer", &r->layer, &err);
    if (st == LX_OK)
        st = read_index(rq, "head", &r->head, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        lx_state_request_free(r);
        return;
    }
    r->answer = answer_inspection;
    lx_state_request_store(r, LX_STORE_GET, NULL, 0, rq, rs);
}
