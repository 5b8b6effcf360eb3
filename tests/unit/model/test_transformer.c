/*
 * The forward pass compared with the equations of transformer.h, for models of every variant of a
 * config. The equations are computed here in double, with attention in its quadratic form. A step
 * also refuses wrong arguments, and a refused step leaves every state unchanged.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/transformer.h"
#include "tests/support/naive_model.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

static const variant variants[] = {
    {"pre, gelu", "pre", "gelu", "F32", 4, 4, 0, 0, 0},
    {"post, relu", "post", "relu", "BF16", 4, 4, 0, 0, 0},
    {"uneven heads", "pre", "relu", "F16", 5, 2, 0, 0, 0},
    {"post, gelu, uneven heads", "post", "gelu", "F32", 2, 7, 0, 0, 0},
    {"layers that differ", "pre", "gelu", "F32", 4, 4, 2, 3, 5},
    {"reversible", "reversible", "gelu", "F32", 4, 4, 0, 0, 0},
    {"reversible layers that differ", "reversible", "relu", "F32", 2, 5, 5, 4, 1},
};

/* --- running the real one --- */

typedef struct subject {
    weights *w;
    lx_model *model;
    lx_backend *be;
    lx_transformer *t;
    lx_states *states;
} subject;

static subject make_subject(const variant *v, const char *backend, int32_t n_threads)
{
    subject s = {.w = calloc(1, sizeof *s.w)};
    lx_error err = {0};
    lx_backend_options options = {.n_threads = n_threads};
    char dir[2048];
    assert_non_null(s.w);
    s.w->random = 11;
    make_weights(s.w, v);
    write_weights(s.w);
    write_config(v);
    assert_true(tiny_model_write_vocab(scratch_path("vocab.txt"), V));
    (void)snprintf(dir, sizeof dir, "%s", scratch_path(""));
    must(lx_model_load(dir, &s.model, &err), &err);
    must(lx_backend_open(backend, &options, &s.be, &err), &err);
    must(lx_transformer_new(s.model, s.be, ROWS, ROWS, &s.t, &err), &err);
    must(lx_transformer_states_new(s.t, 4, ROWS, &s.states, &err), &err);
    assert_ptr_equal(lx_transformer_model(s.t), s.model);
    assert_ptr_equal(lx_transformer_backend(s.t), s.be);
    return s;
}

static void free_subject(subject *s)
{
    s->be->ops->states_free(s->be, s->states);
    lx_transformer_free(s->t);
    lx_transformer_free(NULL);
    s->be->ops->close(s->be);
    lx_model_free(s->model);
    for (int32_t i = 0; i < s->w->n; i++)
        free(s->w->tensor[i].values);
    free(s->w);
}

static void random_ids(int32_t *ids, int32_t rows, uint64_t seed)
{
    static const uint64_t sizes[] = {V, CHARS + 1, CHARS + 1, V};
    for (int32_t i = 0; i < rows * INPUTS; i++)
        ids[i] = (int32_t)(scratch_random(&seed) % sizes[i % INPUTS]);
}

/* A step whose arrays live in it; every row is an output unless changed. */
typedef struct request {
    int32_t seq_start[ROWS + 1], slot[ROWS], output_row[ROWS], ids[ROWS * INPUTS];
    lx_sampling sampling[ROWS];
    lx_sample samples[ROWS];
    float logits[ROWS * V];
    lx_step step;
} request;

static void one_sequence(request *r, const int32_t *ids, int32_t rows, int32_t slot)
{
    memset(r, 0, sizeof *r);
    r->seq_start[1] = rows;
    r->slot[0] = slot;
    memcpy(r->ids, ids, (size_t)(rows * INPUTS) * sizeof *ids);
    for (int32_t i = 0; i < ROWS; i++) {
        r->output_row[i] = i;
        r->sampling[i] = (lx_sampling){.top_p = 1, .forced = -1};
        r->samples[i].token = -2;
    }
    for (int32_t i = 0; i < ROWS * V; i++)
        r->logits[i] = NAN;
    r->step =
        (lx_step){.batch = {rows, 1, r->seq_start, r->slot, rows, r->output_row, NULL, NULL, NULL},
                  .ids = r->ids,
                  .sampling = r->sampling,
                  .samples = r->samples,
                  .logits = r->logits};
}

static void run(subject *s, request *r)
{
    lx_error err = {0};
    must(lx_transformer_step(s->t, s->states, &r->step, &err), &err);
}

/* --- tests --- */

static void logits_match_the_equations(void **state)
{
    (void)state;
    static request r;
    static double expected[ROWS][V];
    static const char *const backends[] = {"reference", "cpu"};
    for (size_t i = 0; i < 2 * sizeof variants / sizeof *variants; i++) {
        const variant *v = &variants[i / 2];
        subject s = make_subject(v, backends[i % 2], 1);
        double worst = 0;
        int32_t ids[ROWS * INPUTS];
        random_ids(ids, ROWS, i);
        naive_logits(s.w, v, ids, ROWS, expected);
        one_sequence(&r, ids, ROWS, 1);
        run(&s, &r);
        for (int32_t t = 0; t < ROWS; t++) {
            for (int32_t j = 0; j < V; j++)
                worst = fmax(worst, fabs((double)r.logits[t * V + j] - expected[t][j]));
        }
        if (!(worst < 3e-5)) /* NaN fails too */
            fail_msg("%s on %s: %g", v->label, backends[i % 2], worst);
        for (int32_t t = 0; t < ROWS; t++) { /* temperature 0: the largest */
            float best = r.logits[t * V + r.samples[t].token];
            for (int32_t j = 0; j < V; j++)
                assert_true(r.logits[t * V + j] <= best);
        }
        free_subject(&s);
    }
}

/* Only the rows asked for come back, and a step without outputs only moves the state. */
static void outputs_are_the_rows_asked_for(void **state)
{
    (void)state;
    static request all, some;
    subject s = make_subject(&variants[0], "cpu", 2);
    int32_t ids[ROWS * INPUTS];
    random_ids(ids, ROWS, 5);
    one_sequence(&all, ids, ROWS, 0);
    run(&s, &all);

    one_sequence(&some, ids, ROWS, 1);
    some.step.batch.n_outputs = 2;
    some.output_row[0] = 3;
    some.output_row[1] = 16;
    run(&s, &some);
    assert_memory_equal(some.logits, all.logits + 3 * V, V * sizeof(float));
    assert_memory_equal(some.logits + V, all.logits + 16 * V, V * sizeof(float));
    assert_true(isnan(some.logits[2 * V]));
    assert_int_equal(some.samples[2].token, -2);

    one_sequence(&some, ids, ROWS - 1, 2);
    some.step.batch.n_outputs = 0;
    run(&s, &some);
    assert_true(isnan(some.logits[0]));
    one_sequence(&some, ids + (ROWS - 1) * INPUTS, 1, 2);
    run(&s, &some);
    assert_memory_equal(some.logits, all.logits + 16 * V, V * sizeof(float));

    one_sequence(&some, ids, ROWS, 3);
    some.step.logits = NULL; /* not wanted */
    run(&s, &some);
    assert_memory_equal(some.samples, all.samples, sizeof some.samples);
    assert_true(isnan(some.logits[0]));
    free_subject(&s);
}

static void a_sequence_may_be_split_and_mixed(void **state)
{
    (void)state;
    static request alone, mixed;
    subject s = make_subject(&variants[2], "cpu", 2);
    int32_t ids[ROWS * INPUTS], others[ROWS * INPUTS];
    random_ids(ids, 10, 6);
    random_ids(others, ROWS, 7);
    one_sequence(&alone, ids, 10, 0);
    run(&s, &alone);
    for (int32_t split = 1; split < 10; split++) {
        int32_t rest = 10 - split;
        assert_int_equal(s.be->ops->state_zero(s.be, s.states, 2), LX_OK);
        one_sequence(&mixed, ids, split, 2);
        run(&s, &mixed);
        assert_memory_equal(mixed.logits, alone.logits, (size_t)(split * V) * sizeof(float));
        one_sequence(&mixed, others, ROWS, 1); /* another sequence goes before it */
        memcpy(mixed.ids + (ROWS - rest) * INPUTS, ids + split * INPUTS,
               (size_t)(rest * INPUTS) * sizeof *ids);
        mixed.step.batch.n_seqs = 2;
        mixed.slot[1] = 2;
        mixed.seq_start[1] = ROWS - rest;
        mixed.seq_start[2] = ROWS;
        run(&s, &mixed);
        assert_memory_equal(mixed.logits + (ROWS - rest) * V, alone.logits + split * V,
                            (size_t)(rest * V) * sizeof(float));
    }
    free_subject(&s);
}

static void export_all(subject *s, float *out)
{
    for (int32_t slot = 0; slot < 4; slot++)
        assert_int_equal(s->be->ops->state_export(s->be, s->states, slot,
                                                  out + slot * s->model->state.fixed_floats, 0),
                         LX_OK);
}

/* How each refused step differs from a good one of 3 rows: its shape, */
static void spoil_shape(request *r, int32_t how)
{
    lx_batch *b = &r->step.batch;
    switch (how) {
    case 0:
        b->n_tokens = 0;
        break;
    case 1:
        b->n_tokens = ROWS + 1;
        break;
    case 2:
        b->n_tokens = INT32_MIN;
        break;
    case 3:
        b->n_outputs = -1;
        break;
    case 4:
        b->n_outputs = ROWS + 1;
        break;
    case 5:
        b->n_outputs = 4;
        break;
    case 18:
        r->slot[0] = 4;
        break;
    case 19:
        r->slot[0] = -1;
        break;
    case 20:
        r->seq_start[1] = 2;
        break;
    case 21:
        r->seq_start[0] = 1;
        break;
    case 22:
        r->output_row[1] = 0;
        break;
    case 23:
        r->output_row[2] = 3;
        break;
    default:
        break;
    }
}

/* Makes the values wrong, or the requested results. */
static void spoil_values(request *r, int32_t how)
{
    static const int32_t banned[] = {V};
    switch (how) {
    case 6:
        r->ids[0] = -1;
        break;
    case 7:
        r->ids[0] = V;
        break;
    case 8:
        r->ids[2 * INPUTS + 1] = CHARS + 1;
        break;
    case 9:
        r->sampling[1].temperature = -1;
        break;
    case 10:
        r->sampling[1].temperature = NAN;
        break;
    case 11:
        r->sampling[1].temperature = INFINITY;
        break;
    case 12:
        r->sampling[2].top_p = 0;
        break;
    case 13:
        r->sampling[2].top_p = NAN;
        break;
    case 14:
        r->sampling[2].top_k = -1;
        break;
    case 15:
        r->sampling[0].forced = V;
        break;
    case 16:
        r->sampling[0].forced = -2;
        break;
    case 17:
        r->sampling[0].n_banned = 1;
        r->sampling[0].banned = banned;
        break;
    default:
        break;
    }
}

static void a_refused_step_changes_no_state(void **state)
{
    (void)state;
    static request r;
    static const char *const backends[] = {"reference", "cpu"};
    for (size_t i = 0; i < 2; i++) {
        subject s = make_subject(&variants[1], backends[i], 1);
        size_t n = (size_t)s.model->state.fixed_floats * 4;
        float *before = calloc(n, sizeof *before), *after = calloc(n, sizeof *after);
        int32_t ids[ROWS * INPUTS];
        assert_non_null(before);
        assert_non_null(after);
        random_ids(ids, ROWS, 8);
        for (int32_t slot = 0; slot < 4; slot++) {
            one_sequence(&r, ids, 5 + slot, slot);
            run(&s, &r);
        }
        export_all(&s, before);
        for (int32_t how = 0; how < 24; how++) {
            lx_error err = {0};
            one_sequence(&r, ids, 3, 0);
            spoil_shape(&r, how);
            spoil_values(&r, how);
            lx_status st = lx_transformer_step(s.t, s.states, &r.step, &err);
            if (st != LX_ERR_INVALID || err.status != st || err.text[0] == '\0')
                fail_msg("case %d: status %d, \"%s\"", how, (int)st, err.text);
            export_all(&s, after);
            assert_memory_equal(before, after, n * sizeof *before);
        }
        one_sequence(&r, ids, 3, 0);
        run(&s, &r); /* and a good one still runs */
        export_all(&s, after);
        assert_memory_not_equal(before, after, n * sizeof *before);
        free(before);
        free(after);
        free_subject(&s);
    }
}

/* The log-probability of level v under a row of a mixture head, by the equation in kernels.h. */
static double naive_mixture(const float *row, int32_t k, int32_t v)
{
    double total = 0, p = 0;
    for (int32_t i = 0; i < k; i++) {
        double weight = exp((double)row[i]);
        double m = ((double)row[k + i] + 1) * 255 / 2;
        double r = 2.0 / 255 * exp(-fmax((double)row[2 * k + i], -7));
        double above = v == 255 ? 1 : 1 / (1 + exp(-(v + 0.5 - m) * r));
        double below = v == 0 ? 0 : 1 / (1 + exp(-(v - 0.5 - m) * r));
        total += weight;
        p += weight * (above - below);
    }
    return log(p / total);
}

/* The head's row comes back unchanged, and the sample drawn from it is a level with its
   probability.
 */
static void a_mixture_is_sampled_as_one(void **state)
{
    (void)state;
    enum { STEPS = 6, WIDTH_OF_HEAD = 9 };
    static const char *const backends[] = {"reference", "cpu"};
    char *dir = tiny_model_make("pictures", &tiny_model_image);
    assert_non_null(dir);
    for (size_t b = 0; b < 2; b++) {
        lx_error err = {0};
        subject s = {0};
        lx_backend_options options = {.n_threads = 1};
        must(lx_model_load(dir, &s.model, &err), &err);
        must(lx_backend_open(backends[b], &options, &s.be, &err), &err);
        must(lx_transformer_new(s.model, s.be, STEPS, STEPS, &s.t, &err), &err);
        must(lx_transformer_states_new(s.t, 1, ROWS, &s.states, &err), &err);
        int32_t ids[STEPS * 4] = {256, 256, 0, 0}, seq_start[] = {0, STEPS}, slot[] = {0};
        int32_t output_row[STEPS];
        lx_sampling sampling[STEPS];
        lx_sample samples[STEPS];
        float rows[STEPS * WIDTH_OF_HEAD];
        for (int32_t i = 0; i < STEPS; i++) {
            output_row[i] = i;
            ids[4 * i] = i == 0 ? 256 : 40 * i;
            ids[4 * i + 1] = 256;
            ids[4 * i + 2] = 0;
            ids[4 * i + 3] = i;
            sampling[i] = (lx_sampling){.seed = 4,
                                        .step = (uint32_t)i,
                                        .temperature = 1,
                                        .top_p = 1,
                                        .forced = i % 2 == 0 ? 51 * i : -1};
        }
        lx_step step = {.batch = {STEPS, 1, seq_start, slot, STEPS, output_row, NULL, NULL, NULL},
                        .ids = ids,
                        .sampling = sampling,
                        .samples = samples,
                        .logits = rows};
        must(lx_transformer_step(s.t, s.states, &step, &err), &err);
        for (int32_t i = 0; i < STEPS; i++) {
            assert_in_range(samples[i].token, 0, 255);
            if (i % 2 == 0)
                assert_int_equal(samples[i].token, 51 * i);
            double e = naive_mixture(rows + i * WIDTH_OF_HEAD, 3, samples[i].token);
            if (!(fabs(e - (double)samples[i].logprob) < 1e-4 * (1 + fabs(e))))
                fail_msg("row %d: %g instead of %g", i, (double)samples[i].logprob, e);
        }
        sampling[1].forced = 256;
        scratch_expect(lx_transformer_step(s.t, s.states, &step, &err), &err, LX_ERR_INVALID,
                       "forced id 256 of 256");
        s.be->ops->states_free(s.be, s.states);
        lx_transformer_free(s.t);
        s.be->ops->close(s.be);
        lx_model_free(s.model);
    }
    tiny_model_remove(dir);
}

static void sizes_of_nothing_are_refused(void **state)
{
    (void)state;
    subject s = make_subject(&variants[0], "reference", 1);
    lx_transformer *t = NULL;
    lx_error err = {0};
    scratch_expect(lx_transformer_new(s.model, s.be, 0, 1, &t, &err), &err, LX_ERR_INVALID,
                   "0 rows");
    scratch_expect(lx_transformer_new(s.model, s.be, 1, 0, &t, &err), &err, LX_ERR_INVALID,
                   "0 outputs");
    assert_null(t);
    free_subject(&s);
}

/* As on a device, which has not got every operation. */
static void a_back_end_without_an_operation_refuses_its_kind(void **state)
{
    (void)state;
    tiny_model_options o = tiny_model_image;
    lx_model *m = NULL;
    lx_backend *be = NULL;
    lx_transformer *t = NULL;
    lx_error err = {0};
    o.attention =
        "{\"kind\": \"lsh\", \"rounds\": 2, \"buckets\": 4, \"cap\": 3, \"scale\": \"key\"}";
    char *dir = tiny_model_make("buckets", &o);
    assert_non_null(dir);
    assert_int_equal(lx_model_load(dir, &m, &err), LX_OK);
    assert_int_equal(lx_backend_open("cpu", &(lx_backend_options){.n_threads = 1}, &be, &err),
                     LX_OK);
    const lx_kernels *all = be->ops;
    lx_kernels fewer = *all;
    fewer.attend_lsh = NULL;
    fewer.name = "smaller";
    be->ops = &fewer;
    assert_int_equal(lx_transformer_new(m, be, 4, 4, &t, &err), LX_ERR_UNSUPPORTED);
    assert_string_equal(err.text, "buckets: attention lsh is not on the back end smaller: use "
                                  "--device cpu");
    be->ops = all;
    be->ops->close(be);
    lx_model_free(m);
    tiny_model_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_back_end_without_an_operation_refuses_its_kind),
        cmocka_unit_test(logits_match_the_equations),
        cmocka_unit_test(outputs_are_the_rows_asked_for),
        cmocka_unit_test(a_sequence_may_be_split_and_mixed),
        cmocka_unit_test(a_refused_step_changes_no_state),
        cmocka_unit_test(a_mixture_is_sampled_as_one),
        cmocka_unit_test(sizes_of_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
