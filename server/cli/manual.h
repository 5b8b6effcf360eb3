/*
 * The pages that are made of the tables of options: --help, a table in Markdown for
 * docs/operations.md, manual pages (the program's linnet(1), and one per command such as
 * linnet-serve(1), in man(7)'s macros), and the completions of bash and zsh. The build runs the
 * program to write the manual and the completions.
 */
#ifndef LINNET_SERVER_CLI_MANUAL_H
#define LINNET_SERVER_CLI_MANUAL_H

#include "server/cli/options.h"

void lx_manual_help(const lx_command *command, FILE *out);
void lx_manual_markdown(const lx_command *command, FILE *out);
void lx_manual_command(const lx_command *command, FILE *out);

void lx_manual_program(const lx_command *const *commands, size_t n, FILE *out);
void lx_manual_bash(const lx_command *const *commands, size_t n, FILE *out);
void lx_manual_zsh(const lx_command *const *commands, size_t n, FILE *out);

#endif
