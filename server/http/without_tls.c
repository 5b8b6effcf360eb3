/* In place of tls.c where LINNET_TLS is off: the server does not start with a certificate. */
#include "common/features.h"
#include "server/http/internal.h"

lx_status lx_http_check_tls(const char *certificate, const char *key, lx_error *err)
{
    return lx_http_renew_tls(NULL, certificate, key, err);
}

lx_status lx_http_renew_tls(lx_http *h, const char *certificate, const char *key, lx_error *err)
{
    (void)h;
    (void)certificate;
    (void)key;
    return lx_fail(err, LX_ERR_INVALID, "tls-cert", "--tls-cert: " LX_WITHOUT("TLS", "LINNET_TLS"));
}

lx_tls_pair *lx_http_tls_attach(lx_http *h, struct MHD_Connection *connection)
{
    (void)h;
    (void)connection;
    return NULL;
}

void lx_http_tls_detach(lx_tls_pair *pair)
{
    (void)pair;
}

void lx_http_tls_free(lx_http *h)
{
    (void)pthread_mutex_destroy(&h->tls_lock);
}

bool lx_http_tls_find_recv(void)
{
    return true;
}
