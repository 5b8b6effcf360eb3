/*
 * Limits the time of a draw of the cuda back end, counted in meetings of its threads. One thread
 * adds the weights of a block of ids in order only where the drawn number lies at an edge between
 * two ids. No draw reads after the last id, where the device's memory ends in this test.
 *
 *   cuda_draws LIBRARY    the library's own path, to reach its switches
 */
#include "kernels/kernels.h"
#include "kernels/philox.h"
#include "tests/simt/checks.h"

enum { IDS = 256, LAST = IDS - 1 };
static const lx_sampling plain = {.temperature = 1, .top_p = 1, .forced = -1};

typedef struct drawing {
    lx_backend *be;
    lx_array *logits; /* [IDS] */
} drawing;

static void open_all(drawing *d, const float *logits)
{
    static const lx_backend_options how = {.n_threads = 1};
    lx_error err = {0};
    check(lx_backend_open("cuda", &how, &d->be, &err) == LX_OK, "opening", err.text);
    check(d->be->ops->array_new(d->be, IDS, &d->logits, &err) == LX_OK, "logits", err.text);
    check(d->be->ops->array_upload(d->be, d->logits, 0, logits, IDS) == LX_OK, "logits", "no copy");
}

static void close_all(drawing *d)
{
    d->be->ops->array_free(d->be, d->logits);
    d->be->ops->close(d->be);
}

/* Draws one id; how often threads met. */
static long meetings(const simt *s, const drawing *d, lx_sampling how, int32_t *id)
{
    static const int32_t start[] = {0, 1}, slot[] = {0};
    const lx_batch b = {.n_tokens = 1,
                        .n_seqs = 1,
                        .seq_start = start,
                        .slot = slot,
                        .n_outputs = 1,
                        .output_row = start,
                        .position = slot};
    lx_sample out = {-1, 0};
    const lx_sample_args args = {d->logits, IDS, &how, &out, NULL};
    const lx_kernels *k = d->be->ops;
    simt_counts before, after;
    lx_error err = {0};
    uint64_t step = 0;
    s->count(&before);
    lx_status st = k->begin(d->be, &b, &err);
    if (st == LX_OK) {
        k->sample(d->be, &args);
        st = k->end(d->be, &step, &err);
    }
    check(st == LX_OK && k->sync(d->be, step, &err) == LX_OK, "a draw", err.text);
    s->count(&after);
    *id = out.token;
    return after.meetings - before.meetings;
}

/* The first seed whose draw is at an edge, or away from one. */
static uint64_t seed_of(bool edge)
{
    for (uint64_t seed = 1;; seed++) {
        float wanted = IDS * lx_uniform(seed, 0, 0, 0);
        if ((wanted == (float)(int32_t)wanted && wanted > 0.0f) == edge)
            return seed;
    }
}

/* Every thread meets the others once more at an edge, and nowhere else. */
static void test_order(const simt *s)
{
    static const float zeros[IDS]; /* each id has a weight of 1, and edges are whole numbers */
    drawing d = {0};
    int32_t at_edge = -1, off_edge = -1;
    uint64_t edge = seed_of(true), other = seed_of(false);
    open_all(&d, zeros);
    lx_sampling how = plain;
    how.seed = edge;
    long in_order = meetings(s, &d, how, &at_edge);
    how.seed = other;
    long quick = meetings(s, &d, how, &off_edge);
    check(at_edge == (int32_t)(IDS * lx_uniform(edge, 0, 0, 0)), "an edge", "is the next id's");
    check(off_edge == (int32_t)(IDS * lx_uniform(other, 0, 0, 0)), "a draw", "is another id");
    check(quick > 0 && in_order > quick, "a draw off the edges", "adds all up in order");
    close_all(&d);
}

/* The last of all ids is the only likely one: a search for it goes as far as it may. */
static void test_end(const simt *s)
{
    float logits[IDS];
    lx_sampling greedy = plain, listed = plain, cut = plain;
    lx_sample top[2] = {{-1, 0}};
    drawing d = {0};
    int32_t id = -1;
    for (int i = 0; i < LAST; i++)
        logits[i] = 0.01f * (float)i;
    logits[LAST] = 60;
    open_all(&d, logits);
    greedy.temperature = 0;
    (void)meetings(s, &d, greedy, &id);
    check(id == LAST, "the likeliest", "is not the last id");
    listed.top = top;
    listed.n_top = 2;
    (void)meetings(s, &d, listed, &id);
    check(id == LAST && top[0].token == LAST && top[1].token == LAST - 1, "the list", "is another");
    cut.top_k = 2;
    (void)meetings(s, &d, cut, &id);
    check(id == LAST, "one of the likeliest two", "is not the last id");
    close_all(&d);
}

int main(int argc, char **argv)
{
    simt s;
    if (!simt_open(argc, argv, &s))
        return 2;
    test_order(&s);
    test_end(&s);
    return checks_end();
}
