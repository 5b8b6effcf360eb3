/*
 * Models of the recurrent kinds in folders of Hugging Face, compared with an independent float64
 * reading of their equations (tests/golden/kinds.py). Its cases, kind_cases.py, made the files of
 * tests/golden/kinds. Their first rows are those at the border of a convolution. A file's prompt
 * gives equal bits in one piece and step by step. The configs that a file lists as refused are
 * refused, with the name of the key.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <dirent.h>

#include "model/transformer.h"
#include "tests/support/scratch.h"
#include "tests/support/tensor_file.h"

enum { MAX_TOKENS = 64, IDS = 256 };
#define BOUND 1e-5 /* of 1 + |logit| */

/* --- a file's model --- */

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void add_tensor(tensor_file *f, const char *name, const json_t *t, uint64_t *random)
{
    char shape[64] = "[";
    size_t i, used = 1, n = 1;
    json_t *size;
    json_array_foreach(json_object_get(t, "shape"), i, size)
    {
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld", i > 0 ? "," : "",
                                 (long long)json_integer_value(size));
        n *= (size_t)json_integer_value(size);
    }
    (void)snprintf(shape + used, sizeof shape - used, "]");
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (i = 0; i < n; i++) {
        double u = (double)(scratch_random(random) >> 40) * 0x1p-23 - 1.0;
        values[i] = (float)(number(t, "mean") + number(t, "scale") * u);
    }
    bool bf16 = strcmp(json_string_value(json_object_get(t, "dtype")), "BF16") == 0;
    tensor_file_add(f, name, shape, bf16, values, n);
    free(values);
}

static void write_config(const json_t *config)
{
    char *text = json_dumps(config, 0);
    json_free_t release;
    assert_non_null(text);
    (void)scratch_write("config.json", text, strlen(text));
    json_get_alloc_funcs(NULL, &release);
    release(text);
}

static void write_model(const json_t *golden)
{
    tensor_file *f = calloc(1, sizeof *f);
    assert_non_null(f);
    uint64_t random = (uint64_t)number(golden, "seed");
    const char *name;
    json_t *t;
    json_object_foreach(json_object_get(golden, "tensors"), name, t)
        add_tensor(f, name, t, &random);
    tensor_file_write(f, "model.safetensors");
    write_config(json_object_get(golden, "config"));
    free(f);
}

/* --- running it --- */

static void must_succeed(lx_status st, const char *label, const lx_error *err)
{
    if (st != LX_OK)
        fail_msg("%s: %s", label, err->text);
}

typedef struct subject {
    const char *label;
    lx_model *model;
    lx_backend *be;
    lx_transformer *t;
    lx_states *states;
} subject;

static void open_subject(subject *s, const char *label, const char *backend)
{
    lx_error err = {0};
    char dir[2048];
    const lx_backend_options options = {.n_threads = 1, .precision = LX_PRECISION_F32};
    *s = (subject){.label = label};
    (void)snprintf(dir, sizeof dir, "%s", scratch_path(""));
    must_succeed(lx_model_load(dir, &s->model, &err), label, &err);
    must_succeed(lx_backend_open(backend, &options, &s->be, &err), label, &err);
    must_succeed(lx_transformer_new(s->model, s->be, MAX_TOKENS, MAX_TOKENS, &s->t, &err), label,
                 &err);
    must_succeed(lx_transformer_states_new(s->t, 1, MAX_TOKENS, &s->states, &err), label, &err);
}

static void close_subject(subject *s)
{
    lx_transformer_states_free(s->t, s->states);
    lx_transformer_free(s->t);
    s->be->ops->close(s->be);
    lx_model_free(s->model);
}

/* The logits of n tokens from a fresh slot, `piece` tokens per step, of which all have an output or
   the last one has. */
static void run(subject *s, const int32_t *ids, int32_t n, int32_t piece, bool all, float *logits)
{
    int32_t output_row[MAX_TOKENS], slot = 0;
    lx_sampling sampling[MAX_TOKENS];
    lx_sample samples[MAX_TOKENS];
    lx_error err = {0};
    for (int32_t i = 0; i < n; i++) {
        output_row[i] = i;
        sampling[i] = (lx_sampling){.top_p = 1, .forced = 0};
    }
    must_succeed(lx_transformer_state_zero(s->t, s->states, 0, &err), s->label, &err);
    for (int32_t at = 0; at < n; at += piece) {
        int32_t rows = n - at < piece ? n - at : piece, seq_start[] = {0, rows};
        int32_t first = all ? 0 : rows - 1;
        lx_step step = {.batch = {.n_tokens = rows,
                                  .n_seqs = 1,
                                  .seq_start = seq_start,
                                  .slot = &slot,
                                  .n_outputs = rows - first,
                                  .output_row = output_row + first,
                                  .position = &at},
                        .ids = ids + at,
                        .sampling = sampling,
                        .samples = samples,
                        .logits = logits + (size_t)(at + first) * IDS};
        must_succeed(lx_transformer_step(s->t, s->states, &step, &err), s->label, &err);
    }
}

static double largest_difference(const json_t *golden, const float *logits)
{
    double worst = 0;
    const char *row;
    json_t *want;
    json_object_foreach(json_object_get(golden, "logits"), row, want)
    {
        size_t i;
        json_t *column;
        json_array_foreach(json_object_get(golden, "columns"), i, column)
        {
            double x = json_number_value(json_array_get(want, i));
            double got = (double)logits[strtol(row, NULL, 10) * IDS + json_integer_value(column)];
            double off = fabs(got - x) / (1 + fabs(x));
            worst = off > worst || !isfinite(off) ? off : worst;
        }
    }
    return worst;
}

static void check_golden(const char *label, const json_t *golden)
{
    static const char *const backends[] = {"reference", "cpu"};
    static float whole[MAX_TOKENS * IDS], steps[MAX_TOKENS * IDS];
    int32_t ids[MAX_TOKENS], n = 0;
    size_t i;
    json_t *id;
    json_array_foreach(json_object_get(golden, "ids"), i, id) ids[n++] =
        (int32_t)json_integer_value(id);
    assert_true(n > 0 && n <= MAX_TOKENS &&
                json_object_size(json_object_get(golden, "logits")) > 0);
    write_model(golden);
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        subject s;
        open_subject(&s, label, backends[b]);
        run(&s, ids, n, n, true, whole);
        double off = largest_difference(golden, whole);
        print_message("%s on %s: %.2g\n", label, backends[b], off);
        if (!(off <= BOUND))
            fail_msg("%s on %s: a logit is off by %g", label, backends[b], off);
        for (int32_t piece = 1; piece < 5; piece++) {
            run(&s, ids, n, piece, true, steps);
            if (memcmp(whole, steps, (size_t)n * IDS * sizeof *whole) != 0)
                fail_msg("%s on %s: other bits in steps of %d", label, backends[b], piece);
        }
        run(&s, ids, n, n, false, steps);
        size_t last = (size_t)(n - 1) * IDS;
        if (memcmp(whole + last, steps + last, IDS * sizeof *whole) != 0)
            fail_msg("%s on %s: other bits with one output", label, backends[b]);
        close_subject(&s);
    }
}

/* Each change of the config alone. */
static void check_refused(const json_t *golden)
{
    size_t i;
    json_t *c;
    char dir[2048];
    (void)snprintf(dir, sizeof dir, "%s", scratch_path(""));
    json_array_foreach(json_object_get(golden, "refused"), i, c)
    {
        json_t *config = json_deep_copy(json_object_get(golden, "config"));
        lx_model *m = NULL;
        lx_error err = {0};
        assert_int_equal(json_object_update(config, json_object_get(c, "set")), 0);
        write_config(config);
        json_decref(config);
        scratch_expect(lx_model_load(dir, &m, &err), &err, LX_ERR_FORMAT,
                       json_string_value(json_object_get(c, "error")));
        assert_null(m);
    }
}

static void every_kind_gives_what_its_equations_give(void **state)
{
    (void)state;
    DIR *dir = opendir(GOLDEN_KINDS);
    assert_non_null(dir);
    int32_t n = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[4096];
        json_error_t e;
        if (strstr(entry->d_name, ".json") == NULL)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", GOLDEN_KINDS, entry->d_name);
        json_t *golden = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
        if (golden == NULL)
            fail_msg("%s: %s", path, e.text);
        check_golden(entry->d_name, golden);
        check_refused(golden);
        json_decref(golden);
        n++;
    }
    (void)closedir(dir);
    assert_true(n > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_gives_what_its_equations_give)};
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
