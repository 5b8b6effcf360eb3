/* What options.c and options_config.c share: one option found and set, whatever its value came
 * from. */
#ifndef LINNET_SERVER_CLI_OPTIONS_INTERNAL_H
#define LINNET_SERVER_CLI_OPTIONS_INTERNAL_H

#include "server/cli/options.h"

/* The option whose name is these n bytes, NULL for none. */
const lx_option *lx_option_find(const lx_command *c, const char *name, size_t n);

/* The name nearest to these n bytes, NULL when none is near enough to be a slip of theirs. */
const char *lx_option_nearest(const lx_command *c, const char *name, size_t n);

/* Sets the option's field of `values`; `source` ("--port", "LINNET_PORT") begins the error's text.
 */
lx_status lx_option_set(const lx_option *o, void *values, const char *text, const char *source,
                        lx_error *err) LX_MUST_USE;

/* Sets what the file says. Its text is kept for the process's life: values point into it. */
lx_status lx_options_read_config(const lx_command *c, const char *path, void *values,
                                 lx_error *err) LX_MUST_USE;

#endif
