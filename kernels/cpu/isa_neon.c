/* The inner loops for NEON, which every 64-bit ARM processor has: body.h over v16_neon.h. */
#include "kernels/cpu/v16_neon.h"

#define BODY_NAME "neon"
#define BODY_TABLE lx_cpu_neon
#include "kernels/cpu/body.h"
