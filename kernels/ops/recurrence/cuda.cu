/*
 * A thread carries a column of a head's state through a run of tokens without waiting for other
 * threads. Its arithmetic per token is that of a lane of the cpu back end, in equal order, so the
 * bits are equal. If the columns fit, they are in shared memory during the run, so that the state
 * is read and written once.
 */
#include "kernels/cuda/device.cuh"

#define THREADS 64              /* columns of a head */
#define MOST_SHARED (40 * 1024) /* bytes of a block's columns */

/* The variants of the kernel; the lowest bit: the columns are in shared memory. */
enum { IN_SHARED = 1, PLAIN = 0, BEFORE = 2, DELTA = 4, PAIR = 6 };

LX_DEVICE const float *row_of(const lx_cuda_columns &c, int64_t t, int64_t head)
{
    return c.at + t * c.width + head / c.shared * c.apart;
}

/* A token's inputs of this thread. */
struct token {
    const float *q, *k, *w, *a, *b, *bonus;
    float v, w_head;
};

LX_DEVICE token load_token(const lx_cuda_recurrence &a, int64_t t, int64_t head, int32_t m)
{
    token x;
    x.q = row_of(a.q, t, head);
    x.k = row_of(a.k, t, head);
    x.v = row_of(a.v, t, head)[m];
    x.w = a.decay != LX_DECAY_NONE ? row_of(a.w, t, head) : NULL;
    x.w_head = a.decay != LX_DECAY_NONE && a.decay != LX_DECAY_CHANNEL ? *x.w : 1.0f;
    if (a.decay != LX_DECAY_CHANNEL)
        x.w = NULL;
    x.a = a.a.at != NULL ? row_of(a.a, t, head) : NULL;
    x.b = a.b.at != NULL ? row_of(a.b, t, head) : NULL;
    x.bonus = a.bonus != NULL ? a.bonus + head * a.d_key : NULL;
    return x;
}

/* s is the column, `apart` floats from one key to the next. Returns S^T q, not yet scaled. */
template <int KIND>
LX_DEVICE float recur_token(const token &x, float beta, float *s, int64_t apart, int32_t d_key)
{
    const int mode = KIND & ~IN_SHARED;
    float p = 0.0f, y = 0.0f, u = x.v;
    for (int32_t d = 0; mode >= DELTA && d < d_key; d++) {
        float left = mode == PAIR ? x.a[d] : x.w != NULL ? x.w[d] * x.k[d] : x.k[d];
        p = fmaf(left, s[d * apart], p);
    }
    if (mode == DELTA)
        u = fmaf(-x.w_head, p, x.v);
    u = beta * u;
    for (int32_t d = 0; d < d_key; d++) {
        float at = s[d * apart];
        if (mode == BEFORE)
            y = fmaf(x.q[d], x.bonus != NULL ? fmaf(x.bonus[d] * x.k[d], x.v, at) : at, y);
        at = (x.w != NULL ? x.w[d] : x.w_head) * at;
        if (mode == PAIR)
            at = fmaf(x.b[d], p, at);
        at = fmaf(x.k[d], u, at);
        if (mode != BEFORE)
            y = fmaf(x.q[d], at, y);
        s[d * apart] = at;
    }
    return y;
}

template <int KIND> LX_KERNEL(THREADS) recur(const lx_cuda_recurrence a)
{
    LX_DYNAMIC_SHARED(float, shared);
    int64_t tiles = (a.d_value + THREADS - 1) / THREADS, block = blockIdx.x, n = a.n_heads;
    int64_t seq = block / tiles / n, head = block / tiles % n;
    int32_t m = (int32_t)(block % tiles) * THREADS + (int32_t)threadIdx.x;
    if (seq >= *a.live || m >= a.d_value)
        return;
    float *state = a.states + a.slot[seq] * a.stride + head * a.d_key * a.d_value + m;
    float *s = KIND & IN_SHARED ? shared + threadIdx.x : state;
    int64_t apart = KIND & IN_SHARED ? THREADS : a.d_value;
    for (int32_t d = 0; KIND & IN_SHARED && d < a.d_key; d++)
        s[d * apart] = state[(int64_t)d * a.d_value];
    int64_t begin = a.seq_start[seq], end = a.seq_start[seq + 1];
    int64_t branch = lx_branch_begin(a.branches, seq, begin, end);
    for (int64_t t = begin; t < end; t++) {
        if (t == branch) {
            float *other = state + (a.branches.slot[seq] - a.slot[seq]) * a.stride;
            float *to = KIND & IN_SHARED ? state : other;
            for (int32_t d = 0; d < a.d_key; d++)
                to[(int64_t)d * a.d_value] = s[d * apart];
            state = other;
            s = KIND & IN_SHARED ? s : other;
        }
        token x = load_token(a, t, head, m);
        float beta = a.beta.at != NULL ? *row_of(a.beta, t, head) : 1.0f;
        float y = a.scale * recur_token<KIND>(x, beta, s, apart, a.d_key);
        y = fmaf(a.skip != NULL ? a.skip[head] : 0.0f, x.v, y);
        if (a.y != NULL)
            a.y[(t * n + head) * a.d_value + m] = y;
        if (a.twin != NULL)
            a.twin[(t * n + head) * a.d_value + m] = lx_to_bf16(y);
    }
    for (int32_t d = 0; KIND & IN_SHARED && d < a.d_key; d++)
        state[(int64_t)d * a.d_value] = s[d * apart];
}

template <int MODE> static cudaError_t launch(const lx_cuda_recurrence *a, cudaStream_t stream)
{
    int64_t bytes = (int64_t)a->d_key * THREADS * 4;
    int64_t blocks = (int64_t)a->n_seqs * a->n_heads * ((a->d_value + THREADS - 1) / THREADS);
    if (blocks > 0x7fffffff)
        return cudaErrorInvalidValue;
    if (bytes <= MOST_SHARED)
        return LX_LAUNCH(recur<MODE | IN_SHARED>, blocks, THREADS, bytes, stream, *a);
    return LX_LAUNCH(recur<MODE>, blocks, THREADS, 0, stream, *a);
}

extern "C" cudaError_t lx_cuda_launch_recurrence(const lx_cuda_recurrence *a, cudaStream_t stream)
{
    if (a->correction == LX_CORRECT_PAIR)
        return launch<PAIR>(a, stream);
    if (a->correction == LX_CORRECT_DELTA)
        return launch<DELTA>(a, stream);
    return a->read == LX_READ_BEFORE ? launch<BEFORE>(a, stream) : launch<PLAIN>(a, stream);
}
