/*
 * Memory for packed weights: blocks next to each other, in huge pages where the system has them.
 *
 * A step reads all weights once. In pages of 4 KiB, the weights of a few million parameters need
 * more entries than a processor's TLB has. Most matrices are smaller than a huge page, so a matrix
 * alone could not get one.
 */
#ifndef LINNET_KERNELS_CPU_WEIGHTS_H
#define LINNET_KERNELS_CPU_WEIGHTS_H

#include <pthread.h>
#include <stddef.h>

struct lx_cpu_chunk;

typedef struct lx_cpu_weights {
    pthread_mutex_t lock;
    struct lx_cpu_chunk *chunks;
} lx_cpu_weights;

/* 0, or an errno. */
int lx_cpu_weights_init(lx_cpu_weights *w);
/* Every block must have been freed. */
void lx_cpu_weights_fini(lx_cpu_weights *w);

/* A zeroed block, 64-byte aligned; NULL without memory. From any thread. */
void *lx_cpu_weights_new(lx_cpu_weights *w, size_t n_bytes);
/* Frees a block of that size; a huge page goes with its last block. NULL is allowed. */
void lx_cpu_weights_free(lx_cpu_weights *w, void *block, size_t n_bytes);

#endif
