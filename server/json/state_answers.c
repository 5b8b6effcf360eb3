/*
 * JSON of states (see answers.h). Facts of a state have one form wherever they stand; the numbers
 * of a head are written as they are, in f32's precision, next to the norms that a reader would
 * compute first.
 */
#include "server/json/answers.h"

#include <math.h>

#include "server/json/fields.h"

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
    lx_buffer_puts(out, "{\"object\":\"list\",\"data\":[");
    for (int32_t i = 0; i < n; i++)
        lx_json_item(i, make_state(&states[i]), out);
    lx_buffer_puts(out, "]}");
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

/* --- one head --- */

static void open_head(const lx_json_head *h, lx_buffer *out)
{
    lx_json_open(json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "object", "state.look", "id", h->id,
                           "layer", (int)h->layer, "head", (int)h->head, "n_layers",
                           (int)h->n_layers, "n_heads", (int)h->n_heads),
                 out);
}

/* A row is one piece: writing number by number takes twice the time. */
static void write_row(const float *x, int32_t n, lx_buffer *out)
{
    json_t *row = json_array();
    for (int32_t i = 0; i < n; i++)
        row = lx_json_add(row, json_real((double)x[i]));
    lx_json_dump(row, out);
}

static void write_matrix(const char *name, const float *x, int32_t rows, int32_t cols,
                         lx_buffer *out)
{
    lx_buffer_printf(out, ",\"%s\":[", name);
    for (int32_t i = 0; i < rows; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        write_row(x + (int64_t)i * cols, cols, out);
    }
    lx_buffer_puts(out, "]");
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
    open_head(&l->head, out);
    write_matrix("s", l->s, l->d_key, l->d_value, out);
    lx_buffer_puts(out, ",\"z\":");
    write_row(l->z, l->d_key, out);
    lx_json_members(json_pack("{s:f, s:f, s:o}", "s_norm",
                              norm_of(l->s, (int64_t)l->d_key * l->d_value), "z_norm",
                              norm_of(l->z, l->d_key), "denominator", make_denominator(l)),
                    out);
    lx_buffer_puts(out, "}");
}

static void write_field(const lx_json_state_field *f, lx_buffer *out)
{
    lx_json_open(json_pack("{s:s, s:i, s:i, s:f}", "name", f->name, "rows", (int)f->rows, "cols",
                           (int)f->cols, "norm", norm_of(f->values, (int64_t)f->rows * f->cols)),
                 out);
    write_matrix("values", f->values, f->rows, f->cols, out);
    lx_buffer_puts(out, "}");
}

void lx_json_write_fields(const lx_json_fields *l, lx_buffer *out)
{
    open_head(&l->head, out);
    lx_buffer_puts(out, ",\"fields\":[");
    for (int32_t i = 0; i < l->n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        write_field(&l->fields[i], out);
    }
    lx_buffer_puts(out, "]}");
}

void lx_json_write_rows(const lx_json_rows *r, lx_buffer *out)
{
    open_head(&r->head, out);
    lx_buffer_printf(out, ",\"n_kept\":%d,\"positions\":[", r->n_kept);
    for (int32_t i = 0; i < r->n; i++)
        lx_buffer_printf(out, "%s%d", i > 0 ? "," : "", r->positions[i]);
    lx_buffer_puts(out, "]");
    write_matrix("k", r->k, r->n, r->d_key, out);
    write_matrix("v", r->v, r->n, r->d_value, out);
    lx_buffer_puts(out, "}");
}
