/* See eval_lines.h. */
#include "server/cli/eval_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/cli/eval.h"

enum { N_SLOTS = 128 };

lx_status lx_eval_lines_read(const char *path, int64_t limit, const char *what, lx_eval_line add,
                             void *context, lx_error *err)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return lx_fail(err, LX_ERR_IO, NULL, "%s: cannot be opened", path);
    char line[LX_EVAL_LINE_BYTES];
    lx_status st = LX_OK;
    int64_t n = 0;
    while (st == LX_OK && (limit == 0 || n < limit) && fgets(line, sizeof line, f) != NULL) {
        lx_error why = {0};
        bool is_whole = strchr(line, '\n') != NULL || feof(f);
        line[strcspn(line, "\r\n")] = '\0';
        n++;
        st = is_whole ? add(context, line, &why)
                      : lx_fail(&why, LX_ERR_INVALID, NULL, "a line has %d bytes at most",
                                LX_EVAL_LINE_BYTES - 2);
        if (st != LX_OK)
            (void)lx_fail(err, st, NULL, "%s:%lld: %s", path, (long long)n, why.text);
    }
    (void)fclose(f);
    if (st == LX_OK && n == 0)
        st = lx_fail(err, LX_ERR_INVALID, NULL, "%s: holds no %s", path, what);
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

lx_status lx_eval_lines_score(lx_eval_lines *l, lx_transformer *t, double *nats, int64_t *tokens,
                              lx_error *err)
{
    lx_scorer *scorer = NULL;
    lx_status st = lx_scorer_new(t, LX_EVAL_ROWS, N_SLOTS, &scorer, err);
    if (st == LX_OK)
        st = lx_scorer_run(scorer, l->items, l->n, err);
    *nats = 0;
    *tokens = 0;
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
