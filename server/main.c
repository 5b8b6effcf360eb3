/*
 * The program: picks the command and turns its result into an exit status (0 done, 1 failed, 2
 * wrong arguments). The only file that may end the process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/version.h"
#include "server/cli/commands.h"

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", "serve models over HTTP", lx_command_serve},
    {"generate", "answer one prompt on the command line", lx_command_generate},
    {"eval", "measure a model on a file: nats per character, perplexity, rules", lx_command_eval},
    {"bench", "measure speed: milliseconds a token, tokens a second", lx_command_bench},
    {"inspect", "print a model's config, tensors and sizes", lx_command_inspect},
    {"tokenize", "print the token ids of a text, or the text of ids", lx_command_tokenize},
    {"health", "ask a running server whether it is ready", lx_command_health},
};

static void print_usage(FILE *out)
{
    (void)fprintf(out,
                  "linnet %s: inference server for linear transformers\n\n"
                  "usage: linnet COMMAND [options]\n\n",
                  LX_VERSION);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        (void)fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    (void)fprintf(
        out, "\nlinnet COMMAND --help describes a command; linnet --version prints the version.\n");
}

static void print_version(void)
{
    if (lx_commit[0] == '\0')
        (void)puts("linnet " LX_VERSION); /* one string, which scripts/sbom finds in the file */
    else
        (void)printf("linnet %s (%s)\n", LX_VERSION, lx_commit);
}

/* What was written to standard output must have arrived there. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return status;
    (void)fprintf(stderr, "linnet: standard output cannot be written\n");
    return status == EXIT_SUCCESS ? EXIT_FAILURE : status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return finish(EXIT_SUCCESS);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return finish(EXIT_SUCCESS);
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return finish(commands[i].run(argc - 2, argv + 2));
    (void)fprintf(stderr, "linnet: unknown command \"%s\"; see linnet --help\n", argv[1]);
    return 2;
}
