/*
 * A matrix library that is as awkward as the real one may be. Some of its algorithms split sums,
 * and some refuse one row, many rows or some numbers of rows. For every fifth width none adds a
 * bias, and it refuses results of 2^31 values. It lists the quickest algorithm first, and that one
 * differs from one number of rows to the next. Sums are doubles, as in the oracle, so a result
 * shows a refused algorithm but not the chosen one.
 *
 * It proposes nothing while any thread captures. The first product of a plan cannot be captured;
 * with LINNET_SIMT_NO_CAPTURE no product can be captured.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/step.h"
#include "tests/simt/fake/cublasLt.h"
#include "tests/simt/fake/fake.h"

#define MOST_VALUES (UINT64_C(1) << 31)
#define WORKSPACE ((size_t)1 << 20)

struct cublasLtContext {
    int unused;
};

struct cublasLtMatmulDesc {
    cublasOperation_t transposed;
    cublasLtEpilogue_t epilogue;
    const float *bias;
    bool has_run; /* a first time may load code, which cannot be captured */
};

__attribute__((visibility("default"))) void simt_listen(void (*in_capture)(void),
                                                        void (*in_wait)(void), void (*asks)(void));
void __real_lx_turn_take(lx_turn *t);
void __wrap_lx_turn_take(lx_turn *t);

static void (*someone_asks)(void);

void simt_listen(void (*in_capture)(void), void (*in_wait)(void), void (*asks)(void))
{
    simt_in_capture = in_capture;
    simt_in_wait = in_wait;
    someone_asks = asks;
}

void __wrap_lx_turn_take(lx_turn *t)
{
    if (someone_asks != NULL)
        someone_asks();
    __real_lx_turn_take(t);
}

/* The proposed algorithms, equally quick ones in this order; numbers of rows from .. to - 1 are
   refused. */
static const struct {
    cublasStatus_t state;
    int32_t tile; /* rows */
    int32_t splits;
    uint32_t reduction;
    uint64_t from, to;
} algorithms[] = {
    {CUBLAS_STATUS_NOT_SUPPORTED, 64, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 0, 0},
    {CUBLAS_STATUS_SUCCESS, 64, 2, CUBLASLT_REDUCTION_SCHEME_NONE, 0, 0},
    {CUBLAS_STATUS_SUCCESS, 64, 1, CUBLASLT_REDUCTION_SCHEME_INPLACE, 0, 0},
    {CUBLAS_STATUS_SUCCESS, 64, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 1, 2},
    {CUBLAS_STATUS_SUCCESS, 64, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 1 << 16, MOST_VALUES},
    {CUBLAS_STATUS_SUCCESS, 64, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 4, 7},
    {CUBLAS_STATUS_SUCCESS, 64, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 5, 6},
    {CUBLAS_STATUS_SUCCESS, 16, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 0, 0},
    {CUBLAS_STATUS_SUCCESS, 64, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 0, 0},
    {CUBLAS_STATUS_SUCCESS, 256, 1, CUBLASLT_REDUCTION_SCHEME_NONE, 0, 0},
};
enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0], GOOD = 7 /* the first of these */ };

/* The time of such a product, in units of its own: rounds of eight tiles. */
static long time_of(int id, uint64_t rows)
{
    uint64_t tile = (uint64_t)algorithms[id].tile, tiles = (rows + tile - 1) / tile;
    return (long)((tiles + 7) / 8 * (tile + 32));
}

/* That of the quickest that takes every number of rows. */
static long least_time(uint64_t rows)
{
    long least = time_of(GOOD, rows);
    for (int id = GOOD + 1; id < ALGORITHMS; id++)
        least = time_of(id, rows) < least ? time_of(id, rows) : least;
    return least;
}

#define STATUS()                                                                                   \
    do {                                                                                           \
        if (simt_fail_now() != 0)                                                                  \
            return CUBLAS_STATUS_INTERNAL_ERROR;                                                   \
    } while (0)

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                 : "an error of the fake library";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    STATUS();
    *handle = calloc(1, sizeof **handle);
    return *handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType scale)
{
    STATUS();
    *desc = calloc(1, sizeof **desc);
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_INVALID_VALUE;
    return *desc != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t n_bytes)
{
    void *const to[] = {[CUBLASLT_MATMUL_DESC_TRANSA] = &desc->transposed,
                        [CUBLASLT_MATMUL_DESC_EPILOGUE] = &desc->epilogue,
                        [CUBLASLT_MATMUL_DESC_BIAS_POINTER] = &desc->bias};
    STATUS();
    memcpy(to[which], value, n_bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type,
                                        uint64_t rows, uint64_t cols, int64_t ld)
{
    STATUS();
    *layout = (cublasLtMatrixLayoutOpaque_t){type, rows, cols, ld};
    return ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    cublasLtMatrixLayout_t made = calloc(1, sizeof *made);
    *layout = made;
    return made != NULL ? cublasLtMatrixLayoutInit(made, type, rows, cols, ld)
                        : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t wishes)
{
    STATUS();
    *wishes = (cublasLtMatmulPreferenceOpaque_t){0, UINT32_MAX};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wishes,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *value, size_t n_bytes)
{
    STATUS();
    if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&wishes->most_workspace, value, n_bytes);
    else
        memcpy(&wishes->schemes, value, n_bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t which,
                                                    void *value, size_t n_bytes, size_t *written)
{
    static const int32_t stages;
    const void *const from[] = {[CUBLASLT_ALGO_CONFIG_ID] = &algorithm->id,
                                [CUBLASLT_ALGO_CONFIG_TILE_ID] = &algorithm->tile,
                                [CUBLASLT_ALGO_CONFIG_STAGES_ID] = &stages,
                                [CUBLASLT_ALGO_CONFIG_SPLITK_NUM] = &algorithm->splits,
                                [CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME] = &algorithm->reduction};
    if (n_bytes != sizeof(int32_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, from[which], n_bytes);
    *written = n_bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* a is the weights, transposed; b the inputs, a column each row; d the results. */
static cublasStatus_t check(const struct cublasLtMatmulDesc *desc,
                            const cublasLtMatrixLayoutOpaque_t *a,
                            const cublasLtMatrixLayoutOpaque_t *b,
                            const cublasLtMatrixLayoutOpaque_t *d,
                            const cublasLtMatmulAlgo_t *algorithm)
{
    bool fits = desc->transposed == CUBLAS_OP_T && a->type == CUDA_R_16BF &&
                b->type == CUDA_R_16BF && d->type == CUDA_R_32F && a->rows == b->rows &&
                a->cols == d->rows && b->cols == d->cols && a->rows % 8 == 0 && a->cols % 8 == 0;
    if (!fits || d->cols == 0 || d->rows * d->cols >= MOST_VALUES || algorithm->id < 0 ||
        algorithm->id >= ALGORITHMS)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (d->cols >= algorithms[algorithm->id].from && d->cols < algorithms[algorithm->id].to)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return algorithms[algorithm->id].state;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    (void)handle;
    (void)c;
    STATUS();
    *result = (cublasLtMatmulHeuristicResult_t){*algorithm, WORKSPACE, CUBLAS_STATUS_SUCCESS, 1};
    return result->state = check(desc, a, b, d, algorithm);
}

/* Sorts the list, after the n equally quick entries. */
static void put_in_order(cublasLtMatmulHeuristicResult_t *list, int n,
                         const cublasLtMatmulHeuristicResult_t *one)
{
    uint64_t rows = one->algo.asked_for;
    for (; n > 0 && time_of(list[n - 1].algo.id, rows) > time_of(one->algo.id, rows); n--)
        list[n] = list[n - 1];
    list[n] = *one;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wishes, int most,
                                              cublasLtMatmulHeuristicResult_t *list, int *n)
{
    (void)handle;
    (void)b;
    (void)c;
    STATUS();
    *n = 0;
    bool captured = simt_is_captured();
    if (someone_asks != NULL)
        someone_asks();
    if (captured)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (wishes->most_workspace < WORKSPACE ||
        (desc->epilogue == CUBLASLT_EPILOGUE_BIAS && d->rows / 8 % 5 == 0))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    int left_out = (int)(a->cols / 8 % 3); /* of every third width the good ones are there */
    int kept = left_out == 0 ? ALGORITHMS : GOOD + 1 - left_out;
    for (int i = 0; i < kept && *n < most; i++) {
        const cublasLtMatmulAlgo_t algo = {i, algorithms[i].tile, algorithms[i].splits,
                                           algorithms[i].reduction, d->cols};
        put_in_order(list, *n,
                     &(cublasLtMatmulHeuristicResult_t){algo, WORKSPACE, algorithms[i].state, 1});
        (*n)++;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* --- a product --- */

typedef struct product {
    const uint16_t *w, *x;
    const float *add, *bias;
    float *y;
    uint64_t inputs, outputs, rows;
} product;

static double dot(const uint16_t *a, const uint16_t *b, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)lx_bf16_to_f32(a[i]) * (double)lx_bf16_to_f32(b[i]);
    return sum;
}

static int multiply(void *work)
{
    const product *m = work;
    if (simt_fail_now() != 0)
        return cudaErrorIllegalAddress;
    for (uint64_t row = 0; row < m->rows; row++) {
        for (uint64_t o = 0; o < m->outputs; o++) {
            double y = dot(m->w + o * m->inputs, m->x + row * m->inputs, m->inputs);
            if (m->add != NULL)
                y += (double)m->add[row * m->outputs + o];
            if (m->bias != NULL)
                y += (double)m->bias[o];
            m->y[row * m->outputs + o] = (float)y;
        }
    }
    return 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t n_workspace, cudaStream_t stream)
{
    (void)handle;
    (void)c_layout;
    STATUS();
    if ((getenv("LINNET_SIMT_NO_CAPTURE") != NULL || !desc->has_run) && simt_spoils_capture())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    cublasStatus_t st = check(desc, a_layout, b_layout, d_layout, algorithm);
    bool aligned = ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % 16 == 0;
    if (st == CUBLAS_STATUS_SUCCESS &&
        (!aligned || n_workspace < WORKSPACE ||
         simt_place_of(workspace, n_workspace) != SIMT_DEVICE || *(const float *)alpha != 1.0f))
        st = CUBLAS_STATUS_INVALID_VALUE;
    if (st != CUBLAS_STATUS_SUCCESS)
        return st;
    product *m = simt_real_malloc(sizeof *m);
    if (m == NULL)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *m = (product){.w = a,
                   .x = b,
                   .add = *(const float *)beta != 0.0f ? c : NULL,
                   .bias = desc->epilogue == CUBLASLT_EPILOGUE_BIAS ? desc->bias : NULL,
                   .y = d,
                   .inputs = a_layout->rows,
                   .outputs = d_layout->rows,
                   .rows = d_layout->cols};
    simt_queue(stream, multiply, free, m);
    simt_add(&simt_counts_now.product_time, time_of(algorithm->id, m->rows));
    simt_add(&simt_counts_now.products, 1);
    simt_add(&simt_counts_now.least_product_time, least_time(m->rows));
    desc->has_run = true;
    return CUBLAS_STATUS_SUCCESS;
}
