/* The client of a request, for the sharing of slots, and the owner of its states. */
#ifndef LINNET_COMMON_CLIENT_H
#define LINNET_COMMON_CLIENT_H

#include <stdint.h>

enum { LX_MAX_WEIGHT = 100 };

typedef struct lx_client {
    const void *key; /* compared and never dereferenced; NULL: all clients without a key */
    int32_t weight;  /* of its share of the slots, 1 .. LX_MAX_WEIGHT; 0 is 1 */
} lx_client;

enum { LX_OWNER_NAME = 32 };

/* An owner sees its own states only: one id of two owners names two states. Replicas know an owner
   by its name alone, so a key with a new secret under its old name keeps its states. Owners live as
   long as the server; immutable once it runs. */
typedef struct lx_owner {
    char name[LX_OWNER_NAME + 1];  /* "": see server/auth/keys.h */
    int64_t max_states, max_bytes; /* 0: no limits but the store's */
} lx_owner;

#endif
