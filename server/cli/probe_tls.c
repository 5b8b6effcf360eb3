/*
 * A probe's TLS (see probe_internal.h). The library reads and writes the socket itself and says
 * which of the two it waits for, so that every wait is still the probe's own, with its deadline.
 */
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdlib.h>

#include "server/cli/probe_internal.h"

struct lx_probe_tls {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials; /* none: neither side is asked who it is */
};

/* After an operation that ended with rc < 0: LX_OK when it is to be tried again, now. */
static lx_status try_again(const lx_probe_link *link, ssize_t rc, lx_error *err)
{
    if (gnutls_error_is_fatal((int)rc) != 0)
        return lx_fail(err, LX_ERR_IO, NULL, "TLS: %s", gnutls_strerror((int)rc));
    bool writes = gnutls_record_get_direction(link->tls->session) == 1;
    return lx_probe_wait(link, writes ? POLLOUT : POLLIN, err);
}

static int set_up(lx_probe_tls *tls, int fd)
{
    int rc = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (rc == 0)
        rc = gnutls_init(&tls->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (rc == 0)
        rc = gnutls_set_default_priority(tls->session);
    if (rc == 0)
        rc = gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    if (rc == 0)
        gnutls_transport_set_int(tls->session, fd);
    return rc;
}

lx_status lx_probe_tls_open(lx_probe_link *link, lx_error *err)
{
    link->tls = calloc(1, sizeof *link->tls);
    if (link->tls == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for TLS");
    int rc = set_up(link->tls, link->fd);
    if (rc != 0)
        return lx_fail(err, LX_ERR_IO, NULL, "TLS: %s", gnutls_strerror(rc));
    while ((rc = gnutls_handshake(link->tls->session)) < 0) {
        lx_status st = try_again(link, rc, err);
        if (st != LX_OK)
            return st;
    }
    return LX_OK;
}

lx_status lx_probe_tls_send(lx_probe_link *link, const char *text, size_t n, size_t *sent,
                            lx_error *err)
{
    ssize_t done = 0;
    while ((done = gnutls_record_send(link->tls->session, text, n)) < 0) {
        lx_status st = try_again(link, done, err);
        if (st != LX_OK)
            return st;
    }
    *sent = (size_t)done;
    return LX_OK;
}

lx_status lx_probe_tls_receive(lx_probe_link *link, char *room, size_t n, size_t *got,
                               lx_error *err)
{
    ssize_t done = 0;
    while ((done = gnutls_record_recv(link->tls->session, room, n)) < 0) {
        lx_status st = try_again(link, done, err);
        if (st != LX_OK)
            return st;
    }
    *got = (size_t)done;
    return LX_OK;
}

void lx_probe_tls_close(lx_probe_link *link)
{
    if (link->tls == NULL)
        return;
    if (link->tls->session != NULL)
        gnutls_deinit(link->tls->session);
    if (link->tls->credentials != NULL)
        gnutls_certificate_free_credentials(link->tls->credentials);
    free(link->tls);
    link->tls = NULL;
}
