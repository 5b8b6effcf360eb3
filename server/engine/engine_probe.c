/*
 * The probe of an idle engine: one row through the whole model, into a state of its
 * own behind the places. It is what serving.c does once at start; a device
 * that was lost since then, or memory that went bad, is found by it and not by the next client.
 */
#include <math.h>

#include "common/clock.h"
#include "server/engine/internal.h"

lx_status lx_engine_probe(lx_engine *e, lx_error *err)
{
    int32_t ids[LX_MAX_INPUTS] = {0}, seq_start[2] = {0, 1}, slot = e->n_places, row = 0,
            position = 0;
    lx_sampling sampling = {.temperature = 0, .top_p = 1, .forced = -1};
    lx_sample sample = {.token = -1};
    lx_step step = {
        .batch = {.n_tokens = 1,
                  .n_seqs = 1,
                  .seq_start = seq_start,
                  .slot = &slot,
                  .n_outputs = 1,
                  .output_row = &row,
                  .position = &position},
        .ids = ids,
        .sampling = &sampling,
        .samples = &sample,
    };
    lx_status st = lx_transformer_state_zero(e->transformer, e->states, slot, err);
    if (st == LX_OK)
        st = lx_transformer_step(e->transformer, e->states, &step, err);
    if (st == LX_OK && (sample.token < 0 || !isfinite(sample.logprob)))
        st = lx_fail(err, LX_ERR_DEVICE, NULL, "the probe step gave a number that is not finite");
    if (st != LX_OK)
        return LX_ERR_DEVICE; /* whatever it calls itself: one row of zeros must be possible */
    atomic_fetch_add_explicit(&e->metrics->probes, 1, memory_order_relaxed);
    atomic_store(&e->last_step_ns, lx_now_ns());
    return LX_OK;
}
