/* Names of hosts (see hosts.h). */
#include "server/auth/hosts.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { MAX_NAME = 254 }; /* with its end */

static bool is_address(const char *name)
{
    struct in6_addr address;
    return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;
}

static bool is_port(const char *s)
{
    return *s == '\0' ||
           (*s == ':' && strlen(s) <= 6 && strspn(s + 1, "0123456789") == strlen(s + 1));
}

bool lx_host_name(const char *host, char *name, size_t size)
{
    bool bracket = host[0] == '[';
    host += bracket;
    size_t n = strcspn(host, bracket ? "]" : ":");
    const char *end = host + n;
    if (bracket && *end++ != ']')
        return false;
    if (!bracket && n > 1 && host[n - 1] == '.')
        n--;
    if (n == 0 || n >= size || !is_port(end))
        return false;
    memcpy(name, host, n);
    name[n] = '\0';
    if (bracket)
        return is_address(name);
    static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    return strspn(name, chars) == n;
}

bool lx_host_is_local(const char *name)
{
    static const char *const zones[] = {"localhost", "local", "internal", "svc"};
    const char *last = strrchr(name, '.');
    if (last == NULL || is_address(name))
        return true;
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++)
        if (strcasecmp(last + 1, zones[i]) == 0)
            return true;
    return false;
}

bool lx_host_matches(const char *entry, const char *name)
{
    if (strcmp(entry, "*") == 0)
        return true;
    if (entry[0] != '*')
        return strcasecmp(entry, name) == 0;
    size_t end = strlen(entry + 1), n = strlen(name);
    return n > end && strcasecmp(name + n - end, entry + 1) == 0;
}

bool lx_host_entry_ok(const char *entry)
{
    char name[MAX_NAME];
    if (strcmp(entry, "*") == 0)
        return true;
    if (strncmp(entry, "*.", 2) == 0)
        entry += 2;
    return strchr(entry, ':') == NULL && lx_host_name(entry, name, sizeof name);
}

bool lx_host_of_origin(const char *origin, const char *host)
{
    char of[MAX_NAME], to[MAX_NAME];
    const char *authority = strstr(origin, "://");
    return authority != NULL && lx_host_name(authority + 3, of, sizeof of) &&
           lx_host_name(host, to, sizeof to) && strcasecmp(of, to) == 0;
}
