/*
 * Memory of the fake runtime. Device memory has its exact end, is poisoned, and is kept from the
 * host while no queued work runs. A use of memory that was freed too early ends the test.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/simt/fake/fake.h"

#if defined(LX_SANITIZE_ADDRESS)
#include <sanitizer/asan_interface.h>
#endif

#define PAGE ((size_t)4096)
#define FIRST_TIMES 256u
#define EVERY 64u
#define ALIGNMENT ((size_t)16) /* the real one's is 256, which would hide steps over an end */
#define POISONED ((size_t)1 << 20)

typedef struct allocation {
    unsigned char *data, *pages; /* [n_bytes]; [n_pages], and one without access */
    size_t n_bytes, n_mapped;
    bool pinned;
    struct allocation *next;
} allocation;

static allocation *all;   /* under the lock */
static allocation *freed; /* freed while work was queued */
static bool device_allowed;

static void protect(const allocation *a)
{
    if (a->pinned)
        return;
    if (mprotect(a->pages, a->n_mapped - PAGE,
                 device_allowed ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        simt_broken("mprotect failed");
}

/* Forbidden again only the first times and then now and then, because it costs more than the
   kernels. */
void simt_allow_device(bool allowed)
{
    static unsigned times;
    if (device_allowed == allowed || (!allowed && ++times > FIRST_TIMES && times % EVERY != 0))
        return;
    device_allowed = allowed;
    for (const allocation *a = all; a != NULL; a = a->next)
        protect(a);
}

enum simt_place simt_place_of(const void *p, size_t n_bytes)
{
    enum simt_place place = SIMT_PAGEABLE;
    const unsigned char *at = p;
    simt_lock();
    for (const allocation *a = all; a != NULL; a = a->next) {
        if (at < a->data || at >= a->data + a->n_bytes)
            continue;
        if (n_bytes > (size_t)(a->data + a->n_bytes - at))
            simt_broken("a copy goes over the end of an allocation");
        place = a->pinned ? SIMT_PINNED : SIMT_DEVICE;
    }
    simt_unlock();
    return place;
}

/* The matrix library's workspace is of 32 MiB, which its stand-in never uses: of anything so large
   both ends will do. */
static void poison(unsigned char *p, size_t n_bytes)
{
    size_t part = n_bytes < POISONED ? n_bytes : POISONED;
    memset(p, 0xff, part);
    memset(p + n_bytes - part, 0xff, part);
}

/* The last byte lies at the end of a page, as far as alignment allows. */
static bool map(allocation *a)
{
    size_t aligned = (a->n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t used = (aligned + PAGE - 1) / PAGE * PAGE;
    a->n_mapped = used + PAGE;
    a->pages = mmap(NULL, a->n_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->pages == MAP_FAILED)
        return false;
    a->data = a->pages + used - aligned;
    poison(a->pages, used);
    (void)mprotect(a->pages + used, PAGE, PROT_NONE);
#if defined(LX_SANITIZE_ADDRESS)
    __asan_poison_memory_region(a->pages, a->n_mapped);
    __asan_unpoison_memory_region(a->data, a->n_bytes);
#endif
    return true;
}

static cudaError_t allocate(void **p, size_t n_bytes, bool pinned)
{
    UNSAFE_CALL();
    allocation *a = simt_real_malloc(sizeof *a);
    if (a == NULL)
        return cudaErrorMemoryAllocation;
    *a = (allocation){.n_bytes = n_bytes > 0 ? n_bytes : 1, .pinned = pinned};
    if (!map(a)) {
        free(a);
        return cudaErrorMemoryAllocation;
    }
    simt_lock();
    a->next = all;
    all = a;
    protect(a);
    simt_unlock();
    simt_add(&simt_counts_now.allocations, 1);
    simt_add(&simt_counts_now.memory, 1);
    *p = a->data;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t n_bytes)
{
    return allocate(p, n_bytes, false);
}

cudaError_t cudaMallocHost(void **p, size_t n_bytes)
{
    return allocate(p, n_bytes, true);
}

static void release(allocation *a)
{
#if defined(LX_SANITIZE_ADDRESS)
    __asan_unpoison_memory_region(a->pages, a->n_mapped);
#endif
    (void)munmap(a->pages, a->n_mapped);
    free(a);
}

/* Queued work may still use it. Then it stays, without access, until the queues are empty. */
static void put_aside(allocation *a)
{
#if defined(LX_SANITIZE_ADDRESS)
    __asan_poison_memory_region(a->pages, a->n_mapped);
#endif
    if (mprotect(a->pages, a->n_mapped, PROT_NONE) != 0)
        simt_broken("mprotect failed");
    a->next = freed;
    freed = a;
}

static void forget(void *p, bool pinned)
{
    simt_lock();
    allocation **at = &all;
    while (*at != NULL && (*at)->data != p)
        at = &(*at)->next;
    allocation *a = *at;
    if (a == NULL || a->pinned != pinned)
        simt_broken("memory is freed that was not allocated so");
    *at = a->next;
    put_aside(a);
    while (freed != NULL && simt_is_idle()) {
        a = freed;
        freed = a->next;
        release(a);
    }
    simt_unlock();
    simt_add(&simt_counts_now.memory, -1);
}

/* Waits for nothing: the real one does in practice, but its documents do not promise it. A device
   that failed still gives its memory back, or the sanitizer could not look for leaks. */
static cudaError_t give_back(void *p, bool pinned)
{
    if (simt_spoils_capture())
        return cudaErrorStreamCaptureUnsupported;
    int error = simt_fail_now();
    if (p != NULL)
        forget(p, pinned);
    return (cudaError_t)error;
}

cudaError_t cudaFree(void *p)
{
    return give_back(p, false);
}

cudaError_t cudaFreeHost(void *p)
{
    return give_back(p, true);
}
