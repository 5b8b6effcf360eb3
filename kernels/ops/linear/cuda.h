/* y = act(W x + b) + residual with f32 weights, summed in the order of the inputs. In all four
   structures residual, and in the others bias, may be NULL for none. */
typedef struct lx_cuda_linear {
    float *y;
    const float *x, *w, *bias, *residual;
    int32_t rows, outputs, cols;
    const int32_t *live;
    int32_t activation;
} lx_cuda_linear;

/* x [rows, cols] rounded to bf16: y [rows, padded], with zeros after each row. */
typedef struct lx_cuda_round {
    uint16_t *y;
    const float *x;
    const int32_t *live;
    int32_t rows, cols, padded;
} lx_cuda_round;

/* y = act(product + b) + residual; product [rows, padded] may be y where padded = outputs. `twin`
   is allowed only there. */
typedef struct lx_cuda_finish {
    float *y;
    uint16_t *twin;
    const float *product, *bias, *residual;
    int32_t rows, outputs, padded;
    const int32_t *live;
    int32_t activation;
} lx_cuda_finish;

/* y = act(W x + b) + residual, W in bf16 [padded_outputs, padded], x rounded to bf16; padded is a
   multiple of 8, weights outside are zeros. */
typedef struct lx_cuda_mma {
    float *y; /* may be residual */
    uint16_t *twin;
    const float *x, *bias, *residual; /* x NULL: `rounded` holds the inputs */
    const uint16_t *w, *rounded;      /* rounded: x as it enters the product, where cols = padded */
    const int32_t *live;
    int32_t rows, outputs, padded_outputs, cols, padded;
    int32_t activation;
} lx_cuda_mma;

cudaError_t lx_cuda_launch_mma(const lx_cuda_mma *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_round(const lx_cuda_round *a, cudaStream_t stream);
cudaError_t lx_cuda_launch_finish(const lx_cuda_finish *a, cudaStream_t stream);
