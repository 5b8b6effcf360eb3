/*
 * Whose a request is, as far as the sharing of slots is concerned. The key is compared and never
 * looked into: NULL stands for all clients without one.
 */
#ifndef LINNET_COMMON_CLIENT_H
#define LINNET_COMMON_CLIENT_H

#include <stdint.h>

enum { LX_MAX_WEIGHT = 100 };

typedef struct lx_client {
    const void *key;
    int32_t weight; /* of its share of the slots, 1 .. LX_MAX_WEIGHT; 0 is 1 */
} lx_client;

#endif
