/* See failing.h. Off until armed, so that tests which do not ask for it notice nothing. */
#include "tests/support/failing.h"

#include <stdatomic.h>
#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static atomic_int left; /* allocations until one fails; 0 when off */
static atomic_int hit;

static int must_fail(void)
{
    if (atomic_load(&left) == 0 || atomic_fetch_sub(&left, 1) != 1)
        return 0;
    atomic_store(&hit, 1);
    return 1;
}

void *__wrap_malloc(size_t n)
{
    return must_fail() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return must_fail() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return must_fail() ? NULL : __real_realloc(p, n);
}

void failing_arm(int n)
{
    atomic_store(&hit, 0);
    atomic_store(&left, n);
}

int failing_hit(void)
{
    atomic_store(&left, 0);
    return atomic_exchange(&hit, 0);
}
