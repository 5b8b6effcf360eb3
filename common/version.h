/* The program's version, shown by --version, /health and the build part of system_fingerprint. */
#ifndef LINNET_COMMON_VERSION_H
#define LINNET_COMMON_VERSION_H

#define LX_VERSION "0.1.0"

#endif
