/* Facts about a model's folder for people who look at it: `linnet inspect` and the server's log. */
#ifndef LINNET_MODEL_FACTS_H
#define LINNET_MODEL_FACTS_H

#include "model/model.h"

enum { LX_MAX_FACTS = 6, LX_FACT_BYTES = 256 };

typedef struct lx_fact {
    const char *name; /* static: "family", "template", "tokenizer", "ends", "context", "sampling" */
    char text[LX_FACT_BYTES]; /* may have any characters of a token's name in it */
} lx_fact;

/* Facts about text; the number of them, 0 for models that make no free text. */
int32_t lx_model_facts(const lx_model *m, lx_fact out[LX_MAX_FACTS]);

#endif
