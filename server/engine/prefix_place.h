/*
 * A place in which kept states of prompts outlive the process, as the engine sees it. The engine
 * cannot include the store of states, so cmd_serve.c gives it this table
 * (server/states/prefix_store.h).
 *
 * A lost or damaged state costs time and never changes an answer: a reader gets the state of
 * exactly these rows, or none.
 */
#ifndef LINNET_SERVER_ENGINE_PREFIX_PLACE_H
#define LINNET_SERVER_ENGINE_PREFIX_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/engine/prefix_cache.h"

/* Rows and all else on which the bits of a state depend. */
typedef struct lx_prefix_name {
    const char *maker; /* names weights, layout of the state, back end and precision */
    lx_prefix_key key; /* its owner is an lx_client.key, or NULL where keys share states */
    int32_t width;     /* ids per row */
} lx_prefix_name;

enum {
    LX_PREFIX_MAKER = 192,
    /* A state goes to the place, or is read from it, if it spares so many rows. To write and read
       a state takes about as long as to compute a few dozen rows. */
    LX_PREFIX_WORTH = 64
};

typedef struct lx_prefix_place lx_prefix_place;
struct lx_prefix_place {
    /* Rows of the longest stored beginning of the name's rows, 0: none. Any thread; reads no file.
     */
    int32_t (*find)(lx_prefix_place *p, const lx_prefix_name *name);
    /* Waits for the state of exactly these rows. After a failure it may have written to `to`. */
    lx_status (*read)(lx_prefix_place *p, const lx_prefix_name *name, float *to, size_t n_floats,
                      lx_error *err);
    /* Room for a state, of which write takes or drop frees the memory; NULL: there is none. */
    float *(*room)(lx_prefix_place *p, const lx_prefix_name *name, size_t n_floats);
    void (*drop)(lx_prefix_place *p, const lx_prefix_name *name, float *state);
    /* Takes the state and returns. `done` is called once, by any thread, perhaps before this
       returns. */
    void (*write)(lx_prefix_place *p, const lx_prefix_name *name, float *state, size_t n_floats,
                  void (*done)(void *context, bool ok), void *context);
    bool (*works)(lx_prefix_place *p); /* its last call did not fail */
};

#endif
