/*
 * The registry of back ends: those compiled in, and cuda, which is a library of its own.
 */
#include <string.h>

#include "kernels/backends.h"
#include "kernels/plugin.h"

static bool is_plugin(const char *name)
{
    return strncmp(name, "cuda", 4) == 0 && (name[4] == '\0' || name[4] == ':');
}

lx_status lx_backend_open(const char *name, const lx_backend_options *options, lx_backend **out,
                          lx_error *err)
{
    static const struct {
        const char *name;
        lx_status (*open)(const lx_backend_options *, lx_backend **, lx_error *);
    } known[] = {{"reference", lx_reference_open}, {"cpu", lx_cpu_open}};

    if (options->n_threads < 1 || options->n_threads > 256)
        return lx_fail(err, LX_ERR_INVALID, "threads", "threads is %d, must be 1 to 256",
                       options->n_threads);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) == 0)
            return known[i].open(options, out, err);
    }
    if (is_plugin(name))
        return lx_plugin_open(name, options, out, err);
    return lx_fail(err, LX_ERR_UNSUPPORTED, "backend",
                   "there is no back end \"%s\" (reference, cpu, cuda, cuda:DEVICE)", name);
}
