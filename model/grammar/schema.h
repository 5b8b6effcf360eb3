/* Trees of JSON Schemas that were parsed. */
#ifndef LINNET_MODEL_GRAMMAR_SCHEMA_H
#define LINNET_MODEL_GRAMMAR_SCHEMA_H

#include "model/formats/json_memory.h"
#include "model/grammar/ast.h"

/* The values that are valid by the schema; its references are looked for in `root`. `python`: True,
   False and None stand for JSON's words. */
int32_t lx_schema_tree(lx_ast *a, const json_t *root, const json_t *schema, bool python);

#endif
