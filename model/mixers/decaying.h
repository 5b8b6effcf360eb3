/*
 * Kinds whose state decays and is added to. n_heads heads of queries; of so many as `key_heads`
 * leaves keys, values and decays are the same, by default of none:
 *
 *     q = r(f(W_q x))    k = r(f(W_k x))    v = f(W_v x)   f: with taps silu of a short convolution
 *     S = diag(w) S + k v^T                                w: the decay of a kind, see lx_decaying
 *     y = S^T q / sqrt(K)                                  r: its rotation, or nothing
 *     A(x) = W_out (rms_norm(y) gamma silu(W_g x))         of every head; without a gate no last
 * factor
 *
 * Tensors: attn.q, attn.k, attn.v, attn.out, products without bias; attn.norm.weight [V]; with taps
 * attn.q_conv.weight, attn.k_conv.weight, attn.v_conv.weight [channels, taps]; with a gate attn.g;
 * then those of the decay.
 * State: of a head S [K, V]; with taps once their last inputs, q_conv, k_conv, v_conv.
 */
#ifndef LINNET_MODEL_MIXERS_DECAYING_H
#define LINNET_MODEL_MIXERS_DECAYING_H

#include "model/mixers/mixer.h"

/* What a kind is: lx_mixer.variant. */
typedef struct lx_decaying {
    /* CHANNEL: w = sigmoid(W_f2 W_f1 x + b)^(1/16), K numbers a head of keys, tensors attn.f1 and
       attn.f2, the latter with a bias. FIXED: w = 1 - 2^(-5 - h) for head h. */
    lx_decay decay;
    bool is_rotated; /* q and k by their positions, see model/mixers/rotary.h */
} lx_decaying;

/* The keys of a kind are these five, the fourth being `rank`, of the decay's pair, or `base`, of
   the rotation. */
enum {
    LX_DECAYING_KEY_HEADS,
    LX_DECAYING_CONV,
    LX_DECAYING_GATE,
    LX_DECAYING_RANK,
    LX_DECAYING_BASE = LX_DECAYING_RANK,
    LX_DECAYING_EPS
};
extern const char *const lx_decaying_gates[];
#define LX_DECAYING_PARAMS(...)                                                                    \
    {                                                                                              \
        {.name = "key_heads", .kind = LX_PARAM_INT, .min = 1, .max = 1024, .optional = true},      \
            {.name = "conv", .kind = LX_PARAM_INT, .min = 0, .max = LX_CONV_MOST_TAPS},            \
            {.name = "gate", .kind = LX_PARAM_WORD, .words = lx_decaying_gates}, {__VA_ARGS__},    \
        {                                                                                          \
            .name = "eps", .kind = LX_PARAM_EPS                                                    \
        }                                                                                          \
    }

const char *lx_mixer_check_decaying(const lx_mixer_config *c);
void lx_mixer_declare_decaying(const lx_mixer_config *c, lx_mixer_parts *p);
void lx_mixer_queue_decaying(const lx_mixer_call *call);

#endif
