/* Metadata into a config (see reader.h). Every key of the architecture that no reader asked for is
   refused, as it may change results; keys of other beginnings say nothing about the model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/gguf/reader.h"
#include "model/formats/json_memory.h"

enum { MAX_KEY = 256, MAX_CONTEXT = 1 << 18, CONTEXT_KEY_MOST = INT32_MAX };

void lx_gguf_wrong(lx_gguf_reader *r, const char *key, const char *what)
{
    char quoted[MAX_KEY];
    if (r->st == LX_OK)
        r->st = lx_fail(r->err, LX_ERR_FORMAT, NULL, "%s: %s.%s %s", r->f->label, r->arch,
                        lx_file_quote(key, quoted, sizeof quoted), what);
}

/* The value under a key of the architecture, which is marked as used; NULL: there is none. */
static lx_gguf_value *look(lx_gguf_reader *r, const char *key)
{
    char full[MAX_KEY];
    (void)snprintf(full, sizeof full, "%s.%s", r->arch, key);
    lx_gguf_value *v = r->st == LX_OK ? lx_gguf_find(r->f, full) : NULL;
    if (v != NULL)
        v->used = true;
    return v;
}

static bool is_number(const lx_gguf_value *v)
{
    return !v->is_array && v->kind != LX_GGUF_TEXT && v->kind != LX_GGUF_BOOL;
}

double lx_gguf_real(lx_gguf_reader *r, const char *key, double min, double max, double fallback)
{
    char what[96];
    const lx_gguf_value *v = look(r, key);
    double x = v != NULL && is_number(v) ? lx_gguf_number_at(r->f, v, 0) : fallback;
    if (v == NULL && !(fallback >= min && fallback <= max)) {
        lx_gguf_wrong(r, key, "is missing");
    } else if (v != NULL && (!is_number(v) || !(x >= min && x <= max))) {
        (void)snprintf(what, sizeof what, "must be a number from %g to %g", min, max);
        lx_gguf_wrong(r, key, what);
    }
    return r->st == LX_OK ? x : 0;
}

int32_t lx_gguf_int(lx_gguf_reader *r, const char *key, int32_t min, int32_t max, int64_t fallback)
{
    char what[96];
    const lx_gguf_value *v = look(r, key);
    bool whole = v != NULL && is_number(v) && v->kind != LX_GGUF_F32 && v->kind != LX_GGUF_F64;
    double x = whole ? lx_gguf_number_at(r->f, v, 0) : (double)fallback;
    if (v == NULL && fallback == LX_GGUF_NEEDED) {
        lx_gguf_wrong(r, key, "is missing");
    } else if (v != NULL && (!whole || !(x >= min && x <= max))) {
        (void)snprintf(what, sizeof what, "must be a whole number from %d to %d", min, max);
        lx_gguf_wrong(r, key, what);
    }
    return r->st == LX_OK ? (int32_t)x : 0;
}

lx_status lx_gguf_text(const lx_gguf *f, const char *key, char **out, lx_error *err)
{
    const lx_gguf_value *v = lx_gguf_find(f, key);
    size_t n = 0;
    *out = NULL;
    if (v == NULL)
        return LX_OK;
    uint64_t at = v->at;
    const char *text = v->kind == LX_GGUF_TEXT && !v->is_array ? lx_gguf_text_at(f, &at, &n) : NULL;
    if (text == NULL || memchr(text, '\0', n) != NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %s must be a text without a NUL", f->label,
                       key);
    *out = strndup(text, n);
    return *out != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", f->label);
}

lx_status lx_gguf_token(const lx_gguf *f, const char *key, int32_t *out, lx_error *err)
{
    const lx_gguf_value *v = lx_gguf_find(f, key);
    double x = v != NULL && is_number(v) ? lx_gguf_number_at(f, v, 0) : -1;
    *out = -1;
    if (v == NULL)
        return LX_OK;
    if (!(x >= 0 && x < LX_MAX_IDS && x == (double)(int32_t)x))
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %s must be a token's number", f->label, key);
    *out = (int32_t)x;
    return LX_OK;
}

/* --- keys of all architectures --- */

/* The tokens before a text and at the end of an answer. */
static void set_text(lx_gguf_reader *r, json_t *text)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int32_t id = -1;
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof ends / sizeof *ends && r->st == LX_OK; i++) {
        r->st = lx_gguf_token(r->f, ends[i], &id, r->err);
        bool known = false;
        for (size_t k = 0; k < json_array_size(list); k++)
            known |= json_integer_value(json_array_get(list, k)) == id;
        if (r->st == LX_OK && id >= 0 && !known)
            (void)json_array_append_new(list, json_integer(id));
    }
    if (r->st == LX_OK)
        r->st = lx_gguf_token(r->f, "tokenizer.ggml.bos_token_id", &id, r->err);
    if (r->st == LX_OK && id >= 0 && lx_gguf_begins(r->f))
        (void)json_object_set_new(text, "begin", json_integer(id));
    (void)json_object_set_new(text, "end", list);
}

/* The keys that do not depend on the architecture; `root` has the other ones. */
static void set_common(lx_gguf_reader *r, json_t *root)
{
    const lx_gguf_tensor *table = lx_gguf_find_tensor(r->f, "token_embd.weight");
    if (table == NULL && r->st == LX_OK)
        r->st = lx_fail(r->err, LX_ERR_FORMAT, NULL, "%s: tensor token_embd.weight is missing",
                        r->f->label);
    int32_t d_model = lx_gguf_int(r, "embedding_length", 1, LX_MAX_WIDTH, LX_GGUF_NEEDED);
    int32_t n_layers = lx_gguf_int(r, "block_count", 1, LX_MAX_LAYERS, LX_GGUF_NEEDED);
    int32_t context = lx_gguf_int(r, "context_length", 2, CONTEXT_KEY_MOST, MAX_CONTEXT);
    if (r->st != LX_OK || table == NULL)
        return;
    int32_t ids = (int32_t)table->dims[1];
    json_t *common =
        json_pack("{ss si ss si si ss ss s[{ss si}] s{ss si sb} s{ss si}}", "format", "linnet",
                  "format_version", 1, "task", "text", "n_layers", n_layers, "d_model", d_model,
                  "norm", "pre", "activation", "relu", "inputs", "name", "token", "size", ids,
                  "head", "kind", "categorical", "size", ids, "bias", 0, "text", "tokenizer",
                  "gguf", "context", context < MAX_CONTEXT ? context : MAX_CONTEXT);
    set_text(r, json_object_get(common, "text"));
    if (r->st == LX_OK && (common == NULL || json_object_update_missing(root, common) != 0))
        r->st = lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", r->f->label);
    json_decref(common);
}

static bool is_word_of(const char *words, const char *word, size_t n)
{
    for (const char *at = words; *at != '\0'; at += *at == ' ') {
        size_t length = strcspn(at, " ");
        if (length == n && memcmp(at, word, n) == 0)
            return true;
        at += length;
    }
    return false;
}

static void refuse_rest(lx_gguf_reader *r, const lx_gguf_arch *arch)
{
    size_t n = strlen(r->arch);
    for (int32_t i = 0; i < r->f->n_values && r->st == LX_OK; i++) {
        const lx_gguf_value *v = &r->f->values[i];
        const char *key = (const char *)r->f->header + v->key_at;
        char rest[MAX_KEY];
        if (v->used || v->key_bytes <= n || memcmp(key, r->arch, n) != 0 || key[n] != '.')
            continue;
        (void)snprintf(rest, sizeof rest, "%.*s", (int)(v->key_bytes - n - 1), key + n + 1);
        if (!is_word_of(arch->ignored, rest, strlen(rest)))
            lx_gguf_wrong(r, rest, "is not a known key: it may change results");
    }
}

/* A file may be a part of a model, or an addition to one. */
static void check_whole(lx_gguf_reader *r)
{
    char *type = NULL;
    const lx_gguf_value *split = lx_gguf_find(r->f, "split.count");
    r->st = lx_gguf_text(r->f, "general.type", &type, r->err);
    if (r->st == LX_OK && type != NULL && strcmp(type, "model") != 0)
        r->st =
            lx_fail(r->err, LX_ERR_UNSUPPORTED, NULL,
                    "%s: general.type must be \"model\": nothing else is supported", r->f->label);
    if (r->st == LX_OK && split != NULL && is_number(split) &&
        lx_gguf_number_at(r->f, split, 0) > 1)
        r->st = lx_fail(r->err, LX_ERR_UNSUPPORTED, NULL,
                        "%s: it is one of several files (split.count): join them with "
                        "llama-gguf-split --merge",
                        r->f->label);
    free(type);
}

static const lx_gguf_arch *find_arch(lx_gguf_reader *r)
{
    char *name = NULL, known[128] = "", quoted[64];
    r->st = r->st == LX_OK ? lx_gguf_text(r->f, "general.architecture", &name, r->err) : r->st;
    for (int i = 0; r->st == LX_OK && lx_gguf_archs[i] != NULL; i++) {
        size_t n = strlen(known);
        if (name != NULL && strcmp(lx_gguf_archs[i]->name, name) == 0) {
            free(name);
            return lx_gguf_archs[i];
        }
        (void)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "",
                       lx_gguf_archs[i]->name);
    }
    if (r->st == LX_OK && name == NULL)
        r->st = lx_fail(r->err, LX_ERR_FORMAT, NULL, "%s: general.architecture is missing",
                        r->f->label);
    if (r->st == LX_OK)
        r->st = lx_fail(r->err, LX_ERR_UNSUPPORTED, NULL,
                        "%s: general.architecture: %s is not supported; supported: %s", r->f->label,
                        lx_file_quote(name, quoted, sizeof quoted), known);
    free(name);
    return NULL;
}

lx_status lx_gguf_config(lx_gguf *f, lx_config *out, const lx_gguf_arch **arch, lx_error *err)
{
    lx_gguf_reader r = {.f = f, .err = err};
    check_whole(&r);
    const lx_gguf_arch *a = find_arch(&r);
    if (a == NULL)
        return r.st;
    r.arch = a->name;
    (void)lx_json_starved(); /* forgets earlier allocations that failed */
    json_t *root = json_object();
    a->read(&r, root);
    set_common(&r, root);
    refuse_rest(&r, a);
    if (r.st == LX_OK && lx_json_starved())
        r.st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", f->label);
    if (r.st == LX_OK)
        r.st = lx_config_from(root, f->label, out, err);
    json_decref(root);
    if (r.st != LX_OK)
        return r.st;
    out->family = a->name;
    out->names = a->names;
    out->tied_head = lx_gguf_find_tensor(f, "output.weight") == NULL;
    *arch = a;
    return LX_OK;
}
