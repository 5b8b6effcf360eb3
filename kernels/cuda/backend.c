/*
 * The cuda back end: states, weights and activations in the GPU's memory, one stream.
 *
 *   device.c   the device and its memory     program.c  records a step and starts it
 *   objects.c  arrays, weights               steps.c    waits for steps and hands out results
 *   states.c   states                        arena.c    pinned inputs and results, scratch
 *   run.c      one operation as kernels      graph.c    a step captured and replayed
 *   draws.c    what sampling is given        freed.c    addresses that no graph may name
 *   product.c  cuBLASLt                      *.cu       the kernels; launch.h is their interface
 *
 * The library, or on request our own kernel for the tensor cores, multiplies a matrix stored in
 * bf16, with inputs rounded to bf16 and f32 sums. Other matrices, and with precision f32 all, have
 * a kernel of our own that sums in the order of the cpu back end. So with precision f32 both give
 * the same bits.
 *
 * This is a library of its own (kernels/plugin.h): it needs the CUDA runtime, the program does not.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"
#include "kernels/plugin.h"

#define LEAST_MAJOR 8 /* compute capability; bf16 products */

static void cuda_close(lx_backend *be)
{
    if (be == NULL)
        return;
    lx_cuda *c = (lx_cuda *)be;
    (void)cudaSetDevice(c->device);
    if (c->stream != NULL)
        (void)cudaStreamSynchronize(c->stream);
    lx_cuda_graphs_drop(c);
    free(c->key);
    lx_cuda_blas_free(c->blas);
    lx_cuda_arena_fini(&c->inputs);
    lx_cuda_arena_fini(&c->results);
    lx_cuda_scratch *scratch[] = {&c->rounded, &c->product, &c->bits};
    for (size_t i = 0; i < sizeof scratch / sizeof scratch[0]; i++) {
        if (scratch[i]->data != NULL)
            (void)cudaFree(scratch[i]->data);
    }
    for (int32_t i = 0; i < LX_CUDA_STEPS; i++) {
        if (c->frames[i].done != NULL)
            (void)cudaEventDestroy(c->frames[i].done);
    }
    if (c->settled != NULL)
        (void)cudaEventDestroy(c->settled);
    const cudaStream_t streams[] = {c->moves, c->capture, c->stream};
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        if (streams[i] != NULL)
            (void)cudaStreamDestroy(streams[i]);
    }
    lx_turn_fini(&c->turn);
    (void)pthread_mutex_destroy(&c->freed.lock);
    (void)pthread_mutex_destroy(&c->lost_lock);
    free(c->ops);
    free(c->seen.stamp);
    free(c);
}

/* Counts the captured steps: without graphs a GPU gives the same results, slowly. tests/gpu.sh
   checks the counts. */
static void cuda_describe(const lx_backend *be, char *text, size_t size)
{
    const lx_cuda *c = (const lx_cuda *)be;
    long long captured = c->n_captured, plain = c->n_plain;
    if (captured + plain == 0)
        (void)snprintf(text, size, "%s", c->about);
    else
        (void)snprintf(text, size, "%s, steps: %lld as graphs, %lld not", c->about, captured,
                       plain);
}

static lx_status cuda_memory(lx_backend *be, int64_t *free_bytes, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    size_t free_now = 0, total = 0;
    lx_status st = lx_cuda_use(c, err);
    if (st != LX_OK)
        return st;
    st = lx_cuda_check(c, cudaMemGetInfo(&free_now, &total), "asking for free memory", err);
    *free_bytes = st == LX_OK ? (int64_t)free_now : *free_bytes;
    return st;
}

#define LX_OP_HOST(name)
#define LX_OP(name)                                                                                \
    static void queue_##name(lx_backend *be, const lx_##name##_args *args)                         \
    {                                                                                              \
        lx_cuda_record((lx_cuda *)be, &lx_cuda_op_##name, args);                                   \
    }
#include "kernels/ops.def"

static const lx_kernels table = {.name = "cuda",
                                 .close = cuda_close,
                                 .describe = cuda_describe,
                                 .is_device = true,
                                 .memory = cuda_memory,
                                 LX_OBJECTS(LX_ENTRY, lx_cuda) LX_ENTRY(lx_cuda, matrix_new)
                                     LX_ENTRY(lx_cuda, matrix_free) LX_ENTRY(lx_cuda, begin)
                                         LX_ENTRY(lx_cuda, end) LX_ENTRY(lx_cuda, sync)
                                             LX_ENTRY(lx_cuda, prepare) LX_ENTRY(lx_cuda, step_size)
#define LX_OP_HOST(name)
#define LX_OP(name) .name = queue_##name,
#include "kernels/ops.def"
};

/* --- opening --- */

static lx_status find_device(int32_t device, int *major, int *minor, lx_error *err)
{
    int count = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess)
        return lx_fail(err, LX_ERR_UNSUPPORTED, "backend", "cuda: no usable GPU: %s",
                       cudaGetErrorString(e));
    if (device >= count)
        return lx_fail(err, LX_ERR_UNSUPPORTED, "backend", "cuda: no device %d, there %s %d",
                       device, count == 1 ? "is" : "are", count);
    e = cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, device);
    if (e == cudaSuccess)
        e = cudaSetDevice(device);
    if (e != cudaSuccess)
        return lx_fail(err, LX_ERR_DEVICE, "backend", "cuda: device %d: %s", device,
                       cudaGetErrorString(e));
    if (*major < LEAST_MAJOR)
        return lx_fail(err, LX_ERR_UNSUPPORTED, "backend",
                       "cuda: device %d has compute capability %d.%d, at least %d.0 is needed",
                       device, *major, *minor, LEAST_MAJOR);
    return LX_OK;
}

static lx_status start(lx_cuda *c, lx_error *err)
{
    cudaStream_t *const streams[] = {&c->stream, &c->capture, &c->moves};
    cudaError_t e = cudaSuccess;
    for (int i = 0; i < 3 && e == cudaSuccess; i++)
        e = cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&c->settled, cudaEventDisableTiming);
    for (int32_t i = 0; i < LX_CUDA_STEPS && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&c->frames[i].done, cudaEventDisableTiming);
    if (e != cudaSuccess)
        return lx_fail(err, LX_ERR_DEVICE, "backend", "cuda: starting device %d: %s", c->device,
                       cudaGetErrorString(e));
    return c->exact || c->own ? LX_OK : lx_cuda_blas_new(&c->blas, err);
}

static lx_status make_locks(lx_cuda *c)
{
    if (pthread_mutex_init(&c->lost_lock, NULL) != 0)
        return LX_ERR_NO_MEMORY;
    if (pthread_mutex_init(&c->freed.lock, NULL) == 0) {
        if (lx_turn_init(&c->turn) == 0)
            return LX_OK;
        (void)pthread_mutex_destroy(&c->freed.lock);
    }
    (void)pthread_mutex_destroy(&c->lost_lock);
    return LX_ERR_NO_MEMORY;
}

static lx_status cuda_open(const lx_backend_options *options, int32_t device, lx_backend **out,
                           lx_error *err)
{
    int major = 0, minor = 0;
    if (options->isa != LX_ISA_AUTO)
        return lx_fail(err, LX_ERR_INVALID, "isa", "the cuda back end has no instruction sets");
    lx_status st = find_device(device, &major, &minor, err);
    if (st != LX_OK)
        return st;
    lx_cuda *c = calloc(1, sizeof *c);
    if (c == NULL || make_locks(c) != LX_OK) {
        free(c);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the cuda back end");
    }
    c->base.ops = &table;
    c->base.precision = options->precision;
    c->device = device;
    c->exact = options->precision == LX_PRECISION_F32;
    c->own = options->cuda_products == LX_CUDA_PRODUCTS_OWN;
    lx_cuda_allow_early(major, minor);
    (void)snprintf(c->about, sizeof c->about, "cuda:%d (sm_%d%d, %s products)", device, major,
                   minor,
                   c->exact ? "f32"
                   : c->own ? "own bf16"
                            : "bf16");
    st = start(c, err);
    if (st != LX_OK) {
        cuda_close(&c->base);
        return st;
    }
    *out = &c->base;
    return LX_OK;
}

__attribute__((visibility("default"))) const lx_plugin *lx_kernels_plugin(void);

const lx_plugin *lx_kernels_plugin(void)
{
    static const lx_plugin plugin = {LX_PLUGIN_ABI, sizeof(lx_kernels), cuda_open};
    return &plugin;
}
