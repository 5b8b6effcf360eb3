/* The scheduler alone: which rows go into a step, from hand-written cases and as laws over random
   ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/engine/scheduler.h"

enum { MAX = 64 };

typedef enum work { IDLE, COMPUTES_PROMPT, DECODES } work;

typedef struct slot {
    work work;
    int32_t rows_left; /* of its prompt */
    uint64_t order;    /* of its prompt, smaller is older */
} slot;

#define FREE                                                                                       \
    {                                                                                              \
        IDLE, 0, 0                                                                                 \
    }
#define DECODE                                                                                     \
    {                                                                                              \
        DECODES, 0, 0                                                                              \
    }
#define PROMPT(rows, order)                                                                        \
    {                                                                                              \
        COMPUTES_PROMPT, rows, order                                                               \
    }

typedef struct example {
    const char *name;
    int32_t n_slots, max_tokens, chunk, beside;
    slot slots[6];
    int32_t rows[6];
} example;

static const example examples[] = {
    {"nothing to do", 3, 8, 4, 99, {FREE, FREE, FREE}, {0, 0, 0}},
    {"one row a decoding slot", 4, 8, 4, 99, {DECODE, FREE, DECODE, DECODE}, {1, 0, 1, 1}},
    {"a short prompt in one step", 2, 8, 8, 99, {PROMPT(6, 0), FREE}, {6, 0}},
    {"a long prompt in chunks", 2, 8, 4, 99, {PROMPT(100, 0), FREE}, {4, 0}},
    {"the oldest prompt first", 3, 8, 8, 99, {PROMPT(7, 5), PROMPT(6, 2), PROMPT(5, 9)}, {2, 6, 0}},
    {"decoding goes before older prompts", 3, 4, 8, 99, {PROMPT(9, 0), DECODE, DECODE}, {2, 1, 1}},
    {"the budget is left to the next prompt",
     3,
     9,
     3,
     99,
     {PROMPT(9, 0), PROMPT(9, 1), PROMPT(9, 2)},
     {3, 3, 3}},
    {"a full budget of decoding slots", 3, 3, 8, 99, {DECODE, DECODE, DECODE}, {1, 1, 1}},
    {"large arrival numbers",
     2,
     4,
     4,
     99,
     {PROMPT(4, UINT64_MAX), PROMPT(4, UINT64_MAX - 1)},
     {0, 4}},
    {"next to streams half as many prompt rows and some",
     4,
     50,
     9,
     2,
     {DECODE, PROMPT(30, 1), DECODE, PROMPT(30, 0)},
     {1, 0, 1, 3}},
    {"next to streams at least one", 2, 50, 9, 1, {DECODE, PROMPT(30, 0)}, {1, 1}},
    {"alone whole chunks", 2, 50, 9, 0, {FREE, PROMPT(30, 0)}, {0, 9}},
};

/* Schedules the slots that have rows, older prompts first; rows[n], the sum is returned. */
static int32_t schedule(const slot *slots, int32_t n, const lx_schedule_limits *limits,
                        int32_t *rows)
{
    lx_fair_item items[MAX];
    int32_t n_items = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t at = n_items;
        rows[i] = 0;
        if (slots[i].work == IDLE)
            continue;
        for (; at > 0 && items[at - 1].order > slots[i].order; at--)
            items[at] = items[at - 1];
        items[at] = (lx_fair_item){
            .slot = i, .prompt_rows = slots[i].rows_left, .order = slots[i].order, .rows = -1};
        n_items++;
    }
    int32_t total = lx_schedule(items, n_items, limits);
    for (int32_t i = 0; i < n_items; i++)
        rows[items[i].slot] = items[i].rows;
    return total;
}

static void follows_the_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *c = &examples[i];
        lx_schedule_limits limits = {MAX, c->max_tokens, c->chunk, c->beside};
        int32_t rows[6], sum = 0;
        int32_t total = schedule(c->slots, c->n_slots, &limits, rows);
        for (int32_t k = 0; k < c->n_slots; k++) {
            if (rows[k] != c->rows[k])
                fail_msg("%s: slot %d got %d rows, not %d", c->name, k, rows[k], c->rows[k]);
            sum += rows[k];
        }
        assert_int_equal(total, sum);
    }
}

static uint32_t random_below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % n;
}

static void make_slots(uint64_t *seed, slot *slots, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        slots[i] = (slot){.work = (work)random_below(seed, 3)};
        if (slots[i].work == COMPUTES_PROMPT) {
            slots[i].rows_left = 1 + (int32_t)random_below(seed, 90);
            slots[i].order = (uint64_t)random_below(seed, 1000) * MAX + (uint64_t)i;
        }
    }
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Every prompt that got less than it could take is the last one served: all younger got nothing. */
static void check_laws(const slot *slots, int32_t n, const lx_schedule_limits *limits,
                       const int32_t *rows, int32_t total)
{
    int32_t sum = 0, busy = 0, n_decode = 0;
    for (int32_t i = 0; i < n; i++)
        n_decode += slots[i].work == DECODES;
    int32_t limit = limits->max_tokens;
    if (n_decode > 0)
        limit = smaller(limit, n_decode + n_decode / 2 + limits->prompt_beside);
    for (int32_t i = 0; i < n; i++) {
        sum += rows[i];
        busy += slots[i].work != IDLE;
        if (slots[i].work == IDLE)
            assert_int_equal(rows[i], 0);
        if (slots[i].work == DECODES)
            assert_int_equal(rows[i], 1);
        if (slots[i].work != COMPUTES_PROMPT)
            continue;
        int32_t most = smaller(slots[i].rows_left, limits->prompt_chunk);
        assert_in_range(rows[i], 0, most);
        for (int32_t k = 0; k < n && rows[i] < most; k++) {
            if (slots[k].work == COMPUTES_PROMPT && slots[k].order > slots[i].order)
                assert_int_equal(rows[k], 0);
        }
        if (rows[i] < most)
            assert_int_equal(total, limit);
    }
    assert_int_equal(total, sum);
    assert_true(total <= limit);
    assert_int_equal(total > 0, busy > 0);
}

static void keeps_its_laws_for_random_slots(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int32_t round = 0; round < 20000; round++) {
        slot slots[MAX];
        int32_t rows[MAX], n = 1 + (int32_t)random_below(&seed, MAX);
        lx_schedule_limits limits = {n, n + (int32_t)random_below(&seed, 200),
                                     1 + (int32_t)random_below(&seed, 70),
                                     1 + (int32_t)random_below(&seed, 40)};
        make_slots(&seed, slots, n);
        check_laws(slots, n, &limits, rows, schedule(slots, n, &limits, rows));
    }
}

/* However many slots decode, a waiting prompt is computed in a known number of steps. */
static void a_prompt_is_never_starved(void **state)
{
    (void)state;
    slot slots[MAX];
    for (int32_t i = 0; i < MAX; i++)
        slots[i] = (slot)DECODE;
    slots[10] = (slot)PROMPT(33, 0);
    lx_schedule_limits limits = {MAX, MAX, 16, 1}; /* one row is left for the prompt */
    int32_t rows[MAX], steps = 0;
    for (; slots[10].rows_left > 0; steps++) {
        (void)schedule(slots, MAX, &limits, rows);
        slots[10].rows_left -= rows[10];
        assert_true(steps < 34);
    }
    assert_int_equal(steps, 33);
}

/* --- more items than places --- */

static int32_t n_with_rows(const lx_fair_item *items, int32_t n)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++)
        count += items[i].rows > 0;
    return count;
}

/* Four places. Next to one item that decodes the first prompt gets the only row for prompts, so the
   places of the other two go to items that decode, and with these the prompt gets two rows. */
static void a_prompt_without_rows_gives_its_place(void **state)
{
    (void)state;
    static const int32_t prompt_rows[8] = {30, 30, 30, 0, 30, 0, 0, 0};
    static const int32_t rows[8] = {2, 0, 0, 1, 0, 1, 1, 0};
    const lx_schedule_limits limits = {4, 50, 9, 1};
    lx_fair_item items[8];
    for (int32_t i = 0; i < 8; i++)
        items[i] = (lx_fair_item){.slot = i, .prompt_rows = prompt_rows[i], .rows = -1};
    assert_int_equal(lx_schedule(items, 8, &limits), 5);
    for (int32_t i = 0; i < 8; i++)
        assert_int_equal(items[i].rows, rows[items[i].slot]);
}

/* In a step of prompts alone they keep all of its rows. */
static void prompts_alone_keep_their_rows(void **state)
{
    (void)state;
    const lx_schedule_limits limits = {2, 9, 9, 1};
    lx_fair_item items[3] = {{.prompt_rows = 30}, {.prompt_rows = 30}, {.prompt_rows = 0}};
    assert_int_equal(lx_schedule(items, 3, &limits), 9);
    assert_int_equal(items[0].rows, 9);
    assert_int_equal(n_with_rows(items, 3), 1);
}

/* No place lies idle while an item that decodes waits, unless the step has prompts alone; and of
   the items that decode the first ones are in the step. */
static void no_place_lies_idle(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int32_t round = 0; round < 20000; round++) {
        int32_t n = 1 + (int32_t)random_below(&seed, MAX);
        int32_t places = 1 + (int32_t)random_below(&seed, MAX);
        const lx_schedule_limits limits = {places, places + (int32_t)random_below(&seed, 200),
                                           1 + (int32_t)random_below(&seed, 70),
                                           1 + (int32_t)random_below(&seed, 40)};
        lx_fair_item items[MAX];
        int32_t waiting = MAX, newest = -1, n_decode = 0, sum = 0;
        for (int32_t i = 0; i < n; i++) {
            bool prompt = random_below(&seed, 2) == 1;
            int32_t rows = prompt ? 1 + (int32_t)random_below(&seed, 90) : 0;
            items[i] = (lx_fair_item){.slot = i, .prompt_rows = rows, .rows = -1};
        }
        int32_t total = lx_schedule(items, n, &limits);
        for (int32_t i = 0; i < n; i++) {
            const lx_fair_item *it = &items[i];
            bool decodes = it->prompt_rows == 0;
            sum += it->rows;
            n_decode += decodes && it->rows > 0;
            newest = decodes && it->rows > 0 && it->slot > newest ? it->slot : newest;
            waiting = decodes && it->rows == 0 && it->slot < waiting ? it->slot : waiting;
        }
        assert_int_equal(total, sum);
        assert_in_range(total, 1, limits.max_tokens);
        assert_true(n_with_rows(items, n) <= places);
        assert_true(newest < waiting);
        if (n_decode > 0 && waiting < MAX)
            assert_int_equal(n_with_rows(items, n), places);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_examples),
        cmocka_unit_test(keeps_its_laws_for_random_slots),
        cmocka_unit_test(a_prompt_is_never_starved),
        cmocka_unit_test(a_prompt_without_rows_gives_its_place),
        cmocka_unit_test(prompts_alone_keep_their_rows),
        cmocka_unit_test(no_place_lies_idle),
    };
    return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
