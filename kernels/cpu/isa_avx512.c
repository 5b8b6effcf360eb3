/* The inner loops for AVX-512 (Skylake-SP and later): body.h over v16_avx512.h. */
#define BODY_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"
#include "kernels/cpu/target_begin.h"
#include "kernels/cpu/v16_avx512.h"

#define BODY_NAME "avx512"
#define BODY_TABLE lx_cpu_avx512
#include "kernels/cpu/body.h"
