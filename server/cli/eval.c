/* Lines and answers for linnet eval (see eval.h). */
#include "server/cli/eval.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/engine/engine.h"

/* --- lines --- */

lx_status lx_eval_lines_read(const char *path, int64_t limit, const char *what, lx_eval_line add,
                             void *context, lx_error *err)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return lx_fail(err, LX_ERR_IO, NULL, "%s: the file cannot be opened", path);
    char line[LX_EVAL_LINE_BYTES];
    lx_status st = LX_OK;
    int64_t n = 0;
    while (st == LX_OK && (limit == 0 || n < limit) && fgets(line, sizeof line, f) != NULL) {
        lx_error why = {0};
        bool is_whole = strchr(line, '\n') != NULL || feof(f);
        line[strcspn(line, "\r\n")] = '\0';
        n++;
        st = is_whole ? add(context, line, &why)
                      : lx_fail(&why, LX_ERR_INVALID, NULL, "the line has more than %d bytes",
                                LX_EVAL_LINE_BYTES - 2);
        if (st != LX_OK)
            (void)lx_fail(err, st, NULL, "%s:%lld: %s", path, (long long)n, why.text);
    }
    if (st == LX_OK && ferror(f) != 0) /* a folder can be opened, too */
        st = lx_fail(err, LX_ERR_IO, NULL, "%s: %s", path, strerror(errno));
    (void)fclose(f);
    if (st == LX_OK && n == 0)
        st = lx_fail(err, LX_ERR_INVALID, NULL, "%s: the file holds no %s", path, what);
    return st;
}

static lx_status make_room(lx_eval_lines *l, lx_error *err)
{
    if (l->n < l->capacity)
        return LX_OK;
    int32_t capacity = l->capacity == 0 ? 1024 : l->capacity * 2;
    lx_score_item *items = realloc(l->items, (size_t)capacity * sizeof *items);
    if (items == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d lines", capacity);
    l->items = items;
    l->capacity = capacity;
    return LX_OK;
}

static void item_free(const lx_score_item *item)
{
    lx_plan_free((lx_plan *)item->plan);
    free((int32_t *)item->targets);
    free(item->logprobs);
}

lx_status lx_eval_lines_add(lx_eval_lines *l, lx_plan *plan, int32_t *targets, lx_status st,
                            lx_error *err)
{
    lx_score_item item = {plan, targets, NULL};
    if (st == LX_OK)
        st = make_room(l, err);
    if (st == LX_OK) {
        item.logprobs = calloc((size_t)plan->n_new + 1, sizeof *item.logprobs);
        if (item.logprobs == NULL)
            st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a line");
    }
    if (st == LX_OK)
        l->items[l->n++] = item;
    else
        item_free(&item);
    return st;
}

lx_status lx_eval_lines_score(const lx_eval_lines *l, lx_transformer *t, double *nats,
                              int64_t *tokens, lx_error *err)
{
    lx_scorer *scorer = NULL;
    lx_status st = lx_scorer_new(t, LX_EVAL_ROWS, LX_EVAL_SLOTS, &scorer, err);
    if (st == LX_OK)
        st = lx_scorer_run(scorer, l->items, l->n, err);
    for (int32_t i = 0; i < l->n && st == LX_OK; i++) {
        for (int32_t k = 0; k < l->items[i].plan->n_new; k++)
            *nats -= (double)l->items[i].logprobs[k];
        *tokens += l->items[i].plan->n_new;
    }
    lx_scorer_free(scorer);
    return st;
}

void lx_eval_lines_free(lx_eval_lines *l)
{
    for (int32_t i = 0; i < l->n; i++)
        item_free(&l->items[i]);
    free(l->items);
}

/* --- answers, as many at a time as there are slots --- */

static lx_status submit(lx_engine *engine, const lx_eval_answers *a, int32_t i, lx_job **out,
                        lx_error *err)
{
    lx_plan *plan = NULL;
    lx_status st = a->plan(a->context, i, &plan, err);
    if (st != LX_OK)
        return st;
    lx_job_params params = {
        .n = 1, .max_new = plan->n_new, .sampling = a->sampling, .deadline_ns = INT64_MAX};
    st = lx_job_new(plan, &params, NULL, NULL, out, err); /* takes the plan */
    return st == LX_OK ? lx_engine_submit(engine, *out, err) : st;
}

/* Answers first .. first + n - 1. */
static lx_status answer_some(lx_engine *engine, const lx_eval_answers *a, int32_t first, int32_t n,
                             lx_error *err)
{
    lx_job *jobs[LX_EVAL_SLOTS] = {0};
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n && st == LX_OK; i++)
        st = submit(engine, a, first + i, &jobs[i], err);
    for (int32_t i = 0; i < n && jobs[i] != NULL && st == LX_OK; i++) {
        lx_job_wait(jobs[i]);
        st = lx_job_status(jobs[i], err);
        if (st == LX_OK)
            a->judge(a->context, first + i, jobs[i]);
    }
    for (int32_t i = 0; i < n; i++)
        lx_job_unref(jobs[i]);
    return st;
}

lx_status lx_eval_answer(const lx_cli_model *local, const lx_eval_answers *a, lx_error *err)
{
    static lx_metrics metrics;
    lx_engine_options limits = {.n_slots = LX_EVAL_SLOTS,
                                .max_queue = LX_EVAL_SLOTS,
                                .max_tokens = LX_EVAL_ROWS,
                                .prompt_chunk = 64,
                                .prompt_beside = LX_EVAL_ROWS};
    lx_engine *engine = NULL;
    lx_status st = lx_engine_start(local->transformer, &limits, &metrics, &engine, err);
    for (int32_t i = 0; i < a->n && st == LX_OK; i += LX_EVAL_SLOTS)
        st = answer_some(engine, a, i, a->n - i < LX_EVAL_SLOTS ? a->n - i : LX_EVAL_SLOTS, err);
    lx_engine_stop(engine);
    return st;
}
