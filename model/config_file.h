/*
 * The object of a config.json, with that of its base where it names one (docs/weights-format.md).
 * What the keys mean: config.c.
 */
#ifndef LINNET_MODEL_CONFIG_FILE_H
#define LINNET_MODEL_CONFIG_FILE_H

#include "common/status.h"

enum { LX_MAX_BASE = 128 };

typedef struct json_t json_t; /* of jansson.h, which few include */

/* *root is the caller's; base[LX_MAX_BASE] stays as it is where there is none. LX_ERR_FORMAT and
   what a file may end with. */
lx_status lx_config_read_file(const char *path, json_t **root, char *base,
                              lx_error *err) LX_MUST_USE;

#endif
