/*
 * The only header of the device code. A kernel file (*.cu) includes this and the plain structures
 * of launch.h, nothing else, so that the same text is compiled twice:
 *
 *   by nvcc                 the product
 *   by the host's compiler  with tests/simt/simt.h included before it, which defines LX_SIMT and
 *                           stands in for the language: threads of a block are fibers
 *
 * Rules that keep both equal: arithmetic is IEEE, only fmaf is fused (nvcc gets -fmad=false), and a
 * warp's operations name the lanes that take part. No thread of a block returns before a barrier at
 * which other threads wait.
 */
#ifndef LINNET_KERNELS_CUDA_DEVICE_CUH
#define LINNET_KERNELS_CUDA_DEVICE_CUH

#include "kernels/cuda/launch.h"
#include "kernels/gelu.h"

#ifdef __CUDACC__
#define LX_DEVICE static __device__ __forceinline__
#define LX_METHOD __device__ __forceinline__
/* Threads per block; and the least blocks per multiprocessor, for kernels that would otherwise get
   too few registers and spill. */
#define LX_KERNEL(...) static __global__ void __launch_bounds__(__VA_ARGS__)
#define LX_SHARED(type, name, dims) __shared__ type name dims
#define LX_NUMBERS static __device__ const
#define LX_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#define LX_LAUNCH(kernel, blocks, threads, shared, stream, ...)                                    \
    (kernel<<<(unsigned)(blocks), (unsigned)(threads), (size_t)(shared), (stream)>>>(__VA_ARGS__), \
     cudaGetLastError())
/* For a kernel whose every thread calls lx_wait_for_others: where the device can do that, it begins
   before the previous kernel has ended. */
#define LX_LAUNCH_EARLY(kernel, blocks, threads, shared, stream, ...)                              \
    lx_launch_early(kernel, (blocks), (threads), (size_t)(shared), (stream), __VA_ARGS__)
template <class... Given, class... Taken>
static cudaError_t lx_launch_early(void (*kernel)(Taken...), int64_t blocks, int64_t threads,
                                   size_t shared, cudaStream_t stream, const Given &...given)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3((unsigned)blocks);
    c.blockDim = dim3((unsigned)threads);
    c.dynamicSmemBytes = shared;
    c.stream = stream;
    c.attrs = &early;
    c.numAttrs = lx_cuda_launches_early ? 1 : 0;
    return cudaLaunchKernelEx(&c, kernel, given...);
}
#define LX_UNROLL _Pragma("unroll")
#define LX_UNROLL_4 _Pragma("unroll 4")
#elif !defined(LX_SIMT)
#error "device code is compiled by nvcc, or after tests/simt/simt.h"
#endif

#define LX_INFINITY __uint_as_float(0x7f800000u)
#define LX_NAN __uint_as_float(0x7fc00000u)
#define LX_ALL_LANES 0xffffffffu

/* --- the order of kernels --- */

/* From here on the next kernel may run up to its own lx_wait_for_others. */
LX_DEVICE void lx_let_next_begin(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Waits until all earlier kernels have ended and their results can be read. Every thread of a
   kernel of LX_LAUNCH_EARLY calls it, even an idle one: else the kernel, and then the next, could
   end before the earlier kernels. Before this call a kernel may read only memory that no kernel
   writes. */
LX_DEVICE void lx_wait_for_others(void)
{
#if defined(LX_SIMT)
    simt_wait_for_others();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* --- asynchronous copies to shared memory --- */

/* 16 bytes, or zeros unless `there`; `from` must be a valid address in both cases. */
LX_DEVICE void lx_copy16(void *to, const void *from, bool there)
{
#ifdef LX_SIMT
    simt_copy16(to, there ? from : nullptr);
#else
    unsigned place = (unsigned)__cvta_generic_to_shared(to), n = there ? 16u : 0u;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(n)
                 : "memory");
#endif
}

/* Ends this thread's group of copies. */
LX_DEVICE void lx_end_copies(void)
{
#ifdef LX_SIMT
    simt_end_copies();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits for all of this thread's groups but the last PENDING; a barrier must follow before other
   threads read them. */
template <int PENDING> LX_DEVICE void lx_wait_for_copies(void)
{
#ifdef LX_SIMT
    simt_wait_for_copies(PENDING);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

/* --- branches --- */

/* The first token row in the branch of sequence seq, whose rows are begin .. end - 1. */
LX_DEVICE int64_t lx_branch_begin(const lx_cuda_branches &b, int64_t seq, int64_t begin,
                                  int64_t end)
{
    return b.slot != NULL && b.slot[seq] >= 0 ? begin + b.row[seq] : end;
}

/* --- functions: the same steps as kernels/cpu/body_math.h, so the same bits --- */

/* exp(x) for x <= 80, NaN stays NaN. */
LX_DEVICE float lx_exp(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    x = -104.0f > x ? -104.0f : x;
    float n = fmaf(x, 0x1.715476p+0f, magic) - magic;
    float r = fmaf(n, -0x1.62e4p-1f, x);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 0x1.6a2430p-10f;
    p = fmaf(p, r, 0x1.1239e4p-7f);
    p = fmaf(p, r, 0x1.5558f2p-5f);
    p = fmaf(p, r, 0x1.555492p-3f);
    p = fmaf(p, r, 0x1.fffffcp-2f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    float half = fmaf(n, 0.5f, magic);
    float rest = (n - (half - magic)) + magic;
    return p * __uint_as_float((__float_as_uint(half) << 23) + 0x3f800000u) *
           __uint_as_float((__float_as_uint(rest) << 23) + 0x3f800000u);
}

template <int MAP> LX_DEVICE float lx_phi(float x)
{
    float above = 0.0f > x ? 0.0f : x;
    if (MAP == LX_PHI_RELU)
        return above;
    if (MAP == LX_PHI_RELU2)
        return above * above;
    if (MAP == LX_PHI_EXP)
        return lx_exp(x > LX_PHI_MOST ? LX_PHI_MOST : x);
    return x > 0.0f ? x + 1.0f : lx_exp(x);
}

LX_NUMBERS float lx_gelu_tail[LX_GELU_DEGREE + 1][16] = LX_GELU_TAIL;

/* x Phi(x), see gelu.h. A coefficient of all polynomials fills half a cache line. */
LX_DEVICE float lx_gelu(float x)
{
    const float magic = 12582912.0f;
    float size = fabsf(x), a = size < LX_GELU_END ? size : LX_GELU_END;
    float t = fmaf(a, 1.0f / LX_GELU_WIDTH, magic);
    float r = fmaf(t - magic, -LX_GELU_WIDTH, a);
    uint32_t i = __float_as_uint(t) & 15u;
    float p = lx_gelu_tail[LX_GELU_DEGREE][i];
    LX_UNROLL
    for (int n = LX_GELU_DEGREE - 1; n >= 0; n--)
        p = fmaf(p, r, lx_gelu_tail[n][i]);
    return fmaf(-size, p, 0.0f > x ? 0.0f : x);
}

LX_DEVICE float lx_activate(float x, int32_t activation)
{
    if (activation == LX_ACT_RELU)
        return 0.0f > x ? 0.0f : x;
    return activation == LX_ACT_GELU ? lx_gelu(x) : x;
}

LX_DEVICE float lx_sigmoid(float x)
{
    float e = lx_exp(-fabsf(x)), s = 1.0f / (1.0f + e);
    return 0.0f > x ? e * s : s;
}

LX_DEVICE float lx_tanh(float x)
{
    float size = fabsf(x), t = x * x;
    if (size > 0.6f) {
        float far = 1.0f - 2.0f / (lx_exp(size > 20.0f ? 40.0f : size + size) + 1.0f);
        return 0.0f > x ? -far : far;
    }
    float p = -0x1.825856p-8f;
    p = fmaf(p, t, 0x1.54b8a0p-6f);
    p = fmaf(p, t, -0x1.b898dep-5f);
    p = fmaf(p, t, 0x1.1109aep-3f);
    p = fmaf(p, t, -0x1.55553ep-2f);
    return fmaf(p * t, x, x);
}

LX_DEVICE float lx_softplus(float x)
{
    float t = lx_exp(-fabsf(x)), p = 0x1.0a1b88p-9f;
    p = fmaf(p, t, -0x1.b75670p-7f);
    p = fmaf(p, t, 0x1.53ca1cp-5f);
    p = fmaf(p, t, -0x1.51ae6cp-4f);
    p = fmaf(p, t, 0x1.fca8bap-4f);
    p = fmaf(p, t, -0x1.49d834p-3f);
    p = fmaf(p, t, 0x1.975ccep-3f);
    p = fmaf(p, t, -0x1.ffbd44p-3f);
    p = fmaf(p, t, 0x1.55534ep-2f);
    p = fmaf(p, t, -0x1.fffff4p-2f);
    p = fmaf(p, t, 1.0f);
    return fmaf(p, t, 0.0f > x ? 0.0f : x);
}

LX_DEVICE float lx_apply(float x, int32_t f)
{
    float above = 0.0f > x ? 0.0f : x;
    switch (f) {
    case LX_FN_SIGMOID:
        return lx_sigmoid(x);
    case LX_FN_SILU:
        return x * lx_sigmoid(x);
    case LX_FN_TANH:
        return lx_tanh(x);
    case LX_FN_SOFTPLUS:
        return lx_softplus(x);
    case LX_FN_LOG_SIGMOID:
        return 0.0f - lx_softplus(0.0f - x);
    case LX_FN_RELU2:
        return above * above;
    case LX_FN_EXP:
        return lx_exp(x > 80.0f ? 80.0f : x);
    default:
        return x;
    }
}

/* To the nearest, ties to even; a NaN stays one. */
LX_DEVICE uint16_t lx_to_bf16(float f)
{
    uint32_t bits = __float_as_uint(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 64u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

struct alignas(8) lx_bf16x4 {
    uint16_t x, y, z, w;
};

LX_DEVICE lx_bf16x4 lx_to_bf16x4(float4 f)
{
    lx_bf16x4 h = {lx_to_bf16(f.x), lx_to_bf16(f.y), lx_to_bf16(f.z), lx_to_bf16(f.w)};
    return h;
}

/*
 * The tensor cores' D = A B + D by the 32 lanes of a warp. A is 16 by 16 and B 16 by 8 in bf16, D
 * is 16 by 8 in f32. With g = lane / 4 and q = lane % 4, a lane has two bf16 per number, the lower
 * half first:
 *
 *     a0, a1    columns 2 q, 2 q + 1 of A's rows g and g + 8       a2, a3    8 columns further
 *     b0        rows 2 q, 2 q + 1 of B's column g                  b1        8 rows further
 *     d[0..1]   columns 2 q, 2 q + 1 of D's row g                  d[2..3]   of row g + 8
 */
LX_DEVICE void lx_mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                      uint32_t b0, uint32_t b1)
{
#ifdef LX_SIMT
    const uint32_t a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
    simt_mma(d, a, b, __FILE__, __LINE__);
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}

/* --- sums over a row: element i belongs to lane i mod 16, lanes are added 8, 4, 2, 1 apart --- */

/* The lanes of this thread's half warp. */
LX_DEVICE uint32_t lx_half_warp(void)
{
    return 0xffffu << (threadIdx.x & 16u);
}

LX_DEVICE float lx_sum16(float x)
{
    uint32_t lanes = lx_half_warp();
    for (int half = 8; half >= 1; half /= 2)
        x += __shfl_xor_sync(lanes, x, half, 16);
    return x;
}

LX_DEVICE float lx_max16(float x)
{
    uint32_t lanes = lx_half_warp();
    for (int half = 8; half >= 1; half /= 2) {
        float other = __shfl_xor_sync(lanes, x, half, 16);
        x = other > x ? other : x;
    }
    return x;
}

#endif
