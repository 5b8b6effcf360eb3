/* What a thread that computes for long tells the system's scheduler. */
#ifndef LINNET_COMMON_COMPUTE_THREAD_H
#define LINNET_COMMON_COMPUTE_THREAD_H

/*
 * Asks for turns of LX_COMPUTE_TURN_NS on the processor for the calling thread, with its priority
 * as it is. With as many of these as cores, a thread that wakes to write an answer has the shorter
 * turn and so goes first, where it else may wait for the end of a turn of some milliseconds; what
 * each gets in all stays the same. Linux 6.12 and later heed it, others ignore it; nothing depends
 * on it.
 */
#define LX_COMPUTE_TURN_NS 20000000

void lx_compute_thread(void);

#endif
