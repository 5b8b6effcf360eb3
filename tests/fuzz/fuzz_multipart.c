/*
 * Forms: the first line is the content type, the rest the body. The parts of an accepted form lie
 * in the body in order, and a sound's fields are within their limits.
 */
#include <stdlib.h>
#include <string.h>

#include "model/ctc.h"
#include "server/json/answers.h"
#include "server/json/forms.h"
#include "tests/fuzz/subject.h"

static void check_parts(const lx_multipart *m, const char *body, size_t n)
{
    const char *at = body;
    MUST(m->n >= 0 && m->n <= LX_MAX_PARTS);
    for (int32_t i = 0; i < m->n; i++) {
        const lx_part *p = &m->parts[i];
        size_t n_name = strnlen(p->name, sizeof p->name);
        MUST(n_name >= 1 && n_name <= LX_MAX_PART_NAME);
        MUST(p->data >= at && p->bytes <= n && p->data + p->bytes <= body + n);
        at = p->data + p->bytes;
    }
}

/* The request that a route makes of the form. */
static void check_request(const char *type, const char *body, size_t n)
{
    lx_transcription_params p;
    lx_error err = {0};
    lx_status st = lx_form_read_transcription(type, body, n, &p, &err);
    if (st == LX_ERR_NOT_FOUND) /* a name that no model has */
        return;
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return;
    }
    const char *file = (const char *)p.file.data;
    MUST(file >= body && p.file.bytes <= n && file + p.file.bytes <= body + n);
    MUST(p.file.owned == NULL && p.beam >= 0 && p.beam <= LX_CTC_MAX_WIDTH);
    MUST(strnlen(p.model, sizeof p.model) < sizeof p.model);
    MUST(strnlen(p.language, sizeof p.language) < sizeof p.language);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n > 0 ? memchr(data, '\n', n) : NULL;
    if (end == NULL)
        return 0;
    size_t n_type = (size_t)(end - data), n_body = n - n_type - 1;
    char *type = calloc(n_type + 1, 1), *body = malloc(n_body > 0 ? n_body : 1); /* exact sizes */
    lx_multipart m;
    lx_error err = {0};
    MUST(type != NULL && body != NULL);
    memcpy(type, data, n_type);
    memcpy(body, end + 1, n_body);
    lx_status st = lx_multipart_parse(type, body, n_body, &m, &err);
    if (st == LX_OK)
        check_parts(&m, body, n_body);
    else
        subject_check_error(st, &err);
    check_request(type, body, n_body);
    free(type);
    free(body);
    return 0;
}
