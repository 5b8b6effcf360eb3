/* The bits of isa_neonbf16.c in plain C, for any processor. */
#define V16_SIGNED_BYTES 1
#include "kernels/cpu/mmla_plain.h"
#include "kernels/cpu/pairs_plain.h"

#define BODY_NAME "neonbf16plain"
#define BODY_TABLE lx_cpu_neonbf16plain
#define BODY_OTHERS lx_cpu_plain
#define BODY_ROWS 3
#define BODY_MAX_SUMS 4
#define BODY_WIDE(X) X(2, 2)
#define BODY_NARROW(X) X(1, 1) X(2, 1) X(3, 1)
#include "kernels/cpu/body.h"
