/* The scheduler's settings of a thread that computes for long. */
#ifndef LINNET_COMMON_COMPUTE_THREAD_H
#define LINNET_COMMON_COMPUTE_THREAD_H

/*
 * Asks for turns of LX_COMPUTE_TURN_NS on the processor for the calling thread, with its priority
 * as it is. Where such threads use all cores, a thread that wakes to write an answer has a shorter
 * turn. So it goes first, and need not wait some milliseconds for the end of a turn. The shares of
 * the processor do not change. Linux 6.12 and later heed it, others ignore it; nothing depends on
 * it.
 */
#define LX_COMPUTE_TURN_NS 20000000

void lx_compute_thread(void);

#endif
