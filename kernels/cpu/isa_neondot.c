/*
 * NEON with products of signed bytes (Cortex-A76, Neoverse N1, Apple M1 and later), for precision
 * int8 and weights in blocks: the bits that every other instruction set gives. Everything else is
 * of isa_neon.c.
 */
#define V16_SIGNED_BYTES 1
#include "kernels/cpu/v16_neon.h"

#define BODY_NAME "neondot"
#define BODY_TABLE lx_cpu_neondot
#define BODY_OTHERS lx_cpu_neon
#define BODY_LENDS lx_cpu_neondot_shapes
#include "kernels/cpu/body.h"
