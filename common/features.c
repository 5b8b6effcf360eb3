/* The names that CMake defines for this file alone (see features.h). */
#include "common/features.h"

const char lx_left_out[] = LX_LEFT_OUT;
