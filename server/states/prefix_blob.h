/*
 * A kept state of a prompt as bytes, without the pages that its base has (prefix_place.h). The blob
 * has the maker and the rows of its name, and a CRC-32C finds damage. A reader gets the state of
 * exactly its name, or none.
 */
#ifndef LINNET_SERVER_STATES_PREFIX_BLOB_H
#define LINNET_SERVER_STATES_PREFIX_BLOB_H

#include "server/engine/prefix_place.h"

size_t lx_prefix_blob_bytes(const lx_prefix_name *name, size_t n_floats);
/* Where the state begins in the blob. */
size_t lx_prefix_blob_head(const lx_prefix_name *name);
/* Fills the bytes around a state that lies in the blob, which has lx_prefix_blob_bytes. */
void lx_prefix_blob_fill(const lx_prefix_name *name, int32_t base, size_t n_floats,
                         unsigned char *blob);
/* Copies the blob's part of a state that begins with the name's rows to where it lies in the whole
   state: the pages before page `end`. At -1 it is the state itself, and all of the blob is copied.
   LX_ERR_FORMAT: the blob is not that of the name. */
lx_status lx_prefix_blob_read(const lx_prefix_name *name, const lx_prefix_sizes *sizes, int32_t end,
                              const unsigned char *blob, size_t n, float *to, int32_t *base,
                              lx_error *err) LX_MUST_USE;

#endif
