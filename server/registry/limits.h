/*
 * Limits of single models, "couplet=64,mnist=8", in place of the number that counts for all others.
 * Pure functions.
 */
#ifndef LINNET_SERVER_REGISTRY_LIMITS_H
#define LINNET_SERVER_REGISTRY_LIMITS_H

#include <stdint.h>

#include "common/status.h"

enum { LX_MAX_MODELS = 64, LX_LIMIT_NAME = 64 };

typedef struct lx_model_limits {
    const char *flag; /* of the errors: "model-slots" */
    int32_t n;
    struct {
        char model[LX_LIMIT_NAME];
        int32_t value;
    } list[LX_MAX_MODELS];
} lx_model_limits;

/* text NULL or "": no limits. Values are from 1 to `most`. LX_ERR_INVALID: an entry is not
   NAME=NUMBER, or a name comes twice. */
lx_status lx_model_limits_read(const char *text, const char *flag, int32_t most,
                               lx_model_limits *out, lx_error *err) LX_MUST_USE;

/* The limit of the model, or `otherwise` if it has none of its own. */
int32_t lx_model_limit_of(const lx_model_limits *l, const char *model, int32_t otherwise);

#endif
