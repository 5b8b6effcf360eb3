/*
 * Reading config.json strictly. Every key is *taken* from the parsed object: checked, copied and
 * removed. What is left in an object at its end is an unknown key, so the list of allowed keys
 * is the code that reads them. The first fault stays in the reader and makes later takes do
 * nothing; what they return then is 0. Thread: one at a time.
 */
#ifndef LINNET_MODEL_CONFIG_READER_H
#define LINNET_MODEL_CONFIG_READER_H

#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

enum { LX_CONFIG_NAME = 32 }; /* bytes of a name with its NUL */

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
/* The value, borrowed until release; NULL after a fault, of which one is that it is missing. */
json_t *lx_config_look(lx_config_reader *r, lx_config_object s, const char *key);
bool lx_config_has(const lx_config_reader *r, lx_config_object s, const char *key);
/* The key is taken. */
void lx_config_release(lx_config_object s, const char *key);

int32_t lx_config_int(lx_config_reader *r, lx_config_object s, const char *key, int32_t min,
                      int32_t max);
/* A number in (0, 1] that is not zero as f32 either. */
float lx_config_eps(lx_config_reader *r, lx_config_object s, const char *key);
bool lx_config_flag(lx_config_reader *r, lx_config_object s, const char *key);
/* Lower-case letters, digits and '_', into out[LX_CONFIG_NAME]; '+' and '-'
   too if not `plain`. */
void lx_config_name(lx_config_reader *r, lx_config_object s, const char *key, bool plain,
                    char *out);
/* One of a list of words ending with NULL; returns its index. */
int32_t lx_config_word(lx_config_reader *r, lx_config_object s, const char *key,
                       const char *const *words);
/* An object whose keys the caller takes; finish and release it afterwards. */
lx_config_object lx_config_section(lx_config_reader *r, lx_config_object s, const char *key,
                                   const char *prefix);
/* Whatever is left is unknown. */
void lx_config_finish(lx_config_reader *r, lx_config_object s);

#endif
