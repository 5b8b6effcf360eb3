/*
 * Claims on conversations: one request at a time changes a conversation, because it reads the
 * stored object and writes it anew. A second request is refused. Claims are of this process. So
 * servers that share a Redis do not see each other's, and there the last write stays.
 *
 * Thread: any.
 */
#ifndef LINNET_SERVER_API_CLAIMS_H
#define LINNET_SERVER_API_CLAIMS_H

#include "server/api/api.h"

typedef struct lx_claim lx_claim;

/* LX_ERR_CONFLICT with param "conversation": another request of the owner has the id. The claims
   outlive *out, which lx_claim_free ends. */
lx_status lx_claim_take(lx_api *api, const lx_owner *owner, const char *id, lx_claim **out,
                        lx_error *err) LX_MUST_USE;
void lx_claim_free(lx_claim *c); /* NULL is allowed */
/* The error of a claim that was not taken. */
void lx_respond_claimed(lx_response *rs, lx_status status, const lx_error *err);

#endif
