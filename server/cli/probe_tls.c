/*
 * A probe's TLS (see probe.h). GnuTLS reads and writes the socket itself and names the
 * event that it waits for, so every wait is the probe's own, with its deadline.
 */
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdlib.h>

#include "server/cli/probe.h"

struct lx_probe_tls {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials; /* none: neither side is asked who it is */
};

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
    return LX_OK;
}

ssize_t lx_probe_tls_move(lx_probe_link *link, lx_probe_way way, char *data, size_t n,
                          short *events, lx_error *err)
{
    gnutls_session_t session = link->tls->session;
    ssize_t rc = way == LX_PROBE_SHAKE  ? gnutls_handshake(session)
                 : way == LX_PROBE_SEND ? gnutls_record_send(session, data, n)
                                        : gnutls_record_recv(session, data, n);
    if (rc >= 0)
        return rc;
    if (gnutls_error_is_fatal((int)rc) != 0)
        (void)lx_fail(err, LX_ERR_IO, NULL, "TLS: %s", gnutls_strerror((int)rc));
    else
        *events = gnutls_record_get_direction(session) == 1 ? POLLOUT : POLLIN;
    return -1;
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
