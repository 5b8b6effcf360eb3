/*
 * Hashes of messages: GnuTLS computes them (digest.c), and in a build without TLS our own code
 * (sha256.c). Thread: any.
 */
#ifndef LINNET_SERVER_AUTH_DIGEST_H
#define LINNET_SERVER_AUTH_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { LX_SHA256_BYTES = 32 };

lx_status lx_sha256(const void *bytes, size_t n, unsigned char out[LX_SHA256_BYTES],
                    lx_error *err) LX_MUST_USE;
/* HMAC-SHA-256 (RFC 2104); key_bytes >= 1. */
lx_status lx_hmac_sha256(const void *key, size_t key_bytes, const void *bytes, size_t n,
                         unsigned char out[LX_SHA256_BYTES], lx_error *err) LX_MUST_USE;
/* Whether n bytes are equal, in a time that does not depend on where they differ. */
bool lx_equal_in_constant_time(const void *a, const void *b, size_t n);

#endif
