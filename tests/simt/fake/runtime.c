/*
 * The fake runtime of cuda_runtime_api.h beside it. Every call (and every launch) counts; a test
 * names the call that fails, and from then on all do, as after a fault of a real device.
 *
 * Allocations count too: those of the runtime, and malloc, calloc and realloc of everything in this
 * library (the linker's --wrap), so that a test can see that a step needs none.
 *
 * LINNET_SIMT_DEVICES says how many devices there are (1), so that "no device" can be tested; when
 * the file named by LINNET_SIMT_LOST appears, the device is lost.
 */
#include "tests/simt/counts.h"
#include "tests/simt/fake/cuda_runtime_api.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int simt_fail_now(void);
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

struct CUstream_st {
    cudaGraph_t capturing; /* NULL: what is queued happens at once */
};

__attribute__((visibility("default"))) void simt_count(simt_counts *out);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long calls, fail_at;
static int error_then;
static simt_counts counts;

void simt_count(simt_counts *out)
{
    (void)pthread_mutex_lock(&lock);
    *out = counts;
    out->allocations = atomic_load(&allocations);
    (void)pthread_mutex_unlock(&lock);
}

static void count(long *which, long by)
{
    (void)pthread_mutex_lock(&lock);
    *which += by;
    (void)pthread_mutex_unlock(&lock);
}

long simt_fail_at(long n, int error)
{
    (void)pthread_mutex_lock(&lock);
    long so_far = calls;
    calls = 0;
    fail_at = n;
    error_then = error;
    (void)pthread_mutex_unlock(&lock);
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
    (void)pthread_mutex_lock(&lock);
    calls++;
    int error = fail_at > 0 && calls >= fail_at ? error_then : 0;
    (void)pthread_mutex_unlock(&lock);
    return error;
}

#define CALL()                                                                                     \
    do {                                                                                           \
        int error = simt_fail_now();                                                               \
        if (error != 0)                                                                            \
            return (cudaError_t)error;                                                             \
    } while (0)

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

/* Aligned like a device's memory, with its exact end. */
static cudaError_t allocate(void **p, size_t n_bytes)
{
    CALL();
    (void)atomic_fetch_add(&allocations, 1);
    if (posix_memalign(p, 256, n_bytes > 0 ? n_bytes : 1) != 0)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xff, n_bytes);
    count(&counts.memory, 1);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t n_bytes)
{
    return allocate(p, n_bytes);
}

cudaError_t cudaMallocHost(void **p, size_t n_bytes)
{
    return allocate(p, n_bytes);
}

/* A device that failed still gives its memory back, or the sanitizer could not look for leaks. */
cudaError_t cudaFree(void *p)
{
    if (p != NULL)
        count(&counts.memory, -1);
    free(p);
    return (cudaError_t)simt_fail_now();
}

cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    CALL();
    if (stream->capturing != NULL) /* the back end copies outside of graphs */
        return cudaErrorInvalidValue;
    memmove(to, from, n_bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n_bytes, cudaStream_t stream)
{
    CALL();
    if (stream->capturing != NULL)
        return cudaErrorInvalidValue;
    memset(p, value, n_bytes);
    return cudaSuccess;
}

/* --- streams and graphs --- */

typedef struct node {
    int (*run)(void *work);
    void (*drop)(void *work);
    void *work;
    struct node *next;
} node;

struct CUgraph_st {
    node *first, **end;
};

/* An exec takes its graph's nodes over. */
struct CUgraphExec_st {
    node *first;
};

static void drop_nodes(node *n)
{
    while (n != NULL) {
        node *next = n->next;
        n->drop(n->work);
        free(n);
        n = next;
    }
}

int simt_keep(cudaStream_t stream, int (*run)(void *work), void (*drop)(void *work), void *work)
{
    if (stream->capturing == NULL)
        return 0;
    node *n = malloc(sizeof *n);
    if (n == NULL)
        abort();
    *n = (node){run, drop, work, NULL};
    *stream->capturing->end = n;
    stream->capturing->end = &n->next;
    return 1;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    CALL();
    if (stream->capturing != NULL)
        return cudaErrorInvalidValue;
    stream->capturing = calloc(1, sizeof *stream->capturing);
    if (stream->capturing == NULL)
        return cudaErrorMemoryAllocation;
    stream->capturing->end = &stream->capturing->first;
    count(&counts.graphs, 1);
    count(&counts.captured, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    int error = simt_fail_now();
    *graph = stream->capturing; /* given back even so, to be destroyed */
    stream->capturing = NULL;
    return (cudaError_t)error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    CALL();
    *exec = malloc(sizeof **exec);
    if (*exec == NULL)
        return cudaErrorMemoryAllocation;
    count(&counts.graphs, 1);
    (*exec)->first = graph->first;
    graph->first = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    count(&counts.graphs, -1);
    drop_nodes(graph->first);
    free(graph);
    return (cudaError_t)simt_fail_now();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    count(&counts.graphs, -1);
    drop_nodes(exec->first);
    free(exec);
    return (cudaError_t)simt_fail_now();
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    CALL();
    return exec->first != NULL && stream->capturing == NULL ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    CALL();
    if (stream->capturing != NULL)
        return cudaErrorInvalidValue;
    count(&counts.replayed, 1);
    for (const node *n = exec->first; n != NULL; n = n->next) {
        int error = n->run(n->work);
        if (error != 0)
            return (cudaError_t)error;
    }
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    CALL();
    *stream = calloc(1, sizeof **stream);
    count(&counts.streams, *stream != NULL);
    return *stream != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    count(&counts.streams, -1);
    free(stream);
    return (cudaError_t)simt_fail_now();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    CALL();
    return cudaSuccess;
}

static cudaError_t make(void **out)
{
    CALL();
    *out = malloc(1);
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    void *p = NULL;
    cudaError_t e = make(&p);
    *event = p;
    count(&counts.events, p != NULL);
    return e;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    count(&counts.events, -1);
    free(event);
    return (cudaError_t)simt_fail_now();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event;
    (void)stream;
    CALL();
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    CALL();
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    CALL();
    return cudaSuccess;
}
