/* The program's version, shown by --version, /health and the build part of system_fingerprint. The
   packages, the API's description and the manifests have the same one
   (tests/deploy/test_release.py). */
#ifndef LINNET_COMMON_VERSION_H
#define LINNET_COMMON_VERSION_H

#define LX_VERSION "0.2.0"

/* The commit the program was built from, "c7edd00f1234", or "c7edd00f1234-dirty" when the tree was
   changed; "" where it is unknown. Only the program has it, not the libraries
   (cmake/commit.cmake). */
extern const char lx_commit[];

#endif
