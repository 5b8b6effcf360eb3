/*
 * The laws of a model that reads its whole input, for each kind that tests/golden/hearing has. An
 * input gives the bits that it gives alone, with any other inputs in its pass, on any number of
 * threads and with any instruction set of a precision. Some requests are refused.
 */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/encoder.h"
#include "model/tasks/task.h"
#include "model/transformer.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

enum { N = 5, MOST = 64, WIDTH = 18, IDS = 4, ROWS = 160, MAX_KINDS = 16 };

static const int32_t lengths[N] = {7, 64, 1, 33, 50};
static float rows[N][MOST * WIDTH];
static float alone[N][MOST * IDS], among[N][MOST * IDS];

static char folders[MAX_KINDS][1024];
static int n_folders;

static int setup(void **state)
{
    (void)state;
    uint64_t seed = 1;
    DIR *d = opendir(GOLDEN_HEARING);
    if (d == NULL)
        return -1;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (e->d_name[0] != '.' && n_folders < MAX_KINDS)
            (void)snprintf(folders[n_folders++], sizeof folders[0], "%s/%s", GOLDEN_HEARING,
                           e->d_name);
    (void)closedir(d);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < MOST * WIDTH; k++)
            rows[i][k] = (float)(scratch_random(&seed) >> 40) * 0x1p-22f - 2;
    return n_folders == 0 ? -1 : 0;
}

typedef struct subject {
    lx_model *model;
    lx_backend *be;
    lx_encoder *encoder;
} subject;

/* False: the instruction set is not on this machine. */
static bool try_open(subject *s, const char *folder, const char *backend, int32_t n_threads,
                     lx_isa isa, lx_precision precision)
{
    lx_error err = {0};
    const lx_backend_options options = {.n_threads = n_threads, .isa = isa, .precision = precision};
    *s = (subject){0};
    lx_status st = lx_backend_open(backend, &options, &s->be, &err);
    if (st == LX_ERR_UNSUPPORTED)
        return false;
    must(st, &err);
    must(lx_model_load(folder, &s->model, &err), &err);
    must(lx_encoder_new(s->model, s->be, ROWS, N, &s->encoder, &err), &err);
    assert_int_equal(lx_encoder_width(s->model), WIDTH);
    return true;
}

static void close_all(subject *s)
{
    lx_encoder_free(s->encoder);
    s->be->ops->close(s->be);
    lx_model_free(s->model);
}

static void run(subject *s, const int *which, int n, float (*log_p)[MOST * IDS])
{
    lx_encoder_input inputs[N];
    lx_error err = {0};
    for (int i = 0; i < n; i++) {
        memset(log_p[which[i]], 0x55, sizeof log_p[which[i]]);
        inputs[i] = (lx_encoder_input){rows[which[i]], lengths[which[i]], log_p[which[i]]};
    }
    must(lx_encoder_run(s->encoder, inputs, n, &err), &err);
}

static void run_alone(subject *s)
{
    for (int i = 0; i < N; i++)
        run(s, &i, 1, alone);
}

static void expect_same(const int *which, int n)
{
    for (int i = 0; i < n; i++)
        assert_memory_equal(alone[which[i]], among[which[i]],
                            sizeof(float) * IDS * (size_t)lengths[which[i]]);
}

static const lx_precision precisions[] = {LX_PRECISION_F32, LX_PRECISION_AUTO, LX_PRECISION_INT8,
                                          LX_PRECISION_INT4};

static void an_input_is_alone(void **state)
{
    (void)state;
    static const int passes[][N] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4}, {3, 1}};
    static const int sizes[] = {5, 5, 3, 2};
    for (int k = 0; k < n_folders; k++)
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
            subject s;
            assert_true(try_open(&s, folders[k], "cpu", 2, LX_ISA_AUTO, precisions[p]));
            run_alone(&s);
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                run(&s, passes[i], sizes[i], among);
                expect_same(passes[i], sizes[i]);
            }
            close_all(&s);
        }
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const int all[N] = {0, 1, 2, 3, 4};
    static const int32_t threads[] = {1, 2, 3, 7};
    for (int k = 0; k < n_folders; k++)
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++)
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
                subject s;
                assert_true(
                    try_open(&s, folders[k], "cpu", threads[t], LX_ISA_AUTO, precisions[p]));
                if (t == 0)
                    run_alone(&s);
                run(&s, all, N, among);
                expect_same(all, N);
                close_all(&s);
            }
}

static void instruction_sets_change_nothing(void **state)
{
    (void)state;
    static const int all[N] = {0, 1, 2, 3, 4};
    static const lx_isa isas[] = {LX_ISA_PLAIN, LX_ISA_AVX2,        LX_ISA_AVX512,
                                  LX_ISA_NEON,  LX_ISA_AVX512_VNNI, LX_ISA_NEON_DOT};
    for (int k = 0; k < n_folders; k++)
        for (int int8 = 0; int8 < 2; int8++) {
            int opened = 0;
            for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
                subject s;
                if (!int8 && i > 3) /* those of int8 alone */
                    continue;
                if (!try_open(&s, folders[k], "cpu", 1, isas[i],
                              int8 ? LX_PRECISION_INT8 : LX_PRECISION_F32))
                    continue;
                if (opened++ == 0) /* a build need not hold them all */
                    run_alone(&s);
                run(&s, all, N, among);
                expect_same(all, N);
                close_all(&s);
            }
            assert_true(opened > 0);
        }
}

/* The oracle's sums are in double; each row's probabilities add up to 1. */
static void numbers_are_the_oracles(void **state)
{
    (void)state;
    static const int all[N] = {0, 1, 2, 3, 4};
    for (int k = 0; k < n_folders; k++) {
        subject oracle, s;
        assert_true(try_open(&oracle, folders[k], "reference", 1, LX_ISA_AUTO, LX_PRECISION_F32));
        assert_true(try_open(&s, folders[k], "cpu", 2, LX_ISA_AUTO, LX_PRECISION_F32));
        run(&oracle, all, N, alone);
        run(&s, all, N, among);
        for (int i = 0; i < N; i++)
            for (int r = 0; r < lengths[i]; r++) {
                double sum = 0;
                for (int id = 0; id < IDS; id++) {
                    double want = (double)alone[i][r * IDS + id];
                    double got = (double)among[i][r * IDS + id];
                    assert_true(fabs(got - want) < 1e-4);
                    sum += exp(got);
                }
                assert_true(fabs(sum - 1) < 1e-6);
            }
        close_all(&oracle);
        close_all(&s);
    }
}

/* The first row changes with the last one: no part of an input is cut. Of a long one an LSTM
   forgets its end, and chunks of hashes may not lead there. */
static void the_first_row_needs_the_last(void **state)
{
    (void)state;
    for (int k = 0; k < n_folders; k++) {
        subject s;
        int which = 0;
        assert_true(try_open(&s, folders[k], "cpu", 1, LX_ISA_AUTO, LX_PRECISION_F32));
        run(&s, &which, 1, alone);
        float *last = &rows[which][(lengths[which] - 1) * WIDTH];
        *last += 5;
        run(&s, &which, 1, among);
        *last -= 5;
        assert_memory_not_equal(alone[which], among[which], sizeof(float) * IDS);
        close_all(&s);
    }
}

/* --- refused requests --- */

static void expect_refused(lx_encoder *e, const lx_encoder_input *inputs, int32_t n,
                           const char *part)
{
    lx_error err = {0};
    lx_status st = lx_encoder_run(e, inputs, n, &err);
    scratch_expect(st, &err, LX_ERR_INVALID, part);
}

static void passes_have_limits(void **state)
{
    (void)state;
    subject s;
    assert_true(try_open(&s, folders[0], "cpu", 1, LX_ISA_AUTO, LX_PRECISION_F32));
    lx_encoder_input inputs[N + 1];
    for (int i = 0; i <= N; i++)
        inputs[i] = (lx_encoder_input){rows[0], MOST, among[0]};
    expect_refused(s.encoder, inputs, 0, "a pass of 0 inputs is not within 1 to 5");
    expect_refused(s.encoder, inputs, N + 1, "a pass of 6 inputs");
    expect_refused(s.encoder, inputs, 3, "a pass of 192 rows is not within 1 to 160");
    inputs[1].n_rows = 0;
    expect_refused(s.encoder, inputs, 2, "input 1: 0 rows are not within 1 to 64");
    inputs[1].n_rows = MOST + 1;
    expect_refused(s.encoder, inputs, 2, "input 1: 65 rows");
    assert_int_equal(lx_encoder_max_rows(s.encoder), ROWS);
    assert_int_equal(lx_encoder_max_inputs(s.encoder), N);
    assert_ptr_equal(lx_encoder_model(s.encoder), s.model);
    close_all(&s);
}

static void what_is_no_number_is_a_fault(void **state)
{
    (void)state;
    subject s;
    lx_error err = {0};
    assert_true(try_open(&s, folders[0], "cpu", 1, LX_ISA_AUTO, LX_PRECISION_F32));
    float kept = rows[0][3];
    rows[0][3] = NAN;
    lx_status st =
        lx_encoder_run(s.encoder, &(lx_encoder_input){rows[0], lengths[0], among[0]}, 1, &err);
    rows[0][3] = kept;
    scratch_expect(st, &err, LX_ERR_DEVICE, "computes no numbers");
    int which = 0;
    run(&s, &which, 1, among); /* and the next pass is none */
    close_all(&s);
}

static void makers_check_what_they_get(void **state)
{
    (void)state;
    subject s;
    lx_encoder *e = NULL;
    lx_transformer *t = NULL;
    lx_plan *plan = NULL;
    lx_error err = {0};
    assert_true(try_open(&s, folders[0], "cpu", 1, LX_ISA_AUTO, LX_PRECISION_F32));
    scratch_expect(lx_encoder_new(s.model, s.be, MOST - 1, 1, &e, &err), &err, LX_ERR_INVALID,
                   "rows must be 64 to");
    scratch_expect(lx_encoder_new(s.model, s.be, MOST, 0, &e, &err), &err, LX_ERR_INVALID,
                   "0 inputs");
    scratch_expect(lx_encoder_new(s.model, s.be, MOST, MOST + 1, &e, &err), &err, LX_ERR_INVALID,
                   "65 inputs");
    scratch_expect(lx_transformer_new(s.model, s.be, 8, 8, &t, &err), &err, LX_ERR_INVALID,
                   "has the task speech");
    assert_string_equal(err.param, "model");
    scratch_expect(
        lx_plan_new(s.model, &(lx_task_request){.text = "a", .text_bytes = 1}, &plan, &err), &err,
        LX_ERR_INVALID, "has the task speech");
    assert_string_equal(err.param, "model");
    char *dir = tiny_model_make("lines", &tiny_model_default);
    lx_model *other = NULL;
    assert_non_null(dir);
    must(lx_model_load(dir, &other, &err), &err);
    scratch_expect(lx_encoder_new(other, s.be, MOST, 1, &e, &err), &err, LX_ERR_INVALID,
                   "model lines has the task couplet and does not transcribe sounds");
    lx_model_free(other);
    tiny_model_remove(dir);
    lx_encoder_free(NULL);
    close_all(&s);
}

static void memory_may_be_missing(void **state)
{
    (void)state;
    for (int k = 0; k < n_folders; k++) {
        subject s;
        assert_true(try_open(&s, folders[k], "cpu", 1, LX_ISA_AUTO, LX_PRECISION_F32));
        int n = 1;
        for (;; n++) {
            lx_encoder *e = NULL;
            lx_error err = {0};
            failing_arm(n);
            lx_status st = lx_encoder_new(s.model, s.be, ROWS, N, &e, &err);
            if (!failing_hit()) {
                must(st, &err);
                assert_int_equal(lx_encoder_bytes(e), lx_encoder_bytes(s.encoder));
                lx_encoder_free(e);
                break;
            }
            assert_int_equal(st, LX_ERR_NO_MEMORY);
            assert_null(e);
        }
        assert_true(n > 20);
        close_all(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_is_alone),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(instruction_sets_change_nothing),
        cmocka_unit_test(numbers_are_the_oracles),
        cmocka_unit_test(the_first_row_needs_the_last),
        cmocka_unit_test(passes_have_limits),
        cmocka_unit_test(what_is_no_number_is_a_fault),
        cmocka_unit_test(makers_check_what_they_get),
        cmocka_unit_test(memory_may_be_missing),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
