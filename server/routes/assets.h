/*
 * The files of web/, compiled into the program. The definitions are generated at build time from
 * whatever lies in web/, so a new file needs no change here.
 */
#ifndef LINNET_SERVER_ROUTES_ASSETS_H
#define LINNET_SERVER_ROUTES_ASSETS_H

#include <stddef.h>

typedef struct lx_asset {
    const char *path;         /* as in the URL: "/app.js", "/docs" for docs.html */
    const char *content_type; /* with charset where it is text */
    const unsigned char *data;
    size_t size;
    const unsigned char *packed; /* by gzip; NULL for pictures, which do not become smaller */
    size_t packed_size;
} lx_asset;

/* NULL when there is no such file. "/" is not an asset: the page is "/index.html". */
const lx_asset *lx_asset_find(const char *path);

#endif
