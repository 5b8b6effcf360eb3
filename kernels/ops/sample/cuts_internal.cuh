/*
 * Drawing with top_k or top_p: halving finds the place in the order by logit that reaches a number
 * or a sum. The ids there are taken one by one.
 */
#ifndef LINNET_OPS_SAMPLE_CUTS_INTERNAL_CUH
#define LINNET_OPS_SAMPLE_CUTS_INTERNAL_CUH

#include "kernels/ops/sample/row_internal.cuh"

/* --- a place in the order by logit --- */

/* The ids with keys >= level, their weight and number. */
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

/* Halves the interval of values, and if that does not end soon, that of the floats in it. */
LX_DEVICE float middle(float low, float high, int32_t round)
{
    if (round < 24)
        return low * 0.5f + high * 0.5f;
    uint32_t a = key_of(low), b = key_of(high);
    return of_key(a + (b - a) / 2u);
}

/* Weight and number of the ids from a level of keys on. */
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
    float la = key_at(r, a), lb = key_at(r, b);
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
    float l = key_at(r, i);
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
    return f;
}

/* --- typical ids; see cpu.c --- */

LX_DEVICE bool wants_typical(const row &r)
{
    return r.s.typical_p > 0.0f && r.s.typical_p < 1.0f;
}

/* Bans the ids after this id in the order of keys, and weighs the rest again by their logits. */
LX_DEVICE double drop_behind(row *r, int32_t id)
{
    float limit = key_at(*r, id);
    __syncthreads(); /* no bit changes before all have the limit */
    for (int32_t w = (int32_t)threadIdx.x; w < (r->n + 31) / 32; w += (int32_t)blockDim.x) {
        uint32_t word = r->bits[w];
        for (int32_t i = 32 * w; i < 32 * w + 32 && i < r->n; i++) {
            float key = key_at(*r, i);
            word |= (uint32_t)(key < limit || (key == limit && i > id)) << (i % 32);
        }
        r->bits[w] = word;
    }
    __syncthreads();
    r->by_distance = false;
    (void)find_range(r);
    return sum_weights(*r, all_weights(*r), NULL);
}

LX_DEVICE double keep_typical(row *r, double total)
{
    if (r->s.top_k > 0)
        total = drop_behind(r, find(*r, NUMBER_REACHES, (double)r->s.top_k).id);
    weighting w = all_weights(*r);
    w.moment = true;
    r->center = (float)((double)r->largest + sum_weights(*r, w, NULL) / total);
    r->by_distance = true;
    (void)find_range(r);
    return drop_behind(r, find(*r, SUM_REACHES, (double)r->s.typical_p * total).id);
}

/* --- with cuts --- */

/* The last id with min_p times the largest probability. */
LX_DEVICE found find_min_p(const row &r)
{
    double log_p = log((double)r.s.min_p);
    float level = (float)((double)r.greatest + (double)r.s.temperature * log_p);
    int32_t count = above(r, level).count;
    return find(r, NUMBER_REACHES, (double)(count > 1 ? count : 1));
}

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
    if (r.s.min_p > 0.0f) {
        found f = find_min_p(r);
        last = f.count < last.count ? f : last;
    }
    found f = find(r, SUM_EXCEEDS, (double)u * last.sum);
    if (f.count <= last.count && has_weight(r, f.id))
        return f.id;
    if (last.id >= 0 && has_weight(r, last.id))
        return last.id;
    return first_greatest(r);
}

#endif
