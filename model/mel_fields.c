/* The sizes of mel bands as config.json names them (see mel.h); a build without speech reads them,
 * too. */
#include <stddef.h>

#include "model/mel.h"

const lx_mel_field lx_mel_fields[] = {
    {"sample_rate", offsetof(lx_mel_config, rate), 4000, 192000},
    {"frame", offsetof(lx_mel_config, frame), 16, 8192},
    {"hop", offsetof(lx_mel_config, hop), 1, 8192},
    {"bands", offsetof(lx_mel_config, n_bands), 1, 256},
    {"lowest", offsetof(lx_mel_config, lowest), 0, 96000},
    {"stride", offsetof(lx_mel_config, stride), 1, 64},
    {"context", offsetof(lx_mel_config, context), 0, 64},
    {.name = NULL},
};
