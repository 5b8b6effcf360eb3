/*
 * The manual pages, from the tables that parse the options: one of the program, linnet(1), and one
 * a command, linnet-serve(1). Written in man(7)'s macros; the build runs the program to make them.
 */
#ifndef LINNET_SERVER_CLI_MANUAL_H
#define LINNET_SERVER_CLI_MANUAL_H

#include "server/cli/options.h"

void lx_manual_command(const lx_command *command, FILE *out);

void lx_manual_program(const lx_command *const *commands, size_t n, FILE *out);

#endif
