/*
 * A request's head: "METHOD VERSION", then a header a line, as the HTTP library hands them over. A
 * head that passes says in one way only where its body ends.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/headers.h"
#include "tests/fuzz/subject.h"

enum { MAX_BODY = 65536 };

/* The header fields, counted once more in the simplest way. */
typedef struct seen {
    int n_lengths, n_encodings, n_hosts, n_lines;
    bool odd; /* a name that is no word, or a control character */
} seen;

static void see(seen *s, const char *name, const char *value)
{
    s->n_lines++;
    s->n_lengths += strcasecmp(name, "content-length") == 0;
    s->n_encodings += strcasecmp(name, "transfer-encoding") == 0;
    s->n_hosts += strcasecmp(name, "host") == 0;
    s->odd = s->odd || name[0] == '\0' || strpbrk(name, " \t\r\v\f\"(),/:;<=>?@[\\]{}") != NULL ||
             strpbrk(value, "\r\v\f\x01\x7f") != NULL;
}

static void check_accepted(const lx_header_check *c, const seen *s, const char *version)
{
    MUST(!s->odd && s->n_lines <= LX_MAX_REQUEST_HEADERS);
    MUST(s->n_lengths + s->n_encodings <= 1);
    MUST(c->has_length == (s->n_lengths == 1) && c->chunked == (s->n_encodings == 1));
    MUST(c->length <= MAX_BODY);
    MUST(s->n_hosts == 1 || (s->n_hosts == 0 && strcmp(version, "HTTP/1.0") == 0));
}

static void check_refused(const lx_header_check *c, int status)
{
    MUST(status == 400 || status == 413 || status == 415 || status == 431 || status == 505);
    MUST(c->error.text[0] != '\0' && strchr(c->error.text, '\n') == NULL);
    MUST(c->error.param[0] != '\0');
}

static void check_head(char *head)
{
    char *rest = head, *line = strsep(&rest, "\n");
    char *version = strchr(line, ' ');
    if (version == NULL)
        return;
    *version++ = '\0';
    lx_header_check c;
    seen s = {0};
    lx_header_check_begin(&c, line, version);
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *value = strchr(line, ':');
        if (value == NULL)
            continue;
        *value++ = '\0';
        value += strspn(value, " ");
        see(&s, line, value);
        lx_header_check_add(&c, line, strlen(line), value, strlen(value));
    }
    int status = lx_header_check_end(&c, (lx_body_limit){MAX_BODY, "max-body"});
    if (status == 0)
        check_accepted(&c, &s, version);
    else
        check_refused(&c, status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = calloc(n + 1, 1);
    MUST(text != NULL);
    if (n > 0)
        memcpy(text, data, n);
    bool ok = lx_request_id_ok(text); /* also a request id */
    MUST(!ok || (strlen(text) <= 64 && strpbrk(text, "\r\n\t \"<>&'") == NULL));
    check_head(text);
    free(text);
    return 0;
}
