/*
 * The forward pass (see transformer.h). Weights are prepared once; a step queues the same sequence
 * of operations whatever its batch looks like, but for this: after the last state only the rows
 * with an output are computed, where others have none. Operations there work on rows by themselves,
 * so gathering before them changes nothing but the cost.
 */
#include "model/transformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/forward.h"
#include "model/recompute.h"

struct lx_transformer {
    const lx_model *model;
    lx_backend *be;
    int32_t max_tokens, max_outputs;
    lx_forward forward;
    lx_array *outputs, *logits; /* output rows [n_outputs, output width], [n_outputs, V] */
    lx_recompute *recompute;    /* of a model that recomputes, else NULL */
    float *initial;             /* a slot's state before the first token; NULL: zeros */
};

static lx_status new_outputs(lx_transformer *t, lx_error *err)
{
    const lx_config *c = &t->model->config;
    const lx_kernels *ops = t->be->ops;
    lx_status st =
        ops->rows_new(t->be, t->max_outputs, lx_config_output_width(c), &t->outputs, err);
    return st == LX_OK ? ops->rows_new(t->be, t->max_outputs, c->head_size, &t->logits, err) : st;
}

/* The start values of a branch's heads. */
static lx_status fill_initial(const lx_model *m, const lx_branch *b, float *state, lx_error *err)
{
    const lx_mixer_parts *p = &b->parts;
    int64_t size = (int64_t)p->fields[0].rows * p->fields[0].cols;
    char name[LX_MIXER_TENSOR_NAME];
    lx_mixer_tensor_name(p, &p->tensors[p->initial], 0, name);
    const lx_tensor *t = lx_model_tensor(m, name);
    float *numbers = malloc((size_t)(t->t.rows * t->t.cols) * sizeof *numbers);
    if (numbers == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an initial state");
    lx_status st = lx_safetensors_numbers(m->weights, t, numbers, err);
    for (int64_t i = 0; i < p->n_heads * size && st == LX_OK; i++)
        state[b->state_offset + i / size * lx_mixer_head_floats(p) + i % size] = numbers[i];
    free(numbers);
    return st;
}

/* t->initial, where any layer begins with something else than zeros. */
static lx_status new_initial(lx_transformer *t, lx_error *err)
{
    const lx_model *m = t->model;
    for (int32_t i = 0; i < m->config.n_layers * LX_MAX_BRANCHES; i++) {
        const lx_branch *b = &m->layers[i / LX_MAX_BRANCHES].branches[i % LX_MAX_BRANCHES];
        if (!b->parts.has_initial)
            continue;
        if (t->initial == NULL)
            t->initial = calloc((size_t)m->state.fixed_floats, sizeof *t->initial);
        if (t->initial == NULL)
            return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an initial state");
        lx_status st = fill_initial(m, b, t->initial, err);
        if (st != LX_OK)
            return st;
    }
    return LX_OK;
}

lx_status lx_transformer_new(const lx_model *model, lx_backend *be, int32_t max_tokens,
                             int32_t max_outputs, lx_transformer **out, lx_error *err)
{
    if (max_tokens < 1 || max_outputs < 1)
        return lx_fail(err, LX_ERR_INVALID, NULL, "steps of %d rows with %d outputs", max_tokens,
                       max_outputs);
    if (model->sees_all)
        return lx_fail(
            err, LX_ERR_INVALID, "model",
            "model %s has the task %s: it reads its whole input at once and generates no tokens",
            model->name, model->config.task);
    lx_transformer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transformer");
    *t = (lx_transformer){
        .model = model,
        .be = be,
        .max_tokens = max_tokens,
        .max_outputs = max_outputs,
    };
    lx_status st = lx_forward_init(&t->forward, model, be, max_tokens, err);
    if (st == LX_OK)
        st = new_outputs(t, err);
    if (st == LX_OK)
        st = new_initial(t, err);
    if (st == LX_OK && model->recomputes)
        st = lx_recompute_new(model, be, max_tokens, &t->recompute, err);
    if (st != LX_OK) {
        lx_transformer_free(t);
        return st;
    }
    *out = t;
    return LX_OK;
}

void lx_transformer_free(lx_transformer *t)
{
    if (t == NULL)
        return;
    lx_forward_fini(&t->forward);
    lx_recompute_free(t->recompute);
    free(t->initial);
    t->be->ops->array_free(t->be, t->outputs);
    t->be->ops->array_free(t->be, t->logits);
    free(t);
}

int64_t lx_transformer_row_bytes(const lx_model *model)
{
    const lx_config *c = &model->config;
    int64_t floats = lx_forward_row_floats(model) + lx_config_output_width(c) + c->head_size;
    return floats * (int64_t)sizeof(float);
}

const lx_model *lx_transformer_model(const lx_transformer *t)
{
    return t->model;
}

int64_t lx_transformer_rerounded(const lx_transformer *t)
{
    return t->forward.weights.n_rerounded;
}

lx_backend *lx_transformer_backend(const lx_transformer *t)
{
    return t->be;
}

/* --- a step --- */

/* Faults that the back end would find only after the states have moved on. */
static lx_status check_sampling(const lx_sampling *s, int32_t n_ids, int32_t output, lx_error *err)
{
    if (!lx_sampling_cuts_are_valid(s))
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "output %d: temperature %g, top_p %g, top_k %d, min_p %g, typical_p %g",
                       output, (double)s->temperature, (double)s->top_p, s->top_k, (double)s->min_p,
                       (double)s->typical_p);
    if (s->forced < -1 || s->forced >= n_ids)
        return lx_fail(err, LX_ERR_INVALID, NULL, "output %d: forced id %d of %d", output,
                       s->forced, n_ids);
    for (int32_t i = 0; i < s->n_banned; i++) {
        if (s->banned[i] < 0 || s->banned[i] >= n_ids)
            return lx_fail(err, LX_ERR_INVALID, NULL, "output %d: banned id %d of %d", output,
                           s->banned[i], n_ids);
    }
    for (int32_t i = 0; i < s->n_biases; i++) {
        if (s->biases[i].id < 0 || s->biases[i].id >= n_ids || !lx_bias_is_valid(&s->biases[i]))
            return lx_fail(err, LX_ERR_INVALID, NULL, "output %d: bias %g for id %d of %d", output,
                           (double)s->biases[i].add, s->biases[i].id, n_ids);
    }
    if (s->n_top < 0 || s->n_top > LX_MAX_TOP || s->n_top > n_ids)
        return lx_fail(err, LX_ERR_INVALID, NULL, "output %d: the top %d of %d ids", output,
                       s->n_top, n_ids);
    return LX_OK;
}

static lx_status check_step(const lx_transformer *t, const lx_step *s, lx_error *err)
{
    const lx_config *c = &t->model->config;
    const lx_batch *b = &s->batch;
    if (b->n_tokens < 1 || b->n_tokens > t->max_tokens)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a step of %d rows is not within 1 to %d",
                       b->n_tokens, t->max_tokens);
    if (b->n_outputs < 0 || b->n_outputs > t->max_outputs)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%d output rows are not within 0 to %d",
                       b->n_outputs, t->max_outputs);
    for (int32_t r = 0; r < b->n_tokens; r++) {
        for (int32_t i = 0; i < c->n_inputs; i++) {
            int32_t id = s->ids[(int64_t)r * c->n_inputs + i];
            if (!lx_is_drawn_id(id) && (id < 0 || id >= c->inputs[i].size))
                return lx_fail(err, LX_ERR_INVALID, NULL, "row %d: %s id %d is not within 0 to %d",
                               r, c->inputs[i].name, id, c->inputs[i].size - 1);
        }
    }
    lx_status st = LX_OK;
    for (int32_t i = 0; i < b->n_outputs && st == LX_OK; i++)
        st = check_sampling(&s->sampling[i], c->n_values, i, err);
    return st;
}

static void queue_sample(lx_transformer *t, lx_states *states, const lx_step *s)
{
    const lx_config *c = &t->model->config;
    if (c->head_kind == LX_HEAD_LOGISTIC_MIXTURE)
        t->be->ops->sample_mixture(t->be, &(lx_sample_mixture_args){.parameters = t->logits,
                                                                    .n_components = c->n_components,
                                                                    .n_levels = c->n_values,
                                                                    .rows = s->sampling,
                                                                    .out = s->samples,
                                                                    .states = states});
    else
        t->be->ops->sample(t->be, &(lx_sample_args){.logits = t->logits,
                                                    .n_ids = c->n_values,
                                                    .rows = s->sampling,
                                                    .out = s->samples,
                                                    .states = states});
}

/* are_there: t->outputs has the rows. */
static void queue_outputs(lx_transformer *t, lx_states *states, const lx_step *s, bool are_there)
{
    const lx_forward *f = &t->forward;
    int32_t d = t->model->config.d_model, width = lx_config_output_width(&t->model->config);
    for (int32_t i = 0; i * d < width && !are_there; i++)
        t->be->ops->gather(
            t->be,
            &(lx_gather_args){
                .y = t->outputs, .x = f->streams[i], .d = d, .width = width, .column = i * d});
    lx_forward_norm(f, t->outputs, t->outputs, &f->weights.final_norm, width, LX_ROWS_OUTPUTS);
    lx_forward_product(f, t->logits, t->outputs, f->weights.head, NULL, LX_ROWS_OUTPUTS);
    queue_sample(t, states, s);
}

/* Everything of a step that has been checked, but its end. */
static lx_status queue_step(lx_transformer *t, lx_states *states, const lx_step *s, lx_error *err)
{
    lx_status st = t->be->ops->begin(t->be, &s->batch, err);
    if (st != LX_OK)
        return st;
    for (int32_t i = 0; i < 2; i++) {
        if (t->forward.streams[i] != NULL)
            lx_forward_embed(&t->forward, t->forward.streams[i], s->ids, states);
    }
    lx_forward_input_norm(&t->forward);
    bool some = s->batch.n_outputs < s->batch.n_tokens;
    bool are_there =
        lx_forward_layers(&t->forward, states, s->batch.n_outputs, some ? t->outputs : NULL);
    if (s->batch.n_outputs > 0)
        queue_outputs(t, states, s, are_there);
    return LX_OK;
}

static lx_status start(lx_transformer *t, lx_states *states, const lx_step *s, uint64_t *number,
                       lx_error *err)
{
    lx_status st = queue_step(t, states, s, err);
    return st == LX_OK ? t->be->ops->end(t->be, number, err) : st;
}

/* A step that has been checked, to its end. */
static lx_status run(void *transformer, lx_states *states, const lx_step *s, lx_error *err)
{
    lx_transformer *t = transformer;
    uint64_t number = 0;
    lx_status st = start(t, states, s, &number, err);
    if (st == LX_OK)
        st = lx_transformer_wait(t, number, err);
    if (st != LX_OK || s->logits == NULL || s->batch.n_outputs == 0)
        return st;
    st = t->be->ops->array_download(t->be, t->logits, 0, s->logits,
                                    (int64_t)s->batch.n_outputs * t->model->config.head_size);
    return st == LX_OK ? LX_OK : lx_fail(err, st, NULL, "the logits could not be read");
}

lx_status lx_transformer_start(lx_transformer *t, lx_states *states, const lx_step *s,
                               uint64_t *number, lx_error *err)
{
    lx_status st = check_step(t, s, err);
    *number = 0; /* of a step that has ended, where steps run here */
    if (st == LX_OK && t->recompute != NULL)
        return lx_recompute_step(t->recompute, t, run, states, s, err);
    return st == LX_OK ? start(t, states, s, number, err) : st;
}

lx_status lx_transformer_prepare(lx_transformer *t, lx_states *states, const lx_step *s,
                                 lx_error *err)
{
    lx_status st = check_step(t, s, err);
    if (st == LX_OK)
        st = queue_step(t, states, s, err);
    return st == LX_OK ? t->be->ops->prepare(t->be, err) : st;
}

lx_status lx_transformer_wait(lx_transformer *t, uint64_t number, lx_error *err)
{
    return t->be->ops->sync(t->be, number, err);
}

lx_status lx_transformer_step(lx_transformer *t, lx_states *states, const lx_step *s, lx_error *err)
{
    lx_status st = check_step(t, s, err);
    if (st == LX_OK && t->recompute != NULL)
        return lx_recompute_step(t->recompute, t, run, states, s, err);
    return st == LX_OK ? run(t, states, s, err) : st;
}

/* --- states: those of the back end, by input rows --- */

/* The back end says only what kind of failure it was. */
static lx_status checked(lx_status st, const char *what, lx_error *err)
{
    return st == LX_OK ? LX_OK : lx_fail(err, st, NULL, "the device failed to %s a state", what);
}

lx_status lx_transformer_states_pool(lx_transformer *t, int32_t n_slots, int32_t n_pages,
                                     int32_t slot_pages, lx_states **out, lx_error *err)
{
    lx_state_layout layout = t->model->state;
    layout.n_pages = layout.page_floats > 0 ? n_pages : 0;
    layout.slot_pages = layout.page_floats > 0 ? slot_pages : 0;
    lx_status st = t->be->ops->states_new(t->be, &layout, n_slots, out, err);
    for (int32_t slot = 0; slot < n_slots && t->initial != NULL && st == LX_OK; slot++)
        st = t->be->ops->state_import(t->be, *out, slot, t->initial, 0);
    return st;
}

/* Slot i takes pages i * n to i * n + n - 1. */
static lx_status map_all(lx_transformer *t, lx_states *s, int32_t n_slots, int32_t n, lx_error *err)
{
    int32_t *pages = malloc((size_t)n * sizeof *pages);
    if (pages == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d pages", n);
    lx_status st = LX_OK;
    for (int32_t slot = 0; slot < n_slots && st == LX_OK; slot++) {
        for (int32_t i = 0; i < n; i++)
            pages[i] = slot * n + i;
        st = lx_transformer_state_map(t, s, slot, n, pages, err);
    }
    free(pages);
    return st;
}

lx_status lx_transformer_states_new(lx_transformer *t, int32_t n_slots, int64_t rows,
                                    lx_states **out, lx_error *err)
{
    int32_t n = lx_model_state_pages(t->model, rows);
    lx_status st = lx_transformer_states_pool(t, n_slots, n_slots * n, n, out, err);
    if (st != LX_OK || n == 0)
        return st;
    st = map_all(t, *out, n_slots, n, err);
    if (st != LX_OK) {
        lx_transformer_states_free(t, *out);
        *out = NULL;
    }
    return st;
}

void lx_transformer_states_free(lx_transformer *t, lx_states *s)
{
    t->be->ops->states_free(t->be, s);
}

lx_status lx_transformer_state_map(lx_transformer *t, lx_states *s, int32_t slot, int32_t n,
                                   const int32_t *pages, lx_error *err)
{
    return checked(t->be->ops->state_map(t->be, s, slot, 0, n, pages), "map the pages of", err);
}

lx_status lx_transformer_state_zero(lx_transformer *t, lx_states *s, int32_t slot, lx_error *err)
{
    lx_status st = checked(t->be->ops->state_zero(t->be, s, slot), "clear", err);
    if (st == LX_OK && t->initial != NULL)
        st = checked(t->be->ops->state_import(t->be, s, slot, t->initial, 0), "take in", err);
    return st;
}

lx_status lx_transformer_state_copy(lx_transformer *t, lx_states *s, int32_t to, int32_t from,
                                    int64_t rows, lx_error *err)
{
    int32_t n = lx_model_state_pages(t->model, rows);
    return checked(t->be->ops->state_copy(t->be, s, to, from, n), "copy", err);
}

lx_status lx_transformer_state_save(lx_transformer *t, const lx_states *s, int32_t slot,
                                    int64_t rows, float *to, lx_error *err)
{
    int32_t n = lx_model_state_pages(t->model, rows);
    lx_status st = checked(t->be->ops->state_export(t->be, s, slot, to, n), "hand out", err);
    if (st == LX_OK)
        lx_model_clear_later_rows(t->model, rows, to);
    return st;
}

lx_status lx_transformer_state_load(lx_transformer *t, lx_states *s, int32_t slot, int64_t rows,
                                    const float *from, lx_error *err)
{
    int32_t n = lx_model_state_pages(t->model, rows);
    return checked(t->be->ops->state_import(t->be, s, slot, from, n), "take in", err);
}

/* --- a probe --- */

lx_status lx_transformer_probe(lx_transformer *t, lx_states *states, int32_t slot, lx_error *err)
{
    const lx_model *m = t->model;
    int32_t ids[LX_MAX_INPUTS] = {0}, seq_start[2] = {0, 1}, row = 0, position = 0;
    lx_sampling sampling = {.temperature = 0, .top_p = 1, .forced = -1};
    lx_sample sample = {.token = -1};
    lx_step step = {
        .batch = {.n_tokens = 1,
                  .n_seqs = 1,
                  .seq_start = seq_start,
                  .slot = &slot,
                  .n_outputs = 1,
                  .output_row = &row,
                  .position = &position},
        .ids = ids,
        .sampling = &sampling,
        .samples = &sample,
    };
    lx_status st = lx_transformer_state_zero(t, states, slot, err);
    if (st == LX_OK)
        st = lx_transformer_step(t, states, &step, err);
    if (st == LX_OK &&
        (sample.token < 0 || sample.token >= m->config.n_values || !isfinite(sample.logprob)))
        st = lx_fail(err, LX_ERR_DEVICE, NULL, "model %s computes no numbers", m->name);
    return st;
}
