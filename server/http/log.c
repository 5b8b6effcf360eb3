/*
 * The request log: one line per request. Of its content the line has method and path, and the body
 * only if the operator wants that. POST requests are logged at level info; pages, probes and
 * metrics at debug. Requests with a wrong key are logged at info, as a client may be trying keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/http/internal.h"

enum { SHOWN_BYTES = 4096, MOST_FACTS = 5 };

void lx_http_keep_body(lx_exchange *ex)
{
    if (!ex->http->options.log_bodies || ex->body.length == 0)
        return;
    size_t n = ex->body.length < SHOWN_BYTES ? ex->body.length : SHOWN_BYTES;
    ex->shown = strndup(ex->body.data, n);
}

void lx_facts_set_model(lx_request_facts *f, const char *model)
{
    if (f == NULL || atomic_load(&f->has_model))
        return;
    (void)snprintf(f->model, sizeof f->model, "%s", model);
    atomic_store(&f->has_model, true);
}

void lx_facts_add(lx_request_facts *f, int64_t prompt_tokens, int64_t cached_tokens, int64_t tokens,
                  int64_t first_token_us)
{
    if (f == NULL)
        return;
    int64_t first = atomic_load(&f->first_token_us);
    atomic_fetch_add(&f->prompt_tokens, prompt_tokens);
    atomic_fetch_add(&f->cached_tokens, cached_tokens);
    atomic_fetch_add(&f->tokens, tokens);
    if (first_token_us > 0 && (first == 0 || first_token_us < first))
        atomic_store(&f->first_token_us, first_token_us);
    atomic_store(&f->has_tokens, true);
}

/* The members that both formats have, in their order; the names are those of the API's answers. */
static int list_facts(const lx_exchange *ex, lx_log_field *fields)
{
    const lx_request_facts *f = &ex->facts;
    int n = 0;
    if (atomic_load(&f->has_model))
        fields[n++] = (lx_log_field){.name = "model", .text = f->model};
    if (!atomic_load(&f->has_tokens))
        return n;
    fields[n++] =
        (lx_log_field){.name = "prompt_tokens", .number = (double)atomic_load(&f->prompt_tokens)};
    fields[n++] =
        (lx_log_field){.name = "cached_tokens", .number = (double)atomic_load(&f->cached_tokens)};
    fields[n++] =
        (lx_log_field){.name = "completion_tokens", .number = (double)atomic_load(&f->tokens)};
    if (atomic_load(&f->first_token_us) > 0)
        fields[n++] = (lx_log_field){.name = "ttft_ms",
                                     .number = (double)atomic_load(&f->first_token_us) / 1000};
    return n;
}

/* " NAME=VALUE" for each. */
static void write_facts(const lx_log_field *fields, int n, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)(fields[i].text != NULL ? snprintf(out + used, size - used, " %s=%s",
                                                           fields[i].name, fields[i].text)
                                                : snprintf(out + used, size - used, " %s=%.15g",
                                                           fields[i].name, fields[i].number));
}

void lx_http_log_request(const lx_exchange *ex, bool complete)
{
    bool important = strcmp(ex->method, "POST") == 0 || ex->status == 401;
    lx_log_level level = important ? LX_LOG_INFO : LX_LOG_DEBUG;
    double ms = (double)(lx_now_ns() - ex->start_ns) / (double)LX_NS_PER_MS;
    const char *who = ex->pass.who != NULL ? ex->pass.who : "";
    char address[64], written[192];
    lx_log_field facts[MOST_FACTS];
    int n_facts = list_facts(ex, facts);
    lx_address_write(&ex->client, address, sizeof address);
    if (!lx_log_is_json()) { /* the members of the JSON line, in its order and with its names */
        write_facts(facts, n_facts, written, sizeof written);
        lx_log(level, "%s %s %s %d %.1f ms%s address=%s%s%s%s%s%s%s%s", ex->id, ex->method,
               ex->path, ex->status, ms, complete ? "" : ", client left", address,
               ex->trace[0] != '\0' ? " trace_id=" : "", ex->trace, who[0] != '\0' ? " key=" : "",
               who, written, ex->shown != NULL ? " " : "", ex->shown != NULL ? ex->shown : "");
        return;
    }
    int n = 9;
    lx_log_field fields[12 + MOST_FACTS] = {
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
    for (int i = 0; i < n_facts; i++)
        fields[n++] = facts[i];
    if (ex->shown != NULL)
        fields[n++] = (lx_log_field){.name = "body", .text = ex->shown};
    lx_log_fields(level, fields, n);
}
