/*
 * Whether the cuda back end runs steps of single rows as graphs, for tests/gpu.sh. A step that
 * cannot be captured is launched kernel by kernel, with equal results, so no other check notices.
 *
 * A tiny model's steps of each size that has a graph of its own, 1 to 1,024 sequences, with either
 * kind of product, are prepared and run. Prints how many sizes there are; exit status 1 where one
 * of them is no graph, is captured more than once, or only when it runs.
 */
#include <stdio.h>
#include <string.h>

#include "tests/simt/world.h"

enum { MOST = 1024 };

static world w;

/* Steps that became graphs so far; -1 where one could not, or the back end does not say. */
static long long graphs(void)
{
    char text[160];
    long long captured = 0, plain = 0;
    w.k->describe(w.be, text, sizeof text);
    const char *steps = strstr(text, "steps: ");
    if (steps == NULL)
        return 0;
    int n = sscanf(steps, "steps: %lld as graphs, %lld not", &captured, &plain);
    return n == 2 && plain == 0 ? captured : -1;
}

/* The step of n sequences is prepared, and then run twice. */
static lx_status run_size(int32_t n, lx_error *err)
{
    long long before = graphs();
    lx_status st = world_prepare(&w, n, err);
    if (st == LX_OK && graphs() != before + 1)
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "%d sequences are no graph", n);
    for (int i = 0; i < 2 && st == LX_OK; i++)
        st = world_decode(&w, n, err);
    if (st == LX_OK && graphs() != before + 1)
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "%d sequences are captured again", n);
    return st;
}

static bool run_all(lx_cuda_products products)
{
    const lx_backend_options how = {
        .n_threads = 1, .precision = LX_PRECISION_AUTO, .cuda_products = products};
    const char *name = products == LX_CUDA_PRODUCTS_OWN ? "own" : "cublas";
    lx_error err = {0};
    int sizes = 0;
    lx_status st = world_open(&w, &how, &err);
    if (st == LX_OK) /* takes all memory, which would have graphs captured anew */
        st = world_decode(&w, MOST + 1, &err);
    for (int32_t n = 1; n <= MOST && st == LX_OK; n++) {
        if (w.k->step_size(n) == n) {
            st = run_size(n, &err);
            sizes++;
        }
    }
    if (st == LX_OK)
        (void)printf("%s: %d sizes up to %d, each a graph\n", name, sizes, MOST);
    else
        (void)printf("%s: %s\n", name, err.text);
    world_close(&w);
    return st == LX_OK;
}

int main(void)
{
    bool library = run_all(LX_CUDA_PRODUCTS_CUBLAS), own = run_all(LX_CUDA_PRODUCTS_OWN);
    (void)printf("%d passed, %d failed\n", library + own, 2 - library - own);
    return library && own ? 0 : 1;
}
