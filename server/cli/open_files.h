/* How many connections the limit of open files (ulimit -n, LimitNOFILE=) leaves. */
#ifndef LINNET_SERVER_CLI_OPEN_FILES_H
#define LINNET_SERVER_CLI_OPEN_FILES_H

#include <stdint.h>

#include "common/status.h"

/* Raises the limit as far as allowed. *out: `wanted` connections, or as many as it leaves beside
   what is open already, n_threads HTTP threads and the server's other files. LX_ERR_INVALID where
   it leaves none, with what would do. */
lx_status lx_open_files_connections(int64_t wanted, int32_t n_threads, int32_t *out,
                                    lx_error *err) LX_MUST_USE;

#endif
