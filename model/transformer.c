/*
 * The forward pass (see transformer.h). Weights are prepared once; a step queues the same sequence
 * of operations whatever its batch looks like. Only the output rows go through final norm and head:
 * a norm works on rows, so gathering before it changes nothing but the cost.
 */
#include "model/transformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/recompute.h"
#include "model/weights.h"

struct lx_transformer {
    const lx_model *model;
    lx_backend *be;
    int32_t max_tokens, max_outputs;
    lx_weights weights;
    /* activations: residual streams (the second one of reversible wiring) and the normed copy of
       one [T, d], output rows [n_outputs, output width], [n_outputs, V] */
    lx_array *streams[2], *normed, *outputs, *logits;
    /* The mixers', for each branch of a layer as large as the largest layer wants them. */
    lx_array *scratch[LX_MAX_BRANCHES][LX_MAX_MIXER_SCRATCH];
    lx_array *carried;       /* from layer 0 to the others; NULL where it leaves nothing */
    lx_recompute *recompute; /* of a model that recomputes, else NULL */
    float *initial;          /* a slot's state before the first token; NULL: zeros */
};

/* The most that any layer's branch b wants of scratch buffer i, floats a token row. */
static int64_t scratch_floats(const lx_model *m, int32_t b, int32_t i)
{
    int64_t most = 0;
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        const lx_mixer_parts *parts =
            &m->layers[l].branches[b].parts; /* zero where there is none */
        if (parts->scratch[i] > most)
            most = parts->scratch[i];
    }
    return most;
}

static lx_status new_activations(lx_transformer *t, lx_error *err)
{
    const lx_config *c = &t->model->config;
    int64_t rows = t->max_tokens, outputs = t->max_outputs;
    bool two = c->wiring == LX_WIRING_REVERSIBLE;
    const struct {
        lx_array **array;
        int64_t rows, width;
    } arrays[] = {
        {&t->streams[0], rows, c->d_model},
        {&t->streams[two ? 1 : 0], rows, two ? c->d_model : 0},
        {&t->normed, rows, c->d_model},
        {&t->outputs, outputs, lx_config_output_width(c)},
        {&t->logits, outputs, c->head_size},
        {&t->carried, rows, t->model->layers[0].branches[0].parts.carried},
    };
    lx_status st = LX_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && st == LX_OK; i++) {
        if (arrays[i].width > 0)
            st = t->be->ops->rows_new(t->be, arrays[i].rows, arrays[i].width, arrays[i].array, err);
    }
    for (int32_t i = 0; i < LX_MAX_BRANCHES * LX_MAX_MIXER_SCRATCH && st == LX_OK; i++) {
        int32_t b = i / LX_MAX_MIXER_SCRATCH, k = i % LX_MAX_MIXER_SCRATCH;
        int64_t width = scratch_floats(t->model, b, k);
        if (width > 0)
            st = t->be->ops->rows_new(t->be, rows, width, &t->scratch[b][k], err);
    }
    return st;
}

/* What is recomputed needs ids that are known, and a device's steps may come before they are. */
static bool has_mixer(const lx_backend *be, const lx_mixer *mixer)
{
    if (mixer->is_recomputed && be->ops->is_device)
        return false;
    return mixer->is_on == NULL || mixer->is_on(be->ops);
}

static lx_status check_mixers(const lx_model *m, const lx_backend *be, lx_error *err)
{
    for (int32_t i = 0; i < m->config.n_layers; i++) {
        const lx_mixer *mixer = lx_config_mixer(&m->config, i)->mixer;
        if (!has_mixer(be, mixer))
            return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                           "%s: attention %s is not on the back end %s: use --device cpu", m->name,
                           mixer->name, be->ops->name);
    }
    return LX_OK;
}

/* What the heads of a branch are at first. */
static void fill_initial(const lx_model *m, const lx_branch *b, float *state)
{
    const lx_mixer_parts *p = &b->parts;
    int64_t size = (int64_t)p->fields[0].rows * p->fields[0].cols;
    char name[96];
    (void)snprintf(name, sizeof name, "layers.%d.%s", p->layer, p->tensors[p->initial].name);
    const lx_host_tensor *t = &lx_model_tensor(m, name)->t;
    for (int64_t i = 0; i < p->n_heads * size; i++)
        state[b->state_offset + i / size * lx_mixer_head_floats(p) + i % size] =
            lx_host_tensor_at(t, i);
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
        fill_initial(m, b, t->initial);
    }
    return LX_OK;
}

const float *lx_transformer_initial_state(const lx_transformer *t)
{
    return t->initial;
}

lx_status lx_transformer_new(const lx_model *model, lx_backend *be, int32_t max_tokens,
                             int32_t max_outputs, lx_transformer **out, lx_error *err)
{
    if (max_tokens < 1 || max_outputs < 1)
        return lx_fail(err, LX_ERR_INVALID, NULL, "steps of %d rows with %d outputs", max_tokens,
                       max_outputs);
    lx_transformer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transformer");
    *t = (lx_transformer){
        .model = model,
        .be = be,
        .max_tokens = max_tokens,
        .max_outputs = max_outputs,
    };
    lx_status st = check_mixers(model, be, err);
    if (st == LX_OK)
        st = lx_weights_load(model, be, &t->weights, err);
    if (st == LX_OK)
        st = new_activations(t, err);
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
    const lx_kernels *ops = t->be->ops;
    lx_weights_free(&t->weights);
    lx_recompute_free(t->recompute);
    free(t->initial);
    lx_array *arrays[] = {t->streams[0], t->streams[1], t->normed,
                          t->outputs,    t->logits,     t->carried};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        ops->array_free(t->be, arrays[i]);
    for (int32_t i = 0; i < LX_MAX_BRANCHES * LX_MAX_MIXER_SCRATCH; i++)
        ops->array_free(t->be, t->scratch[i / LX_MAX_MIXER_SCRATCH][i % LX_MAX_MIXER_SCRATCH]);
    free(t);
}

const lx_model *lx_transformer_model(const lx_transformer *t)
{
    return t->model;
}

lx_backend *lx_transformer_backend(const lx_transformer *t)
{
    return t->be;
}

/* --- a step --- */

/* What the back end would find only when the states have already moved on. */
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

static void queue_linear(lx_transformer *t, lx_array *y, const lx_array *x, const lx_matrix *w,
                         lx_activation activation, const lx_array *residual, lx_rows rows)
{
    t->be->ops->linear(
        t->be,
        &(lx_linear_args){
            .y = y, .x = x, .w = w, .activation = activation, .residual = residual, .rows = rows});
}

static void queue_norm(lx_transformer *t, lx_array *y, const lx_array *x, const lx_norm_weights *n,
                       int32_t d, lx_rows rows)
{
    float eps = t->model->config.norm_eps;
    if (t->model->config.rms_norm)
        t->be->ops->head_norm(t->be, &(lx_head_norm_args){.y = y,
                                                          .x = {x, d, 0},
                                                          .gamma = n->gamma,
                                                          .n_heads = 1,
                                                          .d = d,
                                                          .kind = LX_NORM_RMS,
                                                          .eps = eps,
                                                          .rows = rows});
    else
        t->be->ops->norm(t->be, &(lx_norm_args){.y = y,
                                                .x = x,
                                                .gamma = n->gamma,
                                                .beta = n->beta,
                                                .d = d,
                                                .eps = eps,
                                                .rows = rows});
}

/* Branch b of layer `index`, the n-th of all: reversible wiring takes the streams in turns. */
static void queue_branch(lx_transformer *t, int32_t index, int32_t b, int32_t n, lx_states *states)
{
    const lx_config *c = &t->model->config;
    const lx_branch *declared = &t->model->layers[index].branches[b];
    const lx_branch_weights *own = &t->weights.layers[index].branches[b];
    bool post = c->wiring == LX_WIRING_POST, two = c->wiring == LX_WIRING_REVERSIBLE;
    lx_array *residual = t->streams[two ? n % 2 : 0];
    const lx_array *input = two ? t->streams[1 - n % 2] : residual;
    if (!post)
        queue_norm(t, t->normed, input, &own->norm, c->d_model, LX_ROWS_TOKENS);
    declared->config->mixer->queue(&(lx_mixer_call){.be = t->be,
                                                    .config = declared->config,
                                                    .parts = &declared->parts,
                                                    .weights = own->products,
                                                    .arrays = own->arrays,
                                                    .derived = own->derived,
                                                    .scratch = t->scratch[b],
                                                    .carried = t->carried,
                                                    .x = post ? residual : t->normed,
                                                    .residual = residual,
                                                    .states = states,
                                                    .offset = declared->state_offset,
                                                    .page_offset = declared->page_offset});
    if (post)
        queue_norm(t, residual, residual, &own->norm, c->d_model, LX_ROWS_TOKENS);
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

static void queue_outputs(lx_transformer *t, lx_states *states, const lx_step *s)
{
    int32_t d = t->model->config.d_model, width = lx_config_output_width(&t->model->config);
    for (int32_t i = 0; i * d < width; i++)
        t->be->ops->gather(
            t->be,
            &(lx_gather_args){
                .y = t->outputs, .x = t->streams[i], .d = d, .width = width, .column = i * d});
    queue_norm(t, t->outputs, t->outputs, &t->weights.final_norm, width, LX_ROWS_OUTPUTS);
    queue_linear(t, t->logits, t->outputs, t->weights.head, LX_ACT_NONE, NULL, LX_ROWS_OUTPUTS);
    queue_sample(t, states, s);
}

static void queue_embeddings(lx_transformer *t, lx_states *states, const lx_step *s)
{
    const lx_config *c = &t->model->config;
    int32_t n_streams = c->wiring == LX_WIRING_REVERSIBLE ? 2 : 1;
    for (int32_t i = 0; i < n_streams; i++) {
        lx_array *x = t->streams[i];
        t->be->ops->embed(t->be,
                          &(lx_embed_args){.y = x,
                                           .n_tables = c->n_inputs,
                                           .tables = (const lx_table *const *)t->weights.tables,
                                           .ids = s->ids,
                                           .states = states});
        if (c->input_norm)
            queue_norm(t, x, x, &t->weights.input_norm, c->d_model, LX_ROWS_TOKENS);
    }
}

/* Everything of a step that has been checked, but its end. */
static lx_status queue_step(lx_transformer *t, lx_states *states, const lx_step *s, lx_error *err)
{
    int32_t n = 0;
    lx_status st = t->be->ops->begin(t->be, &s->batch, err);
    if (st != LX_OK)
        return st;
    queue_embeddings(t, states, s);
    for (int32_t i = 0; i < t->model->config.n_layers; i++) {
        for (int32_t b = 0; b < t->model->layers[i].n_branches; b++)
            queue_branch(t, i, b, n++, states);
    }
    if (s->batch.n_outputs > 0)
        queue_outputs(t, states, s);
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
    *number = 0; /* of one that has ended, where a step is run here */
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
