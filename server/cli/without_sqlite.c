/* Replaces linnet states where LINNET_SQLITE is off. */
#include "common/features.h"
#include "server/cli/cli.h"

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    (void)values;
    (void)rest;
    return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, LX_WITHOUT("SQLite", "LINNET_SQLITE"));
}

const lx_command lx_states_command = {
    .name = "states",
    .brief = "work on a file of states (left out of this build)",
    .summary = "Works on the states in a file, in a build with LINNET_SQLITE.",
    .positional = "TASK FILE...",
    .max_positional = 3,
    .values_bytes = 1, /* there are no options */
    .run = run,
};
