/* How the readers report all faults of a config.json, not only its first. */
#ifndef LINNET_MODEL_HUGGING_FACE_FAULTS_H
#define LINNET_MODEL_HUGGING_FACE_FAULTS_H

#include "common/status.h"

/* One fault, as an error's text says it. */
typedef void lx_hf_report(void *context, const lx_error *fault);

#endif
