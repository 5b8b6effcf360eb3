/*
 * Runs every conformance test on every back end this machine has.
 *
 *   conformance    all: reference, each isa of cpu with 1, 2, 3 threads, cuda, and cpu once more
 *                  with precision int8, and with weights in blocks
 *   conformance --backend cpu --isa avx2,plain --threads 2 --test NAME,NAME
 *   conformance --but NAME,NAME    all tests but these
 *
 * Prints a line for each back end or instruction set that is missing here, each failed check, and
 * at the end "N passed, N failed". Exit status: 0 when none failed and at least one ran.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "support.h"

typedef struct options {
    const char *backend, *isa, *test, *but;
    int threads;
} options;

typedef struct count {
    int passed, failed;
} count;

/* Whether a list of names, a comma between them, has this one. */
static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p != NULL; p = strchr(p, ',') != NULL ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

static bool is_asked(const options *o, const char *name)
{
    return (o->test == NULL || is_listed(o->test, name)) && !is_listed(o->but, name);
}

/* A sanitizer takes five times as long. So it runs only the largest number of threads, the
   reference back end only as an oracle, and skips the frequencies of many thousand draws. */
#ifdef LX_SANITIZE_ADDRESS
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static void run_tests(const test *tests, const options *o, device *dut, device *oracle, count *c)
{
    for (; tests->name != NULL; tests++) {
        if (!is_asked(o, tests->name) ||
            (SANITIZED && strstr(tests->name, "are_probabilities") != NULL))
            continue;
        bool passed = tests->run(dut, oracle);
        dev_release(dut);
        dev_release(oracle);
        arena_reset();
        if (passed) {
            c->passed++;
        } else {
            c->failed++;
            (void)printf("FAILED %s on %s\n", tests->name, dut->label);
        }
        (void)fflush(stdout);
    }
}

/* Whether precision auto rounds inputs to bf16 on this set. */
static bool is_rounding(lx_isa isa)
{
    return isa != LX_ISA_PLAIN && isa != LX_ISA_AVX2 && isa != LX_ISA_AVX512 && isa != LX_ISA_NEON;
}

static product_kind kind_of(lx_isa isa, lx_precision precision)
{
    if (precision == LX_PRECISION_INT4)
        return BLOCKS;
    if (precision != LX_PRECISION_AUTO || !is_rounding(isa))
        return precision == LX_PRECISION_INT8 ? BYTES : EXACT;
    return isa == LX_ISA_AMX || isa == LX_ISA_AMX_PLAIN               ? TILES
           : isa == LX_ISA_NEON_BF16 || isa == LX_ISA_NEON_BF16_PLAIN ? ROUNDED_TO_ODD
                                                                      : PAIRS;
}

static bool open_device(device *d, const char *name, const lx_backend_options *o)
{
    lx_error err = {0};
    lx_status st = lx_backend_open(name, o, &d->be, &err);
    if (st == LX_OK) {
        d->k = d->be->ops;
        d->rounds = o->precision == LX_PRECISION_AUTO && is_rounding(o->isa);
        d->int8 = o->precision == LX_PRECISION_INT8;
        d->int4 = o->precision == LX_PRECISION_INT4;
        d->blocks = o->precision == LX_PRECISION_AUTO && strcmp(name, "cpu") == 0;
        d->kind = kind_of(o->isa, o->precision);
        d->threads = o->n_threads;
        d->only_runs = SANITIZED && strcmp(name, "cpu") == 0 && o->isa != LX_ISA_PLAIN &&
                       o->isa != LX_ISA_NEON;
        return true;
    }
    (void)printf("skipped: %s, %s, %d threads: %s\n", name, lx_isa_name(o->isa), o->n_threads,
                 err.text);
    return false;
}

typedef enum group { BLOCK, PRODUCT, BESIDE, APART } group; /* see tests.def */

/* The last group of tests in which these options differ from other runs. int4, and auto where it
   rounds nothing, differ in products with weights in blocks only. int8, amxplain and
   neonbf16plain differ in their products only, which alone divide their work by the number of
   threads in more than one way. For other operations three numbers of threads are enough. cuda with
   its own products differs in these. cuda with its library's products also differs in the
   operations that round the inputs of products, as does the cpu for a sanitizer, and do instruction
   sets whose other loops are those of another set (BODY_OTHERS of kernels/cpu/body.h). */
static group last_group(const lx_backend_options *o, const char *name)
{
    lx_isa isa = o->isa;
    lx_precision precision = o->precision;
    int threads = o->n_threads;
    bool cpu = strcmp(name, "cpu") == 0, cuda = strcmp(name, "cuda") == 0;
    bool int8 = precision == LX_PRECISION_INT8;
    if (precision == LX_PRECISION_INT4 ||
        (cpu && precision == LX_PRECISION_AUTO && !is_rounding(isa)))
        return BLOCK;
    if (o->cuda_products == LX_CUDA_PRODUCTS_OWN || isa == LX_ISA_AMX_PLAIN ||
        isa == LX_ISA_NEON_BF16_PLAIN || threads == 2 ||
        (int8 && isa != LX_ISA_AVX512_VNNI && isa != LX_ISA_NEON_DOT))
        return PRODUCT;
    if (cpu && !int8 && threads == 1 && isa != LX_ISA_AVX2 && isa != LX_ISA_NEON)
        return PRODUCT;
    if ((cuda || (SANITIZED && cpu)) && precision != LX_PRECISION_F32)
        return BESIDE;
    if (isa == LX_ISA_AMX || isa == LX_ISA_AVX512_BF16 || isa == LX_ISA_AVX512_VNNI ||
        isa == LX_ISA_NEON_BF16 || isa == LX_ISA_NEON_DOT)
        return BESIDE;
    return APART;
}

static void run_device(const options *o, const char *name, const lx_backend_options *how, count *c)
{
    const lx_backend_options exact = {.n_threads = 1, .precision = LX_PRECISION_F32};
    static const struct {
        const test *tests;
        group group;
    } files[] = {
#define TESTS(name, group) {name##_tests, group},
#include "tests/conformance/tests.def"
    };
    bool cuda = strcmp(name, "cuda") == 0;
    group last = last_group(how, name);
    static device dut, oracle;
    char label[96];
    dut = oracle = (device){.label = label};
    if (!open_device(&dut, name, how))
        return;
    oracle.label = "oracle";
    if (open_device(&oracle, "reference", &exact)) {
        dut.is_cpu = strcmp(name, "cpu") == 0 || (cuda && !dut.rounds);
        dut.k->describe(dut.be, label, sizeof label);
        (void)printf("%s\n", label);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            if (files[i].group <= last)
                run_tests(files[i].tests, o, &dut, &oracle, c);
        }
        oracle.k->close(oracle.be);
    }
    dut.k->close(dut.be);
}

static bool wanted(const options *o, const char *name, lx_isa isa, int threads)
{
    return (o->backend == NULL || strcmp(o->backend, name) == 0) &&
           (o->isa == NULL || is_listed(o->isa, lx_isa_name(isa))) &&
           (o->threads == 0 || o->threads == threads);
}

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--backend") == 0)
            o->backend = argv[i + 1];
        else if (strcmp(argv[i], "--isa") == 0)
            o->isa = argv[i + 1];
        else if (strcmp(argv[i], "--test") == 0)
            o->test = argv[i + 1];
        else if (strcmp(argv[i], "--but") == 0)
            o->but = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            o->threads = (int)strtol(argv[i + 1], NULL, 10);
        else
            return false;
    }
    return argc % 2 == 1;
}

/* Every instruction set in every precision that differs, with 1 to `threads` threads. */
static const struct {
    lx_isa isa;
    lx_precision precision;
    int threads;
} cpus[] = {
    {LX_ISA_PLAIN, LX_PRECISION_F32, 3},        {LX_ISA_AVX2, LX_PRECISION_F32, 3},
    {LX_ISA_AVX512, LX_PRECISION_F32, 3},       {LX_ISA_AVX512_BF16, LX_PRECISION_AUTO, 3},
    {LX_ISA_AMX_PLAIN, LX_PRECISION_AUTO, 2},   {LX_ISA_AMX, LX_PRECISION_AUTO, 3},
    {LX_ISA_PLAIN, LX_PRECISION_INT8, 2},       {LX_ISA_AVX2, LX_PRECISION_INT8, 2},
    {LX_ISA_AVX512, LX_PRECISION_INT8, 2},      {LX_ISA_AVX512_VNNI, LX_PRECISION_INT8, 2},
    {LX_ISA_AMX_PLAIN, LX_PRECISION_INT8, 1},   {LX_ISA_AMX, LX_PRECISION_INT8, 2},
    {LX_ISA_NEON, LX_PRECISION_F32, 3},         {LX_ISA_NEON, LX_PRECISION_INT8, 2},
    {LX_ISA_NEON_DOT, LX_PRECISION_INT8, 2},    {LX_ISA_NEON_BF16_PLAIN, LX_PRECISION_AUTO, 2},
    {LX_ISA_NEON_BF16, LX_PRECISION_AUTO, 3},   {LX_ISA_NEON_BF16_PLAIN, LX_PRECISION_INT8, 1},
    {LX_ISA_NEON_BF16, LX_PRECISION_INT8, 2},   {LX_ISA_PLAIN, LX_PRECISION_AUTO, 1},
    {LX_ISA_AVX2, LX_PRECISION_AUTO, 1},        {LX_ISA_AVX512, LX_PRECISION_AUTO, 1},
    {LX_ISA_NEON, LX_PRECISION_AUTO, 1},        {LX_ISA_PLAIN, LX_PRECISION_INT4, 2},
    {LX_ISA_AVX2, LX_PRECISION_INT4, 1},        {LX_ISA_AVX512, LX_PRECISION_INT4, 1},
    {LX_ISA_AVX512_VNNI, LX_PRECISION_INT4, 2}, {LX_ISA_NEON, LX_PRECISION_INT4, 1},
    {LX_ISA_NEON_DOT, LX_PRECISION_INT4, 2},
};

static const lx_backend_options gpus[] = {
    {1, LX_ISA_AUTO, LX_PRECISION_F32, LX_CUDA_PRODUCTS_CUBLAS},
    {1, LX_ISA_AUTO, LX_PRECISION_AUTO, LX_CUDA_PRODUCTS_CUBLAS},
    {1, LX_ISA_AUTO, LX_PRECISION_AUTO, LX_CUDA_PRODUCTS_OWN},
};

int main(int argc, char **argv)
{
    const lx_backend_options plain = {.n_threads = 1, .precision = LX_PRECISION_F32};
    options o = {0};
    count c = {0};
    if (!parse(argc, argv, &o)) {
        (void)fprintf(
            stderr,
            "usage: conformance [--backend NAME] [--isa NAME,..] [--threads N] [--test NAME,..] "
            "[--but NAME,..]\n");
        return 2;
    }
    if (!SANITIZED && wanted(&o, "reference", LX_ISA_AUTO, 1))
        run_device(&o, "reference", &plain, &c);
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        for (int threads = SANITIZED ? cpus[i].threads : 1; threads <= cpus[i].threads; threads++) {
            lx_backend_options how = {
                .n_threads = threads, .isa = cpus[i].isa, .precision = cpus[i].precision};
            if (wanted(&o, "cpu", cpus[i].isa, threads))
                run_device(&o, "cpu", &how, &c);
        }
    }
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        if (wanted(&o, "cuda", LX_ISA_AUTO, 1))
            run_device(&o, "cuda", &gpus[i], &c);
    }
    (void)printf("%d passed, %d failed\n", c.passed, c.failed);
    return c.failed == 0 && c.passed > 0 ? 0 : 1;
}
