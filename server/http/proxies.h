/*
 * The address of the client that a request comes from, also through proxies.
 *
 * A proxy adds the address of its own peer to the end of X-Forwarded-For. The beginning of that
 * header is the client's own text, so it proves nothing. Therefore the list is read from its end:
 * while the address that was found so far belongs to a trusted proxy, the entry before it counts.
 * Pure functions; thread: any.
 */
#ifndef LINNET_SERVER_HTTP_PROXIES_H
#define LINNET_SERVER_HTTP_PROXIES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* An address, or none (family 0). */
typedef union lx_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} lx_address;

void lx_address_set(lx_address *a, const struct sockaddr *from); /* NULL: none */
/* NULL when there is none. */
const struct sockaddr *lx_address_of(const lx_address *a);
/* "1.2.3.4", "::1"; "" when there is none. */
void lx_address_write(const lx_address *a, char *out, size_t size);

typedef struct lx_proxies lx_proxies;

/* From a list of addresses and networks, "127.0.0.1, 10.0.0.0/8, fd00::/8". NULL or "": *out is
   NULL, no proxy is trusted. LX_ERR_INVALID names the entry that is no address. */
lx_status lx_proxies_new(const char *list, lx_proxies **out, lx_error *err) LX_MUST_USE;
void lx_proxies_free(lx_proxies *p); /* NULL is allowed */
bool lx_proxies_trust(const lx_proxies *p, const lx_address *a);

/* The values of all headers X-Forwarded-For of a request, in their order; the first ones are
   forgotten if there are more. */
enum { LX_MAX_FORWARDED = 16 };
typedef struct lx_forwarded {
    const char *values[LX_MAX_FORWARDED];
    int n;
} lx_forwarded;

void lx_forwarded_add(lx_forwarded *f, const char *value);

/* *client is the peer, a trusted proxy. It becomes the last address that no trusted proxy has, or
   the first one of the list if all are trusted. An entry that is no address ends the search. */
void lx_proxies_find_client(const lx_proxies *p, const lx_forwarded *f, lx_address *client);

#endif
