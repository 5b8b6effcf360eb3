/*
 * Streams, events and graphs of the fake runtime. Queued work runs only when the program waits for
 * it, in the order of its stream and of the events that the stream waits for. So a missing wait
 * shows. LINNET_SIMT_SEED (tests/simt/simt.h) changes that: with 1 and 2 work runs at once, and
 * with 3 and more a random stream runs on for a while at every call.
 *
 * As in the real runtime, copies from pinned memory read it when they run, and copies from pageable
 * memory read it when they are queued. A change of pinned memory in between ends the test. A copy
 * to the host arrives when the program has waited for it, not before. This holds for pageable
 * memory too, because a real device that reads it directly does not wait.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simt/fake/fake.h"

typedef struct node {
    int (*run)(void *work);
    void (*drop)(void *work);
    void *work;
    struct node *next;
} node;

struct CUgraph_st {
    node *first, **end;
};

/* An exec takes its graph's nodes over, and lives until it is destroyed and has run. */
struct CUgraphExec_st {
    node *first;
    int users;
};

struct CUstream_st {
    cudaGraph_t capturing; /* NULL: queued work runs */
    bool spoilt;           /* by a call that may not be captured */
    node *first, **end;
    uint64_t queued, done; /* so far */
    struct CUstream_st *next;
};

struct CUevent_st {
    cudaStream_t stream; /* NULL: never recorded */
    uint64_t after;      /* the part that is done */
};

static cudaStream_t streams; /* under the lock, as all below */
static int lost;             /* the error of the failed work */
static unsigned depth;       /* of the running work */
static _Thread_local cudaStream_t captures_here;
void (*simt_in_capture)(void);
void (*simt_in_wait)(void);

/* --- running --- */

static uint64_t seed(void)
{
    const char *text = getenv("LINNET_SIMT_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static void run_first(cudaStream_t s)
{
    node *n = s->first;
    s->first = n->next;
    if (s->first == NULL)
        s->end = &s->first;
    if (depth++ == 0)
        simt_allow_device(true);
    int error = lost == 0 ? n->run(n->work) : 0;
    if (--depth == 0)
        simt_allow_device(false);
    lost = lost != 0 ? lost : error;
    s->done++;
    n->drop(n->work);
    free(n);
}

static int run_until(cudaStream_t s, uint64_t done)
{
    while (s->done < done)
        run_first(s);
    return lost;
}

bool simt_is_idle(void)
{
    bool idle = depth == 0;
    simt_lock();
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        idle = idle && s->first == NULL;
    simt_unlock();
    return idle;
}

/* As far as the seed wants. */
static void go_on(cudaStream_t s)
{
    static uint64_t drawn;
    uint64_t kind = seed();
    if (kind == 0)
        return;
    if (kind < 3) {
        (void)run_until(s, s->queued);
        return;
    }
    drawn = (drawn + kind) * 6364136223846793005u + 1442695040888963407u;
    uint64_t most = drawn >> 60, which = drawn >> 40;
    for (cudaStream_t other = streams; other != NULL; other = other->next, which /= 2) {
        for (uint64_t i = 0; which % 2 == 1 && i < most && other->first != NULL; i++)
            run_first(other);
    }
}

static void append(node ***end, int (*run)(void *work), void (*drop)(void *work), void *work)
{
    node *n = simt_real_malloc(sizeof *n);
    if (n == NULL)
        simt_broken("no memory for a test");
    *n = (node){run, drop, work, NULL};
    **end = n;
    *end = &n->next;
}

void simt_queue(cudaStream_t s, int (*run)(void *work), void (*drop)(void *work), void *work)
{
    simt_lock();
    if (s->capturing != NULL) {
        append(&s->capturing->end, run, drop, work);
    } else {
        append(&s->end, run, drop, work);
        s->queued++;
        go_on(s);
    }
    simt_unlock();
}

static void drop_nodes(node *n)
{
    while (n != NULL) {
        node *next = n->next;
        n->drop(n->work);
        free(n);
        n = next;
    }
}

/* --- copies --- */

typedef struct copying {
    unsigned char *to;
    const unsigned char *from;
    size_t n_bytes;
    int value;            /* of a memset; from is NULL */
    bool pinned;          /* if set, must equal `kept` */
    unsigned char kept[]; /* [n_bytes], of a copy from the host */
} copying;

static int run_copy(void *work)
{
    const copying *c = work;
    if (c->pinned && memcmp(c->from, c->kept, c->n_bytes) != 0)
        simt_broken("pinned memory was changed before the copy that reads it had run");
    if (c->from == NULL)
        memset(c->to, c->value, c->n_bytes);
    else
        memmove(c->to, c->from, c->n_bytes);
    return 0;
}

static cudaError_t queue_copy(const copying *what, const void *keep, cudaStream_t s)
{
    if (s->capturing != NULL) /* the back end copies outside of graphs */
        return cudaErrorInvalidValue;
    copying *c = simt_real_malloc(sizeof *c + (keep != NULL ? what->n_bytes : 0));
    if (c == NULL)
        simt_broken("no memory for a test");
    *c = *what;
    if (keep != NULL) {
        memcpy(c->kept, keep, what->n_bytes);
        c->from = what->pinned ? what->from : c->kept;
    }
    simt_queue(s, run_copy, free, c);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    CALL();
    enum simt_place source = simt_place_of(from, n_bytes), target = simt_place_of(to, n_bytes);
    if ((source == SIMT_DEVICE) != (kind != cudaMemcpyHostToDevice) ||
        (target == SIMT_DEVICE) != (kind != cudaMemcpyDeviceToHost))
        simt_broken("a copy's kind is not where its memory lies");
    copying c = {.to = to, .from = from, .n_bytes = n_bytes, .pinned = source == SIMT_PINNED};
    /* Unknown until it is waited for. Before it is queued: then another thread's wait may run it.
     */
    if (kind == cudaMemcpyDeviceToHost)
        memset(to, 0xff, n_bytes);
    return queue_copy(&c, kind == cudaMemcpyHostToDevice ? from : NULL, s);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n_bytes, cudaStream_t s)
{
    CALL();
    if (simt_place_of(p, n_bytes) != SIMT_DEVICE)
        simt_broken("memory is set that is not the device's");
    copying c = {.to = p, .value = value, .n_bytes = n_bytes};
    return queue_copy(&c, NULL, s);
}

/* --- graphs --- */

bool simt_spoils_capture(void)
{
    if (captures_here != NULL)
        captures_here->spoilt = true;
    return captures_here != NULL;
}

bool simt_is_captured(void)
{
    bool any = false;
    simt_lock();
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        any = any || s->capturing != NULL;
    simt_unlock();
    return any;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    UNSAFE_CALL();
    s->capturing = calloc(1, sizeof *s->capturing);
    if (s->capturing == NULL)
        return cudaErrorMemoryAllocation;
    s->capturing->end = &s->capturing->first;
    s->spoilt = false;
    captures_here = s;
    simt_add(&simt_counts_now.graphs, 1);
    simt_add(&simt_counts_now.captured, 1);
    void (*run)(void) = simt_in_capture;
    simt_in_capture = NULL;
    if (run != NULL)
        run();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
    int error = simt_fail_now();
    if (captures_here != s)
        simt_broken("a capture ends that this thread has not begun");
    *graph = s->capturing; /* given back even so, to be destroyed */
    s->capturing = NULL;
    captures_here = NULL;
    return error == 0 && s->spoilt ? cudaErrorStreamCaptureInvalidated : (cudaError_t)error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    UNSAFE_CALL();
    *exec = malloc(sizeof **exec);
    if (*exec == NULL)
        return cudaErrorMemoryAllocation;
    simt_add(&simt_counts_now.graphs, 1);
    **exec = (struct CUgraphExec_st){graph->first, 1};
    long nodes = 0;
    for (const node *n = graph->first; n != NULL; n = n->next)
        nodes++;
    simt_lock();
    simt_counts_now.nodes = nodes;
    simt_unlock();
    graph->first = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    simt_add(&simt_counts_now.graphs, -1);
    drop_nodes(graph->first);
    free(graph);
    return (cudaError_t)simt_fail_now();
}

static void leave_exec(void *work)
{
    cudaGraphExec_t exec = work;
    simt_lock();
    int users = --exec->users;
    simt_unlock();
    if (users > 0)
        return;
    drop_nodes(exec->first);
    free(exec);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    simt_add(&simt_counts_now.graphs, -1);
    leave_exec(exec);
    return (cudaError_t)simt_fail_now();
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t s)
{
    UNSAFE_CALL();
    return exec->first != NULL && s->capturing == NULL ? cudaSuccess : cudaErrorInvalidValue;
}

static int run_exec(void *work)
{
    int error = 0;
    for (const node *n = ((cudaGraphExec_t)work)->first; error == 0 && n != NULL; n = n->next)
        error = n->run(n->work);
    return error;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    UNSAFE_CALL();
    simt_add(&simt_counts_now.replayed, 1);
    simt_lock();
    exec->users++;
    simt_unlock();
    simt_queue(s, run_exec, leave_exec, exec);
    return cudaSuccess;
}

/* --- streams and events --- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    CALL();
    cudaStream_t s = *stream = calloc(1, sizeof *s);
    if (s == NULL)
        return cudaErrorMemoryAllocation;
    s->end = &s->first;
    simt_lock();
    lost = streams == NULL ? 0 : lost; /* a device that is opened anew */
    s->next = streams;
    streams = s;
    simt_unlock();
    simt_add(&simt_counts_now.streams, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    int error = simt_fail_now();
    simt_lock();
    if (error == 0)
        (void)run_until(s, s->queued);
    drop_nodes(s->first);
    cudaStream_t *at = &streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    simt_unlock();
    simt_add(&simt_counts_now.streams, -1);
    free(s);
    return (cudaError_t)error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    UNSAFE_CALL();
    simt_lock();
    int error = run_until(s, s->queued);
    simt_unlock();
    return (cudaError_t)error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    CALL();
    *event = calloc(1, sizeof **event);
    simt_add(&simt_counts_now.events, *event != NULL);
    return *event != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    simt_add(&simt_counts_now.events, -1);
    free(event);
    return (cudaError_t)simt_fail_now();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s)
{
    CALL();
    simt_lock();
    if (s->capturing == NULL)
        *event = (struct CUevent_st){s, s->queued};
    simt_unlock();
    return s->capturing == NULL ? cudaSuccess : cudaErrorInvalidValue;
}

static int run_wait(void *work)
{
    const struct CUevent_st *e = work;
    return e->stream != NULL ? run_until(e->stream, e->after) : 0;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    CALL();
    struct CUevent_st *now = simt_real_malloc(sizeof *now);
    if (now == NULL || s->capturing != NULL)
        simt_broken("a wait that a test cannot hold");
    simt_lock();
    *now = *event;
    simt_unlock();
    simt_queue(s, run_wait, free, now);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    UNSAFE_CALL();
    void (*meanwhile)(void) = simt_in_wait;
    simt_in_wait = NULL;
    if (meanwhile != NULL)
        meanwhile();
    simt_lock();
    int error = event->stream != NULL ? run_until(event->stream, event->after) : 0;
    simt_unlock();
    return (cudaError_t)error;
}
