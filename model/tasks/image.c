/*
 * The image task: see image.h for the sequence and its input streams.
 *
 * A plan keeps the given values. A step's inputs are values of the raster, given or generated, so
 * one function looks any of them up, also for the prompt's rows.
 */
#include "model/tasks/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_reader.h"
#include "model/formats/png.h"
#include "model/model_files.h"

enum { VALUES = 256 /* of 8 bits */, MAX_SIDE = 4096, MAX_HEIGHT = 1 << 16, MAX_VALUES = 1 << 20 };

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
    int32_t n_given, class_number;       /* see lx_image_request */
    const stream *inputs[LX_MAX_INPUTS]; /* in the order of the config */
    uint8_t given[];                     /* levels */
} raster;

/* --- config.json --- */

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

static void take_classes(lx_config_reader *r, lx_config_object s, lx_image_config *c)
{
    size_t n = lx_config_count(r, s, "classes");
    if (n < 1 || n > LX_MAX_CLASSES)
        lx_config_wrong(r, s, "classes", "must be a list of 1 to 100 texts");
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        const char *text = lx_config_text_at(s, "classes", i);
        if (text != NULL && are_class_names(text))
            memcpy(c->classes[c->n_classes++], text, strlen(text) + 1);
        else
            lx_config_wrong(
                r, s, "classes",
                "must hold texts of 1 to 63 bytes: a class's names in lower case, with single "
                "spaces between");
    }
    if (r->st == LX_OK)
        lx_config_release(s, "classes");
}

static void take_palette(lx_config_reader *r, lx_config_object s, lx_image_config *c)
{
    static const lx_config_list list = {2,
                                        LX_MAX_PALETTE,
                                        0,
                                        UINT8_MAX,
                                        true,
                                        "must be a list of 2 to 256 whole numbers of 0 to 255, "
                                        "each above the one before it"};
    int32_t values[LX_MAX_PALETTE];
    c->n_palette = lx_config_ints(r, s, "palette", &list, values);
    for (int32_t i = 0; i < c->n_palette; i++)
        c->palette[i] = (uint8_t)values[i];
}

static void read_config(lx_config_reader *r, lx_config_object s, lx_config *config)
{
    lx_image_config *c = lx_image_own(config);
    lx_config_object i = lx_config_section(r, s, "image", "image.");
    c->width = lx_config_int(r, i, "width", 1, MAX_SIDE);
    c->height = lx_config_int(r, i, "height", 1, MAX_HEIGHT);
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

int32_t lx_image_size(const lx_config *config)
{
    const lx_image_config *c = lx_image_of(config);
    return c->width * c->height * c->n_channels;
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

/* Rows after which a picture of a strip ends. The next picture's inputs are those of a single
 * picture: only the state knows the pictures above. */
static int32_t period_of(const lx_image_config *c)
{
    return c->period > 0 ? c->period : c->height;
}

static int32_t levels_of(const lx_image_config *c)
{
    return c->n_palette > 0 ? c->n_palette : VALUES;
}

static int32_t stream_size(const lx_image_config *c, stream_kind kind)
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
    const lx_image_config *own = lx_image_of(c);
    bool has_token = false, has_class = false;
    for (int32_t i = 0; i < c->n_inputs; i++) {
        const stream *s = find_stream(c->inputs[i].name);
        if (s == NULL)
            return lx_fail(err, LX_ERR_FORMAT, "inputs",
                           "config.json: inputs: the image task has no input %s (token, w, ww, n, "
                           "nw, ne, nn, row, column, channel, position, class)",
                           c->inputs[i].name);
        if (c->inputs[i].size != stream_size(own, s->kind))
            return lx_fail(err, LX_ERR_FORMAT, "inputs",
                           "config.json: inputs: %s: size %d, but this image needs %d", s->name,
                           c->inputs[i].size, stream_size(own, s->kind));
        has_token = has_token || s->kind == TOKEN;
        has_class = has_class || s->kind == CLASS;
    }
    if (has_class != (own->n_classes > 0))
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
    int32_t levels = levels_of(lx_image_of(c));
    if (model->vocab != NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "vocab.txt: the image task has no vocabulary");
    if (c->n_values != levels)
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       "config.json: head: %d values, but an image has %d", c->n_values, levels);
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

static int32_t neighbour(const lx_image_config *c, const raster *r, const int32_t *tokens,
                         int32_t t, const stream *s)
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
    const lx_image_config *c = lx_image_of(&plan->model->config);
    const raster *r = plan->data;
    int32_t pixel = t / c->n_channels;
    for (int32_t i = 0; i < plan->model->config.n_inputs; i++) {
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

static uint8_t value_of(const lx_image_config *c, int32_t level)
{
    return c->n_palette > 0 ? c->palette[level] : (uint8_t)level;
}

static lx_status check_class(const lx_image_config *c, int32_t class_number, lx_error *err)
{
    if (class_number <= c->n_classes)
        return LX_OK;
    return c->n_classes == 0
               ? lx_fail(err, LX_ERR_INVALID, "class", "this model has no classes")
               : lx_fail(err, LX_ERR_INVALID, "class", "class must be 0 to %d", c->n_classes - 1);
}

static lx_status check_request(const lx_config *config, const lx_task_request *request,
                               const lx_image_request *own, lx_error *err)
{
    int32_t size = lx_image_size(config);
    if (request->text != NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "this model makes images: it cannot be asked with text");
    lx_status st = check_class(lx_image_of(config), own->class_number, err);
    if (st != LX_OK)
        return st;
    if (own->n_values < 0 || own->n_values > size)
        return lx_fail(err, LX_ERR_INVALID, "image", "%d values are given, an image has %d",
                       own->n_values, size);
    if (own->n_values == size)
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
    static const lx_image_request nothing_asked;
    const lx_config *c = &plan->model->config;
    const lx_image_request *own = lx_task_own(request, &lx_image_task);
    own = own != NULL ? own : &nothing_asked;
    lx_status st = check_request(c, request, own, err);
    if (st != LX_OK)
        return st;
    size_t n = (size_t)own->n_values;
    raster *r = malloc(sizeof *r + n);
    plan->data = r;
    plan->n_prompt = own->n_values + 1;
    plan->n_new = lx_image_size(c) - own->n_values;
    plan->runs_ahead = true;
    plan->prompt_ids = calloc((n + 1) * (size_t)c->n_inputs, sizeof *plan->prompt_ids);
    if (r == NULL || plan->prompt_ids == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an image");
    r->n_given = own->n_values;
    r->class_number = own->class_number;
    for (size_t i = 0; i < n; i++)
        r->given[i] = (uint8_t)lx_image_level(c, own->values[i]);
    for (int32_t i = 0; i < c->n_inputs; i++)
        r->inputs[i] = find_stream(c->inputs[i].name);
    static const int32_t nothing[1]; /* a prompt's row looks at given values only */
    for (int32_t t = 0; t < plan->n_prompt; t++)
        put_row(plan, t, nothing, plan->prompt_ids + (size_t)t * (size_t)c->n_inputs);
    return LX_OK;
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
    const lx_image_config *c = lx_image_of(&plan->model->config);
    uint8_t class_index = (uint8_t)(r->class_number - 1); /* LX_MAX_CLASSES fit */
    if (r->class_number > 0)
        lx_buffer_append(out, &class_index, 1);
    for (int32_t i = 0; i < r->n_given; i++) {
        uint8_t value = value_of(c, r->given[i]);
        lx_buffer_append(out, &value, 1);
    }
    return r->class_number > 0;
}

static lx_status replan(lx_plan *plan, const void *bytes, size_t n, bool flag, bool ignore_end,
                        lx_error *err)
{
    (void)ignore_end;
    const uint8_t *values = bytes;
    if (flag && n == 0)
        return lx_fail(err, LX_ERR_INVALID, "state",
                       "the state lacks the class that it begins with");
    lx_image_request own = {.values = values, .n_values = (int32_t)n};
    if (flag)
        own = (lx_image_request){
            .class_number = values[0] + 1, .values = values + 1, .n_values = (int32_t)n - 1};
    const lx_task_request request = {.own_of = &lx_image_task, .own = &own};
    return plan_init(plan, &request, err);
}

static void card(const lx_model *model, lx_task_card *card)
{
    const lx_image_config *c = lx_image_of(&model->config);
    lx_card_add(card, (lx_card_field){"period", LX_CARD_INT, .number = period_of(c)});
    lx_card_add(card, (lx_card_field){"width", LX_CARD_INT, .number = c->width});
    lx_card_add(card, (lx_card_field){"height", LX_CARD_INT, .number = c->height});
    lx_card_add(card, (lx_card_field){"channels", LX_CARD_INT, .number = c->n_channels});
    lx_card_add(card, (lx_card_field){"classes", LX_CARD_WORDS, .text = c->classes[0],
                                      .apart = sizeof c->classes[0], .n = c->n_classes});
}

const lx_task_ops lx_image_task = {
    .name = "image",
    .modality = LX_IMAGE,
    .read_config = read_config,
    .load = lx_model_read_vocab,
    .card = card,
    .check_model = check_model,
    .max_rows = max_rows,
    .fill_mask = fill_mask,
    .plan_init = plan_init,
    .restate = restate,
    .replan = replan,
    .score_name = "bits_per_dim",
    .score_unit = M_LN2,
    .input = input,
    .constrain = constrain,
};

/* --- rasters --- */

int32_t lx_image_level(const lx_config *config, uint8_t value)
{
    const lx_image_config *c = lx_image_of(config);
    const uint8_t *p = c->palette;
    int32_t low = 0, high = c->n_palette - 1; /* the first value that is not below, if any */
    if (c->n_palette == 0)
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

lx_status lx_image_set_class(lx_plan *plan, int32_t at, int32_t class_number, lx_error *err)
{
    const lx_image_config *c = lx_image_of(&plan->model->config);
    raster *r = plan->data;
    lx_status st = check_class(c, class_number, err);
    if (st == LX_OK && (at == 0 || at % stream_size(c, POSITION) != 0))
        st = lx_fail(err, LX_ERR_INVALID, "class", "the state's picture has its class already");
    if (st == LX_OK)
        r->class_number = class_number;
    return st;
}

void lx_image_values(const lx_plan *plan, const int32_t *tokens, int32_t from, int32_t to,
                     uint8_t *out)
{
    const lx_image_config *c = lx_image_of(&plan->model->config);
    for (int32_t i = from; i < to; i++)
        out[i - from] = value_of(c, level_at(plan->data, tokens, i));
}

int32_t lx_image_kept(const lx_config *config, const uint8_t *keep)
{
    const lx_image_config *c = lx_image_of(config);
    int32_t n_pixels = c->width * c->height, kept = 0;
    while (kept < n_pixels && keep[kept] != 0)
        kept++;
    for (int32_t i = kept; i < n_pixels; i++) {
        if (keep[i] != 0)
            return -1;
    }
    return kept * c->n_channels;
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
    const lx_image_config *c = lx_image_of(config);
    int32_t found = 0;
    for (int32_t i = 0; i < c->n_classes; i++) {
        if (!names_class(text, n_bytes, c->classes[i]))
            continue;
        if (found > 0)
            return 0;
        found = i + 1;
    }
    return found;
}

/* --- uploaded pictures --- */

static lx_status read_png(const lx_image_config *c, lx_png_file file, const char *param,
                          lx_picture *out, lx_error *err)
{
    lx_picture_limits limits = {
        .width = c->width, .height = c->height, .n_channels = c->n_channels};
    return lx_png_read(file.data, file.bytes, &limits, param, out, err);
}

static lx_status check_size(const lx_image_config *c, const lx_picture *p, bool fewer_rows,
                            const char *param, lx_error *err)
{
    if (p->width == c->width && (p->height == c->height || (fewer_rows && p->height < c->height)))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, param, "%s is %dx%d, the model paints %dx%d", param,
                   p->width, p->height, c->width, c->height);
}

lx_status lx_picture_read(const lx_config *config, lx_png_file image, uint8_t **values,
                          lx_error *err)
{
    const lx_image_config *c = lx_image_of(config);
    lx_picture p = {.width = 0};
    lx_status st = read_png(c, image, "image", &p, err);
    if (st == LX_OK)
        st = check_size(c, &p, false, "image", err);
    if (st == LX_OK) {
        *values = p.values;
        p.values = NULL;
    }
    lx_picture_fini(&p);
    return st;
}

/* keep[width * height]: the pixels that an image without a mask keeps. */
static lx_status keep_of_image(const lx_image_config *c, const lx_picture *image, uint8_t *keep,
                               lx_error *err)
{
    if (image->alpha == NULL && image->height == c->height)
        return lx_fail(err, LX_ERR_INVALID, "mask",
                       "the kept pixels are not known: send a mask, an image with transparent "
                       "pixels, or an image of fewer rows");
    int32_t n = image->width * image->height;
    for (int32_t i = 0; i < n; i++)
        keep[i] = image->alpha == NULL || image->alpha[i] != 0;
    return LX_OK;
}

static lx_status keep_of_mask(const lx_image_config *c, lx_png_file file, const lx_picture *image,
                              uint8_t *keep, lx_error *err)
{
    lx_picture mask = {.width = 0};
    lx_status st = check_size(c, image, false, "image", err);
    if (st == LX_OK)
        st = read_png(c, file, "mask", &mask, err);
    if (st == LX_OK)
        st = check_size(c, &mask, false, "mask", err);
    if (st == LX_OK && mask.alpha == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "mask",
                     "mask has no alpha channel; the model paints its transparent pixels");
    for (int32_t i = 0; st == LX_OK && i < c->width * c->height; i++)
        keep[i] = mask.alpha[i] != 0;
    lx_picture_fini(&mask);
    return st;
}

static lx_status count_kept(const lx_config *c, const uint8_t *keep, int32_t *n_values,
                            lx_error *err)
{
    int32_t n = lx_image_kept(c, keep);
    if (n < 0)
        return lx_fail(err, LX_ERR_INVALID, "mask",
                       "mask: the kept pixels must be the first pixels of the image, row by row, "
                       "without a gap");
    if (n == lx_image_size(c))
        return lx_fail(err, LX_ERR_INVALID, "mask",
                       "mask: every pixel is kept, nothing is left to paint");
    *n_values = n;
    return LX_OK;
}

lx_status lx_picture_read_prefix(const lx_config *config, lx_png_file image, lx_png_file mask,
                                 uint8_t **values, int32_t *n_values, lx_error *err)
{
    const lx_image_config *c = lx_image_of(config);
    lx_picture p = {.width = 0};
    uint8_t *keep = calloc((size_t)c->width * (size_t)c->height, 1);
    lx_status st = keep != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory");
    if (st == LX_OK)
        st = read_png(c, image, "image", &p, err);
    if (st == LX_OK)
        st = check_size(c, &p, true, "image", err);
    if (st == LX_OK)
        st = mask.data != NULL ? keep_of_mask(c, mask, &p, keep, err)
                               : keep_of_image(c, &p, keep, err);
    if (st == LX_OK)
        st = count_kept(config, keep, n_values, err);
    if (st == LX_OK) {
        *values = p.values;
        p.values = NULL;
    }
    lx_picture_fini(&p);
    free(keep);
    return st;
}
