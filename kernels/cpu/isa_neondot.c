/*
 * NEON with products of signed bytes (Cortex-A76, Neoverse N1, Apple M1 and later), for precision
 * int8: the same bits as every other instruction set gives it. Everything else is as in isa_neon.c.
 */
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#define V16_SIGNED_BYTES 1
#include "kernels/cpu/v16_neon.h"

#define BODY_NAME "neondot"
#define BODY_TABLE lx_cpu_neondot
#include "kernels/cpu/shapes_neon.h"

#include "kernels/cpu/body.h"
