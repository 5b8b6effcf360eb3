/*
 * Samples one output row as lx_sampling in kernels.h says, in the back end so that logits need not
 * leave it. One row is one thread's work, so nothing here depends on batch or threads.
 *
 * Weights are exp((logit - largest) / temperature) in f32; their sums go on in double after blocks
 * of LX_CPU_BLOCK. Without cuts the draw walks block sums, then one block. With cuts the candidates
 * form a heap and only as many are taken from its top as the cuts keep, so no whole vocabulary is
 * sorted; for top_p alone, ids too light to belong to the prefix never enter it.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/philox.h"

/* scratch: n_ids allowed logits (banned: -infinity), n_ids weights, n_ids ids of the heap */
typedef struct row {
    const lx_cpu_isa *isa;
    const lx_sampling *s;
    int32_t n;
    float *logits, *weights;
    int32_t *heap;
    int32_t n_heap;
} row;

int64_t lx_cpu_sample_scratch(int32_t n_ids)
{
    return 3 * (((int64_t)n_ids + 15) / 16 * 16);
}

/* --- without cuts ----------------------------------------------------------------------------- */

static int32_t last_with_weight(const row *r)
{
    int32_t i = r->n - 1;
    while (i > 0 && !(r->weights[i] > 0))
        i--;
    return i;
}

/* The first id whose cumulative weight exceeds `wanted`, in the order of ids. */
static int32_t draw_in_order(const row *r, double wanted)
{
    double sum = 0;
    for (int32_t from = 0; from < r->n; from += LX_CPU_BLOCK) {
        int32_t n = r->n - from < LX_CPU_BLOCK ? r->n - from : LX_CPU_BLOCK;
        double block = r->isa->sum(r->weights + from, n);
        if (sum + block <= wanted) {
            sum += block;
            continue;
        }
        int32_t last = -1;
        for (int32_t i = from; i < from + n; i++) {
            sum += (double)r->weights[i];
            if (sum > wanted)
                return i;
            last = r->weights[i] > 0 ? i : last;
        }
        if (last >= 0) /* the block's own sum was greater by a rounding */
            return last;
    }
    return last_with_weight(r);
}

/* --- with cuts -------------------------------------------------------------------------------- */

static bool before(const row *r, int32_t a, int32_t b)
{
    float la = r->logits[a], lb = r->logits[b];
    return la > lb || (la == lb && a < b);
}

static void sift_down(row *r, int32_t i)
{
    int32_t id = r->heap[i];
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= r->n_heap)
            break;
        if (child + 1 < r->n_heap && before(r, r->heap[child + 1], r->heap[child]))
            child++;
        if (!before(r, r->heap[child], id))
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = id;
}

/* All allowed ids that weigh at least `least`. */
static void build_heap(row *r, double least)
{
    r->n_heap = 0;
    for (int32_t i = 0; i < r->n; i++) {
        if ((double)r->weights[i] >= least && r->logits[i] > -INFINITY)
            r->heap[r->n_heap++] = i;
    }
    for (int32_t i = r->n_heap / 2 - 1; i >= 0; i--)
        sift_down(r, i);
}

/* Takes the first id off the heap and puts it behind the heap's end: the kept ids, from the back.
 */
static int32_t pop(row *r)
{
    int32_t id = r->heap[0];
    r->heap[0] = r->heap[--r->n_heap];
    r->heap[r->n_heap] = id;
    if (r->n_heap > 0)
        sift_down(r, 0);
    return id;
}

/* The weights of the first k ids in order, summed; leaves the heap without them. */
static double pop_k(row *r, int32_t k)
{
    double sum = 0;
    for (int32_t i = 0; i < k && r->n_heap > 0; i++)
        sum += (double)r->weights[pop(r)];
    return sum;
}

/* Kept ids: kept[0], kept[-1], ... until their weights reach `wanted`, at least one, at most n. */
static int32_t prefix(const row *r, const int32_t *kept, int32_t n, double wanted, double *sum)
{
    *sum = 0;
    for (int32_t i = 0; i < n; i++) {
        *sum += (double)r->weights[kept[-i]];
        if (*sum >= wanted)
            return i + 1;
    }
    return n;
}

static int32_t draw_kept(const row *r, const int32_t *kept, int32_t n, double wanted)
{
    double sum = 0;
    int32_t last = kept[0];
    for (int32_t i = 0; i < n; i++) {
        int32_t id = kept[-i];
        sum += (double)r->weights[id];
        if (sum > wanted)
            return id;
        last = r->weights[id] > 0 ? id : last;
    }
    return last;
}

static int32_t draw_top_k(row *r, float u)
{
    build_heap(r, 0);
    const int32_t *kept = r->heap + r->n_heap - 1;
    int32_t n = r->s->top_k < r->n_heap ? r->s->top_k : r->n_heap;
    double sum = pop_k(r, n);
    if (r->s->top_p < 1)
        n = prefix(r, kept, n, (double)r->s->top_p * sum, &sum);
    return draw_kept(r, kept, n, (double)u * sum);
}

/*
 * The ids lighter than (1 - top_p) total / n together weigh less than what the prefix leaves out,
 * so they are behind its end; half of that keeps clear of roundings.
 */
static int32_t draw_top_p(row *r, double total, float u)
{
    double wanted = (double)r->s->top_p * total, sum = 0;
    build_heap(r, 0.5 * (total - wanted) / r->n);
    const int32_t *kept = r->heap + r->n_heap - 1;
    int32_t n = 0;
    while (r->n_heap > 0 && (n == 0 || sum < wanted)) {
        sum += (double)r->weights[pop(r)];
        n++;
    }
    return draw_kept(r, kept, n, (double)u * sum);
}

/* --- one row ---------------------------------------------------------------------------------- */

static int32_t first_equal(const float *x, int32_t n, float value)
{
    int32_t i = 0;
    while (i < n - 1 && x[i] != value)
        i++;
    return i;
}

static int32_t choose(row *r, const float *logits)
{
    const lx_sampling *s = r->s;
    if (s->forced >= 0)
        return s->forced;
    r->isa->add(r->logits, logits, s->mask != NULL ? s->mask->bias : NULL, r->n);
    for (int32_t i = 0; i < s->n_banned; i++)
        r->logits[s->banned[i]] = -INFINITY;
    float largest = r->isa->largest(r->logits, r->n);
    if (largest == -INFINITY)
        return -1;
    if (s->temperature == 0)
        return first_equal(r->logits, r->n, largest);
    double total = r->isa->weights(r->weights, r->logits, r->n, largest, s->temperature);
    float u = lx_uniform(s->seed, s->sample, s->step, 0);
    if (s->top_k > 0)
        return draw_top_k(r, u);
    if (s->top_p < 1)
        return draw_top_p(r, total, u);
    return draw_in_order(r, (double)u * total);
}

lx_sample lx_cpu_sample_row(const lx_cpu_isa *isa, const lx_sampling *s, const float *logits,
                            int32_t n_ids, float *scratch)
{
    int64_t stride = lx_cpu_sample_scratch(n_ids) / 3;
    row r = {.isa = isa,
             .s = s,
             .n = n_ids,
             .logits = scratch,
             .weights = scratch + stride,
             .heap = (int32_t *)(void *)(scratch + 2 * stride)};
    float largest;
    if (!isa->scan(logits, n_ids, &largest))
        return (lx_sample){-1, NAN};
    int32_t token = choose(&r, logits);
    if (token < 0)
        return (lx_sample){-1, NAN};
    double sum = isa->weights(r.weights, logits, n_ids, largest, 1.0f);
    return (lx_sample){token, (float)((double)logits[token] - (double)largest - log(sum))};
}
