/*
 * The declarations that clang needs to read the kernels without NVIDIA's headers, which its
 * releases before CUDA 13 cannot parse. clang is a second front end for warnings and for code
 * generation (scripts/check-kernels). Included before a .cu file, with tests/simt/fake in place of
 * the runtime's headers. Nothing here is linked or run.
 */
#ifndef LINNET_TESTS_SIMT_CLANG_H
#define LINNET_TESTS_SIMT_CLANG_H

#define __CUDACC__ 1
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

#include <__clang_cuda_builtin_vars.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/simt/fake/cuda_runtime_api.h"

struct dim3 {
    unsigned x, y, z;
    __host__ __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
        : x(a), y(b), z(c)
    {
    }
};

/* The call that begins a launch, by its oldest name, for a clang that knows no version of CUDA. */
extern "C" cudaError_t cudaConfigureCall(dim3 blocks, dim3 threads, size_t shared,
                                         cudaStream_t stream);

struct cudaLaunchAttribute {
    int id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
enum { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
template <class... Taken, class... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*kernel)(Taken...),
                               Given &&...given);

static __device__ __forceinline__ size_t __cvta_generic_to_shared(const void *p)
{
    return (size_t)(const __attribute__((address_space(3))) void *)p;
}

struct alignas(16) float4 {
    float x, y, z, w;
};

static __device__ __forceinline__ float4 make_float4(float x, float y, float z, float w)
{
    return float4{x, y, z, w};
}

template <class T> static __device__ __forceinline__ T __ldcs(const T *at)
{
    return *at;
}

template <class T> static __device__ __forceinline__ void __stcs(T *at, T x)
{
    *at = x;
}

static __device__ __forceinline__ void __syncwarp(unsigned mask)
{
    __nvvm_bar_warp_sync(mask);
}

static __device__ __forceinline__ float __uint_as_float(uint32_t bits)
{
    return __builtin_bit_cast(float, bits);
}

static __device__ __forceinline__ uint32_t __float_as_uint(float f)
{
    return __builtin_bit_cast(uint32_t, f);
}

/* The segment's mask and the last lane, as the instruction wants them. */
static __device__ __forceinline__ float __shfl_sync(unsigned mask, float x, int from, int width)
{
    return __nvvm_shfl_sync_idx_f32(mask, x, from, (32 - width) << 8 | 31);
}

static __device__ __forceinline__ double __shfl_sync(unsigned mask, double x, int from, int width)
{
    uint64_t bits = __builtin_bit_cast(uint64_t, x);
    int low = __nvvm_shfl_sync_idx_i32(mask, (int)(uint32_t)bits, from, (32 - width) << 8 | 31);
    int high = __nvvm_shfl_sync_idx_i32(mask, (int)(bits >> 32), from, (32 - width) << 8 | 31);
    return __builtin_bit_cast(double, (uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}

static __device__ __forceinline__ uint32_t __reduce_min_sync(unsigned mask, uint32_t x)
{
    uint32_t least;
    asm volatile("redux.sync.min.u32 %0, %1, %2;" : "=r"(least) : "r"(x), "r"(mask));
    return least;
}

static __device__ __forceinline__ uint32_t __reduce_max_sync(unsigned mask, uint32_t x)
{
    uint32_t greatest;
    asm volatile("redux.sync.max.u32 %0, %1, %2;" : "=r"(greatest) : "r"(x), "r"(mask));
    return greatest;
}

static __device__ __forceinline__ float __shfl_xor_sync(unsigned mask, float x, int bits, int width)
{
    return __nvvm_shfl_sync_bfly_f32(mask, x, bits, (32 - width) << 8 | 31);
}

static __device__ __forceinline__ int32_t atomicAdd(int32_t *at, int32_t x)
{
    return __nvvm_atom_add_gen_i(at, x);
}

static __device__ __forceinline__ int32_t atomicMin(int32_t *at, int32_t x)
{
    return __nvvm_atom_min_gen_i(at, x);
}

static __device__ __forceinline__ uint32_t atomicOr(uint32_t *at, uint32_t x)
{
    return (uint32_t)__nvvm_atom_or_gen_i((int32_t *)at, (int32_t)x);
}

#define fmaf __builtin_fmaf
#define sqrtf __builtin_sqrtf
#define fabsf __builtin_fabsf
#define fabs __builtin_fabs
#define fmaxf __builtin_fmaxf
#define fminf __builtin_fminf
#define fmax __builtin_fmax
extern "C" __device__ double log(double x); /* of NVIDIA's library */
extern "C" __device__ double exp(double x);

#endif
