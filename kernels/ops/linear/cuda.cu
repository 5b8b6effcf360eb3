/*
 * The exact product: f32 weights and inputs, one fma an input in their order after the bias, the
 * order of the cpu back end. So its bits are those of the cpu, and do not depend on the rows
 * beside.
 *
 * A block computes a tile of 64 outputs by 64 rows, or by 16 where there are no more, a thread 4 by
 * 4 of them, or by 1; inputs and weights go through shared memory 16 inputs at a time, with a
 * column to spare against bank conflicts.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/ops/linear/cuda.h"

#define THREADS 256
#define TILE 64 /* outputs, and most rows */
#define STEP 16

template <int N>
LX_DEVICE void load_tile(float (*tile)[TILE + 1], const float *from, int64_t row0, int32_t rows,
                         int32_t col0, int32_t cols)
{
    LX_UNROLL
    for (int i = 0; i < N * STEP / THREADS; i++) {
        int at = (int)threadIdx.x + i * THREADS, r = at / STEP, k = at % STEP;
        bool inside = row0 + r < rows && col0 + k < cols;
        tile[k][r] = inside ? from[(row0 + r) * cols + col0 + k] : 0.0f;
    }
}

template <int ROWS> LX_KERNEL(THREADS) linear(const lx_cuda_linear a)
{
    LX_SHARED(float, x, [STEP][TILE + 1]);
    LX_SHARED(float, w, [STEP][TILE + 1]);
    int32_t across = (a.outputs + TILE - 1) / TILE;
    int64_t row0 = (int64_t)(blockIdx.x / (unsigned)across) * (16 * ROWS);
    int64_t out0 = (int64_t)(blockIdx.x % (unsigned)across) * TILE;
    int32_t rows = *a.live;
    if (row0 >= rows)
        return; /* the whole block */
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    float sum[ROWS][4];
    LX_UNROLL
    for (int j = 0; j < 4; j++) {
        int64_t o = out0 + tx + 16 * j;
        float bias = o < a.outputs ? a.bias[o] : 0.0f;
        LX_UNROLL
        for (int i = 0; i < ROWS; i++)
            sum[i][j] = bias;
    }
    for (int32_t k0 = 0; k0 < a.cols; k0 += STEP) {
        int32_t n = a.cols - k0 < STEP ? a.cols - k0 : STEP;
        load_tile<16 * ROWS>(x, a.x, row0, rows, k0, a.cols);
        load_tile<TILE>(w, a.w, out0, a.outputs, k0, a.cols);
        __syncthreads();
        for (int32_t k = 0; k < n; k++) {
            LX_UNROLL
            for (int i = 0; i < ROWS; i++) {
                LX_UNROLL
                for (int j = 0; j < 4; j++)
                    sum[i][j] = fmaf(w[k][tx + 16 * j], x[k][ty + 16 * i], sum[i][j]);
            }
        }
        __syncthreads();
    }
    LX_UNROLL
    for (int i = 0; i < ROWS; i++) {
        LX_UNROLL
        for (int j = 0; j < 4; j++) {
            int64_t row = row0 + ty + 16 * i, o = out0 + tx + 16 * j, at = row * a.outputs + o;
            if (row < rows && o < a.outputs) {
                float y = lx_activate(sum[i][j], a.activation);
                a.y[at] = a.residual != NULL ? y + a.residual[at] : y;
            }
        }
    }
}

template <int ROWS> static cudaError_t launch(const lx_cuda_linear *a, cudaStream_t stream)
{
    int64_t across = (a->outputs + TILE - 1) / TILE, down = (a->rows + 16 * ROWS - 1) / (16 * ROWS);
    if (across * down > 0x7fffffff)
        return cudaErrorInvalidValue;
    return LX_LAUNCH(linear<ROWS>, across * down, THREADS, 0, stream, *a);
}

extern "C" cudaError_t lx_cuda_launch_linear(const lx_cuda_linear *a, cudaStream_t stream)
{
    return a->rows <= 16 ? launch<1>(a, stream) : launch<4>(a, stream);
}
