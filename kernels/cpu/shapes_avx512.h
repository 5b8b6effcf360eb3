/* The micro-kernels of `linear`, and tokens of a pass, for the registers of AVX-512; included by
   isa_avx512*.c. */
#ifndef LINNET_KERNELS_CPU_SHAPES_AVX512_H
#define LINNET_KERNELS_CPU_SHAPES_AVX512_H

/* 32 registers of 16 lanes: up to 24 sums, 8 at least to hide the latency of fma */
#define BODY_ROWS 12
#define BODY_TOKENS 4
#define BODY_MAX_SUMS 24
#define BODY_WIDE(X) X(1, 8) X(2, 4) X(3, 8)
#define BODY_NARROW(X)                                                                             \
    X(1, 2)                                                                                        \
    X(2, 2)                                                                                        \
    X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2)

#endif
