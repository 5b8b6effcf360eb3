/*
 * See weights.h. Addresses are not reused, since a model's weights come and go together. A huge
 * page goes back to the system with the last block in it: other models may keep the chunk for as
 * long as the server runs.
 */
#include "kernels/cpu/weights.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/host.h"

/* The address sanitizer sees the end of a block that is alone. */
#ifdef LX_SANITIZE_ADDRESS
enum { ALONE = 1 };
#else
enum { ALONE = 0 };
#endif

#define LINE ((size_t)64)
#define HUGE_PAGE ((size_t)2 << 20)
#define CHUNK ((size_t)32 << 20) /* of addresses; only written pages take memory */

struct lx_cpu_chunk {
    struct lx_cpu_chunk *next;
    unsigned char *data;
    size_t size, used;
    int64_t n_blocks;   /* that are not freed */
    int32_t in_pages[]; /* how many of them have a part of each huge page */
};

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

int lx_cpu_weights_init(lx_cpu_weights *w)
{
    w->chunks = NULL;
    return pthread_mutex_init(&w->lock, NULL);
}

void lx_cpu_weights_fini(lx_cpu_weights *w)
{
    (void)pthread_mutex_destroy(&w->lock);
}

/* Addresses that begin with a huge page; NULL without memory. */
static unsigned char *map(size_t size)
{
    unsigned char *p =
        mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = round_up((uintptr_t)p, HUGE_PAGE) - (uintptr_t)p;
    if (before > 0)
        (void)munmap(p, before);
    if (before < HUGE_PAGE)
        (void)munmap(p + before + size, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    (void)madvise(p + before, size, MADV_HUGEPAGE); /* only a hint */
#endif
    return p + before;
}

static struct lx_cpu_chunk *new_chunk(lx_cpu_weights *w, size_t wanted)
{
    size_t size = wanted > CHUNK ? round_up(wanted, HUGE_PAGE) : CHUNK;
    unsigned char *data = map(size); /* first: it refuses what there cannot be */
    if (data == NULL)
        return NULL;
    struct lx_cpu_chunk *chunk =
        calloc(1, sizeof *chunk + size / HUGE_PAGE * sizeof *chunk->in_pages);
    if (chunk == NULL) {
        (void)munmap(data, size);
        return NULL;
    }
    chunk->size = size;
    chunk->data = data;
    chunk->next = w->chunks;
    w->chunks = chunk;
    return chunk;
}

/* A block that begins `at` bytes into the chunk is there (change 1) or freed (-1). */
static void count_pages(struct lx_cpu_chunk *chunk, size_t at, size_t n_bytes, int32_t change)
{
    for (size_t page = at / HUGE_PAGE; page * HUGE_PAGE < at + n_bytes; page++) {
        chunk->in_pages[page] += change;
        if (chunk->in_pages[page] == 0)
            (void)madvise(chunk->data + page * HUGE_PAGE, HUGE_PAGE, MADV_DONTNEED);
    }
}

static void *take(lx_cpu_weights *w, size_t n_bytes)
{
    struct lx_cpu_chunk *chunk = w->chunks;
    while (chunk != NULL && chunk->size - chunk->used < n_bytes)
        chunk = chunk->next;
    if (chunk == NULL)
        chunk = new_chunk(w, n_bytes);
    if (chunk == NULL)
        return NULL;
    void *block = chunk->data + chunk->used;
    count_pages(chunk, chunk->used, n_bytes, 1);
    chunk->used += n_bytes;
    chunk->n_blocks++;
    return block;
}

static void give(lx_cpu_weights *w, const unsigned char *block, size_t n_bytes)
{
    struct lx_cpu_chunk **at = &w->chunks, *chunk;
    while ((chunk = *at) != NULL && !(block >= chunk->data && block < chunk->data + chunk->size))
        at = &chunk->next;
    if (chunk == NULL)
        return;
    count_pages(chunk, (size_t)(block - chunk->data), n_bytes, -1);
    if (--chunk->n_blocks > 0)
        return;
    *at = chunk->next;
    (void)munmap(chunk->data, chunk->size);
    free(chunk);
}

void *lx_cpu_weights_new(lx_cpu_weights *w, size_t n_bytes)
{
    if (ALONE)
        return lx_host_reserve(n_bytes);
    if (n_bytes > SIZE_MAX - CHUNK)
        return NULL;
    (void)pthread_mutex_lock(&w->lock);
    void *block = take(w, round_up(n_bytes, LINE));
    (void)pthread_mutex_unlock(&w->lock);
    return block;
}

void lx_cpu_weights_free(lx_cpu_weights *w, void *block, size_t n_bytes)
{
    if (block == NULL)
        return;
    if (ALONE) {
        lx_host_release(block, n_bytes);
        return;
    }
    (void)pthread_mutex_lock(&w->lock);
    give(w, block, round_up(n_bytes, LINE));
    (void)pthread_mutex_unlock(&w->lock);
}
