/* Half as many samples per second (see halve.h). */
#include "model/formats/halve.h"

#include <stdbool.h>
#include <string.h>

enum { PAIRS = 6 };

/* The weights: of the points at 1/2, 3/2, ... from the middle, on either side. */
static const float w[PAIRS] = {160083.0f / 262144, -38115.0f / 262144, 22869.0f / 524288,
                               -5445.0f / 524288,  847.0f / 524288,    -63.0f / 524288};

static float at_middle(const float *x)
{
    float sum = 0;
    for (int j = 0; j < PAIRS; j++)
        sum += w[j] * (x[-2 * j - 1] + x[2 * j + 1]);
    return 0.5f * (x[0] + sum);
}

int64_t lx_halve(lx_halver *h, float *x, int64_t n)
{
    static const float silence[LX_HALVE_REACH];
    bool end = n == 0;
    if (h->n == 0) /* a new stream: the first sample is preceded by silence */
        h->n = LX_HALVE_REACH;
    int64_t added = end ? LX_HALVE_REACH : n, made = 0, middle = LX_HALVE_REACH;
    memcpy(h->x + h->n, end ? silence : x, (size_t)added * sizeof *x);
    h->n += added;
    for (; middle + LX_HALVE_REACH < h->n; middle += 2)
        x[made++] = at_middle(h->x + middle);
    h->n -= middle - LX_HALVE_REACH;
    memmove(h->x, h->x + middle - LX_HALVE_REACH, (size_t)h->n * sizeof *x);
    return made;
}
