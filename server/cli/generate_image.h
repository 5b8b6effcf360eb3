/* What linnet generate does for an image model: the picture to complete, the PNG that comes out. */
#ifndef LINNET_SERVER_CLI_GENERATE_IMAGE_H
#define LINNET_SERVER_CLI_GENERATE_IMAGE_H

#include <stdio.h>

#include "server/engine/job.h"

/* The values that are given in the PNG file `path` (see lx_picture_read_prefix): *values is
   malloc'ed. */
lx_status lx_generate_read_given(const char *path, const lx_config *config, uint8_t **values,
                                 int32_t *n_values, lx_error *err) LX_MUST_USE;

/* Writes the finished job's image to `out`, or a contact sheet of its images. */
lx_status lx_generate_write_png(const lx_job *job, FILE *out, lx_error *err) LX_MUST_USE;

/* Waits for the job, with a progress bar where there is a terminal. */
void lx_generate_wait(lx_job *job);

#endif
