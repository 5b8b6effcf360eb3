/*
 * States that are copied between a slot and a job's memory while steps go on.
 *
 * Copying 70 MB takes as long as several steps, during which all other requests would wait. So a
 * thread of its own moves large states, and each turn of the engine takes the moves that are done.
 * A slot with a move under way gets no rows, and its run does not end. If the engine has nothing
 * else to do, it sleeps until a move is done or a job comes. A small state is moved at once, since
 * to wake a thread takes longer. A state that is read from a file is never moved at once.
 *
 * A slot has at most one move at a time, so the ring of total_slots is never full.
 */
#include <signal.h>

#include "server/engine/internal.h"

/* Some 100 us of copying. */
enum { LARGE = 1 << 20 };

static lx_move *move_at(lx_engine *e, uint64_t i)
{
    return &e->moves.ring[i % (uint64_t)e->total_slots];
}

static int64_t bytes_of(const lx_engine *e, int64_t rows)
{
    return lx_model_state_floats(e->model, rows) * (int64_t)sizeof(float);
}

static lx_status carry_out(lx_engine *e, const lx_move *m, lx_error *err)
{
    if (m->key.ids != NULL)
        return lx_stored_load(e, m->key, m->state, err);
    if (m->to != NULL)
        return lx_transformer_state_save(e->transformer, e->states, m->state, m->rows, m->to, err);
    return lx_transformer_state_load(e->transformer, e->states, m->state, m->rows, m->from, err);
}

bool lx_engine_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(thread, NULL, run, context);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code == 0;
}

static void *run_mover(void *context)
{
    lx_engine *e = context;
    lx_moves *v = &e->moves;
    LX_HOLD(&e->mutex);
    for (;;) {
        while (!v->stopping && v->done == v->asked)
            (void)pthread_cond_wait(&v->wanted, &e->mutex);
        if (v->done == v->asked)
            break;
        lx_move *m = move_at(e, v->done);
        (void)pthread_mutex_unlock(&e->mutex);
        lx_status st = carry_out(e, m, &m->error);
        (void)pthread_mutex_lock(&e->mutex);
        m->status = st;
        v->done++;
        (void)pthread_cond_broadcast(&e->changed);
    }
    return NULL;
}

lx_status lx_moves_init(lx_engine *e, lx_error *err)
{
    lx_moves *v = &e->moves;
    v->large = e->options.move_bytes > 0 ? e->options.move_bytes : LARGE;
    if (bytes_of(e, e->model->max_rows) < v->large && e->options.place == NULL)
        return LX_OK;
    v->runs = pthread_cond_init(&v->wanted, NULL) == 0;
    if (v->runs && lx_engine_thread(&v->thread, run_mover, e))
        return LX_OK;
    if (v->runs)
        (void)pthread_cond_destroy(&v->wanted);
    v->runs = false;
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the thread that moves states");
}

void lx_moves_fini(lx_engine *e)
{
    lx_moves *v = &e->moves;
    if (!v->runs)
        return;
    (void)pthread_mutex_lock(&e->mutex);
    v->stopping = true;
    (void)pthread_cond_signal(&v->wanted);
    (void)pthread_mutex_unlock(&e->mutex);
    (void)pthread_join(v->thread, NULL);
    (void)pthread_cond_destroy(&v->wanted);
}

lx_status lx_moves_ask(lx_engine *e, const lx_move *m, lx_error *err)
{
    lx_moves *v = &e->moves;
    lx_move move = *m;
    move.state = e->slots[m->slot].state;
    if (bytes_of(e, m->rows) < v->large && m->key.ids == NULL)
        return carry_out(e, &move, err);
    lx_slot_count(e, m->slot, 0, 1);
    LX_HOLD(&e->mutex);
    *move_at(e, v->asked++) = move;
    (void)pthread_cond_signal(&v->wanted);
    return LX_OK;
}

int32_t lx_moves_take(lx_engine *e, bool wait, lx_status *status, lx_error *err)
{
    lx_moves *v = &e->moves;
    if (!lx_moves_pending(e))
        return -1;
    (void)pthread_mutex_lock(&e->mutex);
    while (wait && !lx_moves_done(e))
        (void)pthread_cond_wait(&e->changed, &e->mutex);
    const lx_move *m = lx_moves_done(e) ? move_at(e, v->taken) : NULL;
    (void)pthread_mutex_unlock(&e->mutex);
    if (m == NULL)
        return -1;
    lx_slot_count(e, m->slot, 0, -1);
    v->taken++;
    *status = m->status;
    if (m->status != LX_OK && err != NULL)
        *err = m->error;
    return m->slot;
}
