/*
 * The bandwidth of a GPU's memory, for tests/gpu.sh. Copies a large piece of it onto another.
 * Prints one JSON object, {"gb_per_s": bytes read and written per second / 10^9} of the median
 * copy. Events on the device time the copies, after a few copies to warm up.
 *
 *   gpu_copy [DEVICE]
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM = 5, COPIES = 21 };
#define BYTES ((size_t)2 << 30)

static void need(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    (void)fprintf(stderr, "gpu_copy: %s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float copy_ms(void *to, const void *from, cudaStream_t stream, const cudaEvent_t *events)
{
    float ms = 0;
    need(cudaEventRecord(events[0], stream), "an event");
    need(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToDevice, stream), "a copy");
    need(cudaEventRecord(events[1], stream), "an event");
    need(cudaEventSynchronize(events[1]), "a copy");
    need(cudaEventElapsedTime(&ms, events[0], events[1]), "a time");
    return ms;
}

int main(int argc, char **argv)
{
    void *from = NULL, *to = NULL;
    cudaStream_t stream = NULL;
    cudaEvent_t events[2] = {NULL, NULL};
    float ms[COPIES];
    need(cudaSetDevice(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0), "the device");
    need(cudaMalloc(&from, BYTES), "memory");
    need(cudaMalloc(&to, BYTES), "memory");
    need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    need(cudaMemsetAsync(from, 1, BYTES, stream), "filling");
    for (int i = 0; i < 2; i++)
        need(cudaEventCreate(&events[i]), "an event");
    for (int i = 0; i < WARM; i++)
        (void)copy_ms(to, from, stream, events);
    for (int i = 0; i < COPIES; i++)
        ms[i] = copy_ms(to, from, stream, events);
    qsort(ms, COPIES, sizeof *ms, compare);
    (void)printf("{\"gb_per_s\": %.1f}\n", 2 * (double)BYTES / (double)ms[COPIES / 2] / 1e6);
    return 0;
}
