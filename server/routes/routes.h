/*
 * Which handler answers which method and path. Unknown paths are 404, known ones with another
 * method 405 with Allow; HEAD works wherever GET does, OPTIONS names the allowed methods.
 */
#ifndef LINNET_SERVER_ROUTES_ROUTES_H
#define LINNET_SERVER_ROUTES_ROUTES_H

#include "server/api/api.h"

typedef void (*lx_handler)(lx_api *api, const lx_request *rq, lx_response *rs);

typedef struct lx_route_match {
    lx_handler handler; /* NULL: no such path, or not this method */
    unsigned flags;     /* of its row in the table */
    const char
        *tail; /* the segment that the pattern's first "*" stands for and all after it, or "" */
    char allow[64]; /* "GET, HEAD, POST, OPTIONS"; "" when there is no such path */
} lx_route_match;

lx_route_match lx_routes_find(const char *method, const char *path);

/* Whether the request's handler reads forms with files (--max-upload). Any thread. */
bool lx_routes_take_uploads(const char *method, const char *path);

/* Whether the request, which has no body, is answered at once and at next to no cost. Any thread.
 */
bool lx_routes_is_quick(const char *method, const char *path);

/* Route number i of the table; false when there are no more. The files of the page are not in the
   table. */
bool lx_routes_at(int32_t i, const char **method, const char **pattern);

/* Answers any request. */
void lx_routes_dispatch(lx_api *api, const lx_request *rq, lx_response *rs);

#endif
