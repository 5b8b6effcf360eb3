/*
 * The file of prompt states: which beginning of a prompt is found, by whom, and after a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/auth/keys.h"
#include "server/states/prefix_blob.h"
#include "server/states/prefix_store.h"
#include "tests/support/patience.h"
#include "tests/support/scratch.h"

enum { N = 200, MOST = 800, FLOATS = 1000 };

static char path[2048];
static int32_t ids[MOST * 2];
static float state[FLOATS];

static int set_up(void **unused)
{
    for (int32_t i = 0; i < MOST * 2; i++)
        ids[i] = i * 7 % 31;
    for (int32_t i = 0; i < FLOATS; i++)
        state[i] = (float)i;
    if (scratch_setup(unused) != 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s", scratch_path("a-prefixes.db"));
    return 0;
}

static lx_prefix_place *open_place(void)
{
    lx_prefix_place *p = NULL;
    assert_int_equal(lx_prefix_store_open(path, 1 << 20, &p, NULL), LX_OK);
    return p;
}

static lx_prefix_name name_of(const void *owner, const char *maker, int32_t rows)
{
    return (lx_prefix_name){
        .maker = maker, .width = 2, .key = {.owner = owner, .ids = ids, .n_rows = rows}};
}

static void count(void *context, bool ok)
{
    atomic_fetch_add((_Atomic int *)context, ok ? 1 : 100);
}

static int written_from(lx_prefix_place *p, const lx_prefix_name *name, int32_t base,
                        const float *from, size_t n)
{
    _Atomic int answers = 0;
    float *room = p->room(p, name, n);
    if (room == NULL)
        return 100;
    memcpy(room, from, n * sizeof *room);
    p->write(p, name, base, room, n, count, &answers);
    wait_until(atomic_load(&answers) > 0);
    return atomic_load(&answers);
}

static int written(lx_prefix_place *p, const lx_prefix_name *name, size_t n)
{
    return written_from(p, name, 0, state, n);
}

static lx_status read_floats(lx_prefix_place *p, const lx_prefix_name *name, float *to, size_t n)
{
    const lx_prefix_sizes sizes = {.fixed = n};
    return p->read(p, name, &sizes, to, NULL);
}

static void the_longest_beginning_is_found(void **unused)
{
    (void)unused;
    static float back[FLOATS];
    lx_keys *keys = NULL;
    const lx_key_limits none = {0};
    assert_int_equal(lx_keys_new(&none, &keys, NULL), LX_OK);
    assert_int_equal(lx_keys_add(keys, "alice", "ka", NULL), LX_OK);
    assert_int_equal(lx_keys_add(keys, "bob", "kb", NULL), LX_OK);
    const void *alice = lx_keys_find_plain(keys, "ka"), *bob = lx_keys_find_plain(keys, "kb");
    lx_prefix_place *p = open_place();
    const lx_prefix_name whole = name_of(alice, "m", N), half = name_of(alice, "m", N / 2);
    const lx_prefix_name others[] = {name_of(bob, "m", N), name_of(NULL, "m", N),
                                     name_of(alice, "n", N)};
    assert_int_equal(p->find(p, &whole), 0);
    for (int32_t rows = 50; rows <= N; rows += 75) {
        lx_prefix_name some = name_of(alice, "m", rows);
        assert_int_equal(written(p, &some, FLOATS), 1);
    }
    for (int again = 0; again < 2; again++) {
        assert_true(p->works(p));
        assert_int_equal(p->find(p, &whole), N);
        assert_int_equal(p->find(p, &half), 50);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            assert_int_equal(p->find(p, &others[i]), 0);
            assert_int_equal(read_floats(p, &others[i], back, FLOATS), LX_ERR_NOT_FOUND);
        }
        ids[150 * 2]++; /* another row after the first 150 */
        assert_int_equal(p->find(p, &whole), 125);
        ids[150 * 2]--;
        assert_int_equal(read_floats(p, &whole, back, FLOATS), LX_OK);
        assert_memory_equal(back, state, sizeof back);
        if (again == 0) { /* after a restart */
            lx_prefix_store_close(p);
            p = open_place();
        }
    }
    /* A state of another size is none, and is not found any more. */
    assert_int_equal(read_floats(p, &whole, back, FLOATS - 1), LX_ERR_NOT_FOUND);
    assert_int_equal(p->find(p, &whole), 125);
    lx_prefix_store_close(p);
    lx_keys_free(keys);
}

static void the_limit_drops_old_states(void **unused)
{
    (void)unused;
    lx_prefix_place *p = NULL;
    float back[1];
    assert_int_equal(lx_prefix_store_open(path, 3 * FLOATS * (int64_t)sizeof(float), &p, NULL),
                     LX_OK);
    for (int32_t rows = 101; rows <= 110; rows++) {
        lx_prefix_name some = name_of(NULL, "m", rows);
        assert_int_equal(written(p, &some, FLOATS / 2), 1);
    }
    const lx_prefix_name first = name_of(NULL, "m", 101), last = name_of(NULL, "m", 110);
    assert_int_equal(p->find(p, &last), 110);
    assert_int_equal(read_floats(p, &first, back, FLOATS / 2), LX_ERR_NOT_FOUND);
    assert_int_equal(p->find(p, &first), 0);
    assert_int_equal(written(p, &first, FLOATS), 1);
    const lx_prefix_name large = name_of(NULL, "n", N);
    float *much = p->room(p, &large, (size_t)4 * FLOATS);
    assert_non_null(much);
    memset(much, 0, 4 * sizeof state);
    _Atomic int answers = 0;
    p->write(p, &large, 0, much, (size_t)4 * FLOATS, count, &answers);
    wait_until(atomic_load(&answers) > 0);
    assert_int_equal(atomic_load(&answers), 100);
    much = p->room(p, &large, 1);
    assert_non_null(much);
    p->drop(p, &large, much);
    lx_prefix_store_close(p);
}

/* A state that grows: FIXED floats, and pages whose numbers say where they lie. */
enum { FIXED = 10, PAGE = 20, STEP = 100, STEPS = 8 };

static const lx_prefix_sizes growing = {FIXED, PAGE};

static void fill(float *of, int32_t rows)
{
    size_t n = lx_prefix_floats(&growing, 0, rows);
    for (size_t i = 0; i < n;
         i++) /* the fixed part and the page that is not full are the state's */
        of[i] =
            (float)i +
            (i < FIXED || i >= FIXED + (size_t)(rows / LX_PAGE_TOKENS) * PAGE ? (float)rows : 0.0f);
}

static int grow_to(lx_prefix_place *p, int32_t rows)
{
    static float all[FLOATS];
    const lx_prefix_name name = name_of(NULL, "g", rows), before = name_of(NULL, "g", rows - 1);
    int32_t base = p->find(p, &before);
    size_t skipped = (size_t)lx_prefix_first_page(base) * PAGE;
    fill(all, rows);
    memmove(all + FIXED, all + FIXED + skipped, sizeof all - (FIXED + skipped) * sizeof *all);
    return written_from(p, &name, base, all, lx_prefix_floats(&growing, base, rows));
}

static lx_status read_back(lx_prefix_place *p, int32_t rows)
{
    static float back[FLOATS], all[FLOATS];
    const lx_prefix_name name = name_of(NULL, "g", rows);
    memset(back, 0, sizeof back);
    lx_status st = p->read(p, &name, &growing, back, NULL);
    fill(all, rows);
    if (st == LX_OK)
        assert_memory_equal(back, all, lx_prefix_floats(&growing, 0, rows) * sizeof *back);
    return st;
}

static int64_t blob_bytes(int32_t rows)
{
    const lx_prefix_name name = name_of(NULL, "g", rows);
    int32_t base = rows > STEP ? rows - STEP : 0;
    return (int64_t)lx_prefix_blob_bytes(&name, lx_prefix_floats(&growing, base, rows));
}

static lx_prefix_place *open_limited(int64_t bytes)
{
    lx_prefix_place *p = NULL;
    assert_int_equal(lx_prefix_store_open(path, bytes, &p, NULL), LX_OK);
    return p;
}

static void states_that_grow_share_their_pages(void **unused)
{
    (void)unused;
    (void)unlink(path);
    lx_prefix_place *p = open_limited(1 << 20);
    for (int32_t rows = STEP; rows <= STEPS * STEP; rows += STEP)
        assert_int_equal(grow_to(p, rows), 1);
    for (int again = 0; again < 2; again++) {
        for (int32_t rows = STEPS * STEP; rows >= STEP; rows -= STEP)
            assert_int_equal(read_back(p, rows), LX_OK);
        lx_prefix_store_close(p);
        p = open_limited(1 << 20);
    }
    /* Other sizes of state are not mixed with these. */
    const lx_prefix_name name = name_of(NULL, "g", STEPS * STEP);
    float back[FLOATS];
    const lx_prefix_sizes other = {FIXED, PAGE - 1};
    assert_int_equal(p->read(p, &name, &other, back, NULL), LX_ERR_NOT_FOUND);
    lx_prefix_store_close(p);
}

/* Use of a state is use of its bases: what the limit drops is the branch that is not used. */
static void the_limit_keeps_the_chain_in_use(void **unused)
{
    (void)unused;
    (void)unlink(path);
    int64_t most = 0;
    for (int32_t rows = STEP; rows <= STEPS * STEP; rows += STEP)
        most += blob_bytes(rows);
    lx_prefix_place *p = open_limited(most);
    for (int32_t rows = STEP; rows < STEPS * STEP; rows += STEP)
        assert_int_equal(grow_to(p, rows), 1);
    const lx_prefix_name branch = name_of(NULL, "branch", 2 * STEP);
    assert_int_equal(written(p, &branch, 2), 1);
    assert_int_equal(grow_to(p, STEPS * STEP), 1); /* uses its chain, and does not fit */
    assert_int_equal(read_back(p, STEPS * STEP), LX_OK);
    assert_int_equal(read_floats(p, &branch, (float[2]){0}, 2), LX_ERR_NOT_FOUND);
    lx_prefix_store_close(p);
}

/* Without its base a state is lost. It is not found again, and can be written again. */
static void a_lost_base_costs_time_only(void **unused)
{
    (void)unused;
    (void)unlink(path);
    const lx_prefix_name all = name_of(NULL, "g", STEPS * STEP);
    lx_prefix_place *p = open_limited(1 << 20);
    for (int32_t rows = STEP; rows <= STEPS * STEP; rows += STEP)
        assert_int_equal(grow_to(p, rows), 1);
    lx_prefix_store_close(p);
    p = open_limited(blob_bytes(STEPS * STEP) * 3); /* drops the oldest when something is written */
    const lx_prefix_name other = name_of(NULL, "other", STEP);
    assert_int_equal(written(p, &other, 2), 1);
    assert_int_equal(p->find(p, &all), STEPS * STEP);
    assert_int_equal(read_back(p, STEPS * STEP), LX_ERR_NOT_FOUND);
    assert_true(p->find(p, &all) < STEPS * STEP);
    lx_prefix_store_close(p);
    p = open_limited(1 << 20);
    for (int32_t rows = 0; (rows = p->find(p, &all)) > 0;) {
        if (read_back(p, rows) == LX_OK)
            break;
        assert_true(p->find(p, &all) < rows);
    }
    for (int32_t rows = STEP; rows <= STEPS * STEP; rows += STEP)
        assert_int_equal(grow_to(p, rows), 1);
    assert_int_equal(read_back(p, STEPS * STEP), LX_OK);
    lx_prefix_store_close(p);
}

static void equal_lengths_are_told_apart(void **unused)
{
    enum { TEXTS = 100 };
    (void)unused;
    (void)unlink(path);
    char makers[TEXTS][8];
    lx_prefix_place *p = open_place();
    for (int i = 0; i < TEXTS; i++) {
        (void)snprintf(makers[i], sizeof makers[i], "%d", i);
        const lx_prefix_name name = name_of(NULL, makers[i], N - i % 2);
        assert_int_equal(written(p, &name, 1), 1);
    }
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < TEXTS; i++) {
            const lx_prefix_name name = name_of(NULL, makers[i], N);
            assert_int_equal(p->find(p, &name), N - i % 2);
        }
        const lx_prefix_name none = name_of(NULL, "none", N);
        assert_int_equal(p->find(p, &none), 0);
        lx_prefix_store_close(p);
        p = open_place();
    }
    lx_prefix_store_close(p);
}

static void a_file_that_is_none_is_left_alone(void **unused)
{
    (void)unused;
    (void)unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("no database, but long enough for the head of one: 0123456789", f) >= 0);
    assert_int_equal(fclose(f), 0);
    lx_prefix_place *p = open_place();
    const lx_prefix_name name = name_of(NULL, "m", N);
    float back[1];
    assert_false(p->works(p));
    assert_int_equal(p->find(p, &name), 0);
    assert_int_equal(written(p, &name, FLOATS), 100);
    assert_int_equal(read_floats(p, &name, back, 1), LX_ERR_UNAVAILABLE);
    lx_prefix_store_close(p);
    char *beside = lx_prefix_store_path("/var/a.db");
    assert_string_equal(beside, "/var/a-prefixes.db");
    free(beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_beginning_is_found),
        cmocka_unit_test(the_limit_drops_old_states),
        cmocka_unit_test(states_that_grow_share_their_pages),
        cmocka_unit_test(the_limit_keeps_the_chain_in_use),
        cmocka_unit_test(a_lost_base_costs_time_only),
        cmocka_unit_test(equal_lengths_are_told_apart),
        cmocka_unit_test(a_file_that_is_none_is_left_alone),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_teardown);
}
