/*
 * Attention by buckets of hashes (Kitaev et al. 2020, "Reformer"), in a form whose choice of tokens
 * is causal, too: see kernels/ops/attend_lsh/op.h. Queries and keys are one projection; the hashes
 * are drawn once, when training begins, and lie in the file. Both ways it is the paper's, in sorted
 * chunks of `cap` tokens: see kernels/ops/attend_whole/op.h.
 *
 *     qk, v = W x + b
 *     y_i   = softmax of scale qk_i . qk_j / |qk_j| over the last `cap` tokens before i of each of
 *             its buckets, one per round; v_i where there are none
 *     A(x)  = W_out y + b
 *
 * Tensors: attn.qk_v (rows of qk, then v, head by head), attn.hashes [rounds D, buckets / 2],
 * attn.out. State, but both ways none: the newest token of every bucket of every head, and in pages
 * a row per token.
 */
#include <math.h>

#include "model/mixers/mixer.h"

static const char *const scales[] = {"none", "key", NULL};
static const lx_mixer_param params[] = {
    {.name = "rounds", .kind = LX_PARAM_INT, .min = 1, .max = LX_LSH_MOST_ROUNDS},
    {.name = "buckets", .kind = LX_PARAM_INT, .min = 2, .max = LX_LSH_MOST_BUCKETS},
    {.name = "cap", .kind = LX_PARAM_INT, .min = 1, .max = LX_LSH_MOST_SEEN},
    {.name = "scale", .kind = LX_PARAM_WORD, .words = scales},
    {.name = "direction", .kind = LX_PARAM_WORD, .words = lx_mixer_directions, .optional = true},
};

enum { ROUNDS, BUCKETS, CAP, SCALE, DIRECTION };
enum { QK_V, HASHES, OUT };           /* tensors */
enum { PROJECTED, ATTENDED, SORTED }; /* scratch */

static const char *check(const lx_mixer_config *c)
{
    if (c->params[BUCKETS].i % 2 != 0)
        return "buckets must be an even number";
    if (c->params[ROUNDS].i * c->params[CAP].i > LX_LSH_MOST_SEEN)
        return "cap must be at most 4096 for all rounds together";
    if (c->params[DIRECTION].i == LX_BOTH &&
        3 * c->params[ROUNDS].i * c->params[CAP].i > LX_LSH_MOST_SEEN)
        return "cap must be at most 1365 for all rounds together where direction is \"both\"";
    return c->d_key > 1024 || c->d_value > 1024 ? "d_key and d_value must be at most 1024" : NULL;
}

static lx_attend_lsh_args sizes(const lx_mixer_config *c)
{
    return (lx_attend_lsh_args){.n_heads = c->n_heads,
                                .d_key = c->d_key,
                                .d_value = c->d_value,
                                .rounds = c->params[ROUNDS].i,
                                .n_buckets = c->params[BUCKETS].i,
                                .cap = c->params[CAP].i,
                                .scale =
                                    c->params[SCALE].i == 0 ? 1.0f : 1.0f / sqrtf((float)c->d_key)};
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    const lx_attend_lsh_args a = sizes(c);
    int64_t keys = (int64_t)c->n_heads * c->d_key, values = (int64_t)c->n_heads * c->d_value;
    lx_mixer_add_product(p, "attn.qk_v", keys + values, c->d_model);
    lx_mixer_add_array(p, "attn.hashes", (int64_t)a.rounds * a.d_key, a.n_buckets / 2);
    lx_mixer_add_product(p, "attn.out", c->d_model, values);
    lx_mixer_add_scratch(p, keys + values);
    lx_mixer_add_scratch(p, values);
    if (c->params[DIRECTION].i == LX_BOTH) {
        lx_mixer_add_scratch(p, (int64_t)c->n_heads * lx_whole_sorted(a.rounds));
        p->sees_all = true;
        return;
    }
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "last", a.rounds, a.n_buckets);
    lx_mixer_add_growing(p, LX_PAGE_TOKENS * c->n_heads * lx_lsh_row(&a));
}

static void attend_both(const lx_mixer_call *call)
{
    const lx_attend_lsh_args a = sizes(call->config);
    call->be->ops->attend_whole(call->be, &(lx_attend_whole_args){.y = call->scratch[ATTENDED],
                                                                  .qkv = call->scratch[PROJECTED],
                                                                  .n_heads = a.n_heads,
                                                                  .d_key = a.d_key,
                                                                  .d_value = a.d_value,
                                                                  .scale = a.scale,
                                                                  .hashes = call->arrays[HASHES],
                                                                  .sorted = call->scratch[SORTED],
                                                                  .rounds = a.rounds,
                                                                  .n_buckets = a.n_buckets,
                                                                  .chunk = a.cap});
}

static void attend_causal(const lx_mixer_call *call)
{
    lx_attend_lsh_args a = sizes(call->config);
    a.y = call->scratch[ATTENDED];
    a.qkv = call->scratch[PROJECTED];
    a.hashes = call->arrays[HASHES];
    a.states = call->states;
    a.offset = call->offset;
    a.page_offset = call->page_offset;
    call->be->ops->attend_lsh(call->be, &a);
}

static void queue(const lx_mixer_call *call)
{
    lx_mixer_queue_attention(call, OUT, call->parts->sees_all ? attend_both : attend_causal);
}

static bool is_on(const lx_mixer_config *c, const lx_kernels *ops)
{
    return c->params[DIRECTION].i == LX_BOTH ? ops->attend_whole != NULL : ops->attend_lsh != NULL;
}

LX_MIXER(lsh, .summary = "attention to tokens whose hashes fall together", .is_on = is_on,
         .check = check);
