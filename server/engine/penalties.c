/* Counted tokens as biases (see penalties.h): a list for each sample, found by halving. */
#include "server/engine/penalties.h"

#include <stdlib.h>
#include <string.h>

typedef struct counted {
    float own;     /* the request's bias */
    int32_t count; /* in the answer so far */
} counted;

struct lx_penalties {
    float frequency, presence;
    int32_t room;     /* of each sample's lists */
    int32_t *n;       /* [n samples] */
    lx_bias *biases;  /* [n samples, room] */
    counted *entries; /* [n samples, room], beside them */
};

int64_t lx_penalties_bytes(int32_t n, int32_t max_new, int32_t n_biases)
{
    int64_t each = (int64_t)(sizeof(lx_bias) + sizeof(counted)) * (max_new + n_biases);
    return (int64_t)sizeof(lx_penalties) + n * (each + (int64_t)sizeof(int32_t));
}

static void begin(lx_penalties *p, int32_t n, const lx_bias *biases, int32_t n_biases)
{
    for (int32_t i = 0; i < n; i++) {
        size_t at = (size_t)i * (size_t)p->room;
        p->n[i] = n_biases;
        for (int32_t k = 0; k < n_biases; k++) {
            p->biases[at + (size_t)k] = biases[k];
            p->entries[at + (size_t)k] = (counted){.own = biases[k].add};
        }
    }
}

lx_penalties *lx_penalties_new(int32_t n, int32_t max_new, float frequency, float presence,
                               const lx_bias *biases, int32_t n_biases)
{
    lx_penalties *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->frequency = frequency;
    p->presence = presence;
    p->room = max_new + n_biases;
    size_t most = (size_t)n * (size_t)p->room;
    p->n = calloc((size_t)n, sizeof *p->n);
    p->biases = calloc(most, sizeof *p->biases);
    p->entries = calloc(most, sizeof *p->entries);
    if (p->n == NULL || p->biases == NULL || p->entries == NULL) {
        lx_penalties_free(p);
        return NULL;
    }
    begin(p, n, biases, n_biases);
    return p;
}

void lx_penalties_free(lx_penalties *p)
{
    if (p == NULL)
        return;
    free(p->n);
    free(p->biases);
    free(p->entries);
    free(p);
}

/* Where the id stands among n, or would. */
static int32_t place_of(const lx_bias *biases, int32_t n, int32_t id)
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
    int32_t k = place_of(biases, p->n[i], token);
    if (k == p->n[i] || biases[k].id != token) {
        size_t behind = (size_t)(p->n[i]++ - k);
        memmove(biases + k + 1, biases + k, behind * sizeof *biases);
        memmove(entries + k + 1, entries + k, behind * sizeof *entries);
        entries[k] = (counted){.own = 0};
    }
    entries[k].count++;
    biases[k] = (lx_bias){token, sum_of(p, &entries[k])};
}

const lx_bias *lx_penalties_biases(const lx_penalties *p, int32_t i, int32_t *n)
{
    *n = p->n[i];
    return p->biases + (size_t)i * (size_t)p->room;
}
