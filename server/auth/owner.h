/*
 * Whose states: the name they are kept under, and how many of them there may be.
 *
 * An owner sees its own states only: the same id of two owners is two states. Replicas agree on an
 * owner by its name alone, so a key that gets a new secret under its old name keeps its states.
 * Owners live as long as the server; immutable once it runs.
 */
#ifndef LINNET_SERVER_AUTH_OWNER_H
#define LINNET_SERVER_AUTH_OWNER_H

#include <stdint.h>

enum { LX_OWNER_NAME = 32 };

typedef struct lx_owner {
    char name[LX_OWNER_NAME + 1];  /* "": see keys.h */
    int64_t max_states, max_bytes; /* 0: no limits but the store's */
} lx_owner;

#endif
