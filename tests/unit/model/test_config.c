/* config.json: a good file's fields, and one bad file for every rule, refused by its key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/config.h"
#include "model/tasks/copy.h"
#include "model/tasks/couplet.h"
#include "model/tasks/image.h"
#include "model/tasks/text_config.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

static const char good[] =
    "{\"format\": \"linnet\", \"format_version\": 1, \"task\": \"couplet\",\n"
    " \"n_layers\": 8, \"n_heads\": 4, \"d_model\": 256, \"d_ff\": 1024,\n"
    " \"norm\": \"pre\", \"norm_eps\": 1e-05, \"activation\": \"gelu\",\n"
    " \"attention\": {\"kind\": \"linear\", \"feature_map\": \"elu+1\", \"eps\": 1e-06},\n"
    " \"inputs\": [{\"name\": \"token\", \"size\": 100}, {\"name\": \"position\", \"size\": 33}],\n"
    " \"head\": {\"kind\": \"categorical\", \"size\": 99}, \"max_chars\": 32}\n";

static lx_status load(const char *text, size_t n, lx_config *c, lx_error *err)
{
    return lx_config_load(scratch_write("config.json", text, n), c, err);
}

static void a_good_one_is_read(void **state)
{
    (void)state;
    lx_config c;
    assert_int_equal(load(good, sizeof good - 1, &c, NULL), LX_OK);
    assert_string_equal(c.task, "couplet");
    assert_int_equal(c.n_layers, 8);
    assert_int_equal(c.n_heads, 4);
    assert_int_equal(c.d_model, 256);
    assert_int_equal(c.d_ff, 1024);
    assert_int_equal(c.d_key, 64);
    assert_int_equal(c.d_value, 64);
    assert_int_equal(c.wiring, LX_WIRING_PRE);
    assert_true(c.norm_eps == 1e-5f);
    assert_int_equal(c.activation, LX_ACT_GELU);
    assert_int_equal(c.n_mixers, 1);
    assert_string_equal(c.mixers[0].mixer->name, "linear");
    assert_int_equal(c.mixers[0].params[0].i, LX_PHI_ELU1);
    assert_true(c.mixers[0].params[1].f == 1e-6f);
    assert_int_equal(c.n_inputs, 2);
    assert_string_equal(c.inputs[1].name, "position");
    assert_int_equal(c.inputs[1].size, 33);
    assert_int_equal(c.head_kind, LX_HEAD_CATEGORICAL);
    assert_int_equal(c.head_size, 99);
    assert_int_equal(c.n_values, 99);
    assert_int_equal(c.n_components, 0);
    assert_int_equal(lx_couplet_of(&c)->max_chars, 32);
}

static void the_other_values_are_read(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"\"pre\"", "\"post\""},
        {"\"gelu\"", "\"relu\""},
        {"\"d_ff\": 1024", "\"d_ff\": 7, \"d_key\": 5, \"d_value\": 3"},
        {"1e-05", "1"},
        {"\"couplet\"", "\"another\""},
        {", \"max_chars\": 32", ""},
        {"\"d_model\": 256", "\"d_model\": 255"},
    };
    char *text = strdup(good);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *next = scratch_replace(text, changes[i][0], changes[i][1]);
        free(text);
        text = next;
    }
    lx_config c;
    lx_error err = {0};
    if (load(text, strlen(text), &c, &err) != LX_OK)
        fail_msg("%s", err.text);
    free(text);
    assert_true(c.wiring == LX_WIRING_POST && c.activation == LX_ACT_RELU);
    assert_true(c.d_key == 5 && c.d_value == 3);
    assert_true(c.norm_eps == 1.0f);
}

/* `good` with a list of mixers; the last one is `last`. */
static char *with_list(int32_t n, const char *last)
{
    static const char object[] =
        "{\"kind\": \"linear\", \"feature_map\": \"elu+1\", \"eps\": 1e-06}";
    char list[2048] = "[";
    size_t used = 1;
    for (int32_t i = 1; i < n; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", object);
    (void)snprintf(list + used, sizeof list - used, "%s]", last);
    return scratch_replace(good, object, list);
}

static void layers_may_differ(void **state)
{
    (void)state;
    lx_config c;
    lx_error err = {0};
    char *text = with_list(8, "{\"kind\": \"linear\", \"feature_map\": \"elu+1\", \"eps\": 0.5, "
                              "\"n_heads\": 2, \"d_key\": 3, \"d_value\": 9}");
    if (load(text, strlen(text), &c, &err) != LX_OK)
        fail_msg("%s", err.text);
    free(text);
    assert_int_equal(c.n_mixers, 8);
    const lx_mixer_config *last = lx_config_mixer(&c, 7);
    assert_true(lx_config_mixer(&c, 6)->n_heads == 4 && lx_config_mixer(&c, 6)->d_value == 64);
    assert_true(last->n_heads == 2 && last->d_key == 3 && last->d_value == 9);
    assert_true(last->params[1].f == 0.5f);
    text = with_list(7, "{}");
    scratch_expect(load(text, strlen(text), &c, &err), &err, LX_ERR_FORMAT,
                   "attention must be an object, or a list of n_layers objects");
    free(text);
    text = with_list(8, "{\"kind\": \"linear\", \"feature_map\": \"elu+1\"}");
    scratch_expect(load(text, strlen(text), &c, &err), &err, LX_ERR_FORMAT,
                   "attention[7].eps is missing");
    free(text);
}

static const char image[] =
    "{\"format\": \"linnet\", \"format_version\": 1, \"task\": \"image\",\n"
    " \"n_layers\": 2, \"n_heads\": 2, \"d_model\": 32, \"d_ff\": 64,\n"
    " \"norm\": \"pre\", \"norm_eps\": 1e-05, \"activation\": \"gelu\",\n"
    " \"attention\": {\"kind\": \"linear\", \"feature_map\": \"elu+1\", \"eps\": 1e-06},\n"
    " \"inputs\": [{\"name\": \"token\", \"size\": 257}],\n"
    " \"head\": {\"kind\": \"logistic_mixture\", \"components\": 10, \"levels\": 256},\n"
    " \"image\": {\"width\": 28, \"height\": 20, \"channels\": 3}}\n";

static void an_image_model_is_read(void **state)
{
    (void)state;
    lx_config c;
    assert_int_equal(load(image, sizeof image - 1, &c, NULL), LX_OK);
    assert_string_equal(c.task, "image");
    assert_int_equal(c.head_kind, LX_HEAD_LOGISTIC_MIXTURE);
    assert_int_equal(c.n_components, 10);
    assert_int_equal(c.head_size, 30);
    assert_int_equal(c.n_values, 256);
    assert_int_equal(lx_image_of(&c)->width, 28);
    assert_int_equal(lx_image_of(&c)->height, 20);
    assert_int_equal(lx_image_of(&c)->n_channels, 3);
}

typedef struct rule {
    const char *from, *to, *part;
} rule;

static void expect_rules(const char *base, const rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *text = scratch_replace(base, rules[i].from, rules[i].to);
        lx_config c = {.n_layers = 77};
        lx_error err = {0};
        lx_status st = load(text, strlen(text), &c, &err);
        scratch_expect(st, &err, LX_ERR_FORMAT, rules[i].part);
        scratch_expect(st, &err, LX_ERR_FORMAT, "config.json");
        assert_int_equal(c.n_layers, 77);
        free(text);
    }
}

static void every_rule_of_images_is_kept(void **state)
{
    (void)state;
    static const rule rules[] = {
        {"\"logistic_mixture\"", "\"mixture\"", "\"logistic_mixture\" or \"ctc\""},
        {"\"logistic_mixture\"", "\"categorical\"", "head.size is missing"},
        {"\"components\": 10, ", "", "head.components is missing"},
        {"\"components\": 10", "\"components\": 0", "head.components must be"},
        {"\"components\": 10", "\"components\": 65", "a whole number from 1 to 64"},
        {"\"levels\": 256", "\"levels\": 1", "head.levels must be"},
        {"\"levels\": 256", "\"levels\": 65537", "a whole number from 2 to 65536"},
        {"\"levels\": 256", "\"levels\": 256, \"size\": 30", "head.size is not a known key"},
        {"\"width\": 28", "\"width\": 0", "image.width must be"},
        {"\"width\": 28", "\"width\": 4097", "image.width must be"},
        {"\"height\": 20", "\"height\": 0", "image.height must be"},
        {"\"height\": 20", "\"height\": 65537", "image.height must be"},
        {"\"height\": 20, ", "", "image.height is missing"},
        {"\"channels\": 3", "\"channels\": 2", "image.channels must be 1 (grey) or 3"},
        {"\"channels\": 3", "\"channels\": 4", "image.channels must be"},
        {"\"channels\": 3", "\"channels\": 3, \"depth\": 8", "image.depth is not a known key"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": []", "image.classes must be a list"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": {}", "image.classes must be a list"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": [7]", "image.classes must hold"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": [\"a\", \"\"]", "image.classes must"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": [\"Seven\"]", "in lower case"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": [\" a\"]", "single spaces"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": [\"a \"]", "single spaces"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": [\"a  b\"]", "single spaces"},
        {"\"channels\": 3", "\"channels\": 3, \"classes\": [\"a\\tb\"]", "image.classes must"},
        {"\"channels\": 3",
         "\"channels\": 3, \"classes\": "
         "[\"0123456789012345678901234567890123456789012345678901234567890123\"]",
         "1 to 63 bytes"},
        {"\"channels\": 3", "\"channels\": 3, \"palette\": [0]", "image.palette must"},
        {"\"channels\": 3", "\"channels\": 3, \"palette\": 4", "image.palette must"},
        {"\"channels\": 3", "\"channels\": 3, \"palette\": [0, 256]", "whole numbers of 0 to 255"},
        {"\"channels\": 3", "\"channels\": 3, \"palette\": [-1, 2]", "image.palette must"},
        {"\"channels\": 3", "\"channels\": 3, \"palette\": [0, 7, 7]", "above the one before"},
        {"\"channels\": 3", "\"channels\": 3, \"palette\": [0, 1.5]", "image.palette must"},
        {"\"width\": 28, \"height\": 20", "\"width\": 592, \"height\": 591", "more than 1048576"},
        {"{\"width\": 28, \"height\": 20, \"channels\": 3}", "28", "image must be an object"},
        {",\n \"image\": {\"width\": 28, \"height\": 20, \"channels\": 3}", "", "image is missing"},
        {"\"channels\": 3}", "\"channels\": 3}, \"max_chars\": 9", "max_chars is not a known key"},
        {"\"task\": \"image\"", "\"task\": \"lines\"", "image is not a known key"},
    };
    expect_rules(image, rules, sizeof rules / sizeof *rules);
}

static const char writer[] =
    "{\"format\": \"linnet\", \"format_version\": 1, \"task\": \"text\",\n"
    " \"n_layers\": 2, \"n_heads\": 4, \"d_model\": 32, \"d_ff\": 64,\n"
    " \"norm\": \"pre\", \"norm_eps\": 1e-05, \"activation\": \"gelu\",\n"
    " \"attention\": {\"kind\": \"linear\", \"feature_map\": \"elu+1\", \"eps\": 1e-06},\n"
    " \"inputs\": [{\"name\": \"token\", \"size\": 260}],\n"
    " \"head\": {\"kind\": \"categorical\", \"size\": 260},\n"
    " \"text\": {\"tokenizer\": \"tokenizer.json\", \"context\": 4096, \"begin\": 256, "
    "\"end\": [10, 0]}}\n";

static void a_text_model_is_read(void **state)
{
    (void)state;
    static lx_config c;
    assert_int_equal(load(writer, sizeof writer - 1, &c, NULL), LX_OK);
    assert_string_equal(lx_text_of(&c)->tokenizer, "tokenizer.json");
    assert_int_equal(lx_text_of(&c)->context, 4096);
    assert_int_equal(lx_text_of(&c)->begin, 256);
    assert_int_equal(lx_text_of(&c)->n_ends, 2);
    assert_true(lx_text_of(&c)->ends[0] == 10 && lx_text_of(&c)->ends[1] == 0);
    char *bare = scratch_replace(writer, ", \"begin\": 256, \"end\": [10, 0]", "");
    assert_int_equal(load(bare, strlen(bare), &c, NULL), LX_OK);
    assert_int_equal(lx_text_of(&c)->begin, -1);
    assert_int_equal(lx_text_of(&c)->n_ends, 0);
    free(bare);
}

static void every_rule_of_texts_is_kept(void **state)
{
    (void)state;
    static const rule rules[] = {
        {"\"tokenizer.json\"", "\"\"", "text.tokenizer must be"},
        {"\"tokenizer.json\"", "\"../tokenizer.json\"", "text.tokenizer must be"},
        {"\"tokenizer.json\"", "\".json\"", "text.tokenizer must be"},
        {"\"tokenizer.json\"", "\"0123456789012345678901234567.json\"", "text.tokenizer must be"},
        {"\"tokenizer.json\"", "5", "text.tokenizer must be"},
        {"\"tokenizer\": \"tokenizer.json\", ", "", "text.tokenizer is missing"},
        {"4096", "1", "text.context must be"},
        {"4096", "262145", "text.context must be"},
        {"\"context\": 4096, ", "", "text.context is missing"},
        {"256,", "-1,", "text.begin must be"},
        {"[10, 0]", "10", "text.end must be"},
        {"[10, 0]", "[10, -1]", "text.end must be"},
        {"[10, 0]", "[10, \"0\"]", "text.end must be"},
        {"[10, 0]", "[1, 2, 3, 4, 5, 6, 7, 8, 9]", "text.end must be"},
        {"\"end\"", "\"ends\"", "text.ends is not a known key"},
        {"\"task\": \"text\"", "\"task\": \"lines\"", "text is not a known key"},
    };
    expect_rules(writer, rules, sizeof rules / sizeof *rules);
}

static void classes_are_read(void **state)
{
    (void)state;
    static lx_config c;
    char *text = scratch_replace(image, "\"channels\": 3",
                                 "\"channels\": 3, \"classes\": [\"zero 0 零\", \"one\"]");
    assert_int_equal(load(text, strlen(text), &c, NULL), LX_OK);
    assert_int_equal(lx_image_of(&c)->n_classes, 2);
    assert_string_equal(lx_image_of(&c)->classes[0], "zero 0 零");
    assert_string_equal(lx_image_of(&c)->classes[1], "one");
    free(text);
}

static void the_largest_image_is_read(void **state)
{
    (void)state;
    static const char *const sizes[] = {"\"width\": 4096, \"height\": 85, \"channels\": 3",
                                        "\"width\": 16, \"height\": 65536, \"channels\": 1"};
    for (size_t i = 0; i < 2; i++) {
        char *text =
            scratch_replace(image, "\"width\": 28, \"height\": 20, \"channels\": 3", sizes[i]);
        lx_config c;
        assert_int_equal(load(text, strlen(text), &c, NULL), LX_OK);
        assert_true(lx_image_of(&c)->width * lx_image_of(&c)->height *
                        lx_image_of(&c)->n_channels <=
                    1 << 20);
        free(text);
    }
}

static const rule rules_of_all[] = {
    {"\"format\": \"linnet\", ", "", "format is missing"},
    {"\"linnet\"", "\"gguf\"", "format must be \"linnet\""},
    {"\"linnet\"", "7", "format must be \"linnet\""},
    {"\"format_version\": 1", "\"format_version\": 2", "format_version must be"},
    {"\"format_version\": 1", "\"format_version\": 1.0", "format_version must be"},
    {"\"couplet\"", "\"\"", "task must be"},
    {"\"couplet\"", "null", "task must be"},
    {"\"couplet\"", "\"a b\"", "task must be"},
    {"\"couplet\"", "\"abcdefghijklmnopqrstuvwxyz012345\"", "task must be"},
    {"\"n_layers\": 8", "\"n_layers\": 0", "n_layers must be a whole number from 1 to 256"},
    {"\"n_layers\": 8", "\"n_layers\": 257", "n_layers"},
    {"\"n_layers\": 8", "\"n_layers\": -1", "n_layers"},
    {"\"n_layers\": 8", "\"n_layers\": 4294967304", "n_layers"},
    {"\"n_layers\": 8", "\"n_layers\": 99999999999999999999", "n_layers must be a whole number"},
    {"\"n_layers\": 8", "\"n_layers\": \"8\"", "n_layers"},
    {"\"n_layers\": 8", "\"n_layers\": true", "n_layers"},
    {"\"n_layers\": 8", "\"n_layers\": 8.5", "n_layers"},
    {"\"n_heads\": 4", "\"n_heads\": 0", "n_heads"},
    {"\"n_heads\": 4", "\"n_heads\": 1025", "n_heads"},
    {"\"n_heads\": 4", "\"n_heads\": 7", "d_model must be a multiple of n_heads"},
    {"\"n_heads\": 4", "\"n_heads\": 4, \"d_key\": 0", "d_key"},
    {"\"n_heads\": 4", "\"n_heads\": 4, \"d_value\": 4097", "d_value"},
    {"\"n_heads\": 4", "\"n_heads\": 1024, \"d_key\": 4096, \"d_value\": 1", "n_heads times"},
    {"\"d_model\": 256", "\"d_model\": 0", "d_model"},
    {"\"d_model\": 256", "\"d_model\": 65537", "d_model"},
    {"\"d_model\": 256", "\"d_model\": 65536", "heads larger"},
    {"\"d_ff\": 1024", "\"d_ff\": 0", "d_ff"},
    {"\"d_ff\": 1024", "\"d_ff\": 262145", "d_ff"},
    {"\"pre\"", "\"Pre\"", "norm must be \"pre\" or \"post\""},
    {"\"size\": 99", "\"size\": 99, \"bias\": 0", "head.bias must be true or false"},
    {"1e-05", "0", "norm_eps"},
    {"\"pre\"", "\"pre\", \"norm_kind\": 1",
     "norm_kind must be \"layer\" or \"rms\" or \"rms_plus_one\""},
    {"1e-05", "-1e-05", "norm_eps"},
    {"1e-05", "1e-40", "norm_eps"},
    {"1e-05", "2", "norm_eps"},
    {"1e-05", "\"1e-05\"", "norm_eps"},
    {"1e-05", "1e999", "line 3"},
    {"1e-05", "NaN", "line 3"},
    {"\"gelu\"", "\"silu\"", "activation must be \"relu\" or \"gelu\""},
    {"\"linear\"", "\"Linear\"", "attention.kind must be a name"},
    {"\"linear\"", "\"quadratic\"", "attention.kind \"quadratic\" is not a kind"},
    {"\"linear\"", "\"mlp\"", "attention.kind \"mlp\" is not a kind"},
    {"\"kind\": \"linear\"", "\"kind\": \"linear\", \"n_heads\": 0", "attention.n_heads must"},
    {"\"kind\": \"linear\"", "\"kind\": \"linear\", \"d_value\": 4097", "attention.d_value must"},
    {"\"kind\": \"linear\"", "\"kind\": \"linear\", \"n_heads\": 1024, \"d_key\": 4096",
     "attention.n_heads times"},
    {"\"attention\": {", "\"attention\": [], \"another\": {", "attention must be an object, or"},
    {"\"attention\": {", "\"attention\": [1,2,3,4,5,6,7,8], \"another\": {",
     "attention must be an object, or"},
    {"\"elu+1\"", "\"relu6\"",
     "attention.feature_map must be \"elu+1\" or \"relu\" or \"relu2\" or \"exp\""},
    {"\"eps\": 1e-06", "\"eps\": 0", "attention.eps"},
    {"\"eps\": 1e-06", "\"eps\": 1e-06, \"window\": 8", "attention.window is not a known key"},
    {"{\"kind\": \"linear\", \"feature_map\": \"elu+1\", \"eps\": 1e-06}", "\"linear\"",
     "attention must be an object"},
    {"[{\"name\": \"token\", \"size\": 100}, {\"name\": \"position\", \"size\": 33}]", "[]",
     "inputs must be a list of 1 to 12"},
    {"[{\"name\": \"token\", \"size\": 100}, {\"name\": \"position\", \"size\": 33}]", "{}",
     "inputs must be a list of 1 to 12"},
    {"[{\"name\": \"token\", \"size\": 100}, {\"name\": \"position\", \"size\": 33}]",
     "[1,2,3,4,5,6,7,8,9,10,11,12,13]", "inputs must be a list of 1 to 12"},
    {"{\"name\": \"position\", \"size\": 33}", "33", "inputs[1] must be an object"},
    {"\"position\"", "\"token\"", "inputs[1].name is the name of another"},
    {"\"position\"", "\"../x\"", "inputs[1].name must be"},
    {"\"size\": 33", "\"size\": 0", "inputs[1].size"},
    {"\"size\": 33", "\"size\": 16777217", "inputs[1].size"},
    {"\"size\": 33", "\"size\": 33, \"x\": 1", "inputs[1].x is not a known key"},
    {"\"categorical\"", "\"softmax\"", "head.kind must be \"categorical\""},
    {"\"size\": 99", "\"size\": 0", "head.size"},
    {"\"size\": 99", "\"size\": 99, \"scale\": true", "head.scale is not a known key"},
    {", \"max_chars\": 32", "", "max_chars is missing"},
    {"\"max_chars\": 32", "\"max_chars\": 0", "max_chars"},
    {"\"max_chars\": 32", "\"max_chars\": 32, \"max_chars\": 32", "duplicate"},
    {"\"max_chars\": 32", "\"max_chars\": 32, \"rope\": 1", "rope is not a known key"},
    {"\"max_chars\": 32", "\"max_chars\": 32, \"a\\nb\xe6\xb5\xb7\": 1", "a?b??? is not a"},
    {"\"couplet\"", "\"image\"", "image is missing"},
    {"\"max_chars\": 32}", "\"max_chars\": 32} x", "end of file expected"},
    {"\"max_chars\": 32}", "\"max_chars\": 32", "line"},
    {"\"couplet\"", "\"coup\\u0000let\"", "line 1"},
    {"\"couplet\"", "\"\xff\"", "line 1"},
};

static void every_rule_is_kept(void **state)
{
    (void)state;
    expect_rules(good, rules_of_all, sizeof rules_of_all / sizeof *rules_of_all);
}

static void a_copy_model_is_read(void **state)
{
    (void)state;
    static lx_config c;
    char *task = scratch_replace(good, "\"couplet\"", "\"copy\"");
    char *copy =
        scratch_replace(task, "max_chars\": 32", "copy\": {\"alphabet\": 5, \"length\": 9}");
    assert_true(load(copy, strlen(copy), &c, NULL) == LX_OK && lx_copy_of(&c)->alphabet == 5 &&
                lx_copy_of(&c)->length == 9);
    expect_rules(copy, (rule[]){{"t\": 5", "t\": 0", "copy.alphabet must be a whole"}}, 1);
    free(copy);
    free(task);
}

static void what_is_no_object_is_refused(void **state)
{
    (void)state;
    lx_config c;
    lx_error err = {0};
    scratch_expect(load("[]", 2, &c, &err), &err, LX_ERR_FORMAT, "not a JSON object");
    scratch_expect(load("", 0, &c, &err), &err, LX_ERR_FORMAT, "empty");
    scratch_expect(lx_config_load(scratch_path("none"), &c, &err), &err, LX_ERR_NOT_FOUND, "none");
    static char deep[100000];
    memset(deep, '[', sizeof deep);
    scratch_expect(load(deep, sizeof deep, &c, &err), &err, LX_ERR_FORMAT, "maximum parsing depth");
}

static void a_huge_file_is_not_read(void **state)
{
    (void)state;
    size_t n = (1 << 20) + 1;
    char *text = calloc(n, 1);
    lx_config c;
    lx_error err = {0};
    assert_non_null(text);
    scratch_expect(load(text, n, &c, &err), &err, LX_ERR_FORMAT, "at most 1048576");
    free(text);
}

static void a_long_path_leaves_room_for_the_fault(void **state)
{
    (void)state;
    char name[200];
    lx_config c;
    lx_error err = {0};
    memset(name, 'p', sizeof name);
    name[sizeof name - 1] = '\0';
    scratch_expect(lx_config_load(scratch_write(name, "{}", 2), &c, &err), &err, LX_ERR_FORMAT,
                   "format is missing");
}

static void no_damage_is_fatal(void **state)
{
    (void)state;
    lx_config c;
    lx_error err = {0};
    uint64_t r = 2;
    /* without its last byte, the newline, the file is whole */
    for (size_t n = 0; n < sizeof good - 2; n++)
        assert_int_equal(load(good, n, &c, &err), LX_ERR_FORMAT);
    for (int i = 0; i < 3000; i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (uint64_t k = 1 + scratch_random(&r) % 3; k > 0; k--)
            text[scratch_random(&r) % (sizeof good - 1)] = (char)scratch_random(&r);
        lx_status st = load(text, sizeof good - 1, &c, &err);
        assert_true(st == LX_OK || st == LX_ERR_FORMAT);
        if (st == LX_OK)
            assert_true(c.n_layers >= 1 && c.n_inputs == 2 && c.d_key >= 1 && c.head_size >= 1);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char path[2048];
    (void)snprintf(path, sizeof path, "%s", scratch_write("config.json", good, sizeof good - 1));
    int n = 1;
    for (;; n++) {
        lx_config c;
        lx_error err = {0};
        failing_arm(n);
        lx_status st = lx_config_load(path, &c, &err);
        if (!failing_hit()) {
            assert_int_equal(st, LX_OK);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "config.json");
    }
    assert_in_range(n, 50, 1000); /* the parser's too */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_one_is_read),
        cmocka_unit_test(the_other_values_are_read),
        cmocka_unit_test(layers_may_differ),
        cmocka_unit_test(an_image_model_is_read),
        cmocka_unit_test(a_text_model_is_read),
        cmocka_unit_test(every_rule_of_texts_is_kept),
        cmocka_unit_test(classes_are_read),
        cmocka_unit_test(the_largest_image_is_read),
        cmocka_unit_test(every_rule_is_kept),
        cmocka_unit_test(every_rule_of_images_is_kept),
        cmocka_unit_test(a_copy_model_is_read),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(a_huge_file_is_not_read),
        cmocka_unit_test(a_long_path_leaves_room_for_the_fault),
        cmocka_unit_test(no_damage_is_fatal),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
