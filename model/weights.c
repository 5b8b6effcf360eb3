/*
 * Preparing a model's weights (see weights.h). lx_model_load saw every tensor that is read here.
 *
 * A matrix whose rows lie in the file as the back end wants them is never copied as a whole: the
 * back end reads its rows (lx_row_reader). That is so for all large tensors of usual folders. Rows
 * that are put together in another way, and tensors of GGUF files, go through memory.
 */
#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct room {
    void *data;
    size_t n_bytes;
} room;

/* Tensors that go through memory do so one at a time, in the same memory: fresh pages for each
   would take as long as reading. */
typedef struct loader {
    lx_weights *w;
    room values;    /* of the tensor that was read last */
    room assembled; /* the matrix that is put together */
} loader;

/* NULL without memory. */
static void *make_room(room *r, size_t n_bytes)
{
    if (n_bytes > r->n_bytes) {
        free(r->data);
        r->data = malloc(n_bytes);
        r->n_bytes = r->data != NULL ? n_bytes : 0;
    }
    return r->data;
}

static lx_status no_memory(const char *prefix, const char *suffix, lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s%s", prefix, suffix);
}

static const lx_tensor *find(const loader *l, const char *prefix, const char *suffix)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s%s", prefix, suffix);
    return lx_model_tensor(l->w->model, name);
}

/* --- rows that the back end reads --- */

/* Rows begin .. end - 1 of a matrix, which are rows `first` .. of a tensor; NULL: zeros. */
typedef struct segment {
    const lx_tensor *from;
    int64_t first, begin, end;
} segment;

/* The rows of a matrix, in the order of the segments. */
typedef struct row_list {
    const lx_safetensors *file;
    size_t row_bytes;
    int32_t n;
    segment *segments;
} row_list;

/* The segment that has a row. */
static const segment *segment_of(const row_list *l, int64_t row)
{
    int32_t from = 0, to = l->n - 1;
    while (from < to) {
        int32_t middle = from + (to - from) / 2;
        if (row < l->segments[middle].end)
            to = middle;
        else
            from = middle + 1;
    }
    return &l->segments[from];
}

static lx_status read_rows(const void *context, int64_t first, int64_t n, void *to, lx_error *err)
{
    const row_list *l = context;
    lx_status st = LX_OK;
    char *data = to;
    for (const segment *s = segment_of(l, first); n > 0 && st == LX_OK; s++) {
        int64_t left = s->end - first, rows = n < left ? n : left;
        size_t n_bytes = (size_t)rows * l->row_bytes;
        if (s->from == NULL)
            memset(data, 0, n_bytes);
        else
            st = lx_safetensors_read_rows(l->file, s->from, s->first + first - s->begin, rows, data,
                                          err);
        data += n_bytes;
        first += rows;
        n -= rows;
    }
    return st;
}

/* All rows of a tensor. */
typedef struct tensor_rows {
    segment all;
    row_list list;
    lx_row_reader reader;
} tensor_rows;

/* False: it cannot be read in rows. */
static bool read_in_rows(const loader *l, const lx_tensor *t, tensor_rows *out)
{
    const lx_safetensors *file = l->w->model->weights;
    out->all = (segment){t, 0, 0, t->t.rows};
    out->list = (row_list){file, lx_format_bytes(t->t.dtype, t->t.cols), 1, &out->all};
    out->reader = (lx_row_reader){read_rows, &out->list};
    return lx_safetensors_has_rows(file);
}

/* --- through memory --- */

/* A tensor with its values, which last until the next one is read. */
static lx_status read_tensor(loader *l, const char *prefix, const char *suffix, lx_host_tensor *out,
                             lx_error *err)
{
    const lx_tensor *t = find(l, prefix, suffix);
    void *values = make_room(&l->values, lx_safetensors_bytes(t));
    if (values == NULL)
        return no_memory(prefix, suffix, err);
    *out = t->t;
    out->data = values;
    return lx_safetensors_read(l->w->model->weights, t, values, err);
}

/* A tensor's numbers as f32; the caller frees them. */
static lx_status read_numbers(const loader *l, const char *prefix, const char *suffix, float **out,
                              lx_error *err)
{
    const lx_tensor *t = find(l, prefix, suffix);
    float *v = malloc((size_t)(t->t.rows * t->t.cols) * sizeof *v);
    if (v == NULL)
        return no_memory(prefix, suffix, err);
    lx_status st = lx_safetensors_numbers(l->w->model->weights, t, v, err);
    if (st != LX_OK)
        free(v);
    else
        *out = v;
    return st;
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

/* The tensor's numbers, to each of which `plus` is added, times `scale`. */
static lx_status load_array(const loader *l, const char *prefix, const char *suffix, float plus,
                            float scale, lx_array **out, lx_error *err)
{
    const lx_host_tensor *t = &find(l, prefix, suffix)->t;
    float *values = NULL;
    lx_status st = read_numbers(l, prefix, suffix, &values, err);
    if (st != LX_OK)
        return st;
    for (int64_t i = 0; (plus != 0 || scale != 1) && i < t->rows * t->cols; i++)
        values[i] = (values[i] + plus) * scale;
    st = make_array(l->w, values, t->rows * t->cols, out, err);
    free(values);
    return st;
}

static lx_status load_norm(const loader *l, const char *prefix, lx_norm_weights *n, lx_error *err)
{
    const lx_config *c = &l->w->model->config;
    float scale = n == &l->w->final_norm && c->head_scale > 0 ? c->head_scale : 1;
    float plus = c->norm_plus_one ? 1 : 0;
    lx_status st = load_array(l, prefix, ".weight", plus, scale, &n->gamma, err);
    if (st == LX_OK && !c->rms_norm)
        st = load_array(l, prefix, ".bias", 0, scale, &n->beta, err);
    return st;
}

/* A back end that joins matrices keeps blocks, and with AUTO rounds the numbers of others again. */
static bool keeps_blocks(const loader *l)
{
    return l->w->be->ops->matrix_join != NULL && l->w->be->precision == LX_PRECISION_AUTO;
}

static lx_status make_matrix(loader *l, const lx_host_tensor *t, const lx_row_reader *rows,
                             const float *bias, lx_matrix **out, lx_error *err)
{
    if (keeps_blocks(l) && t->dtype == LX_F32_OF_BLOCKS)
        l->w->n_rerounded += t->rows * t->cols;
    return l->w->be->ops->matrix_new(l->w->be, t, rows, bias, out, err);
}

static lx_status load_matrix(loader *l, const char *prefix, const float *bias, lx_matrix **out,
                             lx_error *err)
{
    const lx_tensor *stored = find(l, prefix, ".weight");
    tensor_rows rows;
    lx_host_tensor t;
    if (read_in_rows(l, stored, &rows))
        return make_matrix(l, &stored->t, &rows.reader, bias, out, err);
    lx_status st = read_tensor(l, prefix, ".weight", &t, err);
    return st == LX_OK ? make_matrix(l, &t, NULL, bias, out, err) : st;
}

static lx_status load_product(loader *l, const char *prefix, lx_matrix **out, lx_error *err)
{
    float *bias = NULL;
    lx_status st = read_numbers(l, prefix, ".bias", &bias, err);
    if (st == LX_OK)
        st = load_matrix(l, prefix, bias, out, err);
    free(bias);
    return st;
}

/* One matrix out of parts of the file's; where all is of one type and has whole blocks the rows are
   copied as they are, else as f32. */
typedef struct assembly {
    lx_dtype dtype;
    char *data;
    float *bias; /* NULL for none */
    int64_t rows, cols;
} assembly;

/* Row i of the matrix, of a tensor's numbers from `at` on. */
static void copy_row(assembly *to, int64_t i, const lx_host_tensor *from, int64_t at)
{
    char *row = to->data + lx_format_bytes(to->dtype, i * to->cols);
    if (from->dtype == to->dtype) {
        memcpy(row, (const char *)from->data + lx_format_bytes(to->dtype, at),
               lx_format_bytes(to->dtype, to->cols));
        return;
    }
    lx_host_tensor_expand(from, at, to->cols, (float *)(void *)row);
}

/* Rows of part i of t, as many as it has, where the file has them as the matrix needs them, from
 *first on; NULL: it has not. */
static const lx_tensor *find_rows(lx_dtype dtype, const loader *l, const lx_mixer_parts *parts,
                                  const lx_mixer_tensor *t, int32_t i, int64_t *first)
{
    char name[LX_MIXER_TENSOR_NAME];
    const lx_tensor *from = lx_model_whole(l->w->model, parts, t, name);
    *first = from != NULL ? i * t->part_rows + t->part_row : 0;
    if (from == NULL && t->block == 0 && t->all_cols == 0) {
        lx_mixer_tensor_name(parts, t, i, name);
        from = find(l, name, ".weight");
    }
    return from != NULL && from->t.dtype == dtype ? from : NULL;
}

/* The rows of part i of t. */
static lx_status add_rows(assembly *to, loader *l, const lx_mixer_parts *parts,
                          const lx_mixer_tensor *t, int32_t i, int64_t rows, lx_error *err)
{
    char prefix[LX_MIXER_TENSOR_NAME];
    lx_host_tensor from;
    int64_t first = 0;
    const lx_safetensors *file = l->w->model->weights;
    const lx_tensor *same = find_rows(to->dtype, l, parts, t, i, &first);
    char *data = to->data + lx_format_bytes(to->dtype, to->rows * to->cols);
    if (same != NULL && same->t.rows == rows)
        return lx_safetensors_read(file, same, data, err);
    if (same != NULL)
        return lx_safetensors_read_rows(file, same, first, rows, data, err);
    lx_mixer_tensor_name(parts, t, i, prefix);
    lx_status st = read_tensor(l, prefix, ".weight", &from, err);
    for (int64_t k = 0; k < rows && st == LX_OK; k++)
        copy_row(to, to->rows + k, &from, lx_mixer_file_row(t, k) * from.cols + t->first);
    return st;
}

/* The rows of a part of t, which zeros follow in the matrix. */
static int64_t rows_of_part(const lx_mixer_tensor *t)
{
    return t->n_experts > 0 ? t->expert_rows : t->rows;
}

/* Part i of t, with its bias and the zeros after its rows. */
static lx_status add_part(assembly *to, loader *l, const lx_mixer_parts *parts,
                          const lx_mixer_tensor *t, int32_t i, lx_error *err)
{
    char prefix[LX_MIXER_TENSOR_NAME];
    float *bias = NULL;
    int64_t all_rows = t->rows / lx_mixer_file_tensors(t);
    int64_t rows = rows_of_part(t);
    lx_mixer_tensor_name(parts, t, i, prefix);
    lx_status st = to->bias != NULL ? read_numbers(l, prefix, ".bias", &bias, err) : LX_OK;
    if (st == LX_OK)
        st = add_rows(to, l, parts, t, i, rows, err);
    for (int64_t k = 0; k < rows && bias != NULL && st == LX_OK; k++)
        to->bias[to->rows + k] = bias[lx_mixer_file_row(t, k)];
    free(bias);
    to->rows += rows;
    memset(to->data + lx_format_bytes(to->dtype, to->rows * to->cols), 0,
           lx_format_bytes(to->dtype, (all_rows - rows) * to->cols));
    to->rows += all_rows - rows;
    return st;
}

static bool is_of_blocks(lx_dtype dtype)
{
    return dtype == LX_F32_OF_BLOCKS || lx_format_of(dtype)->block > 1;
}

/* The type of numbers that are of both types. */
static lx_dtype common_dtype(lx_dtype a, lx_dtype b)
{
    if (a == b)
        return a;
    return is_of_blocks(a) && is_of_blocks(b) ? LX_F32_OF_BLOCKS : LX_F32;
}

/* The type that all tensors of the file that make up t are copied as. */
static lx_dtype part_dtype(const loader *l, const lx_mixer_parts *parts, const lx_mixer_tensor *t)
{
    char name[LX_MIXER_TENSOR_NAME];
    lx_dtype all = LX_F32;
    const lx_tensor *whole = lx_model_whole(l->w->model, parts, t, name);
    if (whole != NULL)
        return whole->t.dtype;
    for (int32_t i = 0; i < lx_mixer_file_tensors(t); i++) {
        lx_mixer_tensor_name(parts, t, i, name);
        lx_dtype dtype = find(l, name, ".weight")->t.dtype;
        int32_t block = lx_format_of(dtype)->block;
        if (t->first % block != 0 || t->cols % block != 0)
            dtype = LX_F32_OF_BLOCKS;
        all = i == 0 ? dtype : common_dtype(all, dtype);
    }
    return all;
}

/* The n tensors from t on, or their parts, as one matrix: its shape and type. */
static lx_host_tensor shape_of(const loader *l, const lx_mixer_parts *parts,
                               const lx_mixer_tensor *t, int32_t n)
{
    lx_host_tensor all = {.cols = t->cols};
    for (int32_t i = 0; i < n; i++) {
        lx_dtype dtype = part_dtype(l, parts, &t[i]);
        all.dtype = i == 0 ? dtype : common_dtype(all.dtype, dtype);
        all.rows += t[i].rows;
    }
    return all;
}

/* Adds the rows of part i of t, and the zeros after them; false: they cannot be read as rows. */
static bool list_part(row_list *to, const loader *l, lx_dtype dtype, const lx_mixer_parts *parts,
                      const lx_mixer_tensor *t, int32_t i)
{
    int64_t first = 0, begin = to->n > 0 ? to->segments[to->n - 1].end : 0;
    const lx_tensor *from = find_rows(dtype, l, parts, t, i, &first);
    int64_t rows = rows_of_part(t), padded = t->rows / lx_mixer_file_tensors(t);
    if (from == NULL)
        return false;
    to->segments[to->n++] = (segment){from, first, begin, begin + rows};
    if (padded > rows)
        to->segments[to->n++] = (segment){NULL, 0, begin + rows, begin + padded};
    return true;
}

/* The rows of the n tensors from t on; to->n stays 0 where they must go through memory. The caller
   frees to->segments. */
static lx_status list_rows(row_list *to, const loader *l, const lx_host_tensor *all,
                           const lx_mixer_parts *parts, const lx_mixer_tensor *t, int32_t n,
                           lx_error *err)
{
    char name[LX_MIXER_TENSOR_NAME];
    size_t most = 0;
    bool listed = true;
    *to = (row_list){.file = l->w->model->weights,
                     .row_bytes = lx_format_bytes(all->dtype, all->cols)};
    if (!lx_safetensors_has_rows(to->file) || t->role == LX_TENSOR_PRODUCT)
        return LX_OK;
    for (int32_t i = 0; i < n; i++)
        most += 2 * (size_t)lx_mixer_file_tensors(&t[i]);
    to->segments = calloc(most, sizeof *to->segments);
    lx_mixer_tensor_name(parts, t, 0, name);
    if (to->segments == NULL)
        return no_memory(name, ".weight", err);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < lx_mixer_file_tensors(&t[i]) && listed; k++)
            listed = list_part(to, l, all->dtype, parts, &t[i], k);
    }
    to->n = listed ? to->n : 0;
    return LX_OK;
}

/* A matrix of the shape, whose rows are put together in memory. */
static lx_status load_through_memory(loader *l, const lx_host_tensor *shape,
                                     const lx_mixer_parts *parts, const lx_mixer_tensor *t,
                                     int32_t n, lx_matrix **out, lx_error *err)
{
    char name[LX_MIXER_TENSOR_NAME];
    assembly all = {.dtype = shape->dtype, .cols = shape->cols};
    bool biased = t->role == LX_TENSOR_PRODUCT;
    all.data = make_room(&l->assembled, lx_format_bytes(all.dtype, shape->rows * all.cols));
    all.bias = biased ? malloc((size_t)shape->rows * sizeof *all.bias) : NULL;
    lx_mixer_tensor_name(parts, t, 0, name);
    lx_status st =
        all.data != NULL && (all.bias != NULL || !biased) ? LX_OK : no_memory(name, ".weight", err);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < lx_mixer_file_tensors(&t[i]) && st == LX_OK; k++)
            st = add_part(&all, l, parts, &t[i], k, err);
    }
    const lx_host_tensor host = {all.dtype, all.rows, all.cols, all.data};
    if (st == LX_OK)
        st = make_matrix(l, &host, NULL, all.bias, out, err);
    free(all.bias);
    return st;
}

/* The n tensors from t on as one matrix of one type. */
static lx_status assemble(loader *l, const lx_mixer_parts *parts, const lx_mixer_tensor *t,
                          int32_t n, lx_matrix **out, lx_error *err)
{
    row_list rows;
    lx_host_tensor all = shape_of(l, parts, t, n);
    lx_status st = list_rows(&rows, l, &all, parts, t, n, err);
    const lx_row_reader reader = {read_rows, &rows};
    if (st == LX_OK && rows.n > 0)
        st = make_matrix(l, &all, &reader, NULL, out, err);
    else if (st == LX_OK)
        st = load_through_memory(l, &all, parts, t, n, out, err);
    free(rows.segments);
    return st;
}

/* Of the n tensors from t on, so many have blocks of the first one's type. */
static int32_t count_equal(const loader *l, const lx_mixer_parts *parts, const lx_mixer_tensor *t,
                           int32_t n)
{
    int32_t k = 1;
    while (k < n && part_dtype(l, parts, &t[k]) == part_dtype(l, parts, t))
        k++;
    return k;
}

/* Whether the n tensors have several types, blocks among them, and the back end keeps each: as
   parts of a matrix, for which they have the rows. */
static bool keeps_types(const loader *l, const lx_mixer_parts *parts, const lx_mixer_tensor *t,
                        int32_t n)
{
    bool fit = keeps_blocks(l), blocks = false;
    for (int32_t i = 0; i < n; i++) {
        fit &= t[i].n_experts == 0 && (i == n - 1 || t[i].rows % LX_JOINED_ROWS == 0);
        blocks |= is_of_blocks(part_dtype(l, parts, &t[i]));
    }
    return fit && blocks && count_equal(l, parts, t, n) < n;
}

static lx_status load_assembled(loader *l, const lx_mixer_parts *parts, const lx_mixer_tensor *t,
                                int32_t n, lx_matrix **out, lx_error *err)
{
    lx_matrix *made[LX_MAX_MIXER_TENSORS] = {NULL};
    lx_status st = LX_OK;
    int32_t n_made = 0;
    if (!keeps_types(l, parts, t, n))
        return assemble(l, parts, t, n, out, err);
    for (int32_t i = 0, k; i < n && st == LX_OK; i += k) {
        k = count_equal(l, parts, &t[i], n - i);
        st = assemble(l, parts, &t[i], k, &made[n_made], err);
        n_made += st == LX_OK;
    }
    if (st == LX_OK)
        return l->w->be->ops->matrix_join(l->w->be, made, n_made, out, err);
    for (int32_t i = 0; i < n_made; i++)
        l->w->be->ops->matrix_free(l->w->be, made[i]);
    return st;
}

/* A table has f32 numbers as such, and a device knows no blocks. Where the head is the table of the
   inputs, and a matrix in blocks, the table is the rows of that matrix. */
static lx_status load_table(loader *l, const char *prefix, lx_table **out, lx_error *err)
{
    const lx_kernels *ops = l->w->be->ops;
    const lx_tensor *stored = find(l, prefix, ".weight");
    lx_host_tensor t = stored->t;
    tensor_rows rows;
    float *values = NULL;
    lx_status st = LX_OK;
    if (ops->table_of != NULL && l->w->head != NULL && find(l, "head", ".weight") == stored)
        st = ops->table_of(l->w->be, l->w->head, t.dtype, out, err);
    if (st != LX_OK || *out != NULL)
        return st;
    if (ops->is_device && lx_format_of(t.dtype)->block > 1) {
        st = read_numbers(l, prefix, ".weight", &values, err);
        t = (lx_host_tensor){LX_F32, t.rows, t.cols, values};
    } else if (read_in_rows(l, stored, &rows)) {
        return ops->table_new(l->w->be, &t, &rows.reader, out, err);
    } else {
        st = read_tensor(l, prefix, ".weight", &t, err);
        t.dtype = t.dtype == LX_F32_OF_BLOCKS ? LX_F32 : t.dtype;
    }
    if (st == LX_OK)
        st = ops->table_new(l->w->be, &t, NULL, out, err);
    free(values);
    return st;
}

/* `to`: an lx_matrix *, lx_array *, lx_table * or lx_norm_weights, by the role. */
static lx_status load_parameters(loader *l, const char *prefix, lx_tensor_role role, void *to,
                                 lx_error *err)
{
    switch (role) {
    case LX_TENSOR_PRODUCT:
        return load_product(l, prefix, to, err);
    case LX_TENSOR_MAP:
        return load_matrix(l, prefix, NULL, to, err);
    case LX_TENSOR_ARRAY:
        return load_array(l, prefix, "", 0, 1, to, err);
    case LX_TENSOR_TABLE:
        return load_table(l, prefix, to, err);
    case LX_TENSOR_NORM:
        break;
    }
    return load_norm(l, prefix, to, err);
}

/* Tensor i of a branch, with the tensors that it is joined with; *i becomes the last of them. */
static lx_status load_tensor(loader *l, const lx_mixer_parts *parts, int32_t *i,
                             lx_branch_weights *to, lx_error *err)
{
    const lx_mixer_tensor *t = &parts->tensors[*i];
    char name[LX_MIXER_TENSOR_NAME];
    int32_t first = *i;
    while (parts->tensors[*i].joins_next)
        ++*i;
    bool whole = lx_model_whole(l->w->model, parts, t, name) != NULL;
    if (*i > first || t->all_cols > 0 || t->block > 0 || t->n_experts > 0 || whole)
        return load_assembled(l, parts, t, *i - first + 1, &to->products[first], err);
    bool array = t->role == LX_TENSOR_ARRAY;
    lx_mixer_tensor_name(parts, t, 0, name);
    return load_parameters(l, name, t->role,
                           array ? (void *)&to->arrays[first] : (void *)&to->products[first], err);
}

/* Array i that numbers are derived from. */
static const lx_tensor *source(const loader *l, const lx_mixer_parts *parts,
                               const lx_mixer_derived *d, int32_t i)
{
    char name[LX_MIXER_TENSOR_NAME];
    lx_mixer_tensor_name(parts, &parts->tensors[d->from + i], 0, name);
    return find(l, name, "");
}

/* The arrays that numbers are derived from, concatenated; the caller frees them. */
static lx_status all_numbers(const loader *l, const lx_mixer_parts *parts,
                             const lx_mixer_derived *d, float **out, lx_error *err)
{
    int64_t n = 0, at = 0;
    for (int32_t i = 0; i < d->n_from; i++) {
        const lx_tensor *t = source(l, parts, d, i);
        n += t->t.rows * t->t.cols;
    }
    float *v = malloc((size_t)n * sizeof *v);
    lx_status st = v != NULL ? LX_OK : no_memory("numbers derived from weights", "", err);
    for (int32_t i = 0; i < d->n_from && st == LX_OK; i++) {
        const lx_tensor *t = source(l, parts, d, i);
        st = lx_safetensors_numbers(l->w->model->weights, t, v + at, err);
        at += t->t.rows * t->t.cols;
    }
    if (st != LX_OK)
        free(v);
    else
        *out = v;
    return st;
}

static lx_status load_derived(const loader *l, const lx_branch *b, const lx_mixer_derived *d,
                              lx_array **out, lx_error *err)
{
    float *values = calloc((size_t)d->n, sizeof *values), *from = NULL;
    lx_status st = values != NULL ? LX_OK : no_memory("numbers derived from weights", "", err);
    if (st == LX_OK && d->n_from > 0)
        st = all_numbers(l, &b->parts, d, &from, err);
    if (st == LX_OK) {
        d->fill(b->config, &b->parts, d, from, values);
        st = make_array(l->w, values, d->n, out, err);
    }
    free(from);
    free(values);
    return st;
}

static lx_status load_branch(loader *l, int32_t index, int32_t b, lx_error *err)
{
    const lx_branch *branch = &l->w->model->layers[index].branches[b];
    const lx_mixer_parts *parts = &branch->parts;
    lx_branch_weights *to = &l->w->layers[index].branches[b];
    char prefix[64];
    lx_status st = LX_OK;
    (void)snprintf(prefix, sizeof prefix, "layers.%d.norm%d", index, branch->norm);
    if (branch->norm > 0 && branch->norms != LX_NORM_AFTER)
        st = load_norm(l, prefix, &to->norm, err);
    (void)snprintf(prefix, sizeof prefix, "layers.%d.post_norm%d", index, branch->norm);
    if (st == LX_OK && branch->norms != LX_NORM_BEFORE)
        st = load_norm(l, prefix, &to->post_norm, err);
    for (int32_t i = 0; i < parts->n_tensors && st == LX_OK; i++)
        st = load_tensor(l, parts, &i, to, err);
    for (int32_t i = 0; i < parts->n_derived && st == LX_OK; i++)
        st = load_derived(l, branch, &parts->derived[i], &to->derived[i], err);
    return st;
}

static void *frame_part(lx_weights *w, const lx_frame_tensor *f)
{
    switch (f->part) {
    case LX_FRAME_EMBED:
        return &w->tables[f->i];
    case LX_FRAME_FEATURES:
        return &w->features;
    case LX_FRAME_INPUT_NORM:
        return &w->input_norm;
    case LX_FRAME_FINAL_NORM:
        return &w->final_norm;
    case LX_FRAME_HEAD:
        break;
    }
    return &w->head;
}

/* A number for each column of a residual stream. */
static lx_status load_constant(const loader *l, float number, lx_array **out, lx_error *err)
{
    int32_t d = l->w->model->config.d_model;
    float *values = malloc((size_t)d * sizeof *values);
    if (values == NULL)
        return no_memory("constants", "", err);
    for (int32_t i = 0; i < d; i++)
        values[i] = number;
    lx_status st = make_array(l->w, values, d, out, err);
    free(values);
    return st;
}

static lx_status load_constants(const loader *l, lx_error *err)
{
    lx_weights *w = l->w;
    float scale = w->model->config.embedding_scale;
    lx_status st = scale > 0 ? load_constant(l, scale, &w->embedding_scale, err) : LX_OK;
    if (st == LX_OK && w->model->norms_outputs)
        st = load_constant(l, 0, &w->zeros, err);
    if (st == LX_OK && w->model->norms_outputs)
        st = load_constant(l, 1, &w->ones, err);
    return st;
}

static lx_status load_all(loader *l, lx_error *err)
{
    lx_weights *w = l->w;
    const lx_model *m = w->model;
    lx_status st = LX_OK;
    for (int32_t i = m->n_frame - 1; i >= 0 && st == LX_OK; i--) /* tables after the head */
        st = load_parameters(l, m->frame[i].name, m->frame[i].tensor.role,
                             frame_part(w, &m->frame[i]), err);
    if (st == LX_OK)
        st = load_constants(l, err);
    for (int32_t i = 0; i < m->config.n_layers; i++) {
        for (int32_t b = 0; b < m->layers[i].n_branches && st == LX_OK; b++)
            st = load_branch(l, i, b, err);
    }
    return st;
}

lx_status lx_weights_load(const lx_model *model, lx_backend *be, lx_weights *out, lx_error *err)
{
    lx_weights w = {.model = model,
                    .be = be,
                    .layers = calloc((size_t)model->config.n_layers, sizeof *w.layers)};
    if (w.layers == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transformer");
    loader l = {.w = &w};
    lx_status st = load_all(&l, err);
    free(l.values.data);
    free(l.assembled.data);
    if (st != LX_OK) {
        lx_weights_free(&w);
        return st;
    }
    *out = w;
    return LX_OK;
}

/* --- their size --- */

static int64_t matrix_bytes(const loader *l, const lx_host_tensor *t)
{
    const lx_backend *be = l->w->be;
    return be->ops->matrix_bytes != NULL ? be->ops->matrix_bytes(be, t)
                                         : t->rows * t->cols * (int64_t)sizeof(float);
}

/* Of the matrices that load_assembled makes. */
static int64_t assembled_bytes(const loader *l, const lx_mixer_parts *parts,
                               const lx_mixer_tensor *t, int32_t n)
{
    bool apart = keeps_types(l, parts, t, n);
    int64_t bytes = 0;
    for (int32_t i = 0, k; i < n; i += k) {
        k = apart ? count_equal(l, parts, &t[i], n - i) : n;
        lx_host_tensor one = shape_of(l, parts, &t[i], k);
        bytes += matrix_bytes(l, &one);
    }
    return bytes;
}

static int64_t branch_bytes(const loader *l, const lx_mixer_parts *parts)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < parts->n_tensors; i++) {
        const lx_mixer_tensor *t = &parts->tensors[i];
        int32_t first = i;
        while (parts->tensors[i].joins_next)
            i++;
        if (t->role == LX_TENSOR_ARRAY)
            bytes += (t->rows > 0 ? t->rows : 1) * t->cols * (int64_t)sizeof(float);
        else
            bytes += assembled_bytes(l, parts, t, i - first + 1);
    }
    return bytes;
}

/* A table in blocks that is the head, too, has the head's memory (load_table). */
static int64_t frame_bytes(const loader *l, const lx_frame_tensor *f)
{
    const lx_tensor *stored = find(l, f->name, ".weight");
    const lx_host_tensor *t = &stored->t;
    bool shares = lx_format_of(t->dtype)->block > 1 && find(l, "head", ".weight") == stored;
    if (f->tensor.role == LX_TENSOR_PRODUCT || f->tensor.role == LX_TENSOR_MAP)
        return matrix_bytes(l, t);
    return shares ? 0 : (int64_t)lx_safetensors_bytes(stored);
}

int64_t lx_weights_bytes(const lx_model *model, lx_backend *be)
{
    lx_weights w = {.model = model, .be = be};
    const loader l = {.w = &w};
    int64_t bytes = 0;
    for (int32_t i = 0; i < model->n_frame && !be->ops->is_device; i++)
        bytes += frame_bytes(&l, &model->frame[i]);
    for (int32_t i = 0; i < model->config.n_layers && !be->ops->is_device; i++) {
        for (int32_t b = 0; b < model->layers[i].n_branches; b++)
            bytes += branch_bytes(&l, &model->layers[i].branches[b].parts);
    }
    return bytes;
}

static void free_norm(const lx_weights *w, const lx_norm_weights *n)
{
    w->be->ops->array_free(w->be, n->gamma);
    w->be->ops->array_free(w->be, n->beta);
}

static void free_branch(const lx_weights *w, const lx_branch_weights *b)
{
    free_norm(w, &b->norm);
    free_norm(w, &b->post_norm);
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
    lx_array *constants[] = {w->embedding_scale, w->zeros, w->ones};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        w->be->ops->array_free(w->be, constants[i]);
    w->be->ops->matrix_free(w->be, w->features);
    w->be->ops->matrix_free(w->be, w->head);
    free(w->layers);
    *w = (lx_weights){0};
}
