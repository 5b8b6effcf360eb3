/* A limit that readers and writers of JSON share. */
#ifndef LINNET_SERVER_JSON_LIMITS_H
#define LINNET_SERVER_JSON_LIMITS_H

enum { LX_MAX_MODEL_NAME = 64 };

#endif
