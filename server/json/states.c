/*
 * JSON of states. Facts of a state have one form wherever they stand; the numbers of a head are
 * written as they are, in f32's precision, beside the norms a reader would compute first.
 */
#include "server/json/states.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/json/field_readers.h"
#include "server/json/fields.h"

/* --- requests --- */

lx_status lx_json_read_state_create(const char *body, size_t bytes, lx_state_create *p,
                                    lx_error *err)
{
    *p = (lx_state_create){
        .sampling = {.temperature = 1, .top_p = 1}, .rules = true, .normalize = true};
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    lx_json_reading r = {.root = root, .route = LX_JSON_STATES, .params = p, .notes = &p->notes};
    if (st == LX_OK)
        st = lx_json_read_fields(&r, err);
    json_decref(root);
    return st;
}

void lx_state_create_fini(lx_state_create *p)
{
    free(p->prompt);
    lx_poem_fields_fini(&p->poem);
    free(p->image.owned);
    free(p->mask.owned);
}

/* Of n, which is read before. */
LX_READER(seeds)
{
    lx_state_fork *p = r->params;
    if (!json_is_array(value) || json_array_size(value) != (size_t)p->n)
        return lx_fail(err, LX_ERR_INVALID, "seeds", "seeds must be a list of n = %d seeds", p->n);
    p->seeds = calloc((size_t)p->n, sizeof *p->seeds);
    if (p->seeds == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the seeds");
    for (int32_t i = 0; i < p->n; i++) {
        const json_t *seed = json_array_get(value, (size_t)i);
        json_int_t x = json_integer_value(seed);
        if (!json_is_integer(seed) || x < 0 || x > LX_MAX_SEED)
            return lx_fail(err, LX_ERR_INVALID, "seeds",
                           "seeds: number %d is not a whole number from 0 to %lld", i,
                           (long long)LX_MAX_SEED);
        p->seeds[i] = (uint64_t)x;
    }
    return LX_OK;
}

lx_status lx_json_read_state_fork(const char *body, size_t bytes, int32_t max_n, lx_state_fork *p,
                                  lx_error *err)
{
    *p = (lx_state_fork){.n = 1};
    if (bytes == 0)
        return LX_OK; /* one copy */
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    lx_json_reading r = {
        .root = root, .route = LX_JSON_FORK, .max_n = max_n, .params = p, .notes = &p->notes};
    if (st == LX_OK)
        st = lx_json_read_fields(&r, err);
    json_decref(root);
    return st;
}

/* --- answers --- */

static json_t *make_hash(uint64_t hash)
{
    return json_sprintf("%016llx", (unsigned long long)hash);
}

static json_t *make_state(const lx_json_state *s)
{
    const lx_saved_state *x = s->state;
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:i, s:I}", "id", s->id,
        "object", "state", "model", s->model != NULL ? json_string(s->model) : json_null(),
        "model_hash", make_hash(x->model_hash), "modality",
        x->modality == LX_TEXT ? "text" : "image", "made_by", x->made_by, "tokens",
        (int)x->start.n_tokens, "position", (int)x->start.rows, "bytes", (json_int_t)s->bytes,
        "memory_bytes", (json_int_t)(lx_state_floats(x) * (int64_t)sizeof(float)), "seed",
        (json_int_t)x->seed, "sample", (json_int_t)x->start.first_sample, "n_layers",
        (int)x->n_layers, "expires_in_s", (json_int_t)(s->ttl_ms / 1000));
}

void lx_json_write_state(const lx_json_state *s, lx_buffer *out)
{
    lx_json_dump(make_state(s), out);
}

void lx_json_write_state_list(const lx_json_state *states, int32_t n, lx_buffer *out)
{
    json_t *data = json_array();
    bool ok = data != NULL;
    for (int32_t i = 0; i < n; i++)
        ok = ok && json_array_append_new(data, make_state(&states[i])) == 0;
    if (!ok) {
        json_decref(data);
        data = NULL;
    }
    lx_json_dump(data != NULL ? json_pack("{s:s, s:o}", "object", "list", "data", data) : NULL,
                 out);
}

static json_t *make_row(const float *x, int32_t n)
{
    json_t *row = json_array();
    for (int32_t i = 0; row != NULL && i < n; i++) {
        if (json_array_append_new(row, json_real((double)x[i])) != 0) {
            json_decref(row);
            row = NULL;
        }
    }
    return row;
}

static json_t *make_matrix(const float *x, int32_t rows, int32_t cols)
{
    json_t *matrix = json_array();
    for (int32_t i = 0; matrix != NULL && i < rows; i++) {
        if (json_array_append_new(matrix, make_row(x + (int64_t)i * cols, cols)) != 0) {
            json_decref(matrix);
            matrix = NULL;
        }
    }
    return matrix;
}

static double norm_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* phi is positive, so z is, and phi(q)^T z stays away from 0 as long as no part of z is near it. */
static json_t *make_denominator(const lx_json_inspection *l)
{
    double least = INFINITY, sum = 0;
    for (int32_t i = 0; i < l->d_key; i++) {
        least = fmin(least, (double)l->z[i]);
        sum += (double)l->z[i];
    }
    return json_pack("{s:f, s:f, s:b}", "min", least, "sum", sum, "healthy", least >= 0 && sum > 0);
}

void lx_json_write_inspection(const lx_json_inspection *l, lx_buffer *out)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:o, s:f, s:f, s:o}", "object", "state.look", "id",
        l->id, "layer", (int)l->layer, "head", (int)l->head, "n_layers", (int)l->n_layers,
        "n_heads", (int)l->n_heads, "s", make_matrix(l->s, l->d_key, l->d_value), "z",
        make_row(l->z, l->d_key), "s_norm", norm_of(l->s, (int64_t)l->d_key * l->d_value), "z_norm",
        norm_of(l->z, l->d_key), "denominator", make_denominator(l));
    lx_json_dump(root, out);
}

static json_t *make_field(const lx_json_state_field *f)
{
    return json_pack("{s:s, s:i, s:i, s:f, s:o}", "name", f->name, "rows", (int)f->rows, "cols",
                     (int)f->cols, "norm", norm_of(f->values, (int64_t)f->rows * f->cols), "values",
                     make_matrix(f->values, f->rows, f->cols));
}

void lx_json_write_fields(const lx_json_fields *l, lx_buffer *out)
{
    json_t *list = json_array();
    for (int32_t i = 0; list != NULL && i < l->n; i++) {
        if (json_array_append_new(list, make_field(&l->fields[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    json_t *root = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "object", "state.look", "id",
                             l->id, "layer", (int)l->layer, "head", (int)l->head, "n_layers",
                             (int)l->n_layers, "n_heads", (int)l->n_heads, "fields", list);
    lx_json_dump(root, out);
}

static json_t *make_positions(const int32_t *x, int32_t n)
{
    json_t *list = json_array();
    for (int32_t i = 0; list != NULL && i < n; i++) {
        if (json_array_append_new(list, json_integer(x[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

void lx_json_write_rows(const lx_json_rows *r, lx_buffer *out)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "object", "state.look", "id", r->id,
        "layer", (int)r->layer, "head", (int)r->head, "n_layers", (int)r->n_layers, "n_heads",
        (int)r->n_heads, "n_kept", (int)r->n_kept, "positions", make_positions(r->positions, r->n),
        "k", make_matrix(r->k, r->n, r->d_key), "v", make_matrix(r->v, r->n, r->d_value));
    lx_json_dump(root, out);
}

void lx_json_append_kept(const lx_json_kept *k, lx_buffer *out)
{
    lx_json_dump(k->status != LX_OK
                     ? json_pack("{s:i, s:n, s:{s:s, s:s}}", "index", (int)k->index, "id", "error",
                                 "message", k->why, "code", lx_status_text(k->status))
                     : json_pack("{s:i, s:s, s:s, s:i, s:i, s:I, s:I}", "index", (int)k->index,
                                 "id", k->id, "object", "state", "tokens", (int)k->tokens,
                                 "position", (int)k->rows, "bytes", (json_int_t)k->bytes,
                                 "memory_bytes", (json_int_t)k->memory_bytes),
                 out);
}
