/*
 * API keys: which clients may use the server, and how much of it at once.
 *
 * The server keeps only the SHA-256 digests of keys. It compares a client's digest with those of
 * all keys, each in constant time, so the time of an answer tells nothing about keys. Each key has
 * its own limits: requests and samples at the same time, and requests and new tokens per minute.
 * Without keys all clients share one set of limits.
 *
 * A key owns the states that it makes, under its name. Clients without keys and the key "default"
 * (that of --api-key) own the states without a name. A key without a name owns states under its
 * digest, since its place in the file may change. The key file gives rights; --api-key's key has
 * all of them.
 *
 * Thread: keys are added before the server runs, and one thread reads their file again; all other
 * functions from any thread.
 */
#ifndef LINNET_SERVER_AUTH_KEYS_H
#define LINNET_SERVER_AUTH_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/client.h"
#include "common/status.h"

enum { LX_MAX_KEYS = 4096, LX_MAX_KEY_BYTES = 512, LX_MAX_KEY_NAME = 32 };

#define LX_DEFAULT_KEY_NAME "default"

typedef struct lx_key_limits {
    /* Of each key; 0: no limit, of max_states and max_state_bytes no limits but the store's. */
    int32_t concurrent;                  /* requests at once */
    int32_t per_minute;                  /* requests */
    int64_t tokens;                      /* new tokens per minute */
    int32_t samples;                     /* at once */
    int64_t max_states, max_state_bytes; /* kept for the key */
} lx_key_limits;

typedef struct lx_keys lx_keys;
typedef struct lx_key lx_key;

lx_status lx_keys_new(const lx_key_limits *limits, lx_keys **out, lx_error *err) LX_MUST_USE;
void lx_keys_free(lx_keys *k); /* NULL is allowed */

/* A key with all rights. name: of its owner in the log, at most LX_MAX_KEY_NAME bytes.
   LX_ERR_INVALID: the key is empty, too long, given twice, or not printable ASCII. */
lx_status lx_keys_add(lx_keys *k, const char *name, const char *key, lx_error *err) LX_MUST_USE;
/* A line has a key, or a name, a key and options ("alice sk-... admin weight=2 max-states=100
   max-state-bytes=1000000"); '#' begins a comment line. weight: of the key's share of the slots,
   1 .. LX_MAX_WEIGHT. A file without a key is LX_ERR_INVALID, as it would open the server. */
lx_status lx_keys_add_file(lx_keys *k, const char *path, lx_error *err) LX_MUST_USE;
int32_t lx_keys_count(const lx_keys *k);

typedef struct lx_key_changes {
    int32_t n, n_added, n_changed, n_removed; /* keys now, and the file's changes */
} lx_key_changes;

/* Reads the file again: from now on its keys count, and those of lx_keys_add. A failure changes
   nothing. Keys with an unchanged line keep their counts; requests of a removed key run to their
   end. Replaced keys stay in memory until lx_keys_free. */
lx_status lx_keys_reload(lx_keys *k, const char *path, lx_key_changes *changes,
                         lx_error *err) LX_MUST_USE;
/* With several keys, a key without limits of its own may fill half of a store of this size. */
void lx_keys_share(lx_keys *k, int64_t max_states, int64_t max_state_bytes);
bool lx_keys_have_admin(const lx_keys *k); /* true without keys */

/* The key in an Authorization header ("Bearer KEY"), NULL: unknown. A server without keys has one
   that stands for all clients. */
lx_key *lx_keys_find(lx_keys *k, const char *authorization);
/* The key itself, without a scheme: the value of an X-Api-Key header. */
lx_key *lx_keys_find_plain(lx_keys *k, const char *key);
/* The key that stands for clients without a key on routes that need none. */
lx_key *lx_keys_public(lx_keys *k);
/* Valid as long as lx_keys, also of a key that a reload has replaced. */
const lx_owner *lx_key_owner(const lx_key *key);
/* Whether it may use routes that act on the whole server. */
bool lx_key_is_admin(const lx_key *key);
/* The name, "" without keys. Valid as long as the keys. */
const char *lx_key_name(const lx_key *key);

/* A request of this key begins now (lx_now_ns()), or LX_ERR_BUSY with *retry_after_s >= 1. */
lx_status lx_key_enter(lx_key *key, int64_t now_ns, int32_t *retry_after_s,
                       lx_error *err) LX_MUST_USE;
void lx_key_leave(lx_key *key);

/* The client that a request's handler sees, and its key; NULL for a client without a key. */
lx_client lx_key_client(lx_key *key);
lx_key *lx_key_of(const lx_client *client);

/* Whether its tokens have a limit. */
bool lx_key_counts_tokens(const lx_key *key);

/* The needs of a request: n_samples at once, with n_tokens in all. An error names the request's
   fields that ask for so many; NULL: no field does. */
typedef struct lx_key_load {
    int64_t n_tokens, n_samples;
    const char *tokens_field, *samples_field; /* static */
} lx_key_load;

/* The request begins. LX_ERR_LIMIT: a limit, named in the text, forbids it for *retry_after_s >= 1;
   LX_ERR_INVALID: for ever. */
lx_status lx_key_take(lx_key *key, const lx_key_load *load, int64_t now_ns, int32_t *retry_after_s,
                      lx_error *err) LX_MUST_USE;
/* Whether lx_key_take would take the request now; idle: if the key had no other one. */
bool lx_key_has_room(lx_key *key, const lx_key_load *load, bool idle, int64_t now_ns);
/* The request is over. refund: it did nothing, so its tokens are given back too. */
void lx_key_give_back(lx_key *key, const lx_key_load *load, bool refund);

#endif
