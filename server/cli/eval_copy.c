/*
 * linnet eval of a model that copies: on sequences that lx_copy_sequence draws, which no training
 * run has seen if they are long enough.
 *
 * Two measurements. The copies that the model writes, always the likeliest symbol, each from what
 * it wrote before: symbols right and whole sequences right. And nats per symbol of the right copy.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/score.h"
#include "model/tasks/copy.h"
#include "server/cli/eval.h"
#include "server/cli/eval_answers.h"

enum { USUAL_SEQUENCES = 1000, MAX_SEQUENCES = 1 << 20, N_SLOTS = 128 };

typedef struct copies {
    const lx_model *model;
    uint64_t seed;
    int32_t n, length;
    int32_t *sequence; /* [length], the one at hand */
    int64_t right_symbols, right_sequences;
    double nats;
} copies;

static lx_status plan_copy(void *context, int32_t i, lx_plan **out, lx_error *err)
{
    copies *c = context;
    lx_copy_sequence(&c->model->config, c->seed, (uint32_t)i, c->length, c->sequence);
    lx_task_request request = {.ids = c->sequence, .n_ids = c->length};
    return lx_plan_new(c->model, &request, out, err);
}

static void judge(void *context, int32_t i, const lx_job *job)
{
    copies *c = context;
    const int32_t *tokens = NULL;
    int32_t n = lx_job_tokens(job, 0, &tokens, NULL), right = 0;
    lx_copy_sequence(&c->model->config, c->seed, (uint32_t)i, c->length, c->sequence);
    for (int32_t k = 0; k < n; k++)
        right += tokens[k] == c->sequence[k];
    c->right_symbols += right;
    c->right_sequences += right == c->length;
}

/* Adds the nats of n sequences; targets and logprobs are [n, length]. */
static lx_status score_some(copies *c, lx_scorer *scorer, int32_t first, int32_t n,
                            int32_t *targets, float *logprobs, lx_error *err)
{
    lx_score_item items[N_SLOTS] = {0};
    lx_plan *plans[N_SLOTS] = {0};
    size_t length = (size_t)c->length;
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n && st == LX_OK; i++) {
        int32_t *own = targets + (size_t)i * length;
        st = plan_copy(c, first + i, &plans[i], err);
        for (size_t k = 0; k < length; k++)
            own[k] = c->sequence[k];
        items[i] = (lx_score_item){plans[i], own, logprobs + (size_t)i * length};
    }
    if (st == LX_OK)
        st = lx_scorer_run(scorer, items, n, err);
    for (size_t k = 0; k < (size_t)n * length && st == LX_OK; k++)
        c->nats -= (double)logprobs[k];
    for (int32_t i = 0; i < n; i++)
        lx_plan_free(plans[i]);
    return st;
}

static lx_status score(copies *c, lx_transformer *t, lx_error *err)
{
    size_t room = (size_t)N_SLOTS * (size_t)c->length;
    int32_t *targets = calloc(room, sizeof *targets);
    float *logprobs = calloc(room, sizeof *logprobs);
    lx_scorer *scorer = NULL;
    lx_status st = targets != NULL && logprobs != NULL
                       ? lx_scorer_new(t, LX_EVAL_ROWS, N_SLOTS, &scorer, err)
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d sequences", c->n);
    for (int32_t i = 0; i < c->n && st == LX_OK; i += N_SLOTS)
        st = score_some(c, scorer, i, c->n - i < N_SLOTS ? c->n - i : N_SLOTS, targets, logprobs,
                        err);
    lx_scorer_free(scorer);
    free(targets);
    free(logprobs);
    return st;
}

static void print_report(const lx_eval_options *o, const copies *c)
{
    double symbols = (double)c->n * c->length, nll = c->nats / symbols;
    double right = (double)c->right_symbols / symbols, whole = (double)c->right_sequences / c->n;
    if (o->json) {
        (void)printf("{\"model\": ");
        lx_cli_print_json_string(c->model->name);
        (void)printf(
            ", \"sequences\": %d, \"length\": %d, \"seed\": %lld, \"symbols_right\": %.6f, "
            "\"sequences_right\": %.6f, \"nll\": %.6f}\n",
            c->n, c->length, (long long)o->seed, right, whole, nll);
        return;
    }
    (void)printf("model            %s\nsequences        %d of %d symbols, seed %lld\n",
                 c->model->name, c->n, c->length, (long long)o->seed);
    (void)printf("symbols right    %.3f %%\nsequences right  %.2f %%\n", 100 * right, 100 * whole);
    (void)printf("nll              %.5f nats per symbol\n", nll);
}

static lx_status check_sizes(const lx_eval_options *o, const lx_model *model, lx_error *err)
{
    if (o->limit > MAX_SEQUENCES)
        return lx_fail(err, LX_ERR_INVALID, "limit", "--limit: at most %d sequences",
                       MAX_SEQUENCES);
    if (o->length > lx_copy_of(&model->config)->length)
        return lx_fail(err, LX_ERR_INVALID, "length",
                       "--length %lld: model %s reads at most %d symbols", (long long)o->length,
                       model->name, lx_copy_of(&model->config)->length);
    return LX_OK;
}

lx_status lx_eval_copies(const lx_eval_options *o, const lx_cli_model *local, lx_error *err)
{
    lx_status st = check_sizes(o, local->model, err);
    if (st != LX_OK)
        return st;
    copies c = {.model = local->model,
                .seed = (uint64_t)o->seed,
                .n = o->limit > 0 ? (int32_t)o->limit : USUAL_SEQUENCES,
                .length =
                    o->length > 0 ? (int32_t)o->length : lx_copy_of(&local->model->config)->length};
    lx_eval_answers a = {.n = c.n,
                         .sampling = {.has_seed = true, .top_p = 1},
                         .context = &c,
                         .plan = plan_copy,
                         .judge = judge};
    c.sequence = calloc((size_t)c.length, sizeof *c.sequence);
    if (c.sequence == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a sequence");
    st = lx_eval_answer(local, &a, err);
    if (st == LX_OK)
        st = score(&c, local->transformer, err);
    if (st == LX_OK)
        print_report(o, &c);
    free(c.sequence);
    return st;
}
