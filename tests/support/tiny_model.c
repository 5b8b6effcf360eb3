/*
 * Writes the model folder described in tiny_model.h. One pass builds the safetensors header and the
 * list of tensors. Data are f32 from a fixed generator (splitmix64), scaled by the number of
 * columns so that activations neither vanish nor explode.
 */
#include "tests/support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/config.h"
#include "model/utf8.h"

const tiny_model_options tiny_model_default = {.n_vocab = 300,
                                               .n_layers = 2,
                                               .n_heads = 4,
                                               .d_model = 32,
                                               .d_ff = 64,
                                               .max_chars = 32,
                                               .seed = 1};

const tiny_model_options tiny_model_image = {.n_layers = 2,
                                             .n_heads = 4,
                                             .d_model = 32,
                                             .d_ff = 64,
                                             .width = 8,
                                             .height = 6,
                                             .n_channels = 1,
                                             .seed = 2};

enum { LEVELS = 256, COMPONENTS = 3, MAX_INPUTS = 5 };

static const char *const files[] = {"config.json", "model.safetensors", "vocab.txt"};

static FILE *create(const char *dir, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return fopen(path, "wb");
}

static bool finish(FILE *f)
{
    bool ok = ferror(f) == 0;
    return fclose(f) == 0 && ok;
}

/* --- vocab.txt --- */

static const char fixed[] =
    "，、？！；：-…A7"
    "海上明月春风花雨山水天地人心一二三千里云中日年江河红绿大小高低来去不无有";

static bool is_fixed(uint32_t codepoint)
{
    size_t pos = 0;
    while (pos < sizeof fixed - 1) {
        if ((uint32_t)lx_utf8_next(fixed, sizeof fixed - 1, &pos) == codepoint)
            return true;
    }
    return false;
}

bool tiny_model_write_vocab(const char *path, int32_t n_vocab)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return false;
    (void)fputs("<unk>\n<s>\n<sep>\n<none>\n", f);
    int32_t n = 4;
    for (size_t pos = 0; pos < sizeof fixed - 1 && n < n_vocab; n++) {
        size_t begin = pos;
        (void)lx_utf8_next(fixed, sizeof fixed - 1, &pos);
        (void)fprintf(f, "%.*s\n", (int)(pos - begin), fixed + begin);
    }
    for (uint32_t c = 0x4e00; n < n_vocab; c++) {
        char text[4];
        if (is_fixed(c))
            continue;
        (void)fprintf(f, "%.*s\n", (int)lx_utf8_put(c, text), text);
        n++;
    }
    return finish(f);
}

/* --- config.json --- */

typedef struct input {
    const char *name;
    int32_t size;
} input;

static int32_t list_inputs(const tiny_model_options *o, input *inputs)
{
    if (o->width == 0) {
        inputs[0] = (input){"token", o->n_vocab};
        inputs[1] = (input){"position", o->max_chars + 1};
        inputs[2] = (input){"countdown", o->max_chars + 1};
        inputs[3] = (input){"mirror", o->n_vocab};
        return 4;
    }
    inputs[0] = (input){"token", LEVELS + 1};
    inputs[1] = (input){"n", LEVELS + 1};
    inputs[2] = (input){"row", o->height};
    inputs[3] = (input){"column", o->width};
    inputs[4] = (input){"channel", o->n_channels};
    return o->n_channels > 1 ? 5 : 4;
}

static void write_task(FILE *f, const tiny_model_options *o)
{
    if (o->width == 0)
        (void)fprintf(f,
                      " \"head\": {\"kind\": \"categorical\", \"size\": %d}, \"max_chars\": %d}\n",
                      o->n_vocab, o->max_chars);
    else
        (void)fprintf(f,
                      " \"head\": {\"kind\": \"logistic_mixture\", \"components\": %d, \"levels\": "
                      "%d},\n \"image\": {\"width\": %d, \"height\": %d, \"channels\": %d}}\n",
                      COMPONENTS, LEVELS, o->width, o->height, o->n_channels);
}

static const char linear_attention[] =
    "{\"kind\": \"linear\", \"feature_map\": \"elu+1\", \"eps\": 1e-06}";

static bool write_config(const char *dir, const tiny_model_options *o)
{
    input inputs[MAX_INPUTS];
    int32_t n = list_inputs(o, inputs);
    FILE *f = create(dir, files[0]);
    if (f == NULL)
        return false;
    (void)fprintf(f,
                  "{\"format\": \"linnet\", \"format_version\": 1, \"task\": \"%s\",\n"
                  " \"n_layers\": %d, \"n_heads\": %d, \"d_model\": %d, \"d_ff\": %d,\n"
                  " \"norm\": \"%s\", \"norm_eps\": 1e-05, \"activation\": \"gelu\",\n"
                  " \"attention\": %s,\n",
                  o->width == 0 ? "couplet" : "image", o->n_layers, o->n_heads, o->d_model, o->d_ff,
                  o->wiring != NULL ? o->wiring : "pre",
                  o->attention != NULL ? o->attention : linear_attention);
    if (o->feed_forward != NULL)
        (void)fprintf(f, " \"feed_forward\": %s,\n", o->feed_forward);
    if (o->input_norm)
        (void)fprintf(f, " \"input_norm\": true,\n");
    if (o->rms_norm)
        (void)fprintf(f, " \"norm_kind\": \"rms\",\n");
    (void)fprintf(f, " \"inputs\": [");
    for (int32_t i = 0; i < n; i++)
        (void)fprintf(f, "%s{\"name\": \"%s\", \"size\": %d}", i > 0 ? ",\n            " : "",
                      inputs[i].name, inputs[i].size);
    (void)fprintf(f, "],\n");
    write_task(f, o);
    return finish(f);
}

/* --- model.safetensors --- */

enum { MAX_HEADER = 1 << 16 };

/* One pass names the tensors in the header, a second one with the same calls writes their data. */
typedef struct writer {
    FILE *data; /* NULL in the first pass */
    char *header;
    size_t n_header, offset;
    uint64_t state;
} writer;

static float next_uniform(writer *w) /* -1 .. 1 */
{
    uint64_t z = w->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (float)(z >> 40) * 0x1p-23f - 1.0f;
}

/* rows = 0: a vector of `cols`. Values: mean + scale * uniform. */
static void tensor(writer *w, const char *name, int32_t rows, int32_t cols, float mean, float scale)
{
    size_t n = (size_t)(rows > 0 ? rows : 1) * (size_t)cols, end = w->offset + n * sizeof(float);
    char shape[48];
    if (rows > 0)
        (void)snprintf(shape, sizeof shape, "[%d,%d]", rows, cols);
    else
        (void)snprintf(shape, sizeof shape, "[%d]", cols);
    if (w->data == NULL) {
        int k = snprintf(w->header + w->n_header, MAX_HEADER - w->n_header,
                         "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                         w->n_header > 1 ? "," : "", name, shape, w->offset, end);
        w->n_header += (size_t)k;
    }
    for (size_t i = 0; w->data != NULL && i < n; i++) {
        float x = mean + scale * next_uniform(w);
        (void)fwrite(&x, sizeof x, 1, w->data);
    }
    w->offset = end;
}

/* The tensors that a mixer declares. */
static void parameters(writer *w, const char *prefix, const lx_mixer_tensor *t)
{
    char name[96];
    int32_t rows = (int32_t)lx_mixer_file_rows(t), cols = (int32_t)lx_mixer_file_cols(t);
    if (t->first > 0 || t->first_row > 0) /* written with the first part */
        return;
    (void)snprintf(name, sizeof name, "%s%s", prefix, t->role == LX_TENSOR_ARRAY ? "" : ".weight");
    if (t->role == LX_TENSOR_ARRAY)
        tensor(w, name, rows, cols, 0.5f, 0.5f);
    else
        tensor(w, name, rows, cols, 0, sqrtf(3.0f / (float)cols));
    (void)snprintf(name, sizeof name, "%s.bias", prefix);
    if (t->role == LX_TENSOR_PRODUCT)
        tensor(w, name, 0, rows, 0, 0.1f);
}

static void norm(writer *w, const tiny_model_options *o, const char *prefix, int32_t n)
{
    char name[96];
    (void)snprintf(name, sizeof name, "%s.weight", prefix);
    tensor(w, name, 0, n, 1, 0.2f);
    (void)snprintf(name, sizeof name, "%s.bias", prefix);
    if (!o->rms_norm)
        tensor(w, name, 0, n, 0, 0.1f);
}

static void branch(writer *w, const tiny_model_options *o, int32_t layer, int32_t number,
                   const lx_mixer_config *config)
{
    lx_mixer_parts parts = {.layer = layer, .prefix = ""};
    char name[LX_MIXER_TENSOR_NAME];
    config->mixer->declare(config, &parts);
    (void)snprintf(name, sizeof name, "layers.%d.norm%d", layer, number);
    norm(w, o, name, config->d_model);
    for (int32_t i = 0; i < parts.n_tensors; i++) {
        for (int32_t k = 0; k < lx_mixer_file_tensors(&parts.tensors[i]); k++) {
            lx_mixer_tensor_name(&parts, &parts.tensors[i], k, name);
            parameters(w, name, &parts.tensors[i]);
        }
    }
}

static void tensors(writer *w, const tiny_model_options *o, const lx_config *c)
{
    w->state = o->seed;
    w->offset = 0;
    input inputs[MAX_INPUTS];
    int32_t n_inputs = list_inputs(o, inputs);
    for (int32_t i = 0; i < n_inputs; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "embed.%s.weight", inputs[i].name);
        tensor(w, name, inputs[i].size, o->d_model, 0, 0.6f);
    }
    for (int32_t i = 0; i < o->n_layers; i++) {
        branch(w, o, i, 1, lx_config_mixer(c, i));
        if (lx_config_has_feed_forward(c, i))
            branch(w, o, i, 2, lx_config_feed_forward(c, i));
    }
    if (o->input_norm)
        norm(w, o, "input_norm", o->d_model);
    int32_t width = c->wiring == LX_WIRING_REVERSIBLE ? 2 * o->d_model : o->d_model;
    int32_t n_head = o->width == 0 ? o->n_vocab : 3 * COMPONENTS;
    norm(w, o, "final_norm", width);
    tensor(w, "head.weight", n_head, width, 0, 2 * sqrtf(3.0f / (float)width));
    tensor(w, "head.bias", 0, n_head, 0, 0.1f);
}

/* The tensors of the folder's config. */
static bool write_weights(const char *dir, const tiny_model_options *o)
{
    lx_config *c = calloc(1, sizeof *c);
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", dir, files[0]);
    if (c == NULL || lx_config_load(path, c, NULL) != LX_OK) {
        free(c);
        return false;
    }

    writer w = {.header = calloc(1, MAX_HEADER), .n_header = 1};
    FILE *f = create(dir, files[1]);
    if (w.header == NULL || f == NULL) {
        free(c);
        free(w.header);
        if (f != NULL)
            (void)fclose(f);
        return false;
    }
    w.header[0] = '{';
    tensors(&w, o, c);
    w.header[w.n_header++] = '}';
    while ((w.n_header + 8) % 64 != 0)
        w.header[w.n_header++] = ' ';
    for (int32_t i = 0; i < 8; i++)
        (void)fputc((int)((uint64_t)w.n_header >> 8 * i & 0xff), f);
    (void)fwrite(w.header, 1, w.n_header, f);
    free(w.header);
    w.data = f;
    tensors(&w, o, c);
    free(c);
    return finish(f);
}

/* --- the folder --- */

bool tiny_model_write(const char *dir, const tiny_model_options *o)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", dir, files[2]);
    return write_config(dir, o) && write_weights(dir, o) &&
           (o->width > 0 || tiny_model_write_vocab(path, o->n_vocab));
}

char *tiny_model_make(const char *name, const tiny_model_options *o)
{
    const char *tmp = getenv("TMPDIR");
    char dir[4096];
    (void)snprintf(dir, sizeof dir, "%s/linnet-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL)
        return NULL;
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = malloc(n);
    if (path == NULL)
        return NULL;
    (void)snprintf(path, n, "%s/%s", dir, name);
    if (mkdir(path, 0700) != 0 || !tiny_model_write(path, o)) {
        tiny_model_remove(path);
        return NULL;
    }
    return path;
}

void tiny_model_remove(char *dir)
{
    if (dir == NULL)
        return;
    char path[4096];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
    *strrchr(dir, '/') = '\0';
    (void)rmdir(dir);
    free(dir);
}
