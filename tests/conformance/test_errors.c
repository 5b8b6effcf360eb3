/*
 * Wrong arguments. For each, the error names the fault, nothing of the step runs, no slot changes,
 * and the next step works.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"

enum { D = 8 };

static bool begin_fails(device *d, const lx_batch *b, const char *what)
{
    lx_error err = {0};
    CHECK(d->k->begin(d->be, b, &err) == LX_ERR_INVALID, "accepted: %s", what);
    CHECK(err.text[0] != '\0', "no text for: %s", what);
    return true;
}

static bool broken_batches_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    int32_t start[] = {0, 2, 3}, slot[] = {0, 1}, rows[] = {0, 2};
    const lx_batch good = {.n_tokens = 3,
                           .n_seqs = 2,
                           .seq_start = start,
                           .slot = slot,
                           .n_outputs = 2,
                           .output_row = rows};
    int32_t from_1[] = {1, 2, 3}, empty[] = {0, 3, 3}, back[] = {0, 4, 3}, twice[] = {1, 1},
            below[] = {0, -1}, far[] = {0, 1 << 30}, down[] = {2, 0}, past[] = {0, 3};
    int32_t before[] = {0, -1}, beyond[] = {INT32_MAX - 1, 0};
    lx_batch b[14];
    for (int i = 0; i < 14; i++)
        b[i] = good;
    b[0].n_tokens = 0;
    b[1].n_seqs = 0;
    b[2].n_tokens = 4;
    b[3].seq_start = from_1;
    b[4].seq_start = empty;
    b[5].seq_start = back;
    b[6].slot = twice;
    b[7].slot = below;
    b[8].slot = far;
    b[9].output_row = down;
    b[10].output_row = past;
    b[11].n_outputs = -1;
    b[12].position = before;
    b[13].position = beyond;
    for (int i = 0; i < 14; i++) {
        if (!begin_fails(dut, &b[i], "a broken batch"))
            return false;
    }
    CHECK_OK(dut->k->begin(dut->be, &good, NULL));
    return dev_finish(dut);
}

/* The arrays of a small step, and a copy of its only slot. */
typedef struct world {
    lx_batch *batch;
    lx_array *x, *y, *qkv, *gamma, *logits;
    lx_states *states;
    lx_matrix *w;
    lx_table *table, *other;
    float before[D * 5];
} world;

static world make_world(device *d)
{
    world o = {.batch = single_rows(2)};
    rng r = {15};
    float *weights = random_floats(&r, 20 * D, UNIFORM, 0, 0);
    lx_host_tensor t = {LX_F32, D, D, weights}, wide = {LX_F32, D, D + 1, weights};
    o.x = dev_array(d, weights, 2 * D);
    o.y = dev_array(d, weights, 2 * D);
    o.qkv = dev_array(d, weights, 6 * D);
    o.gamma = dev_array(d, weights, D);
    o.logits = dev_array(d, weights, 2 * D);
    o.states = dev_states(d, D * 5, 2);
    o.w = dev_matrix(d, &t, NULL);
    o.table = dev_table(d, &t);
    o.other = dev_table(d, &wide);
    fill(&r, o.before, D * 5, UNIFORM, 0, 0);
    return o;
}

/* A step of a good attend and then something bad: end() must fail and the slot be as it was. */
static bool begin_step(device *d, const world *o)
{
    lx_attend_linear_args good = {o->y, o->qkv, o->states, 0, 2, 4, 4, LX_PHI_ELU1, 1e-6f, NULL};
    CHECK_OK(d->k->state_import(d->be, o->states, 0, o->before, 0));
    CHECK_OK(d->k->begin(d->be, o->batch, NULL));
    if (d->is_cpu)
        d->k->attend_linear(d->be, &good);
    return true;
}

static bool step_fails(device *d, const world *o, const char *what)
{
    lx_error err = {0};
    float after[D * 5];
    uint64_t step = 0;
    CHECK(d->k->end(d->be, &step, &err) == LX_ERR_INVALID, "accepted: %s", what);
    CHECK(err.text[0] != '\0', "no text for: %s", what);
    CHECK_OK(d->k->state_export(d->be, o->states, 0, after, 0));
    CHECK(same_bytes(after, o->before, D * 5), "the slot changed: %s", what);
    return true;
}

static bool broken_linear_is_refused(device *dut, device *oracle)
{
    (void)oracle;
    world o = make_world(dut);
    float *weights = floats(9 * D * D);
    lx_host_tensor wide = {LX_F32, D, 9 * D, weights}, tall = {LX_F32, 9 * D, D, weights};
    const lx_linear_args good = {o.y, o.x, o.w, LX_ACT_NONE, NULL, LX_ROWS_TOKENS};
    lx_linear_args bad[4] = {good, good, good, good};
    bad[0].x = o.y;
    bad[1].activation = (lx_activation)77;
    bad[2].w = dev_matrix(dut, &wide, NULL); /* x is too small */
    bad[3].w = dev_matrix(dut, &tall, NULL); /* y is too small */
    for (int i = 0; i < 4; i++) {
        if (!begin_step(dut, &o))
            return false;
        dut->k->linear(dut->be, &bad[i]);
        if (!step_fails(dut, &o, "linear"))
            return false;
    }
    return true;
}

static bool broken_embed_is_refused(device *dut, device *oracle)
{
    (void)oracle;
    world o = make_world(dut);
    const lx_table *one[] = {o.table}, *uneven[] = {o.table, o.other};
    int32_t low[] = {0, -1}, high[] = {D, 0}, fine[] = {0, 0, 0, 0}, drawn[] = {0, lx_drawn_id(3)};
    lx_embed_args bad[5] = {{o.y, 1, one, low, o.states},
                            {o.y, 1, one, high, o.states},
                            {o.y, 2, uneven, fine, NULL},
                            {o.y, 0, one, fine, NULL},
                            {o.y, 1, one, drawn, NULL}};
    for (int i = 0; i < 5; i++) {
        if (!begin_step(dut, &o))
            return false;
        dut->k->embed(dut->be, &bad[i]);
        if (!step_fails(dut, &o, "embed"))
            return false;
    }
    return true;
}

static bool broken_attend_is_refused(device *dut, device *oracle)
{
    (void)oracle;
    world o = make_world(dut);
    const lx_attend_linear_args good = {o.y, o.qkv, o.states, 0, 2, 4, 4, LX_PHI_ELU1, 1e-6f, NULL};
    lx_attend_linear_args bad[5] = {good, good, good, good, good};
    bad[0].offset = 1; /* one float too far */
    bad[1].offset = -1;
    bad[2].d_value = 0;
    bad[3].qkv = o.y;
    bad[4].feature_map = (lx_feature_map)5;
    for (int i = 0; i < 5; i++) {
        if (!begin_step(dut, &o))
            return false;
        dut->k->attend_linear(dut->be, &bad[i]);
        if (!step_fails(dut, &o, "attend_linear"))
            return false;
    }
    return true;
}

static bool broken_sample_is_refused(device *dut, device *oracle)
{
    (void)oracle;
    world o = make_world(dut);
    uint8_t none[D + 1] = {0};
    int32_t outside[] = {D};
    enum { N_BAD = 20 };
    const lx_bias unsorted[] = {{1, 1, 0}, {1, 1, 0}}, foreign[] = {{D, 1, 0}};
    const lx_bias below[] = {{-1, 1, 0}}, nan[] = {{0, NAN, 0}}, huge[] = {{0, 2 * LX_MAX_BIAS, 0}};
    const lx_bias negative[] = {{0, 1, -2}}, divided[] = {{0, 1, 2 * LX_MAX_DIVISOR}};
    lx_sample top[LX_MAX_TOP + 1];
    const lx_sampling good = {.temperature = 1, .top_p = 1, .forced = -1};
    lx_sampling bad[N_BAD][2];
    lx_sample out[2];
    for (int i = 0; i < N_BAD; i++)
        bad[i][0] = bad[i][1] = good;
    bad[0][1].temperature = -1;
    bad[1][1].temperature = NAN;
    bad[2][1].top_p = 0;
    bad[3][1].top_k = -1;
    bad[4][1].forced = D;
    bad[5][1].forced = -2;
    bad[6][1].banned = outside;
    bad[6][1].n_banned = 1;
    bad[7][1].mask = dev_mask(dut, none, D + 1);
    const lx_bias *biases[] = {unsorted, foreign, below, nan, huge, negative, divided};
    for (int i = 0; i < 7; i++) {
        bad[8 + i][1].biases = biases[i];
        bad[8 + i][1].n_biases = i == 0 ? 2 : 1;
    }
    bad[15][1].min_p = -0.1f;
    bad[16][1].min_p = 1.5f;
    bad[17][1].min_p = NAN;
    bad[18][1].typical_p = NAN;
    bad[19][1].top = top;
    bad[19][1].n_top = D + 1 < LX_MAX_TOP ? D + 1 : LX_MAX_TOP + 1;
    for (int i = 0; i < N_BAD; i++) {
        lx_sample_args args = {o.logits, D, bad[i], out, NULL};
        if (!begin_step(dut, &o))
            return false;
        dut->k->sample(dut->be, &args);
        if (!step_fails(dut, &o, "sample"))
            return false;
    }
    return true;
}

static bool broken_mixture_is_refused(device *dut, device *oracle)
{
    (void)oracle;
    world o = make_world(dut);
    const lx_sampling good = {.temperature = 1, .top_p = 1, .forced = -1};
    lx_sampling sound[2] = {good, good}, bad_rows[4][2];
    lx_sample out[2] = {{-77, 0}, {-77, 0}};
    lx_sample_mixture_args bad[10];
    for (int i = 0; i < 4; i++)
        bad_rows[i][0] = bad_rows[i][1] = good;
    bad_rows[0][1].temperature = -1;
    bad_rows[1][1].temperature = INFINITY;
    bad_rows[2][1].forced = 256;
    bad_rows[3][1].forced = -2;
    for (int i = 0; i < 10; i++)
        bad[i] = (lx_sample_mixture_args){o.logits, 1, 256, i < 4 ? bad_rows[i] : sound, out, NULL};
    bad[4].n_components = 0;
    bad[5].n_components = LX_MIXTURE_MAX_COMPONENTS + 1;
    bad[6].n_levels = 1;
    bad[7].n_levels = LX_MIXTURE_MAX_LEVELS + 1;
    bad[8].n_components = D; /* the array is too small */
    bad[9].parameters = NULL;
    for (int i = 0; i < 10; i++) {
        if (!begin_step(dut, &o))
            return false;
        dut->k->sample_mixture(dut->be, &bad[i]);
        if (!step_fails(dut, &o, "sample_mixture"))
            return false;
        CHECK(out[0].token == -77 && out[1].token == -77, "a sample of a refused step");
    }
    return true;
}

static bool broken_objects_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    const lx_kernels *k = dut->k;
    lx_backend *be = dut->be;
    lx_error err = {0};
    lx_array *a = dev_array(dut, NULL, 4);
    lx_states *s = dev_states(dut, 4, 2), *none = NULL;
    lx_matrix *w = NULL;
    static const lx_state_layout broken[] = {{0, 0, 0, 0},  {-1, 4, 1, 1}, {4, -1, 0, 0},
                                             {4, 0, 1, 0},  {4, 0, 0, 1},  {4, 4, 0, 1},
                                             {4, 4, -1, 1}, {4, 4, 1, 0},  {4, INT64_MAX, 2, 1}};
    float x[64] = {0};
    lx_host_tensor no_rows = {LX_F32, 0, 4, x};
    CHECK(k->array_upload(be, a, 4 + GUARD, x, 1) == LX_ERR_INVALID, "upload past the end");
    CHECK(k->array_download(be, a, -1, x, 1) == LX_ERR_INVALID, "download before the start");
    CHECK(k->state_zero(be, s, 2) == LX_ERR_INVALID, "zero of a slot that is not there");
    CHECK(k->state_copy(be, s, 0, -1, 0) == LX_ERR_INVALID, "copy from a slot that is not there");
    CHECK(k->state_export(be, s, 2, x, 0) == LX_ERR_INVALID, "export of a slot that is not there");
    CHECK(k->state_import(be, s, -1, x, 0) == LX_ERR_INVALID, "import to a slot that is not there");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        CHECK(k->states_new(be, &broken[i], 1, &none, &err) == LX_ERR_INVALID, "layout %zu", i);
    CHECK(k->matrix_new(be, &no_rows, NULL, NULL, &w, &err) == LX_ERR_INVALID,
          "a matrix without rows");
    CHECK(w == NULL && none == NULL, "an output was set on failure");
    k->array_free(be, NULL);
    k->matrix_free(be, NULL);
    k->table_free(be, NULL);
    k->mask_free(be, NULL);
    k->states_free(be, NULL);
    k->close(NULL);
    return true;
}

static lx_status norm_step(device *d, int32_t rows, lx_array *y, const lx_array *x,
                           const lx_array *gamma)
{
    const lx_norm_args args = {y, x, gamma, gamma, D, 1e-5f, LX_ROWS_TOKENS};
    uint64_t step = 0;
    lx_status st = d->k->begin(d->be, single_rows(rows), NULL);
    if (st != LX_OK)
        return st;
    d->k->norm(d->be, &args);
    st = d->k->end(d->be, &step, NULL);
    return st == LX_OK ? d->k->sync(d->be, step, NULL) : st;
}

/* A back end may skip checks of arguments that passed in the step before, but not checks that
   depend on the batch. */
static bool repeated_arguments_are_checked_with_their_batch(device *dut, device *oracle)
{
    (void)oracle;
    world o = make_world(dut);
    const int32_t room = 2 + GUARD / D; /* of rows in x and y */
    for (int i = 0; i < 3; i++) {
        CHECK_OK(norm_step(dut, room, o.y, o.x, o.gamma));
        CHECK(norm_step(dut, room + 1, o.y, o.x, o.gamma) == LX_ERR_INVALID, "more rows than room");
        CHECK_OK(norm_step(dut, 1, o.y, o.x, o.gamma));
    }
    return true;
}

static lx_status linear_step(device *d, const world *o, const lx_matrix *w)
{
    const lx_linear_args args = {o->y, o->x, w, LX_ACT_NONE, NULL, LX_ROWS_TOKENS};
    uint64_t step = 0;
    lx_status st = d->k->begin(d->be, o->batch, NULL);
    if (st != LX_OK)
        return st;
    d->k->linear(d->be, &args);
    st = d->k->end(d->be, &step, NULL);
    return st == LX_OK ? d->k->sync(d->be, step, NULL) : st;
}

/* Also not when another matrix, with more rows than y has room for, lies at the former matrix's
   place. The C library keeps the first few freed blocks back, so there are many. */
static bool freed_objects_are_forgotten(device *dut, device *oracle)
{
    (void)oracle;
    enum { MANY = 64 };
    world o = make_world(dut);
    float *weights = floats(9 * D * D);
    const lx_host_tensor square = {LX_F32, D, D, weights}, tall = {LX_F32, 9 * D, D, weights};
    lx_matrix *before[MANY], *after[MANY];
    for (int i = 0; i < MANY; i++)
        CHECK_OK(dut->k->matrix_new(dut->be, &square, NULL, NULL, &before[i], NULL));
    const lx_matrix *last = before[MANY - 1];
    CHECK_OK(linear_step(dut, &o, before[MANY - 1]));
    for (int i = 0; i < MANY; i++)
        dut->k->matrix_free(dut->be, before[i]);
    lx_status st = LX_ERR_INVALID; /* under a sanitizer no address comes again */
    int n = 0;
    for (bool again = false; n < MANY && !again; n++) {
        CHECK_OK(dut->k->matrix_new(dut->be, &tall, NULL, NULL, &after[n], NULL));
        again = after[n] == last;
        if (again)
            st = linear_step(dut, &o, after[n]);
    }
    while (n > 0)
        dut->k->matrix_free(dut->be, after[--n]);
    CHECK(st == LX_ERR_INVALID, "a freed matrix's shape was taken for that of a new one");
    return true;
}

/* The instruction sets of each processor that not every precision may ask for. */
static bool precisions_without_a_set_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    (void)dut;
#if defined(__x86_64__)
    static const lx_isa sets[] = {LX_ISA_AVX512_BF16, LX_ISA_AVX512_VNNI, LX_ISA_AMX,
                                  LX_ISA_AMX_PLAIN, LX_ISA_NEON_BF16_PLAIN};
    static const lx_isa other = LX_ISA_NEON_BF16;
#else
    static const lx_isa sets[] = {LX_ISA_NEON_DOT, LX_ISA_NEON_BF16, LX_ISA_NEON_BF16_PLAIN,
                                  LX_ISA_AMX_PLAIN};
    static const lx_isa other = LX_ISA_AVX2;
#endif
    lx_backend *be = NULL;
    lx_error err = {0};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        lx_backend_options exact = {.n_threads = 1, .isa = sets[i]};
        CHECK(lx_backend_open("cpu", &exact, &be, &err) == LX_ERR_INVALID, "%s as exact",
              lx_isa_name(sets[i]));
    }
    lx_backend_options elsewhere = {.n_threads = 1, .isa = other};
    CHECK(lx_backend_open("cpu", &elsewhere, &be, &err) == LX_ERR_UNSUPPORTED, "%s is here",
          lx_isa_name(other));
    CHECK(strstr(err.text, lx_isa_name(other)) != NULL, "it is not named: %s", err.text);
    CHECK(be == NULL, "an output was set on failure");
    return true;
}

static bool unknown_back_ends_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    (void)dut;
    lx_backend *be = NULL;
    lx_error err = {0};
    lx_backend_options one = {.n_threads = 1}, none = {.n_threads = 0}, many = {.n_threads = 257},
                       odd = {.n_threads = 1, .isa = (lx_isa)99},
                       bytes = {.n_threads = 1, .precision = LX_PRECISION_INT8},
                       nibbles = {.n_threads = 1, .precision = LX_PRECISION_INT4},
                       unknown = {.n_threads = 1, .precision = (lx_precision)9};
    CHECK(lx_backend_open("tpu", &one, &be, &err) == LX_ERR_UNSUPPORTED, "a back end \"tpu\"");
    CHECK(strstr(err.text, "tpu") != NULL, "the error does not name it: %s", err.text);
    CHECK(lx_backend_open("cpu", &none, &be, &err) == LX_ERR_INVALID, "0 threads");
    CHECK(lx_backend_open("cpu", &many, &be, &err) == LX_ERR_INVALID, "257 threads");
    CHECK(lx_backend_open("cpu", &odd, &be, &err) == LX_ERR_INVALID, "instruction set 99");
    CHECK(lx_backend_open("cpu", &unknown, &be, &err) == LX_ERR_INVALID, "precision 9");
    CHECK(lx_backend_open("reference", &bytes, &be, &err) == LX_ERR_UNSUPPORTED, "int8 oracle");
    CHECK(lx_backend_open("cuda", &nibbles, &be, &err) == LX_ERR_UNSUPPORTED, "int4 on a device");
    CHECK(strstr(err.text, "precision int4 is for the back end cpu") != NULL, "%s", err.text);
    CHECK(be == NULL, "an output was set on failure");
    return true;
}

/* A model's fingerprint is made of this. */
static bool back_ends_say_what_they_compute_with(device *dut, device *oracle)
{
    (void)dut;
    const lx_backend_options bytes = {
        .n_threads = 1, .isa = LX_ISA_PLAIN, .precision = LX_PRECISION_INT8};
    lx_backend *be = NULL;
    CHECK_OK(lx_backend_open("cpu", &bytes, &be, NULL));
    bool said = strcmp(be->isa, "plain") == 0 && be->precision == LX_PRECISION_INT8;
    be->ops->close(be);
    CHECK(said, "plain, int8: the back end says something else");
    CHECK(oracle->be->isa == NULL, "the oracle has an instruction set");
    return true;
}

const test error_tests[] = {
    {"broken_batches_are_refused", broken_batches_are_refused},
    {"broken_linear_is_refused", broken_linear_is_refused},
    {"broken_embed_is_refused", broken_embed_is_refused},
    {"broken_attend_is_refused", broken_attend_is_refused},
    {"broken_sample_is_refused", broken_sample_is_refused},
    {"broken_mixture_is_refused", broken_mixture_is_refused},
    {"broken_objects_are_refused", broken_objects_are_refused},
    {"repeated_arguments_are_checked_with_their_batch",
     repeated_arguments_are_checked_with_their_batch},
    {"freed_objects_are_forgotten", freed_objects_are_forgotten},
    {"precisions_without_a_set_are_refused", precisions_without_a_set_are_refused},
    {"unknown_back_ends_are_refused", unknown_back_ends_are_refused},
    {"back_ends_say_what_they_compute_with", back_ends_say_what_they_compute_with},
    {NULL, NULL},
};
