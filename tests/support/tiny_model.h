/*
 * A small model with random weights, written as a model folder: for tests that need a whole model
 * but no sense in its answers. The same options give the same bytes on every machine.
 *
 * With `width` 0 it is a couplet model, otherwise one of images with a mixture of three logistics
 * and the inputs token, n, row, column and, for colour, channel.
 *
 * Vocabulary of couplets: the four specials, eight punctuation marks, A and 7, a few dozen common
 * characters of couplets (海上明月 among them), then ideographs from U+4E00 on.
 */
#ifndef LINNET_TESTS_SUPPORT_TINY_MODEL_H
#define LINNET_TESTS_SUPPORT_TINY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tiny_model_options {
    int32_t n_vocab, n_layers, n_heads, d_model, d_ff, max_chars;
    int32_t width, height, n_channels; /* images; n_vocab and max_chars mean nothing then */
    const char *attention;             /* its JSON in config.json; NULL: linear attention */
    const char *feed_forward;          /* object of config.json; NULL: the config has no such key */
    const char *wiring;                /* "norm" there; NULL: "pre" */
    bool input_norm, rms_norm;
    uint64_t seed;
} tiny_model_options;

/* 300 entries, 2 layers, 4 heads, d_model 32, d_ff 64, lines of up to 32 characters. */
extern const tiny_model_options tiny_model_default;
/* 8 x 6 in grey, layers as above. */
extern const tiny_model_options tiny_model_image;

/* Writes config.json, model.safetensors and, for couplets, vocab.txt into the existing folder
   `dir`. False when a file could not be written. */
bool tiny_model_write(const char *dir, const tiny_model_options *o);
/* Only vocab.txt, as a file of its own. */
bool tiny_model_write_vocab(const char *path, int32_t n_vocab);

/* A new folder under TMPDIR or /tmp with a model in it; remove it with tiny_model_remove. NULL when
   that failed. `name` is the folder's last part, so the model's name. */
char *tiny_model_make(const char *name, const tiny_model_options *o);
void tiny_model_remove(char *dir); /* also frees the string; NULL is allowed */

#endif
