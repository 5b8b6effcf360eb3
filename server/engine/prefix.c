/*
 * Prompts share the states of what they begin with alike.
 *
 * States are kept in places behind those of the engine in the same arena, so that keeping one
 * and starting from one are copies on the device. Rows are computed to the same bits at any split
 * of a prompt into steps, so an answer does not depend on where its prompt began.
 *
 * A state exists only where a step ends. So a prompt pauses: before its last row, as the same
 * prompt, or one that goes on from there, may come again; where it parts from a prompt that is
 * known, as a third one may part there too; and, if prefix_every says so, every so many rows.
 *
 * Only what this engine computed from nothing is kept: an imported state is what a client says that
 * it is, and must not become another client's answer.
 */
#include "server/engine/internal.h"

/* Fewer rows than these are not worth a step of their own to a prompt that parts from another. */
enum { MIN_BRANCH = 3 };

static int32_t slot_of_place(const lx_engine *e, int32_t place)
{
    return e->n_places + 1 + place;
}

static bool shares(const lx_engine *e, const lx_run *r)
{
    const lx_job_start *start = &r->params->start;
    return e->prefixes != NULL && start->rows == 0 && start->n_tokens == 0;
}

int32_t lx_prefix_begin(lx_engine *e, lx_run *r)
{
    if (!shares(e, r) || r->plan->n_prompt < 2)
        return -1;
    /* The last row is computed: its output is the first token. */
    lx_prefix found = lx_prefix_cache_find(e->prefixes, r->plan->prompt_ids, r->plan->n_prompt - 1);
    r->first_row = found.rows;
    r->branch = found.shared - found.rows >= MIN_BRANCH ? found.shared : 0;
    lx_job_mark_cached(r->job, found.rows);
    atomic_fetch_add_explicit(&e->metrics->cached_prompt_tokens, (uint64_t)found.rows,
                              memory_order_relaxed);
    return found.place >= 0 ? slot_of_place(e, found.place) : -1;
}

static int32_t nearer(int32_t row, int32_t a, int32_t b)
{
    return b > row && b < a ? b : a;
}

int32_t lx_prefix_pause(const lx_engine *e, const lx_run *r, int32_t row)
{
    if (!shares(e, r))
        return INT32_MAX;
    int32_t every = e->options.prefix_every, last = r->plan->n_prompt - 1;
    int32_t pause = nearer(row, INT32_MAX, last);
    pause = nearer(row, pause, r->branch);
    if (every > 0 && row < last && row / every < last / every)
        pause = nearer(row, pause, (row / every + 1) * every);
    return pause;
}

lx_status lx_prefix_keep(lx_engine *e, int32_t slot, lx_error *err)
{
    lx_slot *s = &e->slots[slot];
    if (!s->paused)
        return LX_OK;
    s->paused = false;
    int32_t place =
        lx_prefix_cache_add(e->prefixes, e->runs[s->run].plan->prompt_ids, s->prompt_row);
    if (place < 0)
        return LX_OK;
    /* A device that cannot copy is lost, and the cache with it. */
    return lx_transformer_state_copy(e->transformer, e->states, slot_of_place(e, place), slot,
                                     s->prompt_row, err);
}
