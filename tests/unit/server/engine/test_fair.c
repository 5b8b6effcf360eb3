/*
 * Fair sharing alone: turns by weight and by request over many steps, no client starves, waiting
 * less is no credit; who may have a slot, and who is first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/engine/scheduler.h"

enum { MAX = 64, PARTIES = 8 };
#ifdef LX_SANITIZE_ADDRESS /* of shares a sanitizer says nothing, and it takes ten times as long   \
                            */
enum { CROWDS = 6 };
#else
enum { CROWDS = 60 };
#endif

/* A world of samples that always have something to compute. */
typedef struct world {
    lx_fair_clock clients[PARTIES], requests[PARTIES];
    int32_t client_of[PARTIES]; /* of each request */
    lx_fair_item items[MAX];
    int32_t request_of[MAX]; /* of each sample */
    bool gone[MAX];
    int64_t turns[PARTIES]; /* of each request */
    int64_t idle[MAX];      /* steps since a sample's newest turn */
    int32_t n_samples;
    uint64_t level;
} world;

static void add(world *w, int32_t client, int32_t weight, int32_t request, int32_t n)
{
    w->clients[client].weight = weight;
    w->client_of[request] = client;
    for (int32_t i = 0; i < n; i++)
        w->request_of[w->n_samples++] = request;
}

static void step(world *w, int32_t n_slots)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_samples; i++) {
        int32_t r = w->request_of[i];
        if (!w->gone[i])
            w->items[n++] = (lx_fair_item){
                .client = w->client_of[r], .request = r, .slot = i, .order = (uint64_t)i};
    }
    lx_fair_rank(w->items, n, w->requests, w->clients, w->level);
    for (int32_t i = 0; i < n; i++) {
        lx_fair_item *it = &w->items[i];
        it->served = i < n_slots;
        it->unserved = !it->served;
        w->turns[it->request] += it->served;
        w->idle[it->slot] = it->served ? 0 : w->idle[it->slot] + 1;
    }
    uint64_t before = w->level;
    lx_fair_charge(w->items, n, w->requests, w->clients, &w->level);
    assert_true(w->level >= before);
}

static void near(int64_t got, double wanted)
{
    if ((double)got < wanted * 0.99 - 2 || (double)got > wanted * 1.01 + 2)
        fail_msg("%lld turns, not about %.0f", (long long)got, wanted);
}

static void clients_share_by_weight(void **state)
{
    (void)state;
    world w = {0};
    add(&w, 0, 1, 0, 20);
    add(&w, 1, 3, 1, 20);
    add(&w, 2, 6, 2, 20);
    for (int32_t i = 0; i < 1000; i++)
        step(&w, 10);
    near(w.turns[0], 1000);
    near(w.turns[1], 3000);
    near(w.turns[2], 6000);
}

/* This holds for any number of requests of a client, and of samples of a request. */
static void requests_of_a_client_share_alike(void **state)
{
    (void)state;
    world w = {0};
    add(&w, 0, 1, 0, 10);
    add(&w, 0, 1, 1, 30);
    add(&w, 1, 1, 2, 8);
    for (int32_t i = 0; i < 1000; i++)
        step(&w, 8);
    near(w.turns[0], 2000);
    near(w.turns[1], 2000);
    near(w.turns[2], 4000);
}

/* The unused share of a client goes to other clients by their weights, without credit for later. */
static void who_wants_less_gives_the_rest(void **state)
{
    (void)state;
    world w = {0};
    add(&w, 0, 1, 0, 1);
    add(&w, 1, 1, 1, 20);
    add(&w, 2, 2, 2, 20);
    for (int32_t i = 0; i < 1000; i++)
        step(&w, 10);
    near(w.turns[0], 1000); /* a turn in every step: it has no more to compute */
    near(w.turns[1], 3000);
    near(w.turns[2], 6000);
    memset(w.turns, 0, sizeof w.turns);
    add(&w, 0, 1, 3, 20); /* another request of the client that wanted little */
    for (int32_t i = 0; i < 20; i++)
        step(&w, 10);
    near(w.turns[0] + w.turns[3], 50);
    near(w.turns[1], 50);
    near(w.turns[2], 100);
}

/* A latecomer runs first, in the next step, and from then on gets its share, but not the share that
   it missed.
 */
static void who_comes_late_is_served_at_once(void **state)
{
    (void)state;
    for (int32_t n_slots = 1; n_slots <= 16; n_slots *= 4) {
        world w = {0};
        for (int32_t r = 0; r < 4; r++)
            add(&w, 0, 1, r, 8);
        for (int32_t i = 0; i < 500; i++)
            step(&w, n_slots);
        add(&w, 0, 1, 4, 1);
        int32_t waited = 0;
        for (; w.turns[4] == 0; waited++)
            step(&w, n_slots);
        assert_in_range(waited, 1, 4 / n_slots + 1);
        memset(w.turns, 0, sizeof w.turns);
        for (int32_t i = 0; i < 100; i++)
            step(&w, n_slots);
        near(w.turns[4], n_slots >= 5 ? 100 : 100 * n_slots / 5.0);
    }
}

static uint32_t random_below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % n;
}

/* Any crowd: each request has a turn within a time that its weight and the crowd give, no slot is
   left empty, and none is given twice. */
static void nobody_starves(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int32_t round = 0; round < CROWDS; round++) {
        world w = {0};
        int32_t n_slots = 1 + (int32_t)random_below(&seed, 12), last[PARTIES] = {0}, weight[3];
        for (int32_t c = 0; c < 3; c++)
            weight[c] = 1 + (int32_t)random_below(&seed, 100);
        for (int32_t r = 0; r < PARTIES; r++) {
            int32_t c = (int32_t)random_below(&seed, 3);
            add(&w, c, weight[c], r, 1 + (int32_t)random_below(&seed, 7));
        }
        for (int32_t i = 1; i <= 3000; i++) {
            int64_t before[PARTIES], all = 0;
            memcpy(before, w.turns, sizeof before);
            step(&w, n_slots);
            for (int32_t r = 0; r < PARTIES; r++) {
                all += w.turns[r] - before[r];
                last[r] = w.turns[r] > before[r] ? i : last[r];
                /* the least share: of 3 clients with at most 201 : 1, of 8 requests */
                assert_true(i - last[r] <= 201 * PARTIES);
            }
            assert_int_equal(all, n_slots < w.n_samples ? n_slots : w.n_samples);
        }
    }
}

/* Within a request the oldest samples are served to their end. */
static void the_oldest_samples_of_a_request_go_on(void **state)
{
    (void)state;
    world w = {0};
    add(&w, 0, 1, 0, 6);
    for (int32_t i = 0; i < 10; i++)
        step(&w, 2);
    for (int32_t i = 0; i < 6; i++)
        assert_int_equal(w.idle[i], i < 2 ? 0 : 10);
    w.gone[0] = true;
    step(&w, 2);
    assert_int_equal(w.idle[2], 0);
}

/* --- slots --- */

/* Of one client with 2 requests, whose slots are all taken. */
static const lx_fair_room full = {
    .n_slots = 64, .n_spare = 64, .n_active = 64, .n_prompt_slots = 1, .total_weight = 1};
static const lx_fair_claim claim = {.client_weight = 1, .client_requests = 2, .client_active = 64};

static void a_free_slot_is_for_everybody(void **state)
{
    (void)state;
    lx_fair_claim c = claim;
    lx_fair_room room = full;
    c.request_active = 63;
    assert_false(lx_fair_may(&c, &room));
    room.n_active = 63;
    assert_true(lx_fair_may(&c, &room));
}

static void beyond_the_slots_a_request_may_up_to_its_share(void **state)
{
    (void)state;
    lx_fair_claim c = claim;
    lx_fair_room room = full;
    for (c.request_active = 0; lx_fair_may(&c, &room); c.request_active++)
        room.n_active++;
    assert_int_equal(c.request_active, 31); /* 31 and the prompt slot: half of the spare slots */
    c.request_active = 0;
    assert_true(lx_fair_may(&c, &room)); /* another request's first */
    c.client_requests = 1000;
    assert_true(lx_fair_may(&c, &room));
    c.request_active = 1; /* its share is one */
    assert_false(lx_fair_may(&c, &room));
}

/* The more one has, the less of the spare slots it may take; the last ones are for new clients. */
static void room_is_left_for_who_comes_late(void **state)
{
    (void)state;
    lx_fair_claim more = claim, request = claim, client = claim;
    more.request_active = 1;
    client.client_active = 0;
    int32_t last[3] = {-1, -1, -1};
    for (int32_t n = 0; n <= 64; n++) {
        lx_fair_room room = full;
        room.n_prompt_slots = 0;
        room.n_active = room.n_slots + n;
        last[0] = lx_fair_may(&more, &room) ? n : last[0];
        last[1] = lx_fair_may(&request, &room) ? n : last[1];
        last[2] = lx_fair_may(&client, &room) ? n : last[2];
    }
    assert_int_equal(last[0], 31);
    assert_int_equal(last[1], 47);
    assert_int_equal(last[2], 63);
}

/* Shared prompts never take so many spare slots that a free slot finds none. */
static void prompt_slots_leave_slots_for_samples(void **state)
{
    (void)state;
    for (int32_t n_slots = 1; n_slots < 3000; n_slots = n_slots * 3 / 2 + 1) {
        lx_fair_room room = {
            .n_slots = n_slots, .n_spare = lx_fair_spare(n_slots), .total_weight = 1};
        lx_fair_claim c = {.client_weight = 1, .client_requests = 1, .wants_prompt_slot = true};
        assert_in_range(room.n_spare, 64, 256);
        while (lx_fair_may(&c, &room))
            room.n_prompt_slots++;
        assert_int_equal(room.n_prompt_slots, room.n_spare / 2);
        room.n_prompt_slots = 0;
        c.client_prompt_slots = c.request_prompt_slots = 1;
        while (lx_fair_may(&c, &room))
            room.n_prompt_slots++;
        assert_int_equal(room.n_prompt_slots, room.n_spare / 4);
    }
}

static void who_has_less_is_first(void **state)
{
    (void)state;
    lx_fair_claim a = {.client_weight = 1, .client_active = 3, .request_active = 3, .order = 1};
    lx_fair_claim b = {.client_weight = 2, .client_active = 6, .request_active = 6, .order = 2};
    assert_true(lx_fair_before(&b, &a)); /* 7 of weight 2 are less than 4 of weight 1 */
    b.client_active = 8;
    assert_true(lx_fair_before(&a, &b));
    b = a;
    b.order = 2;
    assert_true(lx_fair_before(&a, &b));
    assert_false(lx_fair_before(&b, &a));
    b.request_active = 0;
    assert_true(lx_fair_before(&b, &a));
}

/* Of clients with as many active slots the one with fewer pages by weight is first. */
static void who_has_fewer_pages_is_first(void **state)
{
    (void)state;
    lx_fair_claim a = {.client_weight = 1, .client_pages = 10, .order = 1};
    lx_fair_claim b = {.client_weight = 1, .client_pages = 9, .client_active = 5, .order = 2};
    assert_true(lx_fair_before(&b, &a));
    b.client_pages = 11;
    assert_true(lx_fair_before(&a, &b));
    b.client_weight = 2;
    assert_true(lx_fair_before(&b, &a));
}

static void large_runs_leave_pages_for_small_ones(void **state)
{
    (void)state;
    for (int32_t n = 1; n < 5000; n = n * 3 / 2 + 1) {
        lx_fair_room room = {.n_pages = n, .pages_left = n};
        lx_fair_claim large = {.pages = n / 16 + 1, .large = true};
        int32_t before = n;
        for (; lx_fair_has_pages(&large, &room, false); before = room.pages_left)
            room.pages_left -= large.pages;
        assert_in_range(room.pages_left, n / 8, n / 8 + large.pages);
        assert_int_equal(before, room.pages_left);
        lx_fair_claim small = {.pages = n < 16 ? 0 : n / 16};
        assert_false(lx_fair_is_large(n, small.pages));
        assert_true(lx_fair_has_pages(&small, &room, true));
        assert_true(lx_fair_is_large(n, n / 16 + 2));
    }
}

/* The key that has pages leaves an eighth to a second key; without keys no part is left free. */
static void large_runs_leave_pages_for_other_keys(void **state)
{
    (void)state;
    lx_fair_room room = {.n_pages = 800, .pages_left = 200};
    lx_fair_claim more = {.pages = 100, .client_pages = 600, .large = true, .has_key = true};
    lx_fair_claim first = more, alone = more;
    first.client_pages = 0;
    alone.has_key = false;
    assert_false(lx_fair_has_pages(&more, &room, false));
    assert_true(lx_fair_has_pages(&first, &room, false));
    assert_true(lx_fair_has_pages(&alone, &room, false));
    room.pages_left = 300;
    assert_true(lx_fair_has_pages(&more, &room, false));
}

/* Runs that pass a large one get an eighth of the pool: the waiting large one gets the rest in the
   end. */
static void small_runs_pass_a_large_one_within_their_part(void **state)
{
    (void)state;
    lx_fair_room room = {.n_pages = 800, .pages_left = 800};
    lx_fair_claim small = {.pages = 10}, large = {.pages = 700, .large = true};
    while (lx_fair_has_pages(&small, &room, true)) {
        room.pages_left -= small.pages;
        room.small_pages += small.pages;
    }
    assert_int_equal(room.small_pages, 100);
    assert_true(lx_fair_has_pages(&small, &room, false)); /* where no other waits */
    assert_true(lx_fair_has_pages(&large, &room, false));
    assert_false(lx_fair_has_pages(&large, &room, true));
    assert_int_equal(lx_fair_most_pages(800), 700);
    assert_int_equal(lx_fair_most_pages(7), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_fewer_pages_is_first),
        cmocka_unit_test(large_runs_leave_pages_for_small_ones),
        cmocka_unit_test(large_runs_leave_pages_for_other_keys),
        cmocka_unit_test(small_runs_pass_a_large_one_within_their_part),
        cmocka_unit_test(clients_share_by_weight),
        cmocka_unit_test(requests_of_a_client_share_alike),
        cmocka_unit_test(who_wants_less_gives_the_rest),
        cmocka_unit_test(who_comes_late_is_served_at_once),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(the_oldest_samples_of_a_request_go_on),
        cmocka_unit_test(a_free_slot_is_for_everybody),
        cmocka_unit_test(beyond_the_slots_a_request_may_up_to_its_share),
        cmocka_unit_test(room_is_left_for_who_comes_late),
        cmocka_unit_test(prompt_slots_leave_slots_for_samples),
        cmocka_unit_test(who_has_less_is_first),
    };
    return cmocka_run_group_tests_name("fair", tests, NULL, NULL);
}
