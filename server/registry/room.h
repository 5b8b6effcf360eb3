/*
 * How a model divides its share of memory: the slots that a step computes rows of, the spare slots,
 * the most rows of a step, and the bytes left for pages. A pure
 * function of its arguments, tested alone.
 */
#ifndef LINNET_SERVER_REGISTRY_ROOM_H
#define LINNET_SERVER_REGISTRY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lx_room_sizes {
    int64_t bytes;      /* the model's share */
    int64_t state;      /* bytes of a sample's state where it is largest */
    int64_t fixed;      /* bytes of the part of it that does not grow */
    int64_t row;        /* bytes of the activations of a row of a step */
    int32_t n_slots;    /* that the operator wants, 0: as many as fit, up to most_slots */
    int32_t most_slots; /* >= 1 */
    /* Second slots of drafts, beside the others: at most so many, and half as many as there are
       others. */
    int32_t most_drafts;
} lx_room_sizes;

typedef struct lx_room {
    int32_t n_slots, n_spare; /* >= 1, >= LX_LEAST_SPARE */
    int32_t prompt_rows;      /* of prompts in a step, beside a row of each slot */
    int64_t page_bytes;       /* left for pages of growing states; 0 where none grow, else >= 1 */
    int64_t held;             /* bytes that all of this takes; more than `bytes` where the least
                                 that can serve does, or n_slots asks for more */
} lx_room;

enum { LX_LEAST_SPARE = 2 };

lx_room lx_room_choose(const lx_room_sizes *s);

#endif
