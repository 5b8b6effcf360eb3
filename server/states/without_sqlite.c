/* Replaces the store in a file where LINNET_SQLITE is off. */
#include "common/features.h"
#include "server/states/prefix_store.h"
#include "server/states/store.h"

lx_status lx_state_sqlite_check(lx_error *err)
{
    return lx_fail(
        err, LX_ERR_INVALID, "state-store",
        "--state-store: states cannot be kept in a file: " LX_WITHOUT("SQLite", "LINNET_SQLITE"));
}

lx_status lx_state_sqlite_open(const lx_state_store_options *o, lx_state_store **out, lx_error *err)
{
    (void)o;
    (void)out;
    return lx_state_sqlite_check(err);
}

/* Without a store in a file there is no file of prompt states: these are never called. */
char *lx_prefix_store_path(const char *state_store)
{
    (void)state_store;
    return NULL;
}

lx_status lx_prefix_store_open(const char *path, int64_t max_bytes, lx_prefix_place **out,
                               lx_error *err)
{
    (void)path;
    (void)max_bytes;
    (void)out;
    return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, LX_WITHOUT("SQLite", "LINNET_SQLITE"));
}

void lx_prefix_store_close(lx_prefix_place *p)
{
    (void)p;
}
