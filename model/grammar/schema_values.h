/* Strings and numbers of JSON Schemas as trees, and counts that their keywords give. */
#ifndef LINNET_MODEL_GRAMMAR_SCHEMA_VALUES_H
#define LINNET_MODEL_GRAMMAR_SCHEMA_VALUES_H

#include "model/formats/json_memory.h"
#include "model/grammar/json_parts.h"

/* The counts of the keywords `least` (without it 0) and `most` (without it -1); false: an error. */
bool lx_schema_counts(lx_ast *a, const json_t *schema, const char *least, const char *most,
                      int32_t *from, int32_t *to);

int32_t lx_schema_string(lx_ast *a, lx_json_rules *r, const json_t *schema);
/* `whole`: the type is integer. */
int32_t lx_schema_number(lx_ast *a, lx_json_rules *r, const json_t *schema, bool whole);

#endif
