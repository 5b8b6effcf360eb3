/* Shared by the files of the fake runtime. One lock, which a thread may take again, guards it. */
#ifndef LINNET_TESTS_FAKE_FAKE_H
#define LINNET_TESTS_FAKE_FAKE_H

#include "tests/simt/counts.h"
#include "tests/simt/fake/cuda_runtime_api.h"
#include "tests/simt/fake/place.h"
#include <stdbool.h>
#include <stddef.h>

/* The error that a test wants now, or 0; counts a call (runtime.c). */
int simt_fail_now(void);

#define CALL()                                                                                     \
    do {                                                                                           \
        int error = simt_fail_now();                                                               \
        if (error != 0)                                                                            \
            return (cudaError_t)error;                                                             \
    } while (0)

/* A call that may not come while this thread captures. */
#define UNSAFE_CALL()                                                                              \
    do {                                                                                           \
        if (simt_spoils_capture())                                                                 \
            return cudaErrorStreamCaptureUnsupported;                                              \
        CALL();                                                                                    \
    } while (0)

void simt_lock(void);
void simt_unlock(void);
void simt_add(long *which, long by); /* to simt_counts_now, or to simt_allocations */
extern simt_counts simt_counts_now;
void *simt_real_malloc(size_t n); /* that is not counted: the runtime's own */
/* Reports a mistake of the back end and ends the test. */
_Noreturn void simt_broken(const char *what);

/* memory.c, place.h */
void simt_allow_device(bool allowed); /* the host to read and write the device's memory */

/* streams.c */
bool simt_spoils_capture(void); /* true if this thread captures; its capture is then void */
bool simt_is_captured(void);    /* whether any thread captures */
/* Called in the next capture, once it has begun; NULL: nothing. */
extern void (*simt_in_capture)(void);
/* Called once, in the next wait for an event; NULL: nothing. */
extern void (*simt_in_wait)(void);
bool simt_is_idle(void); /* whether nothing is queued, and nothing runs */

#endif
