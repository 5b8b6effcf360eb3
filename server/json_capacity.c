/* Capacity and reload as JSON (see json_capacity.h). */
#include "server/json_capacity.h"

#include "server/json_fields.h"

static json_t *make_capacity(const lx_json_capacity *c)
{
    return json_pack("{s:s, s:{s:I, s:I, s:I}, s:{s:I, s:I}, s:I, s:f, s:f}", "id", c->id, "slots",
                     "total", (json_int_t)c->slots, "used", (json_int_t)c->slots_used, "free",
                     (json_int_t)(c->slots - c->slots_used), "queue", "length",
                     (json_int_t)c->queue_length, "limit", (json_int_t)c->queue_limit,
                     "state_bytes", (json_int_t)c->state_bytes, "estimated_wait_s", c->wait_s,
                     "step_s", c->step_s);
}

/* Moves the item to the list's end; false when either could not be made. */
static bool append(json_t *list, json_t *item)
{
    return list != NULL ? json_array_append_new(list, item) == 0 : (json_decref(item), false);
}

static void dump_list(const char *object, const char *status, json_t *list, bool ok, lx_buffer *out)
{
    if (!ok) {
        json_decref(list);
        lx_json_dump(NULL, out);
        return;
    }
    lx_json_dump(json_pack("{s:s, s:s, s:o}", "object", object, "status", status, "models", list),
                 out);
}

void lx_json_write_capacity(const char *status, const lx_json_capacity *models, int32_t n,
                            lx_buffer *out)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int32_t i = 0; ok && i < n; i++)
        ok = append(list, make_capacity(&models[i]));
    dump_list("capacity", status, list, ok, out);
}

void lx_json_write_reload(const lx_json_reloaded *models, int32_t n, lx_buffer *out)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int32_t i = 0; ok && i < n; i++)
        ok = append(list, json_pack("{s:s, s:s, s:b}", "id", models[i].id, "system_fingerprint",
                                    models[i].fingerprint, "changed", models[i].changed));
    dump_list("reload", "done", list, ok, out);
}
