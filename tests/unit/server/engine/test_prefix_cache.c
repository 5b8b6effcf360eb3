/*
 * The index of kept prefixes compared with a slow one that keeps all rows, and the engine that uses
 * it: an answer must not depend on the kept prefixes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/engine/prefix_cache.h"
#include "tests/support/rig.h"

enum { PLACES = 12, WIDTH = 2, LONGEST = 6, TRIES = 20000 };

typedef struct kept {
    const void *owner;
    int32_t ids[LONGEST * WIDTH], n, used;
} kept;

static int32_t alike(const kept *k, const void *owner, const int32_t *ids, int32_t n)
{
    int32_t i = 0;
    if (k->owner != owner)
        return 0;
    while (i < k->n && i < n &&
           memcmp(k->ids + (ptrdiff_t)i * WIDTH, ids + (ptrdiff_t)i * WIDTH, WIDTH * sizeof *ids) ==
               0)
        i++;
    return i;
}

/* The slot of the longest prefix, -1; *shared as in lx_prefix. */
static int32_t slow_find(const kept *all, const void *owner, const int32_t *ids, int32_t n,
                         int32_t *shared)
{
    int32_t best = -1;
    *shared = 0;
    for (int32_t i = 0; i < PLACES; i++) {
        int32_t same = alike(&all[i], owner, ids, n);
        *shared = same > *shared ? same : *shared;
        if (all[i].n > 0 && same == all[i].n && all[i].owner == owner &&
            (best < 0 || all[i].n > all[best].n))
            best = i;
    }
    return best;
}

/* Rows of all[i] beyond its longest kept prefix. */
static int32_t alone(const kept *all, int32_t i)
{
    int32_t covered = 0;
    for (int32_t k = 0; k < PLACES; k++) {
        bool shorter = k != i && all[k].n < all[i].n && all[k].n > covered;
        if (shorter && alike(&all[i], all[k].owner, all[k].ids, all[k].n) == all[k].n)
            covered = all[k].n;
    }
    return all[i].n - covered;
}

/* Whose loss costs least; `now` is the time of the last use of any. */
static int32_t least_missed(const kept *all, int32_t now)
{
    int32_t least = 0;
    double best = 1e30;
    for (int32_t i = 0; i < PLACES; i++) {
        double cost = now > all[i].used ? (double)alone(all, i) / (now - all[i].used) : 1e29;
        bool older = all[i].used < all[least].used;
        if (cost < best - 1e-12 || (cost < best + 1e-12 && older)) {
            least = i;
            best = cost;
        }
    }
    return least;
}

static const char owners[2];

static lx_prefix_key key(const int32_t *ids, int32_t n)
{
    return (lx_prefix_key){.ids = ids, .n_rows = n};
}

static void finds_what_a_slow_search_finds(void **state)
{
    (void)state;
    kept all[PLACES] = {0};
    lx_prefix_cache *c = NULL;
    assert_int_equal(lx_prefix_cache_new(PLACES, WIDTH, &c, NULL), LX_OK);
    uint32_t random = 1;
    int32_t n_found = 0, n_kept = 0, clock = 0;
    for (int32_t time = 1; time <= TRIES; time++) {
        int32_t ids[LONGEST * WIDTH], shared = 0;
        for (int32_t i = 0; i < LONGEST * WIDTH; i++) /* negative ones too: bytes, not numbers */
            ids[i] = (int32_t)((random = random * 1664525U + 1013904223U) >> 30) - 1;
        int32_t n = 1 + (int32_t)((random >> 16) % LONGEST);
        const void *owner = random & (1 << 20) ? owners + (random >> 21 & 1) : NULL;
        lx_prefix_key wanted = {.owner = owner, .ids = ids, .n_rows = n};
        int32_t slot = slow_find(all, owner, ids, n, &shared);
        lx_prefix found = lx_prefix_cache_find(c, wanted);
        assert_int_equal(found.slot, slot);
        assert_int_equal(found.rows, slot >= 0 ? all[slot].n : 0);
        assert_int_equal(found.shared, shared);
        if (slot >= 0)
            all[slot].used = ++clock;
        n_found += slot >= 0;
        int32_t added = lx_prefix_cache_add(c, wanted);
        assert_int_equal(added >= 0, slot < 0 || all[slot].n < n);
        if (added < 0) {
            all[slot].used = ++clock;
            continue;
        }
        assert_int_equal(added, n_kept < PLACES ? n_kept : least_missed(all, clock));
        n_kept++;
        all[added].owner = owner;
        memcpy(all[added].ids, ids, sizeof ids);
        all[added].n = n;
        all[added].used = ++clock;
    }
    assert_int_equal(lx_prefix_cache_count(c), PLACES);
    assert_true(n_found > TRIES / 50);
    lx_prefix_cache_free(c);
}

static void what_is_missed_least_is_forgotten(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 2, 3, 4}, other[] = {5, 6, 7};
    lx_prefix_cache *c = NULL;
    assert_int_equal(lx_prefix_cache_new(3, 1, &c, NULL), LX_OK);
    assert_int_equal(lx_prefix_cache_forget(c), -1);
    for (int32_t n = 1; n <= 3; n++)
        assert_int_equal(lx_prefix_cache_add(c, key(ids, n)), n - 1);
    assert_int_equal(lx_prefix_cache_find(c, key(ids, 1)).slot, 0);
    assert_int_equal(lx_prefix_cache_forget(c), 1); /* a row each: the oldest */
    assert_int_equal(lx_prefix_cache_find(c, key(ids, 2)).rows, 1);
    assert_int_equal(lx_prefix_cache_add(c, key(ids, 4)), 1); /* a slot that is free again */
    assert_int_equal(lx_prefix_cache_forget(c), 2); /* 2 rows, 3 uses ago, next to 1, 1 use ago */
    assert_int_equal(lx_prefix_cache_add(c, key(other, 3)), 2);
    assert_int_equal(lx_prefix_cache_forget(c), 0); /* 1 row, 2 uses ago, next to 3, 1 use ago */
    assert_int_equal(lx_prefix_cache_find(c, key(ids, 4)).rows, 4);
    assert_int_equal(lx_prefix_cache_forget(c), 2);
    assert_int_equal(lx_prefix_cache_forget(c), 1);
    assert_int_equal(lx_prefix_cache_count(c), 0);
    lx_prefix_cache_free(c);
}

static int32_t chosen(lx_prefix_cache *c, int32_t least)
{
    lx_prefix_key k = {0};
    int32_t slot = -1;
    return lx_prefix_cache_choose(c, least, &k, &slot) ? k.n_rows : 0;
}

static void ends_and_branches_are_stored(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8}, other[] = {1, 2, 3, 4, 9, 9};
    lx_prefix_cache *c = NULL;
    assert_int_equal(lx_prefix_cache_new(8, 1, &c, NULL), LX_OK);
    assert_int_equal(chosen(c, 1), 0);
    for (int32_t n = 2; n <= 8; n += 2) { /* a prompt that goes on after every second row */
        lx_prefix_key k = key(ids, n);
        k.passing = n < 8;
        assert_true(lx_prefix_cache_add(c, k) >= 0);
        assert_int_equal(chosen(c, 3), n < 8 ? 0 : 8);
    }
    assert_int_equal(chosen(c, 1), 0);
    assert_true(lx_prefix_cache_add(c, key(other, 6)) >= 0);
    assert_int_equal(chosen(c, 5), 6); /* 8 rows are stored, but they are no beginning of these */
    assert_int_equal(chosen(c, 5), 0);
    assert_int_equal(chosen(c, 4), 4); /* where the two part */
    assert_int_equal(chosen(c, 1), 0);
    assert_int_equal(lx_prefix_cache_add(c, key(ids, 6)), -1); /* it ends a prompt too, */
    assert_int_equal(chosen(c, 1), 6);                         /* as its answer may be dropped */
    lx_prefix_key own = key(ids, 5);
    assert_true(lx_prefix_cache_add(c, key(other, 5)) >= 0);
    lx_prefix_cache_mark_stored(c, own); /* not kept: nothing changes */
    assert_int_equal(chosen(c, 2), 0);
    lx_prefix_cache_mark_stored(c, key(other, 5));
    assert_int_equal(chosen(c, 1), 0);
    lx_prefix_cache_free(c);
}

/* --- in the engine --- */

/* Rows of a line: its start, its characters, the separator. */
static int32_t cached_of(rig *r, const void *client, const char *line)
{
    lx_job *job = rig_submit(r, &(rig_request){.line = line, .seed = 3, .key = client});
    lx_job_wait(job);
    int32_t rows = lx_job_cached_rows(job);
    rig_expect(job, LX_OK);
    return rows;
}

static int32_t cached(rig *r, const char *line)
{
    return cached_of(r, NULL, line);
}

static void a_prompt_starts_from_what_it_shares(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_prefixes = 8});
    assert_int_equal(cached(&r, "海上明月春风"), 0);
    assert_int_equal(cached(&r, "海上明月春风"), 7);
    assert_int_equal(cached(&r, "海上明月春风花雨"), 7); /* continues from there */
    assert_int_equal(cached(&r, "海上明月花雨"), 0);     /* parts after five rows, */
    assert_int_equal(cached(&r, "海上明月雨花"), 5);     /* as this one does */
    assert_int_equal(cached(&r, "海上明"), 0);
    assert_int_equal((int)atomic_load(&r.metrics->cached_prompt_tokens), 7 + 7 + 5);
    rig_assert_empty(&r);
    rig_stop(&r);
}

/* A sequence branches where its prompt pauses, so the step goes on. */
static void a_pause_costs_no_step(void **state)
{
    (void)state;
    for (int32_t chunk = 4; chunk <= 8; chunk += 4) { /* of 8 rows */
        rig plain = rig_start((rig_options){.prompt_chunk = chunk});
        rig keeps = rig_start((rig_options){.prompt_chunk = chunk, .n_prefixes = 8});
        rig_request q = {.line = "海上明月春风", .seed = 3, .max_new = 1};
        lx_job *want = rig_submit(&plain, &q), *first = rig_submit(&keeps, &q);
        lx_job_wait(want);
        lx_job_wait(first);
        assert_int_equal(plain.metrics->steps, 8 / chunk);
        assert_int_equal(keeps.metrics->steps, 8 / chunk);
        lx_job *second = rig_submit(&keeps, &q);
        lx_job_wait(second);
        assert_int_equal(lx_job_cached_rows(second), 7);
        assert_int_equal(keeps.metrics->steps, 8 / chunk + 1);
        assert_int_equal(rig_hash(first), rig_hash(want));
        assert_int_equal(rig_hash(second), rig_hash(want));
        rig_expect(want, LX_OK);
        rig_expect(first, LX_OK);
        rig_expect(second, LX_OK);
        rig_stop(&plain);
        rig_stop(&keeps);
    }
}

/* Neither the start of a prompt nor the place where two prompts part shows a client other clients'
   prompts. */
static void a_client_finds_its_own_prompts_only(void **state)
{
    (void)state;
    const void *one = &owners[0], *other = &owners[1];
    rig r = rig_start((rig_options){.n_prefixes = 64, .prefix_every = 1});
    assert_int_equal(cached_of(&r, one, "海上明月春风"), 0);
    assert_int_equal(cached_of(&r, other, "海上明月春风"), 0);
    assert_int_equal(cached_of(&r, NULL, "海上明月春风"), 0);
    assert_int_equal(cached_of(&r, other, "海上明月春风"), 7);
    assert_int_equal(cached_of(&r, one, "海上明月花雨"), 5);
    assert_int_equal(cached_of(&r, other, "海上明月花雨"), 5);
    rig_stop(&r);
    r = rig_start((rig_options){.n_prefixes = 16, .share_prefixes = true});
    assert_int_equal(cached_of(&r, one, "海上明月春风"), 0);
    assert_int_equal(cached_of(&r, other, "海上明月春风"), 7);
    rig_stop(&r);
}

static void every_row_may_be_kept(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_prefixes = 16, .prefix_every = 1});
    assert_int_equal(cached(&r, "海上明月春风"), 0);
    assert_int_equal(cached(&r, "海上明月花雨"), 5);
    assert_int_equal(cached(&r, "海上雨花"), 3);
    assert_int_equal(cached(&r, "海"), 2);
    rig_stop(&r);
}

static void the_least_used_gives_way(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_prefixes = 2});
    assert_int_equal(cached(&r, "海上"), 0);
    assert_int_equal(cached(&r, "春风"), 0);
    assert_int_equal(cached(&r, "海上"), 3);
    assert_int_equal(cached(&r, "花雨"), 0); /* for 春风 */
    assert_int_equal(cached(&r, "海上"), 3);
    assert_int_equal(cached(&r, "春风"), 0);
    rig_stop(&r);
}

/* There is a place for one state, and three prompts pause in one step: the last one keeps it. */
static void a_kept_state_gives_way_within_a_step(void **state)
{
    (void)state;
    static const char *const lines[] = {"海上明月", "春风花雨", "山水天地"};
    enum { LINES = 3 };
    lx_job *jobs[2][LINES];
    rig rigs[] = {rig_start((rig_options){0}), rig_start((rig_options){.n_prefixes = 1})};
    for (int k = 0; k < 2; k++) {
        gate_close();
        lx_job *first =
            rig_submit(&rigs[k], &(rig_request){.line = "花雨", .no_draft = true, .max_new = 1});
        gate_wait_for_step();
        for (int i = 0; i < LINES; i++)
            jobs[k][i] = rig_submit(&rigs[k], &(rig_request){.line = lines[i], .seed = 5});
        gate_open();
        rig_expect(first, LX_OK);
    }
    for (int i = 0; i < LINES; i++) {
        lx_job_wait(jobs[0][i]);
        lx_job_wait(jobs[1][i]);
        assert_int_equal(rig_hash(jobs[0][i]), rig_hash(jobs[1][i]));
        rig_expect(jobs[0][i], LX_OK);
        rig_expect(jobs[1][i], LX_OK);
    }
    assert_int_equal(cached(&rigs[1], lines[LINES - 1]), 5);
    rig_stop(&rigs[0]);
    rig_stop(&rigs[1]);
}

/* Every sort of job, again and again, in two engines: one that keeps prefixes and one that does
   not. Few slots, so that they are taken over all the time. */
static void answers_do_not_depend_on_what_is_kept(void **state)
{
    (void)state;
    static const char *const lines[] = {"海上明月", "海上明月春风", "海上明风", "海上春",
                                        "海上明月", "春风",         "海",       "海上明月春雨"};
    const int32_t targets[] = {9, 9};
    for (int32_t every = 0; every < 4; every++) {
        rig plain = rig_start((rig_options){.n_slots = 2, .max_queue = 64});
        rig keeps = rig_start((rig_options){.n_slots = 2,
                                            .max_queue = 64,
                                            .prompt_chunk = 2 + every,
                                            .n_prefixes = 5,
                                            .prefix_every = every});
        rig *rigs[] = {&plain, &keeps};
        enum { N_JOBS = 48 };
        lx_job *jobs[2][N_JOBS];
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < N_JOBS; i++) {
                rig_request q = {.line = lines[i * 5 % 8], .seed = 7, .n = 1 + i % 3 * 2};
                if (i % 7 == 6)
                    q = (rig_request){
                        .line = "春风", .no_rules = true, .targets = targets, .max_new = 2};
                if (i % 11 == 10)
                    q = (rig_request){.line = lines[i % 8], .keep_state = true};
                jobs[k][i] = rig_submit(rigs[k], &q);
            }
        }
        for (int i = 0; i < N_JOBS; i++) {
            lx_job_wait(jobs[0][i]);
            lx_job_wait(jobs[1][i]);
            int32_t rows[2] = {0};
            const float *a = lx_job_state(jobs[0][i], 0, &rows[0]);
            const float *b = lx_job_state(jobs[1][i], 0, &rows[1]);
            assert_int_equal(rig_hash(jobs[0][i]), rig_hash(jobs[1][i]));
            assert_int_equal(rows[0], rows[1]);
            assert_int_equal(a == NULL, b == NULL);
            if (a != NULL && b != NULL)
                assert_memory_equal(a, b, (size_t)rig_model()->state.fixed_floats * sizeof *a);
            rig_expect(jobs[0][i], LX_OK);
            rig_expect(jobs[1][i], LX_OK);
        }
        assert_true(atomic_load(&keeps.metrics->cached_prompt_tokens) > 0);
        assert_int_equal(atomic_load(&plain.metrics->cached_prompt_tokens), 0);
        rig_stop(&plain);
        rig_stop(&keeps);
    }
}

/* A state that a client calls the state of some rows serves that client only. */
static void a_state_from_outside_is_not_shared(void **state)
{
    (void)state;
    rig r = rig_start((rig_options){.n_prefixes = 8});
    float *forged = calloc((size_t)rig_model()->state.fixed_floats, sizeof *forged);
    assert_non_null(forged);
    for (int64_t i = 0; i < rig_model()->state.fixed_floats; i++)
        forged[i] = 1;
    rig_request q = {.line = "海上明月", .seed = 1, .start = {.rows = 2, .state = forged}};
    lx_job *job = rig_submit(&r, &q);
    rig_expect(job, LX_OK);
    assert_int_equal(cached(&r, "海上明月"), 0);
    free(forged);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_slow_search_finds),
        cmocka_unit_test(what_is_missed_least_is_forgotten),
        cmocka_unit_test(ends_and_branches_are_stored),
        cmocka_unit_test(a_prompt_starts_from_what_it_shares),
        cmocka_unit_test(a_pause_costs_no_step),
        cmocka_unit_test(a_client_finds_its_own_prompts_only),
        cmocka_unit_test(every_row_may_be_kept),
        cmocka_unit_test(the_least_used_gives_way),
        cmocka_unit_test(a_kept_state_gives_way_within_a_step),
        cmocka_unit_test(answers_do_not_depend_on_what_is_kept),
        cmocka_unit_test(a_state_from_outside_is_not_shared),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
