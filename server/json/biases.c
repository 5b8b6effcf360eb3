/* The logit_bias of a request for completions or a chat (see fields.h). */
#include <stdlib.h>

#include "server/json/answers.h"
#include "server/json/fields.h"

enum { MAX_BIAS = 100 };

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

static lx_status keep_bias(const char *key, const json_t *value, lx_completion_params *p,
                           lx_error *err)
{
    int32_t id = read_id(key);
    double add = json_number_value(value);
    if (id < 0)
        return lx_fail(err, LX_ERR_INVALID, "logit_bias", "logit_bias: a key is not a token");
    if (!json_is_number(value) || !(add >= -MAX_BIAS && add <= MAX_BIAS))
        return lx_fail(err, LX_ERR_INVALID, "logit_bias",
                       "logit_bias: token %d must have a number from %d to %d", id, -MAX_BIAS,
                       MAX_BIAS);
    p->biases[p->n_biases++] = (lx_bias){id, (float)add, 0};
    return LX_OK;
}

lx_status lx_json_read_biases(const json_t *root, struct lx_completion_params *p, lx_error *err)
{
    json_t *map = json_object_get(root, "logit_bias");
    if (map == NULL || json_is_null(map))
        return LX_OK;
    size_t n = json_object_size(map); /* 0 for what is no object */
    if (!json_is_object(map) || n > LX_MAX_BIASES)
        return lx_fail(err, LX_ERR_INVALID, "logit_bias",
                       "logit_bias must be an object of at most %d tokens", LX_MAX_BIASES);
    p->biases = calloc(n + 1, sizeof *p->biases);
    if (p->biases == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for logit_bias");
    const char *key = NULL;
    json_t *value = NULL;
    lx_status st = LX_OK;
    json_object_foreach(map, key, value)
    {
        if (st == LX_OK)
            st = keep_bias(key, value, p, err);
    }
    qsort(p->biases, (size_t)p->n_biases, sizeof *p->biases, by_id);
    return st;
}
