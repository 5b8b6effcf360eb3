/*
 * A tiny model's objects on the cuda back end, and steps with every operation on them, for the
 * tests of the host part. Objects are opened, made and freed here only.
 */
#ifndef LINNET_TESTS_SIMT_WORLD_H
#define LINNET_TESTS_SIMT_WORLD_H

#include "kernels/kernels.h"
#include "tests/simt/counts.h"

enum {
    WORLD_IDS = 20,
    WORLD_WIDTH = 16,
    WORLD_RING = 16, /* rows, next to the state of the linear attention */
    WORLD_STATE = WORLD_WIDTH * (WORLD_WIDTH + 1 + 2 * WORLD_RING),
    WORLD_PAGE = 40,  /* floats; a slot may have one page, and the pool has two */
    WORLD_ROWS = 1040 /* and slots */
};

typedef struct world {
    lx_backend *be;
    const lx_kernels *k;
    lx_array *x, *y, *wide, *ones;
    lx_array *gamma; /* of the norm instead of `ones`; NULL at first, the caller's */
    lx_table *table;
    const lx_table *tables[1];
    int32_t ids[WORLD_ROWS];
    lx_matrix *qkv, *out, *head;
    lx_mask *mask;
    lx_states *states;
    float eps; /* of the attention; a step with another one is another step */
    float values[3 * WORLD_WIDTH * WORLD_WIDTH];
    uint8_t banned[WORLD_IDS];
    int32_t order[WORLD_ROWS + 1]; /* 0, 1, 2, .. */
    int32_t slot[WORLD_ROWS];      /* equal to x at first */
    int32_t position[WORLD_ROWS];  /* 0 */
    lx_sampling how[WORLD_ROWS];
    lx_sample samples[2 * WORLD_ROWS]; /* of the categorical head, and of the mixture */
} world;

/* Opens "cuda" so and makes everything; after a failure world_close is called too. */
lx_status world_open(world *w, const lx_backend_options *how, lx_error *err);
void world_close(world *w);

/* A prompt of two rows, and a single row of another sequence. */
lx_status world_prompt(world *w, lx_error *err);
/* One row of each of the first n slots. */
lx_status world_decode(world *w, int32_t n, lx_error *err);
/* The dry run of that. */
lx_status world_prepare(world *w, int32_t n, lx_error *err);
/* Starts a row of a slot; where branch >= 0 a second row, which continues in that slot. */
lx_status world_start(world *w, int32_t slot, int32_t branch, uint64_t *number, lx_error *err);

#endif
