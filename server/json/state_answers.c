/*
 * JSON of states (see answers.h). Facts of a state have one form wherever they stand; the numbers
 * of a head are written as they are, in f32's precision, next to the norms that a reader would
 * compute first.
 */
#include "server/json/answers.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>

void lx_json_write_state(const lx_json_state *s, lx_buffer *out)
{
    const lx_saved_state *x = s->state;
    char hash[17];
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)x->model_hash);
    lx_json_put(out,
                "{'id':%s,'object':'state','model':%s,'model_hash':%s,'modality':%s,'made_by':%s,"
                "'tokens':%d,'position':%d,'bytes':%jd,'memory_bytes':%jd,'seed':%jd,'sample':%jd,"
                "'n_layers':%d,'expires_in_s':%jd}",
                s->id, s->model, hash, x->modality == LX_TEXT ? "text" : "image", x->made_by,
                x->start.n_tokens, x->start.rows, (int64_t)s->bytes,
                lx_state_floats(x) * (int64_t)sizeof(float), (int64_t)x->seed,
                (int64_t)x->start.first_sample, x->n_layers, s->ttl_ms / 1000);
}

void lx_json_write_state_list(const lx_json_state *states, int32_t n, lx_buffer *out)
{
    lx_json_put(out, "{'object':'list','data':[");
    for (int32_t i = 0; i < n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        lx_json_write_state(&states[i], out);
    }
    lx_buffer_puts(out, "]}");
}

void lx_json_append_kept(const lx_json_kept *k, lx_buffer *out)
{
    if (k->status != LX_OK)
        lx_json_put(out, "{'index':%d,'id':null,'error':{'message':%s,'code':%s}}", k->index,
                    k->why, lx_status_text(k->status));
    else
        lx_json_put(out,
                    "{'index':%d,'id':%s,'object':'state','tokens':%d,'position':%d,'bytes':%jd,"
                    "'memory_bytes':%jd}",
                    k->index, k->id, k->tokens, k->rows, (int64_t)k->bytes, k->memory_bytes);
}

/* --- one head --- */

static void open_head(const lx_json_head *h, lx_buffer *out)
{
    lx_json_put(out,
                "{'object':'state.look','id':%s,'layer':%d,'head':%d,'n_layers':%d,'n_heads':%d",
                h->id, h->layer, h->head, h->n_layers, h->n_heads);
}

/* A row is one piece: writing number by number takes twice the time. */
static void write_row(const float *x, int32_t n, lx_buffer *out)
{
    json_t *row = json_array();
    for (int32_t i = 0; row != NULL && i < n; i++) {
        if (json_array_append_new(row, json_real((double)x[i])) == 0)
            continue;
        json_decref(row);
        row = NULL;
    }
    lx_json_dump(row, out);
}

static void write_matrix(const char *name, const float *x, int32_t rows, int32_t cols,
                         lx_buffer *out)
{
    lx_json_put(out, ",%s:[", name);
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
static void write_denominator(const lx_json_inspection *l, lx_buffer *out)
{
    double least = INFINITY, sum = 0;
    for (int32_t i = 0; i < l->d_key; i++) {
        least = fmin(least, (double)l->z[i]);
        sum += (double)l->z[i];
    }
    lx_json_put(out, ",'denominator':{'min':%f,'sum':%f,'healthy':%i}", least, sum,
                least >= 0 && sum > 0);
}

void lx_json_write_inspection(const lx_json_inspection *l, lx_buffer *out)
{
    open_head(&l->head, out);
    write_matrix("s", l->s, l->d_key, l->d_value, out);
    lx_json_put(out, ",'z':");
    write_row(l->z, l->d_key, out);
    lx_json_put(out, ",'s_norm':%f,'z_norm':%f", norm_of(l->s, (int64_t)l->d_key * l->d_value),
                norm_of(l->z, l->d_key));
    write_denominator(l, out);
    lx_buffer_puts(out, "}");
}

static void write_field(const lx_json_state_field *f, lx_buffer *out)
{
    lx_json_put(out, "{'name':%s,'rows':%d,'cols':%d,'norm':%f", f->name, f->rows, f->cols,
                norm_of(f->values, (int64_t)f->rows * f->cols));
    write_matrix("values", f->values, f->rows, f->cols, out);
    lx_buffer_puts(out, "}");
}

void lx_json_write_fields(const lx_json_fields *l, lx_buffer *out)
{
    open_head(&l->head, out);
    lx_json_put(out, ",'fields':[");
    for (int32_t i = 0; i < l->n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        write_field(&l->fields[i], out);
    }
    lx_buffer_puts(out, "]}");
}

void lx_json_write_rows(const lx_json_rows *r, lx_buffer *out)
{
    open_head(&r->head, out);
    lx_json_put(out, ",'n_kept':%d,'positions':", r->n_kept);
    lx_json_put_ids(r->positions, r->n, out);
    write_matrix("k", r->k, r->n, r->d_key, out);
    write_matrix("v", r->v, r->n, r->d_value, out);
    lx_buffer_puts(out, "}");
}
