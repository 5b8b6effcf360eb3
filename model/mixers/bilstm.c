/*
 * A long short-term memory both ways (Graves and Schmidhuber 2005), in place of attention and
 * feed-forward net: the layer that linear attention is compared with for speech (Katharopoulos et
 * al. 2020, section 4.3). N = `hidden` cells a way; see kernels/ops/lstm_both/op.h.
 *
 *     x'   = W x + b                              [8 N]: of each way i, f, g, o
 *     h    = the cells' outputs, of both ways     [2 N]
 *     A(x) = W_out h + b
 *
 * Tensors: attn.x, attn.u [2 N, 4 N] (U of each way), attn.out. No state: every row sees all rows.
 */
#include "model/mixers/mixer.h"

static const char *const directions[] = {"both", NULL};
static const lx_mixer_param params[] = {
    {.name = "hidden", .kind = LX_PARAM_INT, .min = 1, .max = 4096},
    {.name = "direction", .kind = LX_PARAM_WORD, .words = directions},
};

enum { HIDDEN };             /* params */
enum { X, U, OUT };          /* tensors */
enum { PROJECTED, OUTPUTS }; /* scratch */

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t n = c->params[HIDDEN].i;
    lx_mixer_add_product(p, "attn.x", 8 * n, c->d_model);
    lx_mixer_add_array(p, "attn.u", 2 * n, 4 * n);
    lx_mixer_add_product(p, "attn.out", c->d_model, 2 * n);
    lx_mixer_add_scratch(p, 8 * n);
    lx_mixer_add_scratch(p, 2 * n);
    p->sees_all = true;
}

static void run_cells(const lx_mixer_call *call)
{
    call->be->ops->lstm_both(call->be, &(lx_lstm_both_args){.y = call->scratch[OUTPUTS],
                                                            .x = call->scratch[PROJECTED],
                                                            .u = call->arrays[U],
                                                            .n = call->config->params[HIDDEN].i});
}

static void queue(const lx_mixer_call *call)
{
    lx_mixer_queue_attention(call, OUT, run_cells);
}

static bool is_on(const lx_mixer_config *c, const lx_kernels *ops)
{
    (void)c;
    return ops->lstm_both != NULL;
}

LX_MIXER(bilstm, .summary = "a long short-term memory both ways", .is_whole_layer = true,
         .is_on = is_on);
