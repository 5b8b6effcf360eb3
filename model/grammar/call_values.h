/* Arguments of calls as trees. */
#ifndef LINNET_MODEL_GRAMMAR_CALL_VALUES_H
#define LINNET_MODEL_GRAMMAR_CALL_VALUES_H

#include "model/formats/json_memory.h"
#include "model/grammar/ast.h"
#include "model/grammar/call_formats.h"

lx_call_value lx_call_value_of(const json_t *schema);

/* All arguments of a function with these parameters. */
int32_t lx_call_arguments(lx_ast *a, lx_call_spelling spelling, const json_t *parameters);
/* The parameters with the names and plain types of their properties only; NULL: no memory. */
json_t *lx_call_loosen(const json_t *parameters);

#endif
