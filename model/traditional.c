#include "model/traditional.h"

#include <stdlib.h>

typedef struct pair {
    uint32_t traditional, simplified;
} pair;

static const pair pairs[] = {
#include "model/traditional.def"
};

static int compare(const void *key, const void *entry)
{
    uint32_t c = *(const uint32_t *)key, t = ((const pair *)entry)->traditional;
    return (c > t) - (c < t);
}

uint32_t lx_simplified(uint32_t codepoint)
{
    const pair *found =
        bsearch(&codepoint, pairs, sizeof pairs / sizeof *pairs, sizeof *pairs, compare);
    return found != NULL ? found->simplified : codepoint;
}
