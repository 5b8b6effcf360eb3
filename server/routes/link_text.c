/* A link's couplet or poem (see link.h): the answer that the page asks for, hung as it hangs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tasks/poem_forms.h"
#include "server/api/completion.h"
#include "server/routes/card.h"
#include "server/routes/link.h"
#include "server/routes/painter.h"

/* Most tokens of a poem without a form, as in web/poems.js. */
enum { FREE_TOKENS = 200 };
/* A poem is one of several, as in web/poems.js, and with a temperature one of the best of a pool.
   A link without `pick` is older and asks for one poem. */
enum { POEM_CHOICES = 3, POEM_POOL = 16 };
enum { FIELD_BYTES = 256, TEXT_BYTES = 4 * LX_CARD_MAX_CHARS + 1, PROMPT_BYTES = 1536 };

typedef struct link_text {
    lx_completion *completion; /* first: see lx_completion_held_advance */
    lx_painting painting;
    lx_reserve *reserve; /* memory for drawing */
    bool poem;
    bool is_lower; /* the line is a couplet's lower one, and the answer its upper one */
    int32_t pick;  /* of the lines, best first, each once */
    char form[FIELD_BYTES], acrostic[FIELD_BYTES], caption[FIELD_BYTES];
    char line[LX_FORM_TEXT_BYTES]; /* a couplet's given line, or a poem's beginning */
    char prompt[PROMPT_BYTES];
    char text[TEXT_BYTES]; /* to draw: the answered line, or all of the poem */
} link_text;

/* --- the query --- */

static lx_status copy_field(const lx_request *rq, const char *name, char *out, size_t size,
                            lx_error *err)
{
    const char *text = lx_link_field(rq, name);
    if (strlen(text) >= size)
        return lx_fail(err, LX_ERR_INVALID, name, "%s is too long", name);
    memcpy(out, text, strlen(text) + 1);
    return LX_OK;
}

/* A line without white space, by the form's own reader. */
static lx_status copy_line(const lx_request *rq, const char *name, char line[LX_FORM_TEXT_BYTES],
                           lx_error *err)
{
    lx_form form = {0};
    lx_status st = copy_field(rq, name, form.upper, sizeof form.upper, err);
    form.upper_bytes = strlen(form.upper);
    if (st == LX_OK)
        (void)lx_form_line(&form, line);
    return st;
}

static lx_status read_couplet(const lx_api *api, const lx_request *rq, link_text *t, lx_error *err)
{
    lx_status st = copy_line(rq, "line", t->line, err);
    if (st == LX_OK)
        st = copy_field(rq, "banner", t->caption, sizeof t->caption, err);
    if (st == LX_OK)
        st = lx_link_index(rq, "pick", api->max_n, &t->pick, err);
    memcpy(t->prompt, t->line, strlen(t->line) + 1);
    return st;
}

static lx_status read_poem(const lx_api *api, const lx_request *rq, link_text *t, lx_error *err)
{
    char kind[FIELD_BYTES], title[FIELD_BYTES];
    lx_status st = copy_field(rq, "kind", kind, sizeof kind, err);
    if (st == LX_OK)
        st = copy_field(rq, "title", title, sizeof title, err);
    if (st == LX_OK)
        st = copy_field(rq, "form", t->form, sizeof t->form, err);
    if (st == LX_OK)
        st = copy_field(rq, "acrostic", t->acrostic, sizeof t->acrostic, err);
    if (st == LX_OK)
        st = copy_line(rq, "begin", t->line, err);
    if (st == LX_OK)
        st = lx_link_index(rq, "pick", api->max_n, &t->pick, err);
    bool tune = lx_poem_form_is_tune(t->form);
    if (st == LX_OK)
        (void)snprintf(t->prompt, sizeof t->prompt, "%s《%s%s%s》%s", kind, tune ? t->form : "",
                       tune ? "·" : "", title, t->line);
    return st;
}

_Static_assert(3 * FIELD_BYTES + LX_FORM_TEXT_BYTES <= PROMPT_BYTES, "a prompt fits");

/* An empty text is no value. */
static lx_task_value value_of(const char *text)
{
    return (lx_task_value){text[0] != '\0' ? text : NULL, strlen(text)};
}

/* The fields that the page sends to POST /v1/completions. */
static void fill_params(const lx_request *rq, link_text *t, const lx_form *numbers,
                        lx_prompt *prompt, lx_completion_params *p)
{
    *prompt = (lx_prompt){.text = t->prompt, .bytes = strlen(t->prompt)}; /* borrowed, as all is */
    lx_completion_params_init(p);
    p->prompts = prompt;
    p->n_prompts = 1;
    p->n = !t->poem ? numbers->n : t->pick < 0 ? 1 : POEM_CHOICES;
    bool has_temperature = lx_link_field(rq, "temperature")[0] != '\0';
    p->draws = has_temperature ? "temperature" : NULL; /* NULL: the task chooses from its pool */
    if (has_temperature)
        p->sampling.temperature = numbers->temperature;
    p->sampling.has_seed = true;
    p->sampling.seed = numbers->seed;
    if (!t->poem)
        return;
    p->best_of = has_temperature && t->pick >= 0 && t->form[0] != '\0' ? POEM_POOL : 0;
    p->max_tokens = t->form[0] == '\0' ? FREE_TOKENS : 0;
    const char *rhyme = lx_link_field(rq, "rhyme");
    p->fields.at[LX_ASKED_form] = value_of(t->form);
    p->fields.at[LX_ASKED_acrostic] = value_of(t->acrostic);
    p->fields.at[LX_ASKED_pattern] = value_of(lx_link_field(rq, "pattern"));
    p->fields.at[LX_ASKED_rhyme] = value_of(strcmp(rhyme, "1") == 0 ? "true" : rhyme);
}

/* --- the answer --- */

static lx_json_choice choice_of(lx_answer *a)
{
    lx_json_choice choice;
    lx_answer_take(a, a->n_ready, &choice);
    return choice;
}

static bool is_same(const lx_json_choice *a, const lx_json_choice *b)
{
    return a->text_bytes == b->text_bytes && memcmp(a->text, b->text, a->text_bytes) == 0;
}

/* The line that the page hangs: number `pick` of its list, which has each line once; the best where
   there are fewer. */
static void choose(const link_text *t, const lx_json_choice *choices, lx_json_choice *out)
{
    int32_t n_lines = 0;
    *out = choices[0];
    for (int32_t i = 0; i < t->completion->n; i++) {
        bool listed = false;
        for (int32_t k = 0; k < i && !listed; k++)
            listed = is_same(&choices[k], &choices[i]);
        if (!listed && n_lines++ == t->pick)
            *out = choices[i];
    }
}

static lx_status read_text(link_text *t, lx_error *err)
{
    lx_completion *c = t->completion;
    lx_status st = lx_completion_finish(c, err);
    if (st == LX_OK)
        st = lx_completion_read_all(c, 0, err);
    lx_json_choice *choices = calloc((size_t)c->n, sizeof *choices), chosen;
    if (st == LX_OK && choices == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    for (int32_t i = 0; st == LX_OK && i < c->n; i++)
        choices[i] = choice_of(&c->choices[i].answer);
    if (st == LX_OK) {
        choose(t, choices, &chosen);
        t->is_lower = lx_job_plan(c->works[0].job)->backward;
        (void)snprintf(t->text, sizeof t->text, "%s%.*s", t->poem ? t->line : "",
                       (int)chosen.text_bytes, chosen.text);
    }
    free(choices);
    return st;
}

static lx_status draw(void *context, lx_font *font, lx_buffer *png, lx_error *err)
{
    const link_text *t = context;
    lx_card card = {.upper = t->is_lower ? t->text : t->line,
                    .lower = t->is_lower ? t->line : t->text,
                    .caption = t->caption,
                    .poem = t->poem ? t->text : NULL,
                    .has_form = t->form[0] != '\0'};
    return lx_card_draw(&card, font, png, err);
}

/* --- the route --- */

static void finish(void *context, lx_response *rs)
{
    link_text *t = context;
    lx_error err = {0};
    lx_status st = read_text(t, &err);
    t->painting = (lx_painting){.draw = draw, .context = t};
    lx_link_paint(&t->completion->works[0], &t->painting, st, &err, rs);
}

static void release(void *context)
{
    link_text *t = context;
    if (t->completion != NULL)
        lx_completion_release(t->completion);
    lx_reserve_unref(t->reserve);
    free(t);
}

static lx_status read_link(const lx_api *api, const lx_request *rq, link_text *t, lx_form *numbers,
                           lx_error *err)
{
    lx_status st = lx_link_numbers(api, rq, false, numbers, err);
    if (st != LX_OK)
        return st;
    return t->poem ? read_poem(api, rq, t, err) : read_couplet(api, rq, t, err);
}

static lx_status submit(lx_api *api, const lx_request *rq, const lx_form *numbers, link_text *t,
                        int32_t *retry_after_s, lx_error *err)
{
    lx_served_model *served = NULL;
    lx_prompt prompt;
    lx_completion_params p;
    lx_status st = lx_api_check_ready(api, err);
    if (st == LX_OK)
        st = lx_serving_find_task(api->serving, t->poem ? "poem" : "couplet", &served, err);
    if (st == LX_OK)
        st = lx_work_reserve(api, served, LX_CARD_BYTES, "path", &t->reserve, retry_after_s, err);
    if (st != LX_OK)
        return st;
    fill_params(rq, t, numbers, &prompt, &p);
    st = lx_completion_start(api, served, &p, rq, &t->completion, retry_after_s, err);
    if (st == LX_OK)
        lx_completion_await_end(t->completion);
    return st;
}

lx_status lx_link_start_text(lx_api *api, const lx_request *rq, lx_response *rs,
                             int32_t *retry_after_s, lx_error *err)
{
    link_text *t = calloc(1, sizeof *t);
    if (t == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    t->poem = rq->argument(rq->query, "line") == NULL;
    lx_form numbers;
    lx_status st = read_link(api, rq, t, &numbers, err);
    bool has_font = lx_painter_has_font(api->painter);
    if (st == LX_OK && has_font)
        st = submit(api, rq, &numbers, t, retry_after_s, err);
    if (st == LX_OK && !has_font)
        lx_painter_respond_card(rs);
    if (st != LX_OK || !has_font) {
        release(t);
        return st;
    }
    rs->deferred = (lx_deferred){.context = t,
                                 .advance = lx_completion_held_advance,
                                 .is_done = lx_completion_held_is_done,
                                 .finish = finish,
                                 .cancel = lx_completion_held_cancel,
                                 .release = release,
                                 .deadline_ns = t->completion->works[0].deadline_ns};
    return LX_OK;
}
