#include "common/random.h"

#include <sys/random.h>

#include "common/clock.h"

uint64_t lx_random_bits(void)
{
    uint64_t x = 0;
    if (getrandom(&x, sizeof x, 0) != (ssize_t)sizeof x)
        x = (uint64_t)lx_now_ns();
    return x;
}
