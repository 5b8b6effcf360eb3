/*
 * The device of a cuda back end: its health, its memory, and synchronous copies. The first failed
 * call of the runtime loses the device: from then on every step and every call that needs it
 * returns LX_ERR_DEVICE with the text of that error.
 */
#include "kernels/cuda/cuda.h"

lx_status lx_cuda_lose(lx_cuda *c, cudaError_t error, const char *what, lx_error *err)
{
    (void)pthread_mutex_lock(&c->lost_lock);
    if (!c->lost) {
        if (what != NULL)
            (void)lx_fail(&c->lost_error, LX_ERR_DEVICE, NULL, "cuda: %s: %s", what,
                          cudaGetErrorString(error));
        else /* the error is there already */
            c->lost_error = c->error;
        c->lost = true;
    }
    if (err != NULL)
        *err = c->lost_error;
    (void)pthread_mutex_unlock(&c->lost_lock);
    return LX_ERR_DEVICE;
}

lx_status lx_cuda_check(lx_cuda *c, cudaError_t e, const char *what, lx_error *err)
{
    return e == cudaSuccess ? LX_OK : lx_cuda_lose(c, e, what, err);
}

lx_status lx_cuda_use(lx_cuda *c, lx_error *err)
{
    (void)pthread_mutex_lock(&c->lost_lock);
    bool lost = c->lost;
    if (lost && err != NULL)
        *err = c->lost_error;
    (void)pthread_mutex_unlock(&c->lost_lock);
    if (lost)
        return LX_ERR_DEVICE;
    return lx_cuda_check(c, cudaSetDevice(c->device), "choosing the device", err);
}

cudaError_t lx_cuda_zeros(const lx_cuda *c, size_t n_bytes, void **out)
{
    void *p = NULL;
    cudaError_t e = cudaMalloc(&p, n_bytes);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(p, 0, n_bytes, c->stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(c->stream);
    if (e == cudaSuccess)
        *out = p;
    else if (p != NULL)
        (void)cudaFree(p);
    return e;
}

lx_status lx_cuda_device_new(lx_cuda *c, size_t n_bytes, const char *what, void **out,
                             lx_error *err)
{
    cudaError_t e = lx_cuda_zeros(c, n_bytes, out);
    if (e != cudaErrorMemoryAllocation)
        return lx_cuda_check(c, e, what, err);
    (void)cudaGetLastError(); /* the next launch shall not report it */
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "cuda: no memory for %s (%.1f MiB)", what,
                   (double)n_bytes / 1048576.0);
}

void lx_cuda_device_free(lx_cuda *c, void *p)
{
    if (p == NULL)
        return;
    (void)cudaSetDevice(c->device);
    (void)cudaFree(p);
}

lx_status lx_cuda_device_put(lx_cuda *c, const void *from, size_t n_bytes, const char *what,
                             void **out, lx_error *err)
{
    lx_status st = lx_cuda_device_new(c, n_bytes, what, out, err);
    return st == LX_OK ? lx_cuda_copy(c, *out, from, n_bytes, cudaMemcpyHostToDevice, err) : st;
}

lx_status lx_cuda_copy(lx_cuda *c, void *to, const void *from, size_t n_bytes,
                       enum cudaMemcpyKind kind, lx_error *err)
{
    cudaError_t e = cudaMemcpyAsync(to, from, n_bytes, kind, c->stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(c->stream);
    return lx_cuda_check(c, e, "a copy", err);
}
