/*
 * The inner loops of the cpu back end, written once over sixteen lanes (v16_*.h) in
 * kernels/ops/NAME/cpu.h. An isa_*.c chooses the lanes and then includes this file, which defines
 * one table `BODY_TABLE`. With BODY_OTHERS, a table of the same lanes, this one has products only.
 *
 * One rule makes results independent of batch, split, thread count and instruction set: the order
 * of every sum depends only on the sizes of the model. An output of `linear` belongs to one lane
 * and sums over the inputs in their order. In a sum over a row, element i goes to lane i mod 16,
 * and the fixed tree of v16_sum adds the lanes. A product feeds a sum only through v16_fma.
 *
 * BODY_FLOATS_ONLY, which cmake/instruction_sets.cmake or CMakeLists.txt may set to 1, leaves out
 * the products of weights that are whole numbers. They take a compiler four fifths of its time.
 */
#ifndef BODY_FLOATS_ONLY
#define BODY_FLOATS_ONLY 0
#endif
#include "kernels/cpu/body_math.h"

/*
 * Tokens of a sequence that pass through its state together (attend_linear). A vector of the state
 * is loaded and stored once for all of them, and their latencies overlap. Sums have the order of
 * single tokens. More than one where there are enough registers.
 */
#ifndef BODY_TOKENS
#define BODY_TOKENS 1
#endif
_Static_assert(BODY_TOKENS <= LX_CPU_MAX_TOKENS, "scratch has room for as many");

#ifdef __clang__
#define V16_UNROLL /* it unrolls without a pragma */
#else
#define V16_UNROLL _Pragma("GCC unroll 4")
#endif

/* The first n lanes, all sixteen or less; n is known where this is used. */
V16_FN v16 body_load(const float *p, const int n)
{
    return n == 16 ? v16_load(p) : v16_load_n(p, n, v16_set1(0.0f));
}

V16_FN void body_store(float *p, v16 v, const int n)
{
    if (n == 16)
        v16_store(p, v);
    else
        v16_store_n(p, v, n);
}

#ifdef BODY_OTHERS
#include "kernels/ops/linear/cpu.h"

const lx_cpu_isa BODY_TABLE = {
    .name = BODY_NAME, .others = &BODY_OTHERS, .floats_only = BODY_FLOATS_ONLY, .linear = &linear};
#else
#include "kernels/cpu/body_seen.h"
#define LX_OP_FILE cpu.h
#include "kernels/ops.def"

const lx_cpu_isa BODY_TABLE = {
    .name = BODY_NAME,
    .floats_only = BODY_FLOATS_ONLY,
#define LX_OP(name) .name = &name,
#include "kernels/ops.def"
};
#endif

#ifdef BODY_TARGET /* set by target_begin.h */
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
