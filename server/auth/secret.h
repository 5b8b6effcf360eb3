/* Files that hold secrets. Thread: any. */
#ifndef LINNET_SERVER_AUTH_SECRET_H
#define LINNET_SERVER_AUTH_SECRET_H

#include <stddef.h>

#include "common/status.h"

/* Reads a whole text file of at most max bytes. The caller frees the string, and wipes it before if
   it is secret (explicit_bzero). `param` is the flag that named the file. */
lx_status lx_secret_read_file(const char *path, size_t max, const char *param, char **out,
                              lx_error *err) LX_MUST_USE;

#endif
