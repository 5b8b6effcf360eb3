/* Readers of fields (see request_fields.h). A file is a data: URL. */
#include "server/json/request_fields.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base64.h"
#include "model/tasks/image.h"
#include "server/json/fields.h"
#include "server/json/requests.h"

/* --- values and members that change nothing --- */

static bool is_among(const char *text, const char *a, const char *b)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

/* The place of the text among the names, which end with NULL; that of NULL for any other value. */
static size_t place_of(const json_t *value, const char *const *names)
{
    size_t i = 0;
    while (names[i] != NULL && !lx_json_is(value, names[i]))
        i++;
    return i;
}

bool lx_json_is_neutral(const json_t *value, unsigned neutral)
{
    unsigned kinds = 0;
    const char *text = json_string_value(value);
    if (json_is_boolean(value))
        kinds = json_is_true(value) ? LX_NEUTRAL_TRUE : LX_NEUTRAL_FALSE;
    else if (json_is_number(value) && json_number_value(value) <= 0)
        kinds = json_number_value(value) < 0 ? LX_NEUTRAL_MINUS : LX_NEUTRAL_ZERO;
    else if (json_is_number(value))
        kinds = json_number_value(value) == 1 ? LX_NEUTRAL_ONE : 0;
    else if (text != NULL)
        kinds = (text[0] == '\0' ? LX_NEUTRAL_EMPTY : 0) |
                (is_among(text, "auto", "default") ? LX_NEUTRAL_AUTO : 0) |
                (is_among(text, "none", "standard") || strcmp(text, "opaque") == 0 ? LX_NEUTRAL_NONE
                                                                                   : 0);
    else
        kinds = json_array_size(value) + json_object_size(value) == 0 ? LX_NEUTRAL_EMPTY : 0;
    return (kinds & neutral) != 0;
}

void lx_json_note_members(const json_t *object, const char *prefix, const char *const *known,
                          lx_json_notes *notes)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        bool found = json_is_null(value) || lx_json_is_neutral(value, LX_NEUTRAL_EMPTY);
        for (const char *const *k = known; !found && *k != NULL; k++)
            found = strcmp(*k, name) == 0;
        if (found)
            continue;
        char full[2 * LX_NOTED_BYTES];
        (void)snprintf(full, sizeof full, "%s.%s", prefix, name);
        lx_json_note(notes, full, NULL, NULL);
    }
}

/* --- fields of several routes --- */

LX_READER(model)
{
    const char *name = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_take_string(value, r->name, &name, &bytes, err);
    if (st == LX_OK && (bytes == 0 || bytes >= LX_MAX_MODEL_NAME))
        st = lx_fail(err, LX_ERR_NOT_FOUND, "model", "there is no model of that name");
    if (st == LX_OK)
        memcpy(r->to, name, bytes + 1);
    return st;
}

static lx_status take_int(const json_t *value, const char *name, int64_t min, int64_t max,
                          int64_t *out, lx_error *err)
{
    if (!json_is_integer(value))
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be an integer", name);
    *out = json_integer_value(value);
    if (*out < min || *out > max)
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be from %lld to %lld", name,
                       (long long)min, (long long)max);
    return LX_OK;
}

/* -1 asks for a seed that the server draws, as it does without one. */
LX_READER(seed)
{
    lx_sampling_params *s = r->to;
    int64_t seed = 0;
    lx_status st = take_int(value, r->name, -1, LX_MAX_SEED, &seed, err);
    s->has_seed = st == LX_OK && seed >= 0;
    s->seed = s->has_seed ? seed : 0;
    return st;
}

LX_READER(class)
{
    int64_t index = -1;
    lx_status st = take_int(value, r->name, 0, LX_MAX_CLASSES - 1, &index, err);
    *(int32_t *)r->to = st == LX_OK ? (int32_t)index + 1 : 0;
    return st;
}

LX_READER(suspend)
{
    const char **asked_by = r->to;
    if (!json_is_boolean(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be true or false", r->name);
    *asked_by = json_is_true(value) ? r->name : NULL;
    return LX_OK;
}

LX_READER(choice)
{
    const char *text = json_is_true(value) ? "true" : json_string_value(value);
    if (text == NULL && !json_is_false(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be true, false or a word", r->name);
    char *copy = text != NULL ? strdup(text) : NULL;
    if (text != NULL && copy == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, r->name, "no memory for %s", r->name);
    *(char **)r->to = copy;
    return LX_OK;
}

/* --- files and pictures --- */

/* The content of "data:TYPE;base64,TEXT". The content says its type, so TYPE is not looked at. */
static lx_status read_data_url(const json_t *value, const char *param, lx_upload *out,
                               lx_error *err)
{
    static const char scheme[] = "data:", mark[] = ";base64,";
    if (!json_is_string(value))
        return lx_fail(err, LX_ERR_INVALID, param, "%s must be a data: URL", param);
    const char *url = json_string_value(value);
    const char *comma = strncasecmp(url, scheme, sizeof scheme - 1) == 0 ? strchr(url, ',') : NULL;
    size_t head = comma != NULL ? (size_t)(comma - url) + 1 : 0;
    if (head < sizeof scheme + sizeof mark - 2 ||
        strncasecmp(url + head - (sizeof mark - 1), mark, sizeof mark - 1) != 0)
        return lx_fail(err, LX_ERR_INVALID, param,
                       "%s must be a data: URL with base64, as data:image/png;base64,...", param);
    lx_status st = lx_base64_decode(url + head, json_string_length(value) - head, param,
                                    &out->owned, &out->bytes, err);
    if (st == LX_OK)
        out->data = out->owned;
    return st;
}

LX_READER(file)
{
    return read_data_url(value, r->name, r->to, err);
}

/* {"image_url": "data:..."} */
LX_READER(mask)
{
    static const char *const known[] = {"image_url", NULL};
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must hold an object with image_url",
                       r->name);
    lx_json_note_members(value, r->name, known, r->notes);
    return read_data_url(json_object_get(value, known[0]), r->name, r->to, err);
}

LX_READER(images)
{
    if (!json_is_array(value) || json_array_size(value) != 1)
        return lx_fail(err, LX_ERR_INVALID, r->name, "images must be a list with one image");
    return lx_read_mask(json_array_get(value, 0), r, err);
}

static lx_status check_only(const json_t *value, const char *only, const lx_json_reading *r,
                            lx_error *err)
{
    if (lx_json_is(value, only))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be \"%s\"", r->name, only);
}

LX_READER(only_b64)
{
    return check_only(value, "b64_json", r, err);
}

LX_READER(only_png)
{
    return check_only(value, "png", r, err);
}

LX_READER(size)
{
    lx_image_params *p = r->params;
    const char *text = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_take_string(value, r->name, &text, &bytes, err);
    if (st != LX_OK || strcmp(text, "auto") == 0)
        return st;
    if (bytes == 0 || bytes >= sizeof p->size)
        return lx_fail(err, LX_ERR_INVALID, "size", "size must be WIDTHxHEIGHT or \"auto\"");
    memcpy(p->size, text, bytes + 1);
    return LX_OK;
}

LX_READER(stream_unit)
{
    bool pixels = lx_json_is(value, "pixel");
    if (!pixels && !lx_json_is(value, "row"))
        return lx_fail(err, LX_ERR_INVALID, r->name, "stream_unit must be \"pixel\" or \"row\"");
    *(lx_stream_unit *)r->to = pixels ? LX_STREAM_PIXELS : LX_STREAM_ROWS;
    return LX_OK;
}

/* --- prompts --- */

static lx_status keep_text(const char *text, size_t bytes, lx_prompt *p, lx_error *err)
{
    *p = (lx_prompt){.text = malloc(bytes + 1), .bytes = bytes};
    if (p->text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the prompt");
    memcpy(p->text, text, bytes + 1);
    return LX_OK;
}

static lx_status keep_prompt(const json_t *value, const char *where, lx_completion_params *p,
                             lx_error *err)
{
    if (json_is_string(value))
        return keep_text(json_string_value(value), json_string_length(value),
                         &p->prompts[p->n_prompts++], err);
    if (json_is_array(value)) {
        lx_prompt *prompt = &p->prompts[p->n_prompts++];
        size_t n = 0;
        lx_status st = lx_json_keep_ids(value, "prompt", where, &prompt->ids, &n, err);
        prompt->n_ids = (int32_t)n; /* a body has fewer bytes than 2^31 */
        return st;
    }
    return lx_fail(err, LX_ERR_INVALID, "prompt",
                   "prompt must be a string, a list of strings, a list of tokens or a list of such "
                   "lists");
}

/* Room for n prompts, 1 .. LX_MAX_PROMPTS. */
static lx_status reserve_prompts(size_t n, lx_completion_params *p, lx_error *err)
{
    if (n < 1 || n > LX_MAX_PROMPTS)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "prompt must be 1 to %d prompts",
                       LX_MAX_PROMPTS);
    p->prompts = calloc(n, sizeof *p->prompts);
    return p->prompts != NULL ? LX_OK
                              : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the prompts");
}

/* A list of numbers is one prompt, any other list is as many as it has elements. */
LX_READER(prompt)
{
    lx_completion_params *p = r->params;
    bool many = json_is_array(value) && !json_is_number(json_array_get(value, 0));
    size_t n = many ? json_array_size(value) : 1;
    lx_status st = reserve_prompts(n, p, err);
    for (size_t i = 0; st == LX_OK && i < n; i++) {
        const json_t *one = many ? json_array_get(value, i) : value;
        char where[32];
        (void)snprintf(where, sizeof where, many ? "prompt[%zu]" : "prompt", i);
        bool alike = !many || json_typeof(one) == json_typeof(json_array_get(value, 0));
        st = alike ? keep_prompt(one, where, p, err)
                   : lx_fail(err, LX_ERR_INVALID, "prompt",
                             "prompt: strings and lists of tokens do not mix");
    }
    return st;
}

/* --- text --- */

LX_READER(stream_options)
{
    static const char *const known[] = {"include_usage", "continuous_usage_stats", NULL};
    lx_completion_params *p = r->params;
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "stream_options must be an object");
    for (int i = 0; known[i] != NULL; i++) {
        const json_t *wanted = lx_json_field(value, known[i]);
        if (wanted != NULL && !json_is_boolean(wanted))
            return lx_fail(err, LX_ERR_INVALID, r->name, "stream_options.%s must be true or false",
                           known[i]);
        *(i == 0 ? &p->include_usage : &p->usage_always) = json_is_true(wanted);
    }
    if (p->usage_always && !p->include_usage)
        lx_json_note(r->notes, "stream_options.continuous_usage_stats",
                     "it needs include_usage: true", NULL);
    lx_json_note_members(value, r->name, known, r->notes);
    return LX_OK;
}

static lx_status keep_stop(const json_t *value, const lx_json_reading *r, lx_error *err)
{
    lx_stops *stops = r->to;
    size_t n = json_string_length(value); /* 0 for other values */
    if (n < 1 || n > LX_MAX_STOP_BYTES)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s must be a string of 1 to %d bytes or a list of at most %d of them",
                       r->name, LX_MAX_STOP_BYTES, LX_MAX_STOPS);
    struct lx_stop *stop = &stops->stop[stops->n++];
    stop->bytes = n;
    memcpy(stop->text, json_string_value(value), n);
    return LX_OK;
}

LX_READER(stop)
{
    if (!json_is_array(value))
        return keep_stop(value, r, err);
    size_t n = json_array_size(value);
    if (n > LX_MAX_STOPS)
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s has %zu strings, at most %d are allowed",
                       r->name, n, LX_MAX_STOPS);
    lx_status st = LX_OK;
    for (size_t i = 0; st == LX_OK && i < n; i++)
        st = keep_stop(json_array_get(value, i), r, err);
    return st;
}

LX_READER(truncation)
{
    *(bool *)r->to = lx_json_is(value, "auto");
    if (*(bool *)r->to || lx_json_is(value, "disabled"))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, r->name, "truncation must be auto or disabled");
}

/* An id, or an object with it. */
LX_READER(conversation)
{
    const json_t *id = json_is_object(value) ? lx_json_field(value, "id") : value;
    const char *text = NULL;
    size_t bytes = 0;
    if (!json_is_string(id) || json_string_length(id) == 0)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "conversation must be an id, or an object with an id");
    lx_status st = lx_json_take_string(id, r->name, &text, &bytes, err);
    if (st == LX_OK && (*(char **)r->to = strdup(text)) == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for conversation");
    return st;
}

static size_t count_characters(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

LX_READER(metadata)
{
    enum { MOST_PAIRS = 16, MOST_KEY = 64, MOST_VALUE = 512 };
    const char *key = NULL;
    json_t *text = NULL;
    bool ok = json_is_object(value) && json_object_size(value) <= MOST_PAIRS;
    json_object_foreach((json_t *)(uintptr_t)value, key, text)
    {
        ok = ok && json_is_string(text) && count_characters(key) <= MOST_KEY &&
             strlen(json_string_value(text)) == json_string_length(text) &&
             count_characters(json_string_value(text)) <= MOST_VALUE;
    }
    if (!ok)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "metadata must be an object of at most %d texts without NULs; a key has at "
                       "most %d characters, a text %d",
                       MOST_PAIRS, MOST_KEY, MOST_VALUE);
    *(char **)r->to = lx_json_copy_text(value);
    return *(char **)r->to != NULL ? LX_OK
                                   : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for metadata");
}

LX_READER(include)
{
    if (!json_is_array(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "include must be a list");
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!lx_json_is(json_array_get(value, i), "message.output_text.logprobs"))
            return lx_fail(err, LX_ERR_INVALID, r->name,
                           "include[%zu] must be message.output_text.logprobs: there is nothing "
                           "else to include",
                           i);
        *(bool *)r->to = true;
    }
    return LX_OK;
}

/* OpenAI's streams may be padded, so that their lengths say nothing; these streams are not. */
LX_READER(padded_stream)
{
    static const char *const known[] = {"include_obfuscation", NULL};
    const json_t *obfuscation = lx_json_field(value, known[0]);
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "stream_options must be an object");
    if (obfuscation != NULL && !json_is_false(obfuscation))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "stream_options.include_obfuscation must be false");
    lx_json_note_members(value, r->name, known, r->notes);
    return LX_OK;
}

/* --- tokens --- */

/* A token's number as OpenAI writes it, a key; -1 when it is none. Each has one spelling, and no
   key comes twice in JSON that was parsed, so no token does. */
static int32_t read_id(const char *key)
{
    int64_t id = 0;
    for (const char *c = key; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || (c > key && key[0] == '0'))
            return -1;
        id = id * 10 + (*c - '0');
        if (id > INT32_MAX)
            return -1;
    }
    return key[0] != '\0' ? (int32_t)id : -1;
}

/* Of ids, and of biases, which begin with their id. */
static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

_Static_assert(offsetof(lx_bias, id) == 0, "a bias begins with its id");

static lx_status keep_bias(int32_t id, const json_t *value, lx_completion_params *p, lx_error *err)
{
    double add = json_number_value(value);
    if (id < 0)
        return lx_fail(err, LX_ERR_INVALID, "logit_bias", "logit_bias: a key is not a token");
    if (!json_is_number(value) || !(add >= -LX_MAX_ASKED_BIAS && add <= LX_MAX_ASKED_BIAS))
        return lx_fail(err, LX_ERR_INVALID, "logit_bias",
                       "logit_bias: token %d must have a number from %d to %d", id,
                       -LX_MAX_ASKED_BIAS, LX_MAX_ASKED_BIAS);
    p->biases[p->n_biases++] = (lx_bias){id, (float)add, 0};
    return LX_OK;
}

/* OpenAI's form: {"id": number}. */
static lx_status keep_map(json_t *map, lx_completion_params *p, lx_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(map, key, value)
    {
        lx_status st = keep_bias(read_id(key), value, p, err);
        if (st != LX_OK)
            return st;
    }
    return LX_OK;
}

/* The form of llama.cpp: [[id, number], ...]; false in place of a number bans the token. */
static lx_status keep_pairs(const json_t *list, lx_completion_params *p, lx_error *err)
{
    json_t *ban = json_integer(-LX_MAX_ASKED_BIAS);
    lx_status st = LX_OK;
    for (size_t i = 0; st == LX_OK && i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        const json_t *id = json_array_get(pair, 0), *value = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > INT32_MAX)
            st = lx_fail(err, LX_ERR_INVALID, "logit_bias",
                         "logit_bias[%zu] must be a pair of a token and a number", i);
        else
            st = keep_bias((int32_t)json_integer_value(id), json_is_false(value) ? ban : value, p,
                           err);
    }
    json_decref(ban);
    return st;
}

LX_READER(logit_bias)
{
    lx_completion_params *p = r->params;
    size_t n = json_object_size(value) + json_array_size(value);
    if ((!json_is_object(value) && !json_is_array(value)) || n > LX_MAX_BIASES)
        return lx_fail(err, LX_ERR_INVALID, "logit_bias",
                       "logit_bias must be an object or a list of pairs, of at most %d tokens",
                       LX_MAX_BIASES);
    p->biases = calloc(n + 1, sizeof *p->biases);
    if (p->biases == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for logit_bias");
    lx_status st =
        json_is_object(value) ? keep_map((json_t *)value, p, err) : keep_pairs(value, p, err);
    qsort(p->biases, (size_t)p->n_biases, sizeof *p->biases, by_id);
    for (int32_t i = 1; st == LX_OK && i < p->n_biases; i++)
        if (p->biases[i].id == p->biases[i - 1].id)
            st = lx_fail(err, LX_ERR_INVALID, "logit_bias", "logit_bias: token %d comes twice",
                         p->biases[i].id);
    return st;
}

/* Ascending, each once. */
LX_READER(allowed_token_ids)
{
    lx_completion_params *p = r->params;
    size_t n = 0, kept = 0;
    lx_status st = lx_json_keep_ids(value, r->name, r->name, &p->allowed, &n, err);
    if (st == LX_OK && n == 0)
        st = lx_fail(err, LX_ERR_INVALID, r->name, "allowed_token_ids is empty");
    if (st != LX_OK)
        return st;
    qsort(p->allowed, n, sizeof *p->allowed, by_id);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || p->allowed[i] != p->allowed[kept - 1])
            p->allowed[kept++] = p->allowed[i];
    p->n_allowed = (int32_t)kept;
    return LX_OK;
}

LX_READER(tokens)
{
    lx_detokenize_params *p = r->params;
    return lx_json_keep_ids(value, r->name, r->name, &p->tokens, &p->n, err);
}

/* As many as n, which is read before; without n they are its number. */
LX_READER(seeds)
{
    lx_state_fork *p = r->params;
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n == 0 || n > (size_t)r->max_n || (p->n > 0 && n != (size_t)p->n))
        return lx_fail(err, LX_ERR_INVALID, "seeds",
                       "seeds must be a list of 1 to %d seeds, as many as n if both are sent",
                       r->max_n);
    p->n = (int32_t)n;
    p->seeds = calloc((size_t)p->n, sizeof *p->seeds);
    if (p->seeds == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the seeds");
    for (int32_t i = 0; i < p->n; i++) {
        const json_t *seed = json_array_get(value, (size_t)i);
        json_int_t x = json_integer_value(seed);
        if (!json_is_integer(seed) || x < 0 || x > LX_MAX_SEED)
            return lx_fail(err, LX_ERR_INVALID, "seeds",
                           "seeds: number %d is not a whole number from 0 to %lld", i,
                           (long long)LX_MAX_SEED);
        p->seeds[i] = (uint64_t)x;
    }
    return LX_OK;
}

/* --- sounds --- */

LX_READER(transcript_format)
{
    static const char *const names[] = {"json", "text", "verbose_json", "srt", "vtt", NULL};
    size_t i = place_of(value, names);
    if (names[i] != NULL)
        *(lx_transcript_format *)r->to = (lx_transcript_format)i;
    return names[i] != NULL
               ? LX_OK
               : lx_fail(err, LX_ERR_INVALID, r->name,
                         "response_format must be json, text, verbose_json, srt or vtt");
}

static lx_status read_granularity(const json_t *value, lx_transcription_params *p, lx_error *err)
{
    bool word = lx_json_is(value, "word"), segment = lx_json_is(value, "segment");
    p->words |= word;
    p->segments |= segment;
    if (word || segment)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "timestamp_granularities",
                   "timestamp_granularities may hold word and segment");
}

LX_READER(granularities)
{
    lx_transcription_params *p = r->params;
    lx_status st = LX_OK;
    if (p->format != LX_TRANSCRIPT_VERBOSE)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "timestamp_granularities needs response_format verbose_json");
    if (!json_is_array(value))
        return read_granularity(value, p, err);
    for (size_t i = 0; st == LX_OK && i < json_array_size(value); i++)
        st = read_granularity(json_array_get(value, i), p, err);
    return st;
}

LX_READER(language)
{
    const char *text = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_take_string(value, r->name, &text, &bytes, err);
    if (st == LX_OK && bytes > LX_MAX_LANGUAGE)
        st = lx_fail(err, LX_ERR_INVALID, r->name, "language has more than %d bytes",
                     LX_MAX_LANGUAGE);
    if (st == LX_OK)
        memcpy(r->to, text, bytes + 1);
    return st;
}
