/*
 * The registry of back ends: those compiled in, and cuda, which is a library of its own.
 */
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "kernels/host.h"
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
    if (options->precision >= LX_PRECISION_INT8 && strcmp(name, "cpu") != 0 &&
        lx_precision_name(options->precision) != NULL)
        return lx_fail(err, LX_ERR_UNSUPPORTED, "precision",
                       "precision %s is for the back end cpu, not %s",
                       lx_precision_name(options->precision), name);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) == 0)
            return known[i].open(options, out, err);
    }
    if (is_plugin(name))
        return lx_plugin_open(name, options, out, err);
    return lx_fail(err, LX_ERR_UNSUPPORTED, "backend",
                   "there is no back end \"%s\" (reference, cpu, cuda, cuda:DEVICE)", name);
}

static lx_status choose_auto(const lx_backend_options *options, lx_backend **out, char *why,
                             size_t size, lx_error *err)
{
    lx_error no_gpu = {0};
    if (options->isa != LX_ISA_AUTO) {
        (void)snprintf(why, size, "auto: cpu, for an instruction set is asked for");
        return lx_backend_open("cpu", options, out, err);
    }
    lx_status st = lx_backend_open("cuda", options, out, &no_gpu);
    if (st == LX_OK) {
        (void)snprintf(why, size, "auto: cuda, its device is there");
        return LX_OK;
    }
    if (st != LX_ERR_UNSUPPORTED) {
        *err = no_gpu;
        return st;
    }
    /* Most machines have no GPU, and nothing is wrong with them; a library that is there and cannot
       be used is another matter. */
    lx_log(LX_LOG_DEBUG, "device auto: no cuda: %s", no_gpu.text);
    (void)snprintf(why, size,
                   lx_plugin_is_broken("cuda", &no_gpu) ? "auto: cpu, for %s" : "auto: cpu",
                   no_gpu.text);
    return lx_backend_open("cpu", options, out, err);
}

lx_status lx_device_check(const char *device, lx_error *err)
{
    if (is_plugin(device))
        return lx_plugin_check(device, err);
    if (strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "device",
                   "--device: \"%s\" is not one of auto, cpu, cuda, cuda:N", device);
}

lx_status lx_backend_choose(const char *device, const lx_backend_options *options, lx_backend **out,
                            char *why, size_t size, lx_error *err)
{
    lx_error cause = {0};
    lx_status st = lx_device_check(device, err);
    if (st != LX_OK)
        return st;
    if (strcmp(device, "auto") == 0)
        return choose_auto(options, out, why, size, err);
    (void)snprintf(why, size, "%s, as asked for", device);
    st = lx_backend_open(device, options, out, &cause);
    if (st == LX_ERR_UNSUPPORTED && is_plugin(device))
        return lx_fail(err, st, "device", "--device %s: %s; use --device cpu", device, cause.text);
    return st == LX_OK ? LX_OK : lx_fail(err, st, cause.param, "%s", cause.text);
}
