/*
 * The image task: see image.h for the sequence and its input streams.
 *
 * A plan keeps the given values. A step's inputs are values of the raster, given or generated, so
 * one function looks any of them up, and the prompt's rows are made by the same code as the others.
 */
#include "model/tasks/image.h"

#include <stdlib.h>
#include <string.h>

enum { VALUES = 256 }; /* of 8 bits */

typedef enum stream_kind { TOKEN, NEIGHBOUR, ROW, COLUMN, CHANNEL, POSITION, CLASS } stream_kind;

typedef struct stream {
    const char *name;
    stream_kind kind;
    int32_t dy, dx; /* NEIGHBOUR */
} stream;

static const stream streams[] = {
    {"token", TOKEN, 0, 0},     {"w", NEIGHBOUR, 0, -1},      {"ww", NEIGHBOUR, 0, -2},
    {"n", NEIGHBOUR, -1, 0},    {"nw", NEIGHBOUR, -1, -1},    {"ne", NEIGHBOUR, -1, 1},
    {"nn", NEIGHBOUR, -2, 0},   {"row", ROW, 0, 0},           {"column", COLUMN, 0, 0},
    {"channel", CHANNEL, 0, 0}, {"position", POSITION, 0, 0}, {"class", CLASS, 0, 0},
};

typedef struct raster {
    int32_t n_given, class_number;       /* see lx_task_request */
    const stream *inputs[LX_MAX_INPUTS]; /* in the order of the config */
    uint8_t given[];                     /* levels */
} raster;

int32_t lx_image_size(const lx_config *config)
{
    return config->width * config->height * config->n_channels;
}

/* --- the model --- */

static const stream *find_stream(const char *name)
{
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        if (strcmp(streams[i].name, name) == 0)
            return &streams[i];
    }
    return NULL;
}

/* Rows after which a picture of a strip ends. The next one's inputs are what they would be alone:
   only the state knows of what stands above. */
static int32_t period_of(const lx_config *c)
{
    return c->period > 0 ? c->period : c->height;
}

static int32_t levels_of(const lx_config *c)
{
    return c->n_palette > 0 ? c->n_palette : VALUES;
}

static int32_t stream_size(const lx_config *c, stream_kind kind)
{
    switch (kind) {
    case TOKEN:
    case NEIGHBOUR:
        return levels_of(c) + 1;
    case ROW:
        return period_of(c);
    case COLUMN:
        return c->width;
    case CHANNEL:
        return c->n_channels;
    case POSITION:
        return c->width * period_of(c) * c->n_channels;
    case CLASS:
        break;
    }
    return c->n_classes + 1;
}

static lx_status check_inputs(const lx_config *c, lx_error *err)
{
    bool has_token = false, has_class = false;
    for (int32_t i = 0; i < c->n_inputs; i++) {
        const stream *s = find_stream(c->inputs[i].name);
        if (s == NULL)
            return lx_fail(err, LX_ERR_FORMAT, "inputs",
                           "config.json: inputs: the image task has no input %s (token, w, ww, n, "
                           "nw, ne, nn, row, column, channel, position, class)",
                           c->inputs[i].name);
        if (c->inputs[i].size != stream_size(c, s->kind))
            return lx_fail(err, LX_ERR_FORMAT, "inputs",
                           "config.json: inputs: %s: size %d, but this image needs %d", s->name,
                           c->inputs[i].size, stream_size(c, s->kind));
        has_token = has_token || s->kind == TOKEN;
        has_class = has_class || s->kind == CLASS;
    }
    if (has_class != (c->n_classes > 0))
        return lx_fail(err, LX_ERR_FORMAT, "inputs",
                       "config.json: the input class and image.classes belong together");
    if (!has_token)
        return lx_fail(err, LX_ERR_FORMAT, "inputs",
                       "config.json: inputs: the image task needs the input token");
    return LX_OK;
}

static lx_status check_model(const lx_model *model, lx_error *err)
{
    const lx_config *c = &model->config;
    if (model->vocab != NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: the image task has no vocabulary");
    if (c->n_values != levels_of(c))
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       "config.json: head: %d values, but an image has %d", c->n_values,
                       levels_of(c));
    return check_inputs(c, err);
}

static void fill_mask(const lx_model *model, int32_t mask_idx, uint8_t *banned)
{
    (void)mask_idx;
    memset(banned, 0, (size_t)model->config.n_values);
}

/* --- the plan --- */

/* The level of value i of the raster, given or generated. */
static int32_t level_at(const raster *r, const int32_t *tokens, int32_t i)
{
    return i < r->n_given ? r->given[i] : tokens[i - r->n_given];
}

static int32_t neighbour(const lx_config *c, const raster *r, const int32_t *tokens, int32_t t,
                         const stream *s)
{
    int32_t channel = t % c->n_channels, pixel = t / c->n_channels;
    int32_t y = pixel / c->width + s->dy, x = pixel % c->width + s->dx;
    if (pixel / c->width % period_of(c) + s->dy < 0 || x < 0 || x >= c->width)
        return levels_of(c);
    return level_at(r, tokens, (y * c->width + x) * c->n_channels + channel);
}

/* The input row from which value t is predicted. */
static void put_row(const lx_plan *plan, int32_t t, const int32_t *tokens, int32_t *ids)
{
    const lx_config *c = &plan->model->config;
    const raster *r = plan->data;
    int32_t pixel = t / c->n_channels;
    for (int32_t i = 0; i < c->n_inputs; i++) {
        const stream *s = r->inputs[i];
        switch (s->kind) {
        case TOKEN:
            ids[i] = t % stream_size(c, POSITION) > 0 ? level_at(r, tokens, t - 1) : levels_of(c);
            break;
        case NEIGHBOUR:
            ids[i] = neighbour(c, r, tokens, t, s);
            break;
        case ROW:
            ids[i] = pixel / c->width % period_of(c);
            break;
        case COLUMN:
            ids[i] = pixel % c->width;
            break;
        case CHANNEL:
            ids[i] = t % c->n_channels;
            break;
        case POSITION:
            ids[i] = t % stream_size(c, POSITION);
            break;
        case CLASS:
            ids[i] = r->class_number > 0 ? r->class_number - 1 : c->n_classes;
            break;
        }
    }
}

static uint8_t value_of(const lx_config *c, int32_t level)
{
    return c->n_palette > 0 ? c->palette[level] : (uint8_t)level;
}

static lx_status check_request(const lx_config *c, const lx_task_request *request, lx_error *err)
{
    int32_t size = lx_image_size(c);
    if (request->text != NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "this model makes images: it cannot be asked with text");
    if (request->class_number > c->n_classes)
        return c->n_classes == 0
                   ? lx_fail(err, LX_ERR_INVALID, "class", "this model has no classes")
                   : lx_fail(err, LX_ERR_INVALID, "class", "class must be 0 to %d",
                             c->n_classes - 1);
    if (request->n_values < 0 || request->n_values > size)
        return lx_fail(err, LX_ERR_INVALID, "image", "%d values are given, an image has %d",
                       request->n_values, size);
    if (request->n_values == size)
        return lx_fail(err, LX_ERR_INVALID, "image",
                       "the whole image is given: nothing is left to paint");
    return LX_OK;
}

static int32_t max_rows(const lx_model *model)
{
    return lx_image_size(&model->config);
}

static lx_status plan_init(lx_plan *plan, const lx_task_request *request, lx_error *err)
{
    const lx_config *c = &plan->model->config;
    lx_status st = check_request(c, request, err);
    if (st != LX_OK)
        return st;
    size_t n = (size_t)request->n_values;
    raster *r = malloc(sizeof *r + n);
    plan->data = r;
    plan->n_prompt = request->n_values + 1;
    plan->n_new = lx_image_size(c) - request->n_values;
    plan->runs_ahead = true;
    plan->prompt_ids = calloc((n + 1) * (size_t)c->n_inputs, sizeof *plan->prompt_ids);
    if (r == NULL || plan->prompt_ids == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an image");
    r->n_given = request->n_values;
    r->class_number = request->class_number;
    for (size_t i = 0; i < n; i++)
        r->given[i] = (uint8_t)lx_image_level(c, request->values[i]);
    for (int32_t i = 0; i < c->n_inputs; i++)
        r->inputs[i] = find_stream(c->inputs[i].name);
    static const int32_t nothing[1]; /* a prompt's row looks at given values only */
    for (int32_t t = 0; t < plan->n_prompt; t++)
        put_row(plan, t, nothing, plan->prompt_ids + (size_t)t * (size_t)c->n_inputs);
    return LX_OK;
}

static void plan_fini(lx_plan *plan)
{
    free(plan->data);
}

static void input(const lx_plan *plan, int32_t step, const int32_t *tokens, int32_t *ids)
{
    put_row(plan, plan->n_prompt + step, tokens, ids);
}

static void constrain(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_constraint *out)
{
    (void)plan;
    (void)step;
    (void)tokens;
    out->forced = -1;
    out->use_mask = false;
    out->n_banned = 0;
}

static bool restate(const lx_plan *plan, lx_buffer *out)
{
    const raster *r = plan->data;
    const lx_config *c = &plan->model->config;
    uint8_t class_index = (uint8_t)(r->class_number - 1); /* LX_MAX_CLASSES fit */
    if (r->class_number > 0)
        lx_buffer_append(out, &class_index, 1);
    for (int32_t i = 0; i < r->n_given; i++) {
        uint8_t value = value_of(c, r->given[i]);
        lx_buffer_append(out, &value, 1);
    }
    return r->class_number > 0;
}

static lx_status reread(const void *bytes, size_t n, bool flag, lx_task_request *request,
                        lx_error *err)
{
    const uint8_t *values = bytes;
    if (flag && n == 0)
        return lx_fail(err, LX_ERR_INVALID, "state",
                       "the state lacks the class that it begins with");
    if (flag)
        *request = (lx_task_request){
            .class_number = values[0] + 1, .values = values + 1, .n_values = (int32_t)n - 1};
    else
        *request = (lx_task_request){.values = values, .n_values = (int32_t)n};
    return LX_OK;
}

const lx_task_ops lx_image_task = {
    .name = "image",
    .modality = LX_IMAGE,
    .check_model = check_model,
    .max_rows = max_rows,
    .n_masks = 0,
    .fill_mask = fill_mask,
    .plan_init = plan_init,
    .plan_fini = plan_fini,
    .restate = restate,
    .reread = reread,
    .input = input,
    .constrain = constrain,
    .render = NULL,
};

/* --- rasters --- */

int32_t lx_image_level(const lx_config *config, uint8_t value)
{
    const uint8_t *p = config->palette;
    int32_t low = 0, high = config->n_palette - 1; /* the first value that is not below, if any */
    if (config->n_palette == 0)
        return value;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (p[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && value - p[low - 1] <= p[low] - value ? low - 1 : low;
}

int32_t lx_image_given(const lx_plan *plan)
{
    return ((const raster *)plan->data)->n_given;
}

int32_t lx_image_class(const lx_plan *plan)
{
    return ((const raster *)plan->data)->class_number;
}

void lx_image_values(const lx_plan *plan, const int32_t *tokens, int32_t from, int32_t to,
                     uint8_t *out)
{
    const lx_config *c = &plan->model->config;
    for (int32_t i = from; i < to; i++)
        out[i - from] = value_of(c, level_at(plan->data, tokens, i));
}

int32_t lx_image_kept(const lx_config *config, const uint8_t *keep)
{
    int32_t n_pixels = config->width * config->height, kept = 0;
    while (kept < n_pixels && keep[kept] != 0)
        kept++;
    for (int32_t i = kept; i < n_pixels; i++) {
        if (keep[i] != 0)
            return -1;
    }
    return kept * config->n_channels;
}

/* --- classes --- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_word(char c)
{
    c = lower(c);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Whether the name stands at `at`, as a whole word where it begins or ends like one. */
static bool stands_at(const char *text, size_t n_bytes, size_t at, const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at + i >= n_bytes || lower(text[at + i]) != name[i])
            return false;
    bool open_left = at == 0 || !is_word(name[0]) || !is_word(text[at - 1]);
    bool open_right = at + n == n_bytes || !is_word(name[n - 1]) || !is_word(text[at + n]);
    return open_left && open_right;
}

static bool names_class(const char *text, size_t n_bytes, const char *names)
{
    for (size_t n; names[0] != '\0'; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        for (size_t at = 0; at < n_bytes; at++)
            if (stands_at(text, n_bytes, at, names, n))
                return true;
    }
    return false;
}

int32_t lx_image_find_class(const lx_config *config, const char *text, size_t n_bytes)
{
    int32_t found = 0;
    for (int32_t i = 0; i < config->n_classes; i++) {
        if (!names_class(text, n_bytes, config->classes[i]))
            continue;
        if (found > 0)
            return 0;
        found = i + 1;
    }
    return found;
}
