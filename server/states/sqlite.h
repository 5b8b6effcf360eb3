/*
 * States in one file, an SQLite database: the operations of a store, without threads.
 *
 * A file belongs to one process at a time: lx_state_file_open locks it until the close or the
 * process's end, also an end by kill -9. All changes stand between begin and commit. After
 * a failure the caller rolls back. Only sqlite.c includes SQLite. Thread: one at a time.
 *
 * LX_ERR_UNAVAILABLE: the disk is full or cannot be written, or the file is damaged; the text says
 * which, without the file's name.
 */
#ifndef LINNET_SERVER_STATES_SQLITE_H
#define LINNET_SERVER_STATES_SQLITE_H

#include "server/states/store.h"

/* One blob has at most this many bytes. */
enum { LX_STATE_FILE_MAX_BLOB = 512 << 20 };

typedef struct lx_state_file lx_state_file;

typedef struct lx_state_file_limits {
    int64_t max_states, max_bytes; /* the least recently used states above them are dropped */
} lx_state_file_limits;

/* Opens the file, and makes it where `create` says so. LX_ERR_IO with param "state-store": the file
   cannot be opened, is another program's or another version's, is damaged, or is in use. */
lx_status lx_state_file_open(const char *path, bool create, lx_state_file **out,
                             lx_error *err) LX_MUST_USE;
/* Opens a file that is there, to read it. It may be on a read-only disk or in a read-only folder,
   unless a log with states lies next to it. Fails as lx_state_file_open. */
lx_status lx_state_file_read(const char *path, lx_state_file **out, lx_error *err) LX_MUST_USE;
void lx_state_file_close(lx_state_file *f); /* NULL is allowed */

/* With `durable` the commit returns after its changes are on the disk. Otherwise they outlive the
   process, and a loss of power may undo them. */
lx_status lx_state_file_begin(lx_state_file *f, bool durable, lx_error *err) LX_MUST_USE;
lx_status lx_state_file_commit(lx_state_file *f, lx_error *err) LX_MUST_USE;
void lx_state_file_rollback(lx_state_file *f);

/* Carries out the put. LX_ERR_BUSY or LX_ERR_TOO_LARGE as in store.h. */
lx_status lx_state_file_put(lx_state_file *f, const lx_store_request *rq,
                            const lx_state_file_limits *limits, lx_error *err) LX_MUST_USE;
/* *bytes is malloc'ed for the caller. *left_ms is the rest of its time. */
lx_status lx_state_file_get(lx_state_file *f, const char *owner, const char *id, void **bytes,
                            size_t *n, int64_t *left_ms, lx_error *err) LX_MUST_USE;
/* The state's time starts again. LX_OK also when there is no such state. */
lx_status lx_state_file_touch(lx_state_file *f, const char *owner, const char *id, int64_t ttl_ms,
                              lx_error *err) LX_MUST_USE;
lx_status lx_state_file_remove(lx_state_file *f, const char *owner, const char *id,
                               lx_error *err) LX_MUST_USE;
/* The owner's states after this id, at most `most`, by their ids. *out is malloc'ed. */
lx_status lx_state_file_list(lx_state_file *f, const char *owner, const char *after, size_t most,
                             lx_store_entry **out, size_t *n, lx_error *err) LX_MUST_USE;
/* The owner after this one, by name; LX_ERR_NOT_FOUND at the end. NULL: the first. */
lx_status lx_state_file_next_owner(lx_state_file *f, const char *after, char out[LX_OWNER_NAME + 1],
                                   lx_error *err) LX_MUST_USE;
/* Drops expired states, at most some: *next_ms is the time until a call has more to drop, 0 where
   that is now, and INT64_MAX where no state is left. */
lx_status lx_state_file_expire(lx_state_file *f, int64_t *next_ms, lx_error *err) LX_MUST_USE;
/* The states of the file. Expired states count until they are dropped. */
lx_status lx_state_file_count(lx_state_file *f, int64_t *states, int64_t *bytes,
                              lx_error *err) LX_MUST_USE;

/* Outside begin and commit: drops all expired states, checks the file, and writes it anew without
   the bytes of states that are gone. */
lx_status lx_state_file_vacuum(lx_state_file *f, lx_error *err) LX_MUST_USE;
/* Copies all states into a new file of this name, which is there once it is whole. Until then its
   name has the end ".part". LX_ERR_IO: it is there, or it cannot be written. */
lx_status lx_state_file_copy(lx_state_file *f, const char *path, lx_error *err) LX_MUST_USE;

#endif
