/*
 * The probe of an idle engine: one row through the whole model, into a state of its
 * own behind the places. It is what serving_load.c does once at start; a device
 * that was lost since then, or memory that went bad, is found by it and not by the next client.
 */
#include "common/clock.h"
#include "server/engine/internal.h"

lx_status lx_engine_probe(lx_engine *e, lx_error *err)
{
    if (lx_transformer_probe(e->transformer, e->states, e->n_places, err) != LX_OK)
        return LX_ERR_DEVICE; /* whatever it calls itself: one row of zeros must be possible */
    atomic_fetch_add_explicit(&e->metrics->probes, 1, memory_order_relaxed);
    atomic_store(&e->last_step_ns, lx_now_ns());
    return LX_OK;
}
