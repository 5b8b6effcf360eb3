/* The kind of a folder, and the parts that all kinds have in common (see folder.h). */
#include "model/formats/hugging_face/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/formats/file.h"
#include "model/formats/hugging_face/reader.h"
#include "model/formats/json_memory.h"
#include "model/tasks/text_config.h"

enum { MAX_FILE_BYTES = 1 << 20 };

static const lx_hf_kind *const kinds[] = {
#define HF_KIND(name) &lx_hf_##name,
#include "model/formats/hugging_face/kinds.def"
#undef HF_KIND
};

/* Keys of training, of other programs, and of ways to compute the same result. */
void lx_hf_ignore_common(lx_hf_reader *r)
{
    lx_hf_ignore(r, "_attn_implementation _attn_implementation_autoset _name_or_path architectures "
                    "auto_map model_name unsloth_fixed unsloth_version "
                    "bos_token_id chunk_size_feed_forward dtype fuse_cross_entropy "
                    "fuse_linear_cross_entropy fuse_norm fuse_swiglu id2label initializer_range "
                    "is_decoder is_encoder_decoder label2id output_attentions "
                    "output_hidden_states pad_token_id problem_type return_dict sep_token_id "
                    "tokenizer_class torch_dtype torchscript transformers_version use_cache "
                    "use_l2warp");
}

/* Whether a file lies next to config.json. */
static bool has_file(const lx_hf_reader *r, const char *name)
{
    char path[4096];
    const char *slash = strrchr(r->path, '/');
    int n = slash != NULL ? (int)(slash - r->path) + 1 : 0;
    int used = snprintf(path, sizeof path, "%.*s%s", n, r->path, name);
    return used > 0 && (size_t)used < sizeof path && access(path, F_OK) == 0;
}

/* A tokenizer's file; none where tokens are bytes. */
static void find_tokenizer(lx_hf_reader *r, const lx_config *config, lx_text_config *c)
{
    static const char *const files[] = {"tokenizer.json", "rwkv_vocab_v20230424.txt"};
    for (size_t i = 0; i < sizeof files / sizeof *files && c->tokenizer[0] == '\0'; i++) {
        if (has_file(r, files[i]))
            (void)snprintf(c->tokenizer, sizeof c->tokenizer, "%s", files[i]);
    }
    if (c->tokenizer[0] == '\0' && config->head_size == 256)
        (void)snprintf(c->tokenizer, sizeof c->tokenizer, "bytes");
    if (c->tokenizer[0] == '\0')
        lx_hf_wrong(r, "vocab_size",
                    "is not 256, bytes: the folder must have a tokenizer.json or a "
                    "rwkv_vocab_v20230424.txt");
}

void lx_hf_read_ends(lx_hf_reader *r, const lx_config *config, lx_text_config *c)
{
    const json_t *value = r->st == LX_OK ? json_object_get(r->root, "eos_token_id") : NULL;
    size_t n = json_is_integer(value) ? 1 : json_array_size(value);
    bool ok = value == NULL || json_is_null(value) || n > 0;
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *id = json_is_integer(value) ? value : json_array_get(value, i);
        json_int_t end = json_integer_value(id);
        int32_t k = 0;
        while (k < c->n_ends && c->ends[k] != end)
            k++;
        ok = json_is_integer(id) && end >= 0 && end < config->head_size && k < LX_MAX_ENDS;
        if (ok && k == c->n_ends)
            c->ends[c->n_ends++] = (int32_t)end;
    }
    if (!ok)
        lx_hf_wrong(r, "eos_token_id", "must be a token or a list of at most 8 of them");
    lx_hf_ignore(r, "eos_token_id");
}

/* A key of our own for the kind of text. Other programs keep and ignore it. */
static void read_task(lx_hf_reader *r, lx_config *c)
{
    const json_t *value = json_object_get(r->root, "linnet_task");
    const char *task = json_string_value(value);
    bool none = value == NULL || json_is_null(value);
    if (!none && (task == NULL || (strcmp(task, "text") != 0 && strcmp(task, "poem") != 0)))
        lx_hf_wrong(r, "linnet_task", "must be \"text\" or \"poem\"");
    (void)snprintf(c->task, sizeof c->task, "%s",
                   task != NULL && strcmp(task, "poem") == 0 ? task : "text");
    lx_hf_ignore(r, "linnet_task");
}

void lx_hf_read_text(lx_hf_reader *r, lx_config *c, int32_t vocab_size, int32_t context)
{
    int32_t n = lx_hf_int(r, "vocab_size", 1, LX_MAX_IDS, vocab_size);
    read_task(r, c);
    c->inputs[0] = (lx_input){.name = "token", .size = n};
    c->n_inputs = 1;
    c->head_kind = LX_HEAD_CATEGORICAL;
    c->head_size = c->n_values = n;
    c->plain_head = true;
    lx_text_config *text = lx_text_own(c);
    text->begin = -1; /* the tokenizer's file says it */
    text->context = lx_hf_int(r, "max_position_embeddings", 2, INT32_MAX, context);
    text->context = text->context < LX_MAX_CONTEXT ? text->context : LX_MAX_CONTEXT;
    lx_hf_read_ends(r, c, text);
    find_tokenizer(r, c, text);
}

/* The kind of a model_type, of which *known is the lasting copy. */
static const lx_hf_kind *find_kind(const char *model_type, const char **known)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (size_t k = 0; kinds[i]->model_types[k] != NULL; k++) {
            *known = kinds[i]->model_types[k];
            if (strcmp(*known, model_type) == 0)
                return kinds[i];
        }
    }
    return NULL;
}

/* Names the first types only: with all of them the error would not have room. */
static void refuse_type(lx_hf_reader *r, const char *model_type)
{
    enum { NAMED = 3 };
    char quoted[64], what[240];
    int32_t n = 0;
    while (lx_hf_model_type(n) != NULL)
        n++;
    (void)snprintf(
        what, sizeof what,
        "%s is not supported; supported types: \"%s\", \"%s\", \"%s\" and %d more, which "
        "docs/weights-format.md lists",
        lx_file_quote(model_type, quoted, sizeof quoted), lx_hf_model_type(0), lx_hf_model_type(1),
        lx_hf_model_type(2), n - NAMED);
    lx_hf_wrong(r, "model_type", what);
}

static void read_config(lx_hf_reader *r, lx_config *out)
{
    const char *type = json_string_value(json_object_get(r->root, "model_type"));
    const char *family = NULL;
    const lx_hf_kind *kind = type != NULL ? find_kind(type, &family) : NULL;
    if (kind == NULL) {
        refuse_type(r, type != NULL ? type : "a value that is no text");
        return;
    }
    kind->read(r, out);
    out->family = family;
    lx_hf_ignore(r, "model_type");
    lx_hf_ignore_common(r);
    lx_hf_refuse_rest(r);
}

/* Python writes numbers without a bound as JSON has no word for: they become the largest that it
   has, which takes as many letters. */
static void name_infinities(char *text)
{
    static const char infinity[] = "Infinity", largest[] = "1.0e+308";
    bool in_text = false;
    for (char *p = text; *p != '\0'; p++) {
        if (*p == '"')
            in_text = !in_text;
        else if (in_text && *p == '\\' && p[1] != '\0')
            p++;
        else if (!in_text && strncmp(p, infinity, sizeof infinity - 1) == 0)
            memcpy(p, largest, sizeof largest - 1);
    }
}

/* The root of a file that is one of these; NULL for another, which is LX_OK. */
static lx_status load_root(const char *path, json_t **root, lx_error *err)
{
    char *text = NULL;
    size_t n = 0;
    json_error_t e;
    *root = NULL;
    lx_status st = lx_file_read(path, MAX_FILE_BYTES, &text, &n, err);
    if (st != LX_OK)
        return st;
    name_infinities(text);
    json_t *all = lx_json_load_file(text, n, JSON_REJECT_DUPLICATES, &e);
    free(text);
    if (all == NULL && e.text[0] == '\0') /* as for every other fault it has one */
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", lx_file_label(path));
    if (json_object_get(all, "model_type") != NULL && json_object_get(all, "format") == NULL)
        *root = all;
    else
        json_decref(all);
    return LX_OK;
}

/* *is_theirs and the reader's status say what came of it. */
static lx_status read_file(lx_hf_reader *r, lx_config *out, bool *is_theirs)
{
    *is_theirs = false;
    lx_config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", lx_file_label(r->path));
    lx_status st = load_root(r->path, &r->root, r->err);
    if (r->root != NULL) {
        *is_theirs = true;
        read_config(r, config);
        st = r->st;
    }
    if (st == LX_OK && *is_theirs && out != NULL)
        *out = *config;
    json_decref(r->root);
    free(config);
    return st;
}

lx_status lx_hf_config_load(const char *path, lx_config *out, bool *is_theirs, lx_error *err)
{
    lx_hf_reader r = {.path = path, .err = err};
    return read_file(&r, out, is_theirs);
}

lx_status lx_hf_config_faults(const char *path, lx_config_report *report, void *context,
                              lx_error *err)
{
    bool is_theirs = false;
    lx_hf_reader r = {.path = path, .report = report, .context = context, .err = err};
    return read_file(&r, NULL, &is_theirs);
}

const char *lx_hf_model_type(int32_t i)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (const char *const *type = kinds[k]->model_types; *type != NULL; type++) {
            if (i-- == 0)
                return *type;
        }
    }
    return NULL;
}
