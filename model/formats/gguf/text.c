/*
 * Tokenizer, chat template and sampling of a GGUF file (see gguf.h). A tokenizer of BPE becomes the
 * object of a tokenizer.json, which its reader then checks. The file has only a name for the rules
 * before BPE: tokenizer.ggml.pre. A name that is not in the table is refused, because text would
 * become other tokens than in training.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/gguf/reader.h"
#include "model/formats/json_memory.h"
#include "model/tokenizers/tokenizer.h"

/* tokenizer.ggml.token_type */
enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4 };

/* The rules of a name, as the tokenizer.json has them from which the converter knows the name. */
typedef struct rules {
    const char *name;
    const char *pattern; /* text is split by it; NULL: by GPT-2's */
    bool nfc;            /* text is normalized first */
    bool single_digits;  /* each digit is a word */
    bool ignore_merges;  /* a word that is a token is that token */
    bool begins;         /* a prompt begins with bos_token_id, unless the file says otherwise */
} rules;

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS(MARKS) "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}" MARKS "]+"
#define OTHERS(MARKS) " ?[^\\s\\p{L}" MARKS "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PATTERN(MARKS, DIGITS) CONTRACTIONS "|" LETTERS(MARKS) "|" DIGITS "|" OTHERS(MARKS)

static const rules table[] = {
    {"qwen35", PATTERN("\\p{M}", "\\p{N}"), .nfc = true},
    {"qwen2", PATTERN("", "\\p{N}"), .nfc = true},
    {"llama-bpe", PATTERN("", "\\p{N}{1,3}"), .ignore_merges = true, .begins = true},
    {"lfm2", PATTERN("", "\\p{N}{1,3}"), .ignore_merges = true, .begins = true},
    {"gpt-2", NULL, .nfc = false},
    {"mpt", NULL, .nfc = true}, /* GPT-NeoX */
    {"olmo", NULL, .nfc = true},
    {"smollm", NULL, .single_digits = true},
};

/* The tokens of the file. */
typedef struct tokens {
    const lx_gguf *f;
    int32_t n;
    const lx_gguf_value *types; /* NULL: all are normal */
    uint64_t *at;               /* [n] places of the texts */
} tokens;

static lx_status wrong(const lx_gguf *f, const char *key, const char *what, lx_error *err)
{
    return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %s %s", f->label, key, what);
}

static lx_status no_memory(const lx_gguf *f, lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for a tokenizer", f->label);
}

static int type_of(const tokens *t, int32_t id)
{
    return t->types != NULL ? (int)lx_gguf_number_at(t->f, t->types, (uint64_t)id) : NORMAL;
}

static const char *text_of(const tokens *t, int32_t id, size_t *n)
{
    uint64_t at = t->at[id];
    return lx_gguf_text_at(t->f, &at, n);
}

static bool is_used(int type)
{
    return type == NORMAL || type == CONTROL || type == USER_DEFINED;
}

/* The tokens, without unused ones at the end. */
static lx_status list_tokens(const lx_gguf *f, tokens *out, lx_error *err)
{
    const lx_gguf_value *texts = lx_gguf_find(f, "tokenizer.ggml.tokens");
    const lx_gguf_value *types = lx_gguf_find(f, "tokenizer.ggml.token_type");
    if (texts == NULL || texts->kind != LX_GGUF_TEXT || !texts->is_array || texts->n < 1 ||
        texts->n > LX_TOKENIZER_MAX_IDS)
        return wrong(f, "tokenizer.ggml.tokens", "must be an array of 1 to 1,048,576 texts", err);
    if (types != NULL && (types->kind != LX_GGUF_I32 || !types->is_array || types->n != texts->n))
        return wrong(f, "tokenizer.ggml.token_type", "must be an array of an i32 per token", err);
    *out = (tokens){.f = f, .n = (int32_t)texts->n, .types = types};
    out->at = malloc(texts->n * sizeof *out->at);
    if (out->at == NULL)
        return no_memory(f, err);
    uint64_t at = texts->at;
    for (int32_t i = 0; i < out->n; i++) {
        size_t n;
        out->at[i] = at;
        (void)lx_gguf_text_at(f, &at, &n);
    }
    while (out->n > 1 && !is_used(type_of(out, out->n - 1)))
        out->n--;
    return LX_OK;
}

/* --- RWKV's vocabulary --- */

static const char *literal_of(const void *context, int32_t id, size_t *n)
{
    const tokens *t = context;
    return type_of(t, id) == NORMAL ? text_of(t, id, n) : NULL;
}

/* --- BPE --- */

static const rules *find_rules(const lx_gguf *f, lx_status *st, lx_error *err)
{
    char *name = NULL, known[96] = "", quoted[64];
    *st = lx_gguf_text(f, "tokenizer.ggml.pre", &name, err);
    for (size_t i = 0; *st == LX_OK && i < sizeof table / sizeof *table; i++) {
        size_t n = strlen(known);
        if (name != NULL && strcmp(table[i].name, name) == 0) {
            free(name);
            return &table[i];
        }
        (void)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", table[i].name);
    }
    if (*st == LX_OK)
        *st = lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                      "%s: tokenizer.ggml.pre: %s is not supported; supported: %s", f->label,
                      name != NULL ? lx_file_quote(name, quoted, sizeof quoted) : "none", known);
    free(name);
    return NULL;
}

static json_t *pre_tokenizer(const rules *r)
{
    json_t *steps = json_array();
    if (r->single_digits)
        (void)json_array_append_new(steps,
                                    json_pack("{ss sb}", "type", "Digits", "individual_digits", 1));
    if (r->pattern != NULL)
        (void)json_array_append_new(steps, json_pack("{ss s{ss} ss sb}", "type", "Split", "pattern",
                                                     "Regex", r->pattern, "behavior", "Isolated",
                                                     "invert", 0));
    (void)json_array_append_new(steps,
                                json_pack("{ss sb sb sb}", "type", "ByteLevel", "add_prefix_space",
                                          0, "trim_offsets", 1, "use_regex", r->pattern == NULL));
    return json_pack("{ss so}", "type", "Sequence", "pretokenizers", steps);
}

/* A text of the file as a JSON string; NULL: the text is not UTF-8 or has a NUL, or there is no
   memory. */
static json_t *json_of(const char *text, size_t n)
{
    return memchr(text, '\0', n) == NULL ? json_stringn(text, n) : NULL;
}

/* The vocabulary, and the tokens that are found before all steps. */
static lx_status add_tokens(const tokens *t, json_t *vocab, json_t *added, lx_error *err)
{
    for (int32_t id = 0; id < t->n; id++) {
        size_t n = 0;
        int type = type_of(t, id);
        const char *text = text_of(t, id, &n);
        json_t *content = is_used(type) ? json_of(text, n) : NULL;
        if (!is_used(type))
            continue;
        const char *key = json_string_value(content);
        bool twice = type == NORMAL && key != NULL && json_object_get(vocab, key) != NULL;
        bool ok = content != NULL && !twice;
        if (ok && type == CONTROL)
            ok = true;
        else if (ok)
            ok = json_object_set_new(vocab, key, json_integer(id)) == 0;
        if (ok && type != NORMAL)
            ok = json_array_append_new(added,
                                       json_pack("{si sO sb sb}", "id", id, "content", content,
                                                 "special", type == CONTROL, "normalized", 0)) == 0;
        json_decref(content);
        if (!ok)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: tokenizer.ggml.tokens: token %d is %s",
                           t->f->label, id, twice ? "there before" : "not UTF-8, or has a NUL");
    }
    return LX_OK;
}

static lx_status add_merges(const lx_gguf *f, json_t *merges, lx_error *err)
{
    const lx_gguf_value *v = lx_gguf_find(f, "tokenizer.ggml.merges");
    if (v == NULL || v->kind != LX_GGUF_TEXT || !v->is_array || v->n > LX_TOKENIZER_MAX_MERGES)
        return wrong(f, "tokenizer.ggml.merges", "must be an array of at most 2,097,152 texts",
                     err);
    uint64_t at = v->at;
    for (uint64_t i = 0; i < v->n; i++) {
        size_t n = 0;
        const char *text = lx_gguf_text_at(f, &at, &n);
        if (json_array_append_new(merges, json_of(text, n)) != 0)
            return wrong(f, "tokenizer.ggml.merges", "has a text that is not UTF-8, or has a NUL",
                         err);
    }
    return LX_OK;
}

static lx_status load_bpe(const tokens *t, lx_tokenizer **out, lx_error *err)
{
    lx_status st = LX_OK;
    const rules *r = find_rules(t->f, &st, err);
    if (r == NULL)
        return st;
    (void)lx_json_starved(); /* forgets earlier allocations that failed */
    json_t *vocab = json_object(), *merges = json_array(), *added = json_array();
    json_t *root =
        json_pack("{ss so so? so s{ss sb sb sb} s{ss sb so so}}", "version", "1.0", "added_tokens",
                  added, "normalizer", r->nfc ? json_pack("{ss}", "type", "NFC") : NULL,
                  "pre_tokenizer", pre_tokenizer(r), "decoder", "type", "ByteLevel",
                  "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE",
                  "ignore_merges", r->ignore_merges, "vocab", vocab, "merges", merges);
    st = root != NULL ? add_tokens(t, vocab, added, err) : no_memory(t->f, err);
    if (st == LX_OK)
        st = add_merges(t->f, merges, err);
    if (lx_json_starved())
        st = no_memory(t->f, err);
    if (st == LX_OK)
        st = lx_tokenizer_from_json(root, t->f->label, out, err);
    json_decref(root);
    return st;
}

lx_status lx_gguf_tokenizer(const lx_gguf *f, lx_tokenizer **out, lx_error *err)
{
    char *model = NULL, quoted[64];
    tokens t = {.f = f};
    lx_status st = lx_gguf_text(f, "tokenizer.ggml.model", &model, err);
    if (st == LX_OK && model == NULL)
        st = wrong(f, "tokenizer.ggml.model", "is missing", err);
    if (st == LX_OK)
        st = list_tokens(f, &t, err);
    if (st == LX_OK && strcmp(model, "gpt2") == 0)
        st = load_bpe(&t, out, err);
    else if (st == LX_OK && strcmp(model, "rwkv") == 0)
        st = lx_tokenizer_from_literals(t.n, literal_of, &t, f->label, out, err);
    else if (st == LX_OK)
        st = lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                     "%s: tokenizer.ggml.model: %s is not supported; supported: gpt2, rwkv",
                     f->label, lx_file_quote(model, quoted, sizeof quoted));
    free(t.at);
    free(model);
    return st;
}

/* --- ends --- */

static bool ends_by_name(const char *text, size_t n)
{
    static const char *const names[] = {"<|im_end|>",      "<|eot_id|>",
                                        "<|eom_id|>",      "<|end|>",
                                        "<end_of_turn>",   "<|endoftext|>",
                                        "<|end_of_text|>", "<EOT>",
                                        "_<EOT>",          "[EOT]",
                                        "[EOS]",           "</s>",
                                        "<eos>",           "<end_of_utterance>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == n && memcmp(names[i], text, n) == 0)
            return true;
    }
    return false;
}

lx_status lx_gguf_named_ends(const lx_gguf *f, int32_t *ids, int32_t max, int32_t *n_ids,
                             lx_error *err)
{
    tokens t = {.f = f};
    lx_error why = {0};
    *n_ids = 0;
    lx_status st = list_tokens(f, &t, &why);
    if (st != LX_OK) /* lx_gguf_tokenizer refuses a bad list */
        return st == LX_ERR_NO_MEMORY ? lx_fail(err, st, NULL, "%s", why.text) : LX_OK;
    for (int32_t id = 0; id < t.n && *n_ids < max; id++) {
        size_t n = 0;
        const char *text = text_of(&t, id, &n);
        int type = type_of(&t, id);
        if ((type == CONTROL || type == USER_DEFINED) && ends_by_name(text, n))
            ids[(*n_ids)++] = id;
    }
    free(t.at);
    return LX_OK;
}

/* --- chats --- */

bool lx_gguf_begins(const lx_gguf *f)
{
    size_t n = 0;
    const lx_gguf_value *said = lx_gguf_find(f, "tokenizer.ggml.add_bos_token");
    const lx_gguf_value *pre = lx_gguf_find(f, "tokenizer.ggml.pre");
    if (said != NULL)
        return said->kind == LX_GGUF_BOOL && lx_gguf_number_at(f, said, 0) == 1;
    if (pre == NULL || pre->kind != LX_GGUF_TEXT || pre->is_array)
        return false;
    uint64_t at = pre->at;
    const char *name = lx_gguf_text_at(f, &at, &n);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return table[i].begins;
    }
    return false;
}

/* The text of the token that a key names. */
static lx_status name_of(const lx_gguf *f, const char *key, char **out, lx_error *err)
{
    int32_t id = -1;
    size_t n = 0;
    const lx_gguf_value *v = lx_gguf_find(f, "tokenizer.ggml.tokens");
    lx_status st = lx_gguf_token(f, key, &id, err);
    if (st != LX_OK || id < 0 || v == NULL || (uint64_t)id >= v->n)
        return st;
    uint64_t at = v->at;
    const char *text = lx_gguf_text_at(f, &at, &n);
    for (int32_t i = 0; i < id; i++)
        text = lx_gguf_text_at(f, &at, &n);
    if (memchr(text, '\0', n) != NULL) /* no template can write it */
        return LX_OK;
    *out = strndup(text, n);
    return *out != NULL ? LX_OK : no_memory(f, err);
}

lx_status lx_gguf_chat(const lx_gguf *f, lx_hf_chat *out, lx_error *err)
{
    *out = (lx_hf_chat){0};
    lx_status st = lx_gguf_text(f, "tokenizer.chat_template", &out->text, err);
    if (st == LX_OK)
        st = lx_gguf_text(f, "tokenizer.chat_template.tool_use", &out->tool_text, err);
    if (st == LX_OK)
        st = name_of(f, "tokenizer.ggml.bos_token_id", &out->begin, err);
    if (st == LX_OK)
        st = name_of(f, "tokenizer.ggml.eos_token_id", &out->end, err);
    if (st == LX_OK && out->text != NULL && strcmp(out->text, "rwkv-world") == 0)
        out->text[4] = '\0'; /* a name that llama.cpp has for the template that is "rwkv" here */
    if (st != LX_OK)
        lx_hf_chat_fini(out);
    return st;
}

lx_status lx_gguf_sampling(const lx_gguf *f, lx_text_sampling *out, lx_error *err)
{
    const struct {
        const char *key;
        double least, most;
        double *to;
    } values[] = {{"sampling.temp", 0, 10, &out->temperature},
                  {"sampling.top_p", 0, 1, &out->top_p},
                  {"sampling.top_k", -1, 1e6, &out->top_k},
                  {"sampling.min_p", 0, 1, &out->min_p},
                  {"sampling.penalty_repeat", 0.01, 10, &out->repetition_penalty}};
    lx_gguf_reader r = {.f = (lx_gguf *)(uintptr_t)f, .arch = "general", .err = err};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "general.%s", values[i].key);
        *values[i].to = (double)NAN;
        if (lx_gguf_find(f, key) != NULL)
            *values[i].to =
                lx_gguf_real(&r, values[i].key, values[i].least, values[i].most, values[i].least);
    }
    return r.st;
}
