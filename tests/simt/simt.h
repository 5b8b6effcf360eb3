/*
 * Runs CUDA kernels on the host, for tests. A test includes it before a .cu file that the host's
 * C++ compiler reads. It stands in for the language: built-in variables, shared memory, barriers,
 * shuffles, atomics, vector types and (by LX_LAUNCH) the launch.
 *
 * A block's threads are fibers of one host thread, and blocks and launches run one after another. A
 * fiber runs until it meets a barrier or a shuffle, which continues when every named thread has
 * arrived. Undefined behaviour of a GPU ends the test here: a barrier that some threads never
 * reach, and a shuffle whose lanes are in different places or have left. Shared memory is poisoned
 * for every block and has its exact size, so the address sanitizer reports every access after its
 * end.
 *
 * LINNET_SIMT_SEED says in which order threads run, so that a missing barrier shows:
 *
 *   0 or none   warps and lanes in rising order, in odd blocks in falling order
 *   1           a warp runs to its barrier before the next one starts, first the lowest
 *   2           first the highest, and blocks from the last to the first
 *   3, 4, ..    warps and lanes as they are drawn with this seed
 *
 * With LX_SIMT_RACES a checker looks at every access in any order (tests/simt/race.h).
 *
 * Not modelled: bank conflicts, the order of sums in tensor cores, and copies next to running
 * kernels.
 */
#ifndef LINNET_TESTS_SIMT_H
#define LINNET_TESTS_SIMT_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "tests/simt/fake/cuda_runtime_api.h"

#define LX_SIMT 1

/* --- the language --- */

struct dim3 {
    unsigned x, y, z;
};

struct alignas(16) float4 {
    float x, y, z, w;
};

static inline float4 make_float4(float x, float y, float z, float w)
{
    return float4{x, y, z, w};
}

template <class T> static inline T __ldcs(const T *at)
{
    return *at;
}

template <class T> static inline void __stcs(T *at, T x)
{
    *at = x;
}

#define LX_DEVICE static inline
#define LX_METHOD inline
#define LX_KERNEL(...) static void
#define LX_NUMBERS static const
#define LX_SHARED(type, name, dims)                                                                \
    using name##_type = type dims;                                                                 \
    static simt_site name##_site;                                                                  \
    name##_type &name = *static_cast<name##_type *>(simt_static(&name##_site, sizeof(name##_type)))
#define LX_DYNAMIC_SHARED(type, name) type *const name = static_cast<type *>(simt_shared())
#define LX_UNROLL
#define LX_UNROLL_4

static inline float __uint_as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t __float_as_uint(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

#if defined(LX_SIMT_RACES)
void race_atomic(const void *at, size_t n_bytes); /* tests/simt/race.h */
#define SIMT_PLAIN __attribute__((no_sanitize("thread"), noinline))
#else
#define SIMT_PLAIN
static inline void race_atomic(const void *, size_t)
{
}
#endif

/* Threads of a block never run at once, so plain reads and writes are atomic. */
template <class T, class F> SIMT_PLAIN static inline T simt_change(T *at, F change)
{
    race_atomic(at, sizeof *at);
    T old = *at;
    *at = change(old);
    return old;
}

static inline int32_t atomicAdd(int32_t *at, int32_t x)
{
    return simt_change(at, [x](int32_t old) { return old + x; });
}

static inline int32_t atomicMin(int32_t *at, int32_t x)
{
    return simt_change(at, [x](int32_t old) { return x < old ? x : old; });
}

static inline uint32_t atomicOr(uint32_t *at, uint32_t x)
{
    return simt_change(at, [x](uint32_t old) { return old | x; });
}

/* --- the running thread (simt.cpp) --- */

struct simt_here {
    dim3 thread, block, threads, blocks;
};
extern const simt_here *simt_at
    __attribute__((visibility("hidden"))); /* the running fiber's place */
void *simt_shared();
/* Shared memory of a fixed size: its place in this block. */
struct simt_site {
    uint64_t block; /* in which it has the place */
    size_t at;
};
void *simt_static(simt_site *site, size_t n_bytes);
void simt_barrier(const char *file, int line);
/* Gives `value` to the lanes in `mask` and returns that of `lane`. */
uint32_t simt_exchange(uint32_t mask, uint32_t value, unsigned lane, const char *file, int line);
/* Waits for the lanes in `mask`; unlike an exchange, it orders their accesses to memory. */
void simt_warp_barrier(uint32_t mask, const char *file, int line);

#define threadIdx (simt_at->thread)
#define blockIdx (simt_at->block)
#define blockDim (simt_at->threads)
#define gridDim (simt_at->blocks)

#define __syncthreads() simt_barrier(__FILE__, __LINE__)
#define __syncwarp(mask) simt_warp_barrier((mask), __FILE__, __LINE__)

static inline float simt_shuffle(uint32_t mask, float x, unsigned lane, const char *file, int line)
{
    return __uint_as_float(simt_exchange(mask, __float_as_uint(x), lane, file, line));
}

/* Of a double, in two halves. */
static inline double simt_shuffle(uint32_t mask, double x, unsigned lane, const char *file,
                                  int line)
{
    uint32_t half[2];
    memcpy(half, &x, sizeof x);
    for (uint32_t &h : half)
        h = simt_exchange(mask, h, lane, file, line);
    memcpy(&x, half, sizeof x);
    return x;
}

/* The least or the greatest value of all lanes of a warp; all lanes must take part. */
template <class F>
static inline uint32_t simt_reduce(uint32_t mask, uint32_t x, F better, const char *file, int line)
{
    for (unsigned apart = 1; apart < 32u; apart *= 2u) {
        uint32_t other = simt_exchange(mask, x, threadIdx.x % 32u ^ apart, file, line);
        x = better(other, x) ? other : x;
    }
    return x;
}

#define __reduce_min_sync(mask, given)                                                             \
    simt_reduce((mask), (given), [](uint32_t one, uint32_t two) { return one < two; }, __FILE__,   \
                __LINE__)
#define __reduce_max_sync(mask, given)                                                             \
    simt_reduce((mask), (given), [](uint32_t one, uint32_t two) { return one > two; }, __FILE__,   \
                __LINE__)

#define __shfl_sync(mask, given, from, width)                                                      \
    simt_shuffle((mask), (given),                                                                  \
                 (threadIdx.x % 32u & ~((unsigned)(width)-1u)) +                                   \
                     ((unsigned)(from) & ((unsigned)(width)-1u)),                                  \
                 __FILE__, __LINE__)
#define __shfl_xor_sync(mask, given, bits, width)                                                  \
    simt_shuffle((mask), (given), threadIdx.x % 32u ^ (unsigned)(bits), __FILE__, __LINE__)

/* The tensor cores' product, as kernels/cuda/device.cuh has its pieces. A lane asks others for the
   two rows of A and columns of B that its four results need; these sums are in double. */
static inline void simt_mma(float *d, const uint32_t *a, const uint32_t *b, const char *file,
                            int line)
{
    unsigned lane = threadIdx.x % 32u, first_row = lane / 4u * 4u, column = lane % 4u * 2u;
    uint32_t rows[4][4], columns[2][2][4];
    for (unsigned q = 0; q < 4; q++) {
        for (int i = 0; i < 4; i++)
            rows[i][q] = simt_exchange(~0u, a[i], first_row + q, file, line);
        for (unsigned c = 0; c < 2; c++) {
            for (int i = 0; i < 2; i++)
                columns[c][i][q] = simt_exchange(~0u, b[i], (column + c) * 4u + q, file, line);
        }
    }
    for (int i = 0; i < 4; i++) {
        double sum = (double)d[i];
        for (int k = 0; k < 8; k++) {
            uint32_t x = rows[i / 2 + k / 4 * 2][k % 4], y = columns[i % 2][k / 4][k % 4];
            sum += (double)__uint_as_float(x << 16) * (double)__uint_as_float(y << 16);
            sum +=
                (double)__uint_as_float(x & 0xffff0000u) * (double)__uint_as_float(y & 0xffff0000u);
        }
        d[i] = (float)sum;
    }
}

/* --- the order of kernels, copies (kernels/cuda/device.cuh) --- */

void simt_wait_for_others();
/* Notes a copy of 16 bytes (from NULL: of zeros) that belongs to the thread's open group. */
void simt_begin_copy(void *to, const void *from, const char *file, int line);
void simt_end_copies();
/* The next noted copy of the groups but the last `pending`; false: there is none. */
bool simt_take_copy(unsigned pending, void **to, const void **from);

#define simt_copy16(to, from) simt_begin_copy((to), (from), __FILE__, __LINE__)

/* A copy is made as late as it may be, so that a missing wait shows. */
static inline void simt_wait_for_copies(unsigned pending)
{
    void *to;
    const void *from;
    while (simt_take_copy(pending, &to, &from)) {
        for (int i = 0; i < 4; i++)
            static_cast<uint32_t *>(to)[i] =
                from != nullptr ? static_cast<const uint32_t *>(from)[i] : 0u;
    }
}

/* A kernel with its arguments by value, for a launch may be captured. */
struct simt_call {
    void *given; /* [n_bytes] */
    size_t n_bytes;
    void (*run)(const void *given);
    void (*drop)(void *given);
    bool early; /* each of its threads calls lx_wait_for_others */
};

template <class F> static inline simt_call simt_keep(const F &f, bool early)
{
    return {new F(f), sizeof f, [](const void *given) { (*static_cast<const F *>(given))(); },
            [](void *given) { delete static_cast<F *>(given); }, early};
}

/* Queues a launch; 0, or the runtime's error for one that no device would accept. */
int simt_launch(cudaStream_t stream, int64_t blocks, int64_t threads, size_t shared,
                simt_call kernel);

#define SIMT_LAUNCH(early, kernel, blocks, threads, shared, stream, ...)                           \
    ((cudaError_t)simt_launch((stream), (blocks), (threads), (size_t)(shared),                     \
                              simt_keep(                                                           \
                                  [given = std::make_tuple(__VA_ARGS__)] {                         \
                                      std::apply([](const auto &...one) { kernel(one...); },       \
                                                 given);                                           \
                                  },                                                               \
                                  (early))))
#define LX_LAUNCH(...) SIMT_LAUNCH(false, __VA_ARGS__)
#define LX_LAUNCH_EARLY(...) SIMT_LAUNCH(true, __VA_ARGS__)

#endif
