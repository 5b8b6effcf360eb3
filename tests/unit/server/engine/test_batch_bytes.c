/*
 * A sequence gives equal bytes (tokens, log-probabilities, logits, final state) alone on one
 * thread, and in batches of 1 to 257 on one and two threads, on every instruction set of the
 * machine. In a batch every slot is always taken. Sequences come and go in any order, so that
 * prompts in chunks of any length run next to single steps. The order of slots changes from step to
 * step. Some sequences are long enough for work that a back end does once in several tokens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/transformer.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

#if defined(LX_SANITIZE_THREAD) || defined(LX_SANITIZE_ADDRESS)
enum { MAX_BATCH = 64 };
#else
enum { MAX_BATCH = 257 };
#endif
enum { MAX_SEQS = MAX_BATCH + MAX_BATCH / 2 + 3, PROMPT = 9, LONGEST = PROMPT + 40 };
enum { ROOM = 64, MAX_ROWS = MAX_BATCH + ROOM, MAX_INPUTS = 8 };

#ifdef LX_SANITIZE_THREAD /* one instruction set shows the effect of threads, and a run is slow */
static const lx_isa first_isa = LX_ISA_AVX2, last_isa = LX_ISA_AVX2;
static const int32_t batches[] = {3, MAX_BATCH};
#else
static const lx_isa first_isa = LX_ISA_PLAIN, last_isa = LX_ISA_NEON_BF16_PLAIN;
#ifdef LX_SANITIZE_ADDRESS
static const int32_t batches[] = {2, 17, MAX_BATCH};
#else
static const int32_t batches[] = {1, 2, 3, 17, 64, MAX_BATCH};
#endif
#endif

/* The paper's shapes, and some that no vector's width divides. */
static const tiny_model_options paper = {.n_vocab = 300,
                                         .n_layers = 1,
                                         .n_heads = 8,
                                         .d_model = 256,
                                         .d_ff = 1024,
                                         .max_chars = 32,
                                         .seed = 3};
static const tiny_model_options odd = {.n_vocab = 301,
                                       .n_layers = 3,
                                       .n_heads = 3,
                                       .d_model = 39,
                                       .d_ff = 71,
                                       .max_chars = 32,
                                       .seed = 4};

typedef struct sequence {
    int32_t prompt, length; /* rows given; rows in all */
    int32_t given[PROMPT];
} sequence;

typedef struct outcome {
    lx_sample sample[LONGEST];
    uint64_t logits, state; /* fingerprints */
} outcome;

/* One back end with a transformer, and the buffers of one step. */
typedef struct bench {
    const lx_model *model;
    lx_backend *be;
    lx_transformer *transformer;
    lx_states *states;
    float *state; /* one slot's */
    int32_t seq_start[MAX_BATCH + 1], slot[MAX_BATCH], ids[MAX_ROWS * MAX_INPUTS];
    int32_t output_row[MAX_ROWS];
    lx_sampling sampling[MAX_ROWS];
    lx_sample samples[MAX_ROWS];
    float *logits;
} bench;

/* A sequence in a slot. */
typedef struct runner {
    int32_t index, at; /* rows done */
    int32_t rows;      /* of this step */
    outcome *out;
} runner;

static sequence sequences[MAX_SEQS];

static void make_sequences(void)
{
    uint64_t random = 5;
    for (int32_t i = 0; i < MAX_SEQS; i++) {
        sequence *s = &sequences[i];
        s->prompt = 1 + (int32_t)(scratch_random(&random) % PROMPT);
        s->length =
            s->prompt + (i % 8 == 0 ? LONGEST - PROMPT : (int32_t)(scratch_random(&random) % 5));
        for (int32_t k = 0; k < s->prompt; k++)
            s->given[k] = (int32_t)(scratch_random(&random) % 300);
    }
}

static uint64_t add_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

/* --- one step --- */

static void add_row(bench *b, lx_step *step, const runner *r, int32_t at)
{
    const lx_config *c = &b->model->config;
    const sequence *s = &sequences[r->index];
    int32_t *ids = b->ids + (int64_t)step->batch.n_tokens * c->n_inputs;
    int32_t token = at < s->prompt ? s->given[at] : r->out->sample[at - 1].token;
    for (int32_t j = 0; j < c->n_inputs; j++)
        ids[j] = (j == 0 ? token : at) % c->inputs[j].size;
    if (at >= s->prompt - 1) {
        b->output_row[step->batch.n_outputs] = step->batch.n_tokens;
        b->sampling[step->batch.n_outputs++] = (lx_sampling){.seed = (uint64_t)r->index,
                                                             .step = (uint32_t)at,
                                                             .temperature = 0.9f,
                                                             .top_p = r->index % 3 == 0 ? 0.8f : 1,
                                                             .top_k = r->index % 4 == 0 ? 7 : 0,
                                                             .forced = -1};
    }
    step->batch.n_tokens++;
}

static int32_t note_outputs(bench *b, runner *r, int32_t output)
{
    size_t width = (size_t)b->model->config.head_size;
    for (int32_t at = r->at; at < r->at + r->rows; at++) {
        if (at < sequences[r->index].prompt - 1)
            continue;
        r->out->sample[at] = b->samples[output];
        assert_true(b->samples[output].token >= 0);
        r->out->logits =
            add_bytes(r->out->logits, b->logits + (size_t)output * width, width * sizeof(float));
        output++;
    }
    r->at += r->rows;
    return output;
}

/* The next rows of n runners; runner i is in slot[i]. */
static void run_step(bench *b, runner *const *runners, const int32_t *slot, int32_t n)
{
    lx_error err = {0};
    lx_step step = {.batch = {.n_seqs = n,
                              .seq_start = b->seq_start,
                              .slot = slot,
                              .output_row = b->output_row},
                    .ids = b->ids,
                    .sampling = b->sampling,
                    .samples = b->samples,
                    .logits = b->logits};
    for (int32_t i = 0; i < n; i++) {
        b->seq_start[i] = step.batch.n_tokens;
        for (int32_t k = 0; k < runners[i]->rows; k++)
            add_row(b, &step, runners[i], runners[i]->at + k);
    }
    b->seq_start[n] = step.batch.n_tokens;
    if (lx_transformer_step(b->transformer, b->states, &step, &err) != LX_OK)
        fail_msg("%s", err.text);
    int32_t output = 0;
    for (int32_t i = 0; i < n; i++)
        output = note_outputs(b, runners[i], output);
}

/* True when the runner's sequence is over: its state is noted and its slot is as new. */
static bool end_if_done(bench *b, runner *r, int32_t slot)
{
    if (r->at < sequences[r->index].length)
        return false;
    const lx_kernels *k = b->be->ops;
    size_t bytes = (size_t)b->model->state.fixed_floats * sizeof(float);
    assert_int_equal(k->state_export(b->be, b->states, slot, b->state, 0), LX_OK);
    r->out->state = add_bytes(r->out->state, b->state, bytes);
    assert_int_equal(k->state_zero(b->be, b->states, slot), LX_OK);
    return true;
}

/* --- alone, and in batches --- */

static void run_alone(bench *b, outcome *out)
{
    int32_t slot = 0;
    for (int32_t i = 0; i < MAX_SEQS; i++) {
        runner r = {.index = i, .rows = sequences[i].prompt, .out = &out[i]}, *one = &r;
        while (!end_if_done(b, &r, slot)) {
            run_step(b, &one, &slot, 1);
            r.rows = 1;
        }
    }
}

static void shuffle(int32_t *a, int32_t n, uint64_t *random)
{
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t k = (int32_t)(scratch_random(random) % (uint64_t)(i + 1)), moved = a[i];
        a[i] = a[k];
        a[k] = moved;
    }
}

/* The number of rows of a runner; `room` is the number left for more than one row per runner. */
static void choose_rows(runner *r, int32_t *room, uint64_t *random)
{
    int32_t left = sequences[r->index].prompt - r->at;
    int32_t most = left < *room + 1 ? left : *room + 1;
    r->rows = most > 1 ? 1 + (int32_t)(scratch_random(random) % (uint64_t)most) : 1;
    *room -= r->rows - 1;
}

/* Slots 0 .. n - 1 in some order, without the empty ones; chooses their rows. */
static int32_t choose_slots(bench *b, runner *runners, int32_t n, runner **chosen, uint64_t *random)
{
    int32_t order[MAX_BATCH], count = 0, room = ROOM;
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    shuffle(order, n, random);
    for (int32_t i = 0; i < n; i++) {
        runner *r = &runners[order[i]];
        if (r->index < 0)
            continue;
        choose_rows(r, &room, random);
        b->slot[count] = order[i];
        chosen[count++] = r;
    }
    return count;
}

static void run_batch(bench *b, int32_t batch, outcome *out, int32_t *n_run)
{
    uint64_t random = (uint64_t)batch;
    int32_t order[MAX_SEQS], n = batch + batch / 2 + 3, next = 0;
    runner runners[MAX_BATCH], *chosen[MAX_BATCH];
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    shuffle(order, n, &random);
    for (int32_t i = 0; i < batch; i++, next++)
        runners[i] = (runner){.index = order[next], .out = &out[order[next]]};
    int32_t count;
    while ((count = choose_slots(b, runners, batch, chosen, &random)) > 0) {
        run_step(b, chosen, b->slot, count);
        for (int32_t i = 0; i < batch; i++) {
            if (runners[i].index < 0 || !end_if_done(b, &runners[i], i))
                continue;
            runners[i] = (runner){.index = -1};
            if (next < n)
                runners[i] = (runner){.index = order[next], .out = &out[order[next]]};
            next++;
        }
    }
    *n_run = n;
}

/* --- on every instruction set --- */

/* The precision that an instruction set serves. */
static lx_precision precision_of(lx_isa isa)
{
    switch (isa) {
    case LX_ISA_AVX512_VNNI:
    case LX_ISA_NEON_DOT:
        return LX_PRECISION_INT8;
    case LX_ISA_AVX512_BF16:
    case LX_ISA_AMX:
    case LX_ISA_AMX_PLAIN:
    case LX_ISA_NEON_BF16:
    case LX_ISA_NEON_BF16_PLAIN:
        return LX_PRECISION_AUTO;
    default:
        return LX_PRECISION_F32;
    }
}

/* False when the machine lacks the instruction set. */
static bool open_bench(bench *b, const lx_model *model, lx_isa isa, int32_t threads)
{
    lx_error err = {0};
    lx_backend_options o = {.n_threads = threads, .isa = isa, .precision = precision_of(isa)};
    *b = (bench){.model = model};
    lx_status st = lx_backend_open("cpu", &o, &b->be, &err);
    if (st == LX_ERR_UNSUPPORTED) {
        print_message("left out: %s\n", err.text);
        return false;
    }
    assert_int_equal(st, LX_OK);
    assert_true(model->config.n_inputs <= MAX_INPUTS);
    assert_int_equal(lx_transformer_new(model, b->be, MAX_ROWS, MAX_ROWS, &b->transformer, &err),
                     LX_OK);
    assert_int_equal(
        lx_transformer_states_new(b->transformer, MAX_BATCH, 1 << 12, &b->states, &err), LX_OK);
    b->logits = malloc(sizeof(float) * MAX_ROWS * (size_t)model->config.head_size);
    b->state = malloc(sizeof(float) * (size_t)model->state.fixed_floats);
    assert_non_null(b->logits);
    assert_non_null(b->state);
    return true;
}

static void close_bench(bench *b)
{
    free(b->logits);
    free(b->state);
    b->be->ops->states_free(b->be, b->states);
    lx_transformer_free(b->transformer);
    b->be->ops->close(b->be);
}

static void compare(const bench *b, const outcome *got, const outcome *want, int32_t n,
                    int32_t batch)
{
    char text[80];
    b->be->ops->describe(b->be, text, sizeof text);
    for (int32_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s: sequence %d has other bytes in a batch of %d", text, i, batch);
    }
}

static void check_isa(const lx_model *model, lx_isa isa)
{
    outcome *alone = calloc(MAX_SEQS, sizeof *alone),
            *together = calloc(MAX_SEQS, sizeof *together);
    bench *b = malloc(sizeof *b);
    assert_non_null(alone);
    assert_non_null(together);
    assert_non_null(b);
    bool there = true;
    for (int32_t threads = 1; threads <= 2 && there; threads++) {
        there = open_bench(b, model, isa, threads);
        if (there && threads == 1)
            run_alone(b, alone);
        for (size_t i = 0; i < sizeof batches / sizeof *batches && there; i++) {
            int32_t n = 0;
            memset(together, 0, MAX_SEQS * sizeof *together);
            run_batch(b, batches[i], together, &n);
            compare(b, together, alone, n, batches[i]);
        }
        if (there)
            close_bench(b);
    }
    free(alone);
    free(together);
    free(b);
}

static bool is_plain(lx_isa isa)
{
    return isa == LX_ISA_PLAIN || isa == LX_ISA_AMX_PLAIN || isa == LX_ISA_NEON_BF16_PLAIN;
}

static void check_model(const tiny_model_options *o, bool plain)
{
    lx_error err = {0};
    lx_model *model = NULL;
    char *folder = tiny_model_make("tiny", o);
    assert_non_null(folder);
    if (lx_model_load(folder, &model, &err) != LX_OK)
        fail_msg("%s", err.text);
    for (lx_isa isa = first_isa; isa <= last_isa; isa++) {
        if (plain || !is_plain(isa))
            check_isa(model, isa);
    }
    lx_model_free(model);
    tiny_model_remove(folder);
}

static void the_same_bytes_at_any_batch_size_with_odd_shapes(void **state)
{
    (void)state;
    make_sequences();
    check_model(&odd, true);
}

/* Plain C knows no shapes, and is slow. */
static void the_same_bytes_at_any_batch_size_with_the_papers_shapes(void **state)
{
    (void)state;
    make_sequences();
    check_model(&paper, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bytes_at_any_batch_size_with_odd_shapes),
        cmocka_unit_test(the_same_bytes_at_any_batch_size_with_the_papers_shapes),
    };
    return cmocka_run_group_tests_name("batch_bytes", tests, NULL, NULL);
}
