/*
 * Fair sharing, as pure functions of their arguments, tested alone.
 *
 * There are clients with weights, their requests, and the samples of these. Whatever can be had
 * (rows of a step, slots) goes to clients by weight, within a client to its requests
 * alike, and within a request to the oldest samples first.
 *
 * lx_fair_rank is weighted fair queueing: each client and each request has a clock of the turns
 * (a sample in a step) it was given; the one with the least comes first. A clock never lags behind
 * the level, the clock of those that wait: a client that used less than its share for a while gets
 * no credit for it.
 */
#ifndef LINNET_SERVER_ENGINE_FAIR_H
#define LINNET_SERVER_ENGINE_FAIR_H

#include <stdbool.h>
#include <stdint.h>

enum { LX_FAIR_TURN = 1 << 20 }; /* what a turn moves the clock of a client of weight 1 */

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
/* Moves the clocks by the turns the items had, then the levels, which never go back. */
void lx_fair_charge(const lx_fair_item *items, int32_t n, lx_fair_clock *requests,
                    lx_fair_clock *clients, uint64_t *level);

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
    /* Pages of the pool; those that no run has reserved; those that small runs have. Large runs
       have the others. */
    int32_t n_pages, pages_left, small_pages;
} lx_fair_room;

/* How many spare slots an engine has beside its slots. */
int32_t lx_fair_spare(int32_t n_slots);
/*
 * Whether the claim may have a slot now. While there are fewer samples than slots every claim may.
 * Beyond that, a request may take up to its share of the slots; its first slot is its share in any
 * case. Half of the spare slots are for first slots of requests, half of these for clients that
 * have none: a latecomer finds room. Likewise for shared prompts, which have half of the spare
 * slots at most: so a free slot always finds a slot.
 */
bool lx_fair_may(const lx_fair_claim *c, const lx_fair_room *room);
/*
 * Pages are kept until their run ends, so they cannot take turns as slots do: an eighth of the pool
 * is never given to large runs, and a small request finds pages there. Another eighth is for large
 * runs of clients that have no pages yet. A large run has the rest to wait for, and small ones may
 * pass it only within their eighth: neither starves.
 */
bool lx_fair_is_large(int32_t n_pages, int32_t pages_of_a_sample);
/* The most pages that one run may need. */
int32_t lx_fair_most_pages(int32_t n_pages);
/* Whether there are pages for the claim now. `passes`: a claim that comes first waits for pages. */
bool lx_fair_has_pages(const lx_fair_claim *c, const lx_fair_room *room, bool passes);
/* Which of two that may comes first: the client with fewer pages by weight, the one with fewer
   active slots by weight, the request with fewer, the older one. */
bool lx_fair_before(const lx_fair_claim *a, const lx_fair_claim *b);

#endif
