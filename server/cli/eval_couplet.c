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

#include "model/characters.h"
#include "model/tasks/couplet.h"
#include "model/utf8.h"
#include "server/cli/eval.h"
#include "server/cli/eval_answers.h"
#include "server/cli/eval_lines.h"

/* The pairs of the file, parsed for the model. */
typedef struct pairs {
    const lx_model *model;
    lx_eval_lines lower; /* given the upper lines; rules off */
    char **upper;        /* [lower.n], owned */
    int32_t capacity;
} pairs;

typedef struct report {
    int64_t n_pairs, n_chars;
    double nats;
    bool answered;
    int64_t kept[2][LX_COUPLET_N_RULES], kept_all[2]; /* [0] free, [1] with rules */
} report;

static void pairs_free(pairs *p)
{
    for (int32_t i = 0; i < p->lower.n && i < p->capacity; i++)
        free(p->upper[i]);
    free(p->upper);
    lx_eval_lines_free(&p->lower);
}

/* Of the pair that has just been added. */
static lx_status keep_upper(pairs *p, const char *line, lx_error *err)
{
    int32_t n = p->lower.n;
    if (n > p->capacity) {
        int32_t capacity = p->lower.capacity;
        char **upper = realloc(p->upper, (size_t)capacity * sizeof *upper);
        if (upper == NULL)
            return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d lines", capacity);
        p->upper = upper;
        p->capacity = capacity;
    }
    p->upper[n - 1] = strdup(line);
    return p->upper[n - 1] != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory");
}

static lx_status add_pair(void *context, char *line, lx_error *err)
{
    pairs *p = context;
    lx_plan *plan = NULL;
    lx_token_list targets = {0};
    char *tab = strchr(line, '\t');
    if (tab == NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL, "no TAB between an upper and a lower line");
    *tab = '\0';
    lx_task_request request = {.text = line, .text_bytes = strlen(line), .rules = false};
    lx_status st = lx_plan_new(p->model, &request, &plan, err);
    if (st == LX_OK) {
        lx_token_list_init(&targets, (size_t)plan->n_new);
        st = plan->model->task->read_answer(plan, tab + 1, strlen(tab + 1), &targets, err);
    }
    if (st == LX_OK && targets.status != LX_OK)
        st = lx_fail(err, targets.status, NULL, "no memory for a pair");
    st = lx_eval_lines_add(&p->lower, plan, targets.ids, st, err);
    return st == LX_OK ? keep_upper(p, line, err) : st;
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
    uint32_t u[LX_EVAL_LINE_BYTES], l[LX_EVAL_LINE_BYTES];
    lx_buffer text;
    const int32_t *tokens = NULL;
    lx_buffer_init(&text, LX_EVAL_LINE_BYTES);
    int32_t n = lx_job_tokens(job, 0, &tokens, NULL);
    lx_plan_text(lx_job_plan(job), tokens, n, &text);
    int32_t n_upper = codepoints(upper, u, LX_EVAL_LINE_BYTES);
    for (int32_t i = 0; i < n_upper; i++)
        u[i] = lx_char_widen(u[i]);
    int32_t n_lower = text.data != NULL ? codepoints(text.data, l, LX_EVAL_LINE_BYTES) : 0;
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
    int32_t n = q->pairs->lower.n;
    const char *upper = q->pairs->upper[i % n];
    lx_task_request request = {.text = upper, .text_bytes = strlen(upper), .rules = i >= n};
    return lx_plan_new(q->model, &request, out, err);
}

static void judge_answer(void *context, int32_t i, const lx_job *job)
{
    const questions *q = context;
    int32_t n = q->pairs->lower.n;
    judge(job, q->pairs->upper[i % n], q->report, i / n);
}

static lx_status answer(const lx_eval_options *o, const pairs *p, const lx_cli_model *local,
                        report *r, lx_error *err)
{
    questions q = {p, local->model, r};
    lx_eval_answers a = {
        .n = 2 * p->lower.n,
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
    pairs p = {.model = local->model};
    report r = {0};
    lx_status st = lx_eval_lines_read(path, o->limit, "pair", add_pair, &p, err);
    if (st == LX_OK)
        st = lx_eval_lines_score(&p.lower, local->transformer, &r.nats, &r.n_chars, err);
    r.n_pairs = p.lower.n;
    if (st == LX_OK && o->answers)
        st = answer(o, &p, local, &r, err);
    if (st == LX_OK)
        (o->json ? print_json : print_text)(&r, local->model->name);
    pairs_free(&p);
    return st;
}
