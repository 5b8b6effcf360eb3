/*
 * product.h by cuBLASLt. Its matrices are column-major, so our y [rows, outputs] is its
 * D (outputs x rows) = W^T (outputs x inputs) X (inputs x rows).
 *
 * The bias is an epilogue of the product and the residual its beta C, so that most products need no
 * kernel after them. The library's GELU is the tanh form, not ours, and is not used.
 *
 * One algorithm serves all numbers of rows. The library proposes algorithms for several sizes of
 * steps and sorts them by its estimate of their time. We take the algorithm whose worst place among
 * these lists is the best, so that neither a single stream nor a full batch is slow. We
 * do not measure: the algorithm, and with it the bits, could then change at every start.
 *
 * We exclude algorithms that split the sum, and those without 1 row. Then the rows of a tile cannot
 * change the order in which an output's products are added. Algorithms that accept all numbers of
 * rows up to MOST come first. Where an algorithm refuses a number, the rows are multiplied in
 * pieces, which gives the same bits.
 */
#include <cublasLt.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/cuda/product.h"

#define WORKSPACE_BYTES ((size_t)32 << 20)
#define PROPOSALS 32
#define MOST (1 << 20)
#define MOST_VALUES INT32_MAX /* of one call's inputs or results: the limit of some algorithms */

/* Rows of a step: from one stream to thousands, or to a long prompt. */
static const int32_t sizes[] = {1, 16, 256, 4096};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* The library's proposals for each of these sizes, in the order of its estimated times. */
typedef struct proposals {
    cublasLtMatmulAlgo_t list[SIZES][PROPOSALS];
    int n[SIZES];
} proposals;

struct lx_cuda_blas {
    cublasLtHandle_t handle;
    void *workspace;
};

struct lx_cuda_product {
    lx_cuda_blas *blas;
    int32_t outputs, inputs;
    bool adds_bias;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t w;
    cublasLtMatmulAlgo_t algorithm;
};

static lx_status library_error(cublasStatus_t st, const char *what, lx_error *err)
{
    return lx_fail(err, LX_ERR_DEVICE, NULL, "cuda: %s: cuBLASLt says %s", what,
                   cublasLtGetStatusName(st));
}

lx_status lx_cuda_blas_new(lx_cuda_blas **out, lx_error *err)
{
    lx_cuda_blas *b = calloc(1, sizeof *b);
    if (b == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the matrix library");
    cublasStatus_t st = cublasLtCreate(&b->handle);
    if (st != CUBLAS_STATUS_SUCCESS) {
        b->handle = NULL;
        lx_cuda_blas_free(b);
        return library_error(st, "starting the matrix library", err);
    }
    cudaError_t e = cudaMalloc(&b->workspace, WORKSPACE_BYTES);
    if (e != cudaSuccess) {
        lx_cuda_blas_free(b);
        return lx_fail(err, e == cudaErrorMemoryAllocation ? LX_ERR_NO_MEMORY : LX_ERR_DEVICE, NULL,
                       "cuda: no memory for the matrix library: %s", cudaGetErrorString(e));
    }
    *out = b;
    return LX_OK;
}

void lx_cuda_blas_free(lx_cuda_blas *b)
{
    if (b == NULL)
        return;
    if (b->handle != NULL)
        (void)cublasLtDestroy(b->handle);
    (void)cudaFree(b->workspace);
    free(b);
}

static cublasStatus_t describe(lx_cuda_product *p)
{
    cublasOperation_t transposed = CUBLAS_OP_T;
    cublasStatus_t st = cublasLtMatmulDescCreate(&p->what, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof transposed);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatrixLayoutCreate(&p->w, CUDA_R_16BF, (uint64_t)p->inputs,
                                        (uint64_t)p->outputs, p->inputs);
    return st;
}

static cublasStatus_t set_epilogue(lx_cuda_product *p, const float *bias)
{
    cublasLtEpilogue_t epilogue = bias != NULL ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t st = cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                       &epilogue, sizeof epilogue);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                            sizeof bias);
    p->adds_bias = bias != NULL;
    return st;
}

/* Layouts of x and y for so many rows, without allocation. */
static cublasStatus_t layouts(const lx_cuda_product *p, int32_t rows,
                              cublasLtMatrixLayoutOpaque_t *x, cublasLtMatrixLayoutOpaque_t *y)
{
    cublasStatus_t st =
        cublasLtMatrixLayoutInit(x, CUDA_R_16BF, (uint64_t)p->inputs, (uint64_t)rows, p->inputs);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatrixLayoutInit(y, CUDA_R_32F, (uint64_t)p->outputs, (uint64_t)rows,
                                      p->outputs);
    return st;
}

/* Reads an attribute of 32 bits; false where the algorithm lacks it. */
static bool get_attribute(const cublasLtMatmulAlgo_t *a, cublasLtMatmulAlgoConfigAttributes_t what,
                          int32_t *value)
{
    size_t written = 0;
    return cublasLtMatmulAlgoConfigGetAttribute(a, what, value, sizeof *value, &written) ==
           CUBLAS_STATUS_SUCCESS;
}

static bool sums_in_one_piece(const cublasLtMatmulAlgo_t *a)
{
    int32_t splits = 0, reduction = 0;
    return get_attribute(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits) &&
           get_attribute(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction) && splits <= 1 &&
           reduction == CUBLASLT_REDUCTION_SCHEME_NONE;
}

static bool accepts(const lx_cuda_product *p, const cublasLtMatmulAlgo_t *a, int32_t rows)
{
    cublasLtMatrixLayoutOpaque_t x, y;
    cublasLtMatmulHeuristicResult_t result;
    return layouts(p, rows, &x, &y) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulAlgoCheck(p->blas->handle, p->what, p->w, &x, &y, &y, a, &result) ==
               CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= WORKSPACE_BYTES;
}

static int32_t most_rows(const lx_cuda_product *p)
{
    int32_t width = p->outputs > p->inputs ? p->outputs : p->inputs;
    return MOST_VALUES / width < MOST ? MOST_VALUES / width : MOST;
}

/* The sizes that steps are captured in, and more. */
static bool accepts_all(const lx_cuda_product *p, const cublasLtMatmulAlgo_t *a)
{
    int32_t most = most_rows(p);
    for (int32_t n = 1; n <= most; n = n < 16 ? n + 1 : n % 3 == 0 ? n / 3 * 4 : n / 2 * 3) {
        if (!accepts(p, a, n))
            return false;
    }
    return accepts(p, a, most);
}

static cublasStatus_t ask(const lx_cuda_product *p, int32_t rows,
                          cublasLtMatmulHeuristicResult_t *list, int *n)
{
    cublasLtMatrixLayoutOpaque_t x, y;
    cublasLtMatmulPreferenceOpaque_t wishes;
    uint64_t workspace = WORKSPACE_BYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasStatus_t st = layouts(p, rows, &x, &y);
    *n = 0;
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulPreferenceInit(&wishes);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulPreferenceSetAttribute(&wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &workspace, sizeof workspace);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulPreferenceSetAttribute(
            &wishes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmulAlgoGetHeuristic(p->blas->handle, p->what, p->w, &x, &y, &y, &wishes,
                                            PROPOSALS, list, n);
    return st;
}

/* All proposals that keep the law; none for a size without proposals. */
static cublasStatus_t propose(const lx_cuda_product *p, proposals *all)
{
    for (int i = 0; i < SIZES; i++) {
        cublasLtMatmulHeuristicResult_t list[PROPOSALS];
        int n = 0, most = most_rows(p);
        all->n[i] = 0;
        cublasStatus_t st = ask(p, sizes[i] < most ? sizes[i] : most, list, &n);
        if (st != CUBLAS_STATUS_SUCCESS && st != CUBLAS_STATUS_NOT_SUPPORTED)
            return st;
        for (int k = 0; st == CUBLAS_STATUS_SUCCESS && k < n; k++) {
            const cublasLtMatmulAlgo_t *a = &list[k].algo;
            if (list[k].state == CUBLAS_STATUS_SUCCESS && sums_in_one_piece(a) && accepts(p, a, 1))
                all->list[i][all->n[i]++] = *a;
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Whether both are one kernel; false if either lacks an attribute. */
static bool is_same(const cublasLtMatmulAlgo_t *a, const cublasLtMatmulAlgo_t *b)
{
    static const cublasLtMatmulAlgoConfigAttributes_t what[] = {
        CUBLASLT_ALGO_CONFIG_ID, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_STAGES_ID};
    for (size_t i = 0; i < sizeof what / sizeof what[0]; i++) {
        int32_t of_a = 0, of_b = 0;
        if (!get_attribute(a, what[i], &of_a) || !get_attribute(b, what[i], &of_b) || of_a != of_b)
            return false;
    }
    return true;
}

/* Its worst place among the proposals of a size, with the sum of its places as a tie-break. Where
   it was not proposed its place is the last. */
static int standing(const proposals *all, const cublasLtMatmulAlgo_t *a)
{
    int worst = 0, sum = 0;
    for (int i = 0; i < SIZES; i++) {
        int place = 0;
        while (place < all->n[i] && !is_same(&all->list[i][place], a))
            place++;
        if (place == all->n[i])
            place = PROPOSALS;
        worst = place > worst ? place : worst;
        sum += place;
    }
    return worst * (SIZES * PROPOSALS + 1) + sum;
}

/* The proposal with the best standing, with must_accept_all only of algorithms that accept all
   numbers of rows; NULL: there is none. */
static const cublasLtMatmulAlgo_t *best_of(const lx_cuda_product *p, const proposals *all,
                                           bool must_accept_all)
{
    const cublasLtMatmulAlgo_t *best = NULL;
    int best_stands = INT32_MAX;
    for (int i = 0; i < SIZES; i++) {
        for (int k = 0; k < all->n[i]; k++) {
            const cublasLtMatmulAlgo_t *a = &all->list[i][k];
            int stands = standing(all, a);
            if (stands >= best_stands || (must_accept_all && !accepts_all(p, a)))
                continue;
            best = a;
            best_stands = stands;
        }
    }
    return best;
}

/* LX_ERR_UNSUPPORTED when no proposal keeps the law. */
static lx_status pin(lx_cuda_product *p, const float *bias, lx_error *err)
{
    proposals all;
    cublasStatus_t st = set_epilogue(p, bias);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = propose(p, &all);
    if (st != CUBLAS_STATUS_SUCCESS)
        return library_error(st, "looking for an algorithm", err);
    const cublasLtMatmulAlgo_t *best = best_of(p, &all, true);
    if (best == NULL)
        best = best_of(p, &all, false);
    if (best != NULL) {
        p->algorithm = *best;
        return LX_OK;
    }
    return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                   "cuda: no algorithm for a matrix [%d, %d] keeps the order of sums", p->outputs,
                   p->inputs);
}

lx_status lx_cuda_product_new(lx_cuda_blas *b, int32_t outputs, int32_t inputs, const float *bias,
                              lx_cuda_product **out, lx_error *err)
{
    lx_cuda_product *p = calloc(1, sizeof *p);
    if (p == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a product");
    p->blas = b;
    p->outputs = outputs;
    p->inputs = inputs;
    cublasStatus_t described = describe(p);
    lx_status st = described == CUBLAS_STATUS_SUCCESS
                       ? pin(p, bias, err)
                       : library_error(described, "describing a product", err);
    if (st == LX_ERR_UNSUPPORTED)
        st = pin(p, NULL, err);
    if (st != LX_OK) {
        lx_cuda_product_free(p);
        return st;
    }
    *out = p;
    return LX_OK;
}

void lx_cuda_product_free(lx_cuda_product *p)
{
    if (p == NULL)
        return;
    if (p->w != NULL)
        (void)cublasLtMatrixLayoutDestroy(p->w);
    if (p->what != NULL)
        (void)cublasLtMatmulDescDestroy(p->what);
    free(p);
}

bool lx_cuda_product_adds_bias(const lx_cuda_product *p)
{
    return p->adds_bias;
}

static cublasStatus_t multiply(const lx_cuda_product *p, const uint16_t *w, const uint16_t *x,
                               const float *add, float *y, int32_t rows, cudaStream_t stream)
{
    const float one = 1.0f, beta = add != NULL ? 1.0f : 0.0f;
    cublasLtMatrixLayoutOpaque_t in, out;
    cublasStatus_t st = layouts(p, rows, &in, &out);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = cublasLtMatmul(p->blas->handle, p->what, &one, w, p->w, x, &in, &beta,
                            add != NULL ? add : y, &out, y, &out, &p->algorithm, p->blas->workspace,
                            WORKSPACE_BYTES, stream);
    return st;
}

/* Whether fewer rows may be accepted; then nothing was queued. */
static bool is_refusal(cublasStatus_t st)
{
    return st == CUBLAS_STATUS_NOT_SUPPORTED || st == CUBLAS_STATUS_INVALID_VALUE;
}

lx_status lx_cuda_product_run(lx_cuda_product *p, const uint16_t *w, const uint16_t *x,
                              const float *add, float *y, int32_t rows, cudaStream_t stream,
                              lx_error *err)
{
    int32_t most = most_rows(p);
    for (int32_t done = 0; done < rows;) {
        int32_t n = rows - done < most ? rows - done : most;
        int64_t from = (int64_t)done * p->inputs, to = (int64_t)done * p->outputs;
        cublasStatus_t st =
            multiply(p, w, x + from, add != NULL ? add + to : NULL, y + to, n, stream);
        if (st == CUBLAS_STATUS_SUCCESS)
            done += n;
        else if (n > 1 && is_refusal(st))
            most = (n + 1) / 2;
        else
            return library_error(st, "a matrix product", err);
    }
    return LX_OK;
}
