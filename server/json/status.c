/* Capacity and reload as JSON (see status.h). */
#include "server/json/status.h"

#include "server/json/fields.h"

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

/* Takes the list. */
static json_t *make_list(const char *object, const char *status, json_t *list, bool ok)
{
    if (ok)
        return json_pack("{s:s, s:s, s:o}", "object", object, "status", status, "models", list);
    json_decref(list);
    return NULL;
}

static bool add_budget(json_t *root, const char *name, lx_json_budget b)
{
    return json_object_set_new(root, name,
                               json_pack("{s:I, s:I, s:I}", "limit", (json_int_t)b.limit, "used",
                                         (json_int_t)b.used, "free",
                                         (json_int_t)(b.limit - b.used))) == 0;
}

void lx_json_write_capacity(const char *status, const lx_json_capacity *models, int32_t n,
                            lx_json_budget answers, lx_json_budget bodies, lx_buffer *out)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int32_t i = 0; ok && i < n; i++)
        ok = append(list, make_capacity(&models[i]));
    json_t *root = make_list("capacity", status, list, ok);
    if (root != NULL &&
        !(add_budget(root, "answer_bytes", answers) && add_budget(root, "body_bytes", bodies))) {
        json_decref(root);
        root = NULL;
    }
    lx_json_dump(root, out);
}

void lx_json_write_reload(const lx_json_reloaded *models, int32_t n, lx_buffer *out)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int32_t i = 0; ok && i < n; i++)
        ok = append(list, json_pack("{s:s, s:s, s:b}", "id", models[i].id, "system_fingerprint",
                                    models[i].fingerprint, "changed", models[i].changed));
    lx_json_dump(make_list("reload", "done", list, ok), out);
}
