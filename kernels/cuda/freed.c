/*
 * Addresses of freed objects. A new object may get such an address, and a captured step must not
 * take it for the old one. Any thread adds an address before it frees the object.
 */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void lx_cuda_freed_add(lx_cuda *c, const void *p)
{
    lx_cuda_freed *f = &c->freed;
    (void)pthread_mutex_lock(&f->lock);
    if (f->n < LX_CUDA_MOST_FREED)
        f->at[f->n++] = lx_cuda_key_address(p);
    else
        f->too_many = true;
    (void)pthread_mutex_unlock(&f->lock);
}

bool lx_cuda_freed_begin(lx_cuda_freed *f)
{
    (void)pthread_mutex_lock(&f->lock);
    qsort(f->at, (size_t)f->n, sizeof f->at[0], compare);
    return f->n > 0;
}

/* Most numbers of a key are smaller than any address. */
bool lx_cuda_freed_has(const lx_cuda_freed *f, const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n && !f->too_many; i++) {
        if (words[i] >= f->at[0] && words[i] <= f->at[f->n - 1] &&
            bsearch(&words[i], f->at, (size_t)f->n, sizeof words[i], compare) != NULL)
            return true;
    }
    return f->too_many;
}

void lx_cuda_freed_end(lx_cuda_freed *f)
{
    f->n = 0;
    f->too_many = false;
    (void)pthread_mutex_unlock(&f->lock);
}
