/*
 * The exact product: f32 weights and inputs, the bias, then one fma per input in order, as in the
 * cpu back end. So its bits are those of the cpu, and depend neither on other rows nor on the
 * kernel.
 *
 * `linear_few` is for few rows or outputs: one thread per output, so that many blocks share the
 * weights and each block fetches all of its weights at once. `linear` is for many: a thread has 4
 * by 4 outputs of a tile, so that each value from shared memory serves four times. Both prefetch,
 * and add 4 inputs at a time.
 */
#include "kernels/cuda/device.cuh"

#define THREADS 256
#define FEW 16     /* outputs and rows of a block of linear_few */
#define CHUNK 128  /* inputs that it holds */
#define TOGETHER 8 /* times 4 inputs that a thread reads at once */
#define TILE 64    /* outputs and rows of a block of linear */
#define STEP 16    /* inputs that it holds, twice */
#define ENOUGH 64  /* tiles: with fewer linear_few is quicker */

/* Four inputs of a row: zeros where there are none. */
LX_DEVICE float4 four_of(const float *from, bool wide, int64_t row, int32_t rows, int32_t k,
                         int32_t cols)
{
    const float *at = from + row * cols + k;
    if (row >= rows || k >= cols)
        return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (wide)
        return *(const float4 *)(const void *)at;
    return make_float4(at[0], k + 1 < cols ? at[1] : 0.0f, k + 2 < cols ? at[2] : 0.0f,
                       k + 3 < cols ? at[3] : 0.0f);
}

LX_DEVICE void put_output(const lx_cuda_linear &a, int64_t row, int64_t o, float sum)
{
    int64_t at = row * a.outputs + o;
    float y = lx_activate(sum, a.activation);
    a.y[at] = a.residual != NULL ? y + a.residual[at] : y;
}

/* --- few --- */

#define FOURS (FEW * CHUNK / 4 / THREADS) /* of a thread, of weights and of inputs */

LX_DEVICE float add_four(float sum, float4 w, float4 x)
{
    sum = fmaf(w.x, x.x, sum);
    sum = fmaf(w.y, x.y, sum);
    sum = fmaf(w.z, x.z, sum);
    return fmaf(w.w, x.w, sum);
}

struct few_fetched {
    float4 w[FOURS], x[FOURS];
};

/* A thread's fours of a block's rows of weights or inputs. */
LX_DEVICE void fetch_few(float4 (&to)[FOURS], const float *from, bool wide, int64_t row0,
                         int32_t rows, int32_t k0, int32_t cols)
{
    LX_UNROLL
    for (int i = 0; i < FOURS; i++) {
        int at = (int)threadIdx.x + i * THREADS, r = at / (CHUNK / 4), k = at % (CHUNK / 4) * 4;
        to[i] = four_of(from, wide, row0 + r, rows, k0 + k, cols);
    }
}

LX_KERNEL(THREADS, 2) linear_few(const lx_cuda_linear a, bool wide)
{
    LX_SHARED(float4, w, [FEW][CHUNK / 4 + 1]); /* one to spare against bank conflicts */
    LX_SHARED(float4, x, [FEW][CHUNK / 4 + 1]);
    int32_t across = (a.outputs + FEW - 1) / FEW;
    int64_t row0 = (int64_t)(blockIdx.x / (unsigned)across) * FEW;
    int64_t out0 = (int64_t)(blockIdx.x % (unsigned)across) * FEW;
    few_fetched f;
    lx_let_next_begin();
    fetch_few(f.w, a.w, wide, out0, a.outputs, 0, a.cols);
    lx_wait_for_others(); /* weights were there before */
    int32_t rows = *a.live;
    if (row0 >= rows)
        return; /* the whole block */
    int tx = (int)threadIdx.x % FEW, ty = (int)threadIdx.x / FEW;
    bool there = row0 + ty < rows && out0 + tx < a.outputs;
    fetch_few(f.x, a.x, wide, row0, rows, 0, a.cols);
    float sum = there ? a.bias[out0 + tx] : 0.0f;
    for (int32_t k0 = 0; k0 < a.cols; k0 += CHUNK) {
        int32_t n = a.cols - k0 < CHUNK ? a.cols - k0 : CHUNK;
        LX_UNROLL
        for (int i = 0; i < FOURS; i++) {
            int at = (int)threadIdx.x + i * THREADS;
            w[at / (CHUNK / 4)][at % (CHUNK / 4)] = f.w[i];
            x[at / (CHUNK / 4)][at % (CHUNK / 4)] = f.x[i];
        }
        __syncthreads();
        if (k0 + CHUNK < a.cols) {
            fetch_few(f.w, a.w, wide, out0, a.outputs, k0 + CHUNK, a.cols);
            fetch_few(f.x, a.x, wide, row0, rows, k0 + CHUNK, a.cols);
        }
        if (there) {
            int32_t k = 0;
            for (; k + TOGETHER <= n / 4; k += TOGETHER) { /* their loads overlap */
                float4 by[TOGETHER], of[TOGETHER];
                LX_UNROLL
                for (int i = 0; i < TOGETHER; i++) {
                    by[i] = w[tx][k + i];
                    of[i] = x[ty][k + i];
                }
                LX_UNROLL
                for (int i = 0; i < TOGETHER; i++)
                    sum = add_four(sum, by[i], of[i]);
            }
            for (; k < n / 4; k++)
                sum = add_four(sum, w[tx][k], x[ty][k]);
            if (n % 4 > 0) {
                float4 by = w[tx][n / 4], of = x[ty][n / 4];
                sum = fmaf(by.x, of.x, sum);
                sum = n % 4 > 1 ? fmaf(by.y, of.y, sum) : sum;
                sum = n % 4 > 2 ? fmaf(by.z, of.z, sum) : sum;
            }
        }
        __syncthreads();
    }
    if (there)
        put_output(a, row0 + ty, out0 + tx, sum);
}

/* --- many --- */

/* A thread's four inputs into a tile, by input then. */
LX_DEVICE void turn(float (*tile)[TILE + 4], float4 f)
{
    int r = (int)threadIdx.x / 4, k = (int)threadIdx.x % 4 * 4;
    tile[k][r] = f.x;
    tile[k + 1][r] = f.y;
    tile[k + 2][r] = f.z;
    tile[k + 3][r] = f.w;
}

LX_DEVICE void add_products(float (&sum)[4], float by, float4 w)
{
    sum[0] = fmaf(w.x, by, sum[0]);
    sum[1] = fmaf(w.y, by, sum[1]);
    sum[2] = fmaf(w.z, by, sum[2]);
    sum[3] = fmaf(w.w, by, sum[3]);
}

LX_KERNEL(THREADS) linear(const lx_cuda_linear a, bool wide)
{
    LX_SHARED(float, x, [2][STEP][TILE + 4]);
    LX_SHARED(float, w, [2][STEP][TILE + 4]);
    int32_t across = (a.outputs + TILE - 1) / TILE;
    int64_t row0 = (int64_t)(blockIdx.x / (unsigned)across) * TILE;
    int64_t out0 = (int64_t)(blockIdx.x % (unsigned)across) * TILE;
    lx_let_next_begin();
    lx_wait_for_others();
    int32_t rows = *a.live;
    if (row0 >= rows)
        return; /* the whole block */
    int tx = (int)threadIdx.x % 16 * 4, ty = (int)threadIdx.x / 16 * 4;
    int r = (int)threadIdx.x / 4, k = (int)threadIdx.x % 4 * 4;
    float4 next_x = four_of(a.x, wide, row0 + r, rows, k, a.cols);
    float4 next_w = four_of(a.w, wide, out0 + r, a.outputs, k, a.cols);
    float sum[4][4];
    LX_UNROLL
    for (int j = 0; j < 4; j++) {
        float bias = out0 + tx + j < a.outputs ? a.bias[out0 + tx + j] : 0.0f;
        LX_UNROLL
        for (int i = 0; i < 4; i++)
            sum[i][j] = bias;
    }
    int half = 0;
    for (int32_t k0 = 0; k0 < a.cols; k0 += STEP, half = 1 - half) {
        int32_t n = a.cols - k0 < STEP ? a.cols - k0 : STEP;
        turn(x[half], next_x);
        turn(w[half], next_w);
        __syncthreads(); /* and the other half has been read when the next turn writes it */
        next_x = four_of(a.x, wide, row0 + r, rows, k0 + STEP + k, a.cols);
        next_w = four_of(a.w, wide, out0 + r, a.outputs, k0 + STEP + k, a.cols);
        LX_UNROLL_4
        for (int32_t i = 0; i < n; i++) {
            float4 of = *(const float4 *)(const void *)&x[half][i][ty];
            float4 by = *(const float4 *)(const void *)&w[half][i][tx];
            add_products(sum[0], of.x, by);
            add_products(sum[1], of.y, by);
            add_products(sum[2], of.z, by);
            add_products(sum[3], of.w, by);
        }
    }
    LX_UNROLL
    for (int i = 0; i < 4; i++) {
        LX_UNROLL
        for (int j = 0; j < 4; j++) {
            if (row0 + ty + i < rows && out0 + tx + j < a.outputs)
                put_output(a, row0 + ty + i, out0 + tx + j, sum[i][j]);
        }
    }
}

static int64_t tiles_of(const lx_cuda_linear *a, int32_t size)
{
    return (((int64_t)a->outputs + size - 1) / size) * (((int64_t)a->rows + size - 1) / size);
}

extern "C" cudaError_t lx_cuda_launch_linear(const lx_cuda_linear *a, cudaStream_t stream)
{
    bool wide = a->cols % 4 == 0 && ((uintptr_t)a->x | (uintptr_t)a->w) % sizeof(float4) == 0;
    bool few = a->rows <= FEW || tiles_of(a, TILE) < ENOUGH;
    int64_t blocks = tiles_of(a, few ? FEW : TILE);
    if (blocks > 0x7fffffff)
        return cudaErrorInvalidValue;
    if (few)
        return LX_LAUNCH_EARLY(linear_few, blocks, THREADS, 0, stream, *a, wide);
    return LX_LAUNCH_EARLY(linear, blocks, THREADS, 0, stream, *a, wide);
}
