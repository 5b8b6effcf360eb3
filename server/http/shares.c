/* Each client's part of the budget of bodies (see shares.h). */
#include "server/http/shares.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"

enum { NETWORK_BYTES = 8 }; /* of an IPv6 address */

static const uint8_t MAPPED[12] = {[10] = 0xff, [11] = 0xff}; /* IPv4 in IPv6, RFC 4291 */

lx_body_owner lx_body_owner_of(const void *key, const struct sockaddr *address)
{
    lx_body_owner o;
    memset(&o, 0, sizeof o); /* padding is compared too */
    o.key = key;
    if (key != NULL || address == NULL)
        return o;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        memcpy(o.address, MAPPED, sizeof MAPPED);
        memcpy(o.address + sizeof MAPPED, &v4->sin_addr, sizeof v4->sin_addr);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        bool mapped = memcmp(&v6->sin6_addr, MAPPED, sizeof MAPPED) == 0;
        memcpy(o.address, &v6->sin6_addr, mapped ? sizeof o.address : NETWORK_BYTES);
    }
    return o;
}

void lx_shares_init(lx_shares *s, lx_budget *budget)
{
    *s = (lx_shares){.budget = budget};
    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail without attributes */
}

void lx_shares_fini(lx_shares *s)
{
    (void)pthread_mutex_destroy(&s->lock);
}

lx_share *lx_shares_join(lx_shares *s, const lx_body_owner *owner)
{
    LX_HOLD(&s->lock);
    lx_share *share = s->first;
    while (share != NULL && memcmp(&share->owner, owner, sizeof *owner) != 0)
        share = share->next;
    if (share == NULL && (share = calloc(1, sizeof *share)) != NULL) {
        memcpy(&share->owner, owner, sizeof *owner);
        share->next = s->first;
        s->first = share;
    }
    if (share != NULL)
        share->n_bodies++;
    return share;
}

/* Under the lock, without the bytes that the parsing of bodies holds for a moment. */
static bool is_allowed(const lx_shares *s, const lx_share *share, int64_t bytes)
{
    int64_t others = s->bytes - share->bytes;
    return share->bytes + bytes <= (atomic_load(&s->budget->limit) - others) / 2;
}

bool lx_shares_have(lx_shares *s, const lx_share *share, int64_t bytes)
{
    LX_HOLD(&s->lock);
    bool have = is_allowed(s, share, bytes) &&
                bytes <= atomic_load(&s->budget->limit) - atomic_load(&s->budget->used);
    atomic_fetch_add(&s->budget->refused, !have);
    return have;
}

bool lx_shares_take(lx_shares *s, lx_share *share, int64_t bytes)
{
    LX_HOLD(&s->lock);
    bool allowed = is_allowed(s, share, bytes);
    atomic_fetch_add(&s->budget->refused, !allowed);
    if (!allowed || !lx_budget_try(s->budget, bytes)) /* which counts its own refusals */
        return false;
    share->bytes += bytes;
    s->bytes += bytes;
    return true;
}

void lx_shares_leave(lx_shares *s, lx_share *share, int64_t bytes)
{
    lx_budget_release(s->budget, bytes);
    LX_HOLD(&s->lock);
    share->bytes -= bytes;
    s->bytes -= bytes;
    if (--share->n_bodies > 0)
        return;
    lx_share **at = &s->first;
    while (*at != share)
        at = &(*at)->next;
    *at = share->next;
    free(share);
}
