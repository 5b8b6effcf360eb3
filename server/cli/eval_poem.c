/*
 * linnet eval of a poem model: nats per character of the texts of a file of poems, each given its
 * kind and title, from the forward pass (no form: every token of the vocabulary competes). What a
 * text's tokens cost is its nats, those of a character's bytes too; the end behind it is not asked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tasks/text.h"
#include "model/utf8.h"
#include "server/cli/eval.h"
#include "server/cli/eval_lines.h"

enum { COLUMNS = 4 };
enum { KIND, AUTHOR, TITLE, TEXT };

typedef struct poems {
    const lx_model *model;
    lx_eval_lines texts; /* given kind and title */
    int64_t n_chars;
} poems;

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
    char prompt[LX_EVAL_LINE_BYTES + sizeof "《》"];
    int n = snprintf(prompt, sizeof prompt, "%s《%s》", columns[KIND], columns[TITLE]);
    lx_task_request request = {.text = prompt, .text_bytes = (size_t)n};
    return lx_plan_new(model, &request, out, err);
}

static lx_status add_poem(void *context, char *line, lx_error *err)
{
    poems *p = context;
    char *columns[COLUMNS];
    lx_plan *plan = NULL;
    lx_token_list list = {0};
    lx_status st = split(line, columns, err);
    if (st == LX_OK)
        st = plan_poem(p->model, columns, &plan, err);
    if (st != LX_OK)
        return st;
    const char *text = columns[TEXT];
    size_t bytes = strlen(text);
    lx_token_list_init(&list, (size_t)plan->n_new);
    st = lx_text_encode(p->model, text, bytes, 0, NULL, &list, err);
    if (st == LX_OK && list.status != LX_OK)
        st = lx_fail(err, list.status, NULL, "its tokens: %s", lx_status_text(list.status));
    plan->n_new = (int32_t)list.n;
    for (size_t at = 0; at < bytes; p->n_chars++)
        (void)lx_utf8_next(text, bytes, &at);
    return lx_eval_lines_add(&p->texts, plan, list.ids, st, err);
}

static void print(const lx_eval_options *o, const poems *p, const char *model, double nats)
{
    double nll = nats / (double)p->n_chars;
    if (!o->json) {
        (void)printf("model           %s\npoems           %d\ncharacters      %lld\n", model,
                     p->texts.n, (long long)p->n_chars);
        (void)printf("nll             %.4f nats per character of the text\n", nll);
        (void)printf("perplexity      %.2f\n", exp(nll));
        return;
    }
    (void)printf("{\"model\": ");
    lx_cli_print_json_string(model);
    (void)printf(", \"poems\": %d, \"characters\": %lld, \"nll\": %.6f, \"perplexity\": %.4f}\n",
                 p->texts.n, (long long)p->n_chars, nll, exp(nll));
}

lx_status lx_eval_poems(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                        lx_error *err)
{
    poems p = {.model = local->model};
    double nats = 0;
    int64_t tokens = 0; /* a character may be several */
    lx_status st = lx_eval_lines_read(path, o->limit, "poem", add_poem, &p, err);
    if (st == LX_OK)
        st = lx_eval_lines_score(&p.texts, local->transformer, &nats, &tokens, err);
    if (st == LX_OK)
        print(o, &p, local->model->name, nats);
    lx_eval_lines_free(&p.texts);
    return st;
}
