/*
 * Causal linear attention: one pass over the state for a run of tokens, however long the run. Both
 * kernels have the cpu back end's arithmetic per token, in its order. So a prompt in one step, in
 * pieces or token by token gives the same bits.
 *
 * attend_small, for heads of 16 or 32: D / 4 lanes carry a head, a lane four columns of s in
 * registers, so that the state is read and written once, 16 bytes per access. Lanes of other heads
 * in the warp have runs of other lengths, so a shuffle names only the lanes of its head. States are
 * read and written with an evict-first hint: all slots' states exceed the cache, which is to keep
 * the activations between kernels.
 *
 * attend_any, every other size or alignment: a block carries a head, a thread one column at a time.
 * The state is in shared memory during the run when it fits.
 */
#include "kernels/cuda/device.cuh"

#define THREADS 128
#define TILE 256                /* keys whose feature maps are in shared memory, of attend_any */
#define MOST_SHARED (40 * 1024) /* bytes of a head's state */

/* --- heads of D = M = 16 or 32 --- */

template <int D> struct head {
    static const int lanes = D / 4, own = D / lanes; /* keys of a lane: lane + lanes * i */
    float4 s[D];                                     /* columns 4 lane .. 4 lane + 3 */
    float z[own];
};

/* The sum of 16 partial sums: p[i] of lane l is number l + lanes * i. */
template <int LANES> LX_DEVICE float add_partials(float *p, uint32_t lanes)
{
    LX_UNROLL
    for (int half = 8; half >= LANES; half /= 2) {
        LX_UNROLL
        for (int i = 0; i < half / LANES; i++)
            p[i] += p[i + half / LANES];
    }
    LX_UNROLL
    for (int half = LANES / 2; half >= 1; half /= 2)
        p[0] += __shfl_xor_sync(lanes, p[0], half, LANES);
    return p[0];
}

/* A lane's inputs of a token's row: its keys of q and k, its columns of v. */
template <int D> struct token {
    float q[head<D>::own], k[head<D>::own];
    float4 v;
};

template <int D> LX_DEVICE token<D> load_token(const float *qkv, int64_t width, int lane)
{
    token<D> t;
    LX_UNROLL
    for (int i = 0; i < head<D>::own; i++) {
        t.q[i] = qkv[lane + head<D>::lanes * i];
        t.k[i] = qkv[width + lane + head<D>::lanes * i];
    }
    t.v = ((const float4 *)(qkv + 2 * width))[lane];
    return t;
}

template <int D, int MAP>
LX_DEVICE float4 attend_token(head<D> &h, const token<D> &t, float eps, uint32_t lanes)
{
    const float4 v = t.v;
    const int L = head<D>::lanes;
    float phi_q[head<D>::own], phi_k[head<D>::own], dot[16 / L];
    LX_UNROLL
    for (int i = 0; i < 16 / L; i++)
        dot[i] = 0.0f;
    LX_UNROLL
    for (int i = 0; i < head<D>::own; i++) {
        phi_q[i] = lx_phi<MAP>(t.q[i]);
        phi_k[i] = lx_phi<MAP>(t.k[i]);
        h.z[i] += phi_k[i];
        dot[i % (16 / L)] = fmaf(phi_q[i], h.z[i], dot[i % (16 / L)]);
    }
    float norm = add_partials<L>(dot, lanes) + eps;
    float4 y = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    LX_UNROLL
    for (int d = 0; d < D; d++) {
        float a = __shfl_sync(lanes, phi_k[d / L], d % L, L);
        float b = __shfl_sync(lanes, phi_q[d / L], d % L, L);
        float4 s = h.s[d];
        s = make_float4(fmaf(a, v.x, s.x), fmaf(a, v.y, s.y), fmaf(a, v.z, s.z), fmaf(a, v.w, s.w));
        y = make_float4(fmaf(b, s.x, y.x), fmaf(b, s.y, y.y), fmaf(b, s.z, y.z), fmaf(b, s.w, y.w));
        h.s[d] = s;
    }
    return make_float4(y.x / norm, y.y / norm, y.z / norm, y.w / norm);
}

template <int D> LX_DEVICE void store_head(const head<D> &h, float *state, int lane)
{
    const int L = head<D>::lanes;
    float4 *rows = (float4 *)state + lane;
    LX_UNROLL
    for (int d = 0; d < D; d++)
        __stcs(rows + d * L, h.s[d]);
    LX_UNROLL
    for (int i = 0; i < head<D>::own; i++)
        state[D * D + lane + L * i] = h.z[i];
}

template <int D, int MAP> LX_KERNEL(THREADS) attend_small(const lx_cuda_attend_linear a)
{
    const int L = head<D>::lanes;
    int64_t which = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / L;
    int lane = (int)threadIdx.x % L;
    uint32_t lanes = (LX_ALL_LANES >> (32 - L)) << ((threadIdx.x & 31u) / L * L);
    lx_let_next_begin();
    lx_wait_for_others();
    if (which >= (int64_t)*a.live * a.n_heads)
        return; /* all lanes of a head */
    int64_t seq = which / a.n_heads, at = which % a.n_heads, n = a.n_heads;
    float *state = a.states + a.slot[seq] * a.stride + at * (D * D + D);
    const float4 *rows = (const float4 *)state + lane;
    head<D> h;
    LX_UNROLL
    for (int d = 0; d < D; d++)
        h.s[d] = __ldcs(rows + d * L);
    LX_UNROLL
    for (int i = 0; i < head<D>::own; i++)
        h.z[i] = state[D * D + lane + L * i];
    int64_t begin = a.seq_start[seq], end = a.seq_start[seq + 1];
    int64_t branch = lx_branch_begin(a.branches, seq, begin, end);
    token<D> next = load_token<D>(a.qkv + begin * 3 * n * D + at * D, n * D, lane);
    for (int64_t t = begin; t < end; t++) {
        if (t == branch) {
            store_head(h, state, lane);
            state = a.states + a.branches.slot[seq] * a.stride + at * (D * D + D);
        }
        token<D> now = next; /* meanwhile the next token is fetched */
        if (t + 1 < end)
            next = load_token<D>(a.qkv + (t + 1) * 3 * n * D + at * D, n * D, lane);
        float4 y = attend_token<D, MAP>(h, now, a.eps, lanes);
        if (a.y != NULL)
            ((float4 *)(a.y + (t * n + at) * D))[lane] = y;
        if (a.twin != NULL)
            ((lx_bf16x4 *)(a.twin + (t * n + at) * D))[lane] = lx_to_bf16x4(y);
    }
    store_head(h, state, lane);
}

/* --- heads of any size --- */

/* Feature maps of keys d0 .. d0 + n - 1, and with `first` their share of z and of the normaliser.
 */
template <int MAP>
LX_DEVICE void map_tile(const float *q, const float *k, float *z, int32_t n, bool first,
                        float *phi_q, float *phi_k, float *dot)
{
    for (int32_t d = (int32_t)threadIdx.x; d < n; d += THREADS) {
        phi_q[d] = lx_phi<MAP>(q[d]);
        phi_k[d] = lx_phi<MAP>(k[d]);
    }
    __syncthreads();
    if (first && threadIdx.x < 16u) {
        for (int32_t d = (int32_t)threadIdx.x; d < n; d += 16) {
            z[d] += phi_k[d];
            *dot = fmaf(phi_q[d], z[d], *dot);
        }
    }
}

/* The sum of 16 numbers, of which p has those STRIDE apart: added 8, 4, 2, 1 apart. */
template <int STRIDE> LX_DEVICE float tree16(const float *p)
{
    if constexpr (STRIDE == 16)
        return p[0];
    else
        return tree16<2 * STRIDE>(p) + tree16<2 * STRIDE>(p + STRIDE);
}

/* One token, whose results lie from `to` on: s and z of a head are the block's alone. Barriers come
   before anything reads or writes them, and after the last write; between `partial` of two tokens
   there are two. */
template <int MAP>
LX_DEVICE void any_token(const lx_cuda_attend_linear &a, const float *q, const float *k,
                         const float *v, int64_t to, float *s, float *z)
{
    LX_SHARED(float, phi_q, [TILE]);
    LX_SHARED(float, phi_k, [TILE]);
    LX_SHARED(float, partial, [16]);
    float dot = 0.0f, norm = 0.0f;
    for (int32_t m0 = 0; m0 < a.d_value; m0 += THREADS) {
        int32_t m = m0 + (int32_t)threadIdx.x;
        float sum = 0.0f, value = m < a.d_value ? v[m] : 0.0f;
        for (int32_t d0 = 0; d0 < a.d_key; d0 += TILE) {
            int32_t n = a.d_key - d0 < TILE ? a.d_key - d0 : TILE;
            map_tile<MAP>(q + d0, k + d0, z + d0, n, m0 == 0, phi_q, phi_k, &dot);
            for (int32_t d = 0; m < a.d_value && d < n; d++) {
                float *at = s + (int64_t)(d0 + d) * a.d_value + m;
                *at = fmaf(phi_k[d], value, *at);
                sum = fmaf(phi_q[d], *at, sum);
            }
            __syncthreads();
        }
        if (m0 == 0) {
            if (threadIdx.x < 16u)
                partial[threadIdx.x] = dot;
            __syncthreads();
            norm = tree16<1>(partial) + a.eps;
        }
        if (m < a.d_value) {
            float y = sum / norm;
            int64_t at = to + m;
            if (a.twin != NULL)
                a.twin[at] = lx_to_bf16(y);
            if (a.y != NULL)
                a.y[at] = y;
        }
    }
}

/* No barrier follows: any_token begins with one. */
LX_DEVICE void copy_floats(float *to, const float *from, int64_t n)
{
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        to[i] = from[i];
}

template <int MAP> LX_KERNEL(THREADS, 7) attend_any(const lx_cuda_attend_linear a, int in_shared)
{
    LX_DYNAMIC_SHARED(float, shared);
    int64_t seq = blockIdx.x / (unsigned)a.n_heads, at = blockIdx.x % (unsigned)a.n_heads;
    int64_t n = a.n_heads, dk = a.d_key, dv = a.d_value, width = n * (2 * dk + dv);
    int64_t floats = dk * dv + dk;
    if (seq >= *a.live)
        return; /* the whole block */
    float *state = a.states + a.slot[seq] * a.stride + at * floats;
    float *s = in_shared ? shared : state;
    if (in_shared)
        copy_floats(s, state, floats);
    int64_t begin = a.seq_start[seq], end = a.seq_start[seq + 1];
    int64_t branch = lx_branch_begin(a.branches, seq, begin, end);
    for (int64_t t = begin; t < end; t++) {
        if (t == branch) {
            float *other = a.states + a.branches.slot[seq] * a.stride + at * floats;
            copy_floats(in_shared ? state : other, s, floats);
            state = other;
            s = in_shared ? s : other;
        }
        const float *x = a.qkv + t * width;
        any_token<MAP>(a, x + at * dk, x + n * dk + at * dk, x + 2 * n * dk + at * dv,
                       (t * n + at) * dv, s, s + dk * dv);
    }
    if (in_shared)
        copy_floats(state, s, floats);
}

template <int D, int MAP>
static cudaError_t launch_small(const lx_cuda_attend_linear *a, cudaStream_t stream)
{
    int64_t threads = (int64_t)a->n_seqs * a->n_heads * head<D>::lanes;
    return LX_LAUNCH_EARLY((attend_small<D, MAP>), (threads + THREADS - 1) / THREADS, THREADS, 0,
                           stream, *a);
}

template <int MAP> static cudaError_t launch(const lx_cuda_attend_linear *a, cudaStream_t stream)
{
    bool aligned = (uintptr_t)a->states % 16 == 0 && a->stride % 4 == 0;
    if (aligned && a->d_key == 32 && a->d_value == 32)
        return launch_small<32, MAP>(a, stream);
    if (aligned && a->d_key == 16 && a->d_value == 16)
        return launch_small<16, MAP>(a, stream);
    int64_t bytes = ((int64_t)a->d_key * a->d_value + a->d_key) * 4;
    int in_shared = bytes <= MOST_SHARED;
    return LX_LAUNCH(attend_any<MAP>, a->n_seqs * a->n_heads, THREADS, in_shared ? bytes : 0,
                     stream, *a, in_shared);
}

extern "C" cudaError_t lx_cuda_launch_attend_linear(const lx_cuda_attend_linear *a,
                                                    cudaStream_t stream)
{
    if ((int64_t)a->n_seqs * a->n_heads > 0x7fffffff)
        return cudaErrorInvalidValue;
    switch (a->feature_map) {
    case LX_PHI_RELU:
        return launch<LX_PHI_RELU>(a, stream);
    case LX_PHI_RELU2:
        return launch<LX_PHI_RELU2>(a, stream);
    case LX_PHI_EXP:
        return launch<LX_PHI_EXP>(a, stream);
    default:
        return launch<LX_PHI_ELU1>(a, stream);
    }
}
