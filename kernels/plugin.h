/*
 * A back end in a shared library of its own, so that the program also runs where that library's
 * needs (CUDA's runtime and driver) are missing. The library is libkernels_NAME.so in the program's
 * folder or on the dynamic loader's path. It uses nothing of the program and exports one function,
 * lx_kernels_plugin. It stays loaded until the program ends.
 */
#ifndef LINNET_KERNELS_PLUGIN_H
#define LINNET_KERNELS_PLUGIN_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change of kernels.h that a library built before would not understand. */
#define LX_PLUGIN_ABI 7
#define LX_PLUGIN_SYMBOL "lx_kernels_plugin"

typedef struct lx_plugin {
    uint32_t abi;
    uint32_t table_bytes; /* sizeof(lx_kernels), a second guard */
    /* `device` numbers the machine's devices from 0. */
    lx_status (*open)(const lx_backend_options *options, int32_t device, lx_backend **out,
                      lx_error *err);
} lx_plugin;

typedef const lx_plugin *(*lx_plugin_fn)(void);

/* Whether the device in "NAME" or "NAME:DEVICE" is a number. */
lx_status lx_plugin_check(const char *name, lx_error *err) LX_MUST_USE;

/* Opens "NAME" or "NAME:DEVICE". LX_ERR_UNSUPPORTED names the missing library, driver or device. */
lx_status lx_plugin_open(const char *name, const lx_backend_options *options, lx_backend **out,
                         lx_error *err) LX_MUST_USE;

/* Whether there is a library of that name that this program cannot use; err says why. */
bool lx_plugin_is_broken(const char *name, lx_error *err);

#ifdef __cplusplus
}
#endif
#endif
