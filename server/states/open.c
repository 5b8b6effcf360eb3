/* Which store --state-store names. */
#include <string.h>

#include "server/states/state_redis.h"

lx_status lx_state_store_open(const lx_state_store_options *o, lx_state_store **out, lx_error *err)
{
    bool memory = strcmp(o->where, "memory") == 0;
    if (memory && o->password != NULL)
        return lx_fail(err, LX_ERR_INVALID, "state-store-password-file",
                       "--state-store-password-file: states in memory have no password");
    if (memory)
        return lx_state_memory_open(o->max_states, o->max_bytes, out, err);
    return lx_state_redis_open(o->where, o->password, o->timeout_ms, o->max_bytes, out, err);
}
