/*
 * The shape of a step's batch, checked before any of it runs, and the lock of steps (see step.h).
 * The checks cost a few comparisons per row and turn a caller's bug, which would overwrite memory,
 * into an error of that step. op.c checks the operations' arguments.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/step.h"

/* --- the batch --- */

static lx_status grow_seen(lx_batch_seen *seen, int32_t slot, lx_error *err)
{
    int32_t n = seen->n < 64 ? 64 : seen->n;
    while (n <= slot)
        n *= 2;
    uint64_t *stamp = realloc(seen->stamp, (size_t)n * sizeof *stamp);
    if (stamp == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to check %d slots", n);
    memset(stamp + seen->n, 0, (size_t)(n - seen->n) * sizeof *stamp);
    seen->stamp = stamp;
    seen->n = n;
    return LX_OK;
}

static lx_status check_slot(int32_t slot, int32_t i, lx_batch_seen *seen, lx_error *err)
{
    if (slot < 0 || slot >= LX_MAX_SLOTS)
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: slot[%d] is %d", i, slot);
    if (slot >= seen->n) {
        lx_status st = grow_seen(seen, slot, err);
        if (st != LX_OK)
            return st;
    }
    if (seen->stamp[slot] == seen->now)
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: slot %d comes twice", slot);
    seen->stamp[slot] = seen->now;
    return LX_OK;
}

static lx_status check_branch(const lx_batch *b, int32_t i, lx_batch_seen *seen, lx_error *err)
{
    if (b->branch == NULL || b->branch[i] == -1)
        return LX_OK;
    if (b->branch_row == NULL || b->branch_row[i] < 1 ||
        b->branch_row[i] >= b->seq_start[i + 1] - b->seq_start[i])
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: sequence %d branches outside its rows",
                       i);
    return check_slot(b->branch[i], i, seen, err);
}

static lx_status check_slots(const lx_batch *b, lx_batch_seen *seen, lx_error *err)
{
    lx_status st = LX_OK;
    seen->now++;
    for (int32_t i = 0; i < b->n_seqs && st == LX_OK; i++) {
        st = check_slot(b->slot[i], i, seen, err);
        if (st == LX_OK)
            st = check_branch(b, i, seen, err);
    }
    return st;
}

static lx_status check_outputs(const lx_batch *b, lx_error *err)
{
    if (b->n_outputs < 0 || b->n_outputs > b->n_tokens)
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: %d outputs of %d rows", b->n_outputs,
                       b->n_tokens);
    int32_t last = -1;
    for (int32_t i = 0; i < b->n_outputs; i++) {
        if (b->output_row[i] <= last || b->output_row[i] >= b->n_tokens)
            return lx_fail(err, LX_ERR_INVALID, NULL, "batch: output_row[%d] is %d", i,
                           b->output_row[i]);
        last = b->output_row[i];
    }
    return LX_OK;
}

lx_status lx_batch_check(const lx_batch *b, lx_batch_seen *seen, lx_error *err)
{
    if (b->n_tokens < 1 || b->n_tokens > LX_MAX_ROWS || b->n_seqs < 1 || b->n_seqs > b->n_tokens)
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: %d rows in %d sequences", b->n_tokens,
                       b->n_seqs);
    if (b->seq_start[0] != 0 || b->seq_start[b->n_seqs] != b->n_tokens)
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: seq_start runs %d to %d, not 0 to %d",
                       b->seq_start[0], b->seq_start[b->n_seqs], b->n_tokens);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->seq_start[i] >= b->seq_start[i + 1])
            return lx_fail(err, LX_ERR_INVALID, NULL, "batch: sequence %d is empty", i);
    }
    for (int32_t i = 0; b->position != NULL && i < b->n_seqs; i++) {
        if (b->position[i] < 0 ||
            b->position[i] > LX_MAX_POSITION - (b->seq_start[i + 1] - b->seq_start[i]))
            return lx_fail(err, LX_ERR_INVALID, NULL, "batch: position[%d] is %d", i,
                           b->position[i]);
    }
    lx_status st = check_slots(b, seen, err);
    return st != LX_OK ? st : check_outputs(b, err);
}

int32_t lx_batch_keeper(const lx_batch *b, int32_t i, int32_t *seq)
{
    while (b->seq_start[*seq + 1] <= b->output_row[i])
        ++*seq;
    bool last = i + 1 == b->n_outputs || b->output_row[i + 1] >= b->seq_start[*seq + 1];
    return last ? b->slot[*seq] : -1;
}

/* --- a fair lock: tickets under a mutex. Steps take a millisecond, so waking all is cheap. --- */

int lx_turn_init(lx_turn *t)
{
    t->next = t->serving = 0;
    int rc = pthread_mutex_init(&t->mutex, NULL);
    if (rc != 0)
        return rc;
    rc = pthread_cond_init(&t->changed, NULL);
    if (rc != 0)
        (void)pthread_mutex_destroy(&t->mutex);
    return rc;
}

void lx_turn_fini(lx_turn *t)
{
    (void)pthread_cond_destroy(&t->changed);
    (void)pthread_mutex_destroy(&t->mutex);
}

void lx_turn_take(lx_turn *t)
{
    (void)pthread_mutex_lock(&t->mutex);
    uint64_t ticket = t->next++;
    while (t->serving != ticket)
        (void)pthread_cond_wait(&t->changed, &t->mutex);
    (void)pthread_mutex_unlock(&t->mutex);
}

void lx_turn_give(lx_turn *t)
{
    (void)pthread_mutex_lock(&t->mutex);
    t->serving++;
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->mutex);
}
