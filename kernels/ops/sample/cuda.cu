/*
 * Samples a row of logits a block, by the steps of cpu.c and with its sums (blocks of 256 ids in
 * f32, a half warp a block, then double in order), so with the same draws.
 *
 * Nothing but a bit an id is stored: a weight is computed where it is needed. All control flow is
 * the same in every thread of a block; what one thread finds reaches the others by shared memory.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/ops/sample/cuda.h"
#include "kernels/philox.h"

#define MOST_THREADS 256
#define FEW_IDS 512 /* up to here a warp does */
#define BLOCK 256   /* ids of a sum in f32 */
#define FEW 16      /* ids worth ordering one by one */

struct shared_row {
    float value[MOST_THREADS / 16];
    double sum[MOST_THREADS / 16];
    int32_t number;
    float weight[BLOCK];
    int32_t list[FEW];
    int32_t id;
    double found_sum;
    int32_t found_count;
};

struct row {
    shared_row *shared;
    lx_cuda_row s;
    const float *logits;
    const uint32_t *bits; /* banned ids; NULL for none */
    const lx_bias *biases;
    int32_t n;
    float least, greatest; /* of the allowed logits */
};

/* What is added to an id's logit; the list is sorted. */
LX_DEVICE float bias_of(const row &r, int32_t id)
{
    int32_t from = 0, to = r.s.n_biases;
    while (from < to) {
        int32_t at = (from + to) / 2;
        if (r.biases[at].id < id)
            from = at + 1;
        else
            to = at;
    }
    return from < r.s.n_biases && r.biases[from].id == id ? r.biases[from].add : 0.0f;
}

LX_DEVICE float logit_at(const row &r, int32_t i)
{
    bool banned = r.bits != NULL && (r.bits[i / 32] >> (i % 32) & 1u) != 0u;
    if (banned)
        return -LX_INFINITY;
    return r.s.n_biases > 0 ? r.logits[i] + bias_of(r, i) : r.logits[i];
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

/* What a sum adds up: exp((l - largest) / temperature) of the ids with l >= level. */
struct weighting {
    float largest, temperature, level;
    bool banned_too;
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
        bool there = l >= w.level;
        sum += there ? weight_of(w, l) : 0.0f;
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
    weighting w = {r.greatest, r.s.temperature, -LX_INFINITY, false};
    return w;
}

LX_DEVICE int32_t first_greatest(const row &r)
{
    int32_t id = 0x7fffffff;
    for (int32_t i = (int32_t)threadIdx.x; i < r.n && id == 0x7fffffff; i += (int32_t)blockDim.x)
        id = logit_at(r, i) == r.greatest ? i : id;
    return block_min_id(r.shared, id);
}

/* --- without cuts --- */

LX_DEVICE int32_t last_with_weight(const row &r)
{
    weighting w = all_weights(r);
    int32_t last = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < r.n; i += (int32_t)blockDim.x)
        last = weight_of(w, logit_at(r, i)) > 0.0f ? i : last;
    return -block_min_id(r.shared, -last);
}

/* Walks n weights; -1 when the sum is not exceeded and none is above 0. */
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

/* The id in one block of ids, or -1. All threads weigh, one adds up: order decides. */
LX_DEVICE int32_t draw_in_block(const row &r, const weighting &w, int32_t from, double sum,
                                double wanted)
{
    shared_row *s = r.shared;
    int32_t n = r.n - from < BLOCK ? r.n - from : BLOCK;
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += (int32_t)blockDim.x)
        s->weight[i] = weight_of(w, logit_at(r, from + i));
    __syncthreads();
    if (threadIdx.x == 0u) {
        int32_t at = walk_weights(s->weight, n, sum, wanted);
        s->id = at >= 0 ? from + at : -1;
    }
    __syncthreads();
    int32_t id = s->id;
    __syncthreads();
    return id;
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

/* --- a place in the order by logit --- */

/* The ids with logits >= level, their weight and number. */
struct place {
    float level;
    double sum;
    int32_t count;
};

enum goal { NUMBER_REACHES, SUM_REACHES, SUM_EXCEEDS };

LX_DEVICE bool is_reached(goal g, double wanted, double sum, int32_t count)
{
    if (g == NUMBER_REACHES)
        return (double)count >= wanted;
    return g == SUM_REACHES ? sum >= wanted : sum > wanted;
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

/* Halves the interval of values, and if that does not end soon, that of the floats in it. */
LX_DEVICE float middle(float low, float high, int32_t round)
{
    if (round < 24)
        return low * 0.5f + high * 0.5f;
    uint32_t a = key_of(low), b = key_of(high);
    return of_key(a + (b - a) / 2u);
}

/* Weight and number of the ids from a level on. */
LX_DEVICE place above(const row &r, float level)
{
    weighting w = all_weights(r);
    place p = {level, 0.0, 0};
    w.level = level;
    p.sum = sum_weights(r, w, &p.count);
    return p;
}

/*
 * Draws `before` and `from` together until few ids lie between them: the goal is not reached
 * before, and it is from there on. Equal logits cannot be told apart; then many stay.
 */
LX_DEVICE void close_in(const row &r, goal g, double wanted, place *before, place *from)
{
    for (int32_t i = 0; i < 64 && from->count - before->count > FEW; i++) {
        float level = middle(from->level, before->level, i);
        if (!(level > from->level && level < before->level))
            continue; /* halving values may end before halving floats does */
        place p = above(r, level);
        if (is_reached(g, wanted, p.sum, p.count))
            *from = p;
        else
            *before = p;
    }
}

/* --- ids at that place, in order --- */

/* An id, with the weight and number of all ids up to and with it. */
struct found {
    int32_t id;
    double sum;
    int32_t count;
};

/* Takes ids in order until the goal is reached; one thread does it. */
struct walk {
    goal g;
    double wanted;
    found f;
    bool ended;
};

LX_DEVICE void take_id(const row &r, walk *w, int32_t id)
{
    w->f.id = id;
    w->f.sum += (double)weight_of(all_weights(r), logit_at(r, id));
    w->f.count++;
    w->ended = is_reached(w->g, w->wanted, w->f.sum, w->f.count);
}

LX_DEVICE bool comes_first(const row &r, int32_t a, int32_t b)
{
    float la = logit_at(r, a), lb = logit_at(r, b);
    return la > lb || (la == lb && a < b);
}

LX_DEVICE void walk_list(const row &r, walk *w, int32_t *list, int32_t n)
{
    while (n > 0 && !w->ended) {
        int32_t best = 0;
        for (int32_t i = 1; i < n; i++)
            best = comes_first(r, list[i], list[best]) ? i : best;
        take_id(r, w, list[best]);
        list[best] = list[--n];
    }
}

LX_DEVICE bool lies_between(const row &r, int32_t i, const place &before, const place &from)
{
    float l = logit_at(r, i);
    return l >= from.level && l < before.level;
}

/* The ids between two places into the shared list, in any order. */
LX_DEVICE void list_ids(const row &r, const place &before, const place &from)
{
    if (threadIdx.x == 0u)
        r.shared->number = 0;
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < r.n; i += (int32_t)blockDim.x) {
        if (lies_between(r, i, before, from))
            r.shared->list[atomicAdd(&r.shared->number, 1)] = i;
    }
    __syncthreads();
}

/* The first id in the order by logit, equals by id, at which the goal is reached; else the last. */
LX_DEVICE found find(const row &r, goal g, double wanted)
{
    /* the next float above the greatest; + 0 because -0 is not below +0 */
    place before = {of_key(key_of(r.greatest + 0.0f) + 1u), 0.0, 0};
    place from = above(r, r.least);
    close_in(r, g, wanted, &before, &from);
    bool few = from.count - before.count <= FEW; /* else they are equals */
    if (few)
        list_ids(r, before, from);
    if (threadIdx.x == 0u) {
        walk w = {g, wanted, {0, before.sum, before.count}, false};
        if (few)
            walk_list(r, &w, r.shared->list, from.count - before.count);
        for (int32_t i = 0; !few && i < r.n && !w.ended; i++) {
            if (lies_between(r, i, before, from))
                take_id(r, &w, i);
        }
        r.shared->id = w.f.id;
        r.shared->found_sum = w.f.sum;
        r.shared->found_count = w.f.count;
    }
    __syncthreads();
    found f = {r.shared->id, r.shared->found_sum, r.shared->found_count};
    __syncthreads();
    return f;
}

/* --- with cuts --- */

LX_DEVICE bool has_weight(const row &r, int32_t id)
{
    return weight_of(all_weights(r), logit_at(r, id)) > 0.0f;
}

/* See draw_with_cuts of cpu.c. */
LX_DEVICE int32_t draw_with_cuts(const row &r, double total, float u)
{
    found last = {-1, total, r.n};
    if (r.s.top_k > 0)
        last = find(r, NUMBER_REACHES, (double)r.s.top_k);
    if (r.s.top_p < 1.0f) {
        found f = find(r, SUM_REACHES, (double)r.s.top_p * last.sum);
        last = f.count < last.count ? f : last;
    }
    found f = find(r, SUM_EXCEEDS, (double)u * last.sum);
    if (f.count <= last.count && has_weight(r, f.id))
        return f.id;
    if (last.id >= 0 && has_weight(r, last.id))
        return last.id;
    return first_greatest(r);
}

/* --- one row --- */

/* Marks the ids that mask and list ban; the bits are this block's alone. */
LX_DEVICE void ban(const lx_cuda_sample &a, const lx_cuda_row &s, uint32_t *bits)
{
    for (int32_t w = (int32_t)threadIdx.x; w < (a.n_ids + 31) / 32; w += (int32_t)blockDim.x) {
        uint32_t word = 0u;
        for (int32_t i = 0; s.mask != NULL && i < 32 && 32 * w + i < a.n_ids; i++)
            word |= (uint32_t)(s.mask[32 * w + i] != 0.0f) << i;
        bits[w] = word;
    }
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < s.n_banned; i += (int32_t)blockDim.x) {
        int32_t id = a.banned[s.banned_at + i];
        (void)atomicOr(&bits[id / 32], 1u << (id % 32));
    }
    __syncthreads();
}

/* Least and greatest of the allowed logits; false when there are none. */
LX_DEVICE bool find_range(row *r)
{
    float low = -LX_INFINITY, high = -LX_INFINITY; /* low: of -l */
    for (int32_t i = (int32_t)threadIdx.x; i < r->n; i += (int32_t)blockDim.x) {
        float l = logit_at(*r, i);
        high = l > high ? l : high;
        low = l > -LX_INFINITY && -l > low ? -l : low;
    }
    r->least = -block_max(r->shared, low);
    r->greatest = block_max(r->shared, high);
    return r->greatest > -LX_INFINITY;
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
    float u = lx_uniform(r->s.seed, r->s.sample, r->s.step, 0);
    if (r->s.top_k > 0 || r->s.top_p < 1.0f)
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

/* Whether an id with this logit comes behind the one that was listed last. */
LX_DEVICE bool is_behind(float l, int32_t id, float last, int32_t last_id)
{
    return l < last || (l == last && id > last_id);
}

/* The ids with the largest logits, one after the other; they are few. */
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

LX_KERNEL(MOST_THREADS) sample(const lx_cuda_sample a)
{
    LX_SHARED shared_row shared;
    int64_t i = blockIdx.x;
    if (i >= *a.live)
        return; /* the whole block */
    row r = {&shared, a.rows[i], a.logits + i * a.n_ids, NULL, NULL, a.n_ids, 0.0f, 0.0f};
    r.biases = a.biases + r.s.bias_at;
    lx_sample out = {-1, LX_NAN};
    float largest = scan(r);
    if (largest < LX_INFINITY) {
        if (r.s.forced < 0 && (r.s.mask != NULL || r.s.n_banned > 0)) {
            uint32_t *bits = a.bits + i * ((a.n_ids + 31) / 32);
            ban(a, r.s, bits);
            r.bits = bits;
        }
        out.token = choose(&r);
        weighting w = {largest, 1.0f, -LX_INFINITY, true};
        double log_sum = log(sum_weights(r, w, NULL));
        if (out.token >= 0) {
            out = sample_of(r, out.token, largest, log_sum);
            list_top(r, a.top + r.s.top_at, largest, log_sum);
        }
    }
    if (out.token < 0)
        list_nothing(r, a.top + r.s.top_at);
    if (threadIdx.x == 0u) {
        a.out[i] = out;
        if (a.rows[i].keep_at >= 0)
            a.drawn[a.rows[i].keep_at] = out.token;
    }
}

extern "C" cudaError_t lx_cuda_launch_sample(const lx_cuda_sample *a, cudaStream_t stream)
{
    return LX_LAUNCH(sample, a->n_rows, a->n_ids <= FEW_IDS ? 32 : MOST_THREADS, 0, stream, *a);
}
