/*
 * Admission to places: jobs of the queue, and samples that wait beside their shared prompt. The
 * rules are pure functions (fair.h); their arguments are made here, and their results carried out.
 *
 * While nothing waits, nothing is done.
 */
#include <stdlib.h>

#include "server/engine/internal.h"

/* --- parties --- */

bool lx_parties_init(lx_parties *p, int32_t n)
{
    p->at = calloc((size_t)n, sizeof *p->at);
    p->clocks = calloc((size_t)n, sizeof *p->clocks);
    p->unused = calloc((size_t)n, sizeof *p->unused);
    return p->at != NULL && p->clocks != NULL && p->unused != NULL;
}

void lx_parties_fini(lx_parties *p)
{
    free(p->at);
    free(p->clocks);
    free(p->unused);
}

/* Its clock begins at nothing, which counts as the level. */
static int32_t take_party(lx_parties *p, int32_t weight)
{
    int32_t i = p->n_unused > 0 ? p->unused[--p->n_unused] : p->n_used++;
    p->at[i] = (lx_party){0};
    p->clocks[i] = (lx_fair_clock){.weight = weight};
    return i;
}

static int32_t find_client(lx_engine *e, const lx_client *c)
{
    for (int32_t i = 0; i < e->clients.n_used; i++)
        if (e->clients.at[i].n_jobs > 0 && e->clients.at[i].key == c->key)
            return i;
    int32_t weight = c->weight < 1 ? 1 : c->weight > LX_MAX_WEIGHT ? LX_MAX_WEIGHT : c->weight;
    int32_t i = take_party(&e->clients, weight);
    e->clients.at[i].key = c->key;
    e->total_weight += weight;
    return i;
}

void lx_parties_enter(lx_engine *e, lx_job *job)
{
    int32_t *note = lx_job_request_note(job);
    if (*note < 0) {
        int32_t client = find_client(e, &lx_job_get_params(job)->client);
        *note = take_party(&e->requests, 1);
        e->requests.at[*note].client = client;
        e->clients.at[client].n_requests++;
    }
    lx_party *request = &e->requests.at[*note];
    request->n_jobs++;
    e->clients.at[request->client].n_jobs++;
}

void lx_parties_leave(lx_engine *e, lx_job *job)
{
    int32_t *note = lx_job_request_note(job), r = *note, c = e->requests.at[r].client;
    lx_party *client = &e->clients.at[c];
    if (--e->requests.at[r].n_jobs == 0) {
        *note = -1;
        e->requests.unused[e->requests.n_unused++] = r;
        client->n_requests--;
    }
    if (--client->n_jobs == 0) {
        e->clients.unused[e->clients.n_unused++] = c;
        e->total_weight -= e->clients.clocks[c].weight;
    }
}

void lx_count_seats(lx_engine *e, int32_t request, int32_t n)
{
    lx_party *r = &e->requests.at[request];
    r->seats += n;
    e->clients.at[r->client].seats += n;
    e->n_seats += n;
}

void lx_count_sources(lx_engine *e, int32_t request, int32_t n)
{
    lx_party *r = &e->requests.at[request];
    r->sources += n;
    e->clients.at[r->client].sources += n;
    e->n_sources += n;
}

/* --- places --- */

/* What waits for a place: a job of the queue, or a run's next sample. */
typedef struct waiter {
    int32_t queued, run; /* one of them is -1 */
    int32_t request;
    int32_t pages; /* that it must find */
    lx_fair_claim claim;
} waiter;

static lx_fair_claim claim_of(const lx_engine *e, int32_t request, bool wants_source,
                              uint64_t order)
{
    const lx_party *r = &e->requests.at[request], *c = &e->clients.at[r->client];
    return (lx_fair_claim){
        .client_weight = e->clients.clocks[r->client].weight,
        .client_seats = c->seats,
        .client_requests = c->n_requests,
        .request_seats = r->seats,
        .client_sources = c->sources,
        .request_sources = r->sources,
        .wants_source = wants_source,
        .order = order,
    };
}

/* Pages that a run's next sample must find: the last one has those of the source. */
static int32_t sample_pages(const lx_run *r)
{
    bool last = r->next_sample + r->granted == r->params->n - 1;
    return last ? 0 : r->pages - r->shared_pages;
}

/* The first waiter waits for pages while a run will give some back: a large one must not wait for
   ever while smaller ones pass it. */
static bool fits(const lx_engine *e, const waiter *w)
{
    return w->pages <= atomic_load(&e->pages.left);
}

static void consider(const lx_engine *e, const lx_fair_room *room, const waiter *w, waiter *best)
{
    bool none = best->queued < 0 && best->run < 0;
    if (lx_fair_may(&w->claim, room) && (e->n_seats > 0 || fits(e, w)) &&
        (none || lx_fair_before(&w->claim, &best->claim)))
        *best = *w;
}

/* The first of those that may have a place now; false: there is none, or it has to wait. */
static bool find_first(const lx_engine *e, waiter *best)
{
    lx_fair_room room = {e->options.n_slots, e->n_places - e->options.n_slots, e->n_seats,
                         e->n_sources, e->total_weight};
    *best = (waiter){.queued = -1, .run = -1};
    for (int32_t i = e->oldest; i >= 0; i = e->runs[i].newer) {
        const lx_run *r = &e->runs[i];
        if (!r->ready || r->ending || r->failed || r->next_sample + r->granted == r->params->n)
            continue;
        waiter w = {-1, i, r->request, sample_pages(r), claim_of(e, r->request, false, r->order)};
        consider(e, &room, &w, best);
    }
    for (int32_t i = 0; i < e->n_queue; i++) {
        lx_job *job = e->queue[i].job;
        if (job == NULL)
            continue;
        int32_t request = *lx_job_request_note(job);
        bool wants_source = lx_job_get_params(job)->n > 1;
        waiter w = {i, -1, request, lx_job_first_pages(e, job),
                    claim_of(e, request, wants_source, e->queue[i].order)};
        consider(e, &room, &w, best);
    }
    return (best->queued >= 0 || best->run >= 0) && fits(e, best);
}

static void grant(lx_engine *e, const waiter *w)
{
    lx_count_seats(e, w->request, 1);
    if (w->run >= 0) {
        lx_pages_reserve(&e->pages, w->pages);
        e->runs[w->run].granted++;
        e->n_granted++;
        return;
    }
    lx_queued *q = &e->queue[w->queued];
    int32_t n = lx_job_get_params(q->job)->n;
    lx_count_sources(e, w->request, n > 1);
    lx_pages_reserve(&e->pages, lx_job_pages(e, q->job));
    e->admitted_order[e->n_admitted] = q->order;
    e->admitted[e->n_admitted++] = q->job;
    q->job = NULL;
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

static void close_gaps(lx_engine *e)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < e->n_queue; i++)
        if (e->queue[i].job != NULL)
            e->queue[kept++] = e->queue[i];
    e->n_queue = kept;
}

void lx_engine_admit(lx_engine *e, int64_t now)
{
    waiter first;
    int32_t to_come = 0; /* samples that admitted jobs will ask for */
    e->n_admitted = e->n_dropped = 0;
    drop_ended(e, now);
    while (e->n_queue + e->n_pending > e->n_granted + e->n_admitted && find_first(e, &first))
        grant(e, &first);
    for (int32_t i = 0; i < e->n_admitted; i++)
        to_come += lx_job_get_params(e->admitted[i])->n - 1;
    close_gaps(e);
    e->n_sure = 0;
    int32_t room = e->options.n_slots - e->n_seats - (e->n_pending - e->n_granted) - to_come;
    e->credit = room > 0 && e->n_queue == 0 ? room : 0;
    e->page_credit = atomic_load(&e->pages.left);
}
