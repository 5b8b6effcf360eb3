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

/* The tensor's numbers, to each of which `plus` is added. */
static lx_status load_array(lx_weights *w, const char *prefix, const char *suffix, float plus,
                            lx_array **out, lx_error *err)
{
    const lx_host_tensor *host = tensor(w, prefix, suffix);
    float *values = numbers(host);
    if (values == NULL)
        return no_memory(prefix, suffix, err);
    for (int64_t i = 0; plus != 0 && i < host->rows * host->cols; i++)
        values[i] += plus;
    lx_status st = make_array(w, values, host->rows * host->cols, out, err);
    free(values);
    return st;
}

static lx_status load_norm(lx_weights *w, const char *prefix, lx_norm_weights *n, lx_error *err)
{
    const lx_config *c = &w->model->config;
    lx_status st = load_array(w, prefix, ".weight", c->norm_plus_one ? 1 : 0, &n->gamma, err);
    if (st == LX_OK && !c->rms_norm)
        st = load_array(w, prefix, ".bias", 0, &n->beta, err);
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

/* One matrix out of parts of the file's; where all is of one type the rows are copied as they are,
   else as f32. */
typedef struct assembly {
    lx_dtype dtype;
    size_t size; /* of an element */
    char *data;
    float *bias; /* NULL for none */
    int64_t rows, cols;
} assembly;

static size_t size_of(lx_dtype dtype)
{
    return dtype == LX_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* The row of the file's tensor that row i of its part is. */
static int64_t file_row(const lx_mixer_tensor *t, int64_t i)
{
    return t->block > 0 ? i / t->block * t->apart + t->first_row + i % t->block : i;
}

static void copy_row(assembly *to, const lx_host_tensor *from, int64_t at)
{
    char *row = to->data + (size_t)(to->rows * to->cols) * to->size;
    if (from->dtype == to->dtype) {
        memcpy(row, (const char *)from->data + (size_t)at * to->size, (size_t)to->cols * to->size);
        return;
    }
    for (int64_t i = 0; i < to->cols; i++)
        ((float *)(void *)row)[i] = lx_host_tensor_at(from, at + i);
}

static void add_part(assembly *to, lx_weights *w, const char *prefix, const lx_mixer_tensor *t)
{
    const lx_host_tensor *from = tensor(w, prefix, ".weight");
    const lx_host_tensor *bias = to->bias != NULL ? tensor(w, prefix, ".bias") : NULL;
    for (int64_t i = 0; i < t->rows; i++, to->rows++) {
        copy_row(to, from, file_row(t, i) * from->cols + t->first);
        if (bias != NULL)
            to->bias[to->rows] = lx_host_tensor_at(bias, file_row(t, i));
    }
}

/* "layers.I.NAME" */
static const char *full_name(char name[96], int32_t layer, const lx_mixer_tensor *t)
{
    (void)snprintf(name, 96, "layers.%d.%s", layer, t->name);
    return name;
}

/* The n tensors from t on, or their parts, as one matrix. */
static lx_status load_assembled(lx_weights *w, int32_t layer, const lx_mixer_tensor *t, int32_t n,
                                lx_matrix **out, lx_error *err)
{
    char name[96];
    int64_t rows = 0;
    assembly all = {.cols = t->cols};
    for (int32_t i = 0; i < n; i++) {
        lx_dtype dtype = tensor(w, full_name(name, layer, &t[i]), ".weight")->dtype;
        all.dtype = i == 0 || dtype == all.dtype ? dtype : LX_F32;
        rows += t[i].rows;
    }
    all.size = size_of(all.dtype);
    all.data = malloc((size_t)(rows * all.cols) * all.size);
    all.bias = t->role == LX_TENSOR_PRODUCT ? malloc((size_t)rows * sizeof *all.bias) : NULL;
    bool ok = all.data != NULL && (t->role != LX_TENSOR_PRODUCT || all.bias != NULL);
    for (int32_t i = 0; i < n && ok; i++)
        add_part(&all, w, full_name(name, layer, &t[i]), &t[i]);
    const lx_host_tensor host = {all.dtype, rows, all.cols, all.data};
    lx_status st = ok ? w->be->ops->matrix_new(w->be, &host, all.bias, out, err)
                      : no_memory(full_name(name, layer, t), ".weight", err);
    free(all.data);
    free(all.bias);
    return st;
}

static lx_status load_parameters(lx_weights *w, const char *prefix, lx_tensor_role role,
                                 lx_matrix **product, lx_array **array, lx_error *err)
{
    if (role == LX_TENSOR_ARRAY)
        return load_array(w, prefix, "", 0, array, err);
    if (role == LX_TENSOR_MAP)
        return w->be->ops->matrix_new(w->be, tensor(w, prefix, ".weight"), NULL, product, err);
    return load_product(w, prefix, product, err);
}

/* Tensor i of a branch, with those that it is joined with; *i becomes the last of them. */
static lx_status load_tensor(lx_weights *w, const lx_mixer_parts *parts, int32_t *i,
                             lx_branch_weights *to, lx_error *err)
{
    const lx_mixer_tensor *t = &parts->tensors[*i];
    char name[96];
    int32_t first = *i;
    while (parts->tensors[*i].joins_next)
        ++*i;
    if (*i > first || t->all_cols > 0 || t->block > 0)
        return load_assembled(w, parts->layer, t, *i - first + 1, &to->products[first], err);
    return load_parameters(w, full_name(name, parts->layer, t), t->role, &to->products[first],
                           &to->arrays[first], err);
}

/* The arrays that numbers are derived from, one behind the other; likewise. */
static float *all_numbers(lx_weights *w, const lx_mixer_parts *parts, const lx_mixer_derived *d)
{
    const lx_host_tensor *arrays[LX_MAX_MIXER_TENSORS];
    int64_t n = 0, at = 0;
    for (int32_t i = 0; i < d->n_from; i++) {
        char name[96];
        arrays[i] = tensor(w, full_name(name, parts->layer, &parts->tensors[d->from + i]), "");
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
    for (int32_t i = 0; i < parts->n_tensors && st == LX_OK; i++)
        st = load_tensor(w, parts, &i, to, err);
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
    if (st == LX_OK && c->mel.n_bands > 0)
        st = load_product(w, "features", &w->features, err);
    if (st == LX_OK && c->input_norm)
        st = load_norm(w, "input_norm", &w->input_norm, err);
    for (int32_t i = 0; i < c->n_layers; i++) {
        for (int32_t b = 0; b < w->model->layers[i].n_branches && st == LX_OK; b++)
            st = load_branch(w, i, b, err);
    }
    if (st == LX_OK)
        st = load_norm(w, "final_norm", &w->final_norm, err);
    lx_tensor_role head = c->plain_head ? LX_TENSOR_MAP : LX_TENSOR_PRODUCT;
    return st == LX_OK ? load_parameters(w, "head", head, &w->head, NULL, err) : st;
}

lx_status lx_weights_load(const lx_model *model, lx_backend *be, lx_weights *out, lx_error *err)
{
    lx_weights w = {.model = model,
                    .be = be,
                    .layers = calloc((size_t)model->config.n_layers, sizeof *w.layers)};
    if (w.layers == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transformer");
    lx_status st = load_all(&w, err);
    if (st != LX_OK) {
        lx_weights_free(&w);
        return st;
    }
    lx_safetensors_let_go(model->weights); /* the back end has them in its own order */
    *out = w;
    return LX_OK;
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
    w->be->ops->matrix_free(w->be, w->features);
    w->be->ops->matrix_free(w->be, w->head);
    free(w->layers);
    *w = (lx_weights){0};
}
