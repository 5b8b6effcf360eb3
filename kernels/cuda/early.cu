/*
 * Whether kernels may begin before the kernel before them has ended. The device must be able to do
 * it (compute capability 9.0), and the code that it runs must have the waits of lx_wait_for_others:
 * code compiled for an earlier architecture has none.
 */
#include "kernels/cuda/device.cuh"

#define LEAST 900 /* the architecture of nvcc's number from which on there are waits */

bool lx_cuda_launches_early;

#ifdef __CUDA_ARCH_LIST__
static const int compiled_for[] = {__CUDA_ARCH_LIST__};
#else
static const int compiled_for[] = {0}; /* a compiler that does not say, and no GPU's */
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
