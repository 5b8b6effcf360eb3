/*
 * Memory-compressed attention (Liu et al. 2018, "Generating Wikipedia by summarizing long
 * sequences"): of every `factor` tokens, counted from the first on, a convolution of each head
 * makes one key and one value. See kernels/ops/attend_compressed/op.h.
 *
 *     q, k, v = W_qkv x + b
 *     K_c = sum over t < factor of W_t k_(c factor + t) + b, and V_c from v
 *     y_i = softmax of q_i . K / sqrt(D) over a first row and the blocks that end before i, with
 *           "inclusive" also over the one that i ends
 *     A(x) = W_out y + b
 *
 * The block that a token lies in is not seen, nor is the token itself: other layers see those. The
 * first row is learned, or token 0's k and v.
 *
 * Tensors: attn.qkv, attn.out as in rows.h; attn.compress_k [H factor D, D], of a head in turn its
 * W_t with the inputs as rows; attn.compress_k_bias [H D]; attn.compress_v, attn.compress_v_bias of
 * these shapes; with "learned" attn.null [H, D + M]. State: the open block's sums, and token 0's
 * row without "learned"; in pages a row a block.
 */
#include <math.h>

#include "model/mixers/rows.h"

static const char *const visible[] = {"strict", "inclusive", NULL};
static const char *const nulls[] = {"learned", "first", NULL};
static const lx_mixer_param params[] = {
    {.name = "factor", .kind = LX_PARAM_INT, .min = 1, .max = LX_COMPRESSED_MOST_FACTOR},
    {.name = "visible", .kind = LX_PARAM_WORD, .words = visible},
    {.name = "null", .kind = LX_PARAM_WORD, .words = nulls},
};

enum { FACTOR, VISIBLE, NULL_ROW };
enum { QKV, OUT, COMPRESS_K, BIAS_K, COMPRESS_V, BIAS_V, LEARNED }; /* tensors */
enum { PROJECTED, ATTENDED };                                       /* scratch */

static bool is_learned(const lx_mixer_config *c)
{
    return c->params[NULL_ROW].i == 0;
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t h = c->n_heads, d = c->d_key, m = c->d_value, r = c->params[FACTOR].i;
    lx_mixer_add_product(p, "attn.qkv", h * (2 * d + m), c->d_model);
    lx_mixer_add_product(p, "attn.out", c->d_model, h * m);
    lx_mixer_add_array(p, "attn.compress_k", h * r * d, d);
    lx_mixer_add_array(p, "attn.compress_k_bias", 0, h * d);
    lx_mixer_add_array(p, "attn.compress_v", h * r * m, m);
    lx_mixer_add_array(p, "attn.compress_v_bias", 0, h * m);
    if (is_learned(c))
        lx_mixer_add_array(p, "attn.null", h, d + m);
    lx_mixer_add_scratch(p, h * (2 * d + m));
    lx_mixer_add_scratch(p, h * m);
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "open_k", 1, c->d_key);
    lx_mixer_add_field(p, "open_v", 1, c->d_value);
    if (!is_learned(c)) {
        lx_mixer_add_field(p, "first_k", 1, c->d_key);
        lx_mixer_add_field(p, "first_v", 1, c->d_value);
    }
    lx_mixer_add_growing(p, h * (d + m) * lx_compressed_rows((int32_t)r));
}

static void attend(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    call->be->ops->attend_compressed(call->be,
                                     &(lx_attend_compressed_args){
                                         .y = call->scratch[ATTENDED],
                                         .qkv = call->scratch[PROJECTED],
                                         .taps_k = call->arrays[COMPRESS_K],
                                         .bias_k = call->arrays[BIAS_K],
                                         .taps_v = call->arrays[COMPRESS_V],
                                         .bias_v = call->arrays[BIAS_V],
                                         .first = is_learned(c) ? call->arrays[LEARNED] : NULL,
                                         .states = call->states,
                                         .offset = call->offset,
                                         .page_offset = call->page_offset,
                                         .n_heads = c->n_heads,
                                         .d_key = c->d_key,
                                         .d_value = c->d_value,
                                         .factor = c->params[FACTOR].i,
                                         .inclusive = c->params[VISIBLE].i != 0,
                                         .scale = 1.0f / sqrtf((float)c->d_key),
                                     });
}

static void queue(const lx_mixer_call *call)
{
    lx_mixer_queue_attention(call, OUT, attend);
}

static bool is_on(const lx_mixer_config *c, const lx_kernels *ops)
{
    (void)c;
    return ops->attend_compressed != NULL;
}

LX_MIXER(memory_compressed, .summary = "attention to one compressed row of every few tokens",
         .is_on = is_on, .check = lx_mixer_check_rows);
