/*
 * AVX-512 with products of bytes (Cascade Lake, Zen 4 and later), for precision int8 and weights in
 * blocks: the bits that every other instruction set gives. Everything else is of isa_avx512.c.
 */
#define BODY_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma"
#include "kernels/cpu/target_begin.h"
#define V16_VNNI 1
#include "kernels/cpu/v16_avx512.h"

#define BODY_NAME "avx512vnni"
#define BODY_TABLE lx_cpu_avx512vnni
#define BODY_OTHERS lx_cpu_avx512
#define BODY_LENDS lx_cpu_avx512vnni_shapes
#include "kernels/cpu/body.h"
