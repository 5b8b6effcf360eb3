/* Metadata into a config (see reader.h). Every key of the architecture that no reader asked for is
   refused, as it may change results; keys of other beginnings say nothing about the model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/gguf/reader.h"
#include "model/formats/json_memory.h"
#include "model/tasks/text_config.h"

enum { MAX_KEY = 256 };

/* --- keys of all architectures --- */

/* A list of at most LX_MAX_ENDS tokens, each of them once. */
static void add_end(json_t *list, int32_t id)
{
    bool known = id < 0 || json_array_size(list) == LX_MAX_ENDS;
    for (size_t i = 0; i < json_array_size(list); i++)
        known |= json_integer_value(json_array_get(list, i)) == id;
    if (!known)
        (void)json_array_append_new(list, json_integer(id));
}

/* The tokens before a text and at the end of an answer. Many files name the end of a message by no
   key: programs know it by its text. */
static void set_text(lx_gguf_reader *r, json_t *text)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int32_t id = -1, named[LX_MAX_ENDS], n = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof ends / sizeof *ends && r->st == LX_OK; i++) {
        r->st = lx_gguf_token(r->f, ends[i], &id, r->err);
        add_end(list, r->st == LX_OK ? id : -1);
    }
    if (r->st == LX_OK)
        r->st = lx_gguf_named_ends(r->f, named, LX_MAX_ENDS, &n, r->err);
    for (int32_t i = 0; i < n; i++)
        add_end(list, named[i]);
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
    int32_t context = lx_gguf_int(r, "context_length", 2, INT32_MAX, LX_MAX_CONTEXT);
    if (r->st != LX_OK || table == NULL)
        return;
    int32_t ids = (int32_t)table->dims[1];
    json_t *common =
        json_pack("{ss si ss si si ss ss s[{ss si}] s{ss si sb} s{ss si}}", "format", "linnet",
                  "format_version", 1, "task", "text", "n_layers", n_layers, "d_model", d_model,
                  "norm", "pre", "activation", "relu", "inputs", "name", "token", "size", ids,
                  "head", "kind", "categorical", "size", ids, "bias", 0, "text", "tokenizer",
                  "gguf", "context", context < LX_MAX_CONTEXT ? context : LX_MAX_CONTEXT);
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
    if (r->st == LX_OK && split != NULL && lx_gguf_is_number(split) &&
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
