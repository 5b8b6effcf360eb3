/*
 * The rates of this machine, for the roofline of tests/bench/library.py.
 *
 *   roofline THREADS BYTES...
 *
 * Prints one JSON object with operations per second of f32, and of bf16 and int8 if the processor
 * multiplies them (AVX512-BF16, AVX512-VNNI, AMX's tiles): the fastest of its ways. A
 * multiplication and an addition are two operations. For each number of BYTES it has the bytes per
 * second of repeated reading, and of reading and writing back. All threads together, each on its
 * own part and its own core, the best of several tries.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { MAX_THREADS = 64, TRIES = 7, SUMS = 12 };
#define TRY_NS INT64_C(60000000)

typedef uint64_t line __attribute__((vector_size(64)));
typedef float lanes __attribute__((vector_size(64)));

typedef struct worker worker;
typedef double (*work)(worker *w); /* one round; how much was done */

struct worker {
    pthread_t thread;
    int index;
    work round;
    line *data;
    size_t n_lines;
    double rate; /* out */
    line keep;   /* so that nothing is left out as unused */
};

static pthread_barrier_t together;

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- the rounds --- */

#if defined(__x86_64__)
#define EVERY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EVERY_WIDTH
#endif

EVERY_WIDTH static double read_round(worker *w)
{
    line a = {0}, b = {0}, c = {0}, d = {0};
    const line *p = w->data;
    for (size_t i = 0; i + 4 <= w->n_lines; i += 4) {
        a ^= p[i];
        b ^= p[i + 1];
        c ^= p[i + 2];
        d ^= p[i + 3];
    }
    w->keep ^= a ^ b ^ c ^ d;
    return (double)(w->n_lines / 4 * 4 * sizeof(line));
}

EVERY_WIDTH static double update_round(worker *w)
{
    line one = {1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < w->n_lines; i++)
        w->data[i] += one;
    return (double)(w->n_lines * sizeof(line));
}

enum { LOOPS = 200000 };

#if defined(__x86_64__)
/* Twelve sums in registers: enough to hide an instruction's latency. */
#define SUMS_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((target("avx512f"))) static double f32_wide(worker *w)
{
    __m512 x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f), all = x;
#define BEGIN(k) __m512 sum##k = _mm512_set1_ps((float)k);
#define STEP(k)                                                                                    \
    sum##k = _mm512_fmadd_ps(sum##k, x, y);                                                        \
    __asm__ volatile("" : "+v"(sum##k));
#define END(k) all = _mm512_add_ps(all, sum##k);
    SUMS_EACH(BEGIN)
    for (int i = 0; i < LOOPS; i++) {
        SUMS_EACH(STEP)
    }
    SUMS_EACH(END)
#undef STEP
    w->keep ^= (line)all;
    return 2.0 * 16 * SUMS * LOOPS;
}

__attribute__((target("avx512f,avx512bf16"))) static double bf16_round(worker *w)
{
    __m512 all = _mm512_set1_ps(0.5f);
    __m512bh x = _mm512_cvtne2ps_pbh(all, all);
#define STEP(k)                                                                                    \
    sum##k = _mm512_dpbf16_ps(sum##k, x, x);                                                       \
    __asm__ volatile("" : "+v"(sum##k));
    SUMS_EACH(BEGIN)
    for (int i = 0; i < LOOPS; i++) {
        SUMS_EACH(STEP)
    }
    SUMS_EACH(END)
#undef BEGIN
#undef STEP
#undef END
    w->keep ^= (line)all;
    return 2.0 * 32 * SUMS * LOOPS;
}

__attribute__((target("avx512f,avx512vnni"))) static double int8_round(worker *w)
{
    __m512i x = _mm512_set1_epi8(1), all = x;
#define BEGIN(k) __m512i sum##k = _mm512_set1_epi32(k);
#define STEP(k)                                                                                    \
    sum##k = _mm512_dpbusd_epi32(sum##k, x, x);                                                    \
    __asm__ volatile("" : "+v"(sum##k));
#define END(k) all = _mm512_add_epi32(all, sum##k);
    SUMS_EACH(BEGIN)
    for (int i = 0; i < LOOPS; i++) {
        SUMS_EACH(STEP)
    }
    SUMS_EACH(END)
#undef BEGIN
#undef STEP
#undef END
    w->keep ^= (line)all;
    return 2.0 * 64 * SUMS * LOOPS;
}

__attribute__((target("avx2,fma"))) static double f32_narrow(worker *w)
{
    __m256 x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f), all = x;
#define BEGIN(k) __m256 sum##k = _mm256_set1_ps((float)k);
#define STEP(k)                                                                                    \
    sum##k = _mm256_fmadd_ps(sum##k, x, y);                                                        \
    __asm__ volatile("" : "+x"(sum##k));
#define END(k) all = _mm256_add_ps(all, sum##k);
    SUMS_EACH(BEGIN)
    for (int i = 0; i < LOOPS; i++) {
        SUMS_EACH(STEP)
    }
    SUMS_EACH(END)
    w->keep[0] ^= (uint64_t)_mm256_cvtss_f32(all);
    return 2.0 * 8 * SUMS * LOOPS;
}
#endif

#if defined(__x86_64__)
/* Four tiles of sums, two of the left matrix, two of the right: each of these has two uses, as in a
   product of matrices. A tile has 16 rows of 64 bytes. */
typedef struct tile_config {
    uint8_t palette, start_row, zeros[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_config;

__attribute__((target("amx-tile"))) static void begin_tiles(void)
{
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = 16;
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); /* gcc 12 sees only 8 bytes of it read */
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
}

#define TILES_LOOP(PRODUCT)                                                                        \
    begin_tiles();                                                                                 \
    for (int i = 0; i < LOOPS / 8; i++) {                                                          \
        PRODUCT(0, 4, 6);                                                                          \
        PRODUCT(1, 4, 7);                                                                          \
        PRODUCT(2, 5, 6);                                                                          \
        PRODUCT(3, 5, 7);                                                                          \
    }                                                                                              \
    _tile_release()

__attribute__((target("amx-tile,amx-bf16"))) static double bf16_tiles(worker *w)
{
    (void)w;
    TILES_LOOP(_tile_dpbf16ps);
    return 2.0 * 16 * 16 * 32 * 4 * (LOOPS / 8);
}

__attribute__((target("amx-tile,amx-int8"))) static double int8_tiles(worker *w)
{
    (void)w;
    TILES_LOOP(_tile_dpbssd);
    return 2.0 * 16 * 16 * 64 * 4 * (LOOPS / 8);
}

/* Whether the processor has the tiles of bf16 and int8 and the system lets this process use them.
 */
static bool has_tiles(void)
{
    enum { TILES_DATA = 18, REQUEST = 0x1023 }; /* ARCH_REQ_XCOMP_PERM */
    unsigned a, b, c, d;
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
           syscall(SYS_arch_prctl, REQUEST, TILES_DATA) == 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}
#endif

/* The compiler's own, where there is none for this processor. */
static double f32_plain(worker *w)
{
    lanes sum[SUMS] = {{0}}, x, y;
    for (int k = 0; k < 16; k++) {
        x[k] = 0.5f;
        y[k] = 0.25f;
    }
    for (int i = 0; i < LOOPS; i++) {
        for (int k = 0; k < SUMS; k++)
            sum[k] = sum[k] * x + y;
    }
    for (int k = 1; k < SUMS; k++)
        sum[0] += sum[k];
    w->keep ^= (line)sum[0];
    return 2.0 * 16 * SUMS * LOOPS;
}

/* --- measuring --- */

static void pin(int index)
{
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    int k = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && k++ == index % CPU_COUNT(&allowed)) {
            CPU_SET(cpu, &one);
            (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
            return;
        }
    }
}

static void *run_worker(void *argument)
{
    worker *w = argument;
    pin(w->index);
    (void)w->round(w);
    for (int i = 0; i < TRIES; i++) {
        (void)pthread_barrier_wait(&together);
        int64_t start = now_ns(), now = start;
        double done = 0;
        for (; now < start + TRY_NS; now = now_ns())
            done += w->round(w);
        double rate = done / (double)(now - start) * 1e9;
        w->rate = rate > w->rate ? rate : w->rate;
    }
    return NULL;
}

/* Of all threads together, on `bytes` that they share out. */
static double measure(work round, int n_threads, size_t bytes)
{
    worker workers[MAX_THREADS];
    size_t n_lines = bytes / sizeof(line) / (size_t)n_threads;
    line *data = bytes > 0 ? aligned_alloc(64, n_lines * (size_t)n_threads * sizeof(line)) : NULL;
    if ((bytes > 0 && data == NULL) ||
        pthread_barrier_init(&together, NULL, (unsigned)n_threads) != 0)
        exit(1);
    if (data != NULL)
        memset(data, 1, n_lines * (size_t)n_threads * sizeof(line));
    double rate = 0;
    for (int i = 0; i < n_threads; i++) {
        line *own = data != NULL ? data + n_lines * (size_t)i : NULL;
        workers[i] = (worker){.index = i, .round = round, .data = own, .n_lines = n_lines};
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < n_threads; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        rate += workers[i].rate;
    }
    (void)pthread_barrier_destroy(&together);
    free(data);
    return rate;
}

static work f32_work(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return f32_wide;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return f32_narrow;
#endif
    return f32_plain;
}

int main(int argc, char **argv)
{
    int n = argc >= 2 ? atoi(argv[1]) : 0;
    if (n < 1 || n > MAX_THREADS) {
        (void)fprintf(stderr, "roofline THREADS BYTES...\n");
        return 2;
    }
    (void)printf("{\"threads\": %d, \"f32_flops\": %.4g", n, measure(f32_work(), n, 0));
#if defined(__x86_64__)
    bool tiles = has_tiles();
    double bf16 = tiles ? measure(bf16_tiles, n, 0) : 0;
    double int8 = tiles ? measure(int8_tiles, n, 0) : 0;
    if (__builtin_cpu_supports("avx512bf16"))
        bf16 = larger(bf16, measure(bf16_round, n, 0));
    if (__builtin_cpu_supports("avx512vnni"))
        int8 = larger(int8, measure(int8_round, n, 0));
    if (bf16 > 0)
        (void)printf(", \"bf16_flops\": %.4g", bf16);
    if (int8 > 0)
        (void)printf(", \"int8_ops\": %.4g", int8);
#endif
    (void)printf(", \"read\": {");
    for (int i = 2; i < argc; i++)
        (void)printf("%s\"%s\": %.4g", i > 2 ? ", " : "", argv[i],
                     measure(read_round, n, (size_t)atoll(argv[i])));
    (void)printf("}, \"update\": {");
    for (int i = 2; i < argc; i++)
        (void)printf("%s\"%s\": %.4g", i > 2 ? ", " : "", argv[i],
                     measure(update_round, n, (size_t)atoll(argv[i])));
    (void)printf("}}\n");
    return 0;
}
