/* The scheduler (see scheduler.h). */
#include "server/engine/scheduler.h"

enum { LEAST_SPARE = 64, MOST_SPARE = 256, KEPT_BACK = 8 };

/* --- a heap sort: no memory, and a known time --- */

static bool before(const lx_fair_item *a, const lx_fair_item *b)
{
    if (a->group != b->group)
        return a->group < b->group;
    if (a->tag != b->tag)
        return a->tag < b->tag;
    return a->order < b->order;
}

static void sift_down(lx_fair_item *items, int32_t n, int32_t i)
{
    lx_fair_item moved = items[i];
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&items[child], &items[child + 1]))
            child++;
        if (!before(&moved, &items[child]))
            break;
        items[i] = items[child];
    }
    items[i] = moved;
}

static void sort(lx_fair_item *items, int32_t n)
{
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(items, n, i);
    while (--n > 0) {
        lx_fair_item last = items[n];
        items[n] = items[0];
        items[0] = last;
        sift_down(items, n, 0);
    }
}

/* --- rows --- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Every sort but the first numbers what stands together: the i-th sample of a request, or of a
   client, is served when those before it have been. */
void lx_fair_rank(lx_fair_item *items, int32_t n, const lx_fair_clock *requests,
                  const lx_fair_clock *clients, uint64_t level)
{
    for (int32_t i = 0; i < n; i++) {
        items[i].group = items[i].request;
        items[i].tag = 0;
    }
    sort(items, n);
    for (int32_t i = 0, k = 0; i < n; i++) {
        lx_fair_item *it = &items[i];
        k = i > 0 && items[i - 1].request == it->request ? k + 1 : 0;
        it->group = it->client;
        it->tag = later(requests[it->request].served, clients[it->client].level) + (uint64_t)k;
    }
    sort(items, n);
    for (int32_t i = 0, k = 0; i < n; i++) {
        lx_fair_item *it = &items[i];
        const lx_fair_clock *c = &clients[it->client];
        k = i > 0 && items[i - 1].client == it->client ? k + 1 : 0;
        it->group = 0;
        it->tag = later(c->served, level) + (uint64_t)k * LX_FAIR_TURN / (uint64_t)c->weight;
    }
    sort(items, n);
}

static void move_clocks(const lx_fair_item *items, int32_t n, lx_fair_clock *requests,
                        lx_fair_clock *clients, uint64_t level)
{
    for (int32_t i = 0; i < n; i++) {
        lx_fair_clock *c = &clients[items[i].client], *r = &requests[items[i].request];
        c->served = later(c->served, level);
        r->served = later(r->served, c->level);
    }
    for (int32_t i = 0; i < n; i++) {
        lx_fair_clock *c = &clients[items[i].client];
        uint64_t turns = items[i].served;
        c->served += turns * LX_FAIR_TURN / (uint64_t)c->weight;
        requests[items[i].request].served += turns;
    }
}

/* The least clock of all who got less than they could take. They all began at the old level or
   later, so a level never goes back. */
void lx_fair_charge(const lx_fair_item *items, int32_t n, lx_fair_clock *requests,
                    lx_fair_clock *clients, uint64_t *level)
{
    uint64_t least = UINT64_MAX;
    move_clocks(items, n, requests, clients, *level);
    for (int32_t i = 0; i < n; i++) {
        if (!items[i].unserved)
            continue;
        lx_fair_clock *c = &clients[items[i].client];
        least = c->served < least ? c->served : least;
        c->level = UINT64_MAX;
    }
    for (int32_t i = 0; i < n; i++) {
        lx_fair_clock *c = &clients[items[i].client];
        uint64_t served = requests[items[i].request].served;
        if (items[i].unserved && served < c->level)
            c->level = served;
    }
    *level = least != UINT64_MAX ? least : *level;
}

/* Rows of the first n items, which are in the step. */
static int32_t give_rows(lx_fair_item *items, int32_t n, const lx_schedule_limits *limits)
{
    int32_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        items[i].rows = items[i].prompt_rows == 0 && total < limits->max_tokens;
        total += items[i].rows;
    }
    int32_t left = limits->max_tokens - total;
    if (total > 0 && left - total / 2 > limits->prompt_beside)
        left = total / 2 + limits->prompt_beside;
    for (int32_t i = 0; i < n && left > 0; i++) {
        int32_t most = left < limits->prompt_chunk ? left : limits->prompt_chunk;
        int32_t rows = items[i].prompt_rows < most ? items[i].prompt_rows : most;
        items[i].rows += rows;
        total += rows;
        left -= rows;
    }
    return total;
}

/* Puts decoding items in the places of prompts without rows; false: none was moved. In a step of
   prompts alone none is, because next to an item that decodes all would have fewer rows. */
static bool fill_places(lx_fair_item *items, int32_t n, int32_t n_first)
{
    bool decodes = false, moved = false;
    for (int32_t i = 0; i < n_first; i++)
        decodes |= items[i].prompt_rows == 0;
    for (int32_t i = 0, next = n_first; decodes && i < n_first; i++) {
        if (items[i].rows > 0)
            continue;
        while (next < n && items[next].prompt_rows > 0)
            next++;
        if (next == n)
            break;
        lx_fair_item mover = items[next];
        items[next++] = items[i];
        items[i] = mover;
        moved = true;
    }
    return moved;
}

int32_t lx_schedule(lx_fair_item *items, int32_t n, const lx_schedule_limits *limits)
{
    int32_t n_first = n < limits->max_items ? n : limits->max_items;
    for (int32_t i = n_first; i < n; i++)
        items[i].rows = 0;
    int32_t total = give_rows(items, n_first, limits);
    while (fill_places(items, n, n_first)) /* each time more items decode */
        total = give_rows(items, n_first, limits);
    return total;
}

/* --- slots --- */

int32_t lx_fair_spare(int32_t n_slots)
{
    return n_slots < LEAST_SPARE ? LEAST_SPARE : n_slots > MOST_SPARE ? MOST_SPARE : n_slots;
}

/* How much of `n` a client may use, by the number it has already. */
static int32_t part(int32_t n, int32_t of_client, int32_t of_request)
{
    return of_client == 0 ? n : of_request == 0 ? n * 3 / 4 : n / 2;
}

static int32_t share(const lx_fair_claim *c, const lx_fair_room *room)
{
    int64_t of_client = (int64_t)room->n_slots * c->client_weight / room->total_weight;
    int64_t of_request = of_client / c->client_requests;
    return of_request < 1 ? 1 : (int32_t)of_request;
}

bool lx_fair_may(const lx_fair_claim *c, const lx_fair_room *room)
{
    if (c->wants_prompt_slot &&
        room->n_prompt_slots >=
            part(room->n_spare / 2, c->client_prompt_slots, c->request_prompt_slots))
        return false;
    if (room->n_active < room->n_slots)
        return true;
    int32_t used = room->n_active + room->n_prompt_slots - room->n_slots;
    return c->request_active < share(c, room) &&
           used + c->wants_prompt_slot < part(room->n_spare, c->client_active, c->request_active);
}

static int32_t kept_back(int32_t n_pages)
{
    return n_pages / KEPT_BACK;
}

bool lx_fair_is_large(int32_t n_pages, int32_t pages_of_a_sample)
{
    int32_t small = kept_back(n_pages) / 2;
    return pages_of_a_sample > (small > 1 ? small : 1);
}

int32_t lx_fair_most_pages(int32_t n_pages)
{
    return n_pages - kept_back(n_pages);
}

bool lx_fair_has_pages(const lx_fair_claim *c, const lx_fair_room *room, bool passes)
{
    if (c->pages > room->pages_left)
        return false;
    int32_t large = room->n_pages - room->pages_left - room->small_pages;
    int32_t for_others = c->has_key && c->client_pages > 0 ? kept_back(room->n_pages) : 0;
    if (c->large)
        return !passes && large + c->pages <= lx_fair_most_pages(room->n_pages) - for_others;
    return !passes || room->small_pages + c->pages <= kept_back(room->n_pages);
}

bool lx_fair_before(const lx_fair_claim *a, const lx_fair_claim *b)
{
    int64_t of_a = a->client_weight, of_b = b->client_weight;
    int64_t less = a->client_pages * of_b - b->client_pages * of_a;
    if (less == 0)
        less = (a->client_active + 1) * of_b - (b->client_active + 1) * of_a;
    if (less != 0)
        return less < 0;
    if (a->request_active != b->request_active)
        return a->request_active < b->request_active;
    return a->order < b->order;
}
