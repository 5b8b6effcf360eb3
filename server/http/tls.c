/*
 * Certificate and key, which can be renewed while the server runs.
 *
 * The HTTP library reads a pair once, at its start, and gives it to every connection. So this file
 * gives each new connection the newest pair instead, before its handshake. Pairs are counted, so a
 * replaced pair is freed with the last connection that began under it.
 */
#include <dlfcn.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "server/http/internal.h"

struct lx_tls_pair {
    gnutls_certificate_credentials_t credentials;
    _Atomic int32_t refs;
};

static gnutls_datum_t datum(const char *text)
{
    union {
        const char *in;
        unsigned char *out; /* the library takes but does not change it */
    } p = {.in = text};
    return (gnutls_datum_t){.data = p.out, .size = (unsigned)strlen(text)};
}

void lx_http_tls_detach(lx_tls_pair *pair)
{
    if (pair == NULL || atomic_fetch_sub(&pair->refs, 1) != 1)
        return;
    gnutls_certificate_free_credentials(pair->credentials);
    free(pair);
}

static lx_status new_pair(const char *certificate, const char *key, lx_tls_pair **out,
                          lx_error *err)
{
    lx_tls_pair *pair = calloc(1, sizeof *pair);
    if (pair == NULL || gnutls_certificate_allocate_credentials(&pair->credentials) != 0) {
        free(pair);
        return lx_fail(err, LX_ERR_NO_MEMORY, "tls-cert", "no memory for a certificate");
    }
    atomic_init(&pair->refs, 1);
    gnutls_datum_t cert_text = datum(certificate), key_text = datum(key);
    int rc = gnutls_certificate_set_x509_key_mem(pair->credentials, &cert_text, &key_text,
                                                 GNUTLS_X509_FMT_PEM);
    if (rc < 0) {
        lx_http_tls_detach(pair);
        return lx_fail(err, LX_ERR_INVALID, "tls-cert",
                       "--tls-cert and --tls-key are not a certificate and its key: %s",
                       gnutls_strerror(rc));
    }
    *out = pair;
    return LX_OK;
}

/* Unix time at which the pair's own certificate ends; 0: it cannot be read. */
static int64_t end_of(const lx_tls_pair *pair)
{
    gnutls_datum_t raw = {0};
    gnutls_x509_crt_t certificate = NULL;
    int64_t end = 0;
    if (gnutls_certificate_get_crt_raw(pair->credentials, 0, 0, &raw) != 0 ||
        gnutls_x509_crt_init(&certificate) != 0)
        return 0;
    if (gnutls_x509_crt_import(certificate, &raw, GNUTLS_X509_FMT_DER) == 0)
        end = (int64_t)gnutls_x509_crt_get_expiration_time(certificate);
    gnutls_x509_crt_deinit(certificate);
    return end > 0 ? end : 0;
}

lx_status lx_http_check_tls(const char *certificate, const char *key, lx_error *err)
{
    lx_tls_pair *pair = NULL;
    lx_status st = new_pair(certificate, key, &pair, err);
    lx_http_tls_detach(pair);
    return st;
}

lx_status lx_http_renew_tls(lx_http *h, const char *certificate, const char *key, lx_error *err)
{
    lx_tls_pair *pair = NULL;
    lx_status st = new_pair(certificate, key, &pair, err);
    if (st != LX_OK)
        return st;
    (void)pthread_mutex_lock(&h->tls_lock);
    lx_tls_pair *before = h->tls;
    h->tls = pair;
    atomic_store(&h->certificate_ends, end_of(pair));
    (void)pthread_mutex_unlock(&h->tls_lock);
    lx_http_tls_detach(before);
    return LX_OK;
}

lx_tls_pair *lx_http_tls_attach(lx_http *h, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info == NULL || info->tls_session == NULL)
        return NULL;
    (void)pthread_mutex_lock(&h->tls_lock);
    lx_tls_pair *pair = h->tls;
    if (pair != NULL)
        atomic_fetch_add(&pair->refs, 1);
    (void)pthread_mutex_unlock(&h->tls_lock);
    int rc = pair != NULL ? gnutls_credentials_set(info->tls_session, GNUTLS_CRD_CERTIFICATE,
                                                   pair->credentials)
                          : 0;
    if (rc == 0)
        return pair;
    lx_log(LX_LOG_WARN, "a connection gets the first certificate: %s", gnutls_strerror(rc));
    lx_http_tls_detach(pair);
    return NULL;
}

void lx_http_tls_free(lx_http *h)
{
    lx_http_tls_detach(h->tls);
    (void)pthread_mutex_destroy(&h->tls_lock);
}

/* --- the library's reads (see recv.c) --- */

typedef ssize_t (*recv_function)(gnutls_session_t session, void *data, size_t size);

static recv_function real_recv;

bool lx_http_tls_find_recv(void)
{
    *(void **)&real_recv = dlsym(RTLD_NEXT, "gnutls_record_recv");
    return real_recv != NULL;
}

static ssize_t read_record(const void *from, char *to, size_t max)
{
    return real_recv(*(const gnutls_session_t *)from, to, max);
}

/* Called by the library for its connections, and by `linnet health` for its own. */
ssize_t gnutls_record_recv(gnutls_session_t session, void *data, size_t size)
{
    lx_front *f = lx_recv_front(gnutls_transport_get_int(session));
    if (real_recv == NULL && !lx_http_tls_find_recv())
        return GNUTLS_E_INTERNAL_ERROR;
    if (f == NULL)
        return real_recv(session, data, size);
    const lx_recv_source source = {&session, read_record, GNUTLS_E_AGAIN, GNUTLS_E_MEMORY_ERROR};
    return lx_recv_through(f, &source, data, size);
}
