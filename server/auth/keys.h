/*
 * API keys: which clients may use the server, and how much of it at once.
 *
 * A key is kept as its SHA-256 digest only. Looking one up compares the digest of what a client
 * sent with every key's, always all of them and each in constant time, so that the time an answer
 * takes says nothing about the keys. Each key has its own limits: requests and samples at the same
 * time, and requests and new tokens a minute (buckets that hold a minute's worth and fill evenly).
 * Without keys all clients count as one, and the limits are the server's.
 *
 * A key owns the states it makes, by its name. The name "default", which --api-key's key has, and
 * clients without keys own what is kept under no name; a key without a name owns by its digest,
 * since its place in the file may change. Rights are given by the key file; --api-key's key has
 * all.
 *
 * Thread: keys are added before the server runs; the rest from any thread.
 */
#ifndef LINNET_SERVER_AUTH_KEYS_H
#define LINNET_SERVER_AUTH_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/client.h"
#include "common/status.h"
#include "server/auth/owner.h"

enum { LX_MAX_KEYS = 4096, LX_MAX_KEY_BYTES = 512, LX_MAX_KEY_NAME = 32 };

#define LX_DEFAULT_KEY_NAME "default"

typedef struct lx_key_limits {
    int32_t concurrent; /* requests of a key at once, 0: no limit */
    int32_t per_minute; /* requests of a key, 0: no limit */
    int64_t tokens;     /* new tokens a minute that a key may ask for, 0: no limit */
    int32_t samples;    /* of a key at once, 0: no limit */
    int64_t max_states, max_state_bytes; /* kept for a key, 0: no limits of its own */
} lx_key_limits;

typedef struct lx_keys lx_keys;
typedef struct lx_key lx_key;

lx_status lx_keys_new(const lx_key_limits *limits, lx_keys **out, lx_error *err) LX_MUST_USE;
void lx_keys_free(lx_keys *k); /* NULL is allowed */

/* A key with every right. name: what the log calls its owner, at most LX_MAX_KEY_NAME bytes.
   LX_ERR_INVALID for a key that is empty, too long, there already, or holds other than printable
   ASCII. */
lx_status lx_keys_add(lx_keys *k, const char *name, const char *key, lx_error *err) LX_MUST_USE;
/* One key a line, alone or after its name, and then its options ("alice sk-... admin weight=2
   max-states=100 max-state-bytes=1000000"); empty lines and those that begin with '#' are skipped.
   weight: of its share of the slots, 1 .. LX_MAX_WEIGHT. A file without any key is LX_ERR_INVALID:
   it would open the server. */
lx_status lx_keys_add_file(lx_keys *k, const char *path, lx_error *err) LX_MUST_USE;
int32_t lx_keys_count(const lx_keys *k);
/* With several keys, a key without limits of its own may fill half of a store of this size. */
void lx_keys_share(lx_keys *k, int64_t max_states, int64_t max_state_bytes);
bool lx_keys_have_admin(const lx_keys *k); /* true without keys */

/* The key that an Authorization header ("Bearer KEY") carries, NULL when it is unknown. Without any
 * keys: the one that stands for all clients. */
lx_key *lx_keys_find(lx_keys *k, const char *authorization);
/* The one that stands for clients without a key, where none is needed. */
lx_key *lx_keys_public(lx_keys *k);
/* Valid as long as the keys. */
const lx_owner *lx_key_owner(const lx_key *key);
/* Whether it may use what acts on the whole server. */
bool lx_key_is_admin(const lx_key *key);
/* The name, "" without keys. Valid as long as the keys. */
const char *lx_key_name(const lx_key *key);

/* A request of this key begins now (lx_now_ns()). LX_ERR_BUSY over one of its limits, with
 *retry_after_s >= 1; then it has not begun. */
lx_status lx_key_enter(lx_key *key, int64_t now_ns, int32_t *retry_after_s,
                       lx_error *err) LX_MUST_USE;
void lx_key_leave(lx_key *key);

/* What a request's handler knows its key by, and back; NULL for a client without a key. */
lx_client lx_key_client(lx_key *key);
lx_key *lx_key_of(const lx_client *client);

/* Whether its tokens have a limit. */
bool lx_key_counts_tokens(const lx_key *key);

/* What a piece of work asks for: n_samples now, and of all these n_tokens. */
typedef struct lx_key_load {
    int64_t n_tokens;
    int32_t n_samples;
} lx_key_load;

/* It begins. LX_ERR_LIMIT over one of the limits, with *retry_after_s >= 1 and the limit named;
   then it has not begun. LX_ERR_INVALID when it could never begin. */
lx_status lx_key_take(lx_key *key, const lx_key_load *load, int64_t now_ns, int32_t *retry_after_s,
                      lx_error *err) LX_MUST_USE;
/* Whether lx_key_take would take it now. */
bool lx_key_has_room(lx_key *key, const lx_key_load *load, int64_t now_ns);
/* It is over: its samples are free. refund: it did nothing, its tokens are free too. */
void lx_key_give_back(lx_key *key, const lx_key_load *load, bool refund);

#endif
