/*
 * Where models are looked for when no folder is named, so that a command works from any folder:
 *
 *   LINNET_MODELS                      if it is set, alone
 *   PROGRAM/../share/linnet/models     the program is installed: /usr/share/linnet/models
 *   PROGRAM/../weights                 it was built in its source: build/linnet
 *   /usr/share/linnet/models
 *
 * PROGRAM is the folder the program lies in. The first of them that exists is taken.
 *
 * And where Debian's packages put fonts of Chinese characters.
 *
 * Thread: any.
 */
#ifndef LINNET_SERVER_CLI_PLACES_H
#define LINNET_SERVER_CLI_PLACES_H

#include <stddef.h>

#include "common/status.h"

enum { LX_PLACE_BYTES = 4096 }; /* of a path, with its end */

/* The folder whose subfolders are models. LX_ERR_NOT_FOUND names the places. */
lx_status lx_places_models(char out[LX_PLACE_BYTES], lx_error *err) LX_MUST_USE;

/* The folder of one model. `given` is a folder, or the name of one in lx_places_models() where it
   has no "/" and no such folder is here. LX_ERR_NOT_FOUND names the folder it looked in. */
lx_status lx_places_model(const char *given, char out[LX_PLACE_BYTES], lx_error *err) LX_MUST_USE;

/* The first known font that is installed: fonts of brush strokes come before printed ones; NULL
   without one. Static. */
const char *lx_places_font(void);

#endif
