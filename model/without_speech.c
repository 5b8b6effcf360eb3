/* In place of the model's side of speech where LINNET_SPEECH is off. A model of speech is refused
   when it is loaded, at its mel bands; nothing comes past that. */
#include "common/features.h"
#include "model/mel.h"
#include "model/transcribe.h"

static lx_status refuse(lx_error *err)
{
    return lx_fail(err, LX_ERR_UNSUPPORTED, "task",
                   "config.json: task speech: " LX_WITHOUT("speech", "LINNET_SPEECH"));
}

lx_status lx_mel_new(const lx_mel_config *c, lx_mel **out, lx_error *err)
{
    (void)c;
    (void)out;
    return refuse(err);
}

void lx_mel_free(lx_mel *m)
{
    (void)m;
}

lx_status lx_listener_new(const lx_model *model, lx_listener **out, lx_error *err)
{
    (void)model;
    (void)out;
    return refuse(err);
}

void lx_listener_free(lx_listener *l)
{
    (void)l;
}

double lx_listener_longest(const lx_listener *l)
{
    (void)l;
    return 0;
}
