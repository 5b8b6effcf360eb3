/*
 * Failing allocations: every malloc, calloc and realloc of this program's own objects goes by a
 * counter (the linker's --wrap), jansson's too, which come from model/formats/json_memory.c.
 * Allocations inside other libraries do not fail; tests/campaign/allocations.c fails them in the
 * running server.
 */
#ifndef LINNET_TESTS_SUPPORT_FAILING_H
#define LINNET_TESTS_SUPPORT_FAILING_H

/* The n-th allocation from now (n = 1: the next) fails, once. */
void failing_arm(int n);
/* Whether the allocation that was to fail has come; disarms. */
int failing_hit(void);

#endif
