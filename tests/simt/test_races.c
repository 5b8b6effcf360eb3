/*
 * Faults that the checker of tests/simt/race.h and the runtime of tests/simt/fake must report, each
 * in a process of its own, which the report ends. The same programs without the fault must pass.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/simt/planted.h"

static int failed, passed;

/* --- mistakes of the host --- */

static int open_stream(cudaStream_t *stream, void **pinned, void **device)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking) == cudaSuccess &&
                   cudaMallocHost(pinned, 64) == cudaSuccess &&
                   cudaMalloc(device, 64) == cudaSuccess
               ? 0
               : 2;
}

/* A pinned buffer is used again; `sound`: when its copy has been waited for. */
static int reuse_pinned(bool sound)
{
    cudaStream_t stream;
    cudaEvent_t copied = NULL;
    void *pinned, *device;
    if (open_stream(&stream, &pinned, &device) != 0 ||
        cudaEventCreateWithFlags(&copied, cudaEventDisableTiming) != cudaSuccess)
        return 2;
    memset(pinned, 1, 64);
    cudaError_t e = cudaMemcpyAsync(device, pinned, 64, cudaMemcpyHostToDevice, stream);
    if (e == cudaSuccess)
        e = cudaEventRecord(copied, stream);
    if (e == cudaSuccess && sound)
        e = cudaEventSynchronize(copied);
    memset(pinned, 2, 64);
    return e == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess ? 0 : 2;
}

/* A second stream reads the bytes that the first one writes. With `sound`, it waits for the write.
   The host reads the results when the second stream has ended. */
static int forget_event(bool sound)
{
    cudaStream_t stream, other;
    cudaEvent_t written = NULL;
    void *pinned, *device;
    if (open_stream(&stream, &pinned, &device) != 0 ||
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreateWithFlags(&written, cudaEventDisableTiming) != cudaSuccess)
        return 2;
    cudaError_t e = cudaMemsetAsync(device, 7, 64, stream);
    if (e == cudaSuccess)
        e = cudaEventRecord(written, stream);
    if (e == cudaSuccess && sound)
        e = cudaStreamWaitEvent(other, written, 0);
    if (e == cudaSuccess)
        e = cudaMemcpyAsync(pinned, device, 64, cudaMemcpyDeviceToHost, other);
    if (e != cudaSuccess || cudaStreamSynchronize(other) != cudaSuccess)
        return 2;
    return *(unsigned char *)pinned == 7 ? 0 : 3;
}

/* The host reads the device's memory. */
static int mix_up(bool sound)
{
    cudaStream_t stream;
    void *pinned, *device;
    if (open_stream(&stream, &pinned, &device) != 0)
        return 2;
    memset(sound ? pinned : device, 0, 64);
    return 0;
}

/* Memory is asked for while a graph is captured. */
static int ask_in_capture(bool sound)
{
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    void *pinned, *device, *more = NULL;
    if (open_stream(&stream, &pinned, &device) != 0 ||
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return 2;
    if (!sound && cudaMalloc(&more, 64) != cudaErrorStreamCaptureUnsupported)
        return 0;
    cudaError_t e = cudaStreamEndCapture(stream, &graph);
    return e == cudaSuccess ? 0 : e == cudaErrorStreamCaptureInvalidated ? 3 : 2;
}

static int run_planted(enum planted_kind kind, bool sound)
{
    cudaStream_t stream = NULL;
    void *out = NULL;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaMalloc(&out, 128 * sizeof(int32_t)) != cudaSuccess)
        return 2;
    static int32_t of_host;
    const planted a = {out, sound, sound ? (int32_t *)out + 64 : &of_host};
    return planted_run(kind, &a, stream) == 0 && cudaStreamSynchronize(stream) == cudaSuccess ? 0
                                                                                              : 2;
}

/* --- each in a process of its own --- */

typedef struct kind {
    const char *name;
    int (*host)(bool sound); /* NULL: a kernel */
    int kernel;
    const char *says; /* before it is aborted; NULL: nothing, and `ends` is its status */
    int ends;         /* -N: by signal N */
} kind;

/* Its exit status, or the signal that ended it; its output in `text`. */
static int run_apart(const kind *k, bool sound, char *text, size_t size)
{
    int ends[2], status = 0;
    size_t n = 0;
    if (pipe(ends) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        _exit(k->host != NULL ? k->host(sound) : run_planted((enum planted_kind)k->kernel, sound));
    }
    (void)close(ends[1]);
    for (ssize_t got = 1; got > 0 && n<size - 1; n += got> 0 ? (size_t)got : 0)
        got = read(ends[0], text + n, size - 1 - n);
    text[n] = '\0';
    (void)close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void check(bool good, const char *name, const char *what, const char *text)
{
    if (good) {
        passed++;
        return;
    }
    failed++;
    (void)printf("FAILED %s, %s: %s\n", name, what, text);
}

int main(void)
{
    static const char race[] = "races with a";
    static const kind kinds[] = {
        {"a missing barrier", NULL, PLANTED_BLOCK, race, -SIGABRT},
        {"a missing second barrier", NULL, PLANTED_BLOCK_AGAIN, race, -SIGABRT},
        {"a missing barrier of a warp", NULL, PLANTED_WARP, race, -SIGABRT},
        {"a barrier of too few lanes", NULL, PLANTED_HALF_WARPS, race, -SIGABRT},
        {"blocks that share memory", NULL, PLANTED_BLOCKS, race, -SIGABRT},
        {"a read beside atomics", NULL, PLANTED_COUNT, race, -SIGABRT},
        {"shared memory without a value", NULL, PLANTED_UNWRITTEN, "was not written", -SIGABRT},
        {"a pointer of the host", NULL, PLANTED_HOST, "outside the device", -SIGABRT},
        {"a pinned buffer in use", reuse_pinned, 0, "pinned memory was changed", -SIGABRT},
        {"a missing wait for an event", forget_event, 0, NULL, 3},
        {"the device's memory", mix_up, 0, NULL, -SIGSEGV},
        {"an allocation in a capture", ask_in_capture, 0, NULL, 3}};
    static char text[1 << 14];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const kind *k = &kinds[i];
        int status = run_apart(k, true, text, sizeof text);
        check(status == 0 && text[0] == '\0', k->name, "without it", text);
        status = run_apart(k, false, text, sizeof text);
        check(status == k->ends, k->name, "its end", text);
        check(k->says == NULL ? text[0] == '\0' : strstr(text, k->says) != NULL, k->name, "found",
              text);
        check(k->host != NULL || strstr(text, "planted.cu") != NULL, k->name, "its place", text);
    }
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
