/*
 * The scheduler: the choice of rows for a step, and fair sharing of rows and slots. Pure functions,
 * tested alone.
 *
 * Clients get rows of a step and slots by their weights. The requests of a client share alike. In a
 * request the oldest samples come first.
 *
 * lx_fair_rank is weighted fair queueing. The clock of a client or a request counts its turns; a
 * turn is a sample in a step. The least clock comes first. The level is the least clock of all
 * waiting clients. No clock is below it, so a client gets no credit for time without requests.
 */
#ifndef LINNET_SERVER_ENGINE_SCHEDULER_H
#define LINNET_SERVER_ENGINE_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

enum { LX_FAIR_TURN = 1 << 20 }; /* by a turn the clock of a client of weight 1 moves so far */

/* A client, or a request, which has neither weight nor level. */
typedef struct lx_fair_clock {
    uint64_t served;
    uint64_t level; /* client: of its requests */
    int32_t weight; /* client: >= 1 */
} lx_fair_clock;

/* One sample that has something to compute. */
typedef struct lx_fair_item {
    int32_t client, request; /* indices in the arrays of clocks */
    int32_t slot;            /* the caller's */
    int32_t prompt_rows;     /* of its prompt, not computed yet; 0: it decodes */
    int32_t rows;            /* that it computes in the next step, see lx_schedule */
    bool served, unserved;   /* for lx_fair_charge: had a turn; got less than it could take */
    uint64_t order;          /* of samples of a request, smaller first; no two are equal */
    uint64_t tag;            /* the function's own, as is the next */
    int32_t group;
} lx_fair_item;

/* Sorts items so that a step of k of them takes the first k. *level is that of the clients. */
void lx_fair_rank(lx_fair_item *items, int32_t n, const lx_fair_clock *requests,
                  const lx_fair_clock *clients, uint64_t level);
/* Moves the clocks by the turns of the items, then the levels, which never go back. */
void lx_fair_charge(const lx_fair_item *items, int32_t n, lx_fair_clock *requests,
                    lx_fair_clock *clients, uint64_t *level);

typedef struct lx_schedule_limits {
    int32_t max_items;     /* per step */
    int32_t max_tokens;    /* rows per step, >= max_items */
    int32_t prompt_chunk;  /* prompt rows per slot and step */
    int32_t prompt_beside; /* >= 1, prompt rows of a step that also decodes, in addition to half of
                              the rows that it decodes */
} lx_schedule_limits;

/*
 * Sets the rows of all items in the next step, by their prompt_rows. Returns the sum, which is 0
 * only without items. The step is for the first max_items. Each decoding item gets one row first.
 * The rest goes to prompts in the order of the items, in chunks. With n decoding items all prompts
 * together get at most n / 2 + prompt_beside rows. A step's time grows with its rows, so streams
 * keep their pace within a known factor. A prompt for which no row is left gives its place to the
 * next item that decodes, so that no place lies idle. May change the order of items.
 */
int32_t lx_schedule(lx_fair_item *items, int32_t n, const lx_schedule_limits *limits);

/* --- slots --- */

/* A request's next sample, or its first, that waits for a slot. */
typedef struct lx_fair_claim {
    int32_t client_weight, client_active; /* active: slots with rows to compute */
    int32_t client_requests;              /* of this client, waiting ones too */
    int32_t request_active;
    int32_t client_prompt_slots, request_prompt_slots; /* slots of shared prompts */
    bool wants_prompt_slot;
    uint64_t order;       /* smaller is older */
    int32_t pages;        /* of growing states, that must be left */
    int32_t client_pages; /* that runs of the client have */
    bool large;           /* of a run whose samples have many, see lx_fair_is_large */
    bool has_key;         /* there may be other clients */
} lx_fair_claim;

typedef struct lx_fair_room {
    int32_t n_slots; /* samples that a step can compute */
    int32_t n_spare; /* more slots, of samples that miss steps */
    int32_t n_active, n_prompt_slots;
    int64_t total_weight; /* of the clients that have requests */
    /* Pages of the pool; pages that no run has reserved; pages of small runs. Large runs have the
       rest. */
    int32_t n_pages, pages_left, small_pages;
} lx_fair_room;

/* The number of spare slots of an engine with so many slots. */
int32_t lx_fair_spare(int32_t n_slots);
/*
 * Whether the claim may have a slot now. While fewer than n_slots are active every claim may,
 * unless it wants a prompt slot and its part of these is used. Beyond that, a request may have its
 * share of n_slots, at least one slot. Half of the spare slots are for the first slots of requests,
 * and half of these for clients that have none. Prompt slots are divided in the same way and take
 * at most half of the spare slots.
 */
bool lx_fair_may(const lx_fair_claim *c, const lx_fair_room *room);
/*
 * A run keeps its pages until its end, so pages cannot take turns. Large runs never get an eighth
 * of the pool, so that small runs find pages. Another eighth is for large runs of clients without
 * pages. Small runs may pass a waiting large run only within their eighth. So neither starves.
 */
bool lx_fair_is_large(int32_t n_pages, int32_t pages_of_a_sample);
/* The most pages that one run may need. */
int32_t lx_fair_most_pages(int32_t n_pages);
/* Whether there are pages for the claim now. `passes`: a claim that comes first waits for pages. */
bool lx_fair_has_pages(const lx_fair_claim *c, const lx_fair_room *room, bool passes);
/* Whether claim a comes before b: by the client's pages per weight, its active slots per weight,
   the request's active slots, and age. */
bool lx_fair_before(const lx_fair_claim *a, const lx_fair_claim *b);

#endif
