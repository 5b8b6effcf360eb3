/*
 * Asks for cuda where its library is missing or is none: an error that names it, and the process
 * goes on. Run with an empty folder, or one with an empty libkernels_cuda.so, in LD_LIBRARY_PATH.
 */
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"

int main(void)
{
    lx_backend_options o = {.n_threads = 1};
    lx_backend *be = NULL;
    lx_error err = {0};
    lx_status st = lx_backend_open("cuda", &o, &be, &err);
    (void)printf("%s: %s\n", lx_status_text(st), err.text);
    if (st != LX_ERR_UNSUPPORTED || be != NULL || strstr(err.text, "libkernels_cuda.so") == NULL)
        return 1;
    st = lx_backend_open("cpu", &o, &be, &err);
    if (st != LX_OK)
        return 1;
    be->ops->close(be);
    return 0;
}
