/* Replaces the store in Redis where LINNET_REDIS is off. */
#include "common/features.h"
#include "server/states/redis.h"
#include "server/states/store.h"

lx_status lx_state_redis_check(const char *url, const char *password, lx_error *err)
{
    (void)url;
    (void)password;
    return lx_fail(
        err, LX_ERR_INVALID, "state-store",
        "--state-store: states cannot be kept in Redis: " LX_WITHOUT("Redis", "LINNET_REDIS"));
}

lx_status lx_state_redis_open(const char *url, const char *password, int64_t timeout_ms,
                              int64_t max_bytes, lx_state_store **out, lx_error *err)
{
    (void)timeout_ms;
    (void)max_bytes;
    (void)out;
    return lx_state_redis_check(url, password, err);
}

/* The server refuses the store and ends at once, so no log shows the URL. */
void lx_redis_url_hide_password(char *text)
{
    (void)text;
}
