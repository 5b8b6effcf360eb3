/* Rounding of values to blocks, and the way back (kernels/formats.c). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/support/scratch.h"

enum { ROUNDS = 2000 };

static uint64_t seed = 3;

/* -1 .. 1 */
static float draw(void)
{
    return (float)((double)(scratch_random(&seed) >> 40) * 0x1p-23 - 1);
}

static lx_block block_of(const float *values, int64_t cols, lx_dtype dtype)
{
    const lx_host_tensor t = {LX_F32, 1, cols, values};
    lx_block b;
    lx_block_of(&t, 0, 0, dtype, &b);
    return b;
}

/* Every f16 scale is found again, and a scale between two of them goes to the nearest, ties to
   even. */
static void scales_are_rounded_to_f16(void **state)
{
    (void)state;
    for (uint16_t half = 1; half < 0x7bff; half++) {
        float low = lx_f16_to_f32(half), high = lx_f16_to_f32((uint16_t)(half + 1));
        float middle = low + (high - low) / 2, values[3] = {low * 127, middle * 127, low};
        assert_int_equal(block_of(values, 1, LX_Q8_0).scale, half);
        assert_int_equal(block_of(values + 1, 1, LX_Q8_0).scale, half + (half & 1));
        values[2] = nextafterf(middle, high) * 127;
        assert_int_equal(block_of(values + 2, 1, LX_Q8_0).scale, half + 1);
    }
}

static double error_of(const float *x, const lx_block *b)
{
    double sum = 0, d = (double)lx_f16_to_f32(b->scale);
    for (int i = 0; i < LX_BLOCK; i++)
        sum += (b->q[i] * d - (double)x[i]) * (b->q[i] * d - (double)x[i]);
    return sum;
}

/* The block of ggml: the scale is the value of the greatest size / -8. */
static lx_block usual_block(const float *x)
{
    lx_block b;
    float most = 0;
    for (int i = 0; i < LX_BLOCK; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    float d = most / -8;
    b.scale = block_of((const float[]){fabsf(d) * 127}, 1, LX_Q8_0).scale | (d < 0 ? 0x8000 : 0);
    for (int i = 0; i < LX_BLOCK; i++)
        b.q[i] = (int8_t)fminf(fmaxf(nearbyintf(x[i] / lx_f16_to_f32(b.scale)), -8), 7);
    return b;
}

static void errors_are_small(void **state)
{
    (void)state;
    double all = 0, usual = 0;
    for (int round = 0; round < ROUNDS; round++) {
        float x[LX_BLOCK];
        for (int i = 0; i < LX_BLOCK; i++)
            x[i] = draw() * powf(10, (float)(round % 7) - 3);
        lx_block eight = block_of(x, LX_BLOCK, LX_Q8_0), four = block_of(x, LX_BLOCK, LX_Q4_0);
        lx_block other = usual_block(x);
        double d = (double)lx_f16_to_f32(eight.scale);
        for (int i = 0; i < LX_BLOCK; i++)
            assert_true(fabs(eight.q[i] * d - (double)x[i]) <= 0.57 * d); /* f16 moves d by 2^-11 */
        assert_true(error_of(x, &four) <=
                    error_of(x, &other) * 1.01); /* its f16 is rounded twice */
        all += error_of(x, &four);
        usual += error_of(x, &other);
    }
    assert_true(all < 0.97 * usual);
}

/* Values of blocks become the same blocks, through f32 and as they are; the columns after a row's
   end are 0. */
static void blocks_stay(void **state)
{
    (void)state;
    static const lx_dtype dtypes[] = {LX_Q8_0, LX_Q4_0};
    for (int round = 0; round < ROUNDS; round++) {
        lx_dtype dtype = dtypes[round % 2];
        unsigned char bytes[2 + LX_BLOCK];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)(scratch_random(&seed) >> 40);
        bytes[0] |= 1;
        bytes[1] = (unsigned char)(bytes[1] & 0x3b);         /* a positive scale below 1 */
        bytes[2] = dtype == LX_Q8_0 ? 127 : bytes[2] & 0xf0; /* the greatest size: 127 or -8 */
        for (size_t i = 3; dtype == LX_Q8_0 && i < sizeof bytes; i++)
            bytes[i] = bytes[i] == 0x80 ? 0 : bytes[i];
        const lx_host_tensor t = {dtype, 1, LX_BLOCK, bytes};
        lx_block as_it_is, again;
        float x[LX_BLOCK];
        lx_block_of(&t, 0, 0, dtype, &as_it_is);
        lx_host_tensor_expand(&t, 0, LX_BLOCK, x);
        again = block_of(x, LX_BLOCK, dtype);
        assert_int_equal(again.scale, as_it_is.scale);
        assert_memory_equal(again.q, as_it_is.q, sizeof again.q);
        unsigned char written[sizeof bytes] = {0};
        lx_block_put(&as_it_is, dtype, written);
        assert_memory_equal(written, bytes, lx_format_bytes(dtype, LX_BLOCK));
        again = block_of(x, 5, dtype);
        for (int i = 5; i < LX_BLOCK; i++)
            assert_int_equal(again.q[i], 0);
    }
    const float zeros[LX_BLOCK] = {0};
    lx_block none = block_of(zeros, LX_BLOCK, LX_Q4_0);
    assert_int_equal(none.scale & 0x7fff, 0);
    for (int i = 0; i < LX_BLOCK; i++)
        assert_int_equal(none.q[i], 0);
}

/* Numbers of blocks, one by one and together, from any place on, and in the memory of the blocks.
 */
static void blocks_expand_in_place(void **state)
{
    (void)state;
    enum { N = 4 * LX_BLOCK };
    for (int i = 0; i < 2; i++) {
        float all[N], some[N];
        size_t n_bytes = lx_format_bytes(i == 0 ? LX_Q8_0 : LX_Q4_0, N);
        unsigned char bytes[N * 2];
        for (size_t k = 0; k < n_bytes; k++)
            bytes[k] = (unsigned char)(scratch_random(&seed) >> 40 & 0x3b);
        lx_host_tensor t = {i == 0 ? LX_Q8_0 : LX_Q4_0, 1, N, bytes};
        for (int64_t k = 0; k < N; k++)
            all[k] = lx_host_tensor_at(&t, k);
        lx_host_tensor_expand(&t, 37, 50, some);
        assert_memory_equal(some, all + 37, 50 * sizeof *some);
        t.data = (char *)some + sizeof some - n_bytes;
        memcpy((char *)some + sizeof some - n_bytes, bytes, n_bytes);
        lx_host_tensor_expand(&t, 0, N, some);
        assert_memory_equal(some, all, sizeof all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_are_rounded_to_f16),
        cmocka_unit_test(errors_are_small),
        cmocka_unit_test(blocks_stay),
        cmocka_unit_test(blocks_expand_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
