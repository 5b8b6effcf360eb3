/*
 * The request log: one line per request. Of its content the line has method and path, and the body
 * only if the operator wants that. POST requests are logged at level info; pages, probes and
 * metrics at debug. Requests with a wrong key are logged at info, as a client may be trying keys.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/http/internal.h"

enum { SHOWN_BYTES = 4096 };

void lx_http_keep_body(lx_exchange *ex)
{
    if (!ex->http->options.log_bodies || ex->body.length == 0)
        return;
    size_t n = ex->body.length < SHOWN_BYTES ? ex->body.length : SHOWN_BYTES;
    ex->shown = strndup(ex->body.data, n);
}

static void name_address(const lx_exchange *ex, char *out, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(ex->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    out[0] = '\0';
    if (info == NULL || info->client_addr == NULL)
        return;
    socklen_t n = info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                           : sizeof(struct sockaddr_in);
    if (getnameinfo(info->client_addr, n, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}

void lx_http_log_request(const lx_exchange *ex, bool complete)
{
    bool important = strcmp(ex->method, "POST") == 0 || ex->status == 401;
    lx_log_level level = important ? LX_LOG_INFO : LX_LOG_DEBUG;
    double ms = (double)(lx_now_ns() - ex->start_ns) / (double)LX_NS_PER_MS;
    const char *who = ex->pass.who != NULL ? ex->pass.who : "";
    char address[64];
    name_address(ex, address, sizeof address);
    if (!lx_log_is_json()) { /* the members of the JSON line, in its order and with its names */
        lx_log(level, "%s %s %s %d %.1f ms%s address=%s%s%s%s%s%s%s", ex->id, ex->method, ex->path,
               ex->status, ms, complete ? "" : ", client left", address,
               ex->trace[0] != '\0' ? " trace_id=" : "", ex->trace, who[0] != '\0' ? " key=" : "",
               who, ex->shown != NULL ? " " : "", ex->shown != NULL ? ex->shown : "");
        return;
    }
    int n = 9;
    lx_log_field fields[12] = {
        {.name = "message", .text = "request"},
        {.name = "id", .text = ex->id},
        {.name = "method", .text = ex->method},
        {.name = "path", .text = ex->path},
        {.name = "status", .number = ex->status},
        {.name = "ms", .number = (double)(int64_t)(ms * 1000) / 1000},
        {.name = "body_bytes", .number = (double)ex->body_bytes},
        {.name = "address", .text = address},
        {.name = "outcome", .text = complete ? "complete" : "client left"},
    };
    if (ex->trace[0] != '\0')
        fields[n++] = (lx_log_field){.name = "trace_id", .text = ex->trace};
    if (who[0] != '\0')
        fields[n++] = (lx_log_field){.name = "key", .text = who};
    if (ex->shown != NULL)
        fields[n++] = (lx_log_field){.name = "body", .text = ex->shown};
    lx_log_fields(level, fields, n);
}
