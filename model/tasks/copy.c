/* The copy task: see copy.h for the sequence and its input streams. */
#include "model/tasks/copy.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"
#include "model/config_reader.h"
#include "model/model_files.h"
#include "model/utf8.h"

enum { TOKEN_BYTES = 4, MAX_ALPHABET = 1 << 16, MAX_LENGTH = 1 << 16 };

static const char separator[] = "<sep>";

typedef enum stream { TOKEN, PLACE, POSITION, N_STREAMS } stream;

static const char *const names[N_STREAMS] = {"token", "place", "position"};

/* The part of the model that a plan keeps: its streams in the order of the config. */
typedef struct streams {
    stream of[LX_MAX_INPUTS];
} streams;

/* --- the model --- */

static void read_config(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    lx_copy_config *own = lx_copy_own(c);
    lx_config_object t = lx_config_section(r, s, "copy", "copy.");
    own->alphabet = lx_config_int(r, t, "alphabet", 1, MAX_ALPHABET);
    own->length = lx_config_int(r, t, "length", 1, MAX_LENGTH);
    lx_config_finish(r, t);
    lx_config_release(s, "copy");
}

static stream find_stream(const char *name)
{
    int32_t s = 0;
    while (s < N_STREAMS && strcmp(names[s], name) != 0)
        s++;
    return (stream)s;
}

static int32_t stream_size(const lx_config *c, stream s)
{
    switch (s) {
    case TOKEN:
        return lx_copy_of(c)->alphabet + 1;
    case PLACE:
        return lx_copy_of(c)->length + 1;
    case POSITION:
    case N_STREAMS:
        break;
    }
    return 2 * lx_copy_of(c)->length;
}

static lx_status check_inputs(const lx_config *c, lx_error *err)
{
    bool has_token = false;
    for (int32_t i = 0; i < c->n_inputs; i++) {
        stream s = find_stream(c->inputs[i].name);
        if (s == N_STREAMS)
            return lx_fail(err, LX_ERR_FORMAT, "inputs",
                           "config.json: inputs: the copy task has no input %s (token, place, "
                           "position)",
                           c->inputs[i].name);
        if (c->inputs[i].size != stream_size(c, s))
            return lx_fail(err, LX_ERR_FORMAT, "inputs",
                           "config.json: inputs: %s: size %d, but this alphabet and length need %d",
                           names[s], c->inputs[i].size, stream_size(c, s));
        has_token = has_token || s == TOKEN;
    }
    return has_token ? LX_OK
                     : lx_fail(err, LX_ERR_FORMAT, "inputs",
                               "config.json: inputs: the copy task needs the input token");
}

/* The symbols, then the separator. */
static lx_status check_vocabulary(const lx_model *model, lx_error *err)
{
    const lx_vocab *v = model->vocab;
    int32_t n = lx_copy_of(&model->config)->alphabet;
    if (v == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: the copy task needs it");
    if (lx_vocab_size(v) != n + 1)
        return lx_fail(err, LX_ERR_FORMAT, NULL,
                       "vocab.txt: %d entries, but an alphabet of %d and %s are %d",
                       lx_vocab_size(v), n, separator, n + 1);
    for (int32_t id = 0; id < n; id++) {
        if (lx_vocab_is_special(v, id))
            return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: line %d: %s is no symbol", id + 1,
                           lx_vocab_text(v, id));
    }
    return lx_vocab_special(v, separator) == n
               ? LX_OK
               : lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: line %d must be %s", n + 1,
                         separator);
}

static lx_status check_model(const lx_model *model, lx_error *err)
{
    const lx_config *c = &model->config;
    if (c->head_kind != LX_HEAD_CATEGORICAL || c->head_size != lx_copy_of(c)->alphabet + 1)
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       "config.json: head: it must be categorical and of size %d, the alphabet's "
                       "and one",
                       lx_copy_of(c)->alphabet + 1);
    lx_status st = check_inputs(c, err);
    return st == LX_OK ? check_vocabulary(model, err) : st;
}

static int32_t max_rows(const lx_model *model)
{
    return 2 * lx_copy_of(&model->config)->length;
}

static void fill_mask(const lx_model *model, int32_t mask_idx, uint8_t *banned)
{
    (void)mask_idx;
    memset(banned, 0, (size_t)model->config.head_size);
    banned[lx_copy_of(&model->config)->alphabet] = 1;
}

/* --- the plan --- */

/* Row t of a sequence of n symbols. */
static void put_row(const lx_plan *plan, int32_t t, int32_t token, int32_t *ids)
{
    const streams *s = plan->data;
    int32_t n = plan->n_new;
    for (int32_t i = 0; i < plan->model->config.n_inputs; i++) {
        if (s->of[i] == TOKEN)
            ids[i] = token;
        else if (s->of[i] == PLACE)
            ids[i] = t < n ? t + 1 : t - n;
        else
            ids[i] = t;
    }
}

/* Appends the symbols of a text, at most `most`. */
static lx_status read_text(const lx_model *model, const char *text, size_t bytes, const char *param,
                           int32_t most, lx_token_list *out, lx_error *err)
{
    int32_t n = 0;
    for (size_t at = 0; at < bytes; n++) {
        size_t begin = at;
        int32_t c = lx_utf8_next(text, bytes, &at);
        int32_t id = c < 0 ? -1 : lx_vocab_char(model->vocab, (uint32_t)c);
        if (c < 0)
            return lx_fail(err, LX_ERR_INVALID, param,
                           "the sequence is not valid UTF-8: byte %zu is wrong", begin + 1);
        if (id < 0)
            return lx_fail(err, LX_ERR_INVALID, param,
                           "character %d, \"%.*s\", is no symbol: this model's are %s to %s", n + 1,
                           (int)(at - begin), text + begin, lx_vocab_text(model->vocab, 0),
                           lx_vocab_text(model->vocab, lx_copy_of(&model->config)->alphabet - 1));
        if (n == most)
            return lx_fail(err, LX_ERR_INVALID, param,
                           "the sequence has more than %d symbols: shorten it", most);
        lx_token_list_add(out, id);
    }
    return LX_OK;
}

static lx_status read_ids(const lx_model *model, const lx_task_request *request, int32_t most,
                          lx_token_list *out, lx_error *err)
{
    if (request->n_ids > most)
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "the sequence has %d symbols, at most %d are read: shorten it",
                       request->n_ids, most);
    for (int32_t i = 0; i < request->n_ids; i++) {
        int32_t id = request->ids[i];
        if (id < 0 || id >= lx_copy_of(&model->config)->alphabet)
            return lx_fail(err, LX_ERR_INVALID, "prompt",
                           "token %d is %d, but symbols are 0 to %d here", i + 1, id,
                           lx_copy_of(&model->config)->alphabet - 1);
        lx_token_list_add(out, id);
    }
    return LX_OK;
}

/* The rows of the symbols and of the separator. */
static void fill_prompt(lx_plan *plan, const int32_t *symbols)
{
    int32_t n = plan->n_new, n_inputs = plan->model->config.n_inputs;
    for (int32_t t = 0; t <= n; t++)
        put_row(plan, t, t < n ? symbols[t] : lx_copy_of(&plan->model->config)->alphabet,
                plan->prompt_ids + (size_t)t * (size_t)n_inputs);
}

static lx_status plan_symbols(lx_plan *plan, const int32_t *symbols, int32_t n, lx_error *err)
{
    const lx_config *c = &plan->model->config;
    streams *s = calloc(1, sizeof *s);
    plan->data = s;
    plan->prompt_ids = calloc(((size_t)n + 1) * (size_t)c->n_inputs, sizeof *plan->prompt_ids);
    if (s == NULL || plan->prompt_ids == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a sequence");
    for (int32_t i = 0; i < c->n_inputs; i++)
        s->of[i] = find_stream(c->inputs[i].name);
    plan->n_prompt = n + 1;
    plan->n_new = plan->n_pieces = n;
    plan->runs_ahead = true;
    fill_prompt(plan, symbols);
    return LX_OK;
}

static lx_status plan_init(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    const lx_model *model = plan->model;
    int32_t most = lx_copy_of(&model->config)->length;
    lx_token_list symbols;
    lx_token_list_init(&symbols, (size_t)most);
    lx_status st = request->ids != NULL ? read_ids(model, request, most, &symbols, err)
                                        : read_text(model, request->text, request->text_bytes,
                                                    "prompt", most, &symbols, err);
    if (st == LX_OK && symbols.status != LX_OK)
        st = lx_fail(err, symbols.status, NULL, "no memory for a sequence");
    if (st == LX_OK && symbols.n == 0)
        st = lx_fail(err, LX_ERR_INVALID, "prompt",
                     "the sequence is empty: there must be 1 to %d symbols", most);
    if (st == LX_OK)
        st = plan_symbols(plan, symbols.ids, (int32_t)symbols.n, err);
    lx_token_list_fini(&symbols);
    return st;
}

static void input(const lx_plan *plan, int32_t step, const int32_t *tokens, int32_t *ids)
{
    put_row(plan, plan->n_prompt + step, tokens[step], ids);
}

static void constrain(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out)
{
    (void)plan, (void)step, (void)tokens;
    out->forced = -1;
    out->use_mask = true;
    out->mask_idx = 0;
    out->n_banned = 0;
}

/* Symbol i of the prompt. */
static int32_t symbol_at(const lx_plan *plan, int32_t i)
{
    const streams *s = plan->data;
    int32_t n_inputs = plan->model->config.n_inputs, token = 0;
    while (s->of[token] != TOKEN)
        token++;
    return plan->prompt_ids[(size_t)i * (size_t)n_inputs + (size_t)token];
}

/* The prompt's symbols, four bytes each. */
static bool restate(const lx_plan *plan, lx_buffer *out)
{
    for (int32_t i = 0; i < plan->n_pieces; i++) {
        int32_t id = symbol_at(plan, i);
        lx_buffer_append(out, &id, sizeof id);
    }
    return false;
}

static lx_status replan(lx_plan *plan, const void *bytes, size_t n, bool flag, bool ignore_end,
                        lx_error *err)
{
    (void)ignore_end;
    if (n % sizeof(int32_t) != 0 || flag)
        return lx_fail(err, LX_ERR_INVALID, "state", "its prompt is not a list of tokens");
    const lx_task_request request = {.ids = bytes, .n_ids = (int32_t)(n / sizeof(int32_t))};
    return plan_init(plan, &request, err);
}

/* --- text --- */

static void spell(const lx_model *model, int32_t id, lx_buffer *out)
{
    lx_buffer_puts(out, lx_vocab_text(model->vocab, id));
}

static void render(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_buffer *out)
{
    spell(plan->model, tokens[step], out);
}

static void render_prompt(const lx_plan *plan, int32_t i, lx_buffer *out)
{
    spell(plan->model, symbol_at(plan, i), out);
}

/* A character has 4 at most; the separator's name is longer. */
static int32_t token_bytes(const lx_model *model)
{
    (void)model;
    return sizeof separator > TOKEN_BYTES ? (int32_t)sizeof separator : TOKEN_BYTES;
}

static void card(const lx_model *model, lx_task_card *card)
{
    lx_card_add(card, (lx_card_field){"max_chars", LX_CARD_INT,
                                      .number = lx_copy_of(&model->config)->length});
}

/* --- scoring --- */

void lx_copy_sequence(const lx_config *config, uint64_t seed, uint32_t index, int32_t n,
                      int32_t *ids)
{
    for (int32_t i = 0; i < n; i++) {
        float u = lx_uniform(seed, index, (uint32_t)i, 0);
        ids[i] = (int32_t)((double)u * lx_copy_of(config)->alphabet);
    }
}

static lx_status read_answer(const lx_plan *plan, const char *text, size_t bytes,
                             lx_token_list *out, lx_error *err)
{
    lx_status st = read_text(plan->model, text, bytes, "completion", plan->n_new, out, err);
    if (st == LX_OK && out->n != (size_t)plan->n_new)
        st = lx_fail(err, LX_ERR_INVALID, "completion",
                     "the completion has %zu symbols, the prompt %d", out->n, plan->n_new);
    return st;
}

const lx_task_ops lx_copy_task = {
    .name = "copy",
    .modality = LX_TEXT,
    .read_config = read_config,
    .load = lx_model_read_vocab,
    .card = card,
    .check_model = check_model,
    .max_rows = max_rows,
    .n_masks = 1,
    .fill_mask = fill_mask,
    .plan_init = plan_init,
    .input = input,
    .constrain = constrain,
    .restate = restate,
    .replan = replan,
    .score_name = "nats_per_token",
    .score_unit = 1,
    .read_answer = read_answer,
    .render = render,
    .spell = spell,
    .token_bytes = token_bytes,
    .render_prompt = render_prompt,
};
