/* One request for completions (see completion.h). */
#include "server/api/completion.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "model/tasks/couplet.h"
#include "model/tasks/text.h"
#include "server/api/pool.h"
#include "server/api/token_rules.h"

/* --- plans --- */

/* Tells the plan how many tokens come before the answer may end. */
static lx_status open_plan(lx_plan *plan, const lx_work_params *w, const lx_completion_params *p,
                           lx_error *err)
{
    int32_t most = lx_work_new_tokens(w, plan);
    if (p->min_tokens > most)
        return lx_fail(err, LX_ERR_INVALID, p->min_tokens_field,
                       "%s is %d, but the answer has at most %d tokens", p->min_tokens_field,
                       p->min_tokens, most);
    int32_t there = p->from != NULL ? p->from->start.n_tokens : plan->n_given;
    plan->n_open = p->min_tokens > 0 ? there + p->min_tokens : 0;
    return LX_OK;
}

/* --- start --- */

/* An answer without a fixed end has a length of its own where none is asked for: OpenAI's. */
enum { USUAL_TOKENS = 16 };

static int32_t wanted_tokens(const lx_api *api, const lx_plan *plan, const lx_completion_params *p)
{
    if (p->max_tokens > 0 || plan->model->task->ends == NULL)
        return p->max_tokens;
    if (plan->has_end || p->chat) /* a chat's answers end by themselves */
        return api->max_tokens;
    return api->max_tokens < USUAL_TOKENS ? api->max_tokens : USUAL_TOKENS;
}

#define LEAST_TOP_P 1e-6 /* of a request */

/* The request's, or the model's where the request does not say and the model does. */
static double choose(bool unsaid, double of_model, double of_request)
{
    return unsaid && !isnan(of_model) ? of_model : of_request;
}

static lx_sampling_params choose_sampling(const lx_api *api, const lx_model *model,
                                          const lx_completion_params *p)
{
    lx_sampling_params s = p->sampling;
    if (!api->model_sampling || model->task->ends == NULL)
        return s;
    const lx_text_sampling *m = &lx_text_of(&model->config)->sampling;
    unsigned unsaid = p->unsaid;
    s.temperature = choose(unsaid & LX_UNSAID_TEMPERATURE, m->temperature, s.temperature);
    s.top_p =
        choose(unsaid & LX_UNSAID_TOP_P, m->top_p < LEAST_TOP_P ? LEAST_TOP_P : m->top_p, s.top_p);
    s.top_k = (int32_t)choose(unsaid & LX_UNSAID_TOP_K, m->top_k, s.top_k);
    s.top_k = s.top_k > 0 ? s.top_k : 0;
    s.min_p = choose(unsaid & LX_UNSAID_MIN_P, m->min_p, s.min_p);
    s.repetition_penalty =
        choose(unsaid & LX_UNSAID_REPETITION, m->repetition_penalty, s.repetition_penalty);
    return s;
}

/* All prompts are of one model, and their answers of one form. */
static lx_work_params work_params(const lx_api *api, const lx_plan *plan,
                                  const lx_completion_params *p)
{
    int32_t n_ids = plan->model->config.n_values;
    int32_t n_top = p->n_logprobs > 0 ? p->n_logprobs : 0;
    return (lx_work_params){
        .n = p->best_of > p->n ? p->best_of : p->n,
        .max_new = wanted_tokens(api, plan, p),
        .prompt_only = p->no_tokens,
        .sampling = choose_sampling(api, plan->model, p),
        .timeout_ms = p->timeout_ms,
        .biases = p->biases,
        .n_biases = p->n_biases,
        .n_top = n_top < n_ids ? n_top : n_ids,
        .stops = p->stops.n > 0 ? &p->stops : NULL,
        .from = p->from,
        .ahead = p->ahead,
        .n_reviews = lx_pool_reviews(plan->model, p),
        .return_state = p->return_state,
        .kept_twice = p->store && p->conversation != NULL,
        .suspend = p->suspend,
        .load = lx_pending_load_fields(p),
    };
}

/* With several prompts an error says which one it is about. */
static void name_prompt(const lx_completion_params *p, int32_t i, lx_error *err)
{
    char text[sizeof err->text];
    if (p->n_prompts < 2 || strcmp(err->param, "prompt") != 0)
        return;
    (void)snprintf(text, sizeof text, "prompt[%d]: %.*s", i, (int)sizeof text - 24, err->text);
    memcpy(err->text, text, sizeof text);
}

/* An echoed prompt's log-probabilities are those of its tokens, as a part of the answer. */
static bool scores_prompt(const lx_completion_params *p)
{
    return p->echo && p->from == NULL && (p->n_logprobs >= 0 || p->no_tokens);
}

static lx_status check_scored_prompt(const lx_completion_params *p, lx_error *err)
{
    const char *field = p->n > 1             ? "n"
                        : p->best_of > 1     ? "best_of"
                        : p->return_state    ? "return_state"
                        : p->suspend != NULL ? p->suspend
                                             : NULL;
    if (field == NULL)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, field,
                   "%s is not allowed where echo and logprobs ask for the prompt's scores", field);
}

/* Of an answer without a fixed end. */
static lx_status check_open_ended(const lx_api *api, const lx_completion_params *p, lx_error *err)
{
    const char *field = p->max_tokens_field;
    if (p->max_tokens > api->max_tokens)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "%s is %d, but an answer has at most %d here (--max-tokens)", field,
                       p->max_tokens, api->max_tokens);
    return scores_prompt(p) ? check_scored_prompt(p, err) : LX_OK;
}

/* Checks that need the model. */
static lx_status check_request(const lx_api *api, const lx_served_model *served,
                               const lx_completion_params *p, lx_error *err)
{
    int32_t n_ids = served->model->config.n_values;
    lx_status st = served->model->task->ends != NULL ? check_open_ended(api, p, err) : LX_OK;
    if (st != LX_OK)
        return st;
    if (p->no_tokens && (served->model->task->ends == NULL || p->from != NULL))
        return lx_fail(err, LX_ERR_INVALID, "max_tokens",
                       "max_tokens 0 is for prompts of models of text without a form");
    if (p->n_biases > 0 && p->biases[p->n_biases - 1].id >= n_ids)
        return lx_fail(err, LX_ERR_INVALID, "logit_bias",
                       "logit_bias: %d is not a token, they are 0 to %d here",
                       p->biases[p->n_biases - 1].id, n_ids - 1);
    st = lx_tokens_check(served->model, p, err);
    if (st != LX_OK)
        return st;
    if (p->suspend != NULL && p->n_prompts > 1)
        return lx_fail(err, LX_ERR_INVALID, p->suspend, "%s is for one prompt, not %d", p->suspend,
                       p->n_prompts);
    int64_t places =
        atomic_load(&served->metrics.slots_total) + atomic_load(&served->metrics.queue_limit);
    if (p->n_prompts > 1 && p->n_prompts > places)
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "prompt has %d prompts, but the server takes %lld at once", p->n_prompts,
                       (long long)places);
    return LX_OK;
}

/* The prompts' plans, all or none: plans[n_prompts] begins as zeros, and is freed by the caller. */
static lx_status make_plans(const lx_api *api, lx_served_model *served,
                            const lx_completion_params *p, const lx_request *rq, lx_plan **plans,
                            lx_error *err)
{
    int32_t ahead = p->ahead != NULL ? p->ahead->start.rows : 0; /* are not computed again */
    lx_status st = LX_OK;
    lx_shape shape = p->shape;
    shape.owner = rq->client.key;
    for (int32_t i = 0; st == LX_OK && i < p->n_prompts; i++) {
        const lx_prompt *prompt = &p->prompts[i];
        lx_task_request request = {.text = prompt->text,
                                   .text_bytes = prompt->bytes,
                                   .ids = prompt->ids,
                                   .n_ids = prompt->n_ids,
                                   .borders = prompt->borders,
                                   .n_borders = prompt->n_borders,
                                   .max_prompt = api->max_prompt + ahead,
                                   .score_prompt = scores_prompt(p),
                                   .ignore_end = p->ignore_eos,
                                   .shape = shape,
                                   .n_answers = p->best_of > p->n ? p->best_of : p->n,
                                   .rules = p->rules,
                                   .either_way = p->pooled,
                                   .normalize = p->normalize,
                                   .fields = &p->fields};
        st = p->from != NULL ? lx_work_plan_from(served, p->from, p->ignore_eos, &plans[i], err)
                             : lx_work_plan(served, &request, &plans[i], err);
        if (st != LX_OK)
            name_prompt(p, i, err);
    }
    return st;
}

static void free_plans(lx_plan **plans, int32_t n)
{
    for (int32_t i = 0; plans != NULL && i < n; i++)
        lx_plan_free(plans[i]);
    free(plans);
}

/* The field that makes the request large, for the error. */
static const char *costly_field(const lx_completion_params *p)
{
    if (p->return_state)
        return p->response ? "store" : "return_state";
    return p->n_logprobs > 0 ? "logprobs" : p->n > 1 || p->best_of > 1 ? "n" : "prompt";
}

static lx_json_notes all_notes(const lx_completion_params *p, lx_plan *const *plans)
{
    lx_json_notes notes = p->notes;
    const lx_task_ops *task = plans[0]->model->task;
    lx_note_unread(task, p->rules, p->normalize, &notes);
    if (p->ignore_eos && task->ends == NULL)
        lx_json_note(&notes, "ignore_eos", "answers of this model have a fixed length", NULL);
    for (int32_t i = 0; i < p->n_prompts; i++) {
        notes.unknown += plans[i]->n_unknown;
        notes.simplified += plans[i]->n_simplified;
        notes.backward += plans[i]->backward;
        if (plans[i]->warning != NULL)
            notes.prompt = plans[i]->warning;
    }
    return notes;
}

/* --- the cost of an answer --- */

enum {
    HELD_TOKENS = 3,   /* a character comes whole: its first bytes wait for the last */
    CHOICE_TEXT = 320, /* a choice's JSON but for its text */
    NAME_TEXT = 64,    /* the names of an entry of a chat's log-probabilities */
    ID_TEXT = 12,      /* a token's id with its comma */
    BYTE_TEXT = 4,     /* a token's byte as a number */
    LINE_TEXT = 64,    /* the names of members about a couplet's line */
    TONE_TEXT = 4,     /* a character's tone */
    CALLS_ESCAPED = 2 * LX_COST_ESCAPED /* arguments are JSON in a text of JSON */
};

typedef struct answer_size {
    int64_t n_choices;   /* of all prompts */
    int64_t n_states;    /* that are kept and listed in the answer */
    int64_t tokens;      /* of a choice, at most; with the prompt's where it is echoed */
    int64_t pending;     /* of a stream's choice: tokens that are rendered and not sent, at most */
    int64_t token_bytes; /* of text that a token adds, see lx_model.token_bytes */
    int32_t n_warnings, n_stored;
    int32_t n_top;          /* likeliest tokens for each; -1: no log-probabilities at all */
    int64_t prompt_ids;     /* that a choice tells; with the ids of its own tokens: -1 neither */
    int64_t repeated_bytes; /* of the request's text, which the answer has in it again */
    int64_t stored_bytes; /* of messages in each of n_stored objects, which have the answer, too */
    bool chat, stream, thinks, calls;
    bool response, tones; /* a stream ends with all of its text once more; choices have tones */
} answer_size;

/* Whether the answer tells the tones of its lines. */
static bool has_tones(const lx_completion_params *p, const lx_plan *plan)
{
    return plan->model->task == &lx_couplet_task && !p->chat && !p->stream;
}

/* A response has its tools in it again. */
static int64_t tool_bytes(const lx_completion_params *p)
{
    return p->response ? (int64_t)lx_json_indented_bytes(p->variables) : 0;
}

static int64_t length_of(const char *text)
{
    return text != NULL ? (int64_t)strlen(text) : 0;
}

static answer_size size_of(const lx_completion_params *p, const lx_work_params *w,
                           lx_plan *const *plans)
{
    assert(p->n_prompts > 0 && plans[0] != NULL); /* all or none were made */
    answer_size size = {.n_choices = (int64_t)p->n_prompts * p->n,
                        .n_top = p->n_logprobs,
                        .pending =
                            LX_STREAM_TOKENS + HELD_TOKENS + (int64_t)lx_stops_longest(&p->stops),
                        .token_bytes = plans[0]->model->token_bytes,
                        .prompt_ids = -1,
                        .repeated_bytes = (int64_t)p->instructions_bytes + tool_bytes(p) +
                                          length_of(p->metadata) + length_of(p->format),
                        .n_stored = p->response ? p->store + (p->conversation != NULL) : 0,
                        .stored_bytes = lx_cost_messages(p) + p->kept_bytes,
                        .chat = p->chat,
                        .thinks = p->thinks != LX_THINKS_NOT || p->calls != NULL,
                        .calls = p->calls != NULL,
                        .stream = p->stream,
                        .response = p->response,
                        .tones = has_tones(p, plans[0])};
    for (int32_t i = 0; i < p->n_prompts; i++) {
        assert(plans[i] != NULL);
        int64_t tokens = lx_work_new_tokens(w, plans[i]) + (p->echo ? plans[i]->n_pieces : 0);
        size.tokens = tokens > size.tokens ? tokens : size.tokens;
        if (p->return_token_ids && plans[i]->n_pieces > size.prompt_ids)
            size.prompt_ids = plans[i]->n_pieces;
    }
    lx_json_notes notes = all_notes(p, plans);
    size.n_warnings = lx_json_count_notes(&notes);
    int32_t n_samples = p->best_of > p->n ? p->best_of : p->n;
    if (p->return_state || p->suspend != NULL) {
        size.n_states = (int64_t)p->n_prompts * n_samples;
        size.n_warnings++; /* that some were not kept */
    }
    return size;
}

/* Of one token's log-probabilities. */
static int64_t token_text(const answer_size *s)
{
    int64_t name = s->token_bytes * LX_COST_ESCAPED, entries = s->n_top + 1;
    if (s->n_top < 0)
        return 0;
    if (s->chat)
        return entries * (name + LX_COST_REAL + NAME_TEXT + s->token_bytes * BYTE_TEXT);
    return name + 2 * LX_COST_REAL + entries * (name + LX_COST_REAL);
}

static int64_t choice_text(const answer_size *s)
{
    int64_t ids = s->prompt_ids >= 0 ? s->prompt_ids + s->tokens : 0;
    int64_t tones = s->tones ? LINE_TEXT + s->tokens * TONE_TEXT : 0;
    int64_t escaped = s->calls ? CALLS_ESCAPED : LX_COST_ESCAPED;
    return CHOICE_TEXT + s->tokens * (s->token_bytes * escaped + token_text(s)) + ids * ID_TEXT +
           2 * tones; /* the prompt's, too */
}

/* All around the choices. */
static int64_t frame_text(const answer_size *s)
{
    return LX_COST_HEAD + s->n_warnings * LX_COST_WARNING + s->repeated_bytes * LX_COST_ESCAPED +
           lx_cost_states(s->n_states);
}

static int64_t whole_text(const answer_size *s)
{
    return frame_text(s) + s->n_choices * choice_text(s);
}

/* What lx_answer holds of so many tokens: the text and the tokens, both of which grow. Thoughts are
   copied out of the text, and the rest of it, too. */
static int64_t held_bytes(const answer_size *s, int64_t tokens)
{
    int64_t texts = s->token_bytes * (s->calls ? 4 : s->thinks ? 2 : 1);
    return (int64_t)(sizeof(lx_choice) + sizeof(lx_json_choice)) + LX_COST_FIRST +
           (s->thinks ? 2 * LX_COST_FIRST : 0) +
           tokens * LX_COST_GROWN * (texts + (int64_t)sizeof(lx_json_token));
}

/* The text, a copy of one choice's text while its JSON is written, and what is not written yet. A
   stream writes one choice after the other; of a response it has the whole text once more. */
static int64_t answer_bytes(const answer_size *s)
{
    bool pieces = s->stream && !s->response;
    int64_t pending = s->tokens < s->pending ? s->tokens : s->pending;
    int64_t text = pieces ? frame_text(s) + choice_text(s) : whole_text(s);
    int64_t bytes = LX_COST_GROWN * text + s->tokens * s->token_bytes + s->repeated_bytes +
                    s->n_choices * held_bytes(s, pieces ? pending : s->tokens);
    bytes += s->n_stored * 2 * LX_COST_GROWN * (whole_text(s) + s->stored_bytes);
    return s->stream ? bytes + held_bytes(s, pending) + LX_COST_STREAM : bytes;
}

/* The request's largest cost, in w->reserve. */
static lx_status reserve(lx_api *api, lx_served_model *served, const lx_completion_params *p,
                         lx_plan *const *plans, lx_work_params *w, int32_t *retry_after_s,
                         lx_error *err)
{
    answer_size size = size_of(p, w, plans);
    int64_t bytes = answer_bytes(&size) + (int64_t)sizeof(lx_completion) +
                    lx_work_bytes(api, plans, p->n_prompts, w);
    return lx_work_reserve(api, served, bytes, costly_field(p), &w->reserve, retry_after_s, err);
}

void lx_completion_begin_answer(const lx_completion *c, int32_t i, int32_t sample, lx_answer *a)
{
    lx_answer_init(a, &c->works[i], sample, c->n_logprobs >= 0);
    a->leading = c->leading;
}

/* Choice k of a prompt is its sample k, unless the best of more are wanted. */
static void begin_answers(lx_completion *c, int32_t i)
{
    const lx_model *model = c->works[i].pending.served->model;
    for (int32_t k = 0; k < c->n; k++) {
        lx_choice *choice = &c->choices[i * c->n + k];
        lx_completion_begin_answer(c, i, k, &choice->answer);
        lx_thinking_init(&choice->thinking, c->thinks, model, c->calls, choice->answer.text.max);
    }
}

/* Starts all or none; the request counts once. Takes the plans. */
static lx_status start_works(lx_completion *c, lx_api *api, lx_served_model *served,
                             lx_plan **plans, int32_t n, const lx_work_params *w,
                             const lx_request *rq, int32_t *retry_after_s, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; st == LX_OK && i < n; i++) {
        lx_plan *plan = plans[i];
        plans[i] = NULL;
        lx_work_params params = *w;
        params.first = i > 0 ? c->works[0].job : NULL;
        st = lx_work_start(&c->works[i], api, served, plan, &params, rq, retry_after_s, err);
        c->n_prompts += st == LX_OK;
        if (st == LX_OK)
            begin_answers(c, i);
        if (st == LX_OK && i > 0)
            atomic_store(&c->works[i].pending.counted, true);
    }
    if (st != LX_OK && c->n_prompts > 0) { /* the refusal was counted */
        atomic_store(&c->works[0].pending.counted, true);
        lx_completion_cancel(c);
        lx_pending_refund(&c->works[0].pending); /* of all */
    }
    return st;
}

static lx_completion *new_completion(const lx_completion_params *p, const lx_work_params *w,
                                     lx_plan *const *plans)
{
    size_t n_choices = (size_t)p->n_prompts * (size_t)p->n;
    answer_size size = size_of(p, w, plans);
    lx_completion *c = calloc(1, sizeof *c + n_choices * sizeof *c->choices);
    if (c != NULL)
        c->works = calloc((size_t)p->n_prompts, sizeof *c->works);
    if (c == NULL || c->works == NULL) {
        free(c);
        return NULL;
    }
    c->max_text = (size_t)whole_text(&size);
    c->notes = all_notes(p, plans);
    c->include_usage = p->include_usage;
    c->usage_always = p->include_usage && p->usage_always;
    c->token_ids = p->return_token_ids;
    c->chat = p->chat;
    c->pooled = p->pooled;
    c->echo = p->echo;
    c->n = p->n;
    c->n_logprobs = p->n_logprobs;
    c->leading = p->leading;
    c->thinks = p->thinks;
    c->calls = lx_calls_ref(p->calls);
    if (p->response)
        lx_state_make_id("resp_", c->id, sizeof c->id);
    else
        (void)snprintf(c->id, sizeof c->id, "%s%016llx",
                       p->message ? "msg_"
                       : p->chat  ? "chatcmpl-"
                                  : "cmpl-",
                       (unsigned long long)lx_random_bits());
    return c;
}

/* With its plans made; they are taken one by one. */
static lx_status start(lx_api *api, lx_served_model *served, const lx_completion_params *p,
                       lx_plan **plans, const lx_request *rq, lx_completion **out,
                       int32_t *retry_after_s, lx_error *err)
{
    assert(p->n_prompts > 0 && plans[0] != NULL); /* all or none were made */
    lx_work_params w = work_params(api, plans[0], p);
    lx_completion *c = NULL;
    lx_bias *biases = NULL;
    lx_work_choose_seed(&w);
    lx_work_set_load(&w, plans, p->n_prompts);
    lx_status st = LX_OK;
    for (int32_t i = 0; st == LX_OK && i < p->n_prompts; i++)
        st = open_plan(plans[i], &w, p, err);
    bool has_calls = p->shape.kind == LX_SHAPE_CALLS && p->tool_choice != LX_TOOLS_REQUIRED;
    if (st == LX_OK && p->n_allowed > 0 && p->shape.kind != LX_SHAPE_NONE && !has_calls)
        st = lx_fail(err, LX_ERR_INVALID, "allowed_token_ids",
                     "allowed_token_ids does not go with a shape or a required call, whose grammar "
                     "has its own list at every step");
    if (st == LX_OK && p->n_allowed > 0) {
        st = lx_tokens_biases(p, served->model->config.n_values, &biases, &w.n_biases, err);
        w.biases = biases;
    }
    if (st == LX_OK)
        st = reserve(api, served, p, plans, &w, retry_after_s, err);
    if (st == LX_OK && (c = new_completion(p, &w, plans)) == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    if (st == LX_OK)
        st = start_works(c, api, served, plans, p->n_prompts, &w, rq, retry_after_s, err);
    lx_reserve_unref(w.reserve);
    free(biases); /* the jobs have copies */
    if (st == LX_OK)
        *out = c;
    else if (c != NULL)
        lx_completion_release(c);
    return st;
}

/* New tokens of one sample of each prompt. */
static int64_t sample_tokens(const lx_api *api, lx_plan *const *plans,
                             const lx_completion_params *p)
{
    assert(p->n_prompts > 0 && plans[0] != NULL); /* all or none were made */
    lx_work_params w = work_params(api, plans[0], p);
    int64_t tokens = 0;
    for (int32_t i = 0; i < p->n_prompts; i++)
        tokens += lx_work_new_tokens(&w, plans[i]);
    return tokens;
}

lx_status lx_completion_start(lx_api *api, lx_served_model *served,
                              const lx_completion_params *asked, const lx_request *rq,
                              lx_completion **out, int32_t *retry_after_s, lx_error *err)
{
    lx_completion_params own = *asked; /* with what it borrows */
    lx_completion_params *p = &own;
    own.pooled = lx_pool_is_drawn(served, asked);
    lx_status st = check_request(api, served, p, err);
    if (st != LX_OK) {
        lx_served_count(served, st);
        return st;
    }
    lx_plan **plans = calloc((size_t)p->n_prompts, sizeof *plans);
    if (plans == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    st = make_plans(api, served, p, rq, plans, err);
    if (st == LX_OK && own.pooled)
        lx_pool_set_size(api, served, rq, sample_tokens(api, plans, p), &own);
    if (st == LX_OK)
        st = start(api, served, p, plans, rq, out, retry_after_s, err);
    free_plans(plans, p->n_prompts);
    return st;
}

/* --- on its way --- */

void lx_completion_await_end(lx_completion *c)
{
    for (int32_t i = 0; i < c->n_prompts; i++)
        lx_work_await_end(&c->works[i]);
}

void lx_completion_advance(void *context)
{
    lx_completion *c = context;
    for (int32_t i = 0; i < c->n_prompts; i++)
        lx_work_advance(&c->works[i]);
}

bool lx_completion_is_done(const void *context)
{
    const lx_completion *c = context;
    for (int32_t i = 0; i < c->n_prompts; i++) {
        if (!lx_work_is_done(&c->works[i]))
            return false;
    }
    return true;
}

void lx_completion_cancel(void *context)
{
    lx_completion *c = context;
    for (int32_t i = 0; i < c->n_prompts; i++)
        lx_work_cancel(&c->works[i]);
}

void lx_completion_held_advance(void *context)
{
    lx_completion_advance(*(lx_completion **)context);
}

bool lx_completion_held_is_done(const void *context)
{
    return lx_completion_is_done(*(lx_completion *const *)context);
}

void lx_completion_held_cancel(void *context)
{
    lx_completion_cancel(*(lx_completion **)context);
}

void lx_completion_release(void *context)
{
    lx_completion *c = context;
    for (int32_t i = 0; i < c->n_prompts * c->n; i++) {
        lx_answer_fini(&c->choices[i].answer);
        lx_thinking_fini(&c->choices[i].thinking);
    }
    for (int32_t i = 0; i < c->n_prompts; i++)
        lx_work_fini(&c->works[i]);
    lx_calls_unref(c->calls);
    free(c->works);
    free(c);
}

lx_status lx_completion_finish(lx_completion *c, lx_error *err)
{
    lx_status st = lx_works_status(c->works, c->n_prompts, err);
    (void)lx_work_count(&c->works[0], st);
    return st;
}

/* --- answers --- */

lx_status lx_completion_read_all(lx_completion *c, int32_t i, lx_error *err)
{
    int32_t *order = calloc((size_t)c->works[i].params->n, sizeof *order);
    if (order == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    lx_status st = c->pooled ? lx_pool_choose(&c->works[i], c->n, order, err) : LX_OK;
    if (!c->pooled)
        lx_job_rank(c->works[i].job, order);
    for (int32_t k = 0; st == LX_OK && k < c->n; k++) {
        lx_answer *a = &c->choices[i * c->n + k].answer;
        a->sample = order[k];
        if (c->echo)
            st = lx_answer_add_prompt(a, err);
        if (st == LX_OK)
            st = lx_answer_read(a, INT32_MAX, err);
    }
    free(order);
    return st;
}

/* Whether the model has ended the answer. */
static bool is_whole(const lx_work *w, const lx_answer *a)
{
    const lx_plan *plan = lx_job_plan(w->job);
    return a->stopped || (plan->model->task->ends != NULL ? lx_answer_at_end(a)
                                                          : w->params->max_new >= plan->n_new);
}

const char *lx_completion_finish_reason(const lx_completion *c, int32_t i, const lx_answer *a)
{
    const lx_work *w = &c->works[i];
    if (lx_work_suspended(w) && !a->stopped)
        return "parked";
    return is_whole(w, a) ? "stop" : "length";
}

static lx_json_usage usage_of_prompts(const lx_completion *c)
{
    lx_json_usage usage = {0};
    for (int32_t i = 0; i < c->n_prompts; i++) {
        usage.prompt_tokens += lx_work_prompt_rows(&c->works[i]);
        int32_t cached = lx_job_cached_rows(c->works[i].job);
        int32_t kept = lx_job_kept_rows(c->works[i].job);
        usage.cached_tokens += c->works[i].params->start.rows + cached;
        usage.kept_tokens += kept > cached ? kept - cached : 0;
    }
    return usage;
}

lx_json_usage lx_completion_usage(const lx_completion *c)
{
    lx_json_usage usage = usage_of_prompts(c);
    for (int32_t i = 0; i < c->n_prompts; i++)
        usage.completion_tokens += lx_work_tokens(&c->works[i]);
    return usage;
}

lx_json_usage lx_completion_usage_so_far(lx_completion *c, int32_t index)
{
    lx_choice *choice = &c->choices[index];
    const lx_answer *a = &choice->answer;
    int32_t kept = a->n_tokens - a->taken;
    int32_t told = a->n_read > kept ? a->n_read - kept : 0;
    c->n_told += told - choice->n_told;
    choice->n_told = told;
    lx_json_usage usage = usage_of_prompts(c);
    usage.completion_tokens = c->n_told;
    return usage;
}

const char *lx_completion_states(const lx_completion *c, lx_buffer *text)
{
    int32_t n = c->n_prompts * c->n;
    int32_t *chosen = calloc((size_t)n, sizeof *chosen);
    if (chosen == NULL) {
        lx_buffer_init(text, 0);
        text->status = LX_ERR_NO_MEMORY;
        return NULL;
    }
    for (int32_t i = 0; i < n; i++)
        chosen[i] = c->choices[i].answer.sample;
    const char *states = lx_works_states(c->works, c->n_prompts, chosen, c->n, text);
    free(chosen);
    return states;
}

lx_json_timings lx_completion_timings(const lx_completion *c)
{
    return lx_works_timings(c->works, c->n_prompts);
}

/* --- in JSON --- */

lx_json_completion lx_completion_frame(const lx_completion *c)
{
    const lx_work *w = &c->works[0];
    return (lx_json_completion){
        .id = c->id,
        .model = w->pending.served->model->name,
        .fingerprint = w->pending.served->fingerprint,
        .created = w->created,
        .seed = w->params->sampling.seed,
        .chat = c->chat,
        .token_ids = c->token_ids,
    };
}

void lx_choice_add_prompt_ids(const lx_completion *c, int32_t index, lx_json_choice *json)
{
    const lx_plan *plan = lx_job_plan(c->works[index / c->n].job);
    if (!c->token_ids || plan->model->config.n_inputs != 1)
        return;
    json->prompt_ids = plan->prompt_ids;
    json->n_prompt_ids = plan->n_pieces;
}

void lx_choice_end(const lx_completion *c, int32_t index, lx_json_choice *json)
{
    const lx_answer *a = &c->choices[index].answer;
    bool whole = false;
    int32_t n_calls = lx_thinking_n_calls(&c->choices[index].thinking, &whole);
    json->index = index;
    json->finish_reason = lx_completion_finish_reason(c, index / c->n, a);
    if (n_calls > 0 && whole && strcmp(json->finish_reason, "stop") == 0)
        json->finish_reason = "tool_calls";
    json->has_score = true;
    json->mean_logprob = lx_answer_mean_logprob(a);
}
