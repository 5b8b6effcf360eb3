/*
 * Drawing without cuts, bans and biases among few ids, by a warp: what most rows ask for. Weights
 * are computed once, all of a lane's at once, and lie in shared memory then; the sums are those of
 * row_internal.cuh, to the bit.
 */
#ifndef LINNET_OPS_SAMPLE_PLAIN_INTERNAL_CUH
#define LINNET_OPS_SAMPLE_PLAIN_INTERNAL_CUH

#include "kernels/ops/sample/row_internal.cuh"
#include "kernels/philox.h"

#define EACH (BLOCK / 32)         /* weights of a lane in a block of ids */
#define LEAST (-0x1.fffffep+127f) /* the least finite f32 */

LX_DEVICE bool is_plain(const lx_cuda_row &s)
{
    bool lists =
        s.mask != NULL || s.allowed_at >= 0 || s.n_banned > 0 || s.n_biases > 0 || s.n_top > 0;
    bool cuts = s.top_k > 0 || s.top_p < 1.0f || s.min_p > 0.0f ||
                (s.typical_p > 0.0f && s.typical_p < 1.0f);
    return !lists && (s.forced >= 0 || s.temperature == 0.0f || !cuts);
}

/* The first weight of a block with which `sum` and the weights up to it exceed `wanted`: see
   find_weight, whose bound holds for this order of sums, too. */
LX_DEVICE int32_t draw_of_block(const float *weight, double sum, double wanted)
{
    int32_t lane = (int32_t)threadIdx.x;
    const float4 *from = (const float4 *)(const void *)(weight + EACH * lane);
    float4 a = from[0], b = from[1];
    const float mine[EACH] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    double piece = 0.0;
    LX_UNROLL
    for (int32_t e = 0; e < EACH; e++)
        piece += (double)mine[e];
    double up_to = piece;
    LX_UNROLL
    for (int32_t apart = 1; apart < 32; apart *= 2) {
        double before = __shfl_sync(LX_ALL_LANES, up_to, lane - apart, 32);
        up_to += lane >= apart ? before : 0.0;
    }
    double doubt = (sum + __shfl_sync(LX_ALL_LANES, up_to, 31, 32)) * 0x1p-40;
    double reached = sum + (up_to - piece);
    uint32_t found = 0xffffffffu; /* odd: not certain */
    LX_UNROLL
    for (int32_t e = 0; e < EACH; e++) {
        reached += (double)mine[e];
        uint32_t this_one = 2u * (uint32_t)(EACH * lane + e) + (reached > wanted + doubt ? 0u : 1u);
        if (found == 0xffffffffu && reached > wanted - doubt)
            found = this_one;
    }
    found = __reduce_min_sync(LX_ALL_LANES, found);
    if (found % 2u == 0u)
        return (int32_t)(found / 2u);
    uint32_t at = lane == 0 ? (uint32_t)walk_weights(weight, BLOCK, sum, wanted) : 0xffffffffu;
    return (int32_t)__reduce_min_sync(LX_ALL_LANES, at);
}

/* A lane's logits of a row and the weights of all. */
template <int BLOCKS> struct plain_row {
    float logit[EACH * BLOCKS];
    float *weight; /* [BLOCK * BLOCKS], shared */
    int32_t n, lane;
    float largest;

    LX_METHOD plain_row(const float *logits, int32_t n_ids, float *shared)
        : weight(shared), n(n_ids), lane((int32_t)threadIdx.x)
    {
        LX_UNROLL
        for (int32_t e = 0; e < EACH * BLOCKS; e++)
            logit[e] = lane + 32 * e < n ? logits[lane + 32 * e] : LEAST;
        largest = LEAST;
        LX_UNROLL
        for (int32_t e = 0; e < EACH * BLOCKS; e++) {
            float l = fabsf(logit[e]) < LX_INFINITY ? logit[e] : LX_INFINITY;
            largest = l > largest ? l : largest;
        }
        largest = of_key(__reduce_max_sync(LX_ALL_LANES, key_of(largest)));
    }

    /* Computes all weights and the f32 sum of each block of ids, half a warp a block, in the order
       of sum_block. */
    LX_METHOD void weigh(float temperature, double (&sums)[BLOCKS])
    {
        weighting w = {largest, temperature, -LX_INFINITY, false, false};
        LX_UNROLL
        for (int32_t e = 0; e < EACH * BLOCKS; e++)
            weight[lane + 32 * e] = lane + 32 * e < n ? weight_of(w, logit[e]) : 0.0f;
        __syncwarp(LX_ALL_LANES);
        const float *mine = weight + (BLOCKS > 1 ? lane / 16 * BLOCK : 0) + lane % 16;
        float sum = 0.0f;
        LX_UNROLL
        for (int32_t k = 0; k < BLOCK / 16; k++)
            sum += mine[16 * k];
        sum = lx_sum16(sum);
        LX_UNROLL
        for (int32_t b = 0; b < BLOCKS; b++)
            sums[b] = (double)(BLOCKS > 1 ? __shfl_sync(LX_ALL_LANES, sum, 16 * b, 32) : sum);
    }

    /* The first id whose cumulative weight exceeds u of all, in the order of ids. A block's sum
       does in any case, as u is below 1. */
    LX_METHOD int32_t draw(const double (&sums)[BLOCKS], double wanted) const
    {
        double sum = 0.0;
        int32_t b = 0;
        for (; b < BLOCKS - 1 && sum + sums[b] <= wanted; b++)
            sum += sums[b];
        return b * BLOCK + draw_of_block(weight + b * BLOCK, sum, wanted);
    }

    LX_METHOD int32_t first_greatest() const
    {
        uint32_t id = 0xffffffffu;
        LX_UNROLL
        for (int32_t e = EACH * BLOCKS - 1; e >= 0; e--)
            id = logit[e] == largest && lane + 32 * e < n ? (uint32_t)(lane + 32 * e) : id;
        return (int32_t)__reduce_min_sync(LX_ALL_LANES, id);
    }
};

template <int BLOCKS> LX_DEVICE double sum_of(const double (&sums)[BLOCKS])
{
    double sum = 0.0;
    LX_UNROLL
    for (int32_t b = 0; b < BLOCKS; b++)
        sum += sums[b];
    return sum;
}

template <int BLOCKS>
LX_DEVICE lx_sample sample_plain(const lx_cuda_row &s, const float *logits, int32_t n_ids,
                                 float *weight)
{
    lx_sample out = {-1, LX_NAN};
    plain_row<BLOCKS> r(logits, n_ids, weight);
    if (!(r.largest < LX_INFINITY))
        return out;
    double sums[BLOCKS];
    bool draws = s.forced < 0 && s.temperature > 0.0f;
    if (draws) {
        r.weigh(s.temperature, sums);
        out.token = r.draw(sums, (double)lx_uniform(s.seed, s.sample, s.step, 0) * sum_of(sums));
    } else {
        out.token = s.forced >= 0 ? s.forced : r.first_greatest();
    }
    if (!draws || s.temperature != 1.0f) {
        __syncwarp(LX_ALL_LANES); /* every lane has read the weights */
        r.weigh(1.0f, sums);
    }
    out.logprob = (float)((double)logits[out.token] - (double)r.largest - log(sum_of(sums)));
    return out;
}

#endif
