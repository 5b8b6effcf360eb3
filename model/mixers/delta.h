/*
 * Kinds of the delta rule: what a state holds under a key is replaced, not added to. There are H
 * heads of K keys, and n_heads heads of V values, so many of them to a head of keys as come out:
 *
 *     q = l2(f(conv(W_q x)))   k = l2(f(conv(W_k x)))   v = f(conv(W_v x))          f: silu
 *     beta = sigmoid(W_b x), a number a head, or twice that
 *     w: the decay of a kind, see lx_delta
 *     R = diag(w) S       S' = R + k (beta (v - R^T k))^T       y = S'^T q / sqrt(K)
 *     A(x) = W_out (rms_norm(y) gamma g)                        of every head; g: the gate of a
 * kind
 *
 * l2(x) = x / sqrt(sum x^2 + 1e-6) of every head. Without taps there is no convolution.
 *
 * Tensors: attn.q, attn.k, attn.v, attn.b, attn.out, products without bias; attn.norm.weight [V];
 * with taps attn.q_conv.weight, attn.k_conv.weight, attn.v_conv.weight [channels, taps]; then those
 * of the decay and of the gate. Joined, attn.qkv has the rows of the first three, those of attn.q
 * first, and attn.conv.weight those of the taps.
 * State: of a head S [K, V]; once the last inputs of the convolutions, q_conv, k_conv, v_conv.
 */
#ifndef LINNET_MODEL_MIXERS_DELTA_H
#define LINNET_MODEL_MIXERS_DELTA_H

#include "model/mixers/mixer.h"

/* What a kind is: lx_mixer.variant. */
typedef struct lx_delta {
    /* NONE: w = 1. HEAD: w = exp(-exp(A_log) softplus(W_a x + dt_bias)), a number a head of values,
       tensors attn.a, attn.A_log, attn.dt_bias. CHANNEL: K numbers, with W_f2 W_f1 x in place of
       W_a x, tensors attn.f1, attn.f2, attn.A_log [heads of values], attn.dt_bias [K of each]. */
    lx_decay decay;
    /* Without: with gate "silu" g = silu(W_g x), tensor attn.g, with "none" g = 1. With: g =
       sigmoid(W_g2 W_g1 x + b), tensors attn.g1, attn.g2, the latter with a bias. */
    bool has_pairs;
} lx_delta;

/* The keys of a kind are the first five, the fourth being `gate`, or with pairs their `rank`; some
   have the sixth. */
enum {
    LX_DELTA_KEY_HEADS, /* H; 0: n_heads */
    LX_DELTA_CONV,      /* taps: 0, or 2 to LX_CONV_MOST_TAPS */
    LX_DELTA_BETA,
    LX_DELTA_GATE,
    LX_DELTA_EPS,   /* of the norm */
    LX_DELTA_JOINED /* tensors */
};
extern const char *const lx_delta_rates[], *const lx_delta_gates[];
#define LX_DELTA_PARAMS(...)                                                                       \
    {.name = "key_heads", .kind = LX_PARAM_INT, .min = 1, .max = 1024, .optional = true},          \
        {.name = "conv", .kind = LX_PARAM_INT, .min = 0, .max = LX_CONV_MOST_TAPS},                \
        {.name = "beta", .kind = LX_PARAM_WORD, .words = lx_delta_rates}, {__VA_ARGS__},           \
    {                                                                                              \
        .name = "eps", .kind = LX_PARAM_EPS                                                        \
    }
#define LX_DELTA_GATE_PARAM .name = "gate", .kind = LX_PARAM_WORD, .words = lx_delta_gates

const char *lx_mixer_check_delta(const lx_mixer_config *c);
void lx_mixer_declare_delta(const lx_mixer_config *c, lx_mixer_parts *p);
void lx_mixer_queue_delta(const lx_mixer_call *call);

#endif
