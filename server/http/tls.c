/*
 * Certificate and key, which can be renewed while the server runs.
 *
 * The HTTP library reads a pair once, at its start, and gives it to every connection. So this file
 * gives each new connection the newest pair instead, before its handshake. Pairs are counted, so a
 * replaced pair is freed with the last connection that began under it.
 *
 * GnuTLS takes pairs with which every handshake fails, such as one with a short RSA key. So a pair
 * first serves a handshake in memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/buffer.h"
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

/* --- the trial of a pair --- */

/* More than any handshake has, of bytes one way and of turns. */
enum { MOST_BYTES = 1 << 22, MOST_TURNS = 64 };

/* One side of the handshake, and the bytes on their way to it. */
typedef struct side {
    gnutls_session_t session;
    struct side *other;
    lx_buffer bytes;
    size_t n_read;
    int rc;
} side;

static ssize_t push(gnutls_transport_ptr_t from, const void *data, size_t n)
{
    side *to = ((side *)from)->other;
    lx_buffer_append(&to->bytes, data, n);
    if (to->bytes.status == LX_OK)
        return (ssize_t)n;
    gnutls_transport_set_errno(((side *)from)->session, ENOMEM);
    return -1;
}

static ssize_t pull(gnutls_transport_ptr_t to, void *data, size_t most)
{
    side *s = to;
    size_t there = s->bytes.length - s->n_read, n = there < most ? there : most;
    if (n > 0) {
        memcpy(data, s->bytes.data + s->n_read, n);
        s->n_read += n;
        return (ssize_t)n;
    }
    gnutls_transport_set_errno(s->session, EAGAIN);
    return -1;
}

static int has_bytes(gnutls_transport_ptr_t to, unsigned ms)
{
    (void)ms;
    return ((const side *)to)->bytes.length > ((const side *)to)->n_read;
}

static int open_side(side *s, side *other, unsigned flags,
                     gnutls_certificate_credentials_t credentials)
{
    s->other = other;
    lx_buffer_init(&s->bytes, MOST_BYTES);
    int rc = gnutls_init(&s->session, flags | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (rc == 0)
        rc = gnutls_priority_set_direct(s->session, LX_TLS_VERSIONS, NULL);
    if (rc == 0)
        rc = gnutls_credentials_set(s->session, GNUTLS_CRD_CERTIFICATE, credentials);
    if (rc == 0) {
        gnutls_transport_set_ptr(s->session, s);
        gnutls_transport_set_push_function(s->session, push);
        gnutls_transport_set_pull_function(s->session, pull);
        gnutls_transport_set_pull_timeout_function(s->session, has_bytes);
    }
    return rc;
}

static void close_side(side *s)
{
    if (s->session != NULL)
        gnutls_deinit(s->session);
    lx_buffer_fini(&s->bytes);
}

static bool waits(const side *s)
{
    return s->rc != 0 && gnutls_error_is_fatal(s->rc) == 0;
}

/* A GnuTLS error of the server or of a client that accepts any name and any issuer; 0: none. */
static int shake_hands(const lx_tls_pair *pair, gnutls_certificate_credentials_t anonymous)
{
    side server = {.rc = GNUTLS_E_AGAIN}, client = {.rc = GNUTLS_E_AGAIN};
    int rc = open_side(&server, &client, GNUTLS_SERVER, pair->credentials);
    if (rc == 0)
        rc = open_side(&client, &server, GNUTLS_CLIENT, anonymous);
    for (int i = 0; rc == 0 && i < MOST_TURNS && (waits(&server) || waits(&client)); i++) {
        side *s = i % 2 == 0 ? &client : &server;
        s->rc = waits(s) ? gnutls_handshake(s->session) : s->rc;
        if (s->rc != 0 && !waits(s))
            rc = s->rc;
    }
    if (rc == 0)
        rc = server.rc != 0 ? server.rc : client.rc;
    close_side(&client);
    close_side(&server);
    return rc;
}

/* LX_ERR_INVALID if a client with both versions of TLS, as all are today, gets no connection. */
static lx_status try_pair(const lx_tls_pair *pair, lx_error *err)
{
    gnutls_certificate_credentials_t anonymous = NULL;
    int rc = gnutls_certificate_allocate_credentials(&anonymous);
    if (rc == 0)
        rc = shake_hands(pair, anonymous);
    if (anonymous != NULL)
        gnutls_certificate_free_credentials(anonymous);
    if (rc == 0)
        return LX_OK;
    if (rc == GNUTLS_E_MEMORY_ERROR)
        return lx_fail(err, LX_ERR_NO_MEMORY, "tls-cert", "no memory for a TLS handshake");
    return lx_fail(err, LX_ERR_INVALID, "tls-cert",
                   "--tls-cert and --tls-key: a TLS handshake with them fails: %s The key may be "
                   "too short, or the certificate may not allow signatures.",
                   gnutls_strerror(rc));
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
    lx_status st = try_pair(pair, err);
    if (st == LX_OK)
        *out = pair;
    else
        lx_http_tls_detach(pair);
    return st;
}

/* --- its time --- */

/* Unix times at which the pair's own certificate begins and ends; 0: it cannot be read. */
static void read_times(const lx_tls_pair *pair, int64_t *begin, int64_t *end)
{
    gnutls_datum_t raw = {0};
    gnutls_x509_crt_t certificate = NULL;
    *begin = *end = 0;
    if (gnutls_certificate_get_crt_raw(pair->credentials, 0, 0, &raw) != 0 ||
        gnutls_x509_crt_init(&certificate) != 0)
        return;
    if (gnutls_x509_crt_import(certificate, &raw, GNUTLS_X509_FMT_DER) == 0) {
        int64_t first = (int64_t)gnutls_x509_crt_get_activation_time(certificate);
        int64_t last = (int64_t)gnutls_x509_crt_get_expiration_time(certificate);
        *begin = first > 0 ? first : 0;
        *end = last > 0 ? last : 0;
    }
    gnutls_x509_crt_deinit(certificate);
}

/* Not refused: some clients do not look, and the clock of this machine may be wrong. */
static void warn_of_times(int64_t begin, int64_t end)
{
    int64_t now = (int64_t)time(NULL);
    bool ended = end > 0 && end < now;
    time_t when = (time_t)(ended ? end : begin);
    struct tm t;
    char text[32];
    if ((!ended && begin <= now) || gmtime_r(&when, &t) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t) == 0)
        return;
    lx_log(LX_LOG_WARN, "the certificate of --tls-cert %s at %s: clients refuse it",
           ended ? "ended" : "begins", text);
}

lx_status lx_http_check_tls(const char *certificate, const char *key, lx_error *err)
{
    lx_tls_pair *pair = NULL;
    int64_t begin = 0, end = 0;
    lx_status st = new_pair(certificate, key, &pair, err);
    if (st != LX_OK)
        return st;
    read_times(pair, &begin, &end);
    warn_of_times(begin, end);
    lx_http_tls_detach(pair);
    return LX_OK;
}

lx_status lx_http_renew_tls(lx_http *h, const char *certificate, const char *key, lx_error *err)
{
    lx_tls_pair *pair = NULL;
    int64_t begin = 0, end = 0;
    lx_status st = new_pair(certificate, key, &pair, err);
    if (st != LX_OK)
        return st;
    read_times(pair, &begin, &end);
    warn_of_times(begin, end);
    (void)pthread_mutex_lock(&h->tls_lock);
    lx_tls_pair *before = h->tls;
    h->tls = pair;
    atomic_store(&h->certificate_ends, end);
    (void)pthread_mutex_unlock(&h->tls_lock);
    lx_http_tls_detach(before);
    return LX_OK;
}

/* --- connections --- */

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
