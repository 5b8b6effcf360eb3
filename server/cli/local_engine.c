/* An engine for one user (see local_engine.h). */
#include "server/cli/local_engine.h"

enum { MAX_SLOTS = 64, PREFIX_BYTES = 256 << 20 };

lx_status lx_local_engine_start(lx_transformer *t, const lx_local_options *options, lx_engine **out,
                                lx_error *err)
{
    static lx_metrics metrics;
    lx_backend *be = lx_transformer_backend(t);
    lx_engine_options limits = {.n_slots = options->n < MAX_SLOTS ? options->n : MAX_SLOTS,
                                .max_queue = 1,
                                .max_tokens = LX_LOCAL_ROWS,
                                .prompt_chunk = LX_LOCAL_ROWS - MAX_SLOTS,
                                .prompt_beside = LX_LOCAL_ROWS,
                                .prefix_bytes = options->goes_on ? PREFIX_BYTES : 0,
                                .ahead = lx_engine_best_ahead(be),
                                .draft = lx_engine_draft_of(options->draft, be)};
    return lx_engine_start(t, &limits, &metrics, out, err);
}
