/*
 * A small random model run as a server runs one: sequences of different lengths, prompts in chunks
 * next to single decode steps, in random schedules and slots. Every logit, sample and final state
 * must have the bytes of the sequence alone. On the cpu back end they must also equal those of
 * every other instruction set and number of threads, and those of a run next to another engine.
 *
 * One wide array serves as qkv, as hidden layer and as logits, so that rows of different shapes
 * overlap. The back end must notice that where threads walk through a step without waiting.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "conformance.h"

enum {
    LAYERS = 2,
    HEADS = 3,
    DIM = 16, /* of a head */
    WIDTH = HEADS * DIM,
    HIDDEN = 80,
    IDS = 101,
    POSITIONS = 40,
    STATE = HEADS * DIM * (DIM + 1), /* of a layer */
    SEQS = 24,
    LONGEST = 32,
    ROWS = SEQS * LONGEST
};

/* Of 1 + |logit|, after two layers; docs/numerics.md */
#define ORACLE_BOUND 5e-6
#define ROUNDED_BOUND 2e-2 /* inputs of products rounded to bf16 */
#define INT8_BOUND 2e-1    /* factors of products rounded to 8 bits */

typedef struct model {
    const lx_table *tables[2]; /* of ids and positions */
    lx_matrix *qkv[LAYERS], *out[LAYERS], *up[LAYERS], *down[LAYERS], *head;
    lx_array *gamma, *beta;
    lx_array *x, *y, *wide;
    lx_states *states;
} model;

static lx_matrix *random_matrix(device *d, rng *r, int64_t rows, int64_t cols, lx_dtype dtype)
{
    float *w = random_floats(r, rows * cols, UNIFORM, 0, 0);
    for (int64_t i = 0; i < rows * cols; i++)
        w[i] *= 1.7f / sqrtf((float)cols);
    lx_host_tensor t = tensor_of(w, rows, cols, dtype);
    return dev_matrix(d, &t, random_floats(r, rows, UNIFORM, 0, 0));
}

static lx_table *random_table(device *d, rng *r, int64_t rows)
{
    float *w = random_floats(r, rows * WIDTH, UNIFORM, 0, 0);
    lx_host_tensor t = tensor_of(w, rows, WIDTH, LX_BF16);
    return dev_table(d, &t);
}

static model make_model(device *d)
{
    rng r = {16};
    model m = {.tables = {random_table(d, &r, IDS), NULL}};
    m.tables[1] = random_table(d, &r, POSITIONS);
    for (int i = 0; i < LAYERS; i++) {
        lx_dtype dtype = i % 2 == 0 ? LX_BF16 : LX_F32;
        m.qkv[i] = random_matrix(d, &r, 3 * WIDTH, WIDTH, dtype);
        m.out[i] = random_matrix(d, &r, WIDTH, WIDTH, dtype);
        m.up[i] = random_matrix(d, &r, HIDDEN, WIDTH, dtype);
        m.down[i] = random_matrix(d, &r, WIDTH, HIDDEN, dtype);
    }
    m.head = random_matrix(d, &r, IDS, WIDTH, LX_F16);
    m.gamma = dev_array(d, random_floats(&r, WIDTH, UNIFORM, 0, 0), WIDTH);
    m.beta = dev_array(d, random_floats(&r, WIDTH, UNIFORM, 0, 0), WIDTH);
    m.x = dev_array(d, NULL, ROWS * WIDTH);
    m.y = dev_array(d, NULL, ROWS * WIDTH);
    m.wide = dev_array(d, NULL, ROWS * 3 * WIDTH);
    m.states = dev_states(d, LAYERS * STATE, SEQS + 2);
    return m;
}

static void linear(device *d, lx_array *y, const lx_array *x, const lx_matrix *w, lx_activation a,
                   const lx_array *residual, lx_rows rows)
{
    lx_linear_args args = {y, x, w, a, residual, rows};
    d->k->linear(d->be, &args);
}

static void norm(device *d, const model *m, lx_array *y, const lx_array *x, lx_rows rows)
{
    lx_norm_args args = {y, x, m->gamma, m->beta, WIDTH, 1e-5f, rows};
    d->k->norm(d->be, &args);
}

static void layer(device *d, const model *m, int i)
{
    lx_attend_linear_args attend = {m->y, m->wide, m->states,   i * STATE, HEADS,
                                    DIM,  DIM,     LX_PHI_ELU1, 1e-6f,     NULL};
    norm(d, m, m->y, m->x, LX_ROWS_TOKENS);
    linear(d, m->wide, m->y, m->qkv[i], LX_ACT_NONE, NULL, LX_ROWS_TOKENS);
    d->k->attend_linear(d->be, &attend);
    linear(d, m->x, m->y, m->out[i], LX_ACT_NONE, m->x, LX_ROWS_TOKENS);
    norm(d, m, m->y, m->x, LX_ROWS_TOKENS);
    linear(d, m->wide, m->y, m->up[i], LX_ACT_GELU, NULL, LX_ROWS_TOKENS);
    linear(d, m->x, m->wide, m->down[i], LX_ACT_NONE, m->x, LX_ROWS_TOKENS);
}

/* ids [T, 2] */
static bool model_begin(device *d, const model *m, const lx_batch *b, const int32_t *ids,
                        const lx_sampling *how, lx_sample *out)
{
    lx_embed_args embed = {m->x, 2, m->tables, ids, m->states};
    lx_gather_args gather = {m->y, m->x, WIDTH, WIDTH, 0};
    lx_sample_args sample = {m->wide, IDS, how, out, m->states};
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->embed(d->be, &embed);
    for (int i = 0; i < LAYERS; i++)
        layer(d, m, i);
    d->k->gather(d->be, &gather);
    norm(d, m, m->y, m->y, LX_ROWS_OUTPUTS);
    linear(d, m->wide, m->y, m->head, LX_ACT_NONE, NULL, LX_ROWS_OUTPUTS);
    d->k->sample(d->be, &sample);
    return true;
}

/* logits [n_outputs, IDS] */
static bool model_step(device *d, const model *m, const lx_batch *b, const int32_t *ids,
                       const lx_sampling *how, lx_sample *out, float *logits)
{
    if (!model_begin(d, m, b, ids, how, out) || !dev_finish(d))
        return false;
    CHECK_OK(d->k->array_download(d->be, m->wide, 0, logits, (int64_t)b->n_outputs * IDS));
    return true;
}

/* --- sequences --- */

/* A request, and its results when it ran alone. */
typedef struct sequence {
    int32_t prompt, length; /* tokens given; tokens in all */
    int32_t token[LONGEST + 1];
    lx_sample sample[LONGEST];
    float *logits; /* [LONGEST, IDS] */
    float *state;  /* at the end */
} sequence;

static void make_sequences(sequence *s, bool all_given)
{
    rng r = {17};
    for (int i = 0; i < SEQS; i++) {
        s[i].prompt = 1 + (int32_t)random_below(&r, 24);
        s[i].length = s[i].prompt + (int32_t)random_below(&r, LONGEST - 24);
        s[i].prompt = all_given ? s[i].length : s[i].prompt;
        for (int t = 0; t < s[i].prompt; t++)
            s[i].token[t] = (int32_t)random_below(&r, IDS);
        s[i].logits = floats(LONGEST * IDS);
        s[i].state = floats(LAYERS * STATE);
    }
}

/* The request at position t of sequence number i: given tokens are scored, the others drawn. */
static lx_sampling sampling_at(const sequence *s, int i, int32_t t)
{
    static const int32_t banned[] = {5, 9, 44};
    return (lx_sampling){.seed = (uint64_t)i * 77,
                         .sample = (uint32_t)i,
                         .step = (uint32_t)t,
                         .temperature = 0.8f,
                         .top_p = i % 4 == 1 ? 0.7f : 1.0f,
                         .top_k = i % 3 == 0 ? 5 : 0,
                         .forced = t + 1 < s->prompt ? s->token[t + 1] : -1,
                         .n_banned = i % 2 == 0 ? 3 : 0,
                         .banned = banned};
}

/* Tokens from .. from + n - 1 of one sequence as one step with all rows as outputs. */
static bool run_alone(device *d, const model *m, sequence *s, int index, int32_t from, int32_t n)
{
    int32_t ids[2 * LONGEST], slot = 0;
    lx_sampling how[LONGEST];
    lx_batch *b = ragged_batch(1, &n, &slot);
    all_outputs(b);
    for (int32_t t = 0; t < n; t++) {
        ids[2 * t] = s->token[from + t];
        ids[2 * t + 1] = from + t;
        how[t] = sampling_at(s, index, from + t);
    }
    if (!model_step(d, m, b, ids, how, s->sample + from, s->logits + (int64_t)from * IDS))
        return false;
    s->token[from + n] = s->sample[from + n - 1].token;
    CHECK(s->token[from + n] >= 0, "sequence %d drew nothing at %d", index, from + n);
    return true;
}

static bool all_alone(device *d, const model *m, sequence *s)
{
    for (int i = 0; i < SEQS; i++) {
        CHECK_OK(d->k->state_zero(d->be, m->states, 0));
        if (!run_alone(d, m, &s[i], i, 0, s[i].prompt))
            return false;
        for (int32_t t = s[i].prompt; t < s[i].length; t++) {
            if (!run_alone(d, m, &s[i], i, t, 1))
                return false;
        }
        CHECK_OK(d->k->state_export(d->be, m->states, 0, s[i].state, 0));
    }
    return true;
}

/* --- a schedule --- */

typedef struct turn {
    int32_t n_seqs, n_rows, n_outputs;
    int32_t seq[SEQS], length[SEQS], slot[SEQS];
    int32_t ids[2 * ROWS], output_row[ROWS];
    int32_t out_seq[ROWS], out_at[ROWS];
    lx_sampling how[ROWS];
    lx_sample sample[ROWS];
} turn;

static void add_to_turn(turn *t, rng *r, const sequence *s, int index, int32_t at, int32_t slot)
{
    int32_t left = at < s->prompt ? s->prompt - at : 1;
    int32_t n = random_below(r, 3) == 0 ? left : 1 + (int32_t)random_below(r, (uint32_t)left);
    t->seq[t->n_seqs] = index;
    t->slot[t->n_seqs] = slot;
    t->length[t->n_seqs++] = n;
    for (int32_t i = at; i < at + n; i++, t->n_rows++) {
        /* the host knows this token, but the device may as well read its own copy */
        bool drawn = i >= s->prompt && random_below(r, 2) == 0;
        t->ids[2 * t->n_rows] = drawn ? lx_drawn_id(i - 1) : s->token[i];
        t->ids[2 * t->n_rows + 1] = i;
        if (i + 1 < s->prompt && random_below(r, 2) == 0)
            continue;
        t->output_row[t->n_outputs] = t->n_rows;
        t->out_seq[t->n_outputs] = index;
        t->out_at[t->n_outputs] = i;
        t->how[t->n_outputs++] = sampling_at(s, index, i);
    }
}

static bool check_turn(const turn *t, const sequence *s, const float *logits)
{
    for (int32_t i = 0; i < t->n_outputs; i++) {
        const sequence *one = &s[t->out_seq[i]];
        int32_t at = t->out_at[i];
        CHECK(same_bytes(logits + (int64_t)i * IDS, one->logits + (int64_t)at * IDS, IDS),
              "logits of sequence %d at %d differ among %d rows in %d sequences", t->out_seq[i], at,
              t->n_rows, t->n_seqs);
        CHECK(memcmp(&t->sample[i], &one->sample[at], sizeof t->sample[i]) == 0,
              "the sample of sequence %d at %d differs", t->out_seq[i], at);
    }
    return true;
}

/* Picks each unfinished sequence with chance 1 in `one_in`, at least one if any is left. */
static bool next_turn(turn *t, rng *r, const sequence *s, const int32_t *at, const int32_t *slot,
                      uint32_t one_in)
{
    bool left = true;
    *t = (turn){0};
    while (t->n_seqs == 0 && left) {
        left = false;
        for (int i = 0; i < SEQS; i++) {
            if (at[i] == s[i].length)
                continue;
            left = true;
            if (random_below(r, one_in) == 0)
                add_to_turn(t, r, &s[i], i, at[i], slot[i]);
        }
    }
    return left;
}

static bool run_schedule(device *d, const model *m, const sequence *s, uint64_t seed,
                         uint32_t one_in)
{
    rng r = {seed};
    turn *t = take(sizeof *t);
    float *logits = floats(ROWS * IDS), *state = floats(LAYERS * STATE);
    int32_t at[SEQS] = {0}, slot[SEQS];
    for (int i = 0; i < SEQS; i++) {
        slot[i] = (int32_t)((i * 7 + (int)(seed % 5)) % (SEQS + 1)); /* 25 slots, 7 prime to 25 */
        CHECK_OK(d->k->state_zero(d->be, m->states, slot[i]));
    }
    while (next_turn(t, &r, s, at, slot, one_in)) {
        lx_batch *b = ragged_batch(t->n_seqs, t->length, t->slot);
        b->n_outputs = t->n_outputs;
        b->output_row = t->output_row;
        if (!model_step(d, m, b, t->ids, t->how, t->sample, logits) || !check_turn(t, s, logits))
            return false;
        for (int32_t i = 0; i < t->n_seqs; i++)
            at[t->seq[i]] += t->length[i];
    }
    for (int i = 0; i < SEQS; i++) {
        CHECK_OK(d->k->state_export(d->be, m->states, slot[i], state, 0));
        CHECK(same_bytes(state, s[i].state, LAYERS * STATE), "final state of sequence %d", i);
    }
    return true;
}

/* --- steps that start before the results of earlier steps are known --- */

/* The whole prompts, then a row of every sequence that has not ended, all of them with deferred
 * tokens.
 */
static void fill_turn(turn *t, const sequence *s, int32_t step)
{
    *t = (turn){0};
    for (int i = 0; i < SEQS; i++) {
        int32_t first = step == 0 ? 0 : s[i].prompt + step - 1;
        if (first >= s[i].length)
            continue;
        t->seq[t->n_seqs] = i;
        t->slot[t->n_seqs] = SEQS - i;
        t->length[t->n_seqs++] = step == 0 ? s[i].prompt : 1;
        for (int32_t at = first; at < (step == 0 ? s[i].prompt : first + 1); at++) {
            t->ids[2 * t->n_rows] = step == 0 ? s[i].token[at] : lx_drawn_id(at - 1);
            t->ids[2 * t->n_rows++ + 1] = at;
        }
        t->output_row[t->n_outputs] = t->n_rows - 1;
        t->out_seq[t->n_outputs] = i;
        t->out_at[t->n_outputs] = step == 0 ? s[i].prompt - 1 : first;
        t->how[t->n_outputs] = sampling_at(&s[i], i, t->out_at[t->n_outputs]);
        t->n_outputs++;
    }
}

static bool start_turn(device *d, const model *m, turn *t, uint64_t *number)
{
    lx_error err = {0};
    lx_batch *b = ragged_batch(t->n_seqs, t->length, t->slot);
    b->n_outputs = t->n_outputs;
    b->output_row = t->output_row;
    if (!model_begin(d, m, b, t->ids, t->how, t->sample))
        return false;
    CHECK(d->k->end(d->be, number, &err) == LX_OK, "end: %s", err.text);
    return true;
}

static bool check_samples(const turn *t, const sequence *s, int32_t step)
{
    for (int32_t i = 0; i < t->n_outputs; i++)
        CHECK(memcmp(&t->sample[i], &s[t->out_seq[i]].sample[t->out_at[i]], sizeof(lx_sample)) == 0,
              "sequence %d drew something else in step %d", t->out_seq[i], step);
    return true;
}

/* Starts every step at once; the host reads results `late` steps later. */
static bool run_ahead(device *d, const model *m, const sequence *s, int32_t late)
{
    turn *turns = take(LONGEST * sizeof *turns);
    uint64_t number[LONGEST] = {0};
    float *state = floats(LAYERS * STATE);
    int32_t n = 0, seen = 0;
    for (int i = 0; i < SEQS; i++)
        CHECK_OK(d->k->state_zero(d->be, m->states, SEQS - i));
    for (fill_turn(&turns[0], s, 0); turns[n].n_seqs > 0; fill_turn(&turns[n], s, n)) {
        if (!start_turn(d, m, &turns[n], &number[n]))
            return false;
        for (n++; n - seen > late; seen++) {
            CHECK_OK(d->k->sync(d->be, number[seen], NULL));
            if (!check_samples(&turns[seen], s, seen))
                return false;
        }
    }
    CHECK(n > 3 && n < LONGEST, "%d steps", n);
    CHECK_OK(d->k->sync(d->be, number[n - 1], NULL));
    for (; seen < n; seen++) {
        if (!check_samples(&turns[seen], s, seen))
            return false;
    }
    for (int i = 0; i < SEQS; i++) {
        CHECK_OK(d->k->state_export(d->be, m->states, SEQS - i, state, 0));
        CHECK(same_bytes(state, s[i].state, LAYERS * STATE), "final state of sequence %d", i);
    }
    return true;
}

static bool steps_may_be_started_ahead(device *dut, device *oracle)
{
    (void)oracle;
    model m = make_model(dut);
    sequence *s = take(SEQS * sizeof *s);
    make_sequences(s, false);
    return all_alone(dut, &m, s) && run_ahead(dut, &m, s, 2) && run_ahead(dut, &m, s, LONGEST);
}

/* --- tests --- */

static bool any_schedule_gives_equal_bytes(device *dut, device *oracle)
{
    (void)oracle;
    model m = make_model(dut);
    sequence *s = take(SEQS * sizeof *s);
    make_sequences(s, false);
    return all_alone(dut, &m, s) && run_schedule(dut, &m, s, 18, 1) &&
           run_schedule(dut, &m, s, 19, 2) && run_schedule(dut, &m, s, 20, 6);
}

static bool every_cpu_gives_equal_bytes(device *dut, device *oracle)
{
    (void)oracle;
    static agreement seen;
    model m = make_model(dut);
    sequence *s = take(SEQS * sizeof *s);
    make_sequences(s, false);
    if (!all_alone(dut, &m, s))
        return false;
    uint64_t hash = NO_BYTES;
    for (int i = 0; i < SEQS; i++)
        hash = hash_bytes(hash, s[i].logits, LONGEST * IDS * sizeof(float));
    return agrees(dut, &seen, hash);
}

static bool model_matches_oracle(device *dut, device *oracle)
{
    double bound = dut->int8 ? INT8_BOUND : dut->rounds ? ROUNDED_BOUND : ORACLE_BOUND;
    model m = make_model(dut), om = make_model(oracle);
    sequence *got = take(SEQS * sizeof *got), *want = take(SEQS * sizeof *want);
    make_sequences(got, true);
    make_sequences(want, true);
    if (!all_alone(dut, &m, got) || !all_alone(oracle, &om, want))
        return false;
    for (int i = 0; i < SEQS; i++) {
        for (int32_t j = 0; j < got[i].length * IDS; j++) {
            double w = (double)want[i].logits[j], error = fabs((double)got[i].logits[j] - w);
            CHECK(error <= bound * (1 + fabs(w)), "sequence %d, logit %d: error %.3g", i, j, error);
        }
    }
    return true;
}

typedef struct engine {
    device d;
    uint64_t seed;
    bool passed;
} engine;

static void *run_engine(void *argument)
{
    engine *e = argument;
    model m = make_model(&e->d);
    sequence *s = take(SEQS * sizeof *s);
    make_sequences(s, false);
    e->passed = all_alone(&e->d, &m, s) && run_schedule(&e->d, &m, s, e->seed, 2);
    return NULL;
}

static bool two_engines_share_a_back_end(device *dut, device *oracle)
{
    (void)oracle;
    engine *e = take(2 * sizeof *e);
    pthread_t other;
    for (int i = 0; i < 2; i++) {
        e[i].d = *dut;
        e[i].d.n_owned = 0;
        e[i].seed = 21 + (uint64_t)i;
    }
    CHECK(pthread_create(&other, NULL, run_engine, &e[1]) == 0, "no thread");
    (void)run_engine(&e[0]);
    (void)pthread_join(other, NULL);
    dev_release(&e[0].d);
    dev_release(&e[1].d);
    return e[0].passed && e[1].passed;
}

const test model_tests[] = {
    {"any_schedule_gives_equal_bytes", any_schedule_gives_equal_bytes},
    {"every_cpu_gives_equal_bytes", every_cpu_gives_equal_bytes},
    {"model_matches_oracle", model_matches_oracle},
    {"steps_may_be_started_ahead", steps_may_be_started_ahead},
    {"two_engines_share_a_back_end", two_engines_share_a_back_end},
    {NULL, NULL},
};
