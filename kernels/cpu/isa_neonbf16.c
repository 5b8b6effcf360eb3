/*
 * NEON with products of bf16 and of two rows by two outputs (BFDOT, BFMMLA and SMMLA: Neoverse V1
 * and N2, Cortex-A510 and -A710, Apple M2 and later). In bf16: activations are rounded, four times
 * the rate of f32 (one row alone: twice), bits of its own, which isa_neonbf16plain.c has too. In
 * int8: the bits of every other set. Everything else is of isa_neondot.c.
 */
#define V16_SIGNED_BYTES 1
#include "kernels/cpu/v16_neon.h"
#include "kernels/cpu/v16_neonbf16.h"

#define BODY_NAME "neonbf16"
#define BODY_TABLE lx_cpu_neonbf16
#define BODY_OTHERS lx_cpu_neondot
#define BODY_BORROWS lx_cpu_neondot_shapes
#include "kernels/cpu/body.h"
