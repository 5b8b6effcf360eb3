/*
 * The memory of steps: their inputs and results (pinned on the host, and on the device), and
 * scratch. It doubles while a step larger than all earlier ones is recorded, after these have
 * finished. Steps of known sizes allocate nothing.
 */
#include <string.h>

#include "kernels/cuda/cuda.h"

#define LEAST_BYTES ((size_t)1 << 16)
#define MOST_BYTES ((size_t)1 << 40)
#define ALIGNMENT ((size_t)64)

static lx_status no_memory(lx_cuda *c, size_t n_bytes, cudaError_t e)
{
    if (e != cudaErrorMemoryAllocation)
        return lx_cuda_lose(c, e, "memory for a step", &c->error);
    (void)cudaGetLastError(); /* so that the next launch does not report it */
    return lx_fail(&c->error, LX_ERR_NO_MEMORY, NULL, "cuda: no memory for a step (%.1f MiB): %s",
                   (double)n_bytes / 1048576.0, cudaGetErrorString(e));
}

static size_t grown(size_t capacity, size_t wanted)
{
    capacity = capacity < LEAST_BYTES ? LEAST_BYTES : capacity;
    while (capacity < wanted && capacity < MOST_BYTES)
        capacity *= 2;
    return capacity;
}

static lx_status grow(lx_cuda *c, lx_cuda_arena *a, size_t wanted)
{
    lx_cuda_arena larger = {.used = a->used, .capacity = grown(a->capacity, wanted)};
    lx_status st = lx_cuda_finish_all(c, &c->error);
    if (st != LX_OK)
        return st;
    cudaError_t e = cudaMallocHost((void **)&larger.all, larger.capacity * LX_CUDA_STEPS);
    if (e != cudaSuccess)
        return no_memory(c, larger.capacity * LX_CUDA_STEPS, e);
    e = lx_cuda_zeros(c, larger.capacity, (void **)&larger.device);
    if (e != cudaSuccess) {
        (void)cudaFreeHost(larger.all);
        return no_memory(c, larger.capacity, e);
    }
    lx_cuda_arena_turn(&larger, c->n_ended + 1);
    larger.used = a->used;
    if (a->used > 0)
        memcpy(larger.host, a->host, a->used);
    if (a->device != NULL)
        lx_cuda_freed_add(c, a->device);
    lx_cuda_arena_fini(a);
    *a = larger;
    return LX_OK;
}

void lx_cuda_arena_turn(lx_cuda_arena *a, uint64_t step)
{
    a->host = a->all != NULL ? a->all + step % LX_CUDA_STEPS * a->capacity : NULL;
    a->used = 0;
}

lx_status lx_cuda_arena_put(lx_cuda *c, lx_cuda_arena *a, const void *data, size_t n_bytes,
                            size_t room, size_t *at)
{
    size_t rounded = (room + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded > a->capacity - a->used) {
        lx_status st = grow(c, a, a->used + rounded);
        if (st != LX_OK)
            return st;
    }
    *at = a->used;
    if (data != NULL && n_bytes > 0)
        memcpy(a->host + a->used, data, n_bytes);
    a->used += rounded;
    return LX_OK;
}

void lx_cuda_arena_fini(lx_cuda_arena *a)
{
    if (a->all != NULL)
        (void)cudaFreeHost(a->all);
    if (a->device != NULL)
        (void)cudaFree(a->device);
    *a = (lx_cuda_arena){0};
}

void lx_cuda_scratch_want(lx_cuda_scratch *s, int64_t n_bytes)
{
    s->wanted = (size_t)n_bytes > s->wanted ? (size_t)n_bytes : s->wanted;
}

lx_status lx_cuda_scratch_grow(lx_cuda *c, lx_cuda_scratch *s)
{
    if (s->wanted <= s->capacity)
        return LX_OK;
    size_t capacity = grown(s->capacity, s->wanted);
    lx_status st = lx_cuda_finish_all(c, &c->error);
    if (st != LX_OK)
        return st;
    if (s->data != NULL) {
        lx_cuda_freed_add(c, s->data);
        (void)cudaFree(s->data);
    }
    s->data = NULL;
    s->capacity = 0;
    cudaError_t e = lx_cuda_zeros(c, capacity, &s->data);
    if (e != cudaSuccess)
        return no_memory(c, capacity, e);
    s->capacity = capacity;
    return LX_OK;
}
