/* By GnuTLS. A build without TLS has sha256.c in place of this file. */
#include "server/auth/digest.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

lx_status lx_sha256(const void *bytes, size_t n, unsigned char out[LX_SHA256_BYTES], lx_error *err)
{
    int code = gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, n, out);
    if (code != 0)
        return lx_fail(err, LX_ERR_INTERNAL, NULL, "SHA-256: %s", gnutls_strerror(code));
    return LX_OK;
}

lx_status lx_hmac_sha256(const void *key, size_t key_bytes, const void *bytes, size_t n,
                         unsigned char out[LX_SHA256_BYTES], lx_error *err)
{
    int code = gnutls_hmac_fast(GNUTLS_MAC_SHA256, key, key_bytes, bytes, n, out);
    if (code != 0)
        return lx_fail(err, LX_ERR_INTERNAL, NULL, "HMAC-SHA-256: %s", gnutls_strerror(code));
    return LX_OK;
}

bool lx_equal_in_constant_time(const void *a, const void *b, size_t n)
{
    return gnutls_memcmp(a, b, n) == 0;
}
