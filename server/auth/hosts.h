/*
 * Names of hosts in the headers Host and Origin. Pure functions.
 *
 * The name of a foreign site can resolve to this server's address (DNS rebinding). A browser then
 * takes the server for a part of that site. But Host has the site's name, so the server answers
 * names that are not listed only if no foreign site can own them.
 */
#ifndef LINNET_SERVER_AUTH_HOSTS_H
#define LINNET_SERVER_AUTH_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

/* The name in "name:port", "1.2.3.4", "[::1]:80", with no final dot. False: it is malformed. */
bool lx_host_name(const char *host, char *name, size_t size);
/* An address, or a name of no public zone: one without a dot, *.localhost, *.local, *.internal,
 *.svc (services of Kubernetes and compose). */
bool lx_host_is_local(const char *name);
/* The entry is the name, or "*.example.org" and the name below it, or "*". */
bool lx_host_matches(const char *entry, const char *name);
/* An entry that lx_host_matches can read. */
bool lx_host_entry_ok(const char *entry);
/* "https://name:1" is of the host "name:2". */
bool lx_host_of_origin(const char *origin, const char *host);

#endif
