/*
 * One row of logits and its sums, by all threads of a block. Half a warp adds up 256 ids in f32, in
 * the order of cpu.c; every thread adds up these sums in double.
 */
#ifndef LINNET_OPS_SAMPLE_ROW_INTERNAL_CUH
#define LINNET_OPS_SAMPLE_ROW_INTERNAL_CUH

#include "kernels/cuda/device.cuh"

#define MOST_THREADS 256
#define FEW_IDS 512 /* up to here a warp does */
#define BLOCK 256   /* ids of a sum in f32 */
#define FEW 16      /* ids worth ordering one by one */
#define PIECE 16    /* weights that one thread adds up where a block of ids is searched */
#define PIECES (BLOCK / PIECE)

struct shared_row {
    float value[MOST_THREADS / 16];
    double sum[MOST_THREADS / 16];
    int32_t number;
    alignas(16) float weight[FEW_IDS];
    double piece[PIECES];
    int32_t list[FEW];
    int32_t id;
    double found_sum;
    int32_t found_count;
};

struct row {
    shared_row *shared;
    lx_cuda_row s;
    const float *logits;
    uint32_t *bits; /* banned ids, this block's own; NULL for none */
    const lx_bias *biases;
    int32_t n;
    float least, greatest; /* of the keys of allowed ids */
    float largest;         /* of the allowed logits */
    bool by_distance;      /* keys are logits, or distances from `center`, below 0 */
    float center;
};

/* An id's logit with its bias; the list is sorted. */
LX_DEVICE float biased(const row &r, float logit, int32_t id)
{
    int32_t from = 0, to = r.s.n_biases;
    while (from < to) {
        int32_t at = (from + to) / 2;
        if (r.biases[at].id < id)
            from = at + 1;
        else
            to = at;
    }
    if (from == r.s.n_biases || r.biases[from].id != id)
        return logit;
    float divisor = r.biases[from].divisor;
    if (divisor > 0.0f)
        logit = logit > 0.0f ? logit / divisor : logit * divisor;
    return fmaxf(-LX_MAX_LOGIT, fminf(logit + r.biases[from].add, LX_MAX_LOGIT));
}

LX_DEVICE float logit_at(const row &r, int32_t i)
{
    bool banned = r.bits != NULL && (r.bits[i / 32] >> (i % 32) & 1u) != 0u;
    if (banned)
        return -LX_INFINITY;
    return r.s.n_biases > 0 ? biased(r, r.logits[i], i) : r.logits[i];
}

/* The key by which ids are ordered; -infinity for a banned id. */
LX_DEVICE float key_of_logit(const row &r, float logit)
{
    return r.by_distance ? (float)-fabs((double)logit - (double)r.center) : logit;
}

LX_DEVICE float key_at(const row &r, int32_t i)
{
    return key_of_logit(r, logit_at(r, i));
}

/* Whole numbers in the order of the floats. */
LX_DEVICE uint32_t key_of(float f)
{
    uint32_t bits = __float_as_uint(f);
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

LX_DEVICE float of_key(uint32_t key)
{
    return __uint_as_float((key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key);
}

/* Walks a block's weights; -1 when the sum is not exceeded and none is above 0. */
LX_DEVICE int32_t walk_weights(const float *weight, int32_t n, double sum, double wanted)
{
    int32_t last = -1;
    for (int32_t i = 0; i < n; i++) {
        sum += (double)weight[i];
        last = weight[i] > 0.0f ? i : last;
        if (sum > wanted)
            return i;
    }
    return last;
}

/* --- over all threads --- */

/* The largest of all threads' values, in all threads. */
LX_DEVICE float block_max(shared_row *s, float x)
{
    x = lx_max16(x);
    if (threadIdx.x % 16u == 0u)
        s->value[threadIdx.x / 16u] = x;
    __syncthreads();
    x = s->value[0];
    for (unsigned i = 1; i < blockDim.x / 16u; i++)
        x = s->value[i] > x ? s->value[i] : x;
    __syncthreads();
    return x;
}

LX_DEVICE int32_t block_min_id(shared_row *s, int32_t id)
{
    if (threadIdx.x == 0u)
        s->number = 0x7fffffff;
    __syncthreads();
    if (id != 0x7fffffff)
        (void)atomicMin(&s->number, id);
    __syncthreads();
    id = s->number;
    __syncthreads();
    return id;
}

/* The terms of a sum: exp((l - largest) / temperature) of the ids with key >= level; with `moment`
   times l - largest. */
struct weighting {
    float largest, temperature, level;
    bool banned_too, moment;
};

LX_DEVICE float weight_of(const weighting &w, float logit)
{
    return lx_exp((logit - w.largest) / w.temperature);
}

/* The f32 sum of this half warp's block of ids, in all its lanes; counts ids at the level. */
LX_DEVICE float sum_block(const row &r, const weighting &w, int32_t from, int32_t *count)
{
    int32_t end = r.n - from < BLOCK ? r.n : from + BLOCK;
    float sum = 0.0f;
    for (int32_t i = from + (int32_t)(threadIdx.x % 16u); i < end; i += 16) {
        float l = w.banned_too ? r.logits[i] : logit_at(r, i);
        bool there = key_of_logit(r, l) >= w.level;
        float weight = there ? weight_of(w, l) : 0.0f;
        sum += w.moment && weight > 0.0f ? weight * (l - w.largest) : w.moment ? 0.0f : weight;
        *count += there;
    }
    return lx_sum16(sum);
}

LX_DEVICE double sum_weights(const row &r, const weighting &w, int32_t *count)
{
    int32_t groups = (int32_t)blockDim.x / 16, mine = (int32_t)threadIdx.x / 16, here = 0;
    double total = 0.0;
    if (threadIdx.x == 0u)
        r.shared->number = 0;
    for (int32_t at = 0; at < r.n; at += BLOCK * groups) {
        float sum = sum_block(r, w, at + mine * BLOCK, &here);
        if (threadIdx.x % 16u == 0u)
            r.shared->sum[mine] = (double)sum;
        __syncthreads();
        for (int32_t g = 0; g < groups && at + g * BLOCK < r.n; g++)
            total += r.shared->sum[g];
        __syncthreads();
    }
    if (count != NULL) {
        (void)atomicAdd(&r.shared->number, here);
        __syncthreads();
        *count = r.shared->number;
        __syncthreads();
    }
    return total;
}

LX_DEVICE weighting all_weights(const row &r)
{
    weighting w = {r.largest, r.s.temperature, -LX_INFINITY, false, false};
    return w;
}

/* Least and greatest of the keys; false when no id is allowed. */
LX_DEVICE bool find_range(row *r)
{
    float low = -LX_INFINITY, high = -LX_INFINITY; /* low: of -key */
    for (int32_t i = (int32_t)threadIdx.x; i < r->n; i += (int32_t)blockDim.x) {
        float l = key_at(*r, i);
        high = l > high ? l : high;
        low = l > -LX_INFINITY && -l > low ? -l : low;
    }
    r->least = -block_max(r->shared, low);
    r->greatest = block_max(r->shared, high);
    r->largest = r->by_distance ? r->largest : r->greatest;
    return r->greatest > -LX_INFINITY;
}

LX_DEVICE int32_t first_greatest(const row &r)
{
    int32_t id = 0x7fffffff;
    for (int32_t i = (int32_t)threadIdx.x; i < r.n && id == 0x7fffffff; i += (int32_t)blockDim.x)
        id = logit_at(r, i) == r.greatest ? i : id;
    return block_min_id(r.shared, id);
}

#endif
