/*
 * The probe of an idle engine: one row through the whole model, into the state of a slot, all of
 * which are free then. The slot is the one that was freed last: its memory is in use already, and
 * a state may have tens of megabytes. The probe is what serving_load.c does once at start; a device
 * that was lost since then, or memory that went bad, is found by it and not by the next client.
 */
#include "common/clock.h"
#include "server/engine/internal.h"

lx_status lx_engine_probe(lx_engine *e, lx_error *err)
{
    int32_t slot = e->free_slots[e->n_free - 1];
    lx_status st = LX_OK;
    if (e->pages.n >
        0) /* the page behind the pool is the probe's: others may hold shared prompts */
        st = lx_transformer_state_map(e->transformer, e->states, slot, 1, &e->pages.n, err);
    if (st != LX_OK || lx_transformer_probe(e->transformer, e->states, slot, err) != LX_OK)
        return LX_ERR_DEVICE; /* whatever it calls itself: one row of zeros must be possible */
    atomic_fetch_add_explicit(&e->metrics->probes, 1, memory_order_relaxed);
    atomic_store(&e->last_step_ns, lx_now_ns());
    return LX_OK;
}
