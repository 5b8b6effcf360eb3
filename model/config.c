/* config.json: what its keys are and what each may be (see model/config_reader.h). */
#include "model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_reader.h"
#include "model/ctc.h"
#include "model/formats/file.h"

_Static_assert((int)LX_CONFIG_NAME == (int)LX_MAX_NAME, "names are read into fields of this size");

enum {
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
    MAX_CONTEXT = 1 << 18, /* a state keeps its prompt: server/states/blob.h */
    MAX_ALPHABET = 1 << 16,
    MAX_LENGTH = 1 << 16,
};

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
        return lx_config_int(r, s, key, 1, MAX_HEAD_SIZE);
    if (c->n_heads < 1) /* already refused */
        return 0;
    if (r->st == LX_OK && c->d_model % c->n_heads != 0)
        lx_config_wrong(r, s, "d_model",
                        "must be a multiple of n_heads, or d_key and d_value be given");
    if (r->st == LX_OK && c->d_model / c->n_heads > MAX_HEAD_SIZE)
        lx_config_wrong(r, s, "d_model", "gives heads larger than 4096");
    return r->st == LX_OK ? c->d_model / c->n_heads : 0;
}

static void take_sizes(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    c->n_layers = lx_config_int(r, s, "n_layers", 1, LX_MAX_LAYERS);
    c->n_heads = lx_config_int(r, s, "n_heads", 1, MAX_HEADS);
    c->d_model = lx_config_int(r, s, "d_model", 1, MAX_WIDTH);
    c->d_ff = lx_config_int(r, s, "d_ff", 1, MAX_D_FF);
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
    lx_config_name(r, s, "kind", true, name);
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
    json_t *list = lx_config_look(r, s, param->name);
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
        lx_config_wrong(r, s, param->name, what);
    }
    if (r->st == LX_OK)
        lx_config_release(s, param->name);
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
    }
}

/* A head's sizes may differ from the model's. */
static void take_own_sizes(lx_config_reader *r, lx_config_object s, lx_mixer_config *m)
{
    if (lx_config_has(r, s, "n_heads"))
        m->n_heads = lx_config_int(r, s, "n_heads", 1, MAX_HEADS);
    if (lx_config_has(r, s, "d_key"))
        m->d_key = lx_config_int(r, s, "d_key", 1, MAX_HEAD_SIZE);
    if (lx_config_has(r, s, "d_value"))
        m->d_value = lx_config_int(r, s, "d_value", 1, MAX_HEAD_SIZE);
    if (r->st == LX_OK && (int64_t)m->n_heads * (2 * m->d_key + m->d_value) > MAX_D_FF)
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

/* One mixer for all layers, or a list with one a layer. */
static void take_attention(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    json_t *value = lx_config_look(r, s, "attention");
    size_t n = json_array_size(value); /* 0 for what is no array */
    if (json_is_object(value)) {
        take_mixer(r, (lx_config_object){value, "attention."}, c, false, &c->mixers[c->n_mixers++]);
    } else if (value != NULL && n != (size_t)c->n_layers) {
        lx_config_wrong(r, s, "attention", "must be an object, or a list of n_layers objects");
    }
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        char prefix[48];
        (void)snprintf(prefix, sizeof prefix, "attention[%zu].", i);
        if (json_is_object(json_array_get(value, i)))
            take_mixer(r, (lx_config_object){json_array_get(value, i), prefix}, c, false,
                       &c->mixers[c->n_mixers++]);
        else
            lx_config_wrong(r, s, "attention", "must be an object, or a list of n_layers objects");
    }
    if (r->st == LX_OK)
        lx_config_release(s, "attention");
}

static void take_feed_forward(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    if (!lx_config_has(r, s, "feed_forward")) {
        c->feed_forward = mixer_config(c, lx_mixer_find("mlp"));
        return;
    }
    int32_t layer = 0;
    while (layer < c->n_mixers && !lx_config_has_feed_forward(c, layer))
        layer++;
    if (layer == c->n_mixers)
        lx_config_wrong(r, s, "feed_forward", "has no place in layers of these kinds of attention");
    lx_config_object f = lx_config_section(r, s, "feed_forward", "feed_forward.");
    take_mixer(r, f, c, true, &c->feed_forward);
    lx_config_release(s, "feed_forward");
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
    lx_config_name(r, s, "name", true, c->inputs[i].name);
    c->inputs[i].size = lx_config_int(r, s, "size", 1, MAX_IDS);
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
    size_t n = json_array_size(list); /* 0 for what is no array */
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
        c->head_size = c->n_values = lx_config_int(r, h, "size", 1, MAX_IDS);
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

static void take_classes(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    json_t *list = lx_config_look(r, s, "classes");
    size_t n = json_array_size(list); /* 0 for what is no array */
    if (list != NULL && (n < 1 || n > LX_MAX_CLASSES))
        lx_config_wrong(r, s, "classes", "must be a list of 1 to 100 texts");
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text == NULL || !are_class_names(text)) {
            lx_config_wrong(
                r, s, "classes",
                "must hold texts of 1 to 63 bytes: a class's names in lower case, with single "
                "spaces between");
            return;
        }
        memcpy(c->classes[c->n_classes++], text, strlen(text) + 1);
    }
    if (r->st == LX_OK)
        lx_config_release(s, "classes");
}

static void take_palette(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    const json_t *list = lx_config_look(r, s, "palette");
    size_t n = json_array_size(list); /* 0 for what is no array */
    bool ok = list == NULL || (n >= 2 && n <= LX_MAX_PALETTE);
    for (size_t i = 0; ok && i < n; i++) {
        json_int_t value = json_integer_value(json_array_get(list, i));
        ok = json_is_integer(json_array_get(list, i)) && value >= 0 && value <= UINT8_MAX &&
             (i == 0 || value > c->palette[i - 1]);
        c->palette[c->n_palette++] = ok ? (uint8_t)value : 0;
    }
    if (!ok)
        lx_config_wrong(r, s, "palette",
                        "must be a list of 2 to 256 whole numbers of 0 to 255, each above the one "
                        "before it");
    else if (r->st == LX_OK)
        lx_config_release(s, "palette");
}

static void take_image(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    lx_config_object i = lx_config_section(r, s, "image", "image.");
    c->width = lx_config_int(r, i, "width", 1, MAX_SIDE);
    c->height = lx_config_int(r, i, "height", 1, MAX_SIDE);
    if (lx_config_has(r, i, "period"))
        c->period = lx_config_int(r, i, "period", 1, MAX_SIDE);
    c->n_channels = lx_config_int(r, i, "channels", 1, 3);
    if (r->st == LX_OK && c->n_channels == 2)
        lx_config_wrong(r, i, "channels", "must be 1 (grey) or 3 (red, green, blue)");
    if (r->st == LX_OK && (int64_t)c->width * c->height * c->n_channels > MAX_VALUES)
        lx_config_wrong(r, i, "width", "times height times channels is more than 1048576");
    if (r->st == LX_OK && c->period > 0 && c->height % c->period != 0)
        lx_config_wrong(r, i, "period", "must divide the height");
    if (lx_config_has(r, i, "classes"))
        take_classes(r, i, c);
    if (lx_config_has(r, i, "palette"))
        take_palette(r, i, c);
    lx_config_finish(r, i);
    lx_config_release(s, "image");
}

/* A file beside config.json, or "bytes". */
static void take_tokenizer(lx_config_reader *r, lx_config_object s, char *out)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    json_t *value = lx_config_look(r, s, "tokenizer");
    const char *text = json_string_value(value);
    size_t n = text != NULL ? strlen(text) : 0;
    if (value == NULL)
        return;
    if (n == 0 || n >= LX_MAX_NAME || text[0] == '.' || strspn(text, allowed) != n) {
        lx_config_wrong(r, s, "tokenizer",
                        "must be \"bytes\" or the name of a file in the model's folder");
        return;
    }
    memcpy(out, text, n + 1);
    lx_config_release(s, "tokenizer");
}

static void take_ends(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    const json_t *list = lx_config_look(r, s, "end");
    size_t n = json_array_size(list); /* 0 for what is no array */
    bool ok = list == NULL || (json_is_array(list) && n <= LX_MAX_ENDS);
    for (size_t i = 0; ok && i < n; i++) {
        json_int_t id = json_integer_value(json_array_get(list, i));
        ok = json_is_integer(json_array_get(list, i)) && id >= 0 && id < MAX_IDS;
        c->ends[c->n_ends++] = ok ? (int32_t)id : 0;
    }
    if (!ok)
        lx_config_wrong(r, s, "end", "must be a list of at most 8 tokens");
    else if (r->st == LX_OK)
        lx_config_release(s, "end");
}

static void take_text(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    lx_config_object t = lx_config_section(r, s, "text", "text.");
    take_tokenizer(r, t, c->tokenizer);
    c->context = lx_config_int(r, t, "context", 2, MAX_CONTEXT);
    if (lx_config_has(r, t, "begin"))
        c->begin = lx_config_int(r, t, "begin", 0, MAX_IDS - 1);
    if (lx_config_has(r, t, "end"))
        take_ends(r, t, c);
    lx_config_finish(r, t);
    lx_config_release(s, "text");
}

static void take_copy(lx_config_reader *r, lx_config_object s, lx_config *c)
{
    lx_config_object t = lx_config_section(r, s, "copy", "copy.");
    c->alphabet = lx_config_int(r, t, "alphabet", 1, MAX_ALPHABET);
    c->max_chars = lx_config_int(r, t, "length", 1, MAX_LENGTH);
    lx_config_finish(r, t);
    lx_config_release(s, "copy");
}

static void take_speech(lx_config_reader *r, lx_config_object s, lx_mel_config *c)
{
    lx_config_object t = lx_config_section(r, s, "speech", "speech.");
    for (int32_t i = 0; lx_mel_fields[i].name != NULL; i++) {
        const lx_mel_field *f = &lx_mel_fields[i];
        int32_t value = lx_config_int(r, t, f->name, f->min, f->max);
        memcpy((char *)c + f->offset, &value, sizeof value);
    }
    lx_config_finish(r, t);
    lx_config_release(s, "speech");
}

static void take_all(lx_config_reader *r, json_t *root, lx_config *c)
{
    lx_config_object s = {root, ""};
    take_format(r, s);
    lx_config_name(r, s, "task", true, c->task);
    take_sizes(r, s, c);
    take_norm(r, s, c);
    take_attention(r, s, c);
    take_feed_forward(r, s, c);
    take_inputs(r, s, c);
    take_head(r, s, c);
    if (strcmp(c->task, "couplet") == 0)
        c->max_chars = lx_config_int(r, s, "max_chars", 1, MAX_CHARS);
    if (strcmp(c->task, "image") == 0)
        take_image(r, s, c);
    c->begin = -1;
    if (strcmp(c->task, "text") == 0 || strcmp(c->task, "poem") == 0)
        take_text(r, s, c);
    if (strcmp(c->task, "copy") == 0)
        take_copy(r, s, c);
    if (strcmp(c->task, "speech") == 0)
        take_speech(r, s, &c->mel);
    lx_config_finish(r, s);
}

lx_status lx_config_load(const char *path, lx_config *out, lx_error *err)
{
    json_t *root = NULL;
    lx_config config;
    memset(&config, 0, sizeof config);
    lx_status st = lx_config_read_file(path, &root, config.base, err);
    if (st == LX_OK) {
        lx_config_reader r = {lx_file_label(path), LX_OK, err};
        take_all(&r, root, &config);
        st = r.st;
    }
    json_decref(root);
    if (st == LX_OK)
        *out = config;
    return st;
}
