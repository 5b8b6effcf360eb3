/*
 * Which jobs of the queue and which samples get a slot. The rules are pure functions (scheduler.h);
 * this file makes their arguments and carries out their results. While nothing waits, nothing is
 * done.
 */
#include "server/engine/internal.h"

/* What waits for a slot: a job of the queue, or a run's next sample. */
typedef struct waiter {
    int32_t queued, run; /* one of them is -1 */
    int32_t request;
    lx_fair_claim claim;
} waiter;

static lx_fair_claim claim_of(const lx_engine *e, int32_t request, bool wants_prompt_slot,
                              uint64_t order)
{
    const lx_usage *r = &e->requests.at[request], *c = &e->clients.at[r->client];
    return (lx_fair_claim){
        .client_weight = e->clients.clocks[r->client].weight,
        .client_active = c->active,
        .client_requests = c->n_requests,
        .client_pages = c->pages,
        .has_key = c->key != NULL,
        .request_active = r->active,
        .client_prompt_slots = c->prompt_slots,
        .request_prompt_slots = r->prompt_slots,
        .wants_prompt_slot = wants_prompt_slot,
        .order = order,
    };
}

static waiter waiting_run(const lx_engine *e, int32_t run)
{
    const lx_run *r = &e->runs[run];
    waiter w = {-1, run, r->request, claim_of(e, r->request, false, r->order)};
    bool last = r->next_sample + r->granted == r->params->n - 1; /* has the prompt slot's pages */
    /* A run with no slot but its prompt slot counts as new. Otherwise, because of that slot's
       pages, every other client would pass it while these pages lie idle. */
    if (r->n_slots + r->granted == 1) {
        w.claim.client_pages = 0;
        w.claim.has_key = false;
    }
    w.claim.pages = last ? 0 : r->pages - r->shared_pages;
    w.claim.large = lx_fair_is_large(e->pages.n, r->pages);
    return w;
}

static waiter waiting_job(const lx_engine *e, int32_t queued)
{
    const lx_queued *q = &e->queue[queued];
    int32_t request = *lx_job_request_note(q->job);
    bool wants_prompt_slot = lx_job_get_params(q->job)->n > 1;
    waiter w = {queued, -1, request, claim_of(e, request, wants_prompt_slot, q->order)};
    w.claim.pages = lx_job_first_pages(e, q->job);
    w.claim.large = lx_fair_is_large(e->pages.n, lx_job_pages(e, q->job));
    return w;
}

/* --- pages --- */

static void count_pages(lx_engine *e, lx_fair_room *room, int32_t request, int32_t n, bool large)
{
    e->clients.at[e->requests.at[request].client].pages += n;
    room->small_pages += large ? 0 : n;
}

/* Pages that several runs share count for each of them. */
static void count_all_pages(lx_engine *e, lx_fair_room *room)
{
    room->n_pages = e->pages.n;
    for (int32_t i = 0; i < e->clients.n_used; i++)
        e->clients.at[i].pages = 0;
    for (int32_t i = 0; e->pages.n > 0 && i < e->n_runs; i++) {
        const lx_run *r = &e->runs[e->run_order[i]];
        bool last = r->granted > 0 && r->next_sample + r->granted == r->params->n;
        int32_t n_states = r->n_slots + r->granted - last;
        int32_t n = r->shared_pages + n_states * (r->pages - r->shared_pages);
        count_pages(e, room, r->request, n, lx_fair_is_large(e->pages.n, r->pages));
    }
}

/* While no slot is active, no run gives pages back, so any claim that fits may pass. */
static bool has_pages(const lx_engine *e, const lx_fair_room *room, const waiter *w, bool passes)
{
    return e->n_active == 0 ? w->claim.pages <= room->pages_left
                            : lx_fair_has_pages(&w->claim, room, passes);
}

/* --- who is first --- */

static void consider(const lx_engine *e, const lx_fair_room *room, bool passes, const waiter *w,
                     waiter *best)
{
    bool none = best->queued < 0 && best->run < 0;
    if (lx_fair_may(&w->claim, room) && (!passes || has_pages(e, room, w, true)) &&
        (none || lx_fair_before(&w->claim, &best->claim)))
        *best = *w;
}

/* The claim that comes first, or of all claims that may pass it if `passes`; false: none. */
static bool find_best(const lx_engine *e, const lx_fair_room *room, bool passes, waiter *best)
{
    *best = (waiter){.queued = -1, .run = -1};
    for (int32_t i = 0; i < e->n_runs; i++) {
        const lx_run *r = &e->runs[e->run_order[i]];
        if (!lx_run_is_ready(e, r) || r->phase != LX_RUN_OPEN ||
            r->next_sample + r->granted == r->params->n)
            continue;
        waiter w = waiting_run(e, e->run_order[i]);
        consider(e, room, passes, &w, best);
    }
    for (int32_t i = 0; i < e->n_queue; i++) {
        if (e->queue[i].job == NULL)
            continue;
        waiter w = waiting_job(e, i);
        consider(e, room, passes, &w, best);
    }
    return best->queued >= 0 || best->run >= 0;
}

/* The claim to grant now; false: there is none, or it must wait. The first claim of all waits for
   pages that runs will give back, so that smaller ones do not pass it for ever. Claims of small
   runs may pass it as far as pages are kept back for them. */
static bool find_first(const lx_engine *e, lx_fair_room *room, waiter *best)
{
    room->n_active = e->n_active;
    room->n_prompt_slots = e->n_prompt_slots;
    room->pages_left = atomic_load(&e->pages.left);
    return find_best(e, room, false, best) &&
           (has_pages(e, room, best, false) || find_best(e, room, true, best));
}

static void grant(lx_engine *e, lx_fair_room *room, const waiter *w)
{
    lx_usage_count(e, w->request, 1, w->claim.wants_prompt_slot);
    if (w->run >= 0) {
        lx_pages_reserve(&e->pages, w->claim.pages);
        count_pages(e, room, w->request, w->claim.pages, w->claim.large);
        e->runs[w->run].granted++;
        e->n_granted++;
        return;
    }
    lx_queued *q = &e->queue[w->queued];
    int32_t n_pages = lx_job_pages(e, q->job);
    lx_pages_reserve(&e->pages, n_pages);
    count_pages(e, room, w->request, n_pages, w->claim.large);
    e->admitted[e->n_admitted++] = *q;
    q->job = NULL;
}

static bool anything_waits(const lx_engine *e)
{
    return e->n_queue + e->n_pending > e->n_granted + e->n_admitted;
}

static void give_slots(lx_engine *e)
{
    lx_fair_room room = {.n_slots = e->options.n_slots,
                         .n_spare = e->total_slots - e->options.n_slots,
                         .total_weight = e->total_weight};
    waiter first;
    count_all_pages(e, &room);
    /* A sample whose state is being moved to its job is not active, but still has its slot: so free
       slots are counted as well. */
    while (anything_waits(e) && e->n_free > e->n_granted + e->n_admitted &&
           find_first(e, &room, &first))
        grant(e, &room, &first);
}

static void drop_ended(lx_engine *e, int64_t now)
{
    for (int32_t i = 0; i < e->n_queue; i++) {
        lx_job *job = e->queue[i].job;
        if (lx_engine_check_job(e, job, now, NULL) == LX_OK)
            continue;
        e->dropped[e->n_dropped++] = job;
        e->queue[i].job = NULL;
    }
}

void lx_engine_admit(lx_engine *e, int64_t now)
{
    int32_t to_come = 0, kept = 0; /* to_come: slots for which admitted jobs will ask */
    e->n_admitted = e->n_dropped = 0;
    drop_ended(e, now);
    if (anything_waits(e))
        give_slots(e);
    for (int32_t i = 0; i < e->n_admitted; i++)
        to_come += lx_job_get_params(e->admitted[i].job)->n - 1;
    for (int32_t i = 0; i < e->n_queue; i++) { /* closes gaps */
        if (e->queue[i].job != NULL)
            e->queue[kept++] = e->queue[i];
    }
    e->n_queue = kept;
    e->n_sure = 0;
    int32_t room = e->options.n_slots - e->n_active - (e->n_pending - e->n_granted) - to_come;
    e->credit = room > 0 && e->n_queue == 0 ? room : 0;
    e->page_credit = atomic_load(&e->pages.left);
    lx_engine_count_beyond(e);
}
