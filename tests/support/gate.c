/*
 * The wrapped back end is the real one with a copy of its table in which begin, sample, end, sync,
 * state_export and state_import are replaced; everything else goes straight through. The cpu back
 * end numbers steps like the cuda one, so a step's samples are kept by its number until sync.
 */
#include "tests/support/gate.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

enum { OPEN = -1, STEPS = 8 };

static struct {
    const lx_kernels *real;
    lx_kernels table;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int64_t permits; /* OPEN: as many as you like */
    int64_t n_steps, n_ended, n_synced, most_ahead;
    int64_t n_moves;
    bool waiting, lost, fail_next, spoil, moves_held;
    int64_t delay_ns;
    uint64_t spoilt_seed;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

typedef struct sampled {
    const lx_batch *batch;
    bool samples;
    lx_sample_args args;
} sampled;

/* The step being recorded and those under way on this thread: a test may have two engines. */
static _Thread_local sampled step, under_way[STEPS];

static lx_status begin(lx_backend *be, const lx_batch *batch, lx_error *err)
{
    (void)pthread_mutex_lock(&gate.mutex);
    while (gate.permits == 0) {
        gate.waiting = true;
        (void)pthread_cond_broadcast(&gate.changed);
        (void)pthread_cond_wait(&gate.changed, &gate.mutex);
    }
    gate.waiting = false;
    if (gate.permits != OPEN)
        gate.permits--;
    gate.n_steps++;
    (void)pthread_mutex_unlock(&gate.mutex);
    step.batch = batch;
    step.samples = false;
    return gate.real->begin(be, batch, err);
}

static void sample(lx_backend *be, const lx_sample_args *args)
{
    step.args = *args;
    step.samples = true;
    gate.real->sample(be, args);
}

static lx_status end(lx_backend *be, uint64_t *number, lx_error *err)
{
    lx_status st = gate.real->end(be, number, err);
    under_way[*number % STEPS] = step;
    (void)pthread_mutex_lock(&gate.mutex);
    gate.n_ended++;
    if (gate.n_ended - gate.n_synced - 1 > gate.most_ahead)
        gate.most_ahead = gate.n_ended - gate.n_synced - 1;
    (void)pthread_mutex_unlock(&gate.mutex);
    return st;
}

static void spoil_samples(const sampled *s, uint64_t seed)
{
    for (int32_t i = 0; s->samples && i < s->batch->n_outputs; i++) {
        if (s->args.rows[i].seed == seed)
            s->args.out[i] = (lx_sample){-1, NAN};
    }
}

static lx_status sync(lx_backend *be, uint64_t number, lx_error *err)
{
    lx_status st = gate.real->sync(be, number, err);
    (void)pthread_mutex_lock(&gate.mutex);
    bool fail_now = gate.fail_next, lost = gate.lost, spoil = gate.spoil;
    int64_t delay = gate.delay_ns;
    uint64_t seed = gate.spoilt_seed;
    gate.fail_next = false;
    gate.n_synced++;
    (void)pthread_mutex_unlock(&gate.mutex);
    if (delay > 0) {
        /* check-tests: the test asks for a slow step */
        (void)nanosleep(&(struct timespec){delay / 1000000000, delay % 1000000000}, NULL);
    }
    if (st != LX_OK)
        return st;
    if (lost)
        return lx_fail(err, LX_ERR_DEVICE, NULL, "the test took the device away");
    if (fail_now)
        return lx_fail(err, LX_ERR_INTERNAL, NULL, "the test spoilt this step");
    if (spoil)
        spoil_samples(&under_way[number % STEPS], seed);
    return LX_OK;
}

static void begin_move(void)
{
    (void)pthread_mutex_lock(&gate.mutex);
    gate.n_moves++;
    (void)pthread_cond_broadcast(&gate.changed);
    while (gate.moves_held)
        (void)pthread_cond_wait(&gate.changed, &gate.mutex);
    (void)pthread_mutex_unlock(&gate.mutex);
}

static lx_status state_export(lx_backend *be, const lx_states *s, int32_t slot, float *to,
                              int32_t n_pages)
{
    begin_move();
    return gate.real->state_export(be, s, slot, to, n_pages);
}

static lx_status state_import(lx_backend *be, lx_states *s, int32_t slot, const float *from,
                              int32_t n_pages)
{
    begin_move();
    return gate.real->state_import(be, s, slot, from, n_pages);
}

lx_backend *gate_open_backend(const char *name, int32_t n_threads)
{
    lx_backend *be = NULL;
    lx_backend_options options = {.n_threads = n_threads};
    if (lx_backend_open(name, &options, &be, NULL) != LX_OK)
        return NULL;
    gate.real = be->ops;
    gate.table = *be->ops;
    gate.table.begin = begin;
    gate.table.sample = sample;
    gate.table.end = end;
    gate.table.sync = sync;
    gate.table.state_export = state_export;
    gate.table.state_import = state_import;
    gate.permits = OPEN;
    gate.n_moves = 0;
    gate.moves_held = false;
    gate.n_steps = gate.delay_ns = gate.n_ended = gate.n_synced = gate.most_ahead = 0;
    gate.waiting = gate.lost = gate.fail_next = gate.spoil = false;
    be->ops = &gate.table;
    return be;
}

#define UNDER_LOCK(statement)                                                                      \
    do {                                                                                           \
        (void)pthread_mutex_lock(&gate.mutex);                                                     \
        statement;                                                                                 \
        (void)pthread_cond_broadcast(&gate.changed);                                               \
        (void)pthread_mutex_unlock(&gate.mutex);                                                   \
    } while (0)

void gate_close(void)
{
    UNDER_LOCK(gate.permits = 0);
}

void gate_open(void)
{
    UNDER_LOCK(gate.permits = OPEN);
}

void gate_let_pass(int32_t n)
{
    UNDER_LOCK(gate.permits = n);
}

void gate_wait_for_step(void)
{
    (void)pthread_mutex_lock(&gate.mutex);
    while (gate.permits != 0 || !gate.waiting)
        (void)pthread_cond_wait(&gate.changed, &gate.mutex);
    (void)pthread_mutex_unlock(&gate.mutex);
}

int64_t gate_steps(void)
{
    int64_t n;
    UNDER_LOCK(n = gate.n_steps);
    return n;
}

int64_t gate_most_ahead(void)
{
    int64_t n;
    UNDER_LOCK(n = gate.most_ahead);
    return n;
}

void gate_hold_moves(bool hold)
{
    UNDER_LOCK(gate.moves_held = hold);
}

int64_t gate_moves(void)
{
    int64_t n;
    UNDER_LOCK(n = gate.n_moves);
    return n;
}

void gate_wait_for_moves(int64_t n)
{
    (void)pthread_mutex_lock(&gate.mutex);
    while (gate.n_moves < n)
        (void)pthread_cond_wait(&gate.changed, &gate.mutex);
    (void)pthread_mutex_unlock(&gate.mutex);
}

void gate_slow_down(int64_t ns)
{
    UNDER_LOCK(gate.delay_ns = ns);
}

void gate_spoil_seed(uint64_t seed)
{
    UNDER_LOCK((gate.spoil = true, gate.spoilt_seed = seed));
}

void gate_lose_device(void)
{
    UNDER_LOCK(gate.lost = true);
}

void gate_fail_step(void)
{
    UNDER_LOCK(gate.fail_next = true);
}
