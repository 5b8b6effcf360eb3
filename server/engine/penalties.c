/* Counted tokens as biases (see penalties.h): a sorted list for each sample. */
#include "server/engine/penalties.h"

#include <stdlib.h>
#include <string.h>

typedef struct counted {
    float own;     /* the request's bias */
    int32_t count; /* in the answer so far */
} counted;

struct lx_penalties {
    float frequency, presence, repetition;
    int32_t room;      /* of each sample's lists */
    int32_t *n;        /* [n samples] */
    lx_bias *biases;   /* [n samples, room] */
    counted entries[]; /* [n samples, room]; the other arrays follow */
};

/* Ids that a sample's list may have. */
static int64_t room_of(const lx_penalties_params *p)
{
    return (int64_t)p->max_new + p->n_biases + (p->repetition != 1 ? p->n_prompt : 0);
}

int64_t lx_penalties_bytes(const lx_penalties_params *p)
{
    int64_t each = (int64_t)(sizeof(lx_bias) + sizeof(counted)) * room_of(p);
    return (int64_t)sizeof(lx_penalties) + p->n * (each + (int64_t)sizeof(int32_t));
}

static int by_id(const void *a, const void *b)
{
    int32_t x = ((const lx_bias *)a)->id, y = ((const lx_bias *)b)->id;
    return (x > y) - (x < y);
}

/* The request's biases and the prompt's tokens as one list, each id once. Returns how many. */
static int32_t list_first(const lx_penalties_params *p, lx_bias *list)
{
    int32_t n = p->n_biases, n_prompt = p->repetition != 1 ? p->n_prompt : 0, last = 0;
    for (int32_t k = 0; k < n; k++)
        list[k] = p->biases[k];
    for (int32_t k = 0; k < n_prompt; k++)
        list[n++] = (lx_bias){p->prompt[k], 0, p->repetition};
    if (n_prompt == 0 || n == 0)
        return n;
    qsort(list, (size_t)n, sizeof *list, by_id);
    for (int32_t k = 1; k < n; k++) {
        if (list[k].id != list[last].id) {
            list[++last] = list[k];
            continue;
        }
        list[last].add += list[k].add; /* one of them is 0 */
        list[last].divisor = p->repetition;
    }
    return last + 1;
}

static void begin(lx_penalties *p, const lx_penalties_params *params)
{
    int32_t first = list_first(params, p->biases);
    for (int32_t i = 0; i < params->n; i++) {
        size_t at = (size_t)i * (size_t)p->room;
        p->n[i] = first;
        if (i > 0)
            memcpy(p->biases + at, p->biases, (size_t)first * sizeof *p->biases);
        for (int32_t k = 0; k < first; k++)
            p->entries[at + (size_t)k] = (counted){.own = p->biases[k].add};
    }
}

lx_penalties *lx_penalties_new(const lx_penalties_params *params)
{
    int64_t room = room_of(params);
    size_t n = (size_t)params->n, most = n * (size_t)room;
    lx_penalties *p = room <= INT32_MAX ? calloc(1, (size_t)lx_penalties_bytes(params)) : NULL;
    if (p == NULL)
        return NULL;
    p->frequency = params->frequency;
    p->presence = params->presence;
    p->repetition = params->repetition;
    p->room = (int32_t)room;
    p->biases = (lx_bias *)(p->entries + most);
    p->n = (int32_t *)(p->biases + most);
    begin(p, params);
    return p;
}

void lx_penalties_free(lx_penalties *p)
{
    free(p);
}

/* The index of the id among n, or where it belongs. */
static int32_t find_id(const lx_bias *biases, int32_t n, int32_t id)
{
    int32_t low = 0, high = n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (biases[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static float sum_of(const lx_penalties *p, const counted *c)
{
    double sum = (double)c->own - (double)p->frequency * c->count - (double)p->presence;
    if (sum < (double)-LX_MAX_BIAS)
        return -LX_MAX_BIAS;
    return sum > (double)LX_MAX_BIAS ? LX_MAX_BIAS : (float)sum;
}

void lx_penalties_count(lx_penalties *p, int32_t i, int32_t token)
{
    lx_bias *biases = p->biases + (size_t)i * (size_t)p->room;
    counted *entries = p->entries + (size_t)i * (size_t)p->room;
    int32_t k = find_id(biases, p->n[i], token);
    if (k == p->n[i] || biases[k].id != token) {
        size_t behind = (size_t)(p->n[i]++ - k);
        memmove(biases + k + 1, biases + k, behind * sizeof *biases);
        memmove(entries + k + 1, entries + k, behind * sizeof *entries);
        entries[k] = (counted){.own = 0};
    }
    entries[k].count++;
    biases[k] = (lx_bias){token, sum_of(p, &entries[k]), p->repetition != 1 ? p->repetition : 0};
}

const lx_bias *lx_penalties_biases(const lx_penalties *p, int32_t i, int32_t *n)
{
    *n = p->n[i];
    return p->biases + (size_t)i * (size_t)p->room;
}
