/* Claims on conversations (see claims.h): a list, as long as the server has requests that change
   conversations. */
#include "server/api/claims.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"

struct lx_claim {
    struct lx_claims *claims;
    lx_claim *before, *after; /* in the list */
    const lx_owner *owner;
    char id[LX_STATE_ID_MAX + 1];
};

static bool is_claimed(const struct lx_claims *claims, const lx_owner *owner, const char *id)
{
    for (const lx_claim *c = claims->first; c != NULL; c = c->after)
        if (strcmp(c->id, id) == 0 && strcmp(c->owner->name, owner->name) == 0)
            return true;
    return false;
}

lx_status lx_claim_take(lx_api *api, const lx_owner *owner, const char *id, lx_claim **out,
                        lx_error *err)
{
    struct lx_claims *claims = &api->claims;
    lx_claim *c = calloc(1, sizeof *c);
    if (c == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    LX_HOLD(&claims->mutex);
    if (is_claimed(claims, owner, id)) {
        free(c);
        return lx_fail(err, LX_ERR_CONFLICT, "conversation",
                       "another request is changing conversation %s: try again after its end", id);
    }
    *c = (lx_claim){.claims = claims, .after = claims->first, .owner = owner};
    (void)snprintf(c->id, sizeof c->id, "%s", id);
    if (c->after != NULL)
        c->after->before = c;
    claims->first = c;
    *out = c;
    return LX_OK;
}

void lx_claim_free(lx_claim *c)
{
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&c->claims->mutex);
    *(c->before != NULL ? &c->before->after : &c->claims->first) = c->after;
    if (c->after != NULL)
        c->after->before = c->before;
    (void)pthread_mutex_unlock(&c->claims->mutex);
    free(c);
}

void lx_respond_claimed(lx_response *rs, lx_status status, const lx_error *err)
{
    if (status == LX_ERR_CONFLICT)
        lx_respond_error(rs, 409, "conversation_locked", err->param, err->text);
    else
        lx_respond_status(rs, status, err);
}
