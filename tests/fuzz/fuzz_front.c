/*
 * A client's bytes, as a whole and in pieces. Both give the same result. A request that passes has
 * CR LF at the end of every line and no control character, and a second pass changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "server/http/front.h"
#include "tests/fuzz/subject.h"

enum { MAX_BODY = 4096, ROOM = 1 << 18 };

static bool takes_uploads(const char *method, const char *path)
{
    return strcmp(method, "POST") == 0 && strcmp(path, "/") == 0;
}

static const lx_body_limits limits = {.body = {MAX_BODY, "max-body"},
                                      .upload = {2 * MAX_BODY, "max-upload"},
                                      .takes_uploads = takes_uploads};

static size_t run(lx_front *f, const char *in, size_t n, size_t piece, char *out)
{
    size_t got = 0, more = 0;
    lx_front_init(f, &limits);
    for (size_t at = 0; at < n; at += piece) {
        MUST(lx_front_add(f, in + at, n - at < piece ? n - at : piece));
        while ((more = lx_front_take(f, out + got, ROOM - got)) > 0)
            got += more;
        MUST(f->in.length <= LX_HTTP_HEAD_BYTES + LX_FRONT_BLOCK);
    }
    return got;
}

static void check_fault(const lx_front *f)
{
    lx_error err = {0};
    int fault = lx_front_fault(f, f->n_requests - 1, &err);
    MUST(fault == 0 || fault == 400 || fault == 413 || fault == 414 || fault == 431 ||
         fault == 505);
    MUST((fault != 0) == (f->state == LX_FRONT_REFUSED));
    MUST(fault == 0 || (err.text[0] != '\0' && err.param[0] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0 || n > 65536)
        return 0;
    char *text = malloc(n), *whole = malloc(ROOM), *cut = malloc(ROOM), *again = malloc(ROOM);
    MUST(text != NULL && whole != NULL && cut != NULL && again != NULL);
    memcpy(text, data, n);
    lx_front a, b, c;
    size_t got = run(&a, text, n, LX_FRONT_BLOCK, whole);
    size_t got_cut = run(&b, text, n, 1 + data[0] % 7, cut);
    check_fault(&a);
    check_fault(&b);
    MUST(a.fault == b.fault && a.n_requests == b.n_requests);
    MUST(got == got_cut && memcmp(whole, cut, got) == 0);
    size_t got_again = run(&c, whole, got, LX_FRONT_BLOCK, again);
    MUST(c.fault == 0 && c.n_requests == a.n_requests);
    MUST(got_again == got && memcmp(again, whole, got) == 0);
    lx_front_fini(&a);
    lx_front_fini(&b);
    lx_front_fini(&c);
    free(text);
    free(whole);
    free(cut);
    free(again);
    return 0;
}
