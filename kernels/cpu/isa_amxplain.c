/* The bits of isa_amx.c in plain C, for any processor. */
#define V16_TILES 1
#define V16_FLUSH_PAIRS 1
#include "kernels/cpu/pairs_plain.h"
#include "kernels/cpu/tiles_plain.h"

#define BODY_NAME "amxplain"
#define BODY_TABLE lx_cpu_amxplain
#define BODY_OTHERS lx_cpu_plain
#define BODY_ROWS 4
#define BODY_MAX_SUMS 4
#define BODY_WIDE(X)
#define BODY_NARROW(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1)
#include "kernels/cpu/body.h"
