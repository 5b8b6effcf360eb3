/* Which tokens a request wants or does not want: logit_bias and allowed_token_ids. */
#include <stdlib.h>

#include "server/json/answers.h"
#include "server/json/field_readers.h"
#include "server/json/fields.h"

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

static int by_id(const void *a, const void *b)
{
    int32_t x = ((const lx_bias *)a)->id, y = ((const lx_bias *)b)->id;
    return (x > y) - (x < y);
}

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

static int in_order(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Ascending, each once. */
LX_READER(allowed_token_ids)
{
    lx_completion_params *p = r->params;
    size_t n = 0, kept = 0;
    lx_status st = lx_json_keep_ids(value, r->name, &p->allowed, &n, err);
    if (st == LX_OK && n == 0)
        st = lx_fail(err, LX_ERR_INVALID, r->name, "allowed_token_ids is empty");
    if (st != LX_OK)
        return st;
    qsort(p->allowed, n, sizeof *p->allowed, in_order);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || p->allowed[i] != p->allowed[kept - 1])
            p->allowed[kept++] = p->allowed[i];
    p->n_allowed = (int32_t)kept;
    return LX_OK;
}
