/*
 * NEON with products of signed bytes (Cortex-A76, Neoverse N1, Apple M1 and later), for precision
 * int8: the same bits as every other instruction set gives it. Everything else is as in isa_neon.c.
 */
#define V16_SIGNED_BYTES 1
#include "kernels/cpu/v16_neon.h"

#define BODY_NAME "neondot"
#define BODY_TABLE lx_cpu_neondot
#include "kernels/cpu/body.h"
