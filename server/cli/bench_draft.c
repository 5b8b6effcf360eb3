/*
 * Whole answers with guessed tokens and without, in pairs, through the engine: as the guesser
 * learns from what is drawn, the first answers only warm it up. Both must be the same tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "server/cli/bench.h"
#include "server/engine/engine.h"

/* One answer a stream. */
static lx_status new_job(const lx_transformer *t, const char *prompt, int32_t streams, int64_t seed,
                         bool no_draft, lx_job **out, lx_error *err)
{
    lx_task_request request = {
        .text = prompt, .text_bytes = prompt != NULL ? strlen(prompt) : 0, .rules = true};
    lx_plan *plan = NULL;
    lx_status st = lx_plan_new(lx_transformer_model(t), &request, &plan, err);
    if (st != LX_OK)
        return st;
    lx_job_params p = {.n = streams,
                       .max_new = plan->n_new,
                       .sampling = {.has_seed = true,
                                    .seed = seed,
                                    .temperature = 1,
                                    .top_p = 1,
                                    .no_draft = no_draft},
                       .deadline_ns = INT64_MAX};
    return lx_job_new(plan, &p, NULL, NULL, out, err);
}

static lx_status run(lx_engine *e, lx_job *job, lx_error *err)
{
    lx_status st = lx_engine_submit(e, job, err);
    if (st != LX_OK)
        return st;
    lx_job_wait(job);
    return lx_job_status(job, err);
}

static int64_t duration(const lx_job *job)
{
    lx_job_times t = lx_job_get_times(job);
    return t.finished - t.submitted;
}

static bool same_tokens(const lx_job *a, const lx_job *b)
{
    for (int32_t i = 0; i < lx_job_get_params(a)->n; i++) {
        const int32_t *p, *q;
        int32_t n = lx_job_tokens(a, i, &p, NULL);
        if (lx_job_tokens(b, i, &q, NULL) != n || memcmp(p, q, (size_t)n * sizeof *p) != 0)
            return false;
    }
    return true;
}

static void count(const lx_job *job, lx_bench_draft *out)
{
    int64_t drafted = 0, accepted = 0;
    lx_job_drafted(job, &drafted, &accepted);
    out->drafted += drafted;
    out->accepted += accepted;
    for (int32_t i = 0; i < lx_job_get_params(job)->n; i++)
        out->tokens += lx_job_tokens(job, i, NULL, NULL);
}

/* One answer with guesses, then the same one without, so that the guesser has not seen what it
   guesses; *off and *on: how long they took. */
static lx_status run_pair(lx_engine *e, const lx_transformer *t, const char *prompt,
                          int32_t streams, int64_t seed, int64_t *off, int64_t *on,
                          lx_bench_draft *out, lx_error *err)
{
    lx_job *jobs[2] = {NULL, NULL}; /* without, with */
    lx_status st = LX_OK;
    for (int i = 0; i < 2 && st == LX_OK; i++)
        st = new_job(t, prompt, streams, seed, i == 0, &jobs[i], err);
    for (int i = 1; i >= 0 && st == LX_OK; i--)
        st = run(e, jobs[i], err);
    if (st == LX_OK && !same_tokens(jobs[0], jobs[1]))
        st = lx_fail(err, LX_ERR_INTERNAL, NULL, "seed %lld: the answers differ", (long long)seed);
    if (st == LX_OK) {
        *off = duration(jobs[0]);
        *on = duration(jobs[1]);
        count(jobs[1], out);
    }
    lx_job_unref(jobs[0]);
    lx_job_unref(jobs[1]);
    return st;
}

static lx_status run_rounds(lx_engine *e, const lx_transformer *t, const char *prompt,
                            int32_t streams, int64_t rounds, lx_bench_draft *out, lx_error *err)
{
    int64_t *off = calloc((size_t)rounds, sizeof *off), *on = calloc((size_t)rounds, sizeof *on);
    int64_t warm = rounds / 5 + 1;
    lx_status st =
        off != NULL && on != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory");
    for (int64_t i = -warm; i < rounds && st == LX_OK; i++) {
        if (i == 0)
            *out = (lx_bench_draft){0};
        st = run_pair(e, t, prompt, streams, i + warm, &off[i < 0 ? 0 : i], &on[i < 0 ? 0 : i], out,
                      err);
    }
    if (st == LX_OK) {
        out->off_ns = lx_bench_median(off, rounds);
        out->on_ns = lx_bench_median(on, rounds);
    }
    free(off);
    free(on);
    return st;
}

lx_status lx_bench_drafts(lx_transformer *t, const char *prompt, int32_t streams, int64_t rounds,
                          lx_bench_draft *out, lx_error *err)
{
    static lx_metrics metrics;
    lx_engine_options options = {.n_slots = streams,
                                 .max_queue = 1,
                                 .max_tokens = streams + LX_BENCH_DRAFT_ROWS,
                                 .prompt_chunk = LX_BENCH_DRAFT_ROWS,
                                 .prompt_beside = LX_BENCH_DRAFT_ROWS,
                                 .ahead = 0,
                                 .draft = LX_MAX_DRAFT / 2};
    lx_engine *e = NULL;
    lx_status st = lx_engine_start(t, &options, &metrics, &e, err);
    if (st != LX_OK)
        return st;
    st = run_rounds(e, t, prompt, streams, rounds, out, err);
    lx_engine_stop(e);
    return st;
}
