/*
 * Kinds of attention that differ in the tokens that a token reads. Whole models are compared with
 * softmax over sets that are written out here head by head, in double, every token from all before
 * it (tests/support/whole_model.h). A token that is missed, read wrongly or counted twice gives
 * other logits. Some sets stand here as lists, too.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/whole_model.h"

enum { KEY = 5, VALUE = 7, KEYS = HEADS * KEY, VALUES = HEADS * VALUE };

/* --- whether token i sees token j <= i, in head h --- */

static bool all(int32_t h, int32_t i, int32_t j)
{
    (void)h, (void)i, (void)j;
    return true;
}

static bool window(int32_t h, int32_t i, int32_t j)
{
    (void)h;
    return i - j < 3;
}

static bool window_and_sinks(int32_t h, int32_t i, int32_t j)
{
    return window(h, i, j) || j < 2;
}

static bool every_second(int32_t h, int32_t i, int32_t j)
{
    (void)h;
    return i - j == 0 || i - j == 2 || i - j == 4;
}

static bool every_first_or_third(int32_t h, int32_t i, int32_t j)
{
    return h == 0 ? i - j < 3 : i - j == 0 || i - j == 3 || i - j == 6;
}

static bool column(int32_t h, int32_t i, int32_t j)
{
    (void)h;
    return (i - j) % 3 == 0;
}

static bool window_and_column(int32_t h, int32_t i, int32_t j)
{
    return window(h, i, j) || column(h, i, j);
}

static bool window_or_column(int32_t h, int32_t i, int32_t j)
{
    return h == 0 ? window(h, i, j) : column(h, i, j);
}

static bool block_and_its_ends(int32_t h, int32_t i, int32_t j)
{
    (void)h;
    return j / 4 == i / 4 || j % 4 == 3;
}

/* The last two of the blocks of eight, or the two before. */
static bool block_and_cells(int32_t h, int32_t i, int32_t j)
{
    return j / 8 == i / 8 || j % 8 / 2 == 3 - h;
}

static bool block(int32_t h, int32_t i, int32_t j)
{
    (void)h;
    return j / 4 == i / 4;
}

static bool block_and_one_before(int32_t h, int32_t i, int32_t j)
{
    (void)h;
    return i / 4 - j / 4 <= 1;
}

static bool block_or_the_one_before(int32_t h, int32_t i, int32_t j)
{
    return h == 1 && i >= 4 ? i / 4 - j / 4 == 1 : i / 4 == j / 4;
}

static bool block_or_the_one_before_or_nothing(int32_t h, int32_t i, int32_t j)
{
    return h == 1 ? i / 4 - j / 4 == 1 : i / 4 == j / 4;
}

typedef struct form {
    const char *keys; /* in its object */
    bool (*sees)(int32_t h, int32_t i, int32_t j);
} form;

static const form forms[] = {
    {"\"kind\": \"softmax\"", all},
    {"\"kind\": \"softmax_recompute\"", all},
    {"\"kind\": \"sliding_window\", \"window\": 3", window},
    {"\"kind\": \"sliding_window\", \"window\": 3, \"sinks\": 2", window_and_sinks},
    {"\"kind\": \"dilated_window\", \"window\": 3, \"dilation\": [2]", every_second},
    {"\"kind\": \"dilated_window\", \"window\": 3, \"dilation\": [1, 3]", every_first_or_third},
    {"\"kind\": \"strided\", \"stride\": 3, \"heads\": \"local\"", window},
    {"\"kind\": \"strided\", \"stride\": 3, \"heads\": \"column\"", column},
    {"\"kind\": \"strided\", \"stride\": 3, \"heads\": \"merged\"", window_and_column},
    {"\"kind\": \"strided\", \"stride\": 3, \"heads\": \"apart\"", window_or_column},
    {"\"kind\": \"fixed\", \"stride\": 4, \"summary\": 1, \"cells\": 1", block_and_its_ends},
    {"\"kind\": \"fixed\", \"stride\": 8, \"summary\": 2, \"cells\": 2", block_and_cells},
    {"\"kind\": \"local_block\", \"block\": 4, \"look_back\": 0", block},
    {"\"kind\": \"local_block\", \"block\": 4, \"look_back\": 1", block_and_one_before},
    {"\"kind\": \"blockwise\", \"block\": 4, \"shifts\": [0, 1], \"on_empty\": \"own\"",
     block_or_the_one_before},
    {"\"kind\": \"blockwise\", \"block\": 4, \"shifts\": [0, 1], \"on_empty\": \"zero\"",
     block_or_the_one_before_or_nothing},
};

/* The tokens that token i reads in head h, as lists; -1 after the last. */
static const struct {
    bool (*sees)(int32_t h, int32_t i, int32_t j);
    int32_t h, i, list[8];
} lists[] = {
    {window, 0, 1, {0, 1, -1}},
    {window, 0, 5, {3, 4, 5, -1}},
    {window_and_sinks, 0, 2, {0, 1, 2, -1}},
    {window_and_sinks, 0, 7, {0, 1, 5, 6, 7, -1}},
    {every_second, 0, 1, {1, -1}},
    {every_second, 0, 5, {1, 3, 5, -1}},
    {every_second, 0, 6, {2, 4, 6, -1}},
    {every_first_or_third, 1, 8, {2, 5, 8, -1}},
    {column, 0, 7, {1, 4, 7, -1}},
    {window_and_column, 0, 7, {1, 4, 5, 6, 7, -1}},
    {window_or_column, 0, 7, {5, 6, 7, -1}},
    {window_or_column, 1, 7, {1, 4, 7, -1}},
    {block_and_its_ends, 0, 2, {0, 1, 2, -1}},
    {block_and_its_ends, 0, 6, {3, 4, 5, 6, -1}},
    {block_and_its_ends, 0, 7, {3, 4, 5, 6, 7, -1}},
    {block_and_its_ends, 0, 9, {3, 7, 8, 9, -1}},
    {block_and_cells, 0, 17, {6, 7, 14, 15, 16, 17, -1}},
    {block_and_cells, 1, 17, {4, 5, 12, 13, 16, 17, -1}},
    {block, 0, 3, {0, 1, 2, 3, -1}},
    {block, 0, 4, {4, -1}},
    {block, 0, 6, {4, 5, 6, -1}},
    {block_or_the_one_before, 1, 2, {0, 1, 2, -1}},
    {block_or_the_one_before, 1, 6, {0, 1, 2, 3, -1}},
    {block_or_the_one_before, 1, 8, {4, 5, 6, 7, -1}},
    {block_or_the_one_before_or_nothing, 1, 2, {-1}},
    {block_or_the_one_before_or_nothing, 1, 6, {0, 1, 2, 3, -1}},
};

static void sets_are_those_of_the_lists(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++) {
        const int32_t *next = lists[n].list;
        for (int32_t j = 0; j <= lists[n].i; j++) {
            bool listed = *next == j;
            next += listed;
            if (lists[n].sees(lists[n].h, lists[n].i, j) != listed)
                fail_msg("list %zu: token %d", n, j);
        }
        assert_int_equal(*next, -1);
    }
}

/* --- whole models --- */

static const form *tested;

static void attend(rows qkv, int32_t i, int32_t h, double *y)
{
    double sum = 0;
    memset(y, 0, VALUE * sizeof *y);
    for (int32_t j = 0; j <= i; j++) {
        if (!tested->sees(h, i, j))
            continue;
        double w = exp(whole_dot(qkv[i] + h * KEY, qkv[j] + KEYS + h * KEY, KEY) / sqrt(KEY));
        sum += w;
        for (int32_t n = 0; n < VALUE; n++)
            y[n] += w * qkv[j][2 * KEYS + h * VALUE + n];
    }
    for (int32_t n = 0; n < VALUE && sum > 0; n++)
        y[n] /= sum;
}

/* Two layers, so that the second reads faults of the first from further away. */
static void add_layers(const lx_model *m, rows x)
{
    static rows qkv;
    double normed[D], y[VALUES], out[D];
    for (int32_t layer = 0; layer < 2; layer++) {
        for (int32_t i = 0; i < ROWS; i++) {
            whole_normalise(m, layer, "norm1", x[i], normed);
            whole_multiply(m, layer, "attn.qkv", normed, qkv[i]);
        }
        for (int32_t i = 0; i < ROWS; i++) {
            for (int32_t h = 0; h < HEADS; h++)
                attend(qkv, i, h, y + h * VALUE);
            whole_multiply(m, layer, "attn.out", y, out);
            for (int32_t n = 0; n < D; n++)
                x[i][n] += out[n];
        }
        whole_add_mlp(m, layer, x);
    }
}

static void logits_are_those_of_the_sets(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char attention[256];
        tested = &forms[i];
        (void)snprintf(attention, sizeof attention, "{%s, \"d_key\": 5, \"d_value\": 7}",
                       tested->keys);
        whole_check(attention, 2, add_layers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sets_are_those_of_the_lists),
                                       cmocka_unit_test(logits_are_those_of_the_sets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
