/*
 * A small model with random weights, of any variant of a config, and the results of the equations
 * of model/transformer.h. They are computed in double, with attention in its quadratic form. Its
 * files are written into the scratch folder (scratch.h).
 */
#ifndef LINNET_TESTS_SUPPORT_NAIVE_MODEL_H
#define LINNET_TESTS_SUPPORT_NAIVE_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum { V = 70, CHARS = 9, D = 12, FF = 20, LAYERS = 2, HEADS = 3, ROWS = 17, INPUTS = 4 };
enum { MAX_TENSORS = 4 + 12 * LAYERS + 4 };

typedef struct variant {
    const char *label, *norm, *activation, *dtype;
    int32_t d_key, d_value;
    int32_t heads1, d_key1, d_value1; /* of layer 1 alone; 0: as in layer 0 */
} variant;

typedef struct weights {
    int32_t n;
    size_t n_header, n_data;
    uint64_t random;
    struct {
        char name[128];
        double *values; /* the values of the file's numbers */
    } tensor[MAX_TENSORS];
    char header[8192];
    unsigned char data[1 << 18];
} weights;

/* Random weights of the variant, as the file's bytes and as numbers. `w` is zero but for `random`.
 */
void make_weights(weights *w, const variant *v);
/* model.safetensors and config.json. */
void write_weights(const weights *w);
void write_config(const variant *v);
/* The logits of every row of one sequence of at most ROWS. */
void naive_logits(const weights *w, const variant *v, const int32_t *ids, int32_t rows,
                  double (*logits)[V]);

#endif
