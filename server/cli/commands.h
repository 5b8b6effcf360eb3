/* The commands of the program; each parses its own arguments and returns the exit status. */
#ifndef LINNET_SERVER_CLI_COMMANDS_H
#define LINNET_SERVER_CLI_COMMANDS_H

#include "server/cli/options.h"

/* What each command accepts. */
extern const lx_command lx_serve_command, lx_generate_command, lx_chat_command, lx_eval_command,
    lx_bench_command, lx_inspect_command, lx_tokenize_command, lx_transcribe_command,
    lx_health_command;

/* argv[0] is the first argument after the command's name. */
int lx_command_serve(int argc, char **argv);
int lx_command_generate(int argc, char **argv);
int lx_command_chat(int argc, char **argv);
int lx_command_eval(int argc, char **argv);
int lx_command_bench(int argc, char **argv);
int lx_command_inspect(int argc, char **argv);
int lx_command_health(int argc, char **argv);
int lx_command_tokenize(int argc, char **argv);
int lx_command_transcribe(int argc, char **argv);

#endif
