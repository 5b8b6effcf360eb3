/*
 * A race checker for kernels that run as fibers: which accesses may conflict, in any order of
 * execution. The device code is compiled with -fsanitize=thread, whose calls race.cpp answers
 * itself; the sanitizer's own library is not linked.
 *
 * Within a block __syncthreads orders all threads and __syncwarp the threads that it names;
 * shuffles and atomics order nothing. Launches are ordered, the blocks of a launch are not. Three
 * errors end the test. Two unordered accesses to the same bytes, if one is a write and one is not
 * atomic. A read of shared memory that the block has not written. An access to memory that is not
 * shared, the thread's or the device's, other than a read of the library's constants.
 */
#ifndef LINNET_TESTS_SIMT_RACE_H
#define LINNET_TESTS_SIMT_RACE_H

#include <cstddef>
#include <cstdint>

void race_launch();
/* This memory belongs to one thread in this launch, or holds the launch's arguments: the checker
   ignores it. */
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
