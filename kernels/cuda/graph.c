/*
 * Steps as CUDA graphs, one per bucket: the replay of hundreds of launches costs one call.
 *
 * A step of up to LX_CUDA_MOST_CAPTURED single rows takes the sizes of the smallest bucket that
 * holds it. So every step of the bucket has the same launches and addresses; the number of rows,
 * their slots and ids are in the inputs, which are copied first. A graph's key is the recorded
 * operations in numbers, with bucket and addresses. A step with a known key is replayed; a new one
 * is captured first. Replay and plain launches run the same kernels over the same numbers, so they
 * give the same bits.
 *
 * A new object may get the address of a freed one. So the next step drops the graphs whose keys
 * name a freed address; the others stay, such as those prepared for a replacing model. When there
 * are too many graphs, the least recently used is dropped.
 *
 * Capturing has a stream of its own, since another thread may queue a copy meanwhile. Where the
 * matrix library cannot be captured, the step's operations are launched one by one, each time.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

/* A full bucket has a graph of its own, see make_key. */
int32_t lx_cuda_step_size(int32_t n)
{
    int32_t bucket = lx_cuda_bucket(n);
    return n == bucket ? n : bucket - 1;
}

static void drop(lx_cuda_graph *g)
{
    if (g->exec != NULL)
        (void)cudaGraphExecDestroy(g->exec);
    free(g->key);
    *g = (lx_cuda_graph){0};
}

void lx_cuda_graphs_drop(lx_cuda *c)
{
    for (int32_t i = 0; i < c->n_graphs; i++)
        drop(&c->graphs[i]);
    c->n_graphs = 0;
}

static void drop_freed(lx_cuda *c)
{
    int32_t n = 0;
    if (lx_cuda_freed_begin(&c->freed)) {
        for (int32_t i = 0; i < c->n_graphs; i++) {
            if (lx_cuda_freed_has(&c->freed, c->graphs[i].key, c->graphs[i].n_key))
                drop(&c->graphs[i]);
            else
                c->graphs[n++] = c->graphs[i];
        }
        c->n_graphs = n;
    }
    lx_cuda_freed_end(&c->freed);
}

/* --- keys --- */

uint64_t lx_cuda_key_float(float f)
{
    uint32_t bits = 0;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static void put_op(const lx_cuda_op *op, uint64_t *w)
{
    memset(w, 0, LX_CUDA_KEY_WORDS * sizeof *w);
    w[0] = lx_cuda_key_address(op->kind);
    op->kind->key(op, w + 1);
}

static lx_status grow_key(lx_cuda *c, size_t n)
{
    if (n <= c->key_capacity)
        return LX_OK;
    uint64_t *key = realloc(c->key, n * sizeof *key);
    if (key == NULL)
        return lx_fail(&c->error, LX_ERR_NO_MEMORY, NULL, "no memory for a step's graph");
    c->key = key;
    c->key_capacity = n;
    return LX_OK;
}

static lx_status make_key(lx_cuda *c)
{
    c->n_key = ((size_t)c->n_ops + 1) * LX_CUDA_KEY_WORDS;
    lx_status st = grow_key(c, c->n_key);
    if (st != LX_OK)
        return st;
    const uint64_t head[LX_CUDA_KEY_WORDS] = {
        lx_cuda_key_pair(c->bucket.tokens, c->n_ops),
        lx_cuda_key_address(c->inputs.device),
        lx_cuda_key_address(c->results.device),
        lx_cuda_key_address(c->rounded.data),
        lx_cuda_key_address(c->product.data),
        lx_cuda_key_address(c->bits.data),
        c->seq_start,
        c->slot,
        c->output_row,
        c->position,
        c->bucket.tokens == c->n_tokens, /* products write elsewhere when they cover more */
    };
    memcpy(c->key, head, sizeof head);
    for (int32_t i = 0; i < c->n_ops; i++)
        put_op(&c->ops[i], c->key + ((size_t)i + 1) * LX_CUDA_KEY_WORDS);
    return LX_OK;
}

/* --- capture and replay --- */

static lx_cuda_graph *find(lx_cuda *c)
{
    for (int32_t i = 0; i < c->n_graphs; i++) {
        lx_cuda_graph *g = &c->graphs[i];
        if (g->n_key == c->n_key && memcmp(g->key, c->key, c->n_key * sizeof *g->key) == 0)
            return g;
    }
    return NULL;
}

/* A place for one more graph: a free one, or that of the least recently used graph. */
static lx_cuda_graph *make_room(lx_cuda *c)
{
    if (c->n_graphs < LX_CUDA_MAX_GRAPHS)
        return &c->graphs[c->n_graphs++];
    lx_cuda_graph *oldest = &c->graphs[0];
    for (int32_t i = 1; i < c->n_graphs; i++) {
        if (c->graphs[i].last_use < oldest->last_use)
            oldest = &c->graphs[i];
    }
    drop(oldest);
    return oldest;
}

/* Captures the operations. LX_ERR_UNSUPPORTED: one of them cannot be captured; nothing has run. */
static lx_status record(lx_cuda *c, cudaGraph_t *out)
{
    cudaError_t e = cudaStreamBeginCapture(c->capture, cudaStreamCaptureModeThreadLocal);
    if (e != cudaSuccess)
        return lx_cuda_lose(c, e, "beginning a graph", &c->error);
    lx_status st = lx_cuda_run_ops(c, c->capture);
    c->target = c->stream;
    e = cudaStreamEndCapture(c->capture, out);
    if (e == cudaErrorStreamCaptureInvalidated) {
        (void)cudaGetLastError(); /* the next launch shall not report it */
        return LX_ERR_UNSUPPORTED;
    }
    if (e != cudaSuccess && st != LX_ERR_DEVICE)
        return lx_cuda_lose(c, e, "ending a graph", &c->error);
    return st;
}

static lx_status capture(lx_cuda *c, cudaGraphExec_t *exec)
{
    cudaGraph_t graph = NULL;
    lx_status st = record(c, &graph);
    if (st == LX_OK) {
        st = lx_cuda_check(c, cudaGraphInstantiate(exec, graph, 0), "making a graph", &c->error);
        *exec = st == LX_OK ? *exec : NULL;
    }
    if (st == LX_OK) { /* takes the device's memory now, not at the first run */
        st = lx_cuda_check(c, cudaGraphUpload(*exec, c->stream), "uploading a graph", &c->error);
        if (st != LX_OK) {
            (void)cudaGraphExecDestroy(*exec);
            *exec = NULL;
        }
    }
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    return st;
}

static lx_status add(lx_cuda *c, lx_cuda_graph **out)
{
    cudaGraphExec_t exec = NULL;
    lx_status st = capture(c, &exec);
    if (st != LX_OK && st != LX_ERR_UNSUPPORTED)
        return st;
    uint64_t *key = malloc(c->n_key * sizeof *key);
    if (key == NULL) {
        if (exec != NULL)
            (void)cudaGraphExecDestroy(exec);
        return lx_fail(&c->error, LX_ERR_NO_MEMORY, NULL, "no memory for a step's graph");
    }
    memcpy(key, c->key, c->n_key * sizeof *key);
    *out = make_room(c);
    **out = (lx_cuda_graph){.exec = exec, .key = key, .n_key = c->n_key};
    c->n_captured += exec != NULL;
    c->n_plain += exec == NULL;
    return LX_OK;
}

lx_status lx_cuda_graph_get(lx_cuda *c, lx_cuda_graph **out)
{
    drop_freed(c);
    lx_status st = make_key(c);
    if (st != LX_OK)
        return st;
    *out = find(c);
    if (*out == NULL)
        st = add(c, out);
    if (st == LX_OK)
        (*out)->last_use = ++c->n_steps;
    return st;
}

lx_status lx_cuda_graph_run(lx_cuda *c)
{
    lx_cuda_graph *g = NULL;
    lx_status st = lx_cuda_graph_get(c, &g);
    if (st != LX_OK)
        return st;
    if (g->exec == NULL)
        return lx_cuda_run_ops(c, c->stream);
    return lx_cuda_check(c, cudaGraphLaunch(g->exec, c->stream), "starting a step's graph",
                         &c->error);
}
