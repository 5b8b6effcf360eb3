/*
 * linnet eval of a couplet model: how good it is on a file of couplets.
 *
 * Two measurements. The score: nats per character of the given lower lines, from the forward pass
 * (rules off: every character of the vocabulary competes). The rules: for the same upper lines the
 * model writes its own lower lines, once freely and once with the rules enforced, and an
 * independent checker counts which rules each line keeps.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/score.h"
#include "model/tasks/couplet.h"
#include "model/tasks/couplet_chars.h"
#include "model/utf8.h"
#include "server/cli/eval.h"
#include "server/cli/eval_answers.h"

enum { N_SLOTS = 128, MAX_LINE = 4096 };

/* The pairs of the file, parsed for the model. */
typedef struct pair {
    lx_plan *plan;    /* owned; rules off */
    int32_t *targets; /* [plan->n_new], owned */
    float *logprobs;  /* [plan->n_new], owned */
    char *upper;      /* owned */
} pair;

typedef struct pairs {
    pair *items;
    int32_t n, capacity;
} pairs;

typedef struct report {
    int64_t n_pairs, n_chars;
    double nats;
    bool answered;
    int64_t kept[2][LX_COUPLET_N_RULES], kept_all[2]; /* [0] free, [1] with rules */
} report;

static void pairs_free(pairs *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        lx_plan_free(p->items[i].plan);
        free(p->items[i].targets);
        free(p->items[i].logprobs);
        free(p->items[i].upper);
    }
    free(p->items);
}

static lx_status pairs_add(pairs *p, const lx_model *model, char *line, lx_error *err)
{
    char *tab = strchr(line, '\t');
    if (tab == NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL, "no TAB between an upper and a lower line");
    if (p->n == p->capacity) {
        int32_t capacity = p->capacity == 0 ? 1024 : p->capacity * 2;
        pair *items = realloc(p->items, (size_t)capacity * sizeof *items);
        if (items == NULL)
            return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d pairs", capacity);
        p->items = items;
        p->capacity = capacity;
    }
    pair *item = &p->items[p->n++];
    *item = (pair){0};
    lx_task_request request = {.text = line, .text_bytes = (size_t)(tab - line), .rules = false};
    lx_status st = lx_plan_new(model, &request, &item->plan, err);
    if (st != LX_OK)
        return st;
    size_t n = (size_t)item->plan->n_new;
    item->targets = calloc(n, sizeof *item->targets);
    item->logprobs = calloc(n, sizeof *item->logprobs);
    item->upper = strndup(line, (size_t)(tab - line));
    if (item->targets == NULL || item->logprobs == NULL || item->upper == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a pair");
    return lx_couplet_lower_ids(item->plan, tab + 1, strlen(tab + 1), item->targets, err);
}

static lx_status pairs_read(pairs *p, const char *path, int64_t limit, const lx_model *model,
                            lx_error *err)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return lx_fail(err, LX_ERR_IO, NULL, "%s: cannot be opened", path);
    char line[MAX_LINE];
    lx_status st = LX_OK;
    while (st == LX_OK && (limit == 0 || p->n < limit) && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        lx_error why = {0};
        st = pairs_add(p, model, line, &why);
        if (st != LX_OK)
            (void)lx_fail(err, st, NULL, "%s:%d: %s", path, p->n + (why.param[0] == '\0'),
                          why.text);
    }
    (void)fclose(f);
    if (st == LX_OK && p->n == 0)
        st = lx_fail(err, LX_ERR_INVALID, NULL, "%s: holds no pair", path);
    return st;
}

static lx_status score(const pairs *p, lx_transformer *t, report *r, lx_error *err)
{
    lx_scorer *scorer = NULL;
    lx_score_item *items = calloc((size_t)p->n, sizeof *items);
    if (items == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to score %d pairs", p->n);
    for (int32_t i = 0; i < p->n; i++)
        items[i] = (lx_score_item){p->items[i].plan, p->items[i].targets, p->items[i].logprobs};
    lx_status st = lx_scorer_new(t, LX_EVAL_ROWS, N_SLOTS, &scorer, err);
    if (st == LX_OK)
        st = lx_scorer_run(scorer, items, p->n, err);
    for (int32_t i = 0; i < p->n && st == LX_OK; i++) {
        for (int32_t c = 0; c < items[i].plan->n_new; c++)
            r->nats -= (double)items[i].logprobs[c];
        r->n_chars += items[i].plan->n_new;
    }
    r->n_pairs = p->n;
    lx_scorer_free(scorer);
    free(items);
    return st;
}

static int32_t codepoints(const char *text, uint32_t *out, int32_t max)
{
    int32_t n = 0;
    size_t size = strlen(text);
    for (size_t pos = 0; pos < size && n < max;)
        out[n++] = (uint32_t)lx_utf8_next(text, size, &pos);
    return n;
}

/* Judged against the upper line as the task reads it, its marks in their full-width form. */
static void judge(const lx_job *job, const char *upper, report *r, int mode)
{
    uint32_t u[MAX_LINE], l[MAX_LINE];
    lx_buffer text;
    const int32_t *tokens = NULL;
    lx_buffer_init(&text, MAX_LINE);
    int32_t n = lx_job_tokens(job, 0, &tokens, NULL);
    lx_plan_text(lx_job_plan(job), tokens, n, &text);
    int32_t n_upper = codepoints(upper, u, MAX_LINE);
    for (int32_t i = 0; i < n_upper; i++)
        u[i] = lx_couplet_widen(u[i]);
    int32_t n_lower = text.data != NULL ? codepoints(text.data, l, MAX_LINE) : 0;
    unsigned broken = lx_couplet_check(u, n_upper, l, n_lower);
    for (int i = 0; i < LX_COUPLET_N_RULES; i++)
        r->kept[mode][i] += (broken >> i & 1u) == 0;
    r->kept_all[mode] += broken == 0;
    lx_buffer_fini(&text);
}

/* What the answers are about: the pairs once freely, then with the rules. */
typedef struct questions {
    const pairs *pairs;
    const lx_model *model;
    report *report;
} questions;

static lx_status plan_answer(void *context, int32_t i, lx_plan **out, lx_error *err)
{
    const questions *q = context;
    const pair *item = &q->pairs->items[i % q->pairs->n];
    lx_task_request request = {
        .text = item->upper, .text_bytes = strlen(item->upper), .rules = i >= q->pairs->n};
    return lx_plan_new(q->model, &request, out, err);
}

static void judge_answer(void *context, int32_t i, const lx_job *job)
{
    const questions *q = context;
    judge(job, q->pairs->items[i % q->pairs->n].upper, q->report, i / q->pairs->n);
}

static lx_status answer(const lx_eval_options *o, const pairs *p, const lx_cli_model *local,
                        report *r, lx_error *err)
{
    questions q = {p, local->model, r};
    lx_eval_answers a = {
        .n = 2 * p->n,
        .sampling = {.has_seed = true, .seed = o->seed, .temperature = o->temperature, .top_p = 1},
        .context = &q,
        .plan = plan_answer,
        .judge = judge_answer};
    r->answered = true;
    return lx_eval_answer(local, &a, err);
}

static void print_json(const report *r, const char *model)
{
    double nll = r->nats / (double)r->n_chars;
    (void)printf("{\"model\": ");
    lx_cli_print_json_string(model);
    (void)printf(", \"pairs\": %lld, \"characters\": %lld, \"nll\": %.6f, \"perplexity\": %.4f",
                 (long long)r->n_pairs, (long long)r->n_chars, nll, exp(nll));
    static const char *const modes[] = {"free", "with_rules"};
    for (int mode = 0; mode < 2 && r->answered; mode++) {
        (void)printf(", \"rules_kept_%s\": {\"all\": %.6f", modes[mode],
                     (double)r->kept_all[mode] / (double)r->n_pairs);
        for (int i = 0; i < LX_COUPLET_N_RULES; i++)
            (void)printf(", \"%s\": %.6f", lx_couplet_rule_name(i),
                         (double)r->kept[mode][i] / (double)r->n_pairs);
        (void)printf("}");
    }
    (void)printf("}\n");
}

static void print_text(const report *r, const char *model)
{
    double nll = r->nats / (double)r->n_chars;
    (void)printf("model           %s\npairs           %lld\ncharacters      %lld\n", model,
                 (long long)r->n_pairs, (long long)r->n_chars);
    (void)printf("nll             %.4f nats per character of the lower line\n", nll);
    (void)printf("perplexity      %.2f\n", exp(nll));
    if (!r->answered)
        return;
    (void)printf("\nown lower lines that keep   free    with rules\n");
    for (int i = 0; i <= LX_COUPLET_N_RULES; i++) {
        const int64_t *kept[2];
        for (int mode = 0; mode < 2; mode++)
            kept[mode] = i < LX_COUPLET_N_RULES ? &r->kept[mode][i] : &r->kept_all[mode];
        (void)printf("  %-22s %7.2f %%  %7.2f %%\n",
                     i < LX_COUPLET_N_RULES ? lx_couplet_rule_name(i) : "all of them",
                     100.0 * (double)*kept[0] / (double)r->n_pairs,
                     100.0 * (double)*kept[1] / (double)r->n_pairs);
    }
}

lx_status lx_eval_couplets(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                           lx_error *err)
{
    pairs p = {0};
    report r = {0};
    lx_status st = pairs_read(&p, path, o->limit, local->model, err);
    if (st == LX_OK)
        st = score(&p, local->transformer, &r, err);
    if (st == LX_OK && o->answers)
        st = answer(o, &p, local, &r, err);
    if (st == LX_OK)
        (o->json ? print_json : print_text)(&r, local->model->name);
    pairs_free(&p);
    return st;
}
