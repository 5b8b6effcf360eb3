/* Loads a back end's library (see plugin.h). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/plugin.h"

#define MAX_DEVICE 1023

/* Loads the library of "NAME" or "NAME:DEVICE". LX_ERR_NOT_FOUND: there is none. */
static lx_status load(const char *name, const lx_plugin **out, lx_error *err)
{
    char file[64];
    (void)snprintf(file, sizeof file, "libkernels_%.*s.so", (int)strcspn(name, ":"), name);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror();
        bool missing = strncmp(why, file, strlen(file)) == 0 && strstr(why, "No such file") != NULL;
        return lx_fail(err, missing ? LX_ERR_NOT_FOUND : LX_ERR_UNSUPPORTED, "backend",
                       "cannot load %s", why);
    }
    lx_plugin_fn entry = NULL;
    void *symbol = dlsym(library, LX_PLUGIN_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry); /* C has no cast from void * to a function */
    const lx_plugin *plugin = entry != NULL ? entry() : NULL;
    if (plugin == NULL || plugin->abi != LX_PLUGIN_ABI ||
        plugin->table_bytes != sizeof(lx_kernels)) {
        (void)dlclose(library);
        return lx_fail(err, LX_ERR_UNSUPPORTED, "backend",
                       "%s belongs to another version of this program", file);
    }
    *out = plugin;
    return LX_OK;
}

/* The number after the colon; -1 for another text. */
static int32_t device_of(const char *colon)
{
    if (colon == NULL)
        return 0;
    char *end = NULL;
    long n = strtol(colon + 1, &end, 10);
    bool digit = colon[1] >= '0' && colon[1] <= '9';
    return digit && *end == '\0' && n <= MAX_DEVICE ? (int32_t)n : -1;
}

lx_status lx_plugin_check(const char *name, lx_error *err)
{
    if (device_of(strchr(name, ':')) >= 0)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "backend",
                   "\"%s\": a device is a number from 0 to %d after the colon", name, MAX_DEVICE);
}

lx_status lx_plugin_open(const char *name, const lx_backend_options *options, lx_backend **out,
                         lx_error *err)
{
    const lx_plugin *plugin = NULL;
    lx_status st = lx_plugin_check(name, err);
    if (st == LX_OK)
        st = load(name, &plugin, err);
    if (st == LX_OK)
        return plugin->open(options, device_of(strchr(name, ':')), out, err);
    return st == LX_ERR_NOT_FOUND ? LX_ERR_UNSUPPORTED : st;
}

bool lx_plugin_is_broken(const char *name, lx_error *err)
{
    const lx_plugin *plugin = NULL;
    lx_status st = load(name, &plugin, err);
    return st != LX_OK && st != LX_ERR_NOT_FOUND;
}
