/* Preparing a model's weights (see weights.h). lx_model_load saw every tensor that is read here. */
#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lx_host_tensor *tensor(const lx_weights *w, const char *prefix, const char *suffix)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s%s", prefix, suffix);
    return &lx_model_tensor(w->model, name)->t;
}

/* A tensor's numbers as f32; the caller frees them. NULL when there is no memory. */
static float *numbers(const lx_host_tensor *t)
{
    int64_t n = t->rows * t->cols;
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; v != NULL && i < n; i++)
        v[i] = lx_host_tensor_at(t, i);
    return v;
}

static lx_status no_memory(const char *prefix, const char *suffix, lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s%s", prefix, suffix);
}

static lx_status make_array(lx_weights *w, const float *values, int64_t n, lx_array **out,
                            lx_error *err)
{
    lx_status st = w->be->ops->array_new(w->be, n, out, err);
    if (st != LX_OK)
        return st;
    st = w->be->ops->array_upload(w->be, *out, 0, values, n);
    return st == LX_OK ? LX_OK : lx_fail(err, st, NULL, "weights could not be moved to the device");
}

static lx_status load_array(lx_weights *w, const char *prefix, const char *suffix, lx_array **out,
                            lx_error *err)
{
    const lx_host_tensor *host = tensor(w, prefix, suffix);
    float *values = numbers(host);
    if (values == NULL)
        return no_memory(prefix, suffix, err);
    lx_status st = make_array(w, values, host->rows * host->cols, out, err);
    free(values);
    return st;
}

static lx_status load_norm(lx_weights *w, const char *prefix, lx_norm_weights *n, lx_error *err)
{
    lx_status st = load_array(w, prefix, ".weight", &n->gamma, err);
    if (st == LX_OK && !w->model->config.rms_norm)
        st = load_array(w, prefix, ".bias", &n->beta, err);
    return st;
}

static lx_status load_product(lx_weights *w, const char *prefix, lx_matrix **out, lx_error *err)
{
    float *bias = numbers(tensor(w, prefix, ".bias"));
    if (bias == NULL)
        return no_memory(prefix, ".bias", err);
    lx_status st = w->be->ops->matrix_new(w->be, tensor(w, prefix, ".weight"), bias, out, err);
    free(bias);
    return st;
}

/* Some columns of a matrix of the file, by a copy: back ends take whole rows. */
static lx_status load_part(lx_weights *w, const char *prefix, const lx_mixer_tensor *t,
                           lx_matrix **out, lx_error *err)
{
    const lx_host_tensor *all = tensor(w, prefix, ".weight");
    size_t size = all->dtype == LX_F32 ? sizeof(float) : sizeof(uint16_t);
    size_t n = (size_t)t->cols * size;
    char *copy = malloc((size_t)t->rows * n);
    if (copy == NULL)
        return no_memory(prefix, ".weight", err);
    for (int64_t i = 0; i < t->rows; i++)
        memcpy(copy + (size_t)i * n,
               (const char *)all->data + (size_t)(i * all->cols + t->first) * size, n);
    lx_status st = w->be->ops->matrix_new(
        w->be, &(lx_host_tensor){all->dtype, t->rows, t->cols, copy}, NULL, out, err);
    free(copy);
    return st;
}

static lx_status load_parameters(lx_weights *w, const char *prefix, const lx_mixer_tensor *t,
                                 lx_matrix **product, lx_array **array, lx_error *err)
{
    if (t->role == LX_TENSOR_ARRAY)
        return load_array(w, prefix, "", array, err);
    if (t->role == LX_TENSOR_PRODUCT)
        return load_product(w, prefix, product, err);
    if (t->all_cols > 0)
        return load_part(w, prefix, t, product, err);
    return w->be->ops->matrix_new(w->be, tensor(w, prefix, ".weight"), NULL, product, err);
}

/* The arrays that numbers are derived from, one behind the other; likewise. */
static float *all_numbers(lx_weights *w, const lx_mixer_parts *parts, const lx_mixer_derived *d)
{
    const lx_host_tensor *arrays[LX_MAX_MIXER_TENSORS];
    int64_t n = 0, at = 0;
    for (int32_t i = 0; i < d->n_from; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "layers.%d.%s", parts->layer,
                       parts->tensors[d->from + i].name);
        arrays[i] = tensor(w, name, "");
        n += arrays[i]->rows * arrays[i]->cols;
    }
    float *v = malloc((size_t)n * sizeof *v);
    for (int32_t i = 0; v != NULL && i < d->n_from; i++) {
        for (int64_t j = 0; j < arrays[i]->rows * arrays[i]->cols; j++)
            v[at++] = lx_host_tensor_at(arrays[i], j);
    }
    return v;
}

static lx_status load_derived(lx_weights *w, const lx_branch *b, const lx_mixer_derived *d,
                              lx_array **out, lx_error *err)
{
    float *values = calloc((size_t)d->n, sizeof *values);
    float *from = d->n_from > 0 ? all_numbers(w, &b->parts, d) : NULL;
    lx_status st = LX_OK;
    if (values == NULL || (d->n_from > 0 && from == NULL)) {
        st = no_memory("numbers derived from weights", "", err);
    } else {
        d->fill(b->config, &b->parts, d, from, values);
        st = make_array(w, values, d->n, out, err);
    }
    free(from);
    free(values);
    return st;
}

static lx_status load_branch(lx_weights *w, int32_t index, int32_t b, lx_error *err)
{
    const lx_branch *branch = &w->model->layers[index].branches[b];
    const lx_mixer_parts *parts = &branch->parts;
    lx_branch_weights *to = &w->layers[index].branches[b];
    char prefix[64];
    (void)snprintf(prefix, sizeof prefix, "layers.%d.norm%d", index, b + 1);
    lx_status st = load_norm(w, prefix, &to->norm, err);
    for (int32_t i = 0; i < parts->n_tensors && st == LX_OK; i++) {
        (void)snprintf(prefix, sizeof prefix, "layers.%d.%s", index, parts->tensors[i].name);
        st = load_parameters(w, prefix, &parts->tensors[i], &to->products[i], &to->arrays[i], err);
    }
    for (int32_t i = 0; i < parts->n_derived && st == LX_OK; i++)
        st = load_derived(w, branch, &parts->derived[i], &to->derived[i], err);
    return st;
}

static lx_status load_all(lx_weights *w, lx_error *err)
{
    const lx_config *c = &w->model->config;
    lx_status st = LX_OK;
    for (int32_t i = 0; i < c->n_inputs && st == LX_OK; i++) {
        char prefix[16 + LX_MAX_NAME];
        (void)snprintf(prefix, sizeof prefix, "embed.%s", c->inputs[i].name);
        st = w->be->ops->table_new(w->be, tensor(w, prefix, ".weight"), &w->tables[i], err);
    }
    if (st == LX_OK && c->input_norm)
        st = load_norm(w, "input_norm", &w->input_norm, err);
    for (int32_t i = 0; i < c->n_layers; i++) {
        for (int32_t b = 0; b < w->model->layers[i].n_branches && st == LX_OK; b++)
            st = load_branch(w, i, b, err);
    }
    if (st == LX_OK)
        st = load_norm(w, "final_norm", &w->final_norm, err);
    const lx_mixer_tensor head = {.role = c->plain_head ? LX_TENSOR_MAP : LX_TENSOR_PRODUCT};
    return st == LX_OK ? load_parameters(w, "head", &head, &w->head, NULL, err) : st;
}

lx_status lx_weights_load(const lx_model *model, lx_backend *be, lx_weights *out, lx_error *err)
{
    lx_weights w = {.model = model,
                    .be = be,
                    .layers = calloc((size_t)model->config.n_layers, sizeof *w.layers)};
    if (w.layers == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transformer");
    lx_status st = load_all(&w, err);
    if (st == LX_OK)
        *out = w;
    else
        lx_weights_free(&w);
    return st;
}

static void free_norm(const lx_weights *w, const lx_norm_weights *n)
{
    w->be->ops->array_free(w->be, n->gamma);
    w->be->ops->array_free(w->be, n->beta);
}

static void free_branch(const lx_weights *w, const lx_branch_weights *b)
{
    free_norm(w, &b->norm);
    for (int32_t i = 0; i < LX_MAX_MIXER_TENSORS; i++) {
        w->be->ops->matrix_free(w->be, b->products[i]);
        w->be->ops->array_free(w->be, b->arrays[i]);
    }
    for (int32_t i = 0; i < LX_MAX_MIXER_DERIVED; i++)
        w->be->ops->array_free(w->be, b->derived[i]);
}

void lx_weights_free(lx_weights *w)
{
    if (w->layers == NULL)
        return;
    for (int32_t i = 0; i < LX_MAX_INPUTS; i++)
        w->be->ops->table_free(w->be, w->tables[i]);
    for (int32_t i = 0; i < w->model->config.n_layers; i++) {
        for (int32_t b = 0; b < LX_MAX_BRANCHES; b++)
            free_branch(w, &w->layers[i].branches[b]);
    }
    free_norm(w, &w->input_norm);
    free_norm(w, &w->final_norm);
    w->be->ops->matrix_free(w->be, w->head);
    free(w->layers);
    *w = (lx_weights){0};
}
