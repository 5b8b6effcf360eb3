/*
 * Kept states in a place that outlives the process (prefix_place.h).
 *
 * A state that grows goes there without the pages that its longest stored beginning has.
 *
 * After each turn the engine gives the place the kept state whose loss would cost most rows, and
 * waits with the next one until that state is written. So states are written as fast as the place
 * takes them, next to the steps. Only one copy into the place's memory takes the engine's time. A
 * state is tried once: if it cannot be written, its prompt is computed after a restart.
 *
 * Reads go through the thread that moves states (moves.c).
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/version.h"
#include "server/engine/internal.h"

/* At the end of the engine. */
#define MOST_FINISH_NS (2 * LX_NS_PER_S)

static void publish(lx_engine *e)
{
    lx_prefix_place *p = e->options.place;
    atomic_store(&e->metrics->prefix_store_works, p != NULL && p->works(p));
}

void lx_stored_init(lx_engine *e)
{
    const lx_model *m = e->model;
    const char *isa = e->be->isa;
    (void)snprintf(e->maker, sizeof e->maker, "%s %.64s %016llx %016llx %s %s %s", LX_VERSION,
                   m->name, (unsigned long long)m->hash, (unsigned long long)m->state_hash,
                   e->be->ops->name, isa != NULL ? isa : "-", lx_precision_name(e->be->precision));
    publish(e);
}

static lx_prefix_name name_of(const lx_engine *e, lx_prefix_key key)
{
    return (lx_prefix_name){.maker = e->maker, .key = key, .width = e->model->config.n_inputs};
}

static lx_prefix_sizes sizes_of(const lx_engine *e)
{
    const lx_state_layout *state = &e->model->state;
    return (lx_prefix_sizes){(size_t)state->fixed_floats, (size_t)state->page_floats};
}

int32_t lx_stored_find(const lx_engine *e, lx_prefix_key key)
{
    lx_prefix_place *p = e->options.place;
    lx_prefix_name name = name_of(e, key);
    return p != NULL && key.n_rows >= LX_PREFIX_WORTH ? p->find(p, &name) : 0;
}

lx_status lx_stored_load(const lx_engine *e, lx_prefix_key key, int32_t state, lx_error *err)
{
    lx_prefix_place *p = e->options.place;
    lx_prefix_name name = name_of(e, key);
    const lx_prefix_sizes sizes = sizes_of(e);
    float *floats = malloc(lx_prefix_floats(&sizes, 0, key.n_rows) * sizeof *floats);
    if (floats == NULL || p->read(p, &name, &sizes, floats, err) != LX_OK) {
        free(floats);
        return LX_ERR_NOT_FOUND;
    }
    lx_status st =
        lx_transformer_state_load(e->transformer, e->states, state, key.n_rows, floats, err);
    free(floats);
    return st;
}

/* Rows of the longest stored beginning that is shorter. */
static int32_t longest_before(const lx_engine *e, lx_prefix_key key)
{
    key.n_rows--;
    return lx_stored_find(e, key);
}

/* Called by a thread of the place. */
static void stored(void *engine, bool ok)
{
    lx_engine *e = engine;
    LX_HOLD(&e->mutex);
    publish(e);
    lx_counter_add(ok ? &e->metrics->stored_prefixes : &e->metrics->failed_prefixes, 1);
    atomic_store(&e->storing, false);
    (void)pthread_cond_broadcast(&e->changed);
}

/* The state without its pages before the first one: meanwhile the slot has only the others. */
static lx_status save_from(lx_engine *e, int32_t slot, int32_t rows, int32_t first, float *to,
                           lx_error *err)
{
    int32_t n = lx_model_state_pages(e->model, rows), kept = e->total_slots + slot;
    if (first == 0)
        return lx_transformer_state_save(e->transformer, e->states, kept, rows, to, err);
    lx_pages_list(&e->pages, e->kept_pages[slot], n, e->page_list);
    lx_status st = lx_transformer_state_map(e->transformer, e->states, kept, n - first,
                                            e->page_list + first, err);
    if (st == LX_OK)
        st = lx_transformer_state_save(e->transformer, e->states, kept,
                                       rows - first * LX_PAGE_TOKENS, to, err);
    if (st != LX_OK)
        return st;
    return lx_transformer_state_map(e->transformer, e->states, kept, n, e->page_list, err);
}

lx_status lx_stored_save(lx_engine *e, lx_error *err)
{
    lx_prefix_place *p = e->options.place;
    lx_prefix_key key;
    int32_t slot = -1;
    if (!lx_stored_due(e))
        return LX_OK;
    e->unstored = lx_prefix_cache_choose(e->prefixes, LX_PREFIX_WORTH, &key, &slot);
    if (!e->unstored)
        return LX_OK;
    lx_prefix_name name = name_of(e, key);
    const lx_prefix_sizes sizes = sizes_of(e);
    int32_t base = sizes.page > 0 ? longest_before(e, key) : 0;
    size_t n = lx_prefix_floats(&sizes, base, key.n_rows);
    float *room = p->room(p, &name, n);
    if (room == NULL) { /* a state that is not stored costs time only */
        lx_counter_add(&e->metrics->failed_prefixes, 1);
        return LX_OK;
    }
    lx_status st = save_from(e, slot, key.n_rows, lx_prefix_first_page(base), room, err);
    if (st != LX_OK) {
        p->drop(p, &name, room);
        return st;
    }
    atomic_store(&e->storing, true);
    p->write(p, &name, base, room, n, stored, e);
    return LX_OK;
}

static void wait_for_place(lx_engine *e)
{
    LX_HOLD(&e->mutex);
    while (atomic_load(&e->storing))
        (void)pthread_cond_wait(&e->changed, &e->mutex);
}

void lx_stored_finish(lx_engine *e)
{
    int64_t end = lx_now_ns() + MOST_FINISH_NS;
    wait_for_place(e);
    while (lx_stored_due(e) && atomic_load(&e->healthy) && lx_now_ns() < end) {
        if (lx_stored_save(e, NULL) != LX_OK)
            return;
        wait_for_place(e);
    }
}
