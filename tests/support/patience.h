/*
 * Waiting in tests: for a condition, never for a time to pass. A machine may be as slow as it
 * likes.
 */
#ifndef LINNET_TESTS_SUPPORT_PATIENCE_H
#define LINNET_TESTS_SUPPORT_PATIENCE_H

#include <stdint.h>

/* Looks every millisecond until the condition holds; the test fails when a minute has passed. */
#define wait_until(condition)                                                                      \
    for (int64_t end_of_wait = patience_begin(); !(condition);)                                    \
    patience_pause(end_of_wait, #condition)

int64_t patience_begin(void);                            /* the time when the wait has failed */
void patience_pause(int64_t end, const char *condition); /* a millisecond, or the test fails */

#endif
