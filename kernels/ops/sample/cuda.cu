/*
 * Samples one row of logits per block, with the steps and sums of cpu.c, so with its draws. A half
 * warp sums 256 ids in f32; these sums are added in double, in order.
 *
 * Only one bit per id is stored: a weight is computed where it is needed. All threads of a block
 * take one control flow, and share results through shared memory.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/ops/sample/cuts_internal.cuh"
#include "kernels/ops/sample/plain_internal.cuh"
#include "kernels/ops/sample/row_internal.cuh"
#include "kernels/philox.h"

/* --- without cuts --- */

LX_DEVICE int32_t last_with_weight(const row &r)
{
    weighting w = all_weights(r);
    int32_t last = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < r.n; i += (int32_t)blockDim.x)
        last = weight_of(w, logit_at(r, i)) > 0.0f ? i : last;
    return -block_min_id(r.shared, -last);
}

/*
 * The first weight with which `sum` and the weights up to it exceed `wanted`, or -1 where that is
 * not certain. Each of PIECES threads adds up its own weights, faster than one thread would add
 * all. Sums of BLOCK + 1 numbers in two orders differ by less than 2^-43 of the total.
 */
LX_DEVICE int32_t find_weight(shared_row *s, double sum, double wanted)
{
    int32_t mine = (int32_t)threadIdx.x, found = 0x7fffffff;
    if (mine < PIECES) {
        double piece = 0.0;
        LX_UNROLL
        for (int32_t i = 0; i < PIECE; i++)
            piece += (double)s->weight[mine * PIECE + i];
        s->piece[mine] = piece;
    }
    __syncthreads();
    if (mine < PIECES) {
        double all = sum;
        for (int32_t i = 0; i < PIECES; i++) {
            all += s->piece[i];
            sum += i < mine ? s->piece[i] : 0.0;
        }
        double doubt = all * 0x1p-40;
        for (int32_t i = 0; i < PIECE && found == 0x7fffffff; i++) {
            sum += (double)s->weight[mine * PIECE + i];
            if (sum > wanted - doubt)
                found = 2 * (mine * PIECE + i) + (sum > wanted + doubt ? 0 : 1);
        }
    }
    found = block_min_id(s, found);
    return found % 2 == 0 ? found / 2 : -1; /* where none was found the number is odd, too */
}

/* The id in one block of ids, or -1. Where a sum lies very near to the wanted value its order
   decides: then one thread adds up. */
LX_DEVICE int32_t draw_in_block(const row &r, const weighting &w, int32_t from, double sum,
                                double wanted)
{
    shared_row *s = r.shared;
    int32_t n = r.n - from < BLOCK ? r.n - from : BLOCK;
    for (int32_t i = (int32_t)threadIdx.x; i < BLOCK; i += (int32_t)blockDim.x)
        s->weight[i] = i < n ? weight_of(w, logit_at(r, from + i)) : 0.0f;
    __syncthreads();
    int32_t certain = find_weight(s, sum, wanted);
    if (certain >= 0)
        return from + certain;
    if (threadIdx.x == 0u) {
        int32_t at = walk_weights(s->weight, n, sum, wanted);
        s->id = at >= 0 ? from + at : -1;
    }
    __syncthreads();
    return s->id; /* whatever writes it next has a barrier before */
}

/* The first id whose cumulative weight exceeds `wanted`, in the order of ids. */
LX_DEVICE int32_t draw_in_order(const row &r, double wanted)
{
    weighting w = all_weights(r);
    int32_t groups = (int32_t)blockDim.x / 16, mine = (int32_t)threadIdx.x / 16, unused = 0;
    double sum = 0.0;
    for (int32_t at = 0; at < r.n; at += BLOCK * groups) {
        float block = sum_block(r, w, at + mine * BLOCK, &unused);
        if (threadIdx.x % 16u == 0u)
            r.shared->sum[mine] = (double)block;
        __syncthreads();
        for (int32_t g = 0; g < groups && at + g * BLOCK < r.n; g++) {
            if (sum + r.shared->sum[g] > wanted) {
                int32_t id = draw_in_block(r, w, at + g * BLOCK, sum, wanted);
                if (id >= 0)
                    return id;
            }
            sum += r.shared->sum[g];
        }
        __syncthreads();
    }
    return last_with_weight(r);
}

/* --- one row --- */

/* Marks the ids that mask and lists ban; the bits are this block's alone. */
LX_DEVICE void ban(const lx_cuda_sample &a, const lx_cuda_row &s, uint32_t *bits)
{
    for (int32_t w = (int32_t)threadIdx.x; w < (a.n_ids + 31) / 32; w += (int32_t)blockDim.x) {
        uint32_t word = 0u;
        for (int32_t i = 0; s.mask != NULL && i < 32 && 32 * w + i < a.n_ids; i++)
            word |= (uint32_t)(s.mask[32 * w + i] != 0.0f) << i;
        if (s.allowed_at >= 0)
            word |= ~(uint32_t)a.banned[s.allowed_at + w];
        bits[w] = word;
    }
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < s.n_banned; i += (int32_t)blockDim.x) {
        int32_t id = a.banned[s.banned_at + i];
        (void)atomicOr(&bits[id / 32], 1u << (id % 32));
    }
    __syncthreads();
}

LX_DEVICE int32_t choose(row *r)
{
    if (r->s.forced >= 0)
        return r->s.forced;
    if (!find_range(r))
        return -1;
    if (r->s.temperature == 0.0f)
        return first_greatest(*r);
    double total = sum_weights(*r, all_weights(*r), NULL);
    if (wants_typical(*r))
        total = keep_typical(r, total);
    float u = lx_uniform(r->s.seed, r->s.sample, r->s.step, 0);
    if (r->s.top_k > 0 || r->s.top_p < 1.0f || r->s.min_p > 0.0f)
        return draw_with_cuts(*r, total, u);
    return draw_in_order(*r, (double)u * total);
}

/* The largest logit; infinite when one is not finite. */
LX_DEVICE float scan(const row &r)
{
    float largest = -LX_INFINITY;
    for (int32_t i = (int32_t)threadIdx.x; i < r.n; i += (int32_t)blockDim.x) {
        float l = r.logits[i];
        l = fabsf(l) < LX_INFINITY ? l : LX_INFINITY;
        largest = l > largest ? l : largest;
    }
    return block_max(r.shared, largest);
}

LX_DEVICE lx_sample sample_of(const row &r, int32_t id, float largest, double log_sum)
{
    lx_sample s = {id, (float)((double)r.logits[id] - (double)largest - log_sum)};
    return s;
}

/* Whether an id with this logit comes after the last listed id. */
LX_DEVICE bool is_behind(float l, int32_t id, float last, int32_t last_id)
{
    return l < last || (l == last && id > last_id);
}

/* The ids with the largest logits, one by one, as they are few. */
LX_DEVICE void list_top(const row &r, lx_sample *top, float largest, double log_sum)
{
    float last = largest;
    int32_t last_id = -1;
    for (int32_t k = 0; k < r.s.n_top; k++) {
        float best = -LX_INFINITY;
        int32_t id = 0x7fffffff;
        for (int32_t i = (int32_t)threadIdx.x; i < r.n; i += (int32_t)blockDim.x) {
            if (r.logits[i] > best && is_behind(r.logits[i], i, last, last_id)) {
                best = r.logits[i];
                id = i;
            }
        }
        last = block_max(r.shared, best);
        last_id = block_min_id(r.shared, best == last ? id : 0x7fffffff);
        if (threadIdx.x == 0u)
            top[k] = sample_of(r, last_id, largest, log_sum);
    }
}

LX_DEVICE void list_nothing(const row &r, lx_sample *top)
{
    lx_sample none = {-1, LX_NAN};
    for (int32_t k = (int32_t)threadIdx.x; k < r.s.n_top; k += (int32_t)blockDim.x)
        top[k] = none;
}

/* By all threads of a block. */
LX_DEVICE lx_sample sample_row(const lx_cuda_sample &a, const lx_cuda_row &s, shared_row *shared)
{
    int64_t i = blockIdx.x;
    row r = {shared, s, a.logits + i * a.n_ids, NULL, NULL, a.n_ids, 0, 0, 0, false, 0};
    r.biases = (const lx_bias *)(const void *)(a.biases + s.bias_at);
    lx_sample out = {-1, LX_NAN};
    float largest = scan(r);
    if (largest < LX_INFINITY) {
        bool listed = r.s.mask != NULL || r.s.allowed_at >= 0 || r.s.n_banned > 0;
        if (r.s.forced < 0 && (listed || wants_typical(r))) {
            uint32_t *bits = a.bits + i * ((a.n_ids + 31) / 32);
            ban(a, r.s, bits);
            r.bits = bits;
        }
        out.token = choose(&r);
        weighting w = {largest, 1.0f, -LX_INFINITY, true, false};
        double log_sum = log(sum_weights(r, w, NULL));
        if (out.token >= 0) {
            out = sample_of(r, out.token, largest, log_sum);
            list_top(r, a.top + r.s.top_at, largest, log_sum);
        }
    }
    if (out.token < 0)
        list_nothing(r, a.top + r.s.top_at);
    return out;
}

LX_DEVICE void put(const lx_cuda_sample &a, const lx_cuda_row &s, lx_sample out)
{
    if (threadIdx.x != 0u)
        return;
    a.out[blockIdx.x] = out;
    if (s.keep_at >= 0)
        a.drawn[s.keep_at] = out.token;
}

LX_KERNEL(MOST_THREADS, 4) sample(const lx_cuda_sample a)
{
    LX_SHARED(shared_row, shared, );
    lx_let_next_begin();
    lx_wait_for_others();
    if ((int64_t)blockIdx.x >= *a.live)
        return; /* the whole block */
    const lx_cuda_row s = a.rows[blockIdx.x];
    put(a, s, sample_row(a, s, &shared));
}

/* Of at most BLOCKS blocks of ids. */
template <int BLOCKS> LX_KERNEL(32, 16) sample_few(const lx_cuda_sample a)
{
    LX_SHARED(shared_row, shared, );
    int64_t i = blockIdx.x;
    lx_let_next_begin();
    lx_wait_for_others();
    if (i >= *a.live)
        return; /* the whole block */
    const lx_cuda_row s = a.rows[i];
    put(a, s,
        is_plain(s) ? sample_plain<BLOCKS>(s, a.logits + i * a.n_ids, a.n_ids, shared.weight)
                    : sample_row(a, s, &shared));
}

extern "C" cudaError_t lx_cuda_launch_sample(const lx_cuda_sample *a, cudaStream_t stream)
{
    if (a->n_ids <= BLOCK)
        return LX_LAUNCH_EARLY(sample_few<1>, a->n_rows, 32, 0, stream, *a);
    if (a->n_ids <= FEW_IDS)
        return LX_LAUNCH_EARLY(sample_few<FEW_IDS / BLOCK>, a->n_rows, 32, 0, stream, *a);
    return LX_LAUNCH_EARLY(sample, a->n_rows, MOST_THREADS, 0, stream, *a);
}
