/*
 * Features that this build leaves out. CMake decides (cmake/features.cmake, the table in
 * docs/operations.md): a feature that is left out has its files replaced by one that refuses it.
 */
#ifndef LINNET_COMMON_FEATURES_H
#define LINNET_COMMON_FEATURES_H

/* "LINNET_REDIS, LINNET_TLS"; "" where nothing is left out. */
extern const char lx_left_out[];

/* The refusal: LX_WITHOUT("Redis", "LINNET_REDIS"). */
#define LX_WITHOUT(feature, option) "this linnet was built without " feature " (" option ")"

#endif
