#include "tests/support/mixer_subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

void must_succeed(lx_status st, const lx_error *err)
{
    if (st != LX_OK)
        fail_msg("%s", err->text);
}

char *mixer_text(const json_t *c, const char *key, const char *kind)
{
    json_t *object = json_deep_copy(json_object_get(c, key));
    if (object == NULL)
        return NULL;
    if (lx_mixer_find(kind)->is_feed_forward == (strcmp(key, "feed_forward") == 0))
        assert_int_equal(json_object_set_new(object, "kind", json_string(kind)), 0);
    char *text = json_dumps(object, 0);
    json_decref(object);
    return text;
}

void free_text(char *text)
{
    json_free_t release;
    json_get_alloc_funcs(NULL, &release);
    release(text);
}

static void fill_ids(subject *s)
{
    const lx_config *c = &s->model->config;
    uint64_t random = 5;
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        for (int32_t i = 0; i < ROWS * c->n_inputs; i++)
            s->ids[slot][i] =
                (int32_t)(scratch_random(&random) >> 33) % c->inputs[i % c->n_inputs].size;
    }
}

/* The error of a device that lacks an operation. */
static bool is_refused(const subject *s, const char *kind, lx_status st, const lx_error *err)
{
    char words[128];
    (void)snprintf(words, sizeof words, "%s is not on the back end %s: use --device cpu", kind,
                   s->be->ops->name);
    return st == LX_ERR_UNSUPPORTED && strstr(err->text, words) != NULL &&
           strchr(err->text, '\n') == NULL;
}

static void free_subject(subject *s)
{
    lx_transformer_free(s->t);
    s->be->ops->close(s->be);
    lx_model_free(s->model);
    tiny_model_remove(s->dir);
}

bool open_subject(subject *s, const char *kind, const json_t *c, int32_t n_layers,
                  const subject_backend *where)
{
    lx_error err = {0};
    char *attention = mixer_text(c, "attention", kind);
    char *feed_forward = mixer_text(c, "feed_forward", kind);
    tiny_model_options o = tiny_model_image;
    lx_backend_options options = {.n_threads = where->n_threads, .isa = where->isa};
    o.width = o.height = SIDE;
    o.n_layers = n_layers;
    o.attention = attention;
    o.feed_forward = feed_forward;
    o.input_norm = json_is_true(json_object_get(c, "input_norm"));
    o.rms_norm = json_is_true(json_object_get(c, "rms_norm"));
    o.wiring = json_string_value(json_object_get(c, "norm"));
    (void)snprintf(s->label, sizeof s->label, "%s %s%s%s on %s %s, %d threads", kind,
                   o.wiring != NULL ? o.wiring : "", o.wiring != NULL ? " " : "",
                   feed_forward != NULL ? feed_forward : attention, where->name,
                   lx_isa_name(options.isa), options.n_threads);
    s->dir = tiny_model_make("mixer", &o);
    free_text(attention);
    free_text(feed_forward);
    if (s->dir == NULL)
        fail_msg("%s: no such model", s->label);
    must_succeed(lx_model_load(s->dir, &s->model, &err), &err);
    must_succeed(lx_backend_open(where->name, &options, &s->be, &err), &err);
    lx_status st = lx_transformer_new(s->model, s->be, SLOTS * ROWS, SLOTS * ROWS, &s->t, &err);
    if (is_refused(s, kind, st, &err)) {
        free_subject(s);
        return false;
    }
    must_succeed(st, &err);
    must_succeed(lx_transformer_states_new(s->t, SLOTS, ROWS, &s->states, &err), &err);
    s->apart = 1;
    fill_ids(s);
    return true;
}

void close_subject(subject *s)
{
    lx_transformer_states_free(s->t, s->states);
    free_subject(s);
}

lx_status try_pieces(subject *s, const piece *pieces, int32_t n, lx_error *err)
{
    int32_t seq_start[SLOTS + 1] = {0}, slot[SLOTS], position[SLOTS], branch[SLOTS], own[SLOTS];
    int32_t *ids = calloc((size_t)SLOTS * MAX_IDS, sizeof *ids), width = s->model->config.n_inputs;
    int32_t output_row[SLOTS * ROWS];
    static lx_sampling sampling[SLOTS * ROWS];
    static lx_sample samples[SLOTS * ROWS];
    static float out[SLOTS * ROWS * WIDTH];
    bool branches = false;
    assert_non_null(ids);
    for (int32_t i = 0; i < n; i++) {
        slot[i] = pieces[i].slot;
        own[i] = pieces[i].own;
        branch[i] = own[i] > 0 ? pieces[i].branch : -1;
        branches = branches || own[i] > 0;
        position[i] = pieces[i].from;
        memcpy(ids + seq_start[i] * width, pieces[i].ids + pieces[i].from * width,
               (size_t)(pieces[i].n * width) * sizeof *ids);
        seq_start[i + 1] = seq_start[i] + pieces[i].n;
    }
    int32_t n_outputs = seq_start[n] / s->apart;
    for (int32_t i = 0; i < n_outputs; i++) {
        output_row[i] = (i + 1) * s->apart - 1;
        sampling[i] = (lx_sampling){.forced = 0, .top_p = 1};
    }
    lx_step step = {.batch = {seq_start[n], n, seq_start, slot, n_outputs, output_row, position,
                              branches ? branch : NULL, own},
                    .ids = ids,
                    .sampling = sampling,
                    .samples = samples,
                    .logits = out};
    lx_status st = lx_transformer_step(s->t, s->states, &step, err);
    for (int32_t i = 0, k = 0; i < n && st == LX_OK; i++) {
        for (; k < n_outputs && output_row[k] < seq_start[i + 1]; k++)
            memcpy(pieces[i].rows + (pieces[i].from + output_row[k] - seq_start[i]) * WIDTH,
                   out + k * WIDTH, WIDTH * sizeof *out);
    }
    free(ids);
    return st;
}

void run_pieces(subject *s, const piece *pieces, int32_t n)
{
    lx_error err = {0};
    must_succeed(try_pieces(s, pieces, n, &err), &err);
}

void run_rows(subject *s, int32_t slot, const int32_t *ids, int32_t from, int32_t n, float *rows)
{
    run_pieces(s, &(piece){slot, from, n, ids, rows, 0, 0}, 1);
}

void zero_slot(subject *s, int32_t slot)
{
    lx_error err = {0};
    must_succeed(lx_transformer_state_zero(s->t, s->states, slot, &err), &err);
}

void run_whole(subject *s, int32_t slot, const int32_t *ids, int32_t n, float *rows)
{
    zero_slot(s, slot);
    run_rows(s, slot, ids, 0, n, rows);
}
