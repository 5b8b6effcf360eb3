/*
 * Loading a model folder: read the three files, then check that they agree. The order is from small
 * to large, so that a folder that does not fit is refused before its weights are read.
 *
 * The tensors a config asks for are enumerated by one function (expect_all), so that the names and
 * shapes of docs/weights-format.md stand in one place; the file must hold exactly these.
 */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/chat.h"
#include "model/formats/file.h"
#include "model/formats/hugging_face/chat.h"
#include "model/formats/hugging_face/folder.h"
#include "model/formats/hugging_face/names.h"
#include "model/formats/shards.h"
#include "model/jinja/jinja.h"
#include "model/model_internal.h"
#include "model/rhymes.h"
#include "model/tasks/task.h"
#include "model/tokenizers/tokenizer.h"

enum { MAX_PATH = 4096 };

typedef struct tensor_check {
    const lx_model *model;
    const char *path;
    bool *expected; /* by the tensor's place in the file */
    lx_status status;
    lx_error *err;
} tensor_check;

/* One expected tensor; rows = 0 for a vector of `cols` elements. The first fault is kept. */
static void expect(tensor_check *c, const char *prefix, const char *suffix, int64_t rows,
                   int64_t cols)
{
    char own[128], name[LX_HF_NAME];
    if (c->status != LX_OK)
        return;
    (void)snprintf(own, sizeof own, "%s%s", prefix, suffix);
    lx_hf_tensor_name(&c->model->config, own, name);
    const lx_tensor *t = lx_safetensors_find(c->model->weights, name);
    if (t == NULL) {
        c->status = lx_fail(c->err, LX_ERR_FORMAT, NULL, "%s: tensor %s is missing",
                            lx_file_label(c->path), name);
        return;
    }
    c->expected[t->idx] = true;
    int64_t found_rows = t->n_dims > 1 ? t->t.rows : 0;
    if (found_rows != rows || t->t.cols != cols || t->n_dims > 2) {
        c->status = lx_fail(c->err, LX_ERR_FORMAT, NULL,
                            "%s: tensor %s has shape [%lld, %lld], the config asks for [%lld, %lld]"
                            " (0: a vector)",
                            lx_file_label(c->path), name, (long long)found_rows,
                            (long long)t->t.cols, (long long)rows, (long long)cols);
    }
}

static void expect_norm(tensor_check *c, const char *prefix, int64_t d)
{
    expect(c, prefix, ".weight", 0, d);
    if (!c->model->config.rms_norm)
        expect(c, prefix, ".bias", 0, d);
}

static void expect_linear(tensor_check *c, const char *prefix, int64_t outputs, int64_t inputs)
{
    expect(c, prefix, ".weight", outputs, inputs);
    expect(c, prefix, ".bias", 0, outputs);
}

static void expect_parameters(tensor_check *c, const char *prefix, const lx_mixer_tensor *t)
{
    switch (t->role) {
    case LX_TENSOR_PRODUCT:
        expect_linear(c, prefix, lx_mixer_file_rows(t), lx_mixer_file_cols(t));
        return;
    case LX_TENSOR_MAP:
        expect(c, prefix, ".weight", lx_mixer_file_rows(t), lx_mixer_file_cols(t));
        return;
    case LX_TENSOR_ARRAY:
        expect(c, prefix, "", t->rows, t->cols);
        return;
    }
}

static void expect_layer(tensor_check *c, int32_t index)
{
    const lx_layer *layer = &c->model->layers[index];
    char prefix[64];
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const lx_mixer_parts *parts = &layer->branches[b].parts;
        (void)snprintf(prefix, sizeof prefix, "layers.%d.norm%d", index, b + 1);
        expect_norm(c, prefix, c->model->config.d_model);
        for (int32_t i = 0; i < parts->n_tensors; i++) {
            (void)snprintf(prefix, sizeof prefix, "layers.%d.%s", index, parts->tensors[i].name);
            expect_parameters(c, prefix, &parts->tensors[i]);
        }
    }
}

static void expect_all(tensor_check *c)
{
    const lx_config *k = &c->model->config;
    for (int32_t i = 0; i < k->n_inputs; i++) {
        char prefix[16 + LX_MAX_NAME];
        (void)snprintf(prefix, sizeof prefix, "embed.%s", k->inputs[i].name);
        expect(c, prefix, ".weight", k->inputs[i].size, k->d_model);
    }
    for (int32_t i = 0; i < k->n_layers; i++)
        expect_layer(c, i);
    if (k->input_norm)
        expect_norm(c, "input_norm", k->d_model);
    if (k->mel.n_bands > 0)
        expect_linear(c, "features", k->d_model, lx_mel_row_floats(&k->mel));
    expect_norm(c, "final_norm", lx_config_output_width(k));
    expect_parameters(
        c, "head",
        &(lx_mixer_tensor){.rows = k->head_size,
                           .cols = lx_config_output_width(k),
                           .role = k->plain_head ? LX_TENSOR_MAP : LX_TENSOR_PRODUCT});
}

/* Whether two tensors of the weights have the same type, shape and values. */
static lx_status compare_values(const lx_safetensors *f, const lx_tensor *a, const lx_tensor *b,
                                bool *same, lx_error *err)
{
    size_t bytes = lx_safetensors_bytes(a);
    *same = a->t.dtype == b->t.dtype && a->t.rows == b->t.rows && a->t.cols == b->t.cols;
    if (!*same)
        return LX_OK;
    char *both = malloc(2 * bytes);
    if (both == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to compare %s", a->name);
    lx_status st = lx_safetensors_read(f, a, both, err);
    if (st == LX_OK)
        st = lx_safetensors_read(f, b, both + bytes, err);
    *same = st == LX_OK && memcmp(both, both + bytes, bytes) == 0;
    free(both);
    return st;
}

/* A head that is tied to the inputs' table, and stored all the same, must say what that says. */
static lx_status check_stored_head(const tensor_check *c, const lx_tensor *head, lx_error *err)
{
    char name[LX_HF_NAME];
    bool same = false;
    lx_hf_tensor_name(&c->model->config, "head.weight", name);
    const lx_tensor *table = lx_safetensors_find(c->model->weights, name);
    lx_status st =
        table != NULL ? compare_values(c->model->weights, head, table, &same, err) : LX_OK;
    if (st != LX_OK || same)
        return st;
    return lx_fail(err, LX_ERR_FORMAT, NULL,
                   "%s: tensor %s is not %s, to which config.json ties it (tie_word_embeddings)",
                   lx_file_label(c->path), head->name, name);
}

/* A tensor that the config does not ask for. */
static lx_status check_other(const tensor_check *c, const lx_tensor *t, lx_error *err)
{
    const char *head = lx_hf_stored_head(&c->model->config);
    if (lx_hf_is_unused(&c->model->config, t->name))
        return LX_OK;
    if (head != NULL && strcmp(t->name, head) == 0)
        return check_stored_head(c, t, err);
    return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: tensor %s is not one that the config asks for",
                   lx_file_label(c->path), t->name);
}

static lx_status check_tensors(lx_model *m, const char *path, lx_error *err)
{
    int32_t n = lx_safetensors_count(m->weights);
    bool *expected = calloc((size_t)n, sizeof *expected);
    if (expected == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
    tensor_check c = {.model = m, .path = path, .expected = expected, .err = err};
    expect_all(&c);
    for (int32_t i = 0; i < n && c.status == LX_OK; i++) {
        const lx_tensor *t = lx_safetensors_at(m->weights, i);
        if (expected[i])
            m->n_parameters += t->t.rows * t->t.cols;
        else
            c.status = check_other(&c, t, err);
    }
    free(expected);
    return c.status;
}

/* The id clients use: the last part of the path, trailing slashes aside. It comes back in JSON, log
   lines and metric labels, so it is kept to characters that are plain in all of them. */
static lx_status set_name(lx_model *m, const char *dir, lx_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    size_t end = strlen(dir);
    while (end > 1 && dir[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && dir[start - 1] != '/')
        start--;
    size_t n = end - start;
    if (n < sizeof m->name)
        memcpy(m->name, dir + start, n);
    if (n == 0 || n >= sizeof m->name || dir[start] == '.' || strspn(m->name, allowed) != n)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "%s: a model folder's name has 1 to %zu letters, digits, '.', '_' and '-', "
                       "and does not begin with '.'",
                       lx_file_label(dir), sizeof m->name - 1);
    m->dir = strndup(dir, end);
    return m->dir != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
}

static lx_status join(char *path, const char *dir, const char *base, const char *file,
                      lx_error *err)
{
    int n = snprintf(path, MAX_PATH, "%s/%s%s%s", dir, base, base[0] != '\0' ? "/" : "", file);
    if (n < 0 || n >= MAX_PATH)
        return lx_fail(err, LX_ERR_INVALID, "model", "the path of %s is too long", file);
    return LX_OK;
}

/* Adds the bytes of a file to the model's hash. */
static lx_status hash_file(lx_model *m, const char *path, lx_error *err)
{
    char *text = NULL;
    size_t n = 0;
    lx_status st = lx_file_read(path, LX_TOKENIZER_MAX_FILE, &text, &n, err);
    if (st == LX_OK)
        m->hash = lx_file_hash(m->hash, text, n);
    free(text);
    return st;
}

/* After a file was hashed and then loaded: that both read the same bytes, or a later reload would
   take the model for one with the new bytes. `before` is the hash without the file. */
static lx_status check_hash(lx_model *m, uint64_t before, const char *path, lx_error *err)
{
    uint64_t hashed = m->hash;
    m->hash = before;
    lx_status st = hash_file(m, path, err);
    return st == LX_OK && m->hash != hashed ? lx_file_fail_changed(lx_file_label(path), err) : st;
}

static lx_status load_config(lx_model *m, lx_error *err)
{
    char path[MAX_PATH];
    bool is_theirs = false;
    uint64_t before = m->hash;
    lx_status st = join(path, m->dir, "", "config.json", err);
    if (st == LX_OK)
        st = hash_file(m, path, err);
    if (st == LX_OK)
        st = lx_hf_config_load(path, &m->config, &is_theirs, err);
    if (st == LX_OK && !is_theirs)
        st = lx_config_load(path, &m->config, err);
    if (st == LX_OK)
        st = check_hash(m, before, path, err);
    if (st != LX_OK || m->config.base[0] == '\0')
        return st;
    st = join(path, m->dir, m->config.base, "config.json", err);
    return st == LX_OK ? hash_file(m, path, err) : st;
}

static lx_status load_weights(lx_model *m, lx_error *err)
{
    char path[MAX_PATH];
    char base[MAX_PATH];
    const char *dir = m->config.base[0] != '\0' ? base : m->dir;
    lx_status st = dir == base ? join(base, m->dir, "", m->config.base, err) : LX_OK;
    if (st == LX_OK)
        st = lx_shards_open(dir, path, sizeof path, &m->weights, err);
    if (st == LX_OK)
        st = check_tensors(m, path, err);
    if (st == LX_OK) {
        uint64_t hash = lx_safetensors_hash(m->weights);
        m->hash = lx_file_hash(m->hash, &hash, sizeof hash);
    }
    return st;
}

static lx_status load_tokenizer(lx_model *m, lx_error *err)
{
    char path[MAX_PATH];
    if (strcmp(m->config.tokenizer, "bytes") == 0)
        return lx_tokenizer_new_bytes(&m->tokenizer, err);
    uint64_t before = m->hash;
    lx_status st = join(path, m->dir, m->config.base, m->config.tokenizer, err);
    if (st == LX_OK)
        st = hash_file(m, path, err);
    if (st == LX_OK)
        st = lx_tokenizer_load_file(path, &m->tokenizer, err);
    return st == LX_OK ? check_hash(m, before, path, err) : st;
}

/* The whole of a file that a folder may lack, into the model's hash, too; *bytes NULL: it is not
   there. The caller frees *bytes. */
static lx_status read_optional(lx_model *m, const char *file, size_t most, char *path, char **bytes,
                               size_t *n, lx_error *err)
{
    lx_error why;
    *bytes = NULL;
    lx_status st = join(path, m->dir, m->config.base, file, err);
    if (st != LX_OK)
        return st;
    st = lx_file_read(path, most, bytes, n, &why);
    if (st == LX_OK)
        m->hash = lx_file_hash(m->hash, *bytes, *n);
    return st == LX_OK || st == LX_ERR_NOT_FOUND ? LX_OK
                                                 : lx_fail(err, st, why.param, "%s", why.text);
}

/* A folder without vocab.txt is fine here: the task says whether it needs one. */
static lx_status load_vocab(lx_model *m, lx_error *err)
{
    char path[MAX_PATH], *bytes = NULL;
    size_t n = 0;
    if (m->config.tokenizer[0] != '\0')
        return load_tokenizer(m, err);
    lx_status st = read_optional(m, "vocab.txt", LX_VOCAB_MAX_FILE, path, &bytes, &n, err);
    if (st != LX_OK || bytes == NULL)
        return st;
    st = lx_vocab_read(bytes, n, lx_file_label(path), &m->vocab, err); /* which keeps the bytes */
    return st == LX_OK ? lx_tokenizer_new_characters(m->vocab, &m->tokenizer, err) : st;
}

static lx_status load_rhymes(lx_model *m, lx_error *err)
{
    char path[MAX_PATH], *bytes = NULL;
    size_t n = 0;
    if (strcmp(m->config.task, "poem") != 0 || m->tokenizer == NULL)
        return LX_OK;
    lx_status st = read_optional(m, "rhymes.txt", LX_MAX_RHYMES_FILE, path, &bytes, &n, err);
    if (st == LX_OK && bytes != NULL)
        st = lx_rhymes_read(bytes, n, lx_file_label(path), m->tokenizer, &m->rhymes, err);
    free(bytes);
    return st;
}

static lx_status check_task(lx_model *m, lx_error *err)
{
    lx_error why = {0};
    m->task = lx_task_find(m->config.task);
    if (m->task == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s/config.json: task \"%s\" is not known",
                       lx_file_label(m->dir), m->config.task);
    lx_status st = lx_model_check_task(m, &why);
    if (st == LX_OK)
        st = m->task->check_model(m, &why);
    if (st != LX_OK)
        return lx_fail(err, st, why.param, "%s: %s", lx_file_label(m->dir), why.text);
    m->max_rows = m->task->max_rows(m);
    m->token_bytes = m->task->token_bytes != NULL ? m->task->token_bytes(m) : 0;
    st = lx_config_check_lengths(&m->config, m->max_rows, &why);
    return st == LX_OK
               ? st
               : lx_fail(err, st, NULL, "%s/config.json: %s", lx_file_label(m->dir), why.text);
}

static void add_end(lx_model *m, int32_t id)
{
    lx_config *c = &m->config;
    for (int32_t i = 0; i < c->n_ends; i++)
        id = c->ends[i] == id ? -1 : id;
    if (id >= 0 && id < c->head_size && c->n_ends < LX_MAX_ENDS)
        c->ends[c->n_ends++] = id;
}

/* A template that cannot be rendered does not end the loading: completions need none. Chats are
   then refused with the reason. */
static lx_status use_template(lx_model *m, const char *text, lx_error *err)
{
    lx_error why = {0};
    m->has_template = true;
    m->hash = lx_file_hash(m->hash, text, strlen(text));
    m->chat = lx_chat_find(text);
    if (m->chat != NULL) { /* the end of a message of its chats ends an answer, too */
        if (m->chat->end != NULL)
            add_end(m, lx_tokenizer_find(m->tokenizer, m->chat->end));
        return LX_OK;
    }
    lx_status st = lx_jinja_parse(text, strlen(text), &m->jinja, &why);
    if (st == LX_OK)
        return st;
    m->no_jinja = strdup(why.text);
    return st == LX_ERR_NO_MEMORY || m->no_jinja == NULL
               ? lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a chat template")
               : LX_OK;
}

/* transformers ends an answer at the tokens of generation_config.json. */
static lx_status add_generation_ends(lx_model *m, lx_error *err)
{
    int32_t ids[LX_MAX_ENDS], n = 0;
    lx_status st = lx_hf_read_generation_ends(m->dir, LX_MAX_ENDS, ids, &n, err);
    for (int32_t i = 0; st == LX_OK && i < n; i++) {
        int32_t known = m->config.n_ends;
        add_end(m, ids[i]);
        if (m->config.n_ends > known) /* else the model is as it was, and so are its states */
            m->hash = lx_file_hash(m->hash, &ids[i], sizeof ids[i]);
    }
    return st;
}

static lx_status load_chat(lx_model *m, lx_error *err)
{
    lx_hf_chat chat;
    if (m->task->ends == NULL)
        return LX_OK;
    lx_status st = lx_hf_read_chat(m->dir, &chat, err);
    if (st != LX_OK)
        return st;
    m->begin_name = chat.begin;
    m->end_name = chat.end;
    chat.begin = chat.end = NULL;
    if (chat.text != NULL)
        st = use_template(m, chat.text, err);
    lx_hf_chat_fini(&chat);
    return st == LX_OK ? add_generation_ends(m, err) : st;
}

lx_status lx_model_load(const char *dir, lx_model **out, lx_error *err)
{
    lx_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
    m->hash = LX_HASH_SEED;
    lx_status (*const parts[])(lx_model *, lx_error *) = {
        load_config, lx_model_set_layers, load_vocab,  load_rhymes,
        check_task,  load_chat,           load_weights};
    lx_status st = set_name(m, dir, err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && st == LX_OK; i++)
        st = parts[i](m, err);
    if (st != LX_OK) {
        lx_model_free(m);
        return st;
    }
    *out = m;
    return LX_OK;
}

lx_status lx_model_faults(const char *dir, lx_hf_report *report, void *context, lx_error *err)
{
    char path[MAX_PATH];
    lx_status st = join(path, dir, "", "config.json", err);
    return st == LX_OK ? lx_hf_config_faults(path, report, context, err) : st;
}

const char *lx_model_type(int32_t i)
{
    return lx_hf_model_type(i);
}

void lx_model_free(lx_model *m)
{
    if (m == NULL)
        return;
    lx_tokenizer_free(m->tokenizer); /* it may borrow the vocabulary */
    lx_vocab_free(m->vocab);
    lx_rhymes_free(m->rhymes);
    lx_jinja_free(m->jinja);
    free(m->no_jinja);
    free(m->begin_name);
    free(m->end_name);
    lx_safetensors_close(m->weights);
    free(m->layers);
    free(m->dir);
    free(m);
}

const lx_tensor *lx_model_tensor(const lx_model *m, const char *name)
{
    char theirs[LX_HF_NAME];
    lx_hf_tensor_name(&m->config, name, theirs);
    return lx_safetensors_find(m->weights, theirs);
}

int32_t lx_model_state_pages(const lx_model *m, int64_t rows)
{
    return m->state.page_floats > 0 ? (int32_t)((rows + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS) : 0;
}

int64_t lx_model_state_floats(const lx_model *m, int64_t rows)
{
    return m->state.fixed_floats + lx_model_state_pages(m, rows) * m->state.page_floats;
}

int32_t lx_model_state_heads(const lx_model *m, int32_t layer)
{
    int32_t n = 0;
    for (int32_t b = 0; b < m->layers[layer].n_branches && n == 0; b++)
        n = m->layers[layer].branches[b].parts.n_heads;
    return n;
}

const lx_state_field *lx_model_state_field_at(const lx_model *m, int32_t layer, int32_t head,
                                              int32_t i, int64_t *offset)
{
    for (int32_t b = 0; b < m->layers[layer].n_branches; b++) {
        const lx_branch *branch = &m->layers[layer].branches[b];
        const lx_mixer_parts *parts = &branch->parts;
        int64_t at = branch->state_offset + head * lx_mixer_head_floats(parts);
        int64_t at_once = branch->state_offset + lx_mixer_heads_floats(parts);
        for (int32_t k = 0; k < parts->n_fields; k++) {
            const lx_state_field *f = &parts->fields[k];
            *offset = f->once ? at_once : at;
            if ((f->once || head < parts->n_heads) && i-- == 0)
                return f;
            *(f->once ? &at_once : &at) += (int64_t)f->rows * f->cols;
        }
    }
    return NULL;
}

const lx_state_field *lx_model_state_field(const lx_model *m, int32_t layer, int32_t head,
                                           const char *name, int64_t *offset)
{
    const lx_state_field *f = NULL;
    for (int32_t i = 0; (f = lx_model_state_field_at(m, layer, head, i, offset)) != NULL; i++) {
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}
