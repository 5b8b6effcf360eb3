/* The micro-kernels of `linear` for the registers of NEON; included by isa_neon*.c. */
#ifndef LINNET_KERNELS_CPU_SHAPES_NEON_H
#define LINNET_KERNELS_CPU_SHAPES_NEON_H

/* 32 registers of 4 lanes: up to 6 sums of four registers, 2 at least to hide the latency of fma */
#define BODY_ROWS 6
#define BODY_MAX_SUMS 6
#define BODY_WIDE(X) X(1, 4) X(2, 2)
#define BODY_NARROW(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)

#endif
