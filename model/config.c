/* The keys of config.json and their values (see model/config_reader.h). */
#include "model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_reader.h"
#include "model/ctc.h"
#include "model/formats/file.h"
#include "model/formats/json_memory.h"
#include "model/tasks/task.h"

_Static_assert((int)LX_CONFIG_NAME == (int)LX_MAX_NAME, "names are read into fields of this size");

enum { MAX_FILE_BYTES = 1 << 20, MAX_PATH = 4096, MAX_COMPONENTS = 64, MAX_LEVELS = 1 << 16 };

/* --- the file, with its base --- */

static lx_status parse(const char *label, const char *text, size_t n_bytes, json_t **out,
                       lx_error *err)
{
    json_error_t e;
    char what[JSON_ERROR_TEXT_LENGTH];
    json_t *root = lx_json_load_file(text, n_bytes, JSON_REJECT_DUPLICATES, &e);
    if (root == NULL && e.text[0] == '\0') /* the parser has a text for every other fault */
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", label);
    if (root == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s, line %d: %s", label, e.line,
                       lx_file_quote(e.text, what, sizeof what));
    if (!json_is_object(root)) {
        json_decref(root);
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: not a JSON object", label);
    }
    *out = root;
    return LX_OK;
}

static lx_status read_file(const char *path, json_t **out, lx_error *err)
{
    char *text = NULL;
    size_t n_bytes = 0;
    lx_status st = lx_file_read(path, MAX_FILE_BYTES, &text, &n_bytes, err);
    if (st == LX_OK)
        st = parse(lx_file_label(path), text, n_bytes, out, err);
    free(text);
    return st;
}

/* The base's object with the keys of `own` in place of its keys; of `image` each key by itself. */
static lx_status change(json_t *base, json_t *own, const char *path, lx_error *err)
{
    json_t *image = json_object_get(base, "image"), *changed = json_object_get(own, "image");
    if (json_object_get(base, "base") != NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: base: that folder has a base of its own",
                       lx_file_label(path));
    bool ok = true;
    if (json_is_object(image) && json_is_object(changed)) {
        ok = json_object_update(image, changed) == 0;
        (void)json_object_del(own, "image");
    }
    return ok && json_object_update(base, own) == 0
               ? LX_OK
               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", lx_file_label(path));
}

/* A relative path of plain characters; it may lead upwards. */
static const lx_config_form base_form = {
    .allowed = LX_CONFIG_LETTERS "._-/",
    .size = LX_MAX_BASE,
    .what = "must be the path of a model's folder from this one on: 1 to 127 letters, digits, '.', "
            "'_', '-' and '/'"};

/* *root becomes the whole, where it names a base. */
static lx_status add_base(const char *path, json_t **root, char *out, lx_error *err)
{
    char base_path[MAX_PATH];
    lx_config_reader r = {lx_file_label(path), LX_OK, err};
    if (json_object_get(*root, "base") == NULL)
        return LX_OK;
    lx_config_text(&r, (lx_config_object){*root, ""}, "base", &base_form, out);
    if (r.st == LX_OK && out[0] == '/')
        lx_config_wrong(&r, (lx_config_object){*root, ""}, "base", base_form.what);
    if (r.st != LX_OK)
        return r.st;
    const char *slash = strrchr(path, '/');
    int n = snprintf(base_path, sizeof base_path, "%.*s%s/config.json",
                     slash != NULL ? (int)(slash + 1 - path) : 0, path, out);
    if (n < 0 || n >= (int)sizeof base_path)
        return lx_fail(err, LX_ERR_INVALID, "model", "the path of a base is too long");
    json_t *base = NULL;
    lx_status st = read_file(base_path, &base, err);
    if (st == LX_OK)
        st = change(base, *root, path, err);
    if (st != LX_OK) {
        json_decref(base);
        return st;
    }
    json_decref(*root);
    *root = base;
    return LX_OK;
}

/* --- the parts of the file --- */

static void take_format(lx_config_reader *r, lx_config_object s)
{
    static const char *const formats[] = {"linnet", NULL};
    (void)lx_config_word(r, s, "format", formats);
    (void)lx_config_int(r, s, "format_version", 1, 1);
}

static int32_t take_head_dim(lx_config_reader *r, lx_config_object s, const char *key,
                             const lx_config *c)
{
    if (lx_config_has(r, s, key))
        return lx_config_int(r, s, key, 1, LX_MAX_HEAD_SIZE);
    if (c->n_heads < 1) /* already refused */
        return 0;
    if (r->st == LX_OK && c->d_model % c->n_heads != 0)
        lx_config_wrong(r, s, "d_model",
                        "must be a multiple of n_heads, or d_key and d_value be given");
    if (r->st == LX_OK && c->d_model / c->n_heads > LX_MAX_HEAD_SIZE)
        lx_config_wrong(r, s, "d_model", "gives heads larger than 4096");
    return r->st == LX_OK ? c->d_model / c->n_heads : 0;
}

static void take_sizes(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    c->n_layers = lx_config_int(r, s, "n_layers", 1, LX_MAX_LAYERS);
    c->n_heads = lx_config_int(r, s, "n_heads", 1, LX_MAX_HEADS);
    c->d_model = lx_config_int(r, s, "d_model", 1, LX_MAX_WIDTH);
    c->d_ff = lx_config_int(r, s, "d_ff", 1, LX_MAX_D_FF);
    c->d_key = take_head_dim(r, s, "d_key", c);
    c->d_value = take_head_dim(r, s, "d_value", c);
}

static void take_norm(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    static const char *const wirings[] = {"pre", "post", "reversible", NULL}; /* as in lx_wiring */
    static const char *const kinds[] = {"layer", "rms", "rms_plus_one", NULL};
    static const char *const activations[] = {"relu", "gelu", NULL};
    static const lx_activation activation_of[] = {LX_ACT_RELU, LX_ACT_GELU};
    c->wiring = (lx_wiring)lx_config_word(r, s, "norm", wirings);
    int32_t kind = lx_config_has(r, s, "norm_kind") ? lx_config_word(r, s, "norm_kind", kinds) : 0;
    c->rms_norm = kind > 0;
    c->norm_plus_one = kind == 2;
    c->norm_eps = lx_config_eps(r, s, "norm_eps");
    c->input_norm = lx_config_has(r, s, "input_norm") && lx_config_flag(r, s, "input_norm");
    c->activation = activation_of[lx_config_word(r, s, "activation", activations)];
}

/* --- mixers --- */

static lx_mixer_config mixer_config(const lx_config *c, const lx_mixer *mixer)
{
    return (lx_mixer_config){.mixer = mixer,
                             .n_layers = c->n_layers,
                             .d_model = c->d_model,
                             .n_heads = c->n_heads,
                             .d_key = c->d_key,
                             .d_value = c->d_value,
                             .d_ff = c->d_ff,
                             .activation = c->activation};
}

static const lx_mixer *take_kind(lx_config_reader *r, lx_config_object s, bool is_feed_forward)
{
    char name[LX_MAX_NAME] = "", what[128];
    lx_config_name(r, s, "kind", name);
    const lx_mixer *mixer = lx_mixer_find(name);
    if (r->st == LX_OK && (mixer == NULL || mixer->is_feed_forward != is_feed_forward)) {
        (void)snprintf(what, sizeof what,
                       "\"%s\" is not a kind that is built in: linnet inspect --kinds lists them",
                       name);
        lx_config_wrong(r, s, "kind", what);
    }
    return mixer;
}

static void take_ints(lx_config_reader *r, lx_config_object s, const lx_mixer_param *param,
                      lx_mixer_config *m)
{
    char what[96];
    (void)snprintf(what, sizeof what, "must be a list of 1 to %d whole numbers from %d to %d",
                   LX_MAX_PARAM_LIST, param->min, param->max);
    const lx_config_list list = {1, LX_MAX_PARAM_LIST, param->min, param->max, false, what};
    m->n_list = lx_config_ints(r, s, param->name, &list, m->list);
}

static void take_param(lx_config_reader *r, lx_config_object s, const lx_mixer_param *param,
                       lx_mixer_config *m, lx_param_value *out)
{
    if (param->optional && !lx_config_has(r, s, param->name))
        return;
    switch (param->kind) {
    case LX_PARAM_INTS:
        take_ints(r, s, param, m);
        return;
    case LX_PARAM_INT:
        out->i = lx_config_int(r, s, param->name, param->min, param->max);
        return;
    case LX_PARAM_WORD:
        out->i = lx_config_word(r, s, param->name, param->words);
        return;
    case LX_PARAM_FLAG:
        out->i = lx_config_flag(r, s, param->name);
        return;
    case LX_PARAM_EPS:
        out->f = lx_config_eps(r, s, param->name);
        return;
    case LX_PARAM_SCALE:
        out->f = lx_config_number(r, s, param->name, 1e-6f, 1e6f);
        return;
    }
}

/* A head's sizes may differ from the model's. */
static void take_own_sizes(lx_config_reader *r, lx_config_object s, lx_mixer_config *m)
{
    if (lx_config_has(r, s, "n_heads"))
        m->n_heads = lx_config_int(r, s, "n_heads", 1, LX_MAX_HEADS);
    if (lx_config_has(r, s, "d_key"))
        m->d_key = lx_config_int(r, s, "d_key", 1, LX_MAX_HEAD_SIZE);
    if (lx_config_has(r, s, "d_value"))
        m->d_value = lx_config_int(r, s, "d_value", 1, LX_MAX_HEAD_SIZE);
    if (r->st == LX_OK && (int64_t)m->n_heads * (2 * m->d_key + m->d_value) > LX_MAX_D_FF)
        lx_config_wrong(r, s, "n_heads", "times (2 d_key + d_value) is more than 262144");
}

static void take_mixer(lx_config_reader *r, lx_config_object s, const lx_config *c,
                       bool is_feed_forward, lx_mixer_config *m)
{
    const lx_mixer *mixer = take_kind(r, s, is_feed_forward);
    if (r->st != LX_OK)
        return;
    *m = mixer_config(c, mixer);
    if (!is_feed_forward)
        take_own_sizes(r, s, m);
    else if (lx_config_has(r, s, "d_ff"))
        m->d_ff = lx_config_int(r, s, "d_ff", 1, LX_MAX_D_FF);
    for (int32_t i = 0; i < mixer->n_params; i++)
        take_param(r, s, &mixer->params[i], m, &m->params[i]);
    lx_config_finish(r, s);
    const char *fault = r->st == LX_OK && mixer->check != NULL ? mixer->check(m) : NULL;
    if (fault != NULL)
        lx_config_wrong(r, s, fault, "");
}

/* A stride that no sequence reaches is another kind's pattern: the file is for other sequences. */
lx_status lx_config_check_lengths(const lx_config *c, int32_t most, lx_error *err)
{
    for (int32_t i = 0; i < c->n_mixers; i++) {
        const lx_mixer_config *m = &c->mixers[i];
        char layer[16] = "";
        if (c->n_mixers > 1)
            (void)snprintf(layer, sizeof layer, "[%d]", i);
        for (int32_t k = 0; k < m->mixer->n_params; k++) {
            if (m->mixer->params[k].is_within_sequence && m->params[k].i > most)
                return lx_fail(
                    err, LX_ERR_FORMAT, NULL,
                    "attention%s.%s must be at most the %d tokens of the longest sequence", layer,
                    m->mixer->params[k].name, most);
        }
    }
    return LX_OK;
}

/* One mixer for all layers, or a list with one a layer. Returns how many there are. */
static int32_t take_mixers(lx_config_reader *r, lx_config_object s, const char *key,
                           bool is_feed_forward, const lx_config *c, lx_mixer_config *out)
{
    static const char what[] = "must be an object, or a list of n_layers objects";
    json_t *value = lx_config_look(r, s, key);
    size_t n = json_array_size(value); /* 0 for another type */
    int32_t n_taken = 0;
    char prefix[48];
    if (json_is_object(value)) {
        (void)snprintf(prefix, sizeof prefix, "%s.", key);
        take_mixer(r, (lx_config_object){value, prefix}, c, is_feed_forward, &out[n_taken++]);
    } else if (value != NULL && n != (size_t)c->n_layers) {
        lx_config_wrong(r, s, key, what);
    }
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        json_t *own = json_array_get(value, i);
        (void)snprintf(prefix, sizeof prefix, "%s[%zu].", key, i);
        if (json_is_object(own))
            take_mixer(r, (lx_config_object){own, prefix}, c, is_feed_forward, &out[n_taken++]);
        else
            lx_config_wrong(r, s, key, what);
    }
    if (r->st == LX_OK)
        lx_config_release(s, key);
    return n_taken;
}

static void take_attention(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    c->n_mixers = take_mixers(r, s, "attention", false, c, c->mixers);
}

static void take_feed_forward(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    static const char key[] = "feed_forward";
    int32_t n_with = 0;
    if (!lx_config_has(r, s, key)) {
        c->feed_forwards[0] = mixer_config(c, lx_mixer_find("mlp"));
        c->n_feed_forwards = 1;
        return;
    }
    for (int32_t i = 0; i < c->n_layers && r->st == LX_OK; i++)
        n_with += lx_config_has_feed_forward(c, i);
    if (n_with == 0)
        lx_config_wrong(r, s, key, "has no place in layers of these kinds of attention");
    c->n_feed_forwards = take_mixers(r, s, key, true, c, c->feed_forwards);
    if (c->n_feed_forwards > 1 && n_with < c->n_layers)
        lx_config_wrong(r, s, key, "must be an object, because not every layer has such a net");
}

static void take_input(lx_config_reader *r, json_t *value, lx_config *c)
{
    char prefix[32];
    int32_t i = c->n_inputs;
    (void)snprintf(prefix, sizeof prefix, "inputs[%d]", i);
    if (!json_is_object(value)) {
        lx_config_wrong(r, (lx_config_object){NULL, ""}, prefix, "must be an object");
        return;
    }
    (void)snprintf(prefix, sizeof prefix, "inputs[%d].", i);
    lx_config_object s = {value, prefix};
    lx_config_name(r, s, "name", c->inputs[i].name);
    c->inputs[i].size = lx_config_int(r, s, "size", 1, LX_MAX_IDS);
    lx_config_finish(r, s);
    for (int32_t j = 0; j < i; j++) {
        if (strcmp(c->inputs[j].name, c->inputs[i].name) == 0)
            lx_config_wrong(r, s, "name", "is the name of another input too");
    }
    c->n_inputs++;
}

static void take_inputs(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    json_t *list = lx_config_look(r, s, "inputs");
    size_t n = json_array_size(list); /* 0 for another type */
    if (list == NULL)
        return;
    if (n < 1 || n > LX_MAX_INPUTS) {
        lx_config_wrong(r, s, "inputs", "must be a list of 1 to 12 objects");
        return;
    }
    for (size_t i = 0; i < n && r->st == LX_OK; i++)
        take_input(r, json_array_get(list, i), c);
    lx_config_release(s, "inputs");
}

static void take_head(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    static const char *const kinds[] = {"categorical", "logistic_mixture", "ctc", NULL};
    static const lx_head_kind kind_of[] = {LX_HEAD_CATEGORICAL, LX_HEAD_LOGISTIC_MIXTURE,
                                           LX_HEAD_CTC};
    lx_config_object h = lx_config_section(r, s, "head", "head.");
    c->head_kind = kind_of[lx_config_word(r, h, "kind", kinds)];
    c->plain_head = lx_config_has(r, h, "bias") && !lx_config_flag(r, h, "bias");
    if (c->head_kind == LX_HEAD_CATEGORICAL) {
        c->head_size = c->n_values = lx_config_int(r, h, "size", 1, LX_MAX_IDS);
    } else if (c->head_kind == LX_HEAD_CTC) {
        c->head_size = c->n_values = lx_config_int(r, h, "size", 2, LX_CTC_MAX_IDS);
    } else {
        c->n_components = lx_config_int(r, h, "components", 1, MAX_COMPONENTS);
        c->n_values = lx_config_int(r, h, "levels", 2, MAX_LEVELS);
        c->head_size = 3 * c->n_components;
    }
    lx_config_finish(r, h);
    lx_config_release(s, "head");
}

static void take_all(lx_config_reader *r, json_t *root, lx_config *c)
{
    lx_config_object s = {root, ""};
    take_format(r, s);
    lx_config_name(r, s, "task", c->task);
    take_sizes(r, s, c);
    take_norm(r, s, c);
    take_attention(r, s, c);
    take_feed_forward(r, s, c);
    take_inputs(r, s, c);
    take_head(r, s, c);
    const lx_task_ops *task = lx_task_find(c->task);
    if (task != NULL) /* lx_model_load refuses a folder of an unknown task */
        task->read_config(r, s, c);
    lx_config_finish(r, s);
}

lx_status lx_config_from(json_t *root, const char *label, lx_config *out, lx_error *err)
{
    lx_config config;
    memset(&config, 0, sizeof config);
    lx_config_reader r = {label, LX_OK, err};
    take_all(&r, root, &config);
    if (r.st == LX_OK)
        *out = config;
    return r.st;
}

lx_status lx_config_load(const char *path, lx_config *out, lx_error *err)
{
    json_t *root = NULL;
    char base[LX_MAX_BASE] = "";
    lx_status st = read_file(path, &root, err);
    if (st == LX_OK)
        st = add_base(path, &root, base, err);
    if (st == LX_OK)
        st = lx_config_from(root, lx_file_label(path), out, err);
    if (st == LX_OK)
        memcpy(out->base, base, sizeof base);
    json_decref(root);
    return st;
}
