#include "tests/support/patience.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <time.h>

#include "common/clock.h"

enum { PATIENCE_S = 60 };

int64_t patience_begin(void)
{
    return lx_now_ns() + PATIENCE_S * LX_NS_PER_S;
}

void patience_pause(int64_t end, const char *condition)
{
    if (lx_now_ns() >= end)
        fail_msg("not within %d s: %s", PATIENCE_S, condition);
    /* check-tests: between two looks */
    (void)nanosleep(&(struct timespec){.tv_nsec = LX_NS_PER_MS}, NULL);
}
