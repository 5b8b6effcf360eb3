/*
 * linnet eval of a poem model: nats per character of the texts of a file of poems, each given its
 * kind and title, from the forward pass (no form: every token of the vocabulary competes). What a
 * text's tokens cost is its nats, those of a character's bytes too; the end behind it is not asked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/score.h"
#include "model/tasks/text.h"
#include "model/utf8.h"
#include "server/cli/eval.h"

enum { N_SLOTS = 128, MAX_LINE = 8192, COLUMNS = 4 };
enum { KIND, AUTHOR, TITLE, TEXT };

typedef struct poems {
    lx_score_item *items; /* plans, targets and logprobs are owned */
    int32_t n, capacity;
    int64_t n_chars;
} poems;

static void poems_free(poems *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        lx_plan_free((lx_plan *)p->items[i].plan);
        free((int32_t *)p->items[i].targets);
        free(p->items[i].logprobs);
    }
    free(p->items);
}

static lx_status make_room(poems *p, lx_error *err)
{
    if (p->n < p->capacity)
        return LX_OK;
    int32_t capacity = p->capacity == 0 ? 1024 : p->capacity * 2;
    lx_score_item *items = realloc(p->items, (size_t)capacity * sizeof *items);
    if (items == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d poems", capacity);
    p->items = items;
    p->capacity = capacity;
    return LX_OK;
}

/* The columns of a line, which is cut into them. */
static lx_status split(char *line, char *columns[COLUMNS], lx_error *err)
{
    for (int32_t i = 0; i < COLUMNS; i++) {
        columns[i] = line;
        char *tab = strchr(line, '\t');
        if ((tab == NULL) != (i == COLUMNS - 1) || (tab == NULL && line[0] == '\0'))
            return lx_fail(err, LX_ERR_INVALID, NULL, "not kind TAB author TAB title TAB text");
        if (tab != NULL)
            *tab = '\0';
        line = tab != NULL ? tab + 1 : line;
    }
    return LX_OK;
}

static lx_status plan_poem(const lx_model *model, char *const columns[COLUMNS], lx_plan **out,
                           lx_error *err)
{
    char prompt[MAX_LINE + 16];
    int n = snprintf(prompt, sizeof prompt, "%s《%s》", columns[KIND], columns[TITLE]);
    lx_task_request request = {.text = prompt, .text_bytes = (size_t)n};
    return lx_plan_new(model, &request, out, err);
}

static lx_status add_poem(poems *p, const lx_model *model, char *line, lx_error *err)
{
    char *columns[COLUMNS];
    lx_plan *plan = NULL;
    lx_token_list list;
    lx_status st = make_room(p, err);
    if (st == LX_OK)
        st = split(line, columns, err);
    if (st == LX_OK)
        st = plan_poem(model, columns, &plan, err);
    if (st != LX_OK)
        return st;
    const char *text = columns[TEXT];
    size_t bytes = strlen(text);
    lx_token_list_init(&list, (size_t)plan->n_new);
    st = lx_text_encode(model, text, bytes, 0, NULL, &list, err);
    if (st == LX_OK && list.status != LX_OK)
        st = lx_fail(err, list.status, NULL, "its tokens: %s", lx_status_text(list.status));
    float *logprobs = calloc(list.n + 1, sizeof *logprobs);
    p->items[p->n++] = (lx_score_item){plan, list.ids, logprobs};
    plan->n_new = (int32_t)list.n;
    for (size_t at = 0; at < bytes; p->n_chars++)
        (void)lx_utf8_next(text, bytes, &at);
    if (st == LX_OK && logprobs == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a poem");
    return st;
}

static lx_status read_poems(poems *p, const char *path, int64_t limit, const lx_model *model,
                            lx_error *err)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return lx_fail(err, LX_ERR_IO, NULL, "%s: cannot be opened", path);
    char line[MAX_LINE];
    lx_status st = LX_OK;
    for (int32_t number = 1; st == LX_OK && (limit == 0 || p->n < limit); number++) {
        lx_error why = {0};
        if (fgets(line, sizeof line, f) == NULL)
            break;
        line[strcspn(line, "\r\n")] = '\0';
        st = add_poem(p, model, line, &why);
        if (st != LX_OK)
            (void)lx_fail(err, st, NULL, "%s:%d: %s", path, number, why.text);
    }
    (void)fclose(f);
    if (st == LX_OK && p->n == 0)
        st = lx_fail(err, LX_ERR_INVALID, NULL, "%s: holds no poem", path);
    return st;
}

static lx_status score(const poems *p, lx_transformer *t, double *nats, lx_error *err)
{
    lx_scorer *scorer = NULL;
    lx_status st = lx_scorer_new(t, LX_EVAL_ROWS, N_SLOTS, &scorer, err);
    if (st == LX_OK)
        st = lx_scorer_run(scorer, p->items, p->n, err);
    for (int32_t i = 0; i < p->n && st == LX_OK; i++) {
        for (int32_t k = 0; k < p->items[i].plan->n_new; k++)
            *nats -= (double)p->items[i].logprobs[k];
    }
    lx_scorer_free(scorer);
    return st;
}

static void print(const lx_eval_options *o, const poems *p, const char *model, double nats)
{
    double nll = nats / (double)p->n_chars;
    if (!o->json) {
        (void)printf("model           %s\npoems           %d\ncharacters      %lld\n", model, p->n,
                     (long long)p->n_chars);
        (void)printf("nll             %.4f nats per character of the text\n", nll);
        (void)printf("perplexity      %.2f\n", exp(nll));
        return;
    }
    (void)printf("{\"model\": ");
    lx_cli_print_json_string(model);
    (void)printf(", \"poems\": %d, \"characters\": %lld, \"nll\": %.6f, \"perplexity\": %.4f}\n",
                 p->n, (long long)p->n_chars, nll, exp(nll));
}

lx_status lx_eval_poems(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                        lx_error *err)
{
    poems p = {0};
    double nats = 0;
    lx_status st = read_poems(&p, path, o->limit, local->model, err);
    if (st == LX_OK)
        st = score(&p, local->transformer, &nats, err);
    if (st == LX_OK)
        print(o, &p, local->model->name, nats);
    poems_free(&p);
    return st;
}
