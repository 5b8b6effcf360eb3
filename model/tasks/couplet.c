/*
 * The couplet task: see couplet.h for the sequence and the rules.
 *
 * The upper line is read once into a `line`: for each character its code point, its token id, the
 * first place with this code point, and a flag for punctuation. Rules compare code points, so two
 * characters outside the vocabulary stay different although both are read as <unk>.
 *
 * Each step's constraint follows from that line and the tokens so far. A mark or a repetition
 * forces the token. Every other step has the fixed mask (specials and punctuation), and bans the
 * upper line's ids and the lower line's tokens so far. The vocabulary is checked at load to hold
 * more characters than can ever be banned, so a step is never left without a choice.
 */
#include "model/tasks/couplet.h"

#include <stdlib.h>
#include <string.h>

#include "model/characters.h"
#include "model/config_reader.h"
#include "model/model_files.h"
#include "model/tasks/choose.h"
#include "model/tones.h"
#include "model/utf8.h"

enum { TOKEN, POSITION, COUNTDOWN, MIRROR, N_INPUTS };
enum { MASK_RULES, MASK_FREE, N_MASKS };
enum { MAX_CONFIG_CHARS = 1024, MAX_CHARS = LX_MAX_BANNED / 2, UNKNOWN = 0xfffd, TOKEN_BYTES = 16 };

typedef struct character {
    uint32_t codepoint;
    int32_t id;    /* <unk> for one outside the vocabulary */
    int32_t first; /* where the same character stands for the first time in the line */
    bool mark;
} character;

typedef struct line {
    bool rules;
    int32_t unk, n;
    character chars[];
} line;

/* --- the model --- */

static void read_config(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    lx_couplet_own(c)->max_chars = lx_config_int(r, s, "max_chars", 1, MAX_CONFIG_CHARS);
}

static const char *const specials[] = {"<unk>", "<s>", "<sep>", "<none>", "<back>"};
enum { UNK, BOS, SEP, NONE, N_SPECIALS, BACK = N_SPECIALS }; /* a model may have no <back> */

static int32_t special(const lx_model *model, int32_t which)
{
    return lx_vocab_special(model->vocab, specials[which]);
}

static bool is_word_id(const lx_vocab *v, int32_t id)
{
    return !lx_vocab_is_special(v, id) && !lx_char_is_punctuation(lx_vocab_codepoint(v, id));
}

static lx_status check_inputs(const lx_config *c, int32_t n_vocab, lx_error *err)
{
    static const char *const names[N_INPUTS] = {"token", "position", "countdown", "mirror"};
    if (c->n_inputs != N_INPUTS)
        return lx_fail(err, LX_ERR_FORMAT, "inputs",
                       "config.json: inputs: the couplet task has %d (token, position, countdown, "
                       "mirror), not %d",
                       N_INPUTS, c->n_inputs);
    for (int32_t i = 0; i < N_INPUTS; i++) {
        bool of_vocab = i == TOKEN || i == MIRROR;
        int32_t want = of_vocab ? n_vocab : lx_couplet_of(c)->max_chars + 1;
        if (strcmp(c->inputs[i].name, names[i]) != 0)
            return lx_fail(err, LX_ERR_FORMAT, "inputs",
                           "config.json: inputs: number %d of a couplet model is %s, not %s", i + 1,
                           names[i], c->inputs[i].name);
        if (c->inputs[i].size != want)
            return lx_fail(err, LX_ERR_FORMAT, "inputs",
                           "config.json: inputs: %s: size %d, but %s is %d", names[i],
                           c->inputs[i].size, of_vocab ? "vocab.txt's" : "max_chars + 1", want);
    }
    return LX_OK;
}

static lx_status check_vocabulary(const lx_vocab *v, int32_t max_chars, lx_error *err)
{
    for (int32_t i = 0; i < N_SPECIALS; i++) {
        if (lx_vocab_special(v, specials[i]) < 0)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: %s is missing", specials[i]);
    }
    int32_t n_words = 0;
    for (int32_t id = 0; id < lx_vocab_size(v); id++)
        n_words += is_word_id(v, id);
    if (n_words <= 2 * max_chars)
        return lx_fail(
            err, LX_ERR_FORMAT, NULL,
            "vocab.txt: %d characters without punctuation; lines of %d need more than %d", n_words,
            max_chars, 2 * max_chars);
    return LX_OK;
}

static lx_status check_model(const lx_model *model, lx_error *err)
{
    const lx_config *c = &model->config;
    if (model->vocab == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: the couplet task needs it");
    if (lx_couplet_of(c)->max_chars < 1 || lx_couplet_of(c)->max_chars > MAX_CHARS)
        return lx_fail(err, LX_ERR_FORMAT, "max_chars",
                       "config.json: max_chars: %d is not in 1 .. %d", lx_couplet_of(c)->max_chars,
                       MAX_CHARS);
    int32_t n_vocab = lx_vocab_size(model->vocab);
    if (c->head_kind != LX_HEAD_CATEGORICAL || c->head_size != n_vocab)
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       "config.json: head: size %d, but vocab.txt has %d entries", c->head_size,
                       n_vocab);
    lx_status st = check_inputs(c, n_vocab, err);
    return st == LX_OK ? check_vocabulary(model->vocab, lx_couplet_of(c)->max_chars, err) : st;
}

static void fill_mask(const lx_model *model, int32_t mask_idx, uint8_t *banned)
{
    int32_t unk = special(model, UNK);
    for (int32_t id = 0; id < model->config.head_size; id++) {
        if (mask_idx == MASK_RULES)
            banned[id] = !is_word_id(model->vocab, id);
        else
            banned[id] = id != unk && lx_vocab_is_special(model->vocab, id);
    }
}

/* --- reading a line --- */

typedef struct span {
    const char *text;
    size_t n_bytes;
    int32_t n_chars; /* that are read, no more than INT32_MAX */
    bool normalize;
} span;

static bool is_dropped(bool normalize, uint32_t c)
{
    return normalize && lx_char_is_blank(c);
}

/* The text without the white space around it; malformed UTF-8 is an error that names the byte. */
static lx_status trim(const char *text, size_t n_bytes, bool normalize, const char *param,
                      span *out, lx_error *err)
{
    size_t begin = 0, end = 0, pos = 0;
    int32_t n_chars = 0, n_to_end = 0;
    if (n_bytes > INT32_MAX)
        return lx_fail(err, LX_ERR_INVALID, param, "the line has %zu bytes", n_bytes);
    while (pos < n_bytes) {
        size_t at = pos;
        int32_t c = lx_utf8_next(text, n_bytes, &pos);
        if (c < 0)
            return lx_fail(err, LX_ERR_INVALID, param,
                           "the line is not valid UTF-8: byte %zu is wrong; send it as UTF-8",
                           at + 1);
        bool space = lx_char_is_space((uint32_t)c);
        if ((n_chars == 0 && space) || is_dropped(normalize, (uint32_t)c))
            continue;
        if (n_chars++ == 0)
            begin = at;
        if (!space) {
            end = pos;
            n_to_end = n_chars;
        }
    }
    *out = (span){text + begin, n_to_end == 0 ? 0 : end - begin, n_to_end, normalize};
    return LX_OK;
}

static lx_status check_length(const span *s, int32_t max_chars, const char *param, lx_error *err)
{
    if (s->n_chars == 0)
        return lx_fail(err, LX_ERR_INVALID, param,
                       "the line is empty: write 1 to %d Chinese characters", max_chars);
    if (s->n_chars > max_chars)
        return lx_fail(err, LX_ERR_INVALID, param,
                       "the line has %d characters, at most %d are allowed: shorten it", s->n_chars,
                       max_chars);
    return LX_OK;
}

static lx_status refuse(uint32_t c, int32_t place, lx_error *err)
{
    char text[5] = {0};
    if (lx_char_is_space(c))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "white space at character %d: write the line without spaces or line breaks",
                       place);
    if (lx_char_is_control(c))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "control character U+%04X at character %d: remove it", c, place);
    if (lx_char_is_invisible(c))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "invisible character U+%04X at character %d: remove it", c, place);
    (void)lx_utf8_put(c, text);
    return lx_fail(err, LX_ERR_INVALID, "prompt",
                   "this model cannot read \"%s\" (U+%04X) at character %d: use Chinese characters "
                   "and punctuation",
                   text, c, place);
}

static bool is_readable(const lx_vocab *v, uint32_t c)
{
    if (lx_char_is_space(c) || lx_char_is_control(c) || lx_char_is_invisible(c))
        return false;
    return lx_char_is_han(c) || lx_char_is_punctuation(c) || lx_vocab_char(v, c) >= 0;
}

static void put_character(const lx_vocab *v, uint32_t c, line *out, int32_t i)
{
    int32_t id = lx_vocab_char(v, c), first = 0;
    while (first < i && out->chars[first].codepoint != c)
        first++;
    out->chars[i] = (character){c, id < 0 ? out->unk : id, first, lx_char_is_punctuation(c)};
}

static lx_status read_line(const lx_vocab *v, const span *s, line *out, int32_t *n_simplified,
                           lx_error *err)
{
    size_t pos = 0;
    int32_t place = 0;
    for (int32_t i = 0; i < s->n_chars;) {
        uint32_t c = lx_char_widen((uint32_t)lx_utf8_next(s->text, s->n_bytes, &pos));
        place++;
        if (is_dropped(s->normalize, c))
            continue;
        if (!is_readable(v, c))
            return refuse(c, place, err);
        uint32_t simple = s->normalize ? lx_simplified(c) : c;
        bool simplify = simple != c && lx_vocab_char(v, simple) >= 0;
        *n_simplified += simplify;
        put_character(v, simplify ? simple : c, out, i++);
    }
    return LX_OK;
}

/* --- the plan --- */

static void put_row(int32_t *row, int32_t token, int32_t position, int32_t countdown,
                    int32_t mirror)
{
    row[TOKEN] = token;
    row[POSITION] = position;
    row[COUNTDOWN] = countdown;
    row[MIRROR] = mirror;
}

static void fill_prompt(lx_plan *plan, const line *l)
{
    int32_t *row = plan->prompt_ids, none = special(plan->model, NONE);
    put_row(row, special(plan->model, BOS), 0, 0, none);
    for (int32_t i = 0; i < l->n; i++)
        put_row(row += N_INPUTS, l->chars[i].id, i + 1, 0, none);
    put_row(row + N_INPUTS, special(plan->model, plan->backward ? BACK : SEP), 1, l->n,
            l->chars[0].id);
}

/* Whether the last character that is no mark has a level tone and no other. */
static bool ends_level(const line *l)
{
    int32_t i = l->n - 1;
    while (i > 0 && l->chars[i].mark)
        i--;
    return lx_tone_of(l->chars[i].codepoint) == LX_TONE_LEVEL;
}

/* The first row, the line, the row between, and all but the last character of the answer. */
static int32_t max_rows(const lx_model *model)
{
    return 2 * lx_couplet_of(&model->config)->max_chars + 1;
}

static lx_status plan_text(lx_plan *plan, const char *text, size_t bytes,
                           const lx_task_request *request, lx_error *err)
{
    const lx_model *model = plan->model;
    span s;
    lx_status st = trim(text, bytes, request->normalize, "prompt", &s, err);
    if (st == LX_OK)
        st = check_length(&s, lx_couplet_of(&model->config)->max_chars, "prompt", err);
    if (st != LX_OK)
        return st;
    size_t n = (size_t)s.n_chars;
    line *l = calloc(1, sizeof *l + n * sizeof *l->chars);
    plan->data = l;
    plan->prompt_ids = calloc((n + 2) * N_INPUTS, sizeof *plan->prompt_ids);
    if (l == NULL || plan->prompt_ids == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a line");
    *l = (line){.rules = request->rules, .unk = special(model, UNK), .n = s.n_chars};
    st = read_line(model->vocab, &s, l, &plan->n_simplified, err);
    if (st != LX_OK)
        return st;
    for (int32_t i = 0; i < l->n; i++)
        plan->n_unknown += l->chars[i].id == l->unk;
    plan->n_prompt = l->n + 2;
    plan->n_new = plan->n_pieces = l->n;
    plan->runs_ahead = !request->rules;
    plan->backward = request->either_way && special(model, BACK) >= 0 && ends_level(l);
    fill_prompt(plan, l);
    return LX_OK;
}

/* Tokens are characters, so a list of them is read as the text it stands for. */
static lx_status write_ids(const lx_model *model, const lx_task_request *request, lx_buffer *text,
                           lx_error *err)
{
    for (int32_t i = 0; i < request->n_ids; i++) {
        int32_t id = request->ids[i], n = lx_vocab_size(model->vocab);
        if (id < 0 || id >= n)
            return lx_fail(err, LX_ERR_INVALID, "prompt",
                           "token %d is %d, but tokens are 0 to %d here", i + 1, id, n - 1);
        if (lx_vocab_is_special(model->vocab, id))
            return lx_fail(err, LX_ERR_INVALID, "prompt",
                           "token %d is %d (%s): a line has only characters", i + 1, id,
                           lx_vocab_text(model->vocab, id));
        lx_buffer_puts(text, lx_vocab_text(model->vocab, id));
    }
    if (text->status == LX_ERR_TOO_LARGE)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "the line has %d tokens, at most %d are read",
                       request->n_ids, lx_couplet_of(&model->config)->max_chars);
    return text->status == LX_OK ? LX_OK : lx_fail(err, text->status, NULL, "no memory for a line");
}

static lx_status plan_init(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    if (request->ids == NULL)
        return plan_text(plan, request->text, request->text_bytes, request, err);
    lx_buffer text;
    lx_buffer_init(&text, (size_t)lx_couplet_of(&plan->model->config)->max_chars * 8);
    lx_buffer_puts(&text, "");
    lx_status st = write_ids(plan->model, request, &text, err);
    lx_task_request exactly = *request; /* a token means its own character */
    exactly.normalize = false;
    if (st == LX_OK)
        st = plan_text(plan, text.data, text.length, &exactly, err);
    lx_buffer_fini(&text);
    return st;
}

static void input(const lx_plan *plan, int32_t step, const int32_t *tokens, int32_t *ids)
{
    const line *l = plan->data;
    put_row(ids, tokens[step], step + 2, l->n - step - 1, l->chars[step + 1].id);
}

static void ban(lx_constraint *c, int32_t id)
{
    c->banned[c->n_banned++] = id;
}

static void constrain(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out)
{
    const line *l = plan->data;
    const character *u = &l->chars[step];
    out->forced = -1;
    out->n_banned = 0;
    out->use_mask = true;
    out->mask_idx = l->rules ? MASK_RULES : MASK_FREE;
    if (!l->rules)
        return;
    if (u->mark)
        out->forced = u->id;
    else if (u->first < step)
        out->forced = tokens[u->first];
    if (out->forced >= 0)
        return;
    for (int32_t i = 0; i < l->n; i++) {
        if (l->chars[i].first == i && !l->chars[i].mark && l->chars[i].id != l->unk)
            ban(out, l->chars[i].id);
    }
    for (int32_t i = 0; i < step; i++) {
        if (l->chars[i].first == i && !l->chars[i].mark)
            ban(out, tokens[i]);
    }
}

static void render(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_buffer *out)
{
    const line *l = plan->data;
    const character *u = &l->chars[step];
    char text[4];
    uint32_t c =
        l->rules && u->mark ? u->codepoint : lx_vocab_codepoint(plan->model->vocab, tokens[step]);
    lx_buffer_append(out, text, lx_utf8_put(c != 0 ? c : UNKNOWN, text));
}

static void spell(const lx_model *model, int32_t id, lx_buffer *out)
{
    lx_buffer_puts(out, lx_vocab_text(model->vocab, id));
}

/* A character has 4. A special's name has at most 31, but no place for bytes that need escapes. */
static int32_t token_bytes(const lx_model *model)
{
    (void)model;
    return TOKEN_BYTES;
}

static void render_prompt(const lx_plan *plan, int32_t i, lx_buffer *out)
{
    const line *l = plan->data;
    char text[4];
    lx_buffer_append(out, text, lx_utf8_put(l->chars[i].codepoint, text));
}

static bool restate(const lx_plan *plan, lx_buffer *out)
{
    const line *l = plan->data;
    for (int32_t i = 0; i < l->n; i++)
        render_prompt(plan, i, out);
    return l->rules;
}

static lx_status replan(lx_plan *plan, const void *bytes, size_t n, bool flag, bool ignore_end,
                        lx_error *err)
{
    (void)ignore_end;
    const lx_task_request request = {.text = bytes, .text_bytes = n, .rules = flag};
    return plan_init(plan, &request, err);
}

static void card(const lx_model *model, lx_task_card *card)
{
    lx_card_add(card, (lx_card_field){"max_chars", LX_CARD_INT,
                                      .number = lx_couplet_of(&model->config)->max_chars});
}

static lx_status read_answer(const lx_plan *plan, const char *text, size_t bytes,
                             lx_token_list *out, lx_error *err)
{
    const line *l = plan->data;
    span s;
    lx_status st = trim(text, bytes, false, "completion", &s, err);
    if (st != LX_OK)
        return st;
    if (s.n_chars != l->n)
        return lx_fail(err, LX_ERR_INVALID, "completion",
                       "the lower line has %d characters, the upper line %d", s.n_chars, l->n);
    size_t pos = 0;
    for (int32_t i = 0; i < l->n; i++) {
        uint32_t c = lx_char_widen((uint32_t)lx_utf8_next(s.text, s.n_bytes, &pos));
        int32_t id = lx_vocab_char(plan->model->vocab, c);
        lx_token_list_add(out, id < 0 ? l->unk : id);
    }
    return LX_OK;
}

static void judge(const lx_plan *plan, lx_pool_sample *samples, int32_t n)
{
    const line *l = plan->data;
    for (int32_t i = 0; i < n; i++) {
        lx_line_pair pair = {.n = l->n < samples[i].n_tokens ? l->n : samples[i].n_tokens};
        for (int32_t at = 0; at < pair.n; at++) {
            pair.given[at] = l->chars[at].codepoint;
            pair.answer[at] = l->chars[at].mark
                                  ? l->chars[at].codepoint
                                  : lx_vocab_codepoint(plan->model->vocab, samples[i].tokens[at]);
        }
        samples[i].score += lx_judge_line(&pair);
    }
}

static bool may_review(const lx_model *model)
{
    return special(model, BACK) >= 0;
}

/* The sample is the line, and the prompt's line is its answer: an upper one, if the sample is a
   lower one. */
static lx_status review(const lx_plan *plan, const lx_pool_sample *sample, lx_plan **out,
                        lx_token_list *answer, lx_error *err)
{
    const line *l = plan->data;
    lx_buffer text;
    for (int32_t i = 0; i < sample->n_tokens; i++) {
        if (sample->tokens[i] == l->unk)
            return LX_OK; /* a line without rules, which no plan could read */
    }
    if (sample->n_tokens < l->n)
        return LX_OK;
    lx_buffer_init(&text, (size_t)l->n * TOKEN_BYTES);
    lx_plan_text(plan, sample->tokens, l->n, &text);
    const lx_task_request request = {.text = text.data, .text_bytes = text.length};
    lx_status st = text.status == LX_OK ? lx_plan_new(plan->model, &request, out, err)
                                        : lx_fail(err, text.status, NULL, "no memory for a line");
    lx_buffer_fini(&text);
    if (st != LX_OK)
        return st;
    (*out)->backward = !plan->backward;
    fill_prompt(*out, (*out)->data);
    for (int32_t i = 0; i < l->n; i++)
        lx_token_list_add(answer, l->chars[i].id);
    return LX_OK;
}

/* Low temperatures find the likely lines, and the high one makes them differ. */
static const lx_task_pool pool = {.n_samples = 80,
                                  .temperatures = {3, {0.3f, 0.6f, 0.8f}},
                                  .judge = judge,
                                  .n_reviewed = 12,
                                  .review_weight = 0.2,
                                  .may_review = may_review,
                                  .review = review};

const lx_task_ops lx_couplet_task = {
    .name = "couplet",
    .modality = LX_TEXT,
    .has_rules = true,
    .normalizes = true,
    .read_config = read_config,
    .load = lx_model_read_vocab,
    .card = card,
    .check_model = check_model,
    .max_rows = max_rows,
    .n_masks = N_MASKS,
    .fill_mask = fill_mask,
    .plan_init = plan_init,
    .input = input,
    .constrain = constrain,
    .restate = restate,
    .replan = replan,
    .pool = &pool,
    .score_name = "nats_per_character",
    .score_unit = 1,
    .read_answer = read_answer,
    .render = render,
    .spell = spell,
    .token_bytes = token_bytes,
    .render_prompt = render_prompt,
};

/*
 * --- judging a finished pair ---
 *
 * By the couplet's rules, from the code points alone. This part shares no logic with the sampler's
 * constraints, so that each can show the other's faults.
 */

/* A character that the rules of repetition and sharing speak of. */
static bool is_word(uint32_t c)
{
    return c != UNKNOWN && !lx_char_is_punctuation(c);
}

static bool has_unknown(const uint32_t *text, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (text[i] == UNKNOWN)
            return true;
    }
    return false;
}

/* Both lines must have equal marks at equal places. */
static bool punctuation_differs(const uint32_t *upper, int32_t n_upper, const uint32_t *lower,
                                int32_t n_lower)
{
    int32_t longer = n_upper > n_lower ? n_upper : n_lower;
    for (int32_t i = 0; i < longer; i++) {
        uint32_t u = i < n_upper && lx_char_is_punctuation(upper[i]) ? upper[i] : 0;
        uint32_t l = i < n_lower && lx_char_is_punctuation(lower[i]) ? lower[i] : 0;
        if (u != l)
            return true;
    }
    return false;
}

/* Two places hold equal characters in the lower line exactly if they do in the upper line. */
static bool repetition_differs(const uint32_t *upper, const uint32_t *lower, int32_t n)
{
    for (int32_t j = 1; j < n; j++) {
        for (int32_t i = 0; i < j; i++) {
            bool words =
                is_word(upper[i]) && is_word(upper[j]) && is_word(lower[i]) && is_word(lower[j]);
            if (words && (upper[i] == upper[j]) != (lower[i] == lower[j]))
                return true;
        }
    }
    return false;
}

static bool shares_a_word(const uint32_t *upper, int32_t n_upper, const uint32_t *lower,
                          int32_t n_lower)
{
    for (int32_t j = 0; j < n_lower; j++) {
        for (int32_t i = 0; i < n_upper; i++) {
            if (is_word(lower[j]) && lower[j] == upper[i])
                return true;
        }
    }
    return false;
}

unsigned lx_couplet_check(const uint32_t *upper, int32_t n_upper, const uint32_t *lower,
                          int32_t n_lower)
{
    unsigned broken = 0;
    if (n_upper != n_lower)
        broken |= LX_COUPLET_LENGTH;
    if (punctuation_differs(upper, n_upper, lower, n_lower))
        broken |= LX_COUPLET_PUNCTUATION;
    if (repetition_differs(upper, lower, n_upper < n_lower ? n_upper : n_lower))
        broken |= LX_COUPLET_REPETITION;
    if (shares_a_word(upper, n_upper, lower, n_lower))
        broken |= LX_COUPLET_SHARED;
    if (has_unknown(lower, n_lower))
        broken |= LX_COUPLET_UNKNOWN;
    return broken;
}

const char *lx_couplet_rule_name(int32_t bit_index)
{
    static const char *const names[LX_COUPLET_N_RULES] = {"length", "punctuation", "repetition",
                                                          "shared", "unknown"};
    return bit_index >= 0 && bit_index < LX_COUPLET_N_RULES ? names[bit_index] : "";
}
