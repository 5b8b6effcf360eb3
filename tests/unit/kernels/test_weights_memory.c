/* Memory for packed weights: blocks next to each other, and which blocks are freed together. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/cpu/weights.h"

#define MIB ((size_t)1 << 20)

static bool all_are(const unsigned char *p, size_t n, unsigned char value)
{
    return n == 0 || (p[0] == value && memcmp(p, p + 1, n - 1) == 0);
}

static void test_blocks_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 64, 65, 4096, 3 * MIB + 4, 20 * MIB, 20 * MIB, 50 * MIB, 7};
    enum { N = sizeof sizes / sizeof *sizes };
    lx_cpu_weights w;
    assert_int_equal(lx_cpu_weights_init(&w), 0);
    unsigned char *blocks[N];
    for (int i = 0; i < N; i++) {
        blocks[i] = lx_cpu_weights_new(&w, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        assert_true(all_are(blocks[i], sizes[i], 0));
        memset(blocks[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < N; i++)
        assert_true(all_are(blocks[i], sizes[i], (unsigned char)(i + 1)));
    for (int i = 0; i < N; i++)
        lx_cpu_weights_free(&w, blocks[i], sizes[i]);
    lx_cpu_weights_free(&w, NULL, 5);
    lx_cpu_weights_fini(&w);
}

static bool is_mapped(void *p, bool *resident)
{
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)p / size * size);
    unsigned char here = 0;
    bool mapped = mincore(page, 1, &here) == 0 || errno != ENOMEM;
    *resident = mapped && (here & 1) != 0;
    return mapped;
}

static bool is_resident(void *p)
{
    bool resident;
    (void)is_mapped(p, &resident);
    return resident;
}

static void test_memory_goes_with_the_last_block(void **state)
{
    (void)state;
    lx_cpu_weights w;
    assert_int_equal(lx_cpu_weights_init(&w), 0);
    void *first = lx_cpu_weights_new(&w, 2 * MIB), *second = lx_cpu_weights_new(&w, 2 * MIB);
    assert_non_null(first);
    memset(second, 1, 2 * MIB);
    lx_cpu_weights_free(&w, first, 2 * MIB);
    assert_true(all_are(second, 2 * MIB, 1));
    lx_cpu_weights_free(&w, second, 2 * MIB);
    bool resident;
    assert_false(is_mapped(first, &resident));
    assert_false(is_mapped(second, &resident));
    lx_cpu_weights_fini(&w);
}

/* One model is loaded again and again next to one that stays: its old weights take no memory. */
static void test_what_stays_keeps_nothing_else(void **state)
{
    enum { ROUNDS = 20, SMALL = 5000 };
    (void)state;
    lx_cpu_weights w;
    assert_int_equal(lx_cpu_weights_init(&w), 0);
    unsigned char *stays = lx_cpu_weights_new(&w, SMALL);
    memset(stays, 7, SMALL);
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char *block = lx_cpu_weights_new(&w, 5 * MIB), *middle = block + 5 * MIB / 2;
        assert_true(all_are(block, 5 * MIB, 0));
        memset(block, 8, 5 * MIB);
        assert_true(is_resident(middle));
        lx_cpu_weights_free(&w, block, 5 * MIB);
        assert_false(is_resident(middle));
    }
    assert_true(all_are(stays, SMALL, 7));
    lx_cpu_weights_free(&w, stays, SMALL);
    lx_cpu_weights_fini(&w);
}

static void test_more_than_there_can_be_is_refused(void **state)
{
    (void)state;
    lx_cpu_weights w;
    assert_int_equal(lx_cpu_weights_init(&w), 0);
    assert_null(lx_cpu_weights_new(&w, SIZE_MAX));
    assert_null(lx_cpu_weights_new(&w, SIZE_MAX / 4));
    lx_cpu_weights_fini(&w);
}

static void *load_and_drop(void *context)
{
    lx_cpu_weights *w = context;
    for (size_t i = 1; i <= 200; i++) {
        size_t n = i * 997;
        unsigned char *a = lx_cpu_weights_new(w, n), *b = lx_cpu_weights_new(w, n);
        if (a == NULL || b == NULL)
            return w;
        memset(a, 1, n);
        memset(b, 2, n);
        if (!all_are(a, n, 1))
            return w;
        lx_cpu_weights_free(w, a, n);
        lx_cpu_weights_free(w, b, n);
    }
    return NULL;
}

static void test_from_several_threads(void **state)
{
    (void)state;
    lx_cpu_weights w;
    assert_int_equal(lx_cpu_weights_init(&w), 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_and_drop, &w), 0);
    for (int i = 0; i < 3; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    lx_cpu_weights_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_zeroed_aligned_and_apart),
        cmocka_unit_test(test_memory_goes_with_the_last_block),
        cmocka_unit_test(test_what_stays_keeps_nothing_else),
        cmocka_unit_test(test_more_than_there_can_be_is_refused),
        cmocka_unit_test(test_from_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
