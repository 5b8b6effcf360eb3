/* The registry of mixers, and the sums of their declarations (see mixer.h). */
#include "model/mixers/mixer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MIXER(name) extern const lx_mixer lx_mixer_##name;
#include "model/mixers/mixers.def"
#undef MIXER

static const lx_mixer *const mixers[] = {
#define MIXER(name) &lx_mixer_##name,
#include "model/mixers/mixers.def"
#undef MIXER
};

const char *const lx_mixer_directions[] = {"forward", "both", NULL};

const lx_mixer *lx_mixer_find(const char *name)
{
    for (size_t i = 0; i < sizeof mixers / sizeof *mixers; i++) {
        if (strcmp(mixers[i]->name, name) == 0)
            return mixers[i];
    }
    return NULL;
}

const lx_mixer *lx_mixer_at(int32_t i)
{
    return i >= 0 && (size_t)i < sizeof mixers / sizeof *mixers ? mixers[i] : NULL;
}

static int32_t find_param(const lx_mixer *mixer, const char *name)
{
    int32_t i = 0;
    while (i < mixer->n_params && strcmp(mixer->params[i].name, name) != 0)
        i++;
    assert(i < mixer->n_params);
    return i;
}

lx_param_value *lx_mixer_value(lx_mixer_config *c, const char *name)
{
    return &c->params[find_param(c->mixer, name)];
}

void lx_mixer_set_word(lx_mixer_config *c, const char *name, const char *word)
{
    int32_t param = find_param(c->mixer, name), i = 0;
    const char *const *words = c->mixer->params[param].words;
    while (words[i] != NULL && strcmp(words[i], word) != 0)
        i++;
    assert(words[i] != NULL);
    c->params[param].i = i;
}

float lx_mixer_scale(const lx_mixer_config *c, int32_t i)
{
    return c->params[i].f > 0 ? c->params[i].f : 1;
}

static void add_tensor(lx_mixer_parts *p, lx_mixer_tensor tensor)
{
    assert(p->n_tensors < LX_MAX_MIXER_TENSORS);
    p->tensors[p->n_tensors++] = tensor;
}

void lx_mixer_add_product(lx_mixer_parts *p, const char *name, int64_t outputs, int64_t inputs)
{
    add_tensor(p, (lx_mixer_tensor){
                      .name = name, .rows = outputs, .cols = inputs, .role = LX_TENSOR_PRODUCT});
}

void lx_mixer_add_map(lx_mixer_parts *p, const char *name, int64_t outputs, int64_t inputs)
{
    add_tensor(
        p, (lx_mixer_tensor){.name = name, .rows = outputs, .cols = inputs, .role = LX_TENSOR_MAP});
}

void lx_mixer_add_map_part(lx_mixer_parts *p, const char *name, int64_t outputs, int64_t inputs,
                           int64_t first, int64_t all_inputs)
{
    assert(first >= 0 && first + inputs <= all_inputs);
    add_tensor(p, (lx_mixer_tensor){.name = name,
                                    .rows = outputs,
                                    .cols = inputs,
                                    .role = LX_TENSOR_MAP,
                                    .first = first,
                                    .all_cols = all_inputs});
}

void lx_mixer_add_array(lx_mixer_parts *p, const char *name, int64_t rows, int64_t cols)
{
    add_tensor(
        p, (lx_mixer_tensor){.name = name, .rows = rows, .cols = cols, .role = LX_TENSOR_ARRAY});
}

void lx_mixer_add_experts(lx_mixer_parts *p, const char *name, int32_t n_experts, int64_t outputs,
                          int64_t inputs)
{
    assert(n_experts == 1 || strchr(name, '*') != NULL);
    add_tensor(p, (lx_mixer_tensor){.name = name,
                                    .rows = n_experts * lx_expert_rows(outputs),
                                    .cols = inputs,
                                    .role = LX_TENSOR_MAP,
                                    .n_experts = n_experts,
                                    .expert_rows = outputs});
}

void lx_mixer_add_part_of(lx_mixer_parts *p, int32_t tensor, const char *name, int64_t part_row,
                          int64_t part_rows)
{
    lx_mixer_tensor *t = &p->tensors[tensor];
    assert(t->role == LX_TENSOR_MAP && t->block == 0 && t->all_cols == 0);
    t->part_of = name;
    t->part_row = part_row;
    t->part_rows = part_rows;
}

void lx_mixer_join(lx_mixer_parts *p, int32_t first, int32_t n)
{
    assert(n >= 1 && first + n <= p->n_tensors);
    for (int32_t i = first; i + 1 < first + n; i++) {
        assert(p->tensors[i].role == p->tensors[i + 1].role);
        assert(p->tensors[i].cols == p->tensors[i + 1].cols);
        p->tensors[i].joins_next = true;
    }
}

void lx_mixer_take_rows(lx_mixer_parts *p, int32_t tensor, int64_t first_row, int64_t block,
                        int64_t apart)
{
    lx_mixer_tensor *t = &p->tensors[tensor];
    assert(block > 0 && t->rows % block == 0 && first_row + block <= apart);
    t->first_row = first_row;
    t->block = block;
    t->apart = apart;
}

void lx_mixer_part_pairs(lx_mixer_parts *p, int32_t tensor, int64_t rows)
{
    lx_mixer_tensor *t = &p->tensors[tensor];
    assert(rows % 2 == 0 && rows <= t->block);
    t->pairs = rows / 2;
}

int32_t lx_mixer_file_tensors(const lx_mixer_tensor *t)
{
    return t->n_experts > 0 ? t->n_experts : 1;
}

void lx_mixer_tensor_name(const lx_mixer_parts *p, const lx_mixer_tensor *t, int32_t i,
                          char out[LX_MIXER_TENSOR_NAME])
{
    int before = (int)strcspn(t->name, "*");
    int n = snprintf(out, LX_MIXER_TENSOR_NAME, "layers.%d.%s%.*s", p->layer, p->prefix, before,
                     t->name);
    if (t->name[before] == '*')
        (void)snprintf(out + n, LX_MIXER_TENSOR_NAME - (size_t)n, "%d%s", i, t->name + before + 1);
}

int64_t lx_mixer_file_rows(const lx_mixer_tensor *t)
{
    if (t->n_experts > 0)
        return t->expert_rows;
    return t->block > 0 ? t->rows / t->block * t->apart : t->rows;
}

int64_t lx_mixer_file_row(const lx_mixer_tensor *t, int64_t i)
{
    if (t->block == 0)
        return i;
    int64_t at = i % t->block, first_pair = t->block - 2 * t->pairs, k = at - first_pair;
    if (k >= 0)
        at = first_pair + 2 * (k % t->pairs) + k / t->pairs;
    return i / t->block * t->apart + t->first_row + at;
}

int64_t lx_mixer_file_cols(const lx_mixer_tensor *t)
{
    return t->all_cols > 0 ? t->all_cols : t->cols;
}

void lx_mixer_add_derived(lx_mixer_parts *p, int32_t from, int32_t n_from, int64_t n,
                          lx_mixer_fill *fill)
{
    assert(p->n_derived < LX_MAX_MIXER_DERIVED && from + n_from <= p->n_tensors);
    for (int32_t i = 0; i < n_from; i++)
        assert(p->tensors[from + i].role == LX_TENSOR_ARRAY);
    p->derived[p->n_derived++] =
        (lx_mixer_derived){.from = from, .n_from = n_from, .n = n, .fill = fill};
}

void lx_mixer_add_derived_by(lx_mixer_parts *p, int32_t from, int64_t n, lx_mixer_fill *fill,
                             double number)
{
    lx_mixer_add_derived(p, from < 0 ? 0 : from, from < 0 ? 0 : 1, n, fill);
    p->derived[p->n_derived - 1].number = number;
}

static void fill_constant(const lx_mixer_config *c, const lx_mixer_parts *p,
                          const lx_mixer_derived *d, const float *from, float *to)
{
    (void)c, (void)p, (void)from;
    for (int64_t i = 0; i < d->n; i++)
        to[i] = (float)d->number;
}

void lx_mixer_add_constant(lx_mixer_parts *p, int64_t n, double number)
{
    lx_mixer_add_derived_by(p, -1, n, fill_constant, number);
}

static void add_field(lx_mixer_parts *p, lx_state_field field)
{
    assert(p->n_fields < LX_MAX_MIXER_FIELDS);
    p->fields[p->n_fields++] = field;
}

void lx_mixer_add_field(lx_mixer_parts *p, const char *name, int32_t rows, int32_t cols)
{
    add_field(p, (lx_state_field){name, rows, cols, false});
}

void lx_mixer_add_field_once(lx_mixer_parts *p, const char *name, int32_t rows, int32_t cols)
{
    add_field(p, (lx_state_field){name, rows, cols, true});
}

void lx_mixer_add_initial(lx_mixer_parts *p, const char *name)
{
    assert(p->n_heads > 0 && p->n_fields > 0 && !p->fields[0].once);
    p->has_initial = true;
    p->initial = p->n_tensors;
    lx_mixer_add_array(p, name, (int64_t)p->n_heads * p->fields[0].rows, p->fields[0].cols);
}

void lx_mixer_add_scratch(lx_mixer_parts *p, int64_t floats_per_row)
{
    assert(p->n_scratch < LX_MAX_MIXER_SCRATCH);
    p->scratch[p->n_scratch++] = floats_per_row;
}

void lx_mixer_add_rows(lx_mixer_parts *p, int32_t n_heads, int32_t d_key, int32_t d_value,
                       int32_t ring)
{
    assert(p->row_key == 0);
    p->n_heads = n_heads;
    p->row_key = d_key;
    p->row_value = d_value;
    p->ring = ring;
}

void lx_mixer_add_pattern_ring(lx_mixer_parts *p, int32_t n_heads, int32_t d_key, int32_t d_value,
                               const lx_rows_pattern *pattern)
{
    int32_t ring = 0;
    lx_status st = lx_rows_ring(pattern, 1, &ring, NULL);
    assert(st == LX_OK && ring > 0);
    (void)st;
    lx_mixer_add_rows(p, n_heads, d_key, d_value, ring);
    p->patterns[p->n_patterns++] = *pattern;
}

void lx_mixer_add_growing(lx_mixer_parts *p, int64_t floats_per_page)
{
    assert(p->row_key == 0);
    p->in_page = floats_per_page;
}

void lx_mixer_add_second_ring(lx_mixer_parts *p, const lx_rows_pattern *pattern)
{
    lx_status st = lx_rows_ring(pattern, 1, &p->second_ring, NULL);
    assert(st == LX_OK && p->ring > 0 && p->second_ring > 0);
    (void)st;
    p->second = *pattern;
}

static int64_t field_floats(const lx_mixer_parts *p, bool once)
{
    int64_t n = 0;
    for (int32_t i = 0; i < p->n_fields; i++) {
        if (p->fields[i].once == once)
            n += (int64_t)p->fields[i].rows * p->fields[i].cols;
    }
    return n;
}

static int64_t ring_floats(const lx_mixer_parts *p, int64_t ring)
{
    return p->n_heads * ring * (p->row_key + p->row_value);
}

int64_t lx_mixer_head_floats(const lx_mixer_parts *p)
{
    return field_floats(p, false);
}

int64_t lx_mixer_heads_floats(const lx_mixer_parts *p)
{
    return p->n_heads * field_floats(p, false);
}

int64_t lx_mixer_ring_floats(const lx_mixer_parts *p)
{
    return ring_floats(p, p->ring);
}

int64_t lx_mixer_fields_floats(const lx_mixer_parts *p)
{
    return lx_mixer_heads_floats(p) + field_floats(p, true);
}

int64_t lx_mixer_state_floats(const lx_mixer_parts *p)
{
    return lx_mixer_fields_floats(p) + ring_floats(p, (int64_t)p->ring + p->second_ring);
}

int64_t lx_mixer_page_floats(const lx_mixer_parts *p)
{
    int64_t row = (int64_t)p->row_key + p->row_value;
    return p->in_page + (p->ring > 0 ? 0 : LX_PAGE_TOKENS * p->n_heads * row);
}

void lx_mixer_product(const lx_mixer_call *call, lx_array *y, const lx_array *x, int32_t weight,
                      lx_activation activation, const lx_array *residual)
{
    call->be->ops->linear(call->be, &(lx_linear_args){.y = y,
                                                      .x = x,
                                                      .w = call->weights[weight],
                                                      .activation = activation,
                                                      .residual = residual,
                                                      .rows = call->rows});
}

static void gather(const lx_mixer_call *call, lx_array *y, const lx_array *x, int32_t n)
{
    call->be->ops->gather(call->be, &(lx_gather_args){.y = y, .x = x, .d = n, .width = n});
}

bool lx_mixer_rest(const lx_mixer_call *call, lx_mixer_call *rest)
{
    *rest = *call;
    if (call->outputs == NULL)
        return true;
    if (call->n_outputs == 0)
        return false;
    rest->rows = LX_ROWS_OUTPUTS;
    rest->residual = call->outputs;
    gather(call, call->outputs, call->residual, call->config->d_model);
    return true;
}

const lx_array *lx_mixer_rest_rows(const lx_mixer_call *rest, const lx_array *x, int32_t n,
                                   lx_array *spare)
{
    if (rest->rows == LX_ROWS_TOKENS)
        return x;
    gather(rest, spare, x, n);
    return spare;
}

void lx_mixer_end(const lx_mixer_call *call, const lx_array *x, int32_t weight, lx_array *spare)
{
    lx_mixer_call rest;
    if (!lx_mixer_rest(call, &rest))
        return;
    int32_t n = (int32_t)call->parts->tensors[weight].cols;
    lx_mixer_product(&rest, rest.residual, lx_mixer_rest_rows(&rest, x, n, spare), weight,
                     LX_ACT_NONE, rest.residual);
}

void lx_mixer_queue_attention(const lx_mixer_call *call, int32_t out,
                              void (*attend)(const lx_mixer_call *call))
{
    lx_mixer_product(call, call->scratch[0], call->x, 0, LX_ACT_NONE, NULL);
    attend(call);
    lx_mixer_end(call, call->scratch[1], out, call->scratch[0]);
}
