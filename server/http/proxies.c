/* The address of the client that a request comes from (see proxies.h). */
#include "server/http/proxies.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MAX_NETWORKS = 64, MAX_ENTRY = 64, ADDRESS_BYTES = 16, V4_BITS = 32, V6_BITS = 128 };

static const uint8_t MAPPED[12] = {[10] = 0xff, [11] = 0xff}; /* IPv4 in IPv6, RFC 4291 */

/* The first n_bits of an address of IPv6, or of one of IPv4 that is mapped into it. */
typedef struct network {
    uint8_t bytes[ADDRESS_BYTES];
    int n_bits;
} network;

struct lx_proxies {
    network list[MAX_NETWORKS];
    int n;
};

/* --- addresses --- */

void lx_address_set(lx_address *a, const struct sockaddr *from)
{
    memset(a, 0, sizeof *a);
    if (from == NULL)
        return;
    if (from->sa_family == AF_INET)
        memcpy(&a->v4, from, sizeof a->v4);
    else if (from->sa_family == AF_INET6)
        memcpy(&a->v6, from, sizeof a->v6);
}

const struct sockaddr *lx_address_of(const lx_address *a)
{
    return a->any.sa_family != 0 ? &a->any : NULL;
}

void lx_address_write(const lx_address *a, char *out, size_t size)
{
    socklen_t n = a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
    out[0] = '\0';
    if (a->any.sa_family != 0 &&
        getnameinfo(&a->any, n, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}

static void map(const lx_address *a, uint8_t bytes[ADDRESS_BYTES])
{
    if (a->any.sa_family == AF_INET6) {
        memcpy(bytes, &a->v6.sin6_addr, ADDRESS_BYTES);
        return;
    }
    memcpy(bytes, MAPPED, sizeof MAPPED);
    memcpy(bytes + sizeof MAPPED, &a->v4.sin_addr, sizeof a->v4.sin_addr);
}

static bool read_address(const char *text, lx_address *out)
{
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1)
        out->any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1)
        out->any.sa_family = AF_INET6;
    return out->any.sa_family != 0;
}

/* An entry of X-Forwarded-For: an address, which some proxies write with a port, "1.2.3.4:5" or
   "[::1]:5". */
static bool read_entry(const char *text, size_t n, lx_address *out)
{
    char entry[MAX_ENTRY];
    if (n == 0 || n >= sizeof entry)
        return false;
    memcpy(entry, text, n);
    entry[n] = '\0';
    if (entry[0] == '[') {
        char *end = strchr(entry, ']');
        if (end == NULL)
            return false;
        *end = '\0';
        return read_address(entry + 1, out);
    }
    char *colon = strchr(entry, ':');
    if (colon != NULL && strchr(colon + 1, ':') == NULL)
        *colon = '\0';
    return read_address(entry, out);
}

/* --- the list of proxies --- */

/* "10.0.0.0/8" or an address. */
static bool read_network(char *text, network *out)
{
    char *slash = strchr(text, '/'), *end = NULL;
    lx_address a;
    if (slash != NULL)
        *slash = '\0';
    if (!read_address(text, &a))
        return false;
    int most = a.any.sa_family == AF_INET ? V4_BITS : V6_BITS;
    long bits = slash != NULL ? strtol(slash + 1, &end, 10) : most;
    if (slash != NULL && (slash[1] < '0' || slash[1] > '9' || *end != '\0' || bits > most))
        return false;
    map(&a, out->bytes);
    out->n_bits = (int)bits + V6_BITS - most;
    return true;
}

static lx_status read_list(char *text, lx_proxies *p, lx_error *err)
{
    char *rest = NULL, entry[MAX_ENTRY];
    for (char *at = strtok_r(text, ", ", &rest); at != NULL; at = strtok_r(NULL, ", ", &rest)) {
        if (p->n == MAX_NETWORKS)
            return lx_fail(err, LX_ERR_INVALID, "trusted-proxies",
                           "--trusted-proxies has more than %d entries", MAX_NETWORKS);
        size_t n = strlen(at) < sizeof entry ? strlen(at) : sizeof entry - 1;
        memcpy(entry, at, n);
        entry[n] = '\0';
        if (!read_network(at, &p->list[p->n++]))
            return lx_fail(
                err, LX_ERR_INVALID, "trusted-proxies",
                "--trusted-proxies: \"%s\" is neither an address nor a network (10.0.0.0/8)",
                entry);
    }
    return LX_OK;
}

lx_status lx_proxies_new(const char *list, lx_proxies **out, lx_error *err)
{
    *out = NULL;
    if (list == NULL || list[strspn(list, ", ")] == '\0')
        return LX_OK;
    lx_proxies *p = calloc(1, sizeof *p);
    char *text = strdup(list);
    lx_status st = p != NULL && text != NULL
                       ? read_list(text, p, err)
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the list of proxies");
    free(text);
    if (st == LX_OK)
        *out = p;
    else
        free(p);
    return st;
}

void lx_proxies_free(lx_proxies *p)
{
    free(p);
}

static bool holds(const network *w, const uint8_t bytes[ADDRESS_BYTES])
{
    int whole = w->n_bits / 8, rest = w->n_bits % 8;
    if (memcmp(w->bytes, bytes, (size_t)whole) != 0)
        return false;
    return rest == 0 || (w->bytes[whole] ^ bytes[whole]) >> (8 - rest) == 0;
}

bool lx_proxies_trust(const lx_proxies *p, const lx_address *a)
{
    uint8_t bytes[ADDRESS_BYTES];
    if (a->any.sa_family == 0)
        return false;
    map(a, bytes);
    for (int i = 0; i < p->n; i++)
        if (holds(&p->list[i], bytes))
            return true;
    return false;
}

/* --- the header --- */

void lx_forwarded_add(lx_forwarded *f, const char *value)
{
    if (f->n == LX_MAX_FORWARDED)
        memmove(f->values, f->values + 1, (LX_MAX_FORWARDED - 1) * sizeof *f->values);
    else
        f->n++;
    f->values[f->n - 1] = value;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

/* Takes the last entry of text[0 .. *n), which becomes shorter. NULL: there is none. */
static const char *take_last(const char *text, size_t *n, size_t *entry_bytes)
{
    while (*n > 0 && is_blank(text[*n - 1]))
        --*n;
    size_t end = *n;
    while (*n > 0 && text[*n - 1] != ',')
        --*n;
    size_t begin = *n;
    while (begin < end && is_blank(text[begin]))
        begin++;
    *entry_bytes = end - begin;
    return end > begin ? text + begin : NULL;
}

void lx_proxies_find_client(const lx_proxies *p, const lx_forwarded *f, lx_address *client)
{
    for (int i = f->n - 1; i >= 0; i--) {
        size_t n = strlen(f->values[i]), bytes = 0;
        const char *entry = NULL;
        while ((entry = take_last(f->values[i], &n, &bytes)) != NULL) {
            lx_address next;
            if (!read_entry(entry, bytes, &next))
                return;
            *client = next;
            if (!lx_proxies_trust(p, client))
                return;
        }
    }
}
