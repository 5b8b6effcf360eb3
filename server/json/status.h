/* The answers of /v1/capacity and /v1/models/reload as JSON. */
#ifndef LINNET_SERVER_JSON_STATUS_H
#define LINNET_SERVER_JSON_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"

typedef struct lx_json_capacity {
    const char *id; /* the model's */
    int64_t slots, slots_used, queue_length, queue_limit;
    int64_t state_bytes; /* of one sample */
    double wait_s;       /* until a request sent now would begin, estimated */
    double step_s;       /* mean time of a step, 0 before the first */
} lx_json_capacity;

typedef struct lx_json_budget {
    int64_t limit, used;
} lx_json_budget;

/* status: "ready", "loading", ... */
void lx_json_write_capacity(const char *status, const lx_json_capacity *models, int32_t n,
                            lx_json_budget answers, lx_json_budget bodies, lx_buffer *out);

typedef struct lx_json_reloaded {
    const char *id, *fingerprint;
    bool changed; /* other weights than before */
} lx_json_reloaded;

void lx_json_write_reload(const lx_json_reloaded *models, int32_t n, lx_buffer *out);

#endif
