/* Random numbers from the system, for seeds and ids. */
#ifndef LINNET_COMMON_RANDOM_H
#define LINNET_COMMON_RANDOM_H

#include <stdint.h>

/* 64 random bits; any thread. Where the system has none, those of the clock. */
uint64_t lx_random_bits(void);

#endif
