/*
 * Failing allocations: every malloc, calloc and realloc of this program's own objects goes by a
 * counter (the linker's --wrap). Those inside libraries do not: jansson 2.14 is known to overrun
 * its token buffer when that cannot grow, so a test would find nothing of ours.
 */
#ifndef LINNET_TESTS_SUPPORT_FAILING_H
#define LINNET_TESTS_SUPPORT_FAILING_H

/* The n-th allocation from now (n = 1: the next) fails, once. */
void failing_arm(int n);
/* Whether the allocation that was to fail has come; disarms. */
int failing_hit(void);

#endif
