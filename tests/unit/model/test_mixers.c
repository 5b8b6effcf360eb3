/*
 * Every mixer of the registry by the cases of tests/mixers/NAME.json: the laws of kernels.h through
 * a whole model, on every back end of this machine, and which tokens a token sees, found by
 * changing one token after the other. A mixer without a file fails. A case has the keys of its
 * kind in "attention", those of a feed-forward net in "feed_forward" beside a whole "attention";
 * either may have the whole of the other; "input_norm" as in config.json, "rms_norm" for RMSNorm.
 *
 *   test_mixers         every mixer
 *   test_mixers NAME    this one
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
#include <jansson.h>

#include "model/drafts/draft.h"
#include "model/transformer.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

/* Rows of more than two pages; a head's row has WIDTH numbers; SLOTS sequences at a time. */
enum { SIDE = 14, ROWS = 150, WIDTH = 9, SLOTS = 4, MAX_IDS = ROWS * LX_MAX_INPUTS };

/* --- a model of a case --- */

typedef struct subject {
    char *dir;
    lx_model *model;
    lx_backend *be;
    lx_transformer *t;
    lx_states *states;
    int32_t ids[SLOTS][MAX_IDS]; /* of every slot's sequence */
    char label[512];
} subject;

/* What is left out has nothing to find for a sanitizer, which takes ten times as long: the oracle
   and plain lanes are looked at in conformance; the thread sanitizer sees a case a kind. */
static const struct {
    const char *name;
    lx_isa isa;
    int32_t n_threads;
} backends[] = {
#if !defined(LX_SANITIZE_THREAD) && !defined(LX_SANITIZE_ADDRESS)
    {"reference", LX_ISA_AUTO, 1},
    {"cpu", LX_ISA_PLAIN, 1},
    {"cpu", LX_ISA_AUTO, 1},
#endif
    {"cpu", LX_ISA_AUTO, 3}};

enum { N_BACKENDS = sizeof backends / sizeof *backends };
#ifdef LX_SANITIZE_THREAD
enum { ONE_CASE = 1 };
#else
enum { ONE_CASE = 0 };
#endif

static void must(lx_status st, const lx_error *err)
{
    if (st != LX_OK)
        fail_msg("%s", err->text);
}

/* An object of a case as text, with the kind in it if it is that of the mixer; NULL where there is
   none. Freed by free_text. */
static char *mixer_text(const json_t *c, const char *key, const char *kind)
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

static void free_text(char *text)
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

static void open_subject(subject *s, const char *kind, const json_t *c, int32_t n_layers,
                         int backend)
{
    lx_error err = {0};
    char *attention = mixer_text(c, "attention", kind);
    char *feed_forward = mixer_text(c, "feed_forward", kind);
    tiny_model_options o = tiny_model_image;
    lx_backend_options options = {.n_threads = backends[backend].n_threads,
                                  .isa = backends[backend].isa};
    o.width = o.height = SIDE;
    o.n_layers = n_layers;
    o.attention = attention;
    o.feed_forward = feed_forward;
    o.input_norm = json_is_true(json_object_get(c, "input_norm"));
    o.rms_norm = json_is_true(json_object_get(c, "rms_norm"));
    (void)snprintf(s->label, sizeof s->label, "%s %s on %s %s, %d threads", kind,
                   feed_forward != NULL ? feed_forward : attention, backends[backend].name,
                   lx_isa_name(options.isa), options.n_threads);
    s->dir = tiny_model_make("mixer", &o);
    if (s->dir == NULL)
        fail_msg("%s: no such model", s->label);
    must(lx_model_load(s->dir, &s->model, &err), &err);
    must(lx_backend_open(backends[backend].name, &options, &s->be, &err), &err);
    must(lx_transformer_new(s->model, s->be, SLOTS * ROWS, SLOTS * ROWS, &s->t, &err), &err);
    must(lx_transformer_states_new(s->t, SLOTS, ROWS, &s->states, &err), &err);
    fill_ids(s);
    free_text(attention);
    free_text(feed_forward);
}

static void close_subject(subject *s)
{
    lx_transformer_states_free(s->t, s->states);
    lx_transformer_free(s->t);
    s->be->ops->close(s->be);
    lx_model_free(s->model);
    tiny_model_remove(s->dir);
}

/* --- steps --- */

/* Rows from .. from + n - 1 of a slot's sequence. */
typedef struct piece {
    int32_t slot, from, n;
    const int32_t *ids;  /* of the sequence */
    float *rows;         /* [ROWS, WIDTH]; those of the piece are written */
    int32_t own, branch; /* rows behind so many are in that slot; own 0: all in their own */
} piece;

static lx_status try_pieces(subject *s, const piece *pieces, int32_t n, lx_error *err)
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
    for (int32_t i = 0; i < seq_start[n]; i++) {
        output_row[i] = i;
        sampling[i] = (lx_sampling){.forced = 0, .top_p = 1};
    }
    lx_step step = {.batch = {seq_start[n], n, seq_start, slot, seq_start[n], output_row, position,
                              branches ? branch : NULL, own},
                    .ids = ids,
                    .sampling = sampling,
                    .samples = samples,
                    .logits = out};
    lx_status st = lx_transformer_step(s->t, s->states, &step, err);
    for (int32_t i = 0; i < n && st == LX_OK; i++)
        memcpy(pieces[i].rows + pieces[i].from * WIDTH, out + seq_start[i] * WIDTH,
               (size_t)(pieces[i].n * WIDTH) * sizeof *out);
    free(ids);
    return st;
}

static void run_pieces(subject *s, const piece *pieces, int32_t n)
{
    lx_error err = {0};
    must(try_pieces(s, pieces, n, &err), &err);
}

static void run_rows(subject *s, int32_t slot, const int32_t *ids, int32_t from, int32_t n,
                     float *rows)
{
    run_pieces(s, &(piece){slot, from, n, ids, rows, 0, 0}, 1);
}

static void zero(subject *s, int32_t slot)
{
    lx_error err = {0};
    must(lx_transformer_state_zero(s->t, s->states, slot, &err), &err);
}

/* A fresh slot's results for the first n rows of a sequence. */
static void run_whole(subject *s, int32_t slot, const int32_t *ids, int32_t n, float *rows)
{
    zero(s, slot);
    run_rows(s, slot, ids, 0, n, rows);
}

static void expect_rows(const subject *s, const float *got, const float *want, int32_t from,
                        int32_t n, const char *law)
{
    for (int32_t i = from; i < from + n; i++) {
        if (memcmp(got + i * WIDTH, want + i * WIDTH, WIDTH * sizeof *got) != 0)
            fail_msg("%s: %s: row %d differs", s->label, law, i);
    }
}

/* --- the laws --- */

typedef float results[ROWS * WIDTH];

static void steps_give_the_same(subject *s, const results want)
{
    static results got;
    zero(s, 1);
    for (int32_t i = 0; i < ROWS; i++)
        run_rows(s, 1, s->ids[0], i, 1, got);
    expect_rows(s, got, want, 0, ROWS, "steps");
}

/* Three sequences in pieces of any length; the first is the one that is known. */
static void pieces_among_others_give_the_same(subject *s, const results want)
{
    static results got[3];
    uint64_t random = 9;
    int32_t done[3] = {0};
    for (int32_t slot = 0; slot < 3; slot++)
        zero(s, slot);
    while (done[0] < ROWS) {
        piece pieces[3];
        int32_t n = 0;
        for (int32_t slot = 0; slot < 3; slot++) {
            int32_t most = (int32_t)(scratch_random(&random) >> 40) % 40 + (slot == 0);
            int32_t left = ROWS - done[slot], rows = most < left ? most : left;
            if (rows > 0)
                pieces[n++] = (piece){slot, done[slot], rows, s->ids[slot], got[slot], 0, 0};
            done[slot] += rows;
        }
        run_pieces(s, pieces, n);
    }
    expect_rows(s, got[0], want, 0, ROWS, "pieces among others");
}

/* Whatever a slot's memory holds. */
static void a_poisoned_slot_is_a_fresh_one(subject *s, const results want)
{
    static results got;
    lx_error err = {0};
    int64_t n = lx_model_state_floats(s->model, ROWS);
    float *poison = malloc((size_t)n * sizeof *poison);
    assert_non_null(poison);
    for (int64_t i = 0; i < n; i++)
        poison[i] = NAN;
    must(lx_transformer_state_load(s->t, s->states, 3, ROWS, poison, &err), &err);
    free(poison);
    run_whole(s, 3, s->ids[0], ROWS, got);
    expect_rows(s, got, want, 0, ROWS, "a poisoned slot");
}

static void copies_go_on_alike(subject *s, const results want)
{
#ifdef LX_SANITIZE_ADDRESS
    static const int32_t places[] = {1, 64, 100};
#else
    static const int32_t places[] = {1, 15, 16, 63, 64, 65, 100, 128};
#endif
    static results got;
    lx_error err = {0};
    float *saved = malloc((size_t)lx_model_state_floats(s->model, ROWS) * sizeof *saved);
    assert_non_null(saved);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int32_t at = places[i];
        run_whole(s, 0, s->ids[0], at, got);
        must(lx_transformer_state_copy(s->t, s->states, 1, 0, at, &err), &err);
        must(lx_transformer_state_save(s->t, s->states, 0, at, saved, &err), &err);
        run_whole(s, 2, s->ids[2], ROWS, got); /* leaves what is not cleared */
        must(lx_transformer_state_load(s->t, s->states, 2, at, saved, &err), &err);
        for (int32_t slot = 0; slot < 3; slot++) {
            memset(got, 0, sizeof got);
            run_rows(s, slot, s->ids[0], at, ROWS - at, got);
            expect_rows(s, got, want, at, ROWS - at,
                        slot == 0   ? "going on"
                        : slot == 1 ? "a copy"
                                    : "a saved state");
        }
    }
    free(saved);
}

/* Rows from `at` on: one of their own, the others in a branch. Both go on, in turns; what cannot
   branch says so and is left as it was. */
static void branches_go_on_alike(subject *s, const results want)
{
    static results got;
    lx_error err = {0};
    int32_t at = 63, n = 9;
    run_whole(s, 0, s->ids[0], at, got);
    run_whole(s, 1, s->ids[2], ROWS, got);
    piece pieces[] = {{2, 0, 3, s->ids[1], got, 0, 0}, {0, at, n, s->ids[0], got, 1, 1}};
    zero(s, 2);
    lx_status st = try_pieces(s, pieces, 2, &err);
    if (!lx_model_can_draft(s->model)) {
        assert_int_equal(st, LX_ERR_UNSUPPORTED);
        return;
    }
    must(st, &err);
    expect_rows(s, got, want, at, n, "a branch's rows");
    memset(got, 0, sizeof got);
    run_rows(s, 1, s->ids[0], at + n, ROWS - at - n, got);
    expect_rows(s, got, want, at + n, ROWS - at - n, "a branch");
    memset(got, 0, sizeof got);
    run_rows(s, 0, s->ids[0], at + 1, ROWS - at - 1, got);
    expect_rows(s, got, want, at + 1, ROWS - at - 1, "what branched");
}

static void later_tokens_change_nothing(subject *s, const results want)
{
    static results got;
    static int32_t ids[MAX_IDS];
    int32_t at = 77, width = s->model->config.n_inputs;
    memcpy(ids, s->ids[0], sizeof ids);
    ids[at * width] = (ids[at * width] + 1) % s->model->config.inputs[0].size;
    run_whole(s, 0, ids, ROWS, got);
    expect_rows(s, got, want, 0, at, "a later token");
    assert_memory_not_equal(got + at * WIDTH, want + at * WIDTH, WIDTH * sizeof *got);
    run_whole(s, 0, s->ids[0], at, got);
    expect_rows(s, got, want, 0, at, "a shorter sequence");
}

static void near(const subject *s, const results got, const results oracle)
{
    for (int32_t i = 0; i < ROWS * WIDTH; i++) {
        float bound = 2e-4f * (1 + fabsf(oracle[i]));
        if (!(fabsf(got[i] - oracle[i]) <= bound))
            fail_msg("%s: row %d: %g, not %g", s->label, i / WIDTH, (double)got[i],
                     (double)oracle[i]);
    }
}

static void check_laws(const char *kind, const json_t *c)
{
    static results oracle, want;
    for (int backend = 0; backend < N_BACKENDS; backend++) {
        subject s = {0};
        open_subject(&s, kind, c, 2, backend);
        bool grows = json_is_true(json_object_get(c, "grows"));
        if ((s.model->state.page_floats > 0) != grows)
            fail_msg("%s: a state of %lld floats a page", s.label,
                     (long long)s.model->state.page_floats);
        run_whole(&s, 0, s.ids[0], ROWS, want);
        if (backend == 0)
            memcpy(oracle, want, sizeof want);
        near(&s, want, oracle);
        steps_give_the_same(&s, want);
        pieces_among_others_give_the_same(&s, want);
        a_poisoned_slot_is_a_fresh_one(&s, want);
        copies_go_on_alike(&s, want);
        branches_go_on_alike(&s, want);
        later_tokens_change_nothing(&s, want);
        close_subject(&s);
    }
}

/* --- what is seen --- */

static bool is_listed(const json_t *list, int32_t j)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_integer_value(json_array_get(list, i)) == j)
            return true;
    }
    return false;
}

/* With one layer, row i changes with token j where i sees j. The token itself is always there, in
   the residual stream. */
static void check_row(subject *s, int32_t i, const json_t *list)
{
    static results want, got;
    static int32_t ids[MAX_IDS];
    int32_t width = s->model->config.n_inputs;
    run_whole(s, 0, s->ids[0], i + 1, want);
    for (int32_t j = 0; j < i; j++) {
        memcpy(ids, s->ids[0], sizeof ids);
        ids[j * width] = (ids[j * width] + 1) % s->model->config.inputs[0].size;
        run_whole(s, 0, ids, i + 1, got);
        bool changed = memcmp(got + i * WIDTH, want + i * WIDTH, WIDTH * sizeof *got) != 0;
        if (changed != is_listed(list, j))
            fail_msg("%s: token %d %s token %d", s->label, i, changed ? "sees" : "does not see", j);
    }
}

static void check_what_is_seen(const char *kind, const json_t *c)
{
    const char *key;
    json_t *list, *sees = json_object_get(c, "sees");
    for (int backend = 0; backend < N_BACKENDS && sees != NULL; backend += 2) {
        subject s = {0};
        open_subject(&s, kind, c, 1, backend);
        json_object_foreach(sees, key, list) check_row(&s, (int32_t)strtol(key, NULL, 10), list);
        close_subject(&s);
    }
}

/* --- the table --- */

static void check_refused(const char *kind, const json_t *c)
{
    static const char head[] =
        "{\"format\": \"linnet\", \"format_version\": 1, \"task\": \"image\", \"n_layers\": 1, "
        "\"n_heads\": 4, \"d_model\": 32, \"d_ff\": 64, \"norm\": \"pre\", \"norm_eps\": 1e-05, "
        "\"activation\": \"gelu\", \"inputs\": [{\"name\": \"token\", \"size\": 257}], "
        "\"head\": {\"kind\": \"categorical\", \"size\": 256}, "
        "\"image\": {\"width\": 8, \"height\": 8, \"channels\": 1}";
    char *attention = mixer_text(c, "attention", kind), text[2048];
    char *feed_forward = mixer_text(c, "feed_forward", kind);
    lx_config *config = calloc(1, sizeof *config);
    lx_error err = {0};
    int n = snprintf(text, sizeof text, "%s, \"attention\": %s%s%s}", head, attention,
                     feed_forward != NULL ? ", \"feed_forward\": " : "",
                     feed_forward != NULL ? feed_forward : "");
    assert_non_null(config);
    lx_status st = lx_config_load(scratch_write("config.json", text, (size_t)n), config, &err);
    scratch_expect(st, &err, LX_ERR_FORMAT, json_string_value(json_object_get(c, "error")));
    free(config);
    free_text(attention);
    free_text(feed_forward);
}

static void check_mixer(const char *kind)
{
    char path[4096];
    json_error_t e;
    size_t i;
    json_t *c;
    (void)snprintf(path, sizeof path, "%s/%s.json", MIXER_CASES, kind);
    json_t *table = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    if (table == NULL)
        fail_msg("%s: %s", path, e.text);
    assert_true(json_array_size(json_object_get(table, "cases")) > 0);
    json_array_foreach(json_object_get(table, "cases"), i, c)
    {
        check_laws(kind, c);
        if (ONE_CASE)
            break;
        check_what_is_seen(kind, c);
    }
    json_array_foreach(json_object_get(table, "refused"), i, c) check_refused(kind, c);
    json_decref(table);
}

static void every_mixer_has_a_table(void **state)
{
    (void)state;
    for (int32_t i = 0; lx_mixer_at(i) != NULL; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s.json", MIXER_CASES, lx_mixer_at(i)->name);
        if (access(path, R_OK) != 0)
            fail_msg("%s is not there", path);
    }
}

static const char *only; /* the one that is asked for, NULL: all */

static void every_mixer_keeps_the_laws(void **state)
{
    (void)state;
    if (only != NULL)
        assert_non_null(lx_mixer_find(only));
    for (int32_t i = 0; lx_mixer_at(i) != NULL; i++) {
        if (only == NULL || strcmp(only, lx_mixer_at(i)->name) == 0)
            check_mixer(lx_mixer_at(i)->name);
    }
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mixer_has_a_table),
                                       cmocka_unit_test(every_mixer_keeps_the_laws)};
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
