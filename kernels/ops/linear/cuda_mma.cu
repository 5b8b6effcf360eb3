/*
 * The bf16 product of our own: weights in bf16, inputs rounded to bf16, f32 sums by the tensor
 * cores (lx_mma). The kernel also adds bias, activation and residual, so that no sum is read again,
 * and stores the inputs of the next product rounded.
 *
 * The order of an output's sum depends neither on the number of rows nor on a row's place, so a
 * row's bits do not either. Inputs are taken in segments of 256. Within a segment two instructions
 * add 32 inputs at a time: lane q of four holds inputs 8 q .. 8 q + 7 of each 32, one access of 16
 * bytes. The first instruction adds the first four of each eight, the second the last four. The
 * segments' sums are then added in order.
 *
 * Two kernels compute this sum:
 *
 *   few    up to 32 rows per block. Latency decides, so a warp has one segment of 16 outputs and
 *          loads all its weights before it uses the first. A block has all segments of its outputs.
 *   many   64 outputs of 128 rows per block, through shared memory: while a warp multiplies 32
 *          inputs, the next three times 32 are fetched.
 */
#include "kernels/cuda/device.cuh"

#define SEGMENT 256 /* inputs */
#define STEP 32     /* inputs of two instructions */
#define STEPS (SEGMENT / STEP)
#define OUTPUTS 16 /* of an instruction */
#define ROWS 8     /* of an instruction */

/* Eight values in bf16, the first in the lower half of v[0]. */
struct alignas(16) eight {
    uint32_t v[4];
};

LX_DEVICE uint32_t pair_of(float low, float high)
{
    return (uint32_t)lx_to_bf16(low) | (uint32_t)lx_to_bf16(high) << 16;
}

LX_DEVICE eight no_values(void)
{
    eight none = {{0u, 0u, 0u, 0u}};
    return none;
}

/* The two instructions that add 32 inputs to 16 outputs (`low`: the first 8 of them) of 8 rows. The
   second waits for the first, so others come between them where there are any. */
LX_DEVICE void add_first(float (&sum)[4], const eight &low, const eight &high, const eight &x)
{
    lx_mma(sum, low.v[0], high.v[0], low.v[1], high.v[1], x.v[0], x.v[1]);
}

LX_DEVICE void add_second(float (&sum)[4], const eight &low, const eight &high, const eight &x)
{
    lx_mma(sum, low.v[2], high.v[2], low.v[3], high.v[3], x.v[2], x.v[3]);
}

LX_DEVICE eight load_weights(const lx_cuda_mma &a, int64_t output, int32_t k)
{
    if (output >= a.padded_outputs || k >= a.padded)
        return no_values();
    return *(const eight *)(a.w + output * a.padded + k);
}

/* Inputs k .. k + 7 of a row, rounded. ROUNDED: they are stored so. */
template <int ROUNDED>
LX_DEVICE eight load_inputs(const lx_cuda_mma &a, int64_t row, int32_t live, int32_t k)
{
    eight x = no_values();
    if (row >= live || k >= a.cols)
        return x;
    if (ROUNDED)
        return *(const eight *)(a.rounded + row * a.cols + k);
    const float *from = a.x + row * a.cols + k;
    if (a.cols == a.padded) {
        float4 low = ((const float4 *)from)[0], high = ((const float4 *)from)[1];
        x = {{pair_of(low.x, low.y), pair_of(low.z, low.w), pair_of(high.x, high.y),
              pair_of(high.z, high.w)}};
        return x;
    }
    float one[8];
    LX_UNROLL
    for (int32_t i = 0; i < 8; i++)
        one[i] = k + i < a.cols ? from[i] : 0.0f;
    LX_UNROLL
    for (int32_t i = 0; i < 4; i++)
        x.v[i] = pair_of(one[2 * i], one[2 * i + 1]);
    return x;
}

LX_DEVICE float finished(const lx_cuda_mma &a, float sum, int64_t output)
{
    return lx_activate(sum + a.bias[output], a.activation);
}

LX_DEVICE void store(const lx_cuda_mma &a, int64_t row, int64_t output, float sum)
{
    int64_t at = row * a.outputs + output;
    float y = finished(a, sum, output);
    y = a.residual != NULL ? y + a.residual[at] : y;
    if (a.twin == NULL)
        a.y[at] = y;
    else
        a.twin[at] = lx_to_bf16(y);
}

/* --- few rows --- */

#define FEW_WARPS 8
#define FEW_TILES 4 /* of 8 rows */

/* One segment's part of TILES tiles' sums. */
template <int TILES, int ROUNDED>
LX_DEVICE void sum_segment(const lx_cuda_mma &a, const eight *low, const eight *high, int64_t row0,
                           int32_t live, int32_t from, float (&sum)[TILES][4])
{
    int32_t group = (int32_t)(threadIdx.x % 32u) / 4, quarter = (int32_t)(threadIdx.x % 4u);
    LX_UNROLL
    for (int t = 0; t < TILES; t++) {
        if (row0 + ROWS * t >= live)
            return; /* the whole warp */
        eight x[STEPS];
        LX_UNROLL
        for (int s = 0; s < STEPS; s++)
            x[s] = load_inputs<ROUNDED>(a, row0 + ROWS * t + group, live,
                                        from + STEP * s + 8 * quarter);
        LX_UNROLL
        for (int i = 0; i < 4; i++)
            sum[t][i] = 0.0f;
        LX_UNROLL
        for (int s = 0; s < STEPS; s++) {
            if (from + STEP * s < a.padded) {
                add_first(sum[t], low[s], high[s], x[s]);
                add_second(sum[t], low[s], high[s], x[s]);
            }
        }
    }
}

/* A block per 16 outputs and TILES tiles of rows; its warps take the segments in turn, and the
   first warp adds their parts. */
template <int TILES, int ROUNDED> LX_KERNEL(32 * FEW_WARPS) few(const lx_cuda_mma a)
{
    LX_SHARED(float, parts, [FEW_WARPS][TILES * 4][32]);
    int32_t across = (a.outputs + OUTPUTS - 1) / OUTPUTS;
    int64_t row0 = (int64_t)(blockIdx.x / (unsigned)across) * (ROWS * TILES);
    int64_t out0 = (int64_t)(blockIdx.x % (unsigned)across) * OUTPUTS;
    int32_t warps = (int32_t)blockDim.x / 32, warp = (int32_t)threadIdx.x / 32;
    int32_t lane = (int32_t)(threadIdx.x % 32u), group = lane / 4, quarter = lane % 4;
    float sum[TILES][4], part[TILES][4] = {};
    LX_UNROLL
    for (int t = 0; t < TILES; t++)
        sum[t][0] = sum[t][1] = sum[t][2] = sum[t][3] = 0.0f;
    lx_let_next_begin();
    bool first = true;
    int32_t live = 0;
    for (int32_t from = 0; from < a.padded; from += SEGMENT * warps) {
        int32_t mine = from + SEGMENT * warp;
        eight low[STEPS], high[STEPS];
        LX_UNROLL
        for (int s = 0; s < STEPS; s++) {
            int32_t k = mine + STEP * s + 8 * quarter;
            low[s] = load_weights(a, out0 + group, k);
            high[s] = load_weights(a, out0 + group + 8, k);
        }
        if (first) { /* weights were there before; all else others write */
            lx_wait_for_others();
            live = *a.live;
            first = false;
        }
        if (row0 >= live)
            return; /* the whole block */
        sum_segment<TILES, ROUNDED>(a, low, high, row0, live, mine, part);
        LX_UNROLL
        for (int i = 0; i < TILES * 4; i++)
            parts[warp][i][lane] = part[i / 4][i % 4];
        __syncthreads();
        for (int32_t w = 0; warp == 0 && w < warps && from + SEGMENT * w < a.padded; w++) {
            LX_UNROLL
            for (int i = 0; i < TILES * 4; i++)
                sum[i / 4][i % 4] += parts[w][i][lane];
        }
        __syncthreads();
    }
    if (warp != 0)
        return;
    LX_UNROLL
    for (int t = 0; t < TILES; t++) {
        LX_UNROLL
        for (int i = 0; i < 4; i++) {
            int64_t row = row0 + ROWS * t + 2 * quarter + i % 2,
                    output = out0 + group + 8 * (i / 2);
            if (row < live && output < a.outputs)
                store(a, row, output, sum[t][i]);
        }
    }
}

template <int TILES> static cudaError_t launch_few(const lx_cuda_mma *a, cudaStream_t stream)
{
    int64_t across = (a->outputs + OUTPUTS - 1) / OUTPUTS;
    int64_t blocks = across * ((a->rows + ROWS * TILES - 1) / (ROWS * TILES));
    int32_t segments = (a->padded + SEGMENT - 1) / SEGMENT;
    int32_t warps = segments < FEW_WARPS ? segments : FEW_WARPS;
    if (a->rounded != NULL)
        return LX_LAUNCH_EARLY((few<TILES, 1>), blocks, 32 * warps, 0, stream, *a);
    return LX_LAUNCH_EARLY((few<TILES, 0>), blocks, 32 * warps, 0, stream, *a);
}

/* --- many rows --- */

#define MANY_THREADS 256
#define TALL 64   /* outputs of a block; a warp has 32 of them */
#define WIDE 128  /* rows of a block; a warp has 32 of them */
#define INPUTS 32 /* of a stage */
#define STAGES 4  /* in shared memory: one is multiplied while three are fetched */
#define CHUNKS (INPUTS / 8)
#define WIDTH (TALL + 4) /* floats of a row of results, so that no two lanes meet in a bank */

/* Eight lanes read 16 bytes each of two neighbouring rows, so no two lanes meet in a bank. At the
   end the results replace the inputs. */
struct stages {
    eight w[STAGES][TALL * CHUNKS], x[STAGES][WIDE * CHUNKS];
};
union many_shared {
    stages in;
    float out[WIDE][WIDTH];
};

/* As many threads as a row has chunks copy it, so a thread has the same chunk of each 64th row. */
#define APART (MANY_THREADS / CHUNKS)

LX_DEVICE void copy_weights(const lx_cuda_mma &a, eight *to, int32_t out0, int32_t from)
{
    int32_t row = (int32_t)threadIdx.x / CHUNKS, chunk = (int32_t)threadIdx.x % CHUNKS;
    int32_t k = from + 8 * chunk;
    LX_UNROLL
    for (int32_t i = 0; i < TALL / APART; i++, row += APART) {
        bool there = out0 + row < a.padded_outputs && k < a.padded;
        const uint16_t *w = there ? a.w + (int64_t)(out0 + row) * a.padded + k : a.w;
        lx_copy16(&to[row * CHUNKS + chunk], w, there);
    }
}

template <int ROUNDED>
LX_DEVICE void copy_inputs(const lx_cuda_mma &a, eight *to, int64_t row0, int32_t live,
                           int32_t from)
{
    int32_t row = (int32_t)threadIdx.x / CHUNKS, chunk = (int32_t)threadIdx.x % CHUNKS;
    int32_t k = from + 8 * chunk;
    LX_UNROLL
    for (int32_t i = 0; i < WIDE / APART; i++, row += APART) {
        eight *place = &to[row * CHUNKS + chunk];
        if (ROUNDED) {
            bool there = row0 + row < live && k < a.cols;
            lx_copy16(place, there ? a.rounded + (row0 + row) * a.cols + k : a.rounded, there);
        } else {
            /* by way of a variable: tests/simt/race.h sees no store into a function's result */
            const eight x = load_inputs<0>(a, row0 + row, live, k);
            *place = x;
        }
    }
}

/* Adds a stage's inputs to a warp's 2 x 16 outputs of 4 x 8 rows. */
LX_DEVICE void multiply(const eight *w, const eight *x, float (&part)[2][4][4])
{
    int32_t lane = (int32_t)(threadIdx.x % 32u), group = lane / 4, quarter = lane % 4;
    int32_t warp = (int32_t)threadIdx.x / 32, out0 = warp / 4 * 32, row0 = warp % 4 * 32;
    eight low[2], high[2], rows[4];
    LX_UNROLL
    for (int m = 0; m < 2; m++) {
        low[m] = w[(out0 + OUTPUTS * m + group) * CHUNKS + quarter];
        high[m] = w[(out0 + OUTPUTS * m + group + 8) * CHUNKS + quarter];
    }
    LX_UNROLL
    for (int n = 0; n < 4; n++)
        rows[n] = x[(row0 + ROWS * n + group) * CHUNKS + quarter];
    LX_UNROLL
    for (int i = 0; i < 8; i++)
        add_first(part[i / 4][i % 4], low[i / 4], high[i / 4], rows[i % 4]);
    LX_UNROLL
    for (int i = 0; i < 8; i++)
        add_second(part[i / 4][i % 4], low[i / 4], high[i / 4], rows[i % 4]);
}

/* Sums to shared memory, from where they are finished and written four outputs at a time. */
LX_DEVICE void write_results(const lx_cuda_mma &a, many_shared *s, const float (&sum)[2][4][4],
                             int64_t row0, int32_t out0, int32_t live)
{
    int32_t lane = (int32_t)(threadIdx.x % 32u), group = lane / 4, quarter = lane % 4;
    int32_t warp = (int32_t)threadIdx.x / 32, o = warp / 4 * 32 + group,
            r = warp % 4 * 32 + 2 * quarter;
    LX_UNROLL
    for (int i = 0; i < 32; i++)
        s->out[r + ROWS * (i / 4 % 4) + i % 2][o + OUTPUTS * (i / 16) + 8 * (i / 2 % 2)] =
            sum[i / 16][i / 4 % 4][i % 4];
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < WIDE * TALL / 4; i += MANY_THREADS) {
        int32_t row = i / (TALL / 4), at = i % (TALL / 4) * 4;
        int32_t output = out0 + at;
        int64_t place = (row0 + row) * a.outputs + output;
        if (row0 + row >= live || output >= a.outputs)
            continue;
        if (a.outputs % 4 != 0) {
            for (int32_t j = 0; j < 4 && output + j < a.outputs; j++)
                store(a, row0 + row, output + j, s->out[row][at + j]);
            continue;
        }
        float4 y = *(const float4 *)&s->out[row][at];
        y = make_float4(finished(a, y.x, output), finished(a, y.y, output + 1),
                        finished(a, y.z, output + 2), finished(a, y.w, output + 3));
        if (a.residual != NULL) {
            float4 add = *(const float4 *)(a.residual + place);
            y = make_float4(y.x + add.x, y.y + add.y, y.z + add.z, y.w + add.w);
        }
        if (a.twin == NULL)
            *(float4 *)(a.y + place) = y;
        else
            *(lx_bf16x4 *)(a.twin + place) = lx_to_bf16x4(y);
    }
}

template <int ROUNDED> LX_KERNEL(MANY_THREADS, 2) many(const lx_cuda_mma a)
{
    LX_SHARED(many_shared, shared, );
    int32_t across = (a.outputs + TALL - 1) / TALL;
    int64_t row0 = (int64_t)(blockIdx.x / (unsigned)across) * WIDE;
    int32_t out0 = (int32_t)(blockIdx.x % (unsigned)across) * TALL;
    float sum[2][4][4], part[2][4][4];
    LX_UNROLL
    for (int i = 0; i < 32; i++)
        sum[i / 16][i / 4 % 4][i % 4] = part[i / 16][i / 4 % 4][i % 4] = 0.0f;
    lx_let_next_begin();
    for (int32_t n = 0; n < STAGES - 1; n++)
        copy_weights(a, shared.in.w[n], out0, n * INPUTS);
    lx_wait_for_others(); /* weights were there before; all else others write */
    int32_t live = *a.live;
    if (row0 >= live) {
        lx_end_copies();
        lx_wait_for_copies<0>();
        return; /* the whole block */
    }
    for (int32_t n = 0; n < STAGES - 1; n++) {
        copy_inputs<ROUNDED>(a, shared.in.x[n], row0, live, n * INPUTS);
        lx_end_copies();
    }
    for (int32_t from = 0, stage = 0; from < a.padded;
         from += INPUTS, stage = (stage + 1) % STAGES) {
        lx_wait_for_copies<STAGES - 2>();
        __syncthreads(); /* of all threads, and all have read the stage that is filled next */
        int32_t then = from + (STAGES - 1) * INPUTS, free = (stage + STAGES - 1) % STAGES;
        if (then < a.padded) {
            copy_weights(a, shared.in.w[free], out0, then);
            copy_inputs<ROUNDED>(a, shared.in.x[free], row0, live, then);
        }
        lx_end_copies(); /* a group each time, if only an empty one */
        multiply(shared.in.w[stage], shared.in.x[stage], part);
        if ((from + INPUTS) % SEGMENT == 0 || from + INPUTS >= a.padded) {
            LX_UNROLL
            for (int i = 0; i < 32; i++) {
                sum[i / 16][i / 4 % 4][i % 4] += part[i / 16][i / 4 % 4][i % 4];
                part[i / 16][i / 4 % 4][i % 4] = 0.0f;
            }
        }
    }
    lx_wait_for_copies<0>();
    __syncthreads();
    write_results(a, &shared, sum, row0, out0, live);
}

static cudaError_t launch_many(const lx_cuda_mma *a, cudaStream_t stream)
{
    int64_t across = (a->outputs + TALL - 1) / TALL;
    int64_t blocks = across * ((a->rows + WIDE - 1) / WIDE);
    if (a->rounded != NULL)
        return LX_LAUNCH_EARLY((many<1>), blocks, MANY_THREADS, 0, stream, *a);
    return LX_LAUNCH_EARLY((many<0>), blocks, MANY_THREADS, 0, stream, *a);
}

/* Few tiles of rows go to `few`, where a block's weights serve all of them; from then on `many`. */
extern "C" cudaError_t lx_cuda_launch_mma(const lx_cuda_mma *a, cudaStream_t stream)
{
    if (a->rows <= ROWS)
        return launch_few<1>(a, stream);
    if (a->rows <= 2 * ROWS)
        return launch_few<2>(a, stream);
    return a->rows <= ROWS * FEW_TILES ? launch_few<FEW_TILES>(a, stream) : launch_many(a, stream);
}
