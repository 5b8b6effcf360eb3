/*
 * The inner loops for NEON, which every 64-bit ARM processor has: body.h over v16_neon.h.
 */
#if defined(__aarch64__)

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/v16_neon.h"

#define BODY_NAME "neon"
#define BODY_TABLE lx_cpu_neon
#include "kernels/cpu/shapes_neon.h"

#include "kernels/cpu/body.h"

#else
typedef int lx_no_such_isa; /* a file may not be empty */
#endif
