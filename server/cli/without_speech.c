/* In place of the server's side of speech where LINNET_SPEECH is off: the command and the route
   refuse. No model of speech is loaded (model/without_speech.c), so there is no transcriber. */
#include <stddef.h>

#include "common/features.h"
#include "server/api/api.h"
#include "server/cli/cli.h"
#include "server/cli/eval.h"
#include "server/speech/transcriber.h"

static lx_status refuse(lx_error *err)
{
    return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, LX_WITHOUT("speech", "LINNET_SPEECH"));
}

/* --- the command --- */

static lx_status run(void *values, const char *const *files, lx_error *err)
{
    (void)values;
    (void)files;
    return refuse(err);
}

const lx_command lx_transcribe_command = {
    .name = "transcribe",
    .brief = "transcribe sound files (left out of this build)",
    .summary = "Prints the texts of sound files, in a build with LINNET_SPEECH.",
    .positional = "FILE...",
    .max_positional = 4096,
    .values_bytes = 1, /* there are no options */
    .run = run,
};

lx_status lx_eval_sounds(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                         lx_error *err)
{
    (void)o;
    (void)path;
    (void)local;
    return refuse(err);
}

/* --- the route --- */

void lx_handle_transcriptions(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)api;
    (void)rq;
    lx_error err = {0};
    lx_status st = lx_fail(&err, LX_ERR_NOT_FOUND, NULL, LX_WITHOUT("speech", "LINNET_SPEECH"));
    lx_respond_status(rs, st, &err);
}

/* --- the transcriber that no model has --- */

lx_status lx_transcriber_new(const lx_model *model, lx_backend *be, int32_t max_queue,
                             lx_metrics *metrics, lx_transcriber **out, lx_error *err)
{
    (void)model;
    (void)be;
    (void)max_queue;
    (void)metrics;
    (void)out;
    return refuse(err);
}

void lx_transcriber_stop(lx_transcriber *t)
{
    (void)t;
}

const lx_listener *lx_transcriber_listener(const lx_transcriber *t)
{
    (void)t;
    return NULL;
}

int64_t lx_transcriber_bytes(const lx_transcriber *t)
{
    (void)t;
    return 0;
}

void lx_transcriber_drain(lx_transcriber *t)
{
    (void)t;
}

bool lx_transcriber_idle(lx_transcriber *t)
{
    (void)t;
    return true;
}

int64_t lx_transcriber_last_step_ns(lx_transcriber *t)
{
    (void)t;
    return 0;
}

double lx_transcriber_wait_s(lx_transcriber *t)
{
    (void)t;
    return 0;
}

double lx_transcriber_step_s(lx_transcriber *t)
{
    (void)t;
    return 0;
}
