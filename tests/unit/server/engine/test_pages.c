/*
 * The index of pages compared with a slow one that lists the pages of every chain. Chains with a
 * common beginning share its pages, whether of one user or two, and a page is free when its last
 * chain is dropped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/engine/pages.h"
#include "tests/support/scratch.h"

enum { POOL = 40, CHAINS = 12, TRIES = 20000 };

typedef struct chain {
    lx_page_user user;
    int32_t name, n, pages[POOL];
} chain;

static bool has(const chain *c, int32_t page)
{
    for (int32_t i = 0; i < c->n; i++) {
        if (c->pages[i] == page)
            return true;
    }
    return false;
}

/* Pages that are in some chain, of this user or of any (LX_PAGE_USERS). */
static int32_t n_in_use(const chain *all, lx_page_user user)
{
    int32_t n = 0;
    for (int32_t page = 0; page < POOL; page++) {
        bool used = false;
        for (int32_t i = 0; i < CHAINS; i++)
            used = used || ((user == LX_PAGE_USERS || all[i].user == user) && has(&all[i], page));
        n += used;
    }
    return n;
}

static void assert_same(const lx_pages *p, const chain *all)
{
    int32_t list[POOL];
    for (int32_t i = 0; i < CHAINS; i++) {
        assert_true((all[i].n == 0) == (all[i].name == -1));
        lx_pages_list(p, all[i].name, all[i].n, list);
        for (int32_t k = 0; k < all[i].n; k++)
            assert_int_equal(list[k], all[i].pages[k]);
    }
    assert_int_equal(p->n_free, POOL - n_in_use(all, LX_PAGE_USERS));
    assert_int_equal(p->n_used[LX_PAGES_RUN], n_in_use(all, LX_PAGES_RUN));
    assert_int_equal(p->n_used[LX_PAGES_KEPT], n_in_use(all, LX_PAGES_KEPT));
}

/* A chain that begins with some pages of an earlier chain. */
static void take(lx_pages *p, chain *all, chain *to, uint64_t *random)
{
    const chain *from = &all[scratch_random(random) % CHAINS];
    int32_t shared = (int32_t)(scratch_random(random) % (uint64_t)(from->n + 1));
    int32_t most = p->n_free < 5 ? p->n_free : 5;
    int32_t n = (int32_t)(scratch_random(random) % (uint64_t)(most + 1));
    lx_page_user user = scratch_random(random) % 2 == 0 ? LX_PAGES_RUN : LX_PAGES_KEPT;
    int32_t begin = lx_pages_before(p, from->name, from->n - shared), before = p->n_used[user];
    int32_t n_new = lx_pages_share(p, user, begin);
    assert_int_equal(n_new, p->n_used[user] - before);
    to->user = user;
    to->name = lx_pages_extend(p, user, begin, n);
    to->n = shared + n;
    lx_pages_list(p, to->name, to->n, to->pages);
    for (int32_t i = 0; i < shared; i++)
        assert_int_equal(to->pages[i], from->pages[i]);
    for (int32_t i = shared; i < to->n; i++) { /* new ones were free */
        for (int32_t k = 0; k < CHAINS; k++)
            assert_true(&all[k] == to || !has(&all[k], to->pages[i]));
    }
}

static void drop(lx_pages *p, chain *c)
{
    int32_t before = p->n_used[c->user], n = lx_pages_drop(p, c->user, c->name);
    assert_int_equal(n, before - p->n_used[c->user]);
    *c = (chain){.name = -1};
}

static void chains_share_their_beginnings(void **state)
{
    (void)state;
    uint64_t random = 7;
    lx_pages p;
    chain all[CHAINS];
    for (int32_t i = 0; i < CHAINS; i++)
        all[i] = (chain){.name = -1};
    assert_true(lx_pages_init(&p, POOL));
    for (int32_t i = 0; i < TRIES; i++) {
        chain *c = &all[scratch_random(&random) % CHAINS];
        if (c->n > 0)
            drop(&p, c);
        else
            take(&p, all, c, &random);
        assert_same(&p, all);
    }
    for (int32_t i = 0; i < CHAINS; i++)
        drop(&p, &all[i]);
    assert_same(&p, all);
    int32_t whole = lx_pages_extend(&p, LX_PAGES_RUN, -1, POOL); /* all of them at once */
    assert_int_equal(p.n_free, 0);
    assert_int_equal(lx_pages_drop(&p, LX_PAGES_RUN, whole), POOL);
    assert_int_equal(p.n_free, POOL);
    lx_pages_fini(&p);
}

static void what_is_reserved_is_not_left(void **state)
{
    (void)state;
    lx_pages p;
    assert_true(lx_pages_init(&p, POOL));
    lx_pages_reserve(&p, 3);
    assert_int_equal(p.left, POOL - 3);
    lx_pages_reserve(&p, -2);
    assert_int_equal(p.left, POOL - 1);
    lx_pages_fini(&p);
}

static void no_pages_are_no_chain(void **state)
{
    (void)state;
    lx_pages p;
    assert_true(lx_pages_init(&p, 0));
    assert_int_equal(lx_pages_share(&p, LX_PAGES_KEPT, -1), 0);
    assert_int_equal(lx_pages_extend(&p, LX_PAGES_RUN, -1, 0), -1);
    assert_int_equal(lx_pages_drop(&p, LX_PAGES_RUN, -1), 0);
    assert_int_equal(p.left, 0);
    lx_pages_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_share_their_beginnings),
        cmocka_unit_test(what_is_reserved_is_not_left),
        cmocka_unit_test(no_pages_are_no_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
