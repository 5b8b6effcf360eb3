/*
 * The host part of the cuda back end, tested without a GPU. First: opening it without driver or
 * device, and a device that is lost at any call of the runtime. That must give an error with a
 * text, without a crash, a silent continuation or a leak. Then: which steps are captured, replayed
 * and thrown away as graphs, and the waits of states that move (test_moves.c).
 *
 *   cuda_failures LIBRARY    the library's own path, to reach its switches
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/simt/checks.h"
#include "tests/simt/test_moves.h"
#include "tests/simt/world.h"

enum { MOST_CAPTURED = 1024 }; /* rows of a step that runs as a graph */

static const lx_backend_options exact = {.n_threads = 1, .precision = LX_PRECISION_F32};
static const lx_backend_options library = {.n_threads = 1, .precision = LX_PRECISION_AUTO};
static const lx_backend_options own = {
    .n_threads = 1, .precision = LX_PRECISION_AUTO, .cuda_products = LX_CUDA_PRODUCTS_OWN};

/* --- opening --- */

static void opening_fails(const char *name, lx_status want, const char *needle)
{
    lx_backend_options o = {.n_threads = 1};
    lx_backend *be = NULL;
    lx_error err = {0};
    lx_status st = lx_backend_open(name, &o, &be, &err);
    check(st == want && be == NULL && strstr(err.text, needle) != NULL, name, err.text);
}

static void set_devices(const char *text)
{
    if (text != NULL)
        (void)setenv("LINNET_SIMT_DEVICES", text, 1);
    else
        (void)unsetenv("LINNET_SIMT_DEVICES");
}

static void test_opening(void)
{
    set_devices("no driver");
    opening_fails("cuda", LX_ERR_UNSUPPORTED, "driver version is insufficient");
    set_devices("0");
    opening_fails("cuda", LX_ERR_UNSUPPORTED, "no usable GPU");
    set_devices("2");
    opening_fails("cuda:2", LX_ERR_UNSUPPORTED, "no device 2, there are 2");
    opening_fails("cuda:", LX_ERR_INVALID, "a device is a number");
    opening_fails("cuda:x", LX_ERR_INVALID, "a device is a number");
    opening_fails("cuda:-1", LX_ERR_INVALID, "a device is a number");
    opening_fails("cuda:99999", LX_ERR_INVALID, "a device is a number");
    opening_fails("cudax", LX_ERR_UNSUPPORTED, "no back end");
    set_devices(NULL);
}

/* --- losing the device --- */

static bool nothing_is_left(const simt *s)
{
    simt_counts c;
    s->count(&c);
    return c.memory == 0 && c.streams == 0 && c.events == 0 && c.graphs == 0;
}

static lx_status run_states(world *w, lx_error *err)
{
    const lx_kernels *k = w->k;
    static const int32_t pages[] = {0, 1};
    float state[WORLD_STATE + WORLD_PAGE];
    lx_status st = k->state_zero(w->be, w->states, 1);
    if (st == LX_OK)
        st = k->state_map(w->be, w->states, 2, 0, 1, &pages[0]);
    if (st == LX_OK)
        st = k->state_map(w->be, w->states, 3, 0, 1, &pages[1]);
    if (st == LX_OK)
        st = k->state_copy(w->be, w->states, 3, 2, 1);
    if (st == LX_OK)
        st = k->state_export(w->be, w->states, 3, state, 1);
    if (st == LX_OK)
        st = k->state_import(w->be, w->states, 2, state, 1);
    if (st == LX_OK)
        st = k->array_download(w->be, w->y, 0, state, WORLD_WIDTH);
    return st == LX_OK ? st : lx_fail(err, st, NULL, "a copy"); /* these calls have no text */
}

/* Everything from opening to closing; the status of the first call that fails. `calls`: those of
   the runtime until everything is freed. */
static lx_status run_all(const lx_backend_options *how, const simt *s, bool *stays_lost,
                         long *calls, lx_error *err)
{
    static world w;
    lx_status st = world_open(&w, how, err);
    for (int i = 0; i < 4; i++) {
        w.samples[i % 2].token = w.samples[WORLD_ROWS + i % 2].token = -2;
        if (st == LX_OK) /* a graph captured, and replayed */
            st = i % 2 == 1 ? world_decode(&w, 2, err) : world_prompt(&w, err);
        check(st != LX_OK || (w.samples[1].token != -2 && w.samples[WORLD_ROWS + 1].token != -2),
              "results", "not written");
    }
    if (st == LX_OK)
        st = world_decode(&w, 5, err); /* with rows to spare */
    if (st == LX_OK)
        st = run_states(&w, err);
    if (st == LX_ERR_DEVICE && w.be != NULL) { /* then every call fails with an error */
        lx_error again = {0};
        lx_array *more = NULL;
        *stays_lost = w.k->array_new(w.be, 4, &more, &again) == LX_ERR_DEVICE &&
                      again.text[0] != '\0' && more == NULL;
    }
    if (calls != NULL)
        *calls = s->fail_at(0, 0);
    world_close(&w);
    return st;
}

static void test_losing(const simt *s, const lx_backend_options *how)
{
    enum { ILLEGAL_ADDRESS = 700, NO_MEMORY = 2 };
    lx_error err = {0};
    bool lost = true;
    long calls = 0, closing;
    (void)s->fail_at(0, 0);
    check(run_all(how, s, &lost, &calls, &err) == LX_OK, "a sound device", err.text);
    closing = s->fail_at(0, 0);
    check(calls > 100 && closing > 10, "calls of the runtime", "too few counted");
    for (long n = 1; n <= calls + closing; n++) {
        for (int kind = 0; kind < 2; kind++) {
            char what[80];
            lx_status st;
            err = (lx_error){0};
            lost = true;
            (void)snprintf(what, sizeof what, "precision %d, products %d, failure %d at call %ld",
                           (int)how->precision, (int)how->cuda_products, kind, n);
            (void)s->fail_at(n, kind == 0 ? ILLEGAL_ADDRESS : NO_MEMORY);
            st = run_all(how, s, &lost, NULL, &err);
            bool right = st == LX_ERR_DEVICE || (st == LX_ERR_UNSUPPORTED && n < 4) ||
                         (st == LX_ERR_NO_MEMORY && kind == 1);
            /* the last calls are those of freeing, which has no way to complain */
            check(n <= calls ? right && err.text[0] != '\0' : st == LX_OK, what,
                  lx_status_text(st));
            check(lost || st != LX_ERR_DEVICE, what, "the device came back");
            check(nothing_is_left(s), what, "something of the device is not given back");
        }
    }
    (void)s->fail_at(0, 0);
    check(run_all(how, s, &lost, NULL, &err) == LX_OK, "a sound device after all", err.text);
}

/* --- graphs --- */

static world graphs; /* the world of these tests */

/* A step of n slots: how many graphs it captured, or -1 when it failed. */
static long captures(const simt *s, int32_t n)
{
    simt_counts before, after;
    lx_error err = {0};
    s->count(&before);
    lx_status st = world_decode(&graphs, n, &err);
    s->count(&after);
    bool ran = n > MOST_CAPTURED || after.replayed == before.replayed + 1;
    check(st == LX_OK && ran, "a step", err.text);
    return st == LX_OK ? after.captured - before.captured : -1;
}

static long live_graphs(const simt *s)
{
    simt_counts c;
    s->count(&c);
    return c.graphs;
}

/* A size is captured at its first step, with any sequences and any sampling.
 */
static void test_buckets(const simt *s)
{
    int32_t (*size)(int32_t n) = graphs.k->step_size;
    for (int32_t n = 1; n < 20000; n += 1 + n / 7) {
        int32_t bucket = size(n);
        check(bucket >= n && bucket <= n + n / 2 && size(bucket) == bucket, "a bucket's size",
              "too small, too large, or none of its own");
    }
    for (int32_t n = 1; n <= 8; n++)
        check(captures(s, n) == 1, "the first step of a size", "is captured");
    graphs.slot[0] = 1030; /* another slot, other sampling, longer lists */
    static const int32_t banned[] = {1, 2, 3};
    graphs.how[0] = (lx_sampling){
        .top_p = 1, .top_k = 3, .temperature = 0.5f, .forced = -1, .banned = banned, .n_banned = 3};
    for (int32_t n = 1; n <= 8; n++)
        check(captures(s, n) == 0, "a step of a known size", "is replayed");
    check(captures(s, 9) == 1 && captures(s, 10) == 0 && captures(s, 11) == 0, "9 to 12",
          "share a graph");
    check(captures(s, MOST_CAPTURED + 1) == 0, "a large step", "is launched");
    graphs.slot[0] = 0;
}

/* A step with rows to spare needs no kernel more than one without. */
static void test_spare_rows(const simt *s)
{
    simt_counts some, all;
    graphs.eps = 1e-4f;
    check(captures(s, 13) == 1, "13 of 16 rows", "are captured");
    s->count(&some);
    check(captures(s, 16) == 1, "16 rows", "are captured");
    s->count(&all);
    check(some.nodes == all.nodes && all.nodes > 10, "rows to spare", "need other kernels");
    graphs.eps = 1e-6f;
}

/* The recorded arguments decide: other numbers, or other objects, need another graph. */
static void test_changes(const simt *s)
{
    lx_error err = {0};
    lx_array *other = NULL;
    check(captures(s, 2) == 1, "a step after memory has grown", "is captured anew");
    graphs.eps = 1e-3f;
    check(captures(s, 2) == 1 && captures(s, 2) == 0, "another eps", "is another graph");
    graphs.eps = 1e-6f;
    check(captures(s, 2) == 0, "the first eps", "still has its graph");
    check(graphs.k->array_new(graphs.be, WORLD_WIDTH, &other, &err) == LX_OK, "an array", err.text);
    long before = live_graphs(s);
    graphs.gamma = other;
    check(captures(s, 2) == 1 && captures(s, 2) == 0, "another object", "is another graph");
    graphs.gamma = NULL;
    graphs.k->array_free(graphs.be, other); /* its address may come again */
    check(captures(s, 2) == 0, "a freed object", "drops graphs without it");
    check(live_graphs(s) == before, "a freed object", "leaves the graph that has it");
}

/* More are freed between two steps than are noted: no graph may stay. */
static void test_many_freed(const simt *s)
{
    enum { MANY = 4200 };
    check(captures(s, 2) == 0, "a step before many objects are freed", "is known");
    for (int i = 0; i < MANY; i++) {
        lx_array *a = NULL;
        lx_error err = {0};
        if (graphs.k->array_new(graphs.be, 4, &a, &err) != LX_OK)
            check(false, "an array", err.text);
        graphs.k->array_free(graphs.be, a);
    }
    check(captures(s, 2) == 1 && live_graphs(s) == 1, "many freed objects", "drop all graphs");
}

/* The one used longest ago makes room. */
static void test_eviction(const simt *s)
{
    enum { MORE = 260 };
    long most = 0;
    for (int i = 0; i < MORE; i++) {
        graphs.eps = 1.0f + (float)i;
        check(captures(s, 1) == 1, "a new step", "is captured");
        most = live_graphs(s) > most ? live_graphs(s) : most;
        graphs.eps = 1.0f;
        check(captures(s, 1) == 0, "a step that is used all the time", "stays");
    }
    check(most < MORE && live_graphs(s) == most, "graphs", "have a maximum");
    graphs.eps = (float)MORE;
    check(captures(s, 1) == 0, "the last step", "stays");
    graphs.eps = 2.0f;
    check(captures(s, 1) == 1, "the oldest step", "made room");
}

/* Where the matrix library cannot be captured, steps are launched, with the same results. */
static void test_no_capture(const simt *s)
{
    static lx_sample captured[2 * WORLD_ROWS];
    simt_counts before, after;
    lx_error err = {0};
    (void)setenv("LINNET_SIMT_NO_CAPTURE", "1", 1);
    for (int refused = 1; refused >= 0; refused--) {
        check(world_open(&graphs, &library, &err) == LX_OK, "opening", err.text);
        s->count(&before);
        for (int32_t n = 5; n <= 6; n++)
            check(world_decode(&graphs, n, &err) == LX_OK, "a step without a graph", err.text);
        s->count(&after);
        check((after.replayed == before.replayed) == (refused == 1), "a step", "has a graph");
        check(after.captured <= before.captured + 2, "what cannot be captured", "is tried again");
        if (refused == 1)
            memcpy(captured, graphs.samples, sizeof captured);
        check(memcmp(captured, graphs.samples, sizeof captured) == 0, "results", "are others");
        world_close(&graphs);
        (void)unsetenv("LINNET_SIMT_NO_CAPTURE");
    }
}

/* --- a matrix that another thread makes meanwhile --- */

static sem_t asked;
static pthread_t maker;
static _Thread_local bool makes_matrix;
static lx_matrix *made;
static lx_status made_status;

static void *make_matrix(void *unused)
{
    static const uint16_t zeros[64];
    const lx_host_tensor t = {LX_BF16, 8, 8, zeros};
    lx_error err = {0};
    makes_matrix = true;
    made_status = graphs.k->matrix_new(graphs.be, &t, NULL, NULL, &made, &err);
    return unused;
}

static void start_maker(void)
{
    check(pthread_create(&maker, NULL, make_matrix, NULL) == 0, "a thread", "cannot start");
    while (sem_wait(&asked) != 0)
        continue;
}

static void maker_asks(void)
{
    if (makes_matrix)
        (void)sem_post(&asked);
}

/* The library looks for algorithms when no step is captured: a thread that wants one waits for its
 * turn.
 */
static void test_matrix_in_capture(const simt *s)
{
    (void)sem_init(&asked, 0, 0);
    graphs.eps = 3e-4f;
    s->listen(start_maker, NULL, maker_asks);
    check(captures(s, 3) == 1, "a step next to a new matrix", "is captured");
    (void)pthread_join(maker, NULL);
    s->listen(NULL, NULL, NULL);
    check(made_status == LX_OK, "a matrix next to a capture", lx_status_text(made_status));
    graphs.k->matrix_free(graphs.be, made);
    graphs.eps = 1e-6f;
    (void)sem_destroy(&asked);
}

/* --- a thread that asks for its turn while another waits for its step --- */

static sem_t done;

static void *make_and_tell(void *unused)
{
    (void)make_matrix(unused);
    (void)sem_post(&done);
    return NULL;
}

/* Gives up after a minute, because the tested fault would make the step wait for this function's
   return. */
static void wait_for_maker(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    check(pthread_create(&maker, NULL, make_and_tell, NULL) == 0, "a thread", "cannot start");
    check(sem_timedwait(&done, &until) == 0, "a thread next to one that waits", "has no turn");
}

/* A thread that waits for a step has given the back end back: another engine may start one. */
static void test_turn_in_wait(const simt *s)
{
    (void)sem_init(&done, 0, 0);
    (void)captures(s, 3);
    s->listen(NULL, wait_for_maker, NULL);
    check(captures(s, 3) == 0, "a step that is waited for", "is known");
    (void)pthread_join(maker, NULL);
    check(made_status == LX_OK, "a matrix while a step is waited for", lx_status_text(made_status));
    graphs.k->matrix_free(graphs.be, made);
    (void)sem_destroy(&done);
}

/* --- rows to spare, once more --- */

/* How often threads meet in a step of n rows that are all alike. */
static long meetings(const simt *s, int32_t n)
{
    simt_counts before, after;
    s->count(&before);
    (void)captures(s, n);
    s->count(&after);
    return after.meetings - before.meetings;
}

/* A product's blocks that have rows to spare and no others do nothing: the fifth 128 rows of a size
 * of 768 cost as much as the sixth 128 rows.
 */
static void test_spare_blocks(const simt *s, const lx_backend_options *how)
{
    lx_error err = {0};
    check(world_open(&graphs, how, &err) == LX_OK, "opening", err.text);
    for (int32_t i = 0; i < WORLD_ROWS; i++)
        graphs.how[i].forced = 1;
    check(graphs.k->step_size(640) == 767 && graphs.k->step_size(768) == 768, "640 rows",
          "have another size");
    long of_512 = meetings(s, 512), of_640 = meetings(s, 640), of_768 = meetings(s, 768);
    check(of_512 > 0 && of_768 - of_640 == of_640 - of_512, "blocks of rows to spare",
          "cost something");
    world_close(&graphs);
}

static void test_graphs(const simt *s)
{
    lx_error err = {0};
    (void)s->fail_at(0, 0);
    check(world_open(&graphs, &library, &err) == LX_OK, "opening", err.text);
    test_buckets(s);
    test_spare_rows(s);
    test_changes(s);
    test_matrix_in_capture(s);
    test_turn_in_wait(s);
    test_many_freed(s);
    test_eviction(s);
    world_close(&graphs);
    check(nothing_is_left(s), "closing", "gives everything back");
}

int main(int argc, char **argv)
{
    simt s;
    if (!simt_open(argc, argv, &s))
        return 2;
    test_opening();
    test_losing(&s, &exact);
    test_losing(&s, &library);
    test_losing(&s, &own);
    test_graphs(&s);
    test_no_capture(&s);
    test_spare_blocks(&s, &exact);
    test_spare_blocks(&s, &own);
    test_moves(&s);
    return checks_end();
}
