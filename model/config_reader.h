/*
 * Reading config.json strictly. Every key is *taken* from the parsed object: checked, copied and
 * removed. A key that is left in an object at its end is unknown. So the code that reads keys is
 * the list of allowed keys. The first fault stays in the reader and makes later takes do nothing
 * and return 0. Thread: one at a time.
 */
#ifndef LINNET_MODEL_CONFIG_READER_H
#define LINNET_MODEL_CONFIG_READER_H

#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

enum { LX_CONFIG_NAME = 32 }; /* bytes of a name with its NUL */

#define LX_CONFIG_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

typedef struct lx_config_reader {
    const char *label; /* the file, for errors */
    lx_status st;
    lx_error *err;
} lx_config_reader;

/* One JSON object and where it stands: "" or "attention." or "inputs[2].". */
typedef struct lx_config_object {
    json_t *object;
    const char *prefix;
} lx_config_object;

/* Notes a fault of the key: "FILE: KEY WHAT". */
void lx_config_wrong(lx_config_reader *r, lx_config_object s, const char *key, const char *what);
/* The value, borrowed until release; NULL after a fault; a missing key is one. */
json_t *lx_config_look(lx_config_reader *r, lx_config_object s, const char *key);
bool lx_config_has(const lx_config_reader *r, lx_config_object s, const char *key);
/* The key is taken. */
void lx_config_release(lx_config_object s, const char *key);

int32_t lx_config_int(lx_config_reader *r, lx_config_object s, const char *key, int32_t min,
                      int32_t max);
float lx_config_number(lx_config_reader *r, lx_config_object s, const char *key, float min,
                       float max);
/* A number in (0, 1] that is not zero as f32 either. */
float lx_config_eps(lx_config_reader *r, lx_config_object s, const char *key);
bool lx_config_flag(lx_config_reader *r, lx_config_object s, const char *key);
/* Which texts a key may have: characters and bytes, the NUL counted. `what` is the error. */
typedef struct lx_config_form {
    const char *allowed;
    size_t size;
    const char *what;
} lx_config_form;
/* A text of this form that is not empty, into out[form->size]. */
void lx_config_text(lx_config_reader *r, lx_config_object s, const char *key,
                    const lx_config_form *form, char *out);
/* Lower-case letters, digits and '_', into out[LX_CONFIG_NAME]. */
void lx_config_name(lx_config_reader *r, lx_config_object s, const char *key, char *out);
/* The lists of whole numbers that a key may have: their length, and the range of their numbers.
 * `what` is the error. */
typedef struct lx_config_list {
    size_t least, most;
    int32_t min, max;
    bool rises; /* each number is above the one before it */
    const char *what;
} lx_config_list;
/* Such a list, into out[list->most]; returns how many numbers it has. */
int32_t lx_config_ints(lx_config_reader *r, lx_config_object s, const char *key,
                       const lx_config_list *list, int32_t *out);
/* How many values the list has; 0 for another type. */
size_t lx_config_count(lx_config_reader *r, lx_config_object s, const char *key);
/* Value i of such a list, borrowed; NULL where it is no text. */
const char *lx_config_text_at(lx_config_object s, const char *key, size_t i);
/* One of a list of words ending with NULL; returns its index. */
int32_t lx_config_word(lx_config_reader *r, lx_config_object s, const char *key,
                       const char *const *words);
/* An object whose keys the caller takes; finish and release it afterwards. */
lx_config_object lx_config_section(lx_config_reader *r, lx_config_object s, const char *key,
                                   const char *prefix);
/* Whatever is left is unknown. */
void lx_config_finish(lx_config_reader *r, lx_config_object s);

#endif
