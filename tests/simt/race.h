/*
 * A race checker for kernels that run as fibers: who may have touched what, whatever the order in
 * which they ran. The device code is compiled with -fsanitize=thread, whose calls race.cpp answers
 * itself; the sanitizer's own library is not linked.
 *
 * Within a block __syncthreads orders all threads and __syncwarp those that it names; shuffles and
 * atomics order nothing. Blocks of a launch are not ordered, launches are. Two accesses of the same
 * bytes that are not ordered, of which one is a write and one is not atomic, end the test, as does
 * reading shared memory that the block has not written, and touching memory that is neither shared,
 * nor the thread's, nor the device's, but to read constants of the library.
 */
#ifndef LINNET_TESTS_SIMT_RACE_H
#define LINNET_TESTS_SIMT_RACE_H

#include <cstddef>
#include <cstdint>

void race_launch();
/* In this launch what lies there belongs to one thread, or is what it was started with: it is not
   looked at. */
void race_own(const void *at, size_t n_bytes);
void race_block(uint32_t block);
/* Without a value in this block. */
void race_shared(const void *at, size_t n_bytes);
void race_thread(unsigned thread); /* that runs from now on */
void race_end();                   /* none runs */
void race_barrier();
void race_warp_sync(unsigned first_thread, uint32_t mask);
void race_atomic(const void *at, size_t n_bytes);

#endif
