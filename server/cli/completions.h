/*
 * What bash and zsh offer when a user of linnet presses Tab, as the files they read, from the
 * tables that parse the options: commands, options, the words of a choice, files and folders.
 */
#ifndef LINNET_SERVER_CLI_COMPLETIONS_H
#define LINNET_SERVER_CLI_COMPLETIONS_H

#include "server/cli/options.h"

void lx_completions_bash(const lx_command *const *commands, size_t n, FILE *out);

void lx_completions_zsh(const lx_command *const *commands, size_t n, FILE *out);

#endif
