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

#include "kernels/kernels.h"
#include "server/engine/prefix_cache.h"

/* Rows and all else on which the bits of a state depend. */
typedef struct lx_prefix_name {
    const char *maker; /* names weights, layout of the state, back end and precision */
    lx_prefix_key key; /* its owner is an lx_client.key, or NULL where keys share states */
    int32_t width;     /* ids per row */
} lx_prefix_name;

/*
 * A state is its fixed part, and then pages of LX_PAGE_TOKENS rows if it grows. A place has each
 * page once: a state that begins like a stored one, its base, is stored without the pages that are
 * full in the base. `base` is the number of the base's rows, 0: there is none. The base may be lost
 * before the state that needs it. Then that state is lost too.
 */
typedef struct lx_prefix_sizes {
    size_t fixed, page; /* floats; page 0: it does not grow */
} lx_prefix_sizes;

/* The first page that is stored with a state on this base. */
static inline int32_t lx_prefix_first_page(int32_t base)
{
    return base / LX_PAGE_TOKENS;
}

/* Floats that are stored for a state of so many rows on a base, which has fewer. */
static inline size_t lx_prefix_floats(const lx_prefix_sizes *of, int32_t base, int32_t rows)
{
    int32_t pages = rows / LX_PAGE_TOKENS + (rows % LX_PAGE_TOKENS != 0);
    return of->fixed + (of->page > 0 ? (size_t)(pages - lx_prefix_first_page(base)) * of->page : 0);
}

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
    /* Waits for the whole state of exactly these rows. After a failure it may have written to `to`.
     */
    lx_status (*read)(lx_prefix_place *p, const lx_prefix_name *name, const lx_prefix_sizes *sizes,
                      float *to, lx_error *err);
    /* Room for a state, of which write takes or drop frees the memory; NULL: there is none. */
    float *(*room)(lx_prefix_place *p, const lx_prefix_name *name, size_t n_floats);
    void (*drop)(lx_prefix_place *p, const lx_prefix_name *name, float *state);
    /* Takes the state on its base, which `find` gave, and returns. `done` is called once, by any
       thread, perhaps before this returns. */
    void (*write)(lx_prefix_place *p, const lx_prefix_name *name, int32_t base, float *state,
                  size_t n_floats, void (*done)(void *context, bool ok), void *context);
    bool (*works)(lx_prefix_place *p); /* its last call did not fail */
};

#endif
