/*
 * Files and memory that hold secrets. Hashes: digest.h.
 *
 * Thread: any.
 */
#ifndef LINNET_SERVER_AUTH_SECRET_H
#define LINNET_SERVER_AUTH_SECRET_H

#include <stddef.h>

#include "common/status.h"

/* Overwrites memory that held a secret; never optimised away. */
void lx_secret_wipe(void *data, size_t n);

/* A whole text file of at most max bytes, as a string to be freed by the caller (wiped before, if
   it is secret). `param` is the flag that named the file. */
lx_status lx_secret_read_file(const char *path, size_t max, const char *param, char **out,
                              lx_error *err) LX_MUST_USE;

#endif
