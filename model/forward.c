/* Layers over a back end (see forward.h). */
#include "model/forward.h"

/* --- activations --- */

/* The most that any layer's branch b wants of scratch buffer i, in floats per token row. */
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

int64_t lx_forward_row_floats(const lx_model *m)
{
    const lx_config *c = &m->config;
    int64_t n = (c->wiring == LX_WIRING_REVERSIBLE ? 3 : 2) * (int64_t)c->d_model;
    n += (m->norms_outputs ? c->d_model : 0) + m->layers[0].branches[0].parts.carried;
    for (int32_t b = 0; b < LX_MAX_BRANCHES; b++)
        for (int32_t i = 0; i < LX_MAX_MIXER_SCRATCH; i++)
            n += scratch_floats(m, b, i);
    return n;
}

/* width 0: none. */
static lx_status add_rows(lx_forward *f, int64_t rows, int64_t width, lx_array **out, lx_error *err)
{
    if (width == 0)
        return LX_OK;
    return f->be->ops->rows_new(f->be, rows, width, out, err);
}

static lx_status new_activations(lx_forward *f, int64_t rows, lx_error *err)
{
    const lx_config *c = &f->model->config;
    f->bytes = rows * lx_forward_row_floats(f->model) * (int64_t)sizeof(float);
    lx_status st = add_rows(f, rows, c->d_model, &f->streams[0], err);
    if (st == LX_OK && c->wiring == LX_WIRING_REVERSIBLE)
        st = add_rows(f, rows, c->d_model, &f->streams[1], err);
    if (st == LX_OK)
        st = add_rows(f, rows, c->d_model, &f->normed, err);
    if (st == LX_OK && f->model->norms_outputs)
        st = add_rows(f, rows, c->d_model, &f->output, err);
    if (st == LX_OK)
        st = add_rows(f, rows, f->model->layers[0].branches[0].parts.carried, &f->carried, err);
    for (int32_t i = 0; i < LX_MAX_BRANCHES * LX_MAX_MIXER_SCRATCH && st == LX_OK; i++) {
        int32_t b = i / LX_MAX_MIXER_SCRATCH, k = i % LX_MAX_MIXER_SCRATCH;
        st = add_rows(f, rows, scratch_floats(f->model, b, k), &f->scratch[b][k], err);
    }
    return st;
}

/* Recomputed models need known ids, and a device's steps may start before the ids are known. */
static bool has_mixer(const lx_backend *be, const lx_mixer_config *c)
{
    if (c->mixer->is_recomputed && be->ops->is_device)
        return false;
    return c->mixer->is_on == NULL || c->mixer->is_on(c, be->ops);
}

lx_status lx_forward_check(const lx_model *m, const lx_backend *be, lx_error *err)
{
    for (int32_t i = 0; i < m->config.n_layers * LX_MAX_BRANCHES; i++) {
        const lx_branch *b = &m->layers[i / LX_MAX_BRANCHES].branches[i % LX_MAX_BRANCHES];
        if (b->config != NULL && !has_mixer(be, b->config))
            return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                           "%s: %s %s%s is not on the back end %s: use --device cpu", m->name,
                           b->config->mixer->is_feed_forward ? "feed-forward net" : "attention",
                           b->config->mixer->name, b->parts.sees_all ? " both ways" : "",
                           be->ops->name);
    }
    return LX_OK;
}

/* The number of the last branch, of all, that needs every row: another token can see what it
   computes, or its input is that of the branch before. */
static int32_t last_state(const lx_model *m)
{
    int32_t n = 0, last = -1;
    for (int32_t i = 0; i < m->config.n_layers; i++) {
        for (int32_t b = 0; b < m->layers[i].n_branches; b++, n++) {
            const lx_branch *branch = &m->layers[i].branches[b];
            bool by_itself = branch->config->mixer->is_feed_forward && branch->norm > 0 &&
                             lx_mixer_state_floats(&branch->parts) == 0;
            last = by_itself ? last : n;
        }
    }
    return last;
}

lx_status lx_forward_init(lx_forward *f, const lx_model *model, lx_backend *be, int32_t max_rows,
                          lx_error *err)
{
    *f = (lx_forward){.model = model, .be = be, .last_state = last_state(model)};
    lx_status st = lx_forward_check(model, be, err);
    if (st == LX_OK)
        st = lx_weights_load(model, be, &f->weights, err);
    if (st == LX_OK)
        st = new_activations(f, max_rows, err);
    if (st != LX_OK)
        lx_forward_fini(f);
    return st;
}

void lx_forward_fini(lx_forward *f)
{
    if (f->be == NULL)
        return;
    const lx_kernels *ops = f->be->ops;
    lx_weights_free(&f->weights);
    lx_array *arrays[] = {f->streams[0], f->streams[1], f->normed, f->output, f->carried};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        ops->array_free(f->be, arrays[i]);
    for (int32_t i = 0; i < LX_MAX_BRANCHES * LX_MAX_MIXER_SCRATCH; i++)
        ops->array_free(f->be, f->scratch[i / LX_MAX_MIXER_SCRATCH][i % LX_MAX_MIXER_SCRATCH]);
    *f = (lx_forward){0};
}

/* --- a step --- */

void lx_forward_product(const lx_forward *f, lx_array *y, const lx_array *x, const lx_matrix *w,
                        const lx_array *residual, lx_rows rows)
{
    f->be->ops->linear(
        f->be,
        &(lx_linear_args){
            .y = y, .x = x, .w = w, .activation = LX_ACT_NONE, .residual = residual, .rows = rows});
}

void lx_forward_norm(const lx_forward *f, lx_array *y, const lx_array *x, const lx_norm_weights *n,
                     int32_t d, lx_rows rows)
{
    float eps = f->model->config.norm_eps;
    if (f->model->config.rms_norm)
        f->be->ops->head_norm(f->be, &(lx_head_norm_args){.y = y,
                                                          .x = {x, d, 0},
                                                          .gamma = n->gamma,
                                                          .n_heads = 1,
                                                          .d = d,
                                                          .kind = LX_NORM_RMS,
                                                          .eps = eps,
                                                          .rows = rows});
    else
        f->be->ops->norm(f->be, &(lx_norm_args){.y = y,
                                                .x = x,
                                                .gamma = n->gamma,
                                                .beta = n->beta,
                                                .d = d,
                                                .eps = eps,
                                                .rows = rows});
}

void lx_forward_embed(const lx_forward *f, lx_array *x, const int32_t *ids, const lx_states *states)
{
    f->be->ops->embed(f->be, &(lx_embed_args){.y = x,
                                              .n_tables = f->model->config.n_inputs,
                                              .tables = (const lx_table *const *)f->weights.tables,
                                              .ids = ids,
                                              .states = states});
    if (f->weights.embedding_scale != NULL) {
        int32_t d = f->model->config.d_model;
        f->be->ops->gate(f->be, &(lx_gate_args){.y = x,
                                                .x = {x, d, 0},
                                                .factor = f->weights.embedding_scale,
                                                .d = d,
                                                .rows = LX_ROWS_TOKENS});
    }
}

void lx_forward_input_norm(const lx_forward *f)
{
    for (int32_t i = 0; i < 2 && f->model->config.input_norm; i++) {
        if (f->streams[i] != NULL)
            lx_forward_norm(f, f->streams[i], f->streams[i], &f->weights.input_norm,
                            f->model->config.d_model, LX_ROWS_TOKENS);
    }
}

/* Where a step stands between two branches. */
typedef struct place {
    lx_array *streams[2];
    lx_rows rows; /* of the streams */
    lx_states *states;
    lx_array *outputs; /* where the rows with an output go, after the last branch with a state */
    int32_t n_outputs;
} place;

/* y = z + (offset + factor x) other, of rows as wide as the model; without z and other their parts
   are left out. */
static void queue_sum(const lx_forward *f, const place *at, lx_array *y, const lx_array *z,
                      const lx_array *other, const lx_array *factor, const lx_array *offset)
{
    int32_t d = f->model->config.d_model;
    f->be->ops->gate(f->be,
                     &(lx_gate_args){.y = y,
                                     .x = {at->streams[0], d, 0},
                                     .z = {z, d, 0},
                                     .other = {other, d, 0},
                                     .factor = factor,
                                     .offset = offset,
                                     .d = d,
                                     .weighing = other != NULL ? LX_WEIGH_PLUS : LX_WEIGH_NONE,
                                     .rows = at->rows});
}

/* Branch b of layer `index`, the n-th of all: reversible wiring takes the streams in turns. */
static void queue_branch(const lx_forward *f, int32_t index, int32_t b, int32_t n, place *at)
{
    const lx_config *c = &f->model->config;
    const lx_branch *declared = &f->model->layers[index].branches[b];
    const lx_branch_weights *own = &f->weights.layers[index].branches[b];
    bool post = c->wiring == LX_WIRING_POST, two = c->wiring == LX_WIRING_REVERSIBLE;
    lx_array *residual = at->streams[two ? n % 2 : 0];
    const lx_array *input = two ? at->streams[1 - n % 2] : residual;
    bool before = !post && declared->norms != LX_NORM_AFTER;
    bool after = declared->norms != LX_NORM_BEFORE;
    /* A norm of the branch's output would have to come first. */
    bool leaves = at->outputs != NULL && n == f->last_state && !after;
    const lx_weights *w = &f->weights;
    if (after)
        queue_sum(f, at, f->output, NULL, NULL, w->zeros, NULL);
    if (before && declared->norm > 0)
        lx_forward_norm(f, f->normed, input, &own->norm, c->d_model, at->rows);
    declared->config->mixer->queue(&(lx_mixer_call){.be = f->be,
                                                    .config = declared->config,
                                                    .parts = &declared->parts,
                                                    .weights = own->products,
                                                    .arrays = own->arrays,
                                                    .derived = own->derived,
                                                    .scratch = f->scratch[b],
                                                    .carried = f->carried,
                                                    .rows = at->rows,
                                                    .x = before ? f->normed : residual,
                                                    .residual = after ? f->output : residual,
                                                    .outputs = leaves ? at->outputs : NULL,
                                                    .n_outputs = at->n_outputs,
                                                    .states = at->states,
                                                    .offset = declared->state_offset,
                                                    .page_offset = declared->page_offset});
    if (leaves) {
        residual = at->streams[0] = at->outputs;
        at->rows = LX_ROWS_OUTPUTS;
        if (at->n_outputs == 0)
            return;
    }
    if (post)
        lx_forward_norm(f, residual, residual, &own->norm, c->d_model, at->rows);
    if (after) {
        lx_forward_norm(f, f->output, f->output, &own->post_norm, c->d_model, at->rows);
        queue_sum(f, at, residual, residual, f->output, w->zeros, w->ones);
    }
}

/* Leaves the rows without an output, which no later branch reads. */
static void leave_rows(const lx_forward *f, place *at)
{
    int32_t d = f->model->config.d_model;
    if (at->n_outputs > 0)
        f->be->ops->gather(
            f->be, &(lx_gather_args){.y = at->outputs, .x = at->streams[0], .d = d, .width = d});
    at->streams[0] = at->outputs;
    at->rows = LX_ROWS_OUTPUTS;
}

bool lx_forward_layers(const lx_forward *f, lx_states *states, int32_t n_outputs, lx_array *outputs)
{
    place at = {.streams = {f->streams[0], f->streams[1]},
                .rows = LX_ROWS_TOKENS,
                .states = states,
                .outputs = f->streams[1] == NULL ? outputs : NULL,
                .n_outputs = n_outputs};
    int32_t n = 0;
    for (int32_t i = 0; i < f->model->config.n_layers; i++) {
        for (int32_t b = 0; b < f->model->layers[i].n_branches; b++, n++) {
            if (at.outputs != NULL && n > f->last_state && at.rows == LX_ROWS_TOKENS)
                leave_rows(f, &at);
            if (at.rows == LX_ROWS_OUTPUTS && n_outputs == 0)
                return true;
            queue_branch(f, i, b, n, &at);
        }
    }
    return at.rows == LX_ROWS_OUTPUTS;
}
