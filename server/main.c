/*
 * The program: picks the command and turns its result into an exit status (0 done, 1 failed, 2
 * wrong arguments). The only file that may end the process.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/features.h"
#include "common/version.h"
#include "common/visible.h"
#include "server/cli/cli.h"
#include "server/cli/options.h"

static const lx_command *const commands[] = {
    &lx_serve_command,  &lx_generate_command, &lx_chat_command,     &lx_eval_command,
    &lx_bench_command,  &lx_inspect_command,  &lx_tokenize_command, &lx_transcribe_command,
    &lx_health_command, &lx_states_command,   &lx_convert_command,
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *out)
{
    (void)fprintf(out,
                  "linnet %s: inference server for linear transformers\n\n"
                  "usage: linnet COMMAND [options]\n\n",
                  LX_VERSION);
    for (size_t i = 0; i < N_COMMANDS; i++)
        (void)fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->brief);
    (void)fprintf(
        out, "\nlinnet COMMAND --help describes a command; linnet --version prints the version.\n");
}

static void print_version(void)
{
    if (lx_commit[0] == '\0')
        (void)puts("linnet " LX_VERSION); /* one string, which scripts/sbom finds in the file */
    else
        (void)printf("linnet %s (%s)\n", LX_VERSION, lx_commit);
    if (lx_left_out[0] != '\0')
        (void)printf("built without %s\n", lx_left_out);
}

/* The manual and the completions, as files, which the build installs. */
static bool print_generated(const char *arg)
{
    static const struct {
        const char *arg;
        void (*print)(const lx_command *const *all, size_t n, FILE *out);
    } forms[] = {
        {"--help=man", lx_manual_program},
        {"--help=bash", lx_manual_bash},
        {"--help=zsh", lx_manual_zsh},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(arg, forms[i].arg) == 0) {
            forms[i].print(commands, N_COMMANDS, stdout);
            return true;
        }
    }
    return false;
}

/* All output must have reached standard output. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return status;
    (void)fprintf(stderr, "linnet: standard output cannot be written\n");
    return status == EXIT_SUCCESS ? EXIT_FAILURE : status;
}

/*
 * Descriptors 0 to 2, if one is closed: else the next file or socket that is opened takes its
 * number, and the log is written into it. Standard output is opened for reading, so that results
 * which go nowhere are still an error.
 */
static bool hold_standard_descriptors(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", modes[fd]) != fd) /* the lowest that is free */
            return false;
    return true;
}

int main(int argc, char **argv)
{
    if (!hold_standard_descriptors())
        return EXIT_FAILURE; /* without a word: there may be no descriptor for it */
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
    if (print_generated(argv[1]))
        return finish(EXIT_SUCCESS);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i]->name) == 0)
            return finish(lx_cli_run(commands[i], argc - 2, argv + 2));
    lx_visible_line(stderr, "linnet: unknown command \"%s\"; see linnet --help", argv[1]);
    return 2;
}
