/*
 * The inner loops for NEON, which every 64-bit ARM processor has: body.h over v16_neon.h.
 */
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/v16_neon.h"

#define BODY_NAME "neon"
#define BODY_TABLE lx_cpu_neon
#include "kernels/cpu/shapes_neon.h"

#include "kernels/cpu/body.h"
