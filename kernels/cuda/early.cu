/*
 * Whether kernels may begin before the previous kernel has ended. The device needs compute
 * capability 9.0, and its code needs the waits of lx_wait_for_others, which code for earlier
 * architectures lacks.
 */
#include "kernels/cuda/device.cuh"

#define LEAST 900 /* the first architecture with waits, in nvcc's numbers */

bool lx_cuda_launches_early;

#ifdef __CUDA_ARCH_LIST__
static const int compiled_for[] = {__CUDA_ARCH_LIST__};
#else
static const int compiled_for[] = {0}; /* a compiler that does not define it, for no GPU */
#endif

extern "C" void lx_cuda_allow_early(int major, int minor)
{
    int device = major * 100 + minor * 10, runs = 0;
    for (int architecture : compiled_for) {
        if (architecture <= device && architecture > runs)
            runs = architecture;
    }
    lx_cuda_launches_early = device >= LEAST && runs >= LEAST;
}
