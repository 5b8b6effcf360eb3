/*
 * The oracle's sampler: the text at lx_sampling in op.h, step by step. All allowed ids are
 * listed, sorted when a cut asks for it, cut, and walked with the uniform number; sums in double.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"
#include "kernels/reference/reference.h"

typedef struct candidate {
    float logit;
    int32_t id;
    double weight;  /* exp(l - largest l) */
    float distance; /* of the logit from the typical value */
} candidate;

static int by_logit_then_id(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_id(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_distance_then_id(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static bool all_finite(const float *logits, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return false;
    }
    return true;
}

static double log_softmax(const float *logits, int32_t n, int32_t id)
{
    double largest = (double)logits[0], sum = 0;
    for (int32_t i = 1; i < n; i++)
        largest = fmax(largest, (double)logits[i]);
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - largest);
    return (double)logits[id] - largest - log(sum);
}

static bool is_banned(const lx_sampling *s, int32_t id)
{
    for (int32_t i = 0; i < s->n_banned; i++) {
        if (s->banned[i] == id)
            return true;
    }
    if (s->allowed != NULL && (s->allowed[id / 32] >> (id % 32) & 1) == 0)
        return true;
    return s->mask != NULL && s->mask->bias[id] != 0;
}

static float biased(const lx_sampling *s, float logit, int32_t id)
{
    for (int32_t i = 0; i < s->n_biases; i++) {
        const lx_bias *b = &s->biases[i];
        if (b->id != id)
            continue;
        if (b->divisor > 0)
            logit = logit > 0 ? logit / b->divisor : logit * b->divisor;
        return fmaxf(-LX_MAX_LOGIT, fminf(logit + b->add, LX_MAX_LOGIT));
    }
    return logit;
}

static int32_t list_allowed(const lx_sampling *s, const float *logits, int32_t n, candidate *list)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!is_banned(s, i))
            list[count++] = (candidate){biased(s, logits[i], i), i, 0, 0};
    }
    return count;
}

static void set_weights(candidate *list, int32_t count, float temperature)
{
    double largest = (double)list[0].logit;
    for (int32_t i = 1; i < count; i++)
        largest = fmax(largest, (double)list[i].logit);
    for (int32_t i = 0; i < count; i++)
        list[i].weight = exp(((double)list[i].logit - largest) / (double)temperature);
}

static double total_weight(const candidate *list, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += list[i].weight;
    return sum;
}

/* The shortest prefix whose share of the whole list's weight reaches top_p. */
static int32_t cut_top_p(const candidate *list, int32_t count, float top_p)
{
    double wanted = (double)top_p * total_weight(list, count), sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += list[i].weight;
        if (sum >= wanted)
            return i + 1;
    }
    return count;
}

/* Those nearest to the mean logit come first, and as many are kept as have the share; in the order
   by logit again. */
static int32_t cut_typical(candidate *list, int32_t count, const lx_sampling *s)
{
    double largest = (double)list[0].logit, sum = 0, total = total_weight(list, count);
    for (int32_t i = 0; i < count; i++)
        sum += list[i].weight * ((double)list[i].logit - largest);
    float center = (float)(largest + sum / total);
    for (int32_t i = 0; i < count; i++)
        list[i].distance = (float)fabs((double)list[i].logit - (double)center);
    qsort(list, (size_t)count, sizeof *list, by_distance_then_id);
    count = cut_top_p(list, count, s->typical_p);
    qsort(list, (size_t)count, sizeof *list, by_logit_then_id);
    set_weights(list, count, s->temperature);
    return count;
}

static int32_t cut_min_p(const candidate *list, int32_t count, const lx_sampling *s)
{
    float level = (float)((double)list[0].logit + (double)s->temperature * log((double)s->min_p));
    while (count > 1 && !(list[count - 1].logit >= level))
        count--;
    return count;
}

static int32_t draw(const candidate *list, int32_t count, float u)
{
    double wanted = (double)u * total_weight(list, count), sum = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += list[i].weight;
        if (sum > wanted)
            return list[i].id;
        if (list[i].weight > 0)
            last = i;
    }
    return list[last].id;
}

static int32_t choose(const lx_sampling *s, const float *logits, int32_t n, candidate *list)
{
    if (s->forced >= 0)
        return s->forced;
    int32_t count = list_allowed(s, logits, n, list);
    if (count == 0)
        return -1;
    bool typical = s->typical_p > 0 && s->typical_p < 1;
    bool sorted = s->top_k > 0 || s->top_p < 1 || s->min_p > 0;
    if (s->temperature == 0 || sorted || typical)
        qsort(list, (size_t)count, sizeof *list, by_logit_then_id);
    if (s->temperature == 0)
        return list[0].id;
    if (s->top_k > 0 && s->top_k < count)
        count = s->top_k;
    set_weights(list, count, s->temperature);
    if (typical)
        count = cut_typical(list, count, s);
    if (s->top_p < 1)
        count = cut_top_p(list, count, s->top_p);
    if (s->min_p > 0)
        count = cut_min_p(list, count, s);
    if (!sorted)
        qsort(list, (size_t)count, sizeof *list, by_id);
    return draw(list, count, lx_uniform(s->seed, s->sample, s->step, 0));
}

static void list_top(const lx_sampling *s, const float *logits, int32_t n, candidate *list)
{
    for (int32_t i = 0; i < n; i++)
        list[i] = (candidate){logits[i], i, 0, 0};
    qsort(list, (size_t)n, sizeof *list, by_logit_then_id);
    for (int32_t i = 0; i < s->n_top; i++)
        s->top[i] = (lx_sample){list[i].id, (float)log_softmax(logits, n, list[i].id)};
}

static lx_sample sample_row(const lx_sampling *s, const float *logits, int32_t n, candidate *list)
{
    int32_t token = all_finite(logits, n) ? choose(s, logits, n, list) : -1;
    for (int32_t i = 0; i < s->n_top; i++)
        s->top[i] = (lx_sample){-1, NAN};
    if (token < 0)
        return (lx_sample){-1, NAN};
    if (s->n_top > 0)
        list_top(s, logits, n, list);
    return (lx_sample){token, (float)log_softmax(logits, n, token)};
}

lx_status lx_reference_sample(const lx_batch *b, const void *args)
{
    const lx_sample_args *a = args;
    candidate *list = calloc((size_t)a->n_ids, sizeof *list);
    if (list == NULL)
        return LX_ERR_NO_MEMORY;
    for (int64_t i = 0; i < b->n_outputs; i++)
        a->out[i] = sample_row(&a->rows[i], a->logits->data + i * a->n_ids, a->n_ids, list);
    free(list);
    return LX_OK;
}
