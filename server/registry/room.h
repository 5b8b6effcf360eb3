/*
 * Divides a model's share of memory into slots, spare slots, rows of a step, and pages. A pure
 * function, tested alone.
 */
#ifndef LINNET_SERVER_REGISTRY_ROOM_H
#define LINNET_SERVER_REGISTRY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lx_room_sizes {
    int64_t bytes;       /* the model's share */
    int64_t state;       /* bytes of a sample's state where it is largest */
    int64_t fixed;       /* bytes of the part of it that does not grow */
    int64_t row;         /* bytes of the activations of a row of a step */
    int32_t n_slots;     /* that the operator wants, 0: as many as fit, up to most_slots */
    int32_t most_slots;  /* >= 1 */
    int32_t most_drafts; /* second slots, at most half as many as slots and spare slots */
} lx_room_sizes;

typedef struct lx_room {
    int32_t n_slots, n_spare; /* >= 1, >= LX_LEAST_SPARE */
    int32_t prompt_rows;      /* of prompts in a step, in addition to a row of each slot */
    int64_t page_bytes;       /* left for pages of growing states; 0 where none grow, else >= 1 */
    int64_t held;             /* bytes of all parts; above `bytes` if a server needs more to work at
                                 all, or for n_slots */
} lx_room;

enum { LX_LEAST_SPARE = 2 };

lx_room lx_room_choose(const lx_room_sizes *s);

#endif
