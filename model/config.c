/*
 * config.json, read strictly. Every key is *taken* from the parsed object: checked, copied and
 * removed. What is left in an object at its end is an unknown key, so the list of allowed keys
 * is the code that reads them. The first fault stays in the reader and makes later takes do
 * nothing.
 */
#include "model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/formats/json_memory.h"

enum {
    MAX_FILE_BYTES = 1 << 20,
    MAX_HEADS = 1024,
    MAX_HEAD_SIZE = 4096,
    MAX_WIDTH = 1 << 16,
    MAX_D_FF = 1 << 18,
    MAX_IDS = 1 << 24,
    MAX_CHARS = 1024,
    MAX_COMPONENTS = 64,
    MAX_LEVELS = 1 << 16,
    MAX_SIDE = 4096,
    MAX_VALUES = 1 << 20,
};

typedef struct reader {
    const char *label; /* the file, for errors */
    lx_status st;
    lx_error *err;
} reader;

/* One JSON object and where it stands: "" or "attention." or "inputs[2].". */
typedef struct section {
    json_t *object;
    const char *prefix;
} section;

static void wrong(reader *r, section s, const char *key, const char *what)
{
    if (r->st == LX_OK)
        r->st = lx_fail(r->err, LX_ERR_FORMAT, NULL, "%s: %s%s%s%s", r->label, s.prefix, key,
                        what[0] != '\0' ? " " : "", what);
}

/* --- taking one key --- */

/* The value, borrowed until release(); NULL after a fault. */
static json_t *look(reader *r, section s, const char *key)
{
    json_t *value = r->st == LX_OK ? json_object_get(s.object, key) : NULL;
    if (value == NULL)
        wrong(r, s, key, "is missing");
    return value;
}

static bool has(const reader *r, section s, const char *key)
{
    return r->st == LX_OK && json_object_get(s.object, key) != NULL;
}

static void release(section s, const char *key)
{
    (void)json_object_del(s.object, key);
}

static int32_t take_int(reader *r, section s, const char *key, int32_t min, int32_t max)
{
    json_t *value = look(r, s, key);
    if (value == NULL)
        return 0;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < min || n > max) {
        char what[64];
        (void)snprintf(what, sizeof what, "must be a whole number from %d to %d", min, max);
        wrong(r, s, key, what);
        return 0;
    }
    release(s, key);
    return (int32_t)n;
}

/* A number in (0, 1] that is not zero as f32 either. */
static float take_eps(reader *r, section s, const char *key)
{
    json_t *value = look(r, s, key);
    if (value == NULL)
        return 0;
    float f = (float)json_number_value(value);
    if (!json_is_number(value) || !(f >= 1e-30f && f <= 1.0f)) {
        wrong(r, s, key, "must be a number from 1e-30 to 1");
        return 0;
    }
    release(s, key);
    return f;
}

/* Lower-case letters, digits and '_', shorter than LX_MAX_NAME; '+' and '-' too if not `plain`. */
static void take_name(reader *r, section s, const char *key, bool plain, char *out)
{
    static const char allowed[] = "+-abcdefghijklmnopqrstuvwxyz0123456789_";
    json_t *value = look(r, s, key);
    if (value == NULL)
        return;
    const char *text = json_string_value(value);
    size_t n = text != NULL ? strlen(text) : 0;
    if (n == 0 || n >= LX_MAX_NAME || strspn(text, plain ? allowed + 2 : allowed) != n) {
        wrong(r, s, key, "must be a name of 1 to 31 letters a-z, digits and '_'");
        return;
    }
    memcpy(out, text, n + 1);
    release(s, key);
}

/* One of a list of words ending with NULL; returns its index. */
static int32_t take_word(reader *r, section s, const char *key, const char *const *words)
{
    char what[128] = "must be ";
    json_t *value = look(r, s, key);
    if (value == NULL)
        return 0;
    const char *text = json_string_value(value);
    for (int32_t i = 0; words[i] != NULL; i++) {
        if (text != NULL && strcmp(text, words[i]) == 0) {
            release(s, key);
            return i;
        }
        size_t n = strlen(what);
        (void)snprintf(what + n, sizeof what - n, "%s\"%s\"", i > 0 ? " or " : "", words[i]);
    }
    wrong(r, s, key, what);
    return 0;
}

/* An object whose keys the caller takes; finish() and release() it afterwards. */
static section take_section(reader *r, section s, const char *key, const char *prefix)
{
    json_t *value = look(r, s, key);
    if (value != NULL && !json_is_object(value))
        wrong(r, s, key, "must be an object");
    return (section){value, prefix};
}

/* Whatever is left is unknown. */
static void finish(reader *r, section s)
{
    char name[LX_MAX_NAME];
    void *left = r->st == LX_OK ? json_object_iter(s.object) : NULL;
    if (left != NULL)
        wrong(r, s, lx_file_quote(json_object_iter_key(left), name, sizeof name),
              "is not a known key");
}

/* --- the parts of the file --- */

static void take_format(reader *r, section s)
{
    static const char *const formats[] = {"linnet", NULL};
    (void)take_word(r, s, "format", formats);
    (void)take_int(r, s, "format_version", 1, 1);
}

static int32_t take_head_dim(reader *r, section s, const char *key, const lx_config *c)
{
    if (has(r, s, key))
        return take_int(r, s, key, 1, MAX_HEAD_SIZE);
    if (c->n_heads < 1) /* already refused */
        return 0;
    if (r->st == LX_OK && c->d_model % c->n_heads != 0)
        wrong(r, s, "d_model", "must be a multiple of n_heads, or d_key and d_value be given");
    if (r->st == LX_OK && c->d_model / c->n_heads > MAX_HEAD_SIZE)
        wrong(r, s, "d_model", "gives heads larger than 4096");
    return r->st == LX_OK ? c->d_model / c->n_heads : 0;
}

static void take_sizes(reader *r, section s, lx_config *c)
{
    c->n_layers = take_int(r, s, "n_layers", 1, LX_MAX_LAYERS);
    c->n_heads = take_int(r, s, "n_heads", 1, MAX_HEADS);
    c->d_model = take_int(r, s, "d_model", 1, MAX_WIDTH);
    c->d_ff = take_int(r, s, "d_ff", 1, MAX_D_FF);
    c->d_key = take_head_dim(r, s, "d_key", c);
    c->d_value = take_head_dim(r, s, "d_value", c);
}

static void take_norm(reader *r, section s, lx_config *c)
{
    static const char *const wirings[] = {"pre", "post", "reversible", NULL}; /* as in lx_wiring */
    static const char *const activations[] = {"relu", "gelu", NULL};
    static const lx_activation activation_of[] = {LX_ACT_RELU, LX_ACT_GELU};
    c->wiring = (lx_wiring)take_word(r, s, "norm", wirings);
    c->norm_eps = take_eps(r, s, "norm_eps");
    c->activation = activation_of[take_word(r, s, "activation", activations)];
}

/* --- mixers --- */

static lx_mixer_config mixer_config(const lx_config *c, const lx_mixer *mixer)
{
    return (lx_mixer_config){.mixer = mixer,
                             .d_model = c->d_model,
                             .n_heads = c->n_heads,
                             .d_key = c->d_key,
                             .d_value = c->d_value,
                             .d_ff = c->d_ff,
                             .activation = c->activation};
}

static const lx_mixer *take_kind(reader *r, section s, bool is_feed_forward)
{
    char name[LX_MAX_NAME] = "", what[128];
    take_name(r, s, "kind", true, name);
    const lx_mixer *mixer = lx_mixer_find(name);
    if (r->st == LX_OK && (mixer == NULL || mixer->is_feed_forward != is_feed_forward)) {
        (void)snprintf(what, sizeof what,
                       "\"%s\" is not a kind that is built in: linnet inspect --kinds lists them",
                       name);
        wrong(r, s, "kind", what);
    }
    return mixer;
}

static void take_ints(reader *r, section s, const lx_mixer_param *param, lx_mixer_config *m)
{
    json_t *list = look(r, s, param->name);
    size_t n = json_array_size(list); /* 0 for what is no array */
    bool ok = n >= 1 && n <= LX_MAX_PARAM_LIST;
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t x = json_integer_value(value);
        ok = json_is_integer(value) && x >= param->min && x <= param->max;
        m->list[m->n_list++] = ok ? (int32_t)x : 0;
    }
    if (list != NULL && !ok) {
        char what[96];
        (void)snprintf(what, sizeof what, "must be a list of 1 to %d whole numbers from %d to %d",
                       LX_MAX_PARAM_LIST, param->min, param->max);
        wrong(r, s, param->name, what);
    }
    if (r->st == LX_OK)
        release(s, param->name);
}

static void take_param(reader *r, section s, const lx_mixer_param *param, lx_mixer_config *m,
                       lx_param_value *out)
{
    if (param->optional && !has(r, s, param->name))
        return;
    switch (param->kind) {
    case LX_PARAM_INTS:
        take_ints(r, s, param, m);
        return;
    case LX_PARAM_INT:
        out->i = take_int(r, s, param->name, param->min, param->max);
        return;
    case LX_PARAM_WORD:
        out->i = take_word(r, s, param->name, param->words);
        return;
    case LX_PARAM_EPS:
        out->f = take_eps(r, s, param->name);
        return;
    }
}

/* A head's sizes may differ from the model's. */
static void take_own_sizes(reader *r, section s, lx_mixer_config *m)
{
    if (has(r, s, "n_heads"))
        m->n_heads = take_int(r, s, "n_heads", 1, MAX_HEADS);
    if (has(r, s, "d_key"))
        m->d_key = take_int(r, s, "d_key", 1, MAX_HEAD_SIZE);
    if (has(r, s, "d_value"))
        m->d_value = take_int(r, s, "d_value", 1, MAX_HEAD_SIZE);
    if (r->st == LX_OK && (int64_t)m->n_heads * (2 * m->d_key + m->d_value) > MAX_D_FF)
        wrong(r, s, "n_heads", "times (2 d_key + d_value) is more than 262144");
}

static void take_mixer(reader *r, section s, const lx_config *c, bool is_feed_forward,
                       lx_mixer_config *m)
{
    const lx_mixer *mixer = take_kind(r, s, is_feed_forward);
    if (r->st != LX_OK)
        return;
    *m = mixer_config(c, mixer);
    if (!is_feed_forward)
        take_own_sizes(r, s, m);
    for (int32_t i = 0; i < mixer->n_params; i++)
        take_param(r, s, &mixer->params[i], m, &m->params[i]);
    finish(r, s);
    const char *fault = r->st == LX_OK && mixer->check != NULL ? mixer->check(m) : NULL;
    if (fault != NULL)
        wrong(r, s, fault, "");
}

/* One mixer for all layers, or a list with one a layer. */
static void take_attention(reader *r, section s, lx_config *c)
{
    json_t *value = look(r, s, "attention");
    size_t n = json_array_size(value); /* 0 for what is no array */
    if (json_is_object(value)) {
        take_mixer(r, (section){value, "attention."}, c, false, &c->mixers[c->n_mixers++]);
    } else if (value != NULL && n != (size_t)c->n_layers) {
        wrong(r, s, "attention", "must be an object, or a list of n_layers objects");
    }
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        char prefix[48];
        (void)snprintf(prefix, sizeof prefix, "attention[%zu].", i);
        if (json_is_object(json_array_get(value, i)))
            take_mixer(r, (section){json_array_get(value, i), prefix}, c, false,
                       &c->mixers[c->n_mixers++]);
        else
            wrong(r, s, "attention", "must be an object, or a list of n_layers objects");
    }
    if (r->st == LX_OK)
        release(s, "attention");
}

static void take_feed_forward(reader *r, section s, lx_config *c)
{
    if (!has(r, s, "feed_forward")) {
        c->feed_forward = mixer_config(c, lx_mixer_find("mlp"));
        return;
    }
    section f = take_section(r, s, "feed_forward", "feed_forward.");
    take_mixer(r, f, c, true, &c->feed_forward);
    release(s, "feed_forward");
}

static void take_input(reader *r, json_t *value, lx_config *c)
{
    char prefix[32];
    int32_t i = c->n_inputs;
    (void)snprintf(prefix, sizeof prefix, "inputs[%d]", i);
    if (!json_is_object(value)) {
        wrong(r, (section){NULL, ""}, prefix, "must be an object");
        return;
    }
    (void)snprintf(prefix, sizeof prefix, "inputs[%d].", i);
    section s = {value, prefix};
    take_name(r, s, "name", true, c->inputs[i].name);
    c->inputs[i].size = take_int(r, s, "size", 1, MAX_IDS);
    finish(r, s);
    for (int32_t j = 0; j < i; j++) {
        if (strcmp(c->inputs[j].name, c->inputs[i].name) == 0)
            wrong(r, s, "name", "is the name of another input too");
    }
    c->n_inputs++;
}

static void take_inputs(reader *r, section s, lx_config *c)
{
    json_t *list = look(r, s, "inputs");
    size_t n = json_array_size(list); /* 0 for what is no array */
    if (list == NULL)
        return;
    if (n < 1 || n > LX_MAX_INPUTS) {
        wrong(r, s, "inputs", "must be a list of 1 to 12 objects");
        return;
    }
    for (size_t i = 0; i < n && r->st == LX_OK; i++)
        take_input(r, json_array_get(list, i), c);
    release(s, "inputs");
}

static void take_head(reader *r, section s, lx_config *c)
{
    static const char *const kinds[] = {"categorical", "logistic_mixture", NULL};
    static const lx_head_kind kind_of[] = {LX_HEAD_CATEGORICAL, LX_HEAD_LOGISTIC_MIXTURE};
    section h = take_section(r, s, "head", "head.");
    c->head_kind = kind_of[take_word(r, h, "kind", kinds)];
    if (c->head_kind == LX_HEAD_CATEGORICAL) {
        c->head_size = c->n_values = take_int(r, h, "size", 1, MAX_IDS);
    } else {
        c->n_components = take_int(r, h, "components", 1, MAX_COMPONENTS);
        c->n_values = take_int(r, h, "levels", 2, MAX_LEVELS);
        c->head_size = 3 * c->n_components;
    }
    finish(r, h);
    release(s, "head");
}

/* Words without upper-case letters and control characters, with single spaces between. */
static bool are_class_names(const char *text)
{
    size_t n = strlen(text);
    if (n == 0 || n >= LX_MAX_CLASS_NAMES || text[0] == ' ' || text[n - 1] == ' ')
        return false;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++)
        if (*p < ' ' || *p == 0x7f || (*p >= 'A' && *p <= 'Z') || (p[0] == ' ' && p[1] == ' '))
            return false;
    return true;
}

static void take_classes(reader *r, section s, lx_config *c)
{
    json_t *list = look(r, s, "classes");
    size_t n = json_array_size(list); /* 0 for what is no array */
    if (list != NULL && (n < 1 || n > LX_MAX_CLASSES))
        wrong(r, s, "classes", "must be a list of 1 to 100 texts");
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text == NULL || !are_class_names(text)) {
            wrong(r, s, "classes",
                  "must hold texts of 1 to 63 bytes: a class's names in lower case, with single "
                  "spaces between");
            return;
        }
        memcpy(c->classes[c->n_classes++], text, strlen(text) + 1);
    }
    if (r->st == LX_OK)
        release(s, "classes");
}

static void take_image(reader *r, section s, lx_config *c)
{
    section i = take_section(r, s, "image", "image.");
    c->width = take_int(r, i, "width", 1, MAX_SIDE);
    c->height = take_int(r, i, "height", 1, MAX_SIDE);
    c->n_channels = take_int(r, i, "channels", 1, 3);
    if (r->st == LX_OK && c->n_channels == 2)
        wrong(r, i, "channels", "must be 1 (grey) or 3 (red, green, blue)");
    if (r->st == LX_OK && (int64_t)c->width * c->height * c->n_channels > MAX_VALUES)
        wrong(r, i, "width", "times height times channels is more than 1048576");
    if (has(r, i, "classes"))
        take_classes(r, i, c);
    finish(r, i);
    release(s, "image");
}

static void take_all(reader *r, json_t *root, lx_config *c)
{
    section s = {root, ""};
    take_format(r, s);
    take_name(r, s, "task", true, c->task);
    take_sizes(r, s, c);
    take_norm(r, s, c);
    take_attention(r, s, c);
    take_feed_forward(r, s, c);
    take_inputs(r, s, c);
    take_head(r, s, c);
    if (strcmp(c->task, "couplet") == 0)
        c->max_chars = take_int(r, s, "max_chars", 1, MAX_CHARS);
    if (strcmp(c->task, "image") == 0)
        take_image(r, s, c);
    finish(r, s);
}

static lx_status parse(const char *label, const char *text, size_t n_bytes, lx_config *c,
                       lx_error *err)
{
    json_error_t e;
    char what[JSON_ERROR_TEXT_LENGTH];
    json_t *root = lx_json_load(text, n_bytes, JSON_REJECT_DUPLICATES, &e);
    if (root == NULL && e.text[0] == '\0') /* the parser has a text for every other fault */
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", label);
    if (root == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s, line %d: %s", label, e.line,
                       lx_file_quote(e.text, what, sizeof what));
    reader r = {label, LX_OK, err};
    if (json_is_object(root))
        take_all(&r, root, c);
    else
        r.st = lx_fail(err, LX_ERR_FORMAT, NULL, "%s: not a JSON object", label);
    json_decref(root);
    return r.st;
}

lx_status lx_config_load(const char *path, lx_config *out, lx_error *err)
{
    char *text = NULL;
    size_t n_bytes = 0;
    lx_config config;
    memset(&config, 0, sizeof config);
    lx_status st = lx_file_read(path, MAX_FILE_BYTES, &text, &n_bytes, err);
    if (st == LX_OK)
        st = parse(lx_file_label(path), text, n_bytes, &config, err);
    free(text);
    if (st == LX_OK)
        *out = config;
    return st;
}
