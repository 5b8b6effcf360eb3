/*
 * Loads a model's folder: reads its files, then checks that they agree. The order is from small to
 * large, so that a folder that does not fit is refused before its weights are read.
 *
 * Mixers and model.c declare the tensors that a config asks for; the file must hold exactly these.
 */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/chat.h"
#include "model/formats/file.h"
#include "model/formats/gguf/gguf.h"
#include "model/formats/hugging_face/chat.h"
#include "model/formats/hugging_face/folder.h"
#include "model/formats/hugging_face/names.h"
#include "model/formats/hugging_face/token_settings.h"
#include "model/formats/shards.h"
#include "model/jinja/chat.h"
#include "model/model_files.h"
#include "model/tasks/task.h"
#include "model/tasks/text_config.h"
#include "model/tokenizers/tokenizer.h"

typedef struct tensor_check {
    const lx_model *model;
    const char *path;
    lx_status status;
    lx_error *err;
} tensor_check;

/* One expected tensor with its uses; rows = 0 for a vector of `cols` elements, and planes = 0 for
   one without such, which other tensors may have: planes rows. The first fault is kept. */
static void expect(tensor_check *c, const char *prefix, const char *suffix, int64_t planes,
                   int64_t rows, int64_t cols, unsigned uses)
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
    c->model->tensor_uses[t->idx] |= (uint8_t)uses;
    int64_t found_rows = t->n_dims > 1 ? t->t.rows : 0;
    bool fits = t->n_dims > 2 ? t->n_dims == 3 && t->planes == planes : true;
    rows *= planes > 0 ? planes : 1;
    if (found_rows == rows && t->t.cols == cols && !fits && t->planes > 0 && planes > 0) {
        c->status = lx_fail(c->err, LX_ERR_FORMAT, NULL,
                            "%s: tensor %s has %lld matrices, the config asks for %lld",
                            lx_file_label(c->path), name, (long long)t->planes, (long long)planes);
    } else if (found_rows != rows || t->t.cols != cols || !fits) {
        c->status = lx_fail(c->err, LX_ERR_FORMAT, NULL,
                            "%s: tensor %s has shape [%lld, %lld], the config asks for [%lld, %lld]"
                            " (0: a vector)",
                            lx_file_label(c->path), name, (long long)found_rows,
                            (long long)t->t.cols, (long long)rows, (long long)cols);
    }
}

static void expect_parameters(tensor_check *c, const char *prefix, const lx_mixer_tensor *t)
{
    bool has_bias =
        t->role == LX_TENSOR_PRODUCT || (t->role == LX_TENSOR_NORM && !c->model->config.rms_norm);
    int64_t rows = t->role == LX_TENSOR_NORM ? 0 : lx_mixer_file_rows(t);
    unsigned uses = LX_TENSOR_USED;
    if (t->role == LX_TENSOR_PRODUCT || t->role == LX_TENSOR_MAP)
        uses |= LX_TENSOR_MULTIPLIES;
    if (t->role == LX_TENSOR_TABLE)
        uses |= LX_TENSOR_IS_TABLE;
    if (t->first % LX_BLOCK != 0 || t->cols % LX_BLOCK != 0)
        uses |= LX_TENSOR_CUTS_BLOCKS;
    expect(c, prefix, t->role == LX_TENSOR_ARRAY ? "" : ".weight", 0, rows, lx_mixer_file_cols(t),
           uses);
    if (has_bias)
        expect(c, prefix, ".bias", 0, 0, rows > 0 ? rows : t->cols, LX_TENSOR_USED);
}

static void expect_norms(tensor_check *c, int32_t index, const lx_branch *b)
{
    const lx_mixer_tensor norm = {.cols = c->model->config.d_model, .role = LX_TENSOR_NORM};
    char prefix[64];
    if (b->norm > 0 && b->norms != LX_NORM_AFTER) {
        (void)snprintf(prefix, sizeof prefix, "layers.%d.norm%d", index, b->norm);
        expect_parameters(c, prefix, &norm);
    }
    if (b->norms != LX_NORM_BEFORE) {
        (void)snprintf(prefix, sizeof prefix, "layers.%d.post_norm%d", index, b->norm);
        expect_parameters(c, prefix, &norm);
    }
}

/* Whether the folder has a name of its own for a tensor of a layer. */
static bool has_name(const tensor_check *c, const char *own)
{
    static const char layers[] = "layers.";
    char theirs[LX_HF_NAME];
    lx_hf_tensor_name(&c->model->config, own, theirs);
    const char *rest = strchr(own + sizeof layers - 1, '.');
    return rest != NULL && strstr(theirs, rest) == NULL;
}

/* Whether t must be a part of another tensor, whose name this gives. */
static bool is_part(const tensor_check *c, const lx_mixer_parts *parts, const lx_mixer_tensor *t,
                    char name[LX_MIXER_TENSOR_NAME])
{
    char own[LX_MIXER_TENSOR_NAME];
    lx_mixer_tensor_name(parts, t, 0, own);
    return lx_model_whole(c->model, parts, t, name) != NULL ||
           (t->part_of != NULL && has_name(c, name) && !has_name(c, own));
}

static void expect_tensor(tensor_check *c, const lx_mixer_parts *parts, const lx_mixer_tensor *t)
{
    char name[LX_MIXER_TENSOR_NAME];
    if (is_part(c, parts, t, name)) {
        expect(c, name, "", t->n_experts, t->part_rows, t->cols,
               LX_TENSOR_USED | LX_TENSOR_MULTIPLIES);
        return;
    }
    for (int32_t i = 0; i < lx_mixer_file_tensors(t); i++) {
        lx_mixer_tensor_name(parts, t, i, name);
        expect_parameters(c, name, t);
    }
}

static void expect_layer(tensor_check *c, int32_t index)
{
    const lx_layer *layer = &c->model->layers[index];
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const lx_mixer_parts *parts = &layer->branches[b].parts;
        expect_norms(c, index, &layer->branches[b]);
        for (int32_t i = 0; i < parts->n_tensors; i++)
            expect_tensor(c, parts, &parts->tensors[i]);
    }
}

static void expect_all(tensor_check *c)
{
    for (int32_t i = 0; i < c->model->n_frame; i++)
        expect_parameters(c, c->model->frame[i].name, &c->model->frame[i].tensor);
    for (int32_t i = 0; i < c->model->config.n_layers; i++)
        expect_layer(c, i);
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

/* A head that is tied to the inputs' table may be stored nevertheless; then it must equal that
 * table. */
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

static lx_status check_names(lx_model *m, const char *path, lx_error *err)
{
    int32_t n = lx_safetensors_count(m->weights);
    free(m->tensor_uses);
    m->n_parameters = 0;
    m->tensor_uses = calloc((size_t)n, sizeof *m->tensor_uses);
    if (m->tensor_uses == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
    tensor_check c = {.model = m, .path = path, .err = err};
    expect_all(&c);
    for (int32_t i = 0; i < n && c.status == LX_OK; i++) {
        const lx_tensor *t = lx_safetensors_at(m->weights, i);
        if (m->tensor_uses[i] != 0)
            m->n_parameters += t->t.rows * t->t.cols;
        else
            c.status = check_other(&c, t, err);
    }
    return c.status;
}

static int32_t count_used(const lx_model *m)
{
    int32_t used = 0;
    for (int32_t i = 0; i < lx_safetensors_count(m->weights); i++)
        used += m->tensor_uses[i] != 0;
    return used;
}

/* Names of a library that saved the folder again count where the usual ones do not fit. Of two
   faults the one counts that is found after more tensors. */
static lx_status check_tensors(lx_model *m, const char *path, lx_error *err)
{
    const struct lx_tensor_names *usual = m->config.names;
    lx_error second = {0};
    lx_status st = check_names(m, path, err);
    if (st != LX_ERR_FORMAT || usual == NULL || usual->other == NULL)
        return st;
    int32_t used = count_used(m);
    m->config.names = usual->other;
    lx_status second_st = check_names(m, path, &second);
    if (second_st != LX_ERR_FORMAT || count_used(m) <= used)
        return second_st == LX_ERR_FORMAT ? st : second_st;
    if (err != NULL)
        *err = second;
    return st;
}

/* The id clients use: the last part of the path, trailing slashes aside. It comes back in JSON, log
   lines and metric labels, so it is kept to characters that are plain in all of them. */
static lx_status set_name(lx_model *m, const char *dir, lx_error *err)
{
    size_t end = 0;
    lx_status st = lx_model_name(dir, m->name, &end, err);
    if (st != LX_OK)
        return st;
    m->dir = strndup(dir, end);
    return m->dir != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
}

static lx_status load_gguf(lx_model *m, lx_error *err)
{
    lx_status st = lx_gguf_open(m->dir, &m->gguf, err);
    if (st != LX_OK)
        return st;
    uint64_t hash = lx_gguf_hash(m->gguf);
    m->hash = lx_file_hash(m->hash, &hash, sizeof hash);
    return lx_gguf_config(m->gguf, &m->config, &m->arch, err);
}

static lx_status load_config(lx_model *m, lx_error *err)
{
    if (lx_gguf_is_file(m->dir))
        return load_gguf(m, err);
    char path[LX_MODEL_PATH];
    bool is_theirs = false;
    uint64_t before = m->hash;
    lx_status st = lx_model_path(path, m->dir, "", "config.json", err);
    if (st == LX_OK)
        st = lx_model_hash_file(m, path, err);
    if (st == LX_OK)
        st = lx_hf_config_load(path, &m->config, &is_theirs, err);
    if (st == LX_OK && !is_theirs)
        st = lx_config_load(path, &m->config, err);
    if (st == LX_OK)
        st = lx_model_check_hash(m, before, path, err);
    if (st != LX_OK || m->config.base[0] == '\0')
        return st;
    st = lx_model_path(path, m->dir, m->config.base, "config.json", err);
    return st == LX_OK ? lx_model_hash_file(m, path, err) : st;
}

/* A folder with a base may have a model.safetensors with the tensors that its config adds: it joins
   the base's weights. `path` names that file afterwards. */
static lx_status add_own_weights(lx_model *m, char *path, lx_error *err)
{
    char own[LX_MODEL_PATH];
    lx_safetensors *files[] = {m->weights, NULL};
    lx_status st = lx_model_path(own, m->dir, "", "model.safetensors", err);
    if (st != LX_OK || access(own, F_OK) != 0)
        return st;
    memcpy(path, own, sizeof own);
    st = lx_safetensors_open(path, &files[1], err);
    for (int32_t i = 0; st == LX_OK && i < lx_safetensors_count(files[1]); i++) {
        const char *name = lx_safetensors_at(files[1], i)->name;
        if (lx_safetensors_find(m->weights, name) != NULL)
            st = lx_fail(err, LX_ERR_FORMAT, NULL, "%s: the base has a tensor %s, too",
                         lx_file_label(path), name);
    }
    if (st == LX_OK)
        st = lx_safetensors_join(files, 2, &m->weights, err);
    if (st != LX_OK)
        lx_safetensors_close(files[1]);
    return st;
}

/* A tied head that the folder stores in blocks counts as a head of its own: `linnet convert` rounds
   only the head, not the table of the inputs. */
static void untie_head(lx_model *m)
{
    const char *name = lx_hf_stored_head(&m->config);
    const lx_tensor *head = name != NULL ? lx_safetensors_find(m->weights, name) : NULL;
    if (head != NULL && lx_format_of(head->t.dtype)->block > 1)
        m->config.tied_head = false;
}

static lx_status load_weights(lx_model *m, lx_error *err)
{
    char path[LX_MODEL_PATH];
    char base[LX_MODEL_PATH];
    const char *dir = m->config.base[0] != '\0' ? base : m->dir;
    lx_status st = dir == base ? lx_model_path(base, m->dir, "", m->config.base, err) : LX_OK;
    if (st == LX_OK && m->gguf != NULL) {
        (void)snprintf(path, sizeof path, "%s", m->dir);
        st = lx_gguf_weights(m->gguf, m->arch, &m->config, &m->weights, err);
        m->gguf = st == LX_OK ? NULL : m->gguf;
    } else if (st == LX_OK)
        st = lx_shards_open(dir, path, sizeof path, &m->weights, err);
    if (st == LX_OK && dir == base)
        st = add_own_weights(m, path, err);
    if (st == LX_OK) {
        untie_head(m);
        st = check_tensors(m, path, err);
    }
    if (st == LX_OK) {
        uint64_t hash = lx_safetensors_hash(m->weights);
        m->hash = lx_file_hash(m->hash, &hash, sizeof hash);
    }
    return st;
}

static lx_status load_task(lx_model *m, lx_error *err)
{
    m->task = lx_task_find(m->config.task);
    if (m->task == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s/config.json: task \"%s\" is not known",
                       lx_file_label(m->dir), m->config.task);
    return m->task->load(m, err);
}

static lx_status check_direction(const lx_model *m, lx_error *err)
{
    bool hears = m->task->modality == LX_SPEECH;
    if (hears != (m->config.head_kind == LX_HEAD_CTC))
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       hears ? "config.json: head: task %s wants kind ctc"
                             : "config.json: head: kind ctc is for task speech, not for %s",
                       m->task->name);
    if (hears == m->sees_all)
        return LX_OK;
    return lx_fail(err, LX_ERR_FORMAT, NULL,
                   hears
                       ? "config.json: task %s wants attention that looks both ways, and %s looks "
                         "forward"
                       : "config.json: task %s wants attention that looks forward, and %s looks "
                         "both ways",
                   m->task->name, lx_config_mixer(&m->config, 0)->mixer->name);
}

static lx_status check_task(lx_model *m, lx_error *err)
{
    lx_error why = {0};
    lx_status st = check_direction(m, &why);
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
    lx_text_config *c = lx_text_own(&m->config);
    for (int32_t i = 0; i < c->n_ends; i++)
        id = c->ends[i] == id ? -1 : id;
    if (id >= 0 && id < m->config.head_size && c->n_ends < LX_MAX_ENDS)
        c->ends[c->n_ends++] = id;
}

/* A template that cannot be rendered does not end the loading: completions need none. Chats are
   then refused with the reason. */
static lx_status refuse_chats(lx_model *m, const char *why, lx_error *err)
{
    if (m->no_jinja == NULL)
        m->no_jinja = strdup(why);
    return m->no_jinja != NULL
               ? LX_OK
               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a chat template");
}

static lx_status parse_template(lx_model *m, const char *text, struct lx_jinja **out, lx_error *err)
{
    lx_error why = {0};
    lx_status st = lx_jinja_parse(text, strlen(text), out, &why);
    if (st == LX_OK)
        st = lx_chat_find_marks(*out, text, m->begin_name, m->end_name, m->tokenizer, &m->marks,
                                &why);
    if (st == LX_ERR_NO_MEMORY)
        return lx_fail(err, st, NULL, "%s", why.text);
    if (st == LX_OK)
        return st;
    lx_jinja_free(*out);
    *out = NULL;
    return refuse_chats(m, why.text, err);
}

static lx_status use_template(lx_model *m, const char *text, lx_error *err)
{
    m->chat = lx_chat_find(text);
    if (m->chat == NULL)
        return parse_template(m, text, &m->jinja, err);
    if (m->chat->end != NULL) /* the end of a message of its chats ends an answer, too */
        add_end(m, lx_tokenizer_find(m->tokenizer, m->chat->end));
    return LX_OK;
}

static lx_status use_templates(lx_model *m, const lx_hf_chat *chat, lx_error *err)
{
    const char *const texts[] = {chat->text, chat->tool_text};
    m->has_template = chat->text != NULL || chat->named;
    m->has_tool_template = chat->tool_text != NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i] == NULL)
            continue;
        m->hash = lx_file_hash(m->hash, texts[i], strlen(texts[i]));
        m->thinks |= strstr(texts[i], "<think>") != NULL || strstr(texts[i], "</think>") != NULL;
    }
    lx_status st = chat->text != NULL ? use_template(m, chat->text, err) : LX_OK;
    if (st == LX_OK && chat->tool_text != NULL)
        st = parse_template(m, chat->tool_text, &m->tool_jinja, err);
    if (st == LX_OK && chat->named && chat->text == NULL)
        st = refuse_chats(m, "none of its templates has the name default", err);
    return st;
}

/* transformers ends an answer at the tokens of generation_config.json. */
static lx_status read_generation(lx_model *m, lx_error *err)
{
    lx_hf_generation g;
    if (m->gguf != NULL)
        return lx_gguf_sampling(m->gguf, &lx_text_own(&m->config)->sampling, err);
    lx_status st = lx_hf_read_generation(m->dir, &g, err);
    lx_text_own(&m->config)->sampling = g.sampling;
    for (int32_t i = 0; st == LX_OK && i < g.n_ends; i++) {
        int32_t known = lx_text_of(&m->config)->n_ends;
        add_end(m, g.ends[i]);
        if (lx_text_of(&m->config)->n_ends >
            known) /* else the model is as it was, and so are its states */
            m->hash = lx_file_hash(m->hash, &g.ends[i], sizeof g.ends[i]);
    }
    return st;
}

/* The special token of that name, or -1. */
static int32_t find_special(const lx_model *m, const char *name)
{
    int32_t id = name[0] != '\0' ? lx_tokenizer_find(m->tokenizer, name) : -1;
    return id >= 0 && lx_tokenizer_is_special(m->tokenizer, id) ? id : -1;
}

/* How the model calls tools, by the template that describes tools to it. */
static void find_calls(lx_model *m, const lx_hf_chat *chat)
{
    const char *text = m->has_tool_template ? chat->tool_text : chat->text;
    const struct lx_jinja *t = m->has_tool_template ? m->tool_jinja : m->jinja;
    bool pythonic = find_special(m, "<|tool_call_start|>") >= 0;
    if (text != NULL && t != NULL && lx_jinja_has_word(t, "tools"))
        m->calls = lx_call_format_find(text, pythonic);
    m->mark_ids[LX_MARK_CALL] = m->calls != NULL ? find_special(m, m->calls->mark) : -1;
    m->mark_ids[LX_MARK_CALL_END] = m->calls != NULL ? find_special(m, m->calls->end_mark) : -1;
    m->mark_ids[LX_MARK_THINK] = find_special(m, "<think>");
    m->mark_ids[LX_MARK_THINK_END] = find_special(m, "</think>");
}

static lx_status load_chat(lx_model *m, lx_error *err)
{
    lx_hf_chat chat;
    for (int i = 0; i < LX_CALL_MARKS; i++)
        m->mark_ids[i] = -1;
    if (m->task->ends == NULL)
        return LX_OK;
    lx_status st =
        m->gguf != NULL ? lx_gguf_chat(m->gguf, &chat, err) : lx_hf_read_chat(m->dir, &chat, err);
    if (st != LX_OK)
        return st;
    m->begin_name = chat.begin;
    m->end_name = chat.end;
    chat.begin = chat.end = NULL;
    st = use_templates(m, &chat, err);
    if (st == LX_OK)
        find_calls(m, &chat);
    if (st == LX_OK && strcmp(lx_text_of(&m->config)->tokenizer, "tokenizer.json") == 0)
        st = lx_hf_check_tokens(m->dir, m->tokenizer, m->token_note, sizeof m->token_note, err);
    lx_hf_chat_fini(&chat);
    return st == LX_OK ? read_generation(m, err) : st;
}

lx_status lx_model_load(const char *dir, lx_model **out, lx_error *err)
{
    lx_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
    m->hash = LX_HASH_SEED;
    lx_status (*const parts[])(lx_model *, lx_error *) = {
        load_config, lx_model_set_layers, load_task, check_task, load_chat, load_weights};
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

/* Into m->tokenizer: the one that config.json names. A folder whose config.json is missing, or of
   another program and not supported, has the one with a usual name. */
static lx_status load_tokenizer(lx_model *m, lx_error *err)
{
    char path[LX_MODEL_PATH];
    bool is_theirs = false;
    lx_status st = lx_model_path(path, m->dir, "", "config.json", err);
    if (st != LX_OK)
        return st;
    if (lx_hf_config_load(path, &m->config, &is_theirs, NULL) != LX_OK)
        return lx_tokenizer_load(m->dir, &m->tokenizer, err);
    st = is_theirs ? LX_OK : lx_config_load(path, &m->config, err);
    m->task = st == LX_OK ? lx_task_find(m->config.task) : NULL;
    if (st != LX_OK)
        return st;
    if (m->task != NULL && m->task->ends != NULL)
        return lx_model_read_tokenizer(m, lx_text_of(&m->config)->tokenizer, err);
    st = lx_model_path(path, m->dir, "", m->config.base, err);
    return st == LX_OK ? lx_tokenizer_load(path, &m->tokenizer, err) : st;
}

lx_status lx_model_load_tokenizer(const char *dir, lx_tokenizer **out, lx_error *err)
{
    lx_model *m = calloc(1, sizeof *m);
    lx_status st = LX_OK;
    if (m == NULL || (m->dir = strdup(dir)) == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a tokenizer");
    if (st == LX_OK && lx_gguf_is_file(dir))
        st = lx_gguf_open(dir, &m->gguf, err);
    if (st == LX_OK)
        st = m->gguf != NULL ? lx_gguf_tokenizer(m->gguf, &m->tokenizer, err)
                             : load_tokenizer(m, err);
    if (st == LX_OK) {
        *out = m->tokenizer;
        m->tokenizer = NULL;
    }
    lx_model_free(m);
    return st;
}

bool lx_model_is_file(const char *path)
{
    return lx_gguf_is_file(path);
}

lx_status lx_model_faults(const char *dir, lx_config_report *report, void *context, lx_error *err)
{
    char path[LX_MODEL_PATH];
    if (lx_gguf_is_file(dir))
        return LX_OK;
    lx_status st = lx_model_path(path, dir, "", "config.json", err);
    return st == LX_OK ? lx_hf_config_faults(path, report, context, err) : st;
}

const char *lx_model_arch(int32_t i)
{
    return lx_gguf_arch_name(i);
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
    lx_jinja_free(m->jinja);
    lx_jinja_free(m->tool_jinja);
    free(m->no_jinja);
    free(m->begin_name);
    free(m->end_name);
    if (m->task != NULL && m->task->unload != NULL)
        m->task->unload(m);
    lx_safetensors_close(m->weights);
    lx_gguf_close(m->gguf);
    free(m->tensor_uses);
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

const lx_tensor *lx_model_whole(const lx_model *m, const lx_mixer_parts *parts,
                                const lx_mixer_tensor *t, char name[LX_MIXER_TENSOR_NAME])
{
    if (t->part_of == NULL)
        return NULL;
    (void)snprintf(name, LX_MIXER_TENSOR_NAME, "layers.%d.%s%s", parts->layer, parts->prefix,
                   t->part_of);
    return lx_model_tensor(m, name);
}
