/*
 * The poem task: see poem.h for the rules.
 *
 * A form fixes the place of every mark and of the end, and an acrostic the first characters, so a
 * step's constraint follows from its number alone: engine and sampler may run ahead. Every token
 * that the mask leaves is one whole character, so tokens are counted where characters are meant.
 */
#include "model/tasks/poem.h"

#include <stdlib.h>
#include <string.h>

#include "model/characters.h"
#include "model/formats/file.h"
#include "model/model_files.h"
#include "model/tasks/choose.h"
#include "model/tasks/text.h"
#include "model/utf8.h"

enum { MASK_TEXT, MASK_WORDS, MASK_RHYMES, N_MASKS }; /* and then one for each group of rhymes */
enum { MAX_CHARACTER = 4 };                           /* bytes */
enum { MAX_RHYMES = LX_POEM_MAX_LINES / 2 };
enum { MOST_TITLE = 64 }; /* characters of a title that are looked at */
enum { JUDGED = 256 };    /* characters of a poem by which it is chosen */

static const char comma[] = "\xef\xbc\x8c", stop[] = "\xe3\x80\x82"; /* ，。 */
static const char before_title[] = "\xe3\x80\x8a";                   /* 《 */
static const char behind_title[] = "\xe3\x80\x8b";                   /* 》 */

static const struct form {
    const char *name;
    int32_t chars, lines;
} forms[] = {{"5x4", 5, 4}, {"5x8", 5, 8}, {"7x4", 7, 4}, {"7x8", 7, 8}};

enum { N_FORMS = sizeof forms / sizeof *forms, RHYMING = 256 };

/* How a plan's answer is written. */
typedef struct poem {
    const struct form *form;          /* NULL: free */
    int32_t n_before;                 /* characters and marks of the poem in the prompt */
    int32_t marks[2];                 /* tokens: behind odd lines, behind even ones */
    int32_t first[LX_POEM_MAX_LINES]; /* tokens that the lines begin with, -1: free */
    bool rhymes;
    int32_t given[MAX_RHYMES];            /* tokens of the prompt at the ends of even lines */
    size_t acrostic_bytes;                /* 0: none */
    char acrostic[LX_POEM_MAX_LINES * 4]; /* as it was asked for */
} poem;

const char *lx_poem_forms(void)
{
    return "5x4, 5x8, 7x4, 7x8";
}

static int32_t length_of(const struct form *f)
{
    return f->lines * (f->chars + 1);
}

/* --- the model --- */

/* The token that is this text and nothing else, -1: there is none. */
static int32_t token_of(const lx_model *model, const char *text, size_t bytes)
{
    lx_token_list list;
    lx_error err = {0};
    lx_token_list_init(&list, MAX_CHARACTER);
    lx_status st = lx_tokenizer_encode(model->tokenizer, text, bytes, 0, &list, &err);
    int32_t id = st == LX_OK && list.status == LX_OK && list.n == 1 ? list.ids[0] : -1;
    lx_token_list_fini(&list);
    size_t n = 0;
    const char *token = id >= 0 ? lx_tokenizer_token(model->tokenizer, id, &n) : NULL;
    return token != NULL && n == bytes && memcmp(token, text, n) == 0 ? id : -1;
}

/* Appends the text with every traditional character as its simplified form, where that is a token.
   Returns how many those are. */
static int32_t simplify(const lx_model *model, const char *text, size_t bytes, lx_buffer *out)
{
    int32_t n = 0;
    for (size_t at = 0; at < bytes;) {
        char simple[MAX_CHARACTER];
        size_t from = at;
        int32_t c = lx_utf8_next(text, bytes, &at);
        uint32_t s = c >= 0 ? lx_simplified((uint32_t)c) : 0;
        size_t length = c >= 0 && s != (uint32_t)c ? lx_utf8_put(s, simple) : 0;
        bool replaces = length > 0 && token_of(model, simple, length) >= 0;
        n += replaces;
        lx_buffer_append(out, replaces ? simple : text + from, replaces ? length : at - from);
    }
    return n;
}

/* Whether the token is one Chinese character. */
static bool is_word(const lx_model *model, int32_t id)
{
    size_t n = 0, at = 0;
    const char *text = lx_tokenizer_token(model->tokenizer, id, &n);
    if (text == NULL || n == 0 || lx_tokenizer_is_special(model->tokenizer, id))
        return false;
    int32_t c = lx_utf8_next(text, n, &at);
    return c >= 0 && at == n && lx_char_is_han((uint32_t)c);
}

/* Each group has enough for the longest poem. */
static lx_status check_rhymes(const lx_model *model, lx_error *err)
{
    int32_t n_words[LX_MAX_RHYME_GROUPS] = {0};
    for (int32_t id = 0; id < lx_tokenizer_size(model->tokenizer); id++) {
        int32_t group = lx_rhymes_group(lx_poem_rhymes(model), id);
        if (group >= 0)
            n_words[group]++;
    }
    for (int32_t i = 0; i < lx_rhymes_groups(lx_poem_rhymes(model)); i++) {
        if (n_words[i] < MAX_RHYMES)
            return lx_fail(err, LX_ERR_FORMAT, NULL,
                           "rhymes.txt, group %d: the vocabulary has %d of its characters, and a "
                           "poem needs %d",
                           i + 1, n_words[i], MAX_RHYMES);
    }
    return LX_OK;
}

static lx_status check_model(const lx_model *model, lx_error *err)
{
    lx_status st = lx_text_check_model(model, err);
    if (st != LX_OK)
        return st;
    if (lx_text_of(&model->config)->n_ends == 0)
        return lx_fail(err, LX_ERR_FORMAT, "end",
                       "config.json: a model of poems has a token that ends them");
    int32_t n_words = 0;
    for (int32_t id = 0; id < lx_tokenizer_size(model->tokenizer); id++)
        n_words += is_word(model, id);
    if (n_words == 0 || token_of(model, comma, sizeof comma - 1) < 0 ||
        token_of(model, stop, sizeof stop - 1) < 0)
        return lx_fail(err, LX_ERR_FORMAT, "tokenizer",
                       "the tokenizer of a model of poems has Chinese characters and the marks "
                       "%s and %s as tokens",
                       comma, stop);
    return check_rhymes(model, err);
}

static lx_status load(lx_model *model, lx_error *err)
{
    char path[LX_MODEL_PATH], *bytes = NULL;
    size_t n = 0;
    lx_rhymes *rhymes = NULL;
    lx_status st = lx_text_load(model, err);
    if (st == LX_OK)
        st = lx_model_read_optional(model, "rhymes.txt", LX_MAX_RHYMES_FILE, path, &bytes, &n, err);
    if (st == LX_OK && bytes != NULL)
        st = lx_rhymes_read(bytes, n, lx_file_label(path), model->tokenizer, &rhymes, err);
    free(bytes);
    model->task_data = rhymes;
    return st;
}

static void unload(lx_model *model)
{
    lx_rhymes_free(model->task_data);
}

static void card(const lx_model *model, lx_task_card *card)
{
    lx_text_card(model, card);
    lx_card_add(card, (lx_card_field){"rhymes", LX_CARD_FLAG,
                                      .number = lx_rhymes_groups(lx_poem_rhymes(model)) > 0});
}

static int32_t more_masks(const lx_model *model)
{
    return lx_rhymes_groups(lx_poem_rhymes(model));
}

static void fill_mask(const lx_model *model, int32_t mask_idx, uint8_t *banned)
{
    if (mask_idx == MASK_TEXT) {
        lx_text_fill_mask(model, mask_idx, banned);
        return;
    }
    for (int32_t id = 0; id < model->config.head_size; id++) {
        int32_t group = lx_rhymes_group(lx_poem_rhymes(model), id);
        banned[id] = mask_idx == MASK_WORDS    ? !is_word(model, id)
                     : mask_idx == MASK_RHYMES ? group < 0
                                               : group != mask_idx - N_MASKS;
    }
}

/* --- the form --- */

static const struct form *find_form(const char *name)
{
    for (int32_t i = 0; i < N_FORMS; i++) {
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    }
    return NULL;
}

static const char *own_field(const void *own)
{
    const lx_poem_request *asked = own;
    return asked->form != NULL       ? "form"
           : asked->acrostic != NULL ? "acrostic"
           : asked->rhyme            ? "rhyme"
                                     : NULL;
}

static lx_status read_form(const lx_model *model, const lx_poem_request *asked, bool ignores_end,
                           poem *p, lx_error *err)
{
    const char *field = own_field(asked);
    if (field == NULL)
        return LX_OK;
    if (asked->form == NULL)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "%s needs a form, which sets the number of lines: %s", field,
                       lx_poem_forms());
    if (asked->rhyme && lx_rhymes_groups(lx_poem_rhymes(model)) == 0)
        return lx_fail(err, LX_ERR_INVALID, "rhyme",
                       "%s has no table of rhymes: rhymes.txt in its folder", model->name);
    p->rhymes = asked->rhyme;
    p->form = find_form(asked->form);
    if (p->form == NULL)
        return lx_fail(err, LX_ERR_INVALID, "form", "form must be one of %s", lx_poem_forms());
    if (ignores_end)
        return lx_fail(err, LX_ERR_INVALID, "ignore_eos",
                       "ignore_eos is not allowed with form: the poem ends after its last line");
    return LX_OK;
}

static lx_status wrong_acrostic(const poem *p, lx_error *err)
{
    return lx_fail(err, LX_ERR_INVALID, "acrostic",
                   "acrostic must have %d Chinese characters, one a line of %s", p->form->lines,
                   p->form->name);
}

static lx_status read_acrostic(const lx_model *model, const lx_poem_request *asked, poem *p,
                               lx_error *err)
{
    const char *text = asked->acrostic;
    size_t n = asked->acrostic_bytes, at = 0;
    int32_t line = 0;
    memset(p->first, -1, sizeof p->first);
    if (text == NULL || p->form == NULL)
        return LX_OK;
    for (; at < n; line++) {
        size_t from = at;
        int32_t c = lx_utf8_next(text, n, &at);
        if (line == p->form->lines || c < 0 || !lx_char_is_han((uint32_t)c))
            return wrong_acrostic(p, err);
        p->first[line] = token_of(model, text + from, at - from);
        if (p->first[line] < 0)
            return lx_fail(err, LX_ERR_INVALID, "acrostic",
                           "acrostic: the model does not know %.*s", (int)(at - from), text + from);
    }
    if (line != p->form->lines)
        return wrong_acrostic(p, err);
    memcpy(p->acrostic, text, n);
    p->acrostic_bytes = n;
    return LX_OK;
}

/* What the form has at a place of the poem. */
static void rule_at(const poem *p, int32_t place, lx_constraint *out)
{
    int32_t line = place / (p->form->chars + 1), column = place % (p->form->chars + 1);
    if (column == p->form->chars)
        out->forced = p->marks[line % 2];
    else if (column == 0)
        out->forced = p->first[line];
}

/* Whether a line that rhymes ends at this place. */
static bool is_rhyme(const poem *p, int32_t place)
{
    int32_t line = place / (p->form->chars + 1), column = place % (p->form->chars + 1);
    return p->rhymes && line % 2 == 1 && column == p->form->chars - 1;
}

/* Which of the rhymes it is. */
static int32_t rhyme_index(const poem *p, int32_t place)
{
    return place / (p->form->chars + 1) / 2;
}

/* Keeps the token that the prompt has at a place that rhymes; false: it does not rhyme with those
   before it. */
static bool take_rhyme(const lx_model *model, poem *p, int32_t place, int32_t token)
{
    int32_t n = rhyme_index(p, place), group = lx_rhymes_group(lx_poem_rhymes(model), token);
    for (int32_t i = 0; i < n; i++) {
        if (p->given[i] == token || lx_rhymes_group(lx_poem_rhymes(model), p->given[i]) != group)
            return false;
    }
    p->given[n] = token;
    return group >= 0;
}

/* Whether a character that the prompt has at a place of the poem keeps the form. */
static lx_status check_given(const lx_model *model, poem *p, int32_t place, const char *character,
                             size_t bytes, lx_error *err)
{
    if (place >= length_of(p->form))
        return lx_fail(err, LX_ERR_INVALID, "prompt", "the prompt's poem is longer than %s",
                       p->form->name);
    lx_constraint rule = {.forced = -1};
    rule_at(p, place, &rule);
    size_t at = 0;
    int32_t c = lx_utf8_next(character, bytes, &at);
    bool ok = rule.forced >= 0 ? token_of(model, character, bytes) == rule.forced
                               : c >= 0 && lx_char_is_han((uint32_t)c);
    if (ok && is_rhyme(p, place) && !take_rhyme(model, p, place, token_of(model, character, bytes)))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "the prompt's poem does not rhyme at its character %d", place + 1);
    bool acrostic = !ok && rule.forced >= 0 && place % (p->form->chars + 1) == 0;
    if (ok)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, acrostic ? "acrostic" : "prompt",
                   "the prompt's poem does not keep the %s at its character %d",
                   acrostic ? "acrostic" : "form", place + 1);
}

/* Where the poem begins in the prompt's text. */
static size_t find_poem(const lx_buffer *text)
{
    size_t n = sizeof behind_title - 1;
    for (size_t at = text->length; at >= n; at--) {
        if (memcmp(text->data + at - n, behind_title, n) == 0)
            return at;
    }
    return 0;
}

static lx_status check_prompt(const lx_plan *plan, poem *p, lx_error *err)
{
    const lx_model *model = plan->model;
    lx_buffer text;
    lx_buffer_init(&text, (size_t)plan->n_pieces * (size_t)lx_text_token_bytes(model) + 1);
    lx_status st = lx_tokenizer_decode(model->tokenizer, plan->prompt_ids, (size_t)plan->n_pieces,
                                       0, &text, err);
    if (st == LX_OK && text.status != LX_OK)
        st = lx_fail(err, text.status, NULL, "no memory for a prompt");
    size_t at = st == LX_OK && text.data != NULL ? find_poem(&text) : 0;
    while (st == LX_OK && text.data != NULL && at < text.length) {
        size_t from = at;
        (void)lx_utf8_next(text.data, text.length, &at);
        st = check_given(model, p, p->n_before++, text.data + from, at - from, err);
    }
    lx_buffer_fini(&text);
    return st;
}

/* The answer's length is known. */
static lx_status set_length(lx_plan *plan, const poem *p, lx_error *err)
{
    int32_t rest = plan->n_given + length_of(p->form) - p->n_before + 1;
    if (rest > plan->n_new)
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "the prompt leaves no room for a poem of %s: the model reads %d tokens",
                       p->form->name, lx_text_max_rows(plan->model));
    plan->n_new = rest;
    plan->has_end = true;
    plan->runs_ahead = !p->rhymes; /* a rhyme follows from the one before it */
    return LX_OK;
}

/* --- the title --- */

/* Where the title begins and ends in the prompt: between the last 《 and 》, or all of the prompt.
 */
static void find_title(const char *text, size_t bytes, size_t *begin, size_t *end)
{
    size_t n = sizeof behind_title - 1;
    bool ends = false;
    *begin = 0;
    *end = bytes;
    for (size_t at = bytes; at >= n; at--) {
        const char *mark = text + at - n;
        if (!ends && memcmp(mark, behind_title, n) == 0) {
            ends = true;
            *end = at - n;
        } else if (ends && memcmp(mark, before_title, n) == 0) {
            *begin = at;
            return;
        }
    }
}

/* A warning about a title with characters that no poem has, NULL: there is none. */
static const char *judge_title(const lx_model *model, const char *text, size_t bytes)
{
    size_t at = 0, end = 0;
    int32_t n_words = 0, n_unread = 0;
    find_title(text, bytes, &at, &end);
    for (int32_t i = 0; at < end && i < MOST_TITLE; i++) {
        size_t from = at;
        int32_t c = lx_utf8_next(text, end, &at);
        if (c >= 0 && (lx_char_is_space((uint32_t)c) || lx_char_is_punctuation((uint32_t)c)))
            continue;
        bool word =
            c >= 0 && lx_char_is_han((uint32_t)c) && token_of(model, text + from, at - from) >= 0;
        n_words += word;
        n_unread += !word;
    }
    if (n_words == 0)
        return "the title has no Chinese character that the model knows, so the poem is about "
               "anything: write a Chinese title, as in 唐《静夜思》";
    return n_unread > 0 ? "the title has characters that the model does not know, so the poem may "
                          "not follow it: write a Chinese title"
                        : NULL;
}

/* --- the plan --- */

static lx_status plan_exactly(lx_plan *plan, const lx_task_request *request,
                              const lx_poem_request *asked, lx_error *err)
{
    lx_status st = lx_text_plan_init(plan, request, err);
    if (st != LX_OK)
        return st;
    if (request->text != NULL)
        plan->warning = judge_title(plan->model, request->text, request->text_bytes);
    poem *p = calloc(1, sizeof *p);
    plan->data = p;
    if (p == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a request");
    p->marks[0] = token_of(plan->model, comma, sizeof comma - 1);
    p->marks[1] = token_of(plan->model, stop, sizeof stop - 1);
    st = read_form(plan->model, asked, request->ignore_end, p, err);
    if (st == LX_OK)
        st = read_acrostic(plan->model, asked, p, err);
    if (st == LX_OK && p->form != NULL)
        st = check_prompt(plan, p, err);
    return st == LX_OK && p->form != NULL ? set_length(plan, p, err) : st;
}

/* A prompt that cannot fit is not looked at: it will be refused. */
static lx_status plan_simplified(lx_plan *plan, const lx_task_request *request,
                                 const lx_poem_request *asked, lx_error *err)
{
    const lx_model *model = plan->model;
    size_t most = (size_t)lx_text_max_rows(model) * MAX_CHARACTER; /* of a prompt that fits */
    lx_task_request simple = *request;
    lx_poem_request simply = *asked;
    lx_buffer text, acrostic;
    lx_buffer_init(&text, 2 * most);
    lx_buffer_init(&acrostic, 2 * most);
    lx_buffer_puts(&text, ""); /* what is empty is there, too */
    lx_buffer_puts(&acrostic, "");
    if (request->text != NULL && request->text_bytes <= most) {
        plan->n_simplified += simplify(model, request->text, request->text_bytes, &text);
        simple.text = text.data;
        simple.text_bytes = text.length;
    }
    if (asked->acrostic != NULL && asked->acrostic_bytes <= most) {
        plan->n_simplified += simplify(model, asked->acrostic, asked->acrostic_bytes, &acrostic);
        simply.acrostic = acrostic.data;
        simply.acrostic_bytes = acrostic.length;
    }
    lx_status st = text.status != LX_OK ? text.status : acrostic.status;
    st = st == LX_OK ? plan_exactly(plan, &simple, &simply, err)
                     : lx_fail(err, st, NULL, "no memory for a prompt");
    lx_buffer_fini(&text);
    lx_buffer_fini(&acrostic);
    return st;
}

static lx_status plan_init(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    static const lx_poem_request free_poem;
    const lx_poem_request *asked = lx_task_own(request, &lx_poem_task);
    asked = asked != NULL ? asked : &free_poem;
    return request->normalize ? plan_simplified(plan, request, asked, err)
                              : plan_exactly(plan, request, asked, err);
}

/* Leaves what rhymes with the lines before and ends none of them. */
static void rhyme(const lx_plan *plan, int32_t place, const int32_t *tokens, lx_constraint *out)
{
    const poem *p = plan->data;
    int32_t chars = p->form->chars;
    out->mask_idx = MASK_RHYMES;
    for (int32_t i = 0; i < rhyme_index(p, place); i++) {
        int32_t at = 2 * chars + i * 2 * (chars + 1);
        int32_t token = at < p->n_before ? p->given[i] : tokens[at - p->n_before + plan->n_given];
        out->banned[out->n_banned++] = token;
        out->mask_idx = N_MASKS + lx_rhymes_group(lx_poem_rhymes(plan->model), token);
    }
}

static void constrain(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out)
{
    const poem *p = plan->data;
    lx_text_constrain(plan, step, tokens, out);
    int32_t place = p->n_before + step - plan->n_given;
    if (p->form == NULL || step < plan->n_given)
        return;
    out->mask_idx = MASK_WORDS;
    if (place == length_of(p->form))
        out->forced = lx_text_of(&plan->model->config)->ends[0];
    else
        rule_at(p, place, out);
    out->use_mask = out->forced < 0;
    if (is_rhyme(p, place))
        rhyme(plan, place, tokens, out);
}

/* With a form, which the flag says: its number, more by RHYMING where it rhymes, and the acrostic's
   bytes, each an int32_t, the acrostic in a field of its own, then the prompt's tokens as the text
   task writes them. */
static bool restate(const lx_plan *plan, lx_buffer *out)
{
    const poem *p = plan->data;
    if (p->form != NULL) {
        int32_t number = (int32_t)(p->form - forms) + (p->rhymes ? RHYMING : 0);
        int32_t head[2] = {number, (int32_t)p->acrostic_bytes};
        lx_buffer_append(out, head, sizeof head);
        lx_buffer_append(out, p->acrostic, sizeof p->acrostic);
    }
    (void)lx_text_restate(plan, out);
    return p->form != NULL;
}

static lx_status replan(lx_plan *plan, const void *bytes, size_t n, bool flag, bool ignore_end,
                        lx_error *err)
{
    int32_t head[2] = {0};
    const size_t acrostic = sizeof((poem *)0)->acrostic;
    const size_t before = flag ? sizeof head + acrostic : 0;
    lx_poem_request own = {0};
    lx_task_request request;
    if (n < before)
        return lx_fail(err, LX_ERR_INVALID, "state", "its request is cut off");
    lx_status st = lx_text_reread((const char *)bytes + before, n - before, false, &request, err);
    if (st == LX_OK && flag) {
        memcpy(head, bytes, sizeof head);
        own.rhyme = head[0] >= RHYMING;
        head[0] -= own.rhyme ? RHYMING : 0;
        if (head[0] < 0 || head[0] >= N_FORMS || head[1] < 0 || (size_t)head[1] > acrostic)
            return lx_fail(err, LX_ERR_INVALID, "state", "its form is unknown");
        own.form = forms[head[0]].name;
        own.acrostic = head[1] > 0 ? (const char *)bytes + sizeof head : NULL;
        own.acrostic_bytes = (size_t)head[1];
    }
    request.ignore_end = ignore_end;
    return st == LX_OK ? plan_exactly(plan, &request, &own, err) : st;
}

/* Writes the characters of a sample to text[most] and returns how many; later ones are left out. A
   token may be a part of a character, so the bytes of all tokens are read together, without those
   that are no UTF-8. */
static int32_t spell_out(const lx_model *model, const lx_pool_sample *sample, uint32_t *text,
                         int32_t most)
{
    char spelt[MAX_CHARACTER * JUDGED];
    size_t n_bytes = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < sample->n_tokens; i++) {
        size_t bytes = 0;
        const char *token = lx_tokenizer_token(model->tokenizer, sample->tokens[i], &bytes);
        if (token == NULL || bytes > sizeof spelt - n_bytes)
            break;
        memcpy(spelt + n_bytes, token, bytes);
        n_bytes += bytes;
    }
    for (size_t at = 0; at < n_bytes && n < most;) {
        int32_t c = lx_utf8_next(spelt, n_bytes, &at);
        if (c >= 0)
            text[n++] = (uint32_t)c;
        else
            at++;
    }
    return n;
}

static void choose(const lx_plan *plan, lx_pool_sample *samples, int32_t n, int32_t k,
                   int32_t *chosen)
{
    for (int32_t i = 0; i < n; i++) {
        uint32_t text[JUDGED];
        int32_t n_chars = spell_out(plan->model, &samples[i], text, JUDGED);
        samples[i].score += lx_judge_poem(text, n_chars);
    }
    lx_choose_diverse(samples, n, k, chosen);
}

static const lx_task_pool pool = {
    .n_samples = 16, .temperatures = {2, {0.7f, 0.8f}}, .choose = choose};

const lx_task_ops lx_poem_task = {
    .name = "poem",
    .modality = LX_TEXT,
    .normalizes = true,
    .read_config = lx_text_read_config,
    .load = load,
    .unload = unload,
    .card = card,
    .check_model = check_model,
    .max_rows = lx_text_max_rows,
    .n_masks = N_MASKS,
    .more_masks = more_masks,
    .fill_mask = fill_mask,
    .plan_init = plan_init,
    .input = lx_text_input,
    .constrain = constrain,
    .ends = lx_text_ends,
    .restate = restate,
    .replan = replan,
    .pool = &pool,
    .score_name = "nats_per_token",
    .score_unit = 1,
    .read_answer = lx_text_read_answer,
    .own_field = own_field,
    .own_models = "poems",
    .render = lx_text_render,
    .spell = lx_text_spell,
    .token_bytes = lx_text_token_bytes,
    .render_prompt = lx_text_render_prompt,
};
