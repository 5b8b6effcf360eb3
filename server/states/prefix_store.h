/*
 * Kept states of prompts in a file of their own, next to the file of states: an SQLite database of
 * the same form (sqlite.h), with its own limit of bytes. It implements
 * server/engine/prefix_place.h.
 */
#ifndef LINNET_SERVER_STATES_PREFIX_STORE_H
#define LINNET_SERVER_STATES_PREFIX_STORE_H

#include "server/engine/prefix_place.h"
#include "server/states/store.h"

/* The file's name by that of the file of states: "states.db" has "states-prefixes.db" next to it.
   The caller frees it; NULL without memory. */
char *lx_prefix_store_path(const char *state_store);

/* Removes the file. LX_OK also if it is not there. LX_ERR_IO: another process has it, or it is no
   file of states. */
lx_status lx_prefix_store_remove(const char *path, bool *removed, lx_error *err) LX_MUST_USE;

/* Opens the file, and makes it if it is not there. A file that cannot be used is logged once. Then
   the place finds nothing and does not work. LX_ERR_NO_MEMORY. */
lx_status lx_prefix_store_open(const char *path, int64_t max_bytes, lx_prefix_place **out,
                               lx_error *err) LX_MUST_USE;
/* Ends calls under way. NULL is allowed. */
void lx_prefix_store_close(lx_prefix_place *p);

#endif
