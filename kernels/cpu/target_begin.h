/*
 * The functions from here to the end of body.h may use the instruction sets of BODY_TARGET;
 * included by isa_*.c for x86. The set is asked for here and not on the command line, so that
 * nothing else in the program may use it.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#define BODY_PRAGMA_TEXT(text) _Pragma(#text)
#define BODY_PRAGMA(text) BODY_PRAGMA_TEXT(text)

#ifdef __clang__
BODY_PRAGMA(clang attribute push(__attribute__((target(BODY_TARGET))), apply_to = function))
#else
#pragma GCC push_options
BODY_PRAGMA(GCC target(BODY_TARGET))
#endif
