/*
 * The fake runtime of cuda_runtime_api.h. Every call and every launch counts. A test names the call
 * that fails, and from then on all calls fail, as after a fault of a real device.
 *
 * Allocations count too: those of the runtime, and malloc, calloc and realloc of everything in this
 * library (the linker's --wrap). So a test can see that a step allocates nothing.
 *
 * LINNET_SIMT_DEVICES says how many devices there are (1), so that "no device" can be tested; when
 * the file named by LINNET_SIMT_LOST appears, the device is lost.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/simt/fake/fake.h"

/* The nth call from now fails with `error`, and all after it; n = 0: none. Returns calls so far. */
__attribute__((visibility("default"))) long simt_fail_at(long n, int error);

static atomic_long allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __real_realloc(p, n);
}

void *simt_real_malloc(size_t n)
{
    return __real_malloc(n);
}

__attribute__((visibility("default"))) void simt_count(simt_counts *out);

simt_counts simt_counts_now;
long simt_meetings; /* counted by simt.cpp, one launch at a time */
static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static long calls, fail_at;
static int error_then;

static void make_lock(void)
{
    pthread_mutexattr_t again;
    (void)pthread_mutexattr_init(&again);
    (void)pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&lock, &again);
}

void simt_lock(void)
{
    (void)pthread_once(&once, make_lock);
    (void)pthread_mutex_lock(&lock);
}

void simt_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

void simt_count(simt_counts *out)
{
    simt_lock();
    *out = simt_counts_now;
    out->allocations += atomic_load(&allocations);
    out->meetings = simt_meetings;
    simt_unlock();
}

void simt_add(long *which, long by)
{
    simt_lock();
    *which += by;
    simt_unlock();
}

void simt_broken(const char *what)
{
    (void)fprintf(stderr, "simt: %s\n", what);
    abort();
}

long simt_fail_at(long n, int error)
{
    simt_lock();
    long so_far = calls;
    calls = 0;
    fail_at = n;
    error_then = error;
    simt_unlock();
    return so_far;
}

static int is_lost(void)
{
    const char *file = getenv("LINNET_SIMT_LOST");
    return file != NULL && access(file, F_OK) == 0;
}

int simt_fail_now(void)
{
    if (is_lost())
        return cudaErrorIllegalAddress;
    simt_lock();
    calls++;
    int error = fail_at > 0 && calls >= fail_at ? error_then : 0;
    simt_unlock();
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    default:
        return "an error of the fake runtime";
    }
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    CALL();
    const char *text = getenv("LINNET_SIMT_DEVICES");
    if (text != NULL && strcmp(text, "no driver") == 0)
        return cudaErrorInsufficientDriver;
    *count = text != NULL ? (int)strtol(text, NULL, 10) : 1;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
    (void)device;
    CALL();
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    CALL();
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    CALL();
    *free_bytes = *total_bytes = (size_t)1 << 30;
    return cudaSuccess;
}
