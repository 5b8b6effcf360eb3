/*
 * Samples one output row as lx_sampling in op.h says, in the back end so that logits need not
 * leave it. One row is one thread's work, so nothing here depends on batch or threads.
 *
 * Weights are exp((logit - largest) / temperature) in f32. Sums of blocks of LX_CPU_BLOCK are f32,
 * sums of blocks double. Without cuts the draw walks block sums, then one block. With cuts only a
 * few ids are sorted. Weight and number of the ids above a level are cheap to find, so halving
 * finds the level of a cut or of a draw. Only the ids at that level are put in order.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/philox.h"

#define FEW 16 /* ids worth ordering one by one */

/* scratch, n_ids of each: allowed logits (banned: -infinity), weights, ids of the heap, distances
 */
typedef struct row {
    const lx_cpu_isa *isa;
    const lx_sampling *s;
    int32_t n;
    float *logits, *weights, *distances;
    float least, greatest; /* of the allowed logits */
    int32_t *heap;
    int32_t n_heap;
} row;

/* Of each of the four. */
static int64_t stride_of(int32_t n_ids)
{
    return ((int64_t)n_ids + 15) / 16 * 16;
}

static int32_t first_equal(const float *x, int32_t n, float value)
{
    int32_t i = 0;
    while (i < n - 1 && x[i] != value)
        i++;
    return i;
}

/* --- without cuts --- */

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
        double block = r->isa->sample->sum(r->weights + from, n);
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

/* --- a place in the order by logit --- */

/* The ids with logits >= level, their weight and number. */
typedef struct place {
    float level;
    double sum;
    int32_t count;
} place;

typedef enum goal { NUMBER_REACHES, SUM_REACHES, SUM_EXCEEDS } goal;

static bool is_reached(goal g, double wanted, double sum, int32_t count)
{
    if (g == NUMBER_REACHES)
        return (double)count >= wanted;
    return g == SUM_REACHES ? sum >= wanted : sum > wanted;
}

/* Whole numbers in the order of the floats. */
static uint32_t key_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static float of_key(uint32_t key)
{
    uint32_t bits = (key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Halves the interval of values, and if that does not end soon, that of the floats in it. */
static float middle(float low, float high, int32_t round)
{
    if (round < 24)
        return low * 0.5f + high * 0.5f;
    uint32_t a = key_of(low), b = key_of(high);
    return of_key(a + (b - a) / 2);
}

/*
 * Draws `before` and `from` together until few ids lie between them: the goal is not reached
 * before, and it is from there on. Equal logits cannot be told apart; then many stay.
 */
static void close_in(const row *r, goal g, double wanted, place *before, place *from)
{
    for (int32_t i = 0; i < 64 && from->count - before->count > FEW; i++) {
        place p = {.level = middle(from->level, before->level, i)};
        if (!(p.level > from->level && p.level < before->level))
            continue; /* halving values may end before halving floats does */
        p.sum = r->isa->sample->above(r->logits, r->weights, r->n, p.level, &p.count);
        if (is_reached(g, wanted, p.sum, p.count))
            *from = p;
        else
            *before = p;
    }
}

/* --- ids at that place, in order --- */

static bool comes_first(const row *r, int32_t a, int32_t b)
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
        if (child + 1 < r->n_heap && comes_first(r, r->heap[child + 1], r->heap[child]))
            child++;
        if (!comes_first(r, r->heap[child], id))
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = id;
}

static void build_heap(row *r, const place *before, const place *from)
{
    r->n_heap = 0;
    for (int32_t i = 0; i < r->n; i++) {
        if (r->logits[i] >= from->level && r->logits[i] < before->level)
            r->heap[r->n_heap++] = i;
    }
    for (int32_t i = r->n_heap / 2 - 1; i >= 0; i--)
        sift_down(r, i);
}

static int32_t pop(row *r)
{
    int32_t id = r->heap[0];
    r->heap[0] = r->heap[--r->n_heap];
    if (r->n_heap > 0)
        sift_down(r, 0);
    return id;
}

/* An id, with the weight and number of all ids up to and with it. */
typedef struct found {
    int32_t id;
    double sum;
    int32_t count;
} found;

/* The first id in the order by logit, equals by id, at which the goal is reached; else the last. */
static found find(row *r, goal g, double wanted)
{
    /* the next float above the greatest; + 0 because -0 is not below +0 */
    place before = {.level = of_key(key_of(r->greatest + 0.0f) + 1)}, from = {.level = r->least};
    from.sum = r->isa->sample->above(r->logits, r->weights, r->n, r->least, &from.count);
    close_in(r, g, wanted, &before, &from);
    build_heap(r, &before, &from);
    found f = {.sum = before.sum, .count = before.count};
    while (r->n_heap > 0) {
        f.id = pop(r);
        f.sum += (double)r->weights[f.id];
        f.count++;
        if (is_reached(g, wanted, f.sum, f.count))
            break;
    }
    return f;
}

/* --- typical ids --- */

/* Bans the ids after this id in `order`, and weighs the rest again. */
static double drop_behind(row *r, const row *order, int32_t id)
{
    for (int32_t i = 0; i < r->n; i++) {
        if (comes_first(order, id, i))
            r->logits[i] = -INFINITY;
    }
    (void)r->isa->sample->range(r->logits, r->n, &r->least, &r->greatest);
    return r->isa->sample->weights(r->weights, r->logits, r->n, r->greatest, r->s->temperature);
}

static float center_of(const row *r, double total)
{
    double sum = 0;
    for (int32_t i = 0; i < r->n; i++) {
        if (r->weights[i] > 0)
            sum += (double)r->weights[i] * ((double)r->logits[i] - (double)r->greatest);
    }
    return (float)((double)r->greatest + sum / total);
}

/* Negates the distances, so that the order by logit sorts the nearest first. */
static double keep_typical(row *r, double total)
{
    if (r->s->top_k > 0)
        total = drop_behind(r, r, find(r, NUMBER_REACHES, r->s->top_k).id);
    float center = center_of(r, total);
    row order = *r;
    order.logits = r->distances;
    for (int32_t i = 0; i < r->n; i++)
        r->distances[i] = (float)-fabs((double)r->logits[i] - (double)center);
    (void)r->isa->sample->range(order.logits, r->n, &order.least, &order.greatest);
    found last = find(&order, SUM_REACHES, (double)r->s->typical_p * total);
    return drop_behind(r, &order, last.id);
}

/* --- with cuts --- */

/* The last id with min_p times the largest probability. */
static found find_min_p(row *r)
{
    int32_t count = 0;
    double log_p = log((double)r->s->min_p);
    float level = (float)((double)r->greatest + (double)r->s->temperature * log_p);
    (void)r->isa->sample->above(r->logits, r->weights, r->n, level, &count);
    return find(r, NUMBER_REACHES, count > 1 ? count : 1);
}

/*
 * Finds the last id that is kept, then draws one of the ids up to it. Two sums over the same ids
 * may differ in their last bits, so a draw at the very end may point past the last id. Then the
 * result is the last id or, if its weight is 0, the first.
 */
static int32_t draw_with_cuts(row *r, double total, float u)
{
    found last = {.id = -1, .sum = total, .count = r->n};
    if (r->s->top_k > 0)
        last = find(r, NUMBER_REACHES, r->s->top_k);
    if (r->s->top_p < 1) {
        found f = find(r, SUM_REACHES, (double)r->s->top_p * last.sum);
        last = f.count < last.count ? f : last;
    }
    if (r->s->min_p > 0) {
        found f = find_min_p(r);
        last = f.count < last.count ? f : last;
    }
    found f = find(r, SUM_EXCEEDS, (double)u * last.sum);
    if (f.count <= last.count && r->weights[f.id] > 0)
        return f.id;
    if (last.id >= 0 && r->weights[last.id] > 0)
        return last.id;
    return first_equal(r->logits, r->n, r->greatest);
}

/* --- one row --- */

/* Of a masked id -infinity stays. */
static void apply_biases(row *r)
{
    for (int32_t i = 0; i < r->s->n_biases; i++) {
        const lx_bias *b = &r->s->biases[i];
        float l = r->logits[b->id];
        if (!(l > -INFINITY))
            continue;
        if (b->divisor > 0)
            l = l > 0 ? l / b->divisor : l * b->divisor;
        r->logits[b->id] = fmaxf(-LX_MAX_LOGIT, fminf(l + b->add, LX_MAX_LOGIT));
    }
}

/* Four ids at a time, as the compiler adds four floats at once. The row has room for whole words.
 */
static void keep_allowed(row *r)
{
    enum { AT_ONCE = 4 };
    float bias[1 << AT_ONCE][AT_ONCE];
    for (int32_t i = 0; i < 1 << AT_ONCE; i++) {
        for (int32_t k = 0; k < AT_ONCE; k++)
            bias[i][k] = (i >> k & 1) != 0 ? 0.0f : -INFINITY;
    }
    for (int32_t from = 0; from < r->n; from += AT_ONCE) {
        const float *add = bias[r->s->allowed[from / 32] >> (from % 32) & ((1 << AT_ONCE) - 1)];
        for (int32_t k = 0; k < AT_ONCE; k++)
            r->logits[from + k] += add[k];
    }
}

static int32_t choose(row *r, const float *logits)
{
    const lx_sampling *s = r->s;
    if (s->forced >= 0)
        return s->forced;
    r->isa->sample->add(r->logits, logits, s->mask != NULL ? s->mask->bias : NULL, r->n);
    apply_biases(r);
    if (s->allowed != NULL)
        keep_allowed(r);
    for (int32_t i = 0; i < s->n_banned; i++)
        r->logits[s->banned[i]] = -INFINITY;
    if (!r->isa->sample->range(r->logits, r->n, &r->least, &r->greatest))
        return -1;
    if (s->temperature == 0)
        return first_equal(r->logits, r->n, r->greatest);
    double total =
        r->isa->sample->weights(r->weights, r->logits, r->n, r->greatest, s->temperature);
    if (s->typical_p > 0 && s->typical_p < 1)
        total = keep_typical(r, total);
    float u = lx_uniform(s->seed, s->sample, s->step, 0);
    if (s->top_k > 0 || s->top_p < 1 || s->min_p > 0)
        return draw_with_cuts(r, total, u);
    return draw_in_order(r, (double)u * total);
}

/* Where the log-probabilities' zero lies. */
typedef struct norm {
    double largest, log_sum;
} norm;

static lx_sample sample_of(const float *logits, int32_t id, const norm *z)
{
    return (lx_sample){id, (float)((double)logits[id] - z->largest - z->log_sum)};
}

/* The n ids with the largest logits, in order, into ids: few, so each is put in its place. */
static void list_top(const float *logits, int32_t n_ids, int32_t *ids, int32_t n)
{
    int32_t count = 0;
    for (int32_t id = 0; id < n_ids && n > 0; id++) {
        if (count == n && !(logits[id] > logits[ids[n - 1]]))
            continue;
        int32_t at = count < n ? count++ : n - 1;
        for (; at > 0 && logits[id] > logits[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

static lx_sample nothing(const lx_sampling *s)
{
    for (int32_t i = 0; i < s->n_top; i++)
        s->top[i] = (lx_sample){-1, NAN};
    return (lx_sample){-1, NAN};
}

static lx_sample sample_row(const lx_cpu_isa *isa, const lx_sampling *s, const float *logits,
                            int32_t n_ids, float *scratch)
{
    int64_t stride = stride_of(n_ids);
    row r = {.isa = isa,
             .s = s,
             .n = n_ids,
             .logits = scratch,
             .weights = scratch + stride,
             .distances = scratch + 3 * stride,
             .heap = (int32_t *)(void *)(scratch + 2 * stride)};
    float largest;
    if (!isa->sample->scan(logits, n_ids, &largest))
        return nothing(s);
    int32_t token = choose(&r, logits);
    if (token < 0)
        return nothing(s);
    double sum = isa->sample->weights(r.weights, logits, n_ids, largest, 1.0f);
    norm z = {(double)largest, log(sum)};
    int32_t top[LX_MAX_TOP] = {0};
    list_top(logits, n_ids, top, s->n_top);
    for (int32_t i = 0; i < s->n_top; i++)
        s->top[i] = sample_of(logits, top[i], &z);
    return sample_of(logits, token, &z);
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_sample_args *a = args;
    lx_cpu_range rows = lx_cpu_shared_rows(part, LX_ROWS_OUTPUTS);
    for (int64_t i = rows.from; i < rows.to; i++)
        a->out[i] =
            sample_row(c->isa, &a->rows[i], a->logits->data + i * a->n_ids, a->n_ids, scratch);
}

static int64_t scratch_floats(const void *args)
{
    return 4 * stride_of(((const lx_sample_args *)args)->n_ids);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    (void)args;
    return c->batch->n_outputs;
}

LX_DEFINE_CPU(sample, .scratch = scratch_floats, .pieces = pieces, .run = run);
