/*
 * CTC compared with brute force: every path of a few rows, the lines that they make and their total
 * weights. Some changes must not change the result of either decoding.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/ctc.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum { MAX_ROWS = 6, MAX_IDS = 4, MAX_LINES = 4096, LONG = 300 };

/* --- every path --- */

typedef struct known {
    int32_t n, ids[MAX_ROWS];
    double p, best; /* of all its paths, of the best one */
    int32_t path[MAX_ROWS];
} known;

static known lines[MAX_LINES];
static int n_lines;

static int collapse(const lx_ctc_input *in, const int32_t *path, int32_t *ids)
{
    int n = 0;
    for (int32_t t = 0; t < in->n_rows; t++)
        if (path[t] != in->blank && (t == 0 || path[t] != path[t - 1]))
            ids[n++] = path[t];
    return n;
}

static known *line_of(const int32_t *ids, int n)
{
    for (int i = 0; i < n_lines; i++)
        if (lines[i].n == n && memcmp(lines[i].ids, ids, sizeof *ids * (size_t)n) == 0)
            return &lines[i];
    assert_true(n_lines < MAX_LINES);
    lines[n_lines] = (known){.n = n};
    memcpy(lines[n_lines].ids, ids, sizeof *ids * (size_t)n);
    return &lines[n_lines++];
}

static void try_every_path(const lx_ctc_input *in)
{
    int32_t path[MAX_ROWS] = {0};
    for (n_lines = 0;;) {
        double p = 1;
        int32_t ids[MAX_ROWS], t = 0;
        for (int32_t row = 0; row < in->n_rows; row++)
            p *= exp((double)in->log_p[row * in->n_ids + path[row]]);
        known *l = line_of(ids, collapse(in, path, ids));
        l->p += p;
        if (p > l->best) {
            l->best = p;
            memcpy(l->path, path, sizeof path);
        }
        while (t < in->n_rows && ++path[t] == in->n_ids)
            path[t++] = 0;
        if (t == in->n_rows)
            return;
    }
}

/* Random rows, some ids of which are impossible. */
static void draw(lx_ctc_input *in, float *log_p, uint64_t *seed)
{
    in->log_p = log_p;
    in->n_rows = (int32_t)(1 + scratch_random(seed) % MAX_ROWS);
    in->n_ids = (int32_t)(2 + scratch_random(seed) % (MAX_IDS - 1));
    in->blank = (int32_t)(scratch_random(seed) % (uint64_t)in->n_ids);
    for (int32_t t = 0; t < in->n_rows; t++) {
        double sum = 0, p[MAX_IDS];
        for (int32_t id = 0; id < in->n_ids; id++) {
            uint64_t r = scratch_random(seed);
            p[id] = id > 0 && r % 11 == 0 ? 0 : exp(3 * (double)(r >> 40) * 0x1p-24);
            sum += p[id];
        }
        for (int32_t id = 0; id < in->n_ids; id++)
            log_p[t * in->n_ids + id] = (float)log(p[id] / sum);
    }
}

static known *expect_known(const lx_ctc_line *l)
{
    int32_t ids[MAX_ROWS];
    assert_in_range(l->n, 0, MAX_ROWS);
    for (int32_t i = 0; i < l->n; i++)
        ids[i] = l->tokens[i].id;
    int before = n_lines;
    known *k = line_of(ids, l->n);
    assert_int_equal(n_lines, before);
    return k;
}

/* The rows of its tokens are those of its best path. */
static void expect_rows(const lx_ctc_input *in, const lx_ctc_line *l, const int32_t *path)
{
    int32_t token = -1;
    for (int32_t t = 0; t < in->n_rows; t++) {
        if (path[t] == in->blank)
            continue;
        if (t == 0 || path[t] != path[t - 1])
            assert_int_equal(l->tokens[++token].first, t);
        if (t == in->n_rows - 1 || path[t] != path[t + 1])
            assert_int_equal(l->tokens[token].last, t);
    }
    assert_int_equal(token, l->n - 1);
}

static bool is_near(double log_p, double p)
{
    return fabs(exp(log_p) - p) < 1e-6 * p;
}

static void greedy_takes_the_best_path(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 400; i++) {
        float log_p[MAX_ROWS * MAX_IDS];
        lx_ctc_input in = {.fault = NULL};
        lx_ctc_token tokens[MAX_ROWS];
        lx_ctc_line l = {.tokens = tokens};
        draw(&in, log_p, &seed);
        try_every_path(&in);
        lx_ctc_greedy(&in, &l);
        known *k = expect_known(&l);
        for (int j = 0; j < n_lines; j++)
            assert_true(lines[j].best <= k->best);
        assert_true(is_near(l.log_p, k->best));
        expect_rows(&in, &l, k->path);
    }
}

/* As many beginnings as there are lines will do. */
static void a_wide_beam_finds_the_best_line(void **state)
{
    (void)state;
    uint64_t seed = 2;
    int others = 0;
    for (int i = 0; i < 400; i++) {
        float log_p[MAX_ROWS * MAX_IDS];
        lx_ctc_input in = {.fault = NULL};
        lx_ctc_token tokens[MAX_ROWS], best[MAX_ROWS];
        lx_ctc_line l = {.tokens = tokens}, greedy = {.tokens = best};
        draw(&in, log_p, &seed);
        try_every_path(&in);
        int32_t width = n_lines < LX_CTC_MAX_WIDTH ? n_lines : LX_CTC_MAX_WIDTH;
        assert_int_equal(lx_ctc_beam(&in, width, &l, NULL), LX_OK);
        known *k = expect_known(&l);
        for (int j = 0; j < n_lines; j++)
            assert_true(lines[j].p <= k->p * (1 + 1e-9));
        assert_true(is_near(l.log_p, k->p));
        if (l.n > 0)
            expect_rows(&in, &l, k->path);
        lx_ctc_greedy(&in, &greedy);
        others += greedy.n != l.n;
    }
    assert_true(others > 10); /* the best path is not always one of the best line */
}

/* A narrow beam gives a line at most its probability, and lists no line twice. */
static void a_narrow_beam_stays_below(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 400; i++) {
        float log_p[MAX_ROWS * MAX_IDS];
        lx_ctc_input in = {.fault = NULL};
        lx_ctc_token tokens[MAX_ROWS];
        draw(&in, log_p, &seed);
        try_every_path(&in);
        for (int32_t width = 1; width < 8; width++) {
            lx_ctc_line l = {.tokens = tokens};
            assert_int_equal(lx_ctc_beam(&in, width, &l, NULL), LX_OK);
            if (l.log_p == -INFINITY)
                continue;
            known *k = expect_known(&l);
            assert_true(exp(l.log_p) <= k->p * (1 + 1e-9));
            if (l.n > 0)
                expect_rows(&in, &l, k->path);
        }
    }
}

/* Every line that there is, and one that has no path. */
static void a_line_is_as_likely_as_its_paths(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int i = 0; i < 400; i++) {
        float log_p[MAX_ROWS * MAX_IDS];
        lx_ctc_input in = {.fault = NULL};
        double got = 0;
        draw(&in, log_p, &seed);
        try_every_path(&in);
        for (int j = 0; j < n_lines; j++) {
            assert_int_equal(lx_ctc_log_p(&in, lines[j].ids, lines[j].n, &got, NULL), LX_OK);
            assert_true(is_near(got, lines[j].p) || (lines[j].p == 0 && got == -INFINITY));
        }
        int32_t other = in.blank == 0 ? 1 : 0, repeated[MAX_ROWS];
        for (int32_t k = 0; k < in.n_rows; k++)
            repeated[k] = other;
        if (in.n_rows > 1) { /* which wants a blank between any two */
            assert_int_equal(lx_ctc_log_p(&in, repeated, in.n_rows, &got, NULL), LX_OK);
            assert_true(got == -INFINITY);
        }
    }
    lx_error err = {0};
    float log_p[] = {-1, -1};
    double got = 0;
    failing_arm(1);
    lx_status st = lx_ctc_log_p(&(lx_ctc_input){log_p, 1, 2, 0, NULL, NULL}, NULL, 0, &got, &err);
    assert_true(failing_hit());
    scratch_expect(st, &err, LX_ERR_NO_MEMORY, "no memory to score a sound");
}

/* --- single cases --- */

static void a_blank_parts_what_repeats(void **state)
{
    (void)state;
    static const int32_t path[] = {1, 1, 0, 1, 2, 2};
    float log_p[6 * 3];
    for (int t = 0; t < 6; t++)
        for (int id = 0; id < 3; id++)
            log_p[t * 3 + id] = id == path[t] ? 0 : -INFINITY;
    lx_ctc_input in = {log_p, 6, 3, 0, NULL, NULL};
    lx_ctc_token tokens[6];
    static const lx_ctc_token want[] = {{1, 0, 1}, {1, 3, 3}, {2, 4, 5}};
    lx_ctc_line l = {.tokens = tokens};
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            lx_ctc_greedy(&in, &l);
        else
            assert_int_equal(lx_ctc_beam(&in, 3, &l, NULL), LX_OK);
        assert_int_equal(l.n, 3);
        assert_memory_equal(tokens, want, sizeof want);
        assert_true(l.log_p == 0);
    }
}

static void a_row_without_a_choice_gives_nothing(void **state)
{
    (void)state;
    static const float log_p[] = {-1, -1, -INFINITY, -INFINITY};
    lx_ctc_input in = {log_p, 2, 2, 0, NULL, NULL};
    lx_ctc_token tokens[2];
    lx_ctc_line l = {.n = 9, .tokens = tokens};
    assert_int_equal(lx_ctc_beam(&in, 4, &l, NULL), LX_OK);
    assert_int_equal(l.n, 0);
    assert_true(l.log_p == -INFINITY);
}

/* Many rows: both decodings find the plain line, and its probability is at most 1. */
static void long_sounds_are_read(void **state)
{
    (void)state;
    static float log_p[LONG * MAX_IDS];
    static lx_ctc_token tokens[LONG];
    uint64_t seed = 5;
    for (int t = 0; t < LONG; t++)
        for (int id = 0; id < MAX_IDS; id++) {
            int said = t % 10 < 4 ? 1 + t / 10 % 3 : 0;
            log_p[t * MAX_IDS + id] =
                id == said ? -0.2f : -2.5f - (float)(scratch_random(&seed) % 100) / 100;
        }
    lx_ctc_input in = {log_p, LONG, MAX_IDS, 0, NULL, NULL};
    for (int i = 0; i < 2; i++) {
        lx_ctc_line l = {.tokens = tokens};
        if (i == 0)
            lx_ctc_greedy(&in, &l);
        else
            assert_int_equal(lx_ctc_beam(&in, 16, &l, NULL), LX_OK);
        assert_int_equal(l.n, LONG / 10);
        assert_true(l.log_p <= 0);
        for (int32_t k = 0; k < l.n; k++) {
            assert_int_equal(tokens[k].id, 1 + k % 3);
            assert_int_equal(tokens[k].first, 10 * k);
            assert_int_equal(tokens[k].last, 10 * k + 3);
        }
    }
}

static lx_status ends_at_the_third(const void *context, lx_error *err)
{
    int *asked = *(int *const *)context;
    return ++*asked < 3 ? LX_OK : lx_fail(err, LX_ERR_CANCELLED, NULL, "the client left");
}

/* A search of 256 beams over a long sound takes seconds, and its client may have left. */
static void a_search_ends_when_it_is_told(void **state)
{
    (void)state;
    static float log_p[LONG * MAX_IDS];
    int asked = 0, *counter = &asked;
    lx_ctc_input in = {log_p, LONG, MAX_IDS, 0, ends_at_the_third, &counter};
    static lx_ctc_token tokens[LONG];
    lx_ctc_line l = {.tokens = tokens};
    lx_error err = {0};
    scratch_expect(lx_ctc_beam(&in, 4, &l, &err), &err, LX_ERR_CANCELLED, "the client left");
    assert_int_equal(asked, 3);
}

static void memory_may_be_missing(void **state)
{
    (void)state;
    static const float log_p[] = {-3, -0.1f, -3, -0.1f};
    lx_ctc_input in = {log_p, 2, 2, 0, NULL, NULL};
    lx_ctc_token tokens[2];
    int n = 1;
    for (;; n++) {
        lx_ctc_line l = {.tokens = tokens};
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_ctc_beam(&in, 4, &l, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "no memory to decode a sound");
    }
    assert_int_equal(n, 6);
    assert_true(lx_ctc_beam_bytes(1024, 16) < 3 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_best_path),
        cmocka_unit_test(a_wide_beam_finds_the_best_line),
        cmocka_unit_test(a_narrow_beam_stays_below),
        cmocka_unit_test(a_line_is_as_likely_as_its_paths),
        cmocka_unit_test(a_blank_parts_what_repeats),
        cmocka_unit_test(a_row_without_a_choice_gives_nothing),
        cmocka_unit_test(long_sounds_are_read),
        cmocka_unit_test(a_search_ends_when_it_is_told),
        cmocka_unit_test(memory_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
