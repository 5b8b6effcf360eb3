/*
 * The inside of model.h: a model's layers, worked out from its config (model_layers.c).
 */
#ifndef LINNET_MODEL_MODEL_INTERNAL_H
#define LINNET_MODEL_MODEL_INTERNAL_H

#include "model/model.h"

/* Fills m->layers, state, state_hash, work, recomputes, room and sees_all. LX_ERR_FORMAT names the
   layer that does not fit the others. */
lx_status lx_model_set_layers(lx_model *m, lx_error *err) LX_MUST_USE;
/* Whether m->task goes with the head and with layers that look this way; LX_ERR_FORMAT. */
lx_status lx_model_check_task(const lx_model *m, lx_error *err) LX_MUST_USE;

#endif
