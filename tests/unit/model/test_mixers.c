/*
 * Checks every mixer of the registry by the cases of tests/mixers/NAME.json. It checks the laws of
 * kernels.h through a whole model, on every back end of this machine, and the set of tokens that a
 * token reads, by changing each token in turn. A mixer without a file fails. A case has the keys of
 * its kind in "attention", or the keys of a feed-forward net in "feed_forward" next to a whole
 * "attention". "input_norm" is as in config.json, and "rms_norm" selects RMSNorm. Branches are
 * wired as with "norm": "pre", those of the first case also in the other ways. A file with
 * "forward": false has no cases, because its kind is bidirectional and test_encoder.c has its laws.
 *
 *   test_mixers                   every mixer, on the processor
 *   test_mixers NAME              this one
 *   test_mixers NAME|all cuda     on that back end, which must exist and is compared with
 *                                 the reference; a file says "cuda": false where the
 *                                 back end lacks the kind and must refuse its models
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

#include "model/transformer.h"
#include "tests/support/mixer_subject.h"
#include "tests/support/scratch.h"

/* --- back ends --- */

/* A sanitizer takes ten times as long, so it skips the oracle and plain lanes, which conformance
   runs. The thread sanitizer runs one case per kind. */
static const subject_backend of_the_processor[] = {
#if !defined(LX_SANITIZE_THREAD) && !defined(LX_SANITIZE_ADDRESS)
    {"reference", LX_ISA_AUTO, 1},
    {"cpu", LX_ISA_PLAIN, 1},
    {"cpu", LX_ISA_AUTO, 1},
#endif
    {"cpu", LX_ISA_AUTO, 3}};

static subject_backend asked[] = {{"reference", LX_ISA_AUTO, 1}, {NULL, LX_ISA_AUTO, 1}};

static const subject_backend *backends = of_the_processor;
static int n_backends = sizeof of_the_processor / sizeof *of_the_processor;

static bool is_asked(void)
{
    return asked[1].name != NULL;
}

#ifdef LX_SANITIZE_THREAD
enum { ONE_CASE = 1 };
#else
enum { ONE_CASE = 0 };
#endif

/* --- the laws --- */

typedef float results[ROWS * WIDTH];

static void expect_rows(const subject *s, const float *got, const float *want, int32_t from,
                        int32_t n, const char *law)
{
    for (int32_t i = from; i < from + n; i++) {
        if (memcmp(got + i * WIDTH, want + i * WIDTH, WIDTH * sizeof *got) != 0)
            fail_msg("%s: %s: row %d differs", s->label, law, i);
    }
}

static void steps_give_the_same(subject *s, const results want)
{
    static results got;
    zero_slot(s, 1);
    for (int32_t i = 0; i < ROWS; i++)
        run_rows(s, 1, s->ids[0], i, 1, got);
    expect_rows(s, got, want, 0, ROWS, "steps");
}

/* Three sequences in pieces of any length; the first one's results are known. */
static void pieces_among_others_give_the_same(subject *s, const results want)
{
    static results got[3];
    uint64_t random = 9;
    int32_t done[3] = {0};
    for (int32_t slot = 0; slot < 3; slot++)
        zero_slot(s, slot);
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

/* With any former contents of the slot's memory. */
static void a_poisoned_slot_is_a_fresh_one(subject *s, const results want)
{
    static results got;
    lx_error err = {0};
    int64_t n = lx_model_state_floats(s->model, ROWS);
    float *poison = malloc((size_t)n * sizeof *poison);
    assert_non_null(poison);
    for (int64_t i = 0; i < n; i++)
        poison[i] = NAN;
    must_succeed(lx_transformer_state_load(s->t, s->states, 3, ROWS, poison, &err), &err);
    free(poison);
    run_whole(s, 3, s->ids[0], ROWS, got);
    expect_rows(s, got, want, 0, ROWS, "a poisoned slot");
}

/* The oracle, which takes a row as any other, and a sanitizer, which is slow, have three places. */
static void copies_go_on_alike(subject *s, const results want)
{
    static const int32_t places[] = {1, 64, 100, 15, 16, 63, 65, 128};
    size_t n_places = sizeof places / sizeof *places;
    static results got;
    lx_error err = {0};
    float *saved = malloc((size_t)lx_model_state_floats(s->model, ROWS) * sizeof *saved);
    assert_non_null(saved);
#ifndef LX_SANITIZE_ADDRESS
    if (strcmp(s->be->ops->name, "reference") == 0)
#endif
        n_places = 3;
    for (size_t i = 0; i < n_places; i++) {
        int32_t at = places[i];
        run_whole(s, 0, s->ids[0], at, got);
        must_succeed(lx_transformer_state_copy(s->t, s->states, 1, 0, at, &err), &err);
        must_succeed(lx_transformer_state_save(s->t, s->states, 0, at, saved, &err), &err);
        run_whole(s, 2, s->ids[2], ROWS, got); /* leaves its state in the slot */
        must_succeed(lx_transformer_state_load(s->t, s->states, 2, at, saved, &err), &err);
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

/* Slot 1 has the pages of slot `of`. */
static void map_branch(subject *s, int32_t of)
{
    enum { MOST_PAGES = 16 };
    int32_t pages[MOST_PAGES], n = lx_model_state_pages(s->model, ROWS);
    lx_error err = {0};
    assert_in_range(n, 0, MOST_PAGES);
    for (int32_t i = 0; i < n; i++)
        pages[i] = of * n + i;
    if (n > 0)
        must_succeed(lx_transformer_state_map(s->t, s->states, 1, n, pages, &err), &err);
}

/* Of the rows from `at` on, one is its own and all further rows are in a branch. Both continue in
   turns. A state that cannot branch gives an error and stays unchanged. */
static void branches_go_on_alike(subject *s, const results want)
{
    static results got;
    lx_error err = {0};
    int32_t at = 63, n = 9;
    run_whole(s, 0, s->ids[0], at, got);
    run_whole(s, 1, s->ids[2], ROWS, got);
    piece pieces[] = {{2, 0, 3, s->ids[1], got, 0, 0}, {0, at, n, s->ids[0], got, 1, 1}};
    zero_slot(s, 2);
    if (lx_model_can_branch(s->model))
        map_branch(s, 0);
    lx_status st = try_pieces(s, pieces, 2, &err);
    if (!lx_model_can_branch(s->model)) {
        assert_int_equal(st, LX_ERR_UNSUPPORTED);
        return;
    }
    must_succeed(st, &err);
    expect_rows(s, got, want, at, n, "a branch's rows");
    memset(got, 0, sizeof got);
    run_rows(s, 1, s->ids[0], at + n, ROWS - at - n, got);
    expect_rows(s, got, want, at + n, ROWS - at - n, "a branch");
    memset(got, 0, sizeof got);
    run_rows(s, 0, s->ids[0], at + 1, ROWS - at - 1, got);
    expect_rows(s, got, want, at + 1, ROWS - at - 1, "what branched");
    map_branch(s, 1);
}

/* Of two sequences in one step few rows or none have an output. Those have the same results, and
   the states are the same. */
static void few_outputs_change_nothing(subject *s, const results want)
{
    static const int32_t apart[] = {2, 7, 90, SLOTS * ROWS};
    static results got, other;
    int32_t first = 40, n = 70;
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        run_whole(s, 0, s->ids[0], first, got);
        zero_slot(s, 2);
        for (int32_t j = 0; j < ROWS * WIDTH; j++)
            got[j] = NAN;
        s->apart = apart[i];
        run_pieces(s,
                   (const piece[]){{2, 0, 31, s->ids[1], other, 0, 0},
                                   {0, first, n, s->ids[0], got, 0, 0}},
                   2);
        s->apart = 1;
        for (int32_t row = first; row < first + n; row++) {
            bool has_output = (31 + row - first + 1) % apart[i] == 0;
            if (has_output)
                expect_rows(s, got, want, row, 1, "few outputs");
            else if (!isnan(got[row * WIDTH]))
                fail_msg("%s: row %d has an output", s->label, row);
        }
        run_rows(s, 0, s->ids[0], first + n, ROWS - first - n, got);
        expect_rows(s, got, want, first + n, ROWS - first - n, "after few outputs");
    }
}

/* The largest step, of which every other row has an output: scratch has room for all of them. */
static void many_outputs_have_room(subject *s, const results want)
{
    static results got[SLOTS];
    piece pieces[SLOTS];
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        zero_slot(s, slot);
        pieces[slot] = (piece){slot, 0, ROWS, s->ids[slot], got[slot], 0, 0};
    }
    s->apart = 2;
    run_pieces(s, pieces, SLOTS);
    s->apart = 1;
    for (int32_t row = 1; row < ROWS; row += 2)
        expect_rows(s, got[0], want, row, 1, "many outputs");
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

static void must_open(subject *s, const char *kind, const json_t *c, int32_t n_layers,
                      const subject_backend *where)
{
    if (!open_subject(s, kind, c, n_layers, where))
        fail_msg("%s is not on %s", kind, where->name);
}

/* On every `each`-th back end; the first is only what the others are compared with where `each`
 * leaves some out. */
static void check_laws(const char *kind, const json_t *c, int each)
{
    static results oracle, want;
    for (int backend = 0; backend < n_backends; backend += each) {
        subject s = {0};
        must_open(&s, kind, c, 2, &backends[backend]);
        bool grows = json_is_true(json_object_get(c, "grows"));
        if ((s.model->state.page_floats > 0) != grows)
            fail_msg("%s: a state of %lld floats per page", s.label,
                     (long long)s.model->state.page_floats);
        run_whole(&s, 0, s.ids[0], ROWS, want);
        if (backend == 0)
            memcpy(oracle, want, sizeof want);
        near(&s, want, oracle);
        if (each > 1 && backend == 0) {
            close_subject(&s);
            continue;
        }
        steps_give_the_same(&s, want);
        pieces_among_others_give_the_same(&s, want);
        a_poisoned_slot_is_a_fresh_one(&s, want);
        copies_go_on_alike(&s, want);
        branches_go_on_alike(&s, want);
        few_outputs_change_nothing(&s, want);
        many_outputs_have_room(&s, want);
        later_tokens_change_nothing(&s, want);
        close_subject(&s);
    }
}

/* --- the tokens that a token reads --- */

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
    for (int backend = is_asked(); backend < n_backends && sees != NULL; backend += 2) {
        subject s = {0};
        must_open(&s, kind, c, 1, &backends[backend]);
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

static void check_lacked(const char *kind, const json_t *c)
{
    subject s = {0};
    if (open_subject(&s, kind, c, 2, &asked[1]))
        fail_msg("%s has %s, which its file denies", asked[1].name, kind);
}

/* The branches wired in the other ways, which no back end sees: on the last back end, next to the
   first. */
static void check_wirings(const char *kind, const json_t *c)
{
    static const char *const wirings[] = {"post", "reversible"};
    for (size_t i = 0; i < sizeof wirings / sizeof *wirings; i++) {
        json_t *wired = json_deep_copy(c);
        assert_int_equal(json_object_set_new(wired, "norm", json_string(wirings[i])), 0);
        check_laws(kind, wired, n_backends > 1 ? n_backends - 1 : 1);
        json_decref(wired);
    }
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
    bool forward = !json_is_false(json_object_get(table, "forward"));
    assert_int_equal(json_array_size(json_object_get(table, "cases")) > 0, forward);
    bool lacks = is_asked() && json_is_false(json_object_get(table, asked[1].name));
    json_array_foreach(json_object_get(table, "cases"), i, c)
    {
        if (lacks) {
            check_lacked(kind, c);
            continue;
        }
        check_laws(kind, c, 1);
        if (ONE_CASE)
            break;
        check_what_is_seen(kind, c);
        if (i == 0)
            check_wirings(kind, c);
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

static const char *only; /* the requested one, NULL: all */

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
    only = argc > 1 && strcmp(argv[1], "all") != 0 ? argv[1] : NULL;
    if (argc > 2) {
        asked[1].name = argv[2];
        backends = asked;
        n_backends = 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mixer_has_a_table),
                                       cmocka_unit_test(every_mixer_keeps_the_laws)};
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
