/* Which store --state-store names. */
#include <string.h>

#include "server/state_redis.h"

lx_status lx_state_store_open(const lx_state_store_options *o, lx_state_store **out, lx_error *err)
{
    if (strcmp(o->where, "memory") == 0)
        return lx_state_memory_open(o->max_states, o->max_bytes, out, err);
    return lx_state_redis_open(o->where, o->timeout_ms, out, err);
}
