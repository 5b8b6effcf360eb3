/*
 * Reading tokenizer.json: one function a part of the file. The first
 * fault stays in the reader and makes the rest do nothing; its text names the file and the field.
 * A field that no reader knows is refused, because it may change the meaning of other fields.
 */
#ifndef LINNET_MODEL_TOKENIZERS_JSON_PARTS_H
#define LINNET_MODEL_TOKENIZERS_JSON_PARTS_H

#include <jansson.h>

#include "model/tokenizers/hugging_face.h"

typedef struct lx_json_reader {
    const char *label; /* the file, for errors */
    lx_status st;
    lx_error *err;
} lx_json_reader;

/* An object and where it stands: "normalizer.normalizers[2]". */
typedef struct lx_json_part {
    json_t *object;
    char path[80];
} lx_json_part;

/* --- reader.c: single fields --- */

/* "FILE: PATH.FIELD WHAT". `field` may be NULL. */
void lx_json_wrong(lx_json_reader *r, const lx_json_part *p, const char *field, const char *what);
/* "FILE: PATH.FIELD: VALUE is not implemented". */
void lx_json_refuse(lx_json_reader *r, const lx_json_part *p, const char *field, const char *value);
/* Keeps the status of a call that filled r->err, with the file's name before its text. */
void lx_json_keep(lx_json_reader *r, lx_status st);

/* Every key must be one of `known` ("a|b|c"). */
void lx_json_keys(lx_json_reader *r, const lx_json_part *p, const char *known);
/* The part below `field`, an object; its object is NULL when the field is absent or null. */
lx_json_part lx_json_below(lx_json_reader *r, const lx_json_part *p, const char *field);
/* Entry `i` of the array `field`, an object. */
lx_json_part lx_json_entry(lx_json_reader *r, const lx_json_part *p, const char *field, size_t i);
/* The entries of the array `field`, at most `max`; 0 after a fault. */
size_t lx_json_count(lx_json_reader *r, const lx_json_part *p, const char *field, size_t max);

/* "" after a fault; `*n` may be 0. */
const char *lx_json_text(lx_json_reader *r, const lx_json_part *p, const char *field, size_t *n);
/* `fallback` when absent or null. */
bool lx_json_bool(lx_json_reader *r, const lx_json_part *p, const char *field, bool fallback);
int64_t lx_json_int(lx_json_reader *r, const lx_json_part *p, const char *field, int64_t min,
                    int64_t max);
/* The place of the text among the words of `choices` ("a|b|c"); refuses others by their name. */
int lx_json_word(lx_json_reader *r, const lx_json_part *p, const char *field, const char *choices);
/* One character of at most 4 bytes. */
void lx_json_character(lx_json_reader *r, const lx_json_part *p, const char *field, char out[5]);

/* {"String": "..."} or {"Regex": "..."}: the text; *is_regex. */
const char *lx_json_pattern(lx_json_reader *r, const lx_json_part *p, size_t *n, bool *is_regex);

/* --- the parts, in the order in which they are read --- */

void lx_json_normalizer(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h);
/* Appends a Replace to steps. */
void lx_json_replace(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out);
/* Says whether words are written as bytes. */
bool lx_json_pre_tokenizer(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h);
/* model.c: the family of tokenizers by model.type; of_bytes: words are written as bytes. */
const lx_tokenizer_family *lx_json_family(lx_json_reader *r, const lx_json_part *root,
                                          bool of_bytes);
/* model.c: vocabulary, merges, scores. */
void lx_json_model(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h,
                   const lx_tokenizer_family *family);
/* The highest id of model.vocab and added_tokens, at least 0. */
int32_t lx_json_highest_id(lx_json_reader *r, const lx_json_part *root);
/* decoders.c: the bytes of every token. */
void lx_json_decoder(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h);

#endif
