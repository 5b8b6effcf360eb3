/*
 * Asks for cuda where its library is missing, is not a library, or has another version. The error
 * names the library and the reason, `auto` takes the cpu and says why, and the process continues.
 *
 *   cuda_missing WHY    with the folder of that library in LD_LIBRARY_PATH
 */
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"

static bool tells(const char *text, const char *why)
{
    (void)printf("%s\n", text);
    return strstr(text, "libkernels_cuda.so") != NULL && strstr(text, why) != NULL;
}

int main(int argc, char **argv)
{
    lx_backend_options o = {.n_threads = 1};
    lx_backend *be = NULL;
    lx_error err = {0};
    char why[512];
    if (argc != 2)
        return 2;
    lx_status st = lx_backend_open("cuda", &o, &be, &err);
    if (st != LX_ERR_UNSUPPORTED || be != NULL || !tells(err.text, argv[1]))
        return 1;
    st = lx_backend_choose("auto", &o, &be, why, sizeof why, &err);
    if (st != LX_OK || strcmp(be->ops->name, "cpu") != 0 || !tells(why, argv[1]))
        return 1;
    be->ops->close(be);
    return 0;
}
