/*
 * The text task: see text.h for the sequence.
 *
 * Rendering keeps no state between tokens, so that any number of readers may ask for any token. The
 * bytes of an incomplete character lie in the last three bytes before the token, and are looked up
 * again.
 */
#include "model/tasks/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model_files.h"
#include "model/utf8.h"

enum { BEFORE = 3, NAME_BYTES = 4, NAME_HEAD = 6 };

/* --- the model --- */

void lx_text_read_config(lx_config_reader *r, lx_config_object s, lx_config *config)
{
    static const lx_config_form file = {
        LX_CONFIG_LETTERS "._-", LX_MAX_NAME,
        "must be \"bytes\" or the name of a file in the model's folder"};
    static const lx_config_list ends = {
        0, LX_MAX_ENDS, 0, LX_MAX_IDS - 1, false, "must be a list of at most 8 tokens"};
    lx_text_config *c = lx_text_own(config);
    lx_config_object t = lx_config_section(r, s, "text", "text.");
    lx_config_text(r, t, "tokenizer", &file, c->tokenizer);
    if (c->tokenizer[0] == '.')
        lx_config_wrong(r, t, "tokenizer", file.what);
    c->context = lx_config_int(r, t, "context", 2, LX_MAX_CONTEXT);
    c->begin = lx_config_has(r, t, "begin") ? lx_config_int(r, t, "begin", 0, LX_MAX_IDS - 1) : -1;
    if (lx_config_has(r, t, "end"))
        c->n_ends = lx_config_ints(r, t, "end", &ends, c->ends);
    lx_config_finish(r, t);
    lx_config_release(s, "text");
}

lx_status lx_text_load(lx_model *model, lx_error *err)
{
    return lx_model_read_tokenizer(model, lx_text_of(&model->config)->tokenizer, err);
}

void lx_text_card(const lx_model *model, lx_task_card *card)
{
    lx_card_add(card, (lx_card_field){"context", LX_CARD_INT,
                                      .number = lx_text_of(&model->config)->context});
    lx_card_add(card, (lx_card_field){"tokenizer", LX_CARD_WORD,
                                      .text = lx_tokenizer_family_name(model->tokenizer)});
}

bool lx_text_is_end(const lx_config *config, int32_t id)
{
    const lx_text_config *c = lx_text_of(config);
    for (int32_t i = 0; i < c->n_ends; i++) {
        if (c->ends[i] == id)
            return true;
    }
    return false;
}

/* Whether an answer can show the token. */
static bool is_shown(const lx_tokenizer *t, int32_t id)
{
    size_t n = 0;
    return lx_tokenizer_token(t, id, &n) != NULL && n > 0 && !lx_tokenizer_is_special(t, id);
}

void lx_text_fill_mask(const lx_model *model, int32_t mask_idx, uint8_t *banned)
{
    (void)mask_idx;
    for (int32_t id = 0; id < model->config.head_size; id++)
        banned[id] = !lx_text_is_end(&model->config, id) && !is_shown(model->tokenizer, id);
}

static lx_status check_inputs(const lx_config *c, lx_error *err)
{
    if (c->n_inputs != 1 || strcmp(c->inputs[0].name, "token") != 0)
        return lx_fail(err, LX_ERR_FORMAT, "inputs",
                       "config.json: inputs: the text task has one, token");
    if (c->head_kind != LX_HEAD_CATEGORICAL || c->head_size != c->inputs[0].size)
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       "config.json: head: it must be categorical and have as many rows as the "
                       "input token, %d",
                       c->inputs[0].size);
    return LX_OK;
}

lx_status lx_text_check_model(const lx_model *model, lx_error *err)
{
    const lx_config *c = &model->config;
    const lx_text_config *own = lx_text_of(c);
    int32_t n = lx_tokenizer_size(model->tokenizer), n_shown = 0;
    lx_status st = check_inputs(c, err);
    if (st != LX_OK)
        return st;
    if (n > c->head_size)
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       "config.json: head: size %d, but the tokenizer has %d tokens", c->head_size,
                       n);
    for (int32_t i = 0; i < own->n_ends; i++) {
        if (own->ends[i] >= c->head_size)
            return lx_fail(err, LX_ERR_FORMAT, "end", "config.json: text.end: %d is not a token",
                           own->ends[i]);
    }
    if (own->begin >= c->head_size)
        return lx_fail(err, LX_ERR_FORMAT, "begin", "config.json: text.begin: %d is not a token",
                       own->begin);
    for (int32_t id = 0; id < n; id++)
        n_shown += is_shown(model->tokenizer, id) && !lx_text_is_end(c, id);
    if (n_shown == 0)
        return lx_fail(err, LX_ERR_FORMAT, "tokenizer",
                       "config.json: text.tokenizer: the tokenizer has no text tokens");
    return LX_OK;
}

int32_t lx_text_max_rows(const lx_model *model)
{
    return lx_text_of(&model->config)->context;
}

/* Every byte may be a U+FFFD, also a byte that was held back; a name writes bytes as \x and two
 * digits. */
int32_t lx_text_token_bytes(const lx_model *model)
{
    size_t longest = 1, n = 0;
    for (int32_t id = 0; id < lx_tokenizer_size(model->tokenizer); id++) {
        if (lx_tokenizer_token(model->tokenizer, id, &n) != NULL && n > longest)
            longest = n;
    }
    return (int32_t)longest * NAME_BYTES + NAME_HEAD;
}

/* --- the plan --- */

/* A prompt with more would leave no room for an answer. */
static int32_t most_tokens(const lx_model *model, const lx_task_request *request)
{
    int32_t most = lx_text_max_rows(model) - 1;
    return request->max_prompt > 0 && request->max_prompt < most ? request->max_prompt : most;
}

static lx_status too_long(int32_t most, lx_error *err)
{
    return lx_fail(err, LX_ERR_INVALID, "prompt",
                   "the prompt has more than the %d tokens that are read: shorten it", most);
}

static lx_status check_ids(const lx_model *model, const lx_task_request *request, int32_t most,
                           lx_error *err)
{
    if (request->n_ids > most)
        return too_long(most, err);
    for (int32_t i = 0; i < request->n_ids; i++) {
        if (request->ids[i] < 0 || request->ids[i] >= model->config.n_values)
            return lx_fail(err, LX_ERR_INVALID, "prompt",
                           "token %d is %d, but tokens are 0 to %d here", i + 1, request->ids[i],
                           model->config.n_values - 1);
    }
    return LX_OK;
}

/* `begin`: the token before the text, unless the text begins with it; -1: none. */
static lx_status encode(const lx_model *model, const char *text, const char *marks, size_t bytes,
                        unsigned flags, int32_t begin, const char *param, lx_token_list *out,
                        lx_error *err)
{
    lx_error why = {0};
    if (begin >= 0)
        lx_token_list_add(out, begin);
    lx_status st =
        lx_tokenizer_encode_marked(model->tokenizer, text, marks, bytes, flags, out, &why);
    if (st == LX_OK && begin >= 0 && out->n > 1 && out->ids[1] == begin)
        memmove(out->ids, out->ids + 1, --out->n * sizeof *out->ids);
    if (st == LX_ERR_INVALID || st == LX_ERR_TOO_LARGE) /* it is the client's text */
        return lx_fail(err, LX_ERR_INVALID, param, "%s", why.text);
    return st == LX_OK ? st : lx_fail(err, st, why.param, "%s", why.text);
}

lx_status lx_text_encode(const lx_model *model, const char *text, size_t bytes, unsigned flags,
                         const char *param, lx_token_list *out, lx_error *err)
{
    int32_t begin = (flags & LX_ENCODE_TEMPLATE) != 0 ? lx_text_of(&model->config)->begin : -1;
    return encode(model, text, NULL, bytes, flags, begin, param, out, err);
}

lx_status lx_text_encode_marked(const lx_model *model, const char *text, const char *marks,
                                size_t bytes, const char *param, lx_token_list *out, lx_error *err)
{
    return encode(model, text, marks, bytes, 0, lx_text_of(&model->config)->begin, param, out, err);
}

/* Appends the prompt's tokens. One more than is read is room enough to see that there are more. */
static lx_status list_tokens(const lx_model *model, const lx_task_request *request, int32_t most,
                             lx_token_list *list, lx_error *err)
{
    if (request->ids != NULL) {
        lx_status st = check_ids(model, request, most, err);
        for (int32_t i = 0; st == LX_OK && i < request->n_ids; i++)
            lx_token_list_add(list, request->ids[i]);
        return st;
    }
    lx_status st = lx_text_encode(model, request->text, request->text_bytes, LX_ENCODE_TEMPLATE,
                                  "prompt", list, err);
    return list->status == LX_ERR_TOO_LARGE ? too_long(most, err) : st;
}

static int32_t count_unknown(const lx_model *model, const lx_task_request *request,
                             const lx_token_list *list)
{
    int32_t unknown = lx_tokenizer_find(model->tokenizer, "<unk>"), count = 0;
    for (size_t i = 0; request->ids == NULL && unknown >= 0 && i < list->n; i++)
        count += list->ids[i] == unknown;
    return count;
}

static lx_status take_borders(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    if (request->n_borders == 0)
        return LX_OK;
    plan->borders = malloc((size_t)request->n_borders * sizeof *plan->borders);
    if (plan->borders == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a prompt");
    for (int32_t i = 0, before = 0; i < request->n_borders; i++) {
        int32_t row = request->borders[i];
        if (row < before + LX_BORDER_ROWS || row >= plan->n_prompt)
            continue;
        plan->borders[plan->n_borders++] = row;
        before = row;
    }
    return LX_OK;
}

lx_status lx_text_plan_init(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    const lx_model *model = plan->model;
    const lx_text_config *c = lx_text_of(&model->config);
    int32_t most = most_tokens(model, request);
    lx_token_list list;
    lx_token_list_init(&list, (size_t)most + 1);
    lx_status st = list_tokens(model, request, most, &list, err);
    if (st == LX_OK && list.status != LX_OK)
        st = lx_fail(err, list.status, NULL, "no memory for a prompt");
    if (st == LX_OK && list.n > (size_t)most)
        st = too_long(most, err);
    if (st == LX_OK && list.n == 0)
        st = lx_fail(err, LX_ERR_INVALID, "prompt",
                     "the prompt is empty: this model needs at least one token to begin with");
    if (st != LX_OK) {
        lx_token_list_fini(&list);
        return st;
    }
    plan->n_unknown = count_unknown(model, request, &list);
    plan->prompt_ids = list.ids;
    plan->n_pieces = (int32_t)list.n;
    plan->scored = request->score_prompt;
    plan->n_prompt = plan->scored ? 1 : plan->n_pieces;
    plan->n_given = plan->n_pieces - plan->n_prompt;
    plan->n_new = c->context - plan->n_prompt;
    plan->ignores_end = request->ignore_end;
    plan->runs_ahead = request->ignore_end || c->n_ends == 0;
    return take_borders(plan, request, err);
}

/* --- answers of a given shape --- */

/* Whether the token has a byte that stands for a mark. */
static bool has_mark_byte(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] >= LX_MARK_BYTE)
            return true;
    }
    return false;
}

/* A mark that is a special token is a byte of its own, which only grammars of calls have. */
static const char *word_of(const void *model, int32_t id, size_t *n)
{
    const lx_model *m = model;
    for (int i = 0; i < LX_CALL_MARKS; i++) {
        *n = 1;
        if (m->mark_ids[i] == id && !lx_text_is_end(&m->config, id))
            return lx_call_mark_byte((lx_call_mark)i);
    }
    *n = 0;
    bool shown = !lx_text_is_end(&m->config, id) && is_shown(m->tokenizer, id);
    const char *text = shown ? lx_tokenizer_token(m->tokenizer, id, n) : NULL;
    return text != NULL && !has_mark_byte(text, *n) ? text : NULL;
}

static lx_status load_with_shapes(lx_model *model, lx_error *err)
{
    const lx_text_config *c = lx_text_of(&model->config);
    const lx_words words = {.n_ids = model->config.head_size,
                            .n_ends = &c->n_ends,
                            .ends = c->ends,
                            .bytes_of = word_of,
                            .context = model};
    lx_grammars *grammars = NULL;
    lx_status st = lx_text_load(model, err);
    if (st == LX_OK)
        st = lx_grammars_new(&words, &grammars, err);
    model->task_data = grammars;
    return st;
}

static void unload(lx_model *model)
{
    lx_grammars_free(model->task_data);
}

static lx_status keep_shape(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    const lx_shape *shape = &request->shape;
    lx_grammar *grammar = NULL;
    if (shape->kind == LX_SHAPE_NONE)
        return LX_OK;
    if (request->ignore_end)
        return lx_fail(err, LX_ERR_INVALID, "ignore_eos",
                       "ignore_eos does not go with %s, as the answer ends with its grammar",
                       shape->field);
    if (lx_text_of(&plan->model->config)->n_ends == 0)
        return lx_fail(err, LX_ERR_INVALID, shape->field,
                       "%s: model %s has no token that ends an answer", shape->field,
                       plan->model->name);
    lx_status st = lx_grammars_get(plan->model->task_data, shape, &grammar, err);
    if (st == LX_OK)
        st = lx_follower_new(grammar, request->n_answers, plan->n_given, &plan->follower, err);
    plan->runs_ahead = false;
    return st;
}

static lx_status plan_init(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    lx_status st = lx_text_plan_init(plan, request, err);
    return st == LX_OK ? keep_shape(plan, request, err) : st;
}

void lx_text_input(const lx_plan *plan, int32_t step, const int32_t *tokens, int32_t *ids)
{
    (void)plan;
    ids[0] = tokens[step];
}

void lx_text_constrain(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out)
{
    (void)tokens;
    const lx_text_config *c = lx_text_of(&plan->model->config);
    out->forced = -1;
    out->use_mask = true;
    out->mask_idx = 0;
    out->n_banned = plan->ignores_end || step < plan->n_open ? c->n_ends : 0;
    for (int32_t i = 0; i < out->n_banned; i++)
        out->banned[i] = c->ends[i];
}

/* An end that comes before n_open tokens is banned unless nothing else can follow. */
static void constrain(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out)
{
    if (plan->follower == NULL) {
        lx_text_constrain(plan, step, tokens, out);
        return;
    }
    const lx_text_config *c = lx_text_of(&plan->model->config);
    int32_t only = -1, n = lx_follower_mask(plan->follower, step, tokens, out->room, &only);
    int32_t n_ends = 0;
    for (int32_t i = 0; i < c->n_ends; i++)
        n_ends += (out->room[c->ends[i] / 32] >> (c->ends[i] % 32) & 1) != 0;
    out->forced = only;
    out->use_mask = false;
    out->mask_idx = 0;
    out->allowed = out->room;
    out->n_banned = step < plan->n_open && n > n_ends ? c->n_ends : 0;
    for (int32_t i = 0; i < out->n_banned; i++)
        out->banned[i] = c->ends[i];
}

bool lx_text_ends(const lx_plan *plan, int32_t token)
{
    return !plan->ignores_end && lx_text_is_end(&plan->model->config, token);
}

/* The prompt's tokens, four bytes each. */
bool lx_text_restate(const lx_plan *plan, lx_buffer *out)
{
    lx_buffer_append(out, plan->prompt_ids, (size_t)plan->n_prompt * sizeof *plan->prompt_ids);
    return false;
}

lx_status lx_text_reread(const void *bytes, size_t n, bool flag, lx_task_request *request,
                         lx_error *err)
{
    if (n % sizeof(int32_t) != 0 || flag)
        return lx_fail(err, LX_ERR_INVALID, "state", "its prompt is not a list of tokens");
    *request = (lx_task_request){.ids = bytes, .n_ids = (int32_t)(n / sizeof(int32_t))};
    return LX_OK;
}

/* With a grammar: how many tokens, its kind, the tokens, its source. */
enum { SHAPE_TOKENS, SHAPE_KIND, SHAPE_HEAD };

static bool restate(const lx_plan *plan, lx_buffer *out)
{
    const lx_shape *shape = lx_plan_shape(plan);
    if (shape == NULL)
        return lx_text_restate(plan, out);
    const int32_t head[SHAPE_HEAD] = {plan->n_prompt, (int32_t)shape->kind};
    lx_buffer_append(out, head, sizeof head);
    (void)lx_text_restate(plan, out);
    lx_buffer_append(out, shape->text, shape->bytes);
    return true;
}

static lx_status reread_shape(const void *bytes, size_t n, lx_task_request *request, lx_error *err)
{
    int32_t head[SHAPE_HEAD] = {0, LX_SHAPE_NONE};
    memcpy(head, bytes, n < sizeof head ? 0 : sizeof head);
    size_t left = n < sizeof head ? 0 : n - sizeof head;
    if (head[SHAPE_TOKENS] < 1 || (size_t)head[SHAPE_TOKENS] > left / sizeof(int32_t) ||
        head[SHAPE_KIND] <= LX_SHAPE_NONE || head[SHAPE_KIND] >= LX_SHAPE_KINDS)
        return lx_fail(err, LX_ERR_INVALID, "state", "its grammar is damaged");
    const int32_t *ids = (const int32_t *)bytes + SHAPE_HEAD;
    *request = (lx_task_request){.ids = ids, .n_ids = head[SHAPE_TOKENS]};
    request->shape = (lx_shape){.kind = (lx_shape_kind)head[SHAPE_KIND],
                                .text = (const char *)(ids + request->n_ids),
                                .bytes = left - (size_t)request->n_ids * sizeof *ids,
                                .field = "state",
                                .owner = request};
    return LX_OK;
}

static lx_status replan(lx_plan *plan, const void *bytes, size_t n, bool flag, bool ignore_end,
                        lx_error *err)
{
    lx_task_request request;
    lx_status st = flag ? reread_shape(bytes, n, &request, err)
                        : lx_text_reread(bytes, n, false, &request, err);
    request.ignore_end = ignore_end;
    return st == LX_OK ? plan_init(plan, &request, err) : st;
}

lx_status lx_text_read_answer(const lx_plan *plan, const char *text, size_t bytes,
                              lx_token_list *out, lx_error *err)
{
    lx_status st = lx_text_encode(plan->model, text, bytes, 0, "completion", out, err);
    return st == LX_OK && out->n == 0
               ? lx_fail(err, LX_ERR_INVALID, "completion", "the completion is empty")
               : st;
}

/* --- text --- */

static int32_t id_at(const lx_plan *plan, const int32_t *tokens, int32_t at)
{
    if (at < plan->n_pieces)
        return plan->prompt_ids[at];
    assert(tokens != NULL); /* after the prompt there is an answer */
    return tokens[at - plan->n_prompt];
}

/* A token of the answer that ended it, or a part of it before a state was continued. */
static bool hidden_at(const lx_plan *plan, const int32_t *tokens, int32_t at)
{
    return at >= plan->n_pieces && lx_text_is_end(&plan->model->config, id_at(plan, tokens, at));
}

/* Puts the bytes of the token before the bytes in the buffer, of which the last BEFORE count. */
static void prepend(const lx_tokenizer *t, int32_t id, unsigned char *bytes, size_t *n)
{
    size_t length = 0;
    const char *token = lx_tokenizer_token(t, id, &length);
    if (token == NULL || lx_tokenizer_is_special(t, id))
        return;
    size_t room = BEFORE - *n, k = length < room ? length : room;
    memmove(bytes + k, bytes, *n);
    memcpy(bytes, token + length - k, k);
    *n += k;
}

/* Where the text stands before token number `at` of prompt and answer. Tokens at the very start are
 * read from there, because a blank that begins a text may be dropped. */
static void resume(const lx_plan *plan, const int32_t *tokens, int32_t at, lx_detokenizer *d)
{
    const lx_tokenizer *t = plan->model->tokenizer;
    unsigned char bytes[BEFORE];
    size_t n = 0;
    int32_t from = at;
    bool ended = false;
    while (from > 0 && n < BEFORE && !ended) {
        ended = hidden_at(plan, tokens, --from);
        if (!ended)
            prepend(t, id_at(plan, tokens, from), bytes, &n);
    }
    if (n == BEFORE || ended) {
        lx_detokenizer_resume(d, t, 0, bytes, n);
        return;
    }
    lx_detokenizer_init(d, t, 0);
    for (int32_t i = 0; i < at; i++)
        (void)!lx_detokenizer_push(d, id_at(plan, tokens, i), NULL, NULL);
}

/* Ids that the tokenizer has not are rows of the head without a meaning: they have no text. */
static void render_at(const lx_plan *plan, const int32_t *tokens, int32_t at, lx_buffer *out)
{
    lx_detokenizer d;
    resume(plan, tokens, at, &d);
    if (hidden_at(plan, tokens, at))
        lx_detokenizer_finish(&d, out);
    else
        (void)!lx_detokenizer_push(&d, id_at(plan, tokens, at), out, NULL);
}

void lx_text_render(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_buffer *out)
{
    render_at(plan, tokens, plan->n_prompt + step, out);
}

void lx_text_render_prompt(const lx_plan *plan, int32_t i, lx_buffer *out)
{
    render_at(plan, NULL, i, out);
}

void lx_text_spell(const lx_model *model, int32_t id, lx_buffer *out)
{
    size_t n = 0;
    const char *text = lx_tokenizer_token(model->tokenizer, id, &n);
    if (text != NULL)
        lx_buffer_append(out, text, n);
}

static void card(const lx_model *model, lx_task_card *card)
{
    lx_text_card(model, card);
    lx_card_add(card, (lx_card_field){"rhymes", LX_CARD_FLAG, .number = false});
}

const lx_task_ops lx_text_task = {
    .name = "text",
    .modality = LX_TEXT,
    .shapes = true,
    .read_config = lx_text_read_config,
    .load = load_with_shapes,
    .unload = unload,
    .card = card,
    .check_model = lx_text_check_model,
    .max_rows = lx_text_max_rows,
    .n_masks = 1,
    .fill_mask = lx_text_fill_mask,
    .plan_init = plan_init,
    .input = lx_text_input,
    .constrain = constrain,
    .ends = lx_text_ends,
    .restate = restate,
    .replan = replan,
    .score_name = "nats_per_token",
    .score_unit = 1,
    .read_answer = lx_text_read_answer,
    .render = lx_text_render,
    .spell = lx_text_spell,
    .token_bytes = lx_text_token_bytes,
    .render_prompt = lx_text_render_prompt,
};
