/* The back ends that are compiled in; see lx_backend_open in kernels.h. */
#ifndef LINNET_KERNELS_BACKENDS_H
#define LINNET_KERNELS_BACKENDS_H

#include "kernels/kernels.h"

lx_status lx_reference_open(const lx_backend_options *options, lx_backend **out, lx_error *err);
lx_status lx_cpu_open(const lx_backend_options *options, lx_backend **out, lx_error *err);

#endif
