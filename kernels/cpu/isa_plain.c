/* The inner loops for any processor: body.h over v16_plain.h. The compiler vectorises them. */
#include "kernels/cpu/v16_plain.h"

#define BODY_NAME "plain"
#define BODY_TABLE lx_cpu_plain
#define BODY_ROWS 4
#define BODY_MAX_SUMS 4
#define BODY_WIDE(X)
#define BODY_NARROW(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1)
#include "kernels/cpu/body.h"
