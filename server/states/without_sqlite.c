/* Replaces the store in a file where LINNET_SQLITE is off. */
#include "common/features.h"
#include "server/states/store.h"

lx_status lx_state_sqlite_open(const lx_state_store_options *o, lx_state_store **out, lx_error *err)
{
    (void)o;
    (void)out;
    return lx_fail(
        err, LX_ERR_INVALID, "state-store",
        "--state-store: states cannot be kept in a file: " LX_WITHOUT("SQLite", "LINNET_SQLITE"));
}
