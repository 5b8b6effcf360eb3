/* One token through the whole model (see transformer.h). */
#include <math.h>

#include "model/transformer.h"

#include "model/model.h"

lx_status lx_transformer_probe(lx_transformer *t, lx_states *states, int32_t slot, lx_error *err)
{
    const lx_model *m = lx_transformer_model(t);
    int32_t ids[LX_MAX_INPUTS] = {0}, seq_start[2] = {0, 1}, row = 0, position = 0;
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
    lx_status st = lx_transformer_state_zero(t, states, slot, err);
    if (st == LX_OK)
        st = lx_transformer_step(t, states, &step, err);
    if (st == LX_OK &&
        (sample.token < 0 || sample.token >= m->config.n_values || !isfinite(sample.logprob)))
        st = lx_fail(err, LX_ERR_DEVICE, NULL, "model %s computes no numbers", m->name);
    return st;
}
