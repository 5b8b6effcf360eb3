/*
 * The routes of stored responses and of conversations: an object is fetched from the store, shown,
 * changed or deleted. A change fetches the object and stores it anew under a claim (claims.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/api/conversation.h"

enum { USUAL_ITEMS = 20, MOST_ITEMS = 100, AROUND_LIST = 512 };

static const char empty_metadata[] = "{}", before_metadata[] = ",\"metadata\":";

typedef enum task {
    SHOW,
    SHOW_ITEMS,
    SHOW_ITEM,
    DELETE,
    UPDATE, /* the metadata */
    ADD_ITEMS,
    DELETE_ITEM
} task;

typedef struct stored_request {
    lx_stored_kind kind;
    task task;
    char id[LX_STATE_ID_MAX + 1], item[LX_STATE_ID_MAX + 1], after[LX_STATE_ID_MAX + 1];
    bool ascending;
    int32_t limit;
    char *metadata;       /* owned */
    lx_input_items added; /* owned */
    lx_claim *claim;      /* owned; of a change */
    lx_buffer answer;     /* owned: sent when the store has the change */
    lx_json_notes notes;
} stored_request;

static void fini_request(void *params)
{
    stored_request *r = params;
    free(r->metadata);
    lx_input_items_fini(&r->added);
    lx_claim_free(r->claim);
    lx_buffer_fini(&r->answer);
    *r = (stored_request){0};
}

/* Before the answer is sent, as the client may change the conversation again at once. */
static void end_claim(stored_request *r)
{
    lx_claim_free(r->claim);
    r->claim = NULL;
}

void lx_respond_missing(lx_response *rs, lx_missing what, const char *id)
{
    static const struct {
        const char *name, *code, *param;
    } kinds[] = {
        [LX_MISSING_RESPONSE] = {"Response", "not_found", "response_id"},
        [LX_MISSING_PREVIOUS] = {"Previous response", "previous_response_not_found",
                                 "previous_response_id"},
        [LX_MISSING_CONVERSATION] = {"Conversation", "not_found", "conversation_id"},
        [LX_MISSING_TALK] = {"Conversation", "conversation_not_found", "conversation"},
        [LX_MISSING_ITEM] = {"Item", "not_found", "item_id"},
    };
    char text[200];
    (void)snprintf(text, sizeof text, "%s with id '%s' not found.", kinds[what].name, id);
    lx_respond_error(rs, 404, kinds[what].code, kinds[what].param, text);
}

static void respond_missing(const stored_request *r, lx_response *rs)
{
    lx_respond_missing(
        rs, r->kind == LX_STORED_RESPONSE ? LX_MISSING_RESPONSE : LX_MISSING_CONVERSATION, r->id);
}

static lx_status no_memory(lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the conversation");
}

/* --- items --- */

/* The id of an item, which stands first in it; "" for other text. */
static void read_item_id(const char *item, uint32_t bytes, char out[LX_STATE_ID_MAX + 1])
{
    static const char begin[] = "{\"id\":\"";
    size_t n = sizeof begin - 1;
    const char *end =
        bytes > n && memcmp(item, begin, n) == 0 ? memchr(item + n, '"', bytes - n) : NULL;
    (void)snprintf(out, LX_STATE_ID_MAX + 1, "%.*s", end != NULL ? (int)(end - item - (long)n) : 0,
                   item + n);
}

static void write_items(const stored_request *r, const lx_stored *s, lx_buffer *out)
{
    size_t *at = calloc(s->n_items + 1U, sizeof *at);
    char id[LX_STATE_ID_MAX + 1], first[LX_STATE_ID_MAX + 1] = "";
    bool begun = r->after[0] == '\0', more = false;
    int32_t n = 0;
    if (at == NULL) {
        out->status = LX_ERR_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < s->n_items; i++)
        at[i + 1] = at[i] + s->item_bytes[i];
    id[0] = '\0';
    lx_json_put(out, "{'object':'list','data':[");
    for (uint32_t k = 0; k < s->n_items && !more; k++) {
        uint32_t i = r->ascending ? k : s->n_items - 1 - k;
        const char *item = s->items + at[i];
        char own[LX_STATE_ID_MAX + 1];
        read_item_id(item, s->item_bytes[i], own);
        more = begun && n == r->limit;
        if (begun && !more) {
            lx_buffer_puts(out, n > 0 ? "," : "");
            lx_buffer_append(out, item, s->item_bytes[i]);
            memcpy(id, own, sizeof id);
            if (n++ == 0)
                memcpy(first, own, sizeof first);
        }
        begun = begun || strcmp(own, r->after) == 0;
    }
    lx_json_put(out, "],'first_id':%s,'last_id':%s,'has_more':%i}", n > 0 ? first : NULL,
                n > 0 ? id : NULL, more);
    free(at);
}

/* Finds the item by its id: its number, or -1. *at is its begin. */
static int64_t find_item(const lx_stored *s, const char *id, size_t *at)
{
    *at = 0;
    for (uint32_t i = 0; i < s->n_items; i++) {
        char own[LX_STATE_ID_MAX + 1];
        read_item_id(s->items + *at, s->item_bytes[i], own);
        if (strcmp(own, id) == 0)
            return i;
        *at += s->item_bytes[i];
    }
    return -1;
}

/* --- answers --- */

static void init_answer(const lx_stored *s, lx_buffer *out)
{
    lx_buffer_init(out, s->answer_bytes + s->items_bytes + s->n_items + AROUND_LIST);
}

static void show(const stored_request *r, const lx_stored *s, lx_response *rs)
{
    lx_buffer body;
    size_t at = 0;
    int64_t i = r->task == SHOW_ITEM ? find_item(s, r->item, &at) : 0;
    if (i < 0) {
        lx_respond_missing(rs, LX_MISSING_ITEM, r->item);
        return;
    }
    if (r->task == SHOW_ITEMS && r->after[0] != '\0' && find_item(s, r->after, &at) < 0) {
        lx_error err = {0};
        lx_respond_status(
            rs, lx_fail(&err, LX_ERR_INVALID, "after", "after: the list has no item %s", r->after),
            &err);
        return;
    }
    init_answer(s, &body);
    if (r->task == SHOW_ITEMS)
        write_items(r, s, &body);
    else if (r->task == SHOW_ITEM)
        lx_buffer_append(&body, s->items + at, s->item_bytes[i]);
    else
        lx_buffer_append(&body, s->answer, s->answer_bytes);
    lx_respond_whole(rs, LX_OK, NULL, &body);
}

static void respond_deleted(const stored_request *r, lx_response *rs)
{
    lx_buffer body;
    lx_buffer_init(&body, AROUND_LIST);
    lx_json_put(&body, "{'id':%s,'object':%s,'deleted':%i}", r->id,
                r->kind == LX_STORED_RESPONSE ? "response" : "conversation.deleted", true);
    lx_respond_whole(rs, LX_OK, NULL, &body);
}

/* --- changes --- */

/* The store has taken the new object, or has not. */
static void finish_change(lx_api *api, void *params, lx_status st, lx_error *err, const void *bytes,
                          size_t n, const lx_request *rq, lx_response *rs)
{
    (void)api;
    (void)bytes;
    (void)n;
    (void)rq;
    stored_request *r = params;
    end_claim(r);
    lx_json_append_notes(&r->notes, &r->answer);
    lx_respond_whole(rs, st, err, &r->answer);
}

/* Stores the object. Takes all that r holds. */
static void store(lx_api *api, stored_request *r, const lx_stored *s, const lx_request *rq,
                  lx_response *rs)
{
    lx_error err = {0};
    lx_buffer blob;
    lx_buffer_init(&blob, SIZE_MAX / 2);
    lx_stored_write(s, &blob);
    lx_buffer_append(&blob, s->state, s->state_bytes);
    if (blob.status == LX_OK) {
        lx_state_source source = {.text = r->id,
                                  .bytes = strlen(r->id),
                                  .raw = finish_change,
                                  .op = LX_STORE_PUT,
                                  .put = blob.data,
                                  .put_bytes = blob.length,
                                  .text_bytes = LX_MAX_CONVERSATION_BYTES,
                                  .params = r,
                                  .params_bytes = sizeof *r,
                                  .fini_params = fini_request};
        lx_state_resolve(api, &source, rq, rs);
        *r = (stored_request){0};
    } else {
        lx_respond_status(rs, no_memory(&err), &err);
        fini_request(r);
    }
    lx_buffer_fini(&blob);
}

/* The conversation with other metadata; its other members stand before them. */
static lx_status update(stored_request *r, lx_stored *s, lx_error *err)
{
    static const size_t mark = sizeof before_metadata - 1;
    const char *at = memmem(s->answer, s->answer_bytes, before_metadata, mark);
    if (at == NULL)
        return lx_fail(err, LX_ERR_INTERNAL, NULL, "the conversation has no metadata");
    lx_buffer_init(&r->answer, s->answer_bytes + strlen(r->metadata) + LX_COST_HEAD);
    lx_buffer_append(&r->answer, s->answer, (size_t)(at - s->answer) + mark);
    lx_buffer_puts(&r->answer, r->metadata);
    lx_buffer_puts(&r->answer, "}");
    s->answer = r->answer.data;
    s->answer_bytes = r->answer.length;
    return r->answer.status == LX_OK ? LX_OK : no_memory(err);
}

static lx_status add_items(stored_request *r, lx_conversation *v, lx_error *err)
{
    const lx_stored added = {.items = r->added.text.data,
                             .items_bytes = r->added.text.length,
                             .item_bytes = r->added.item_bytes,
                             .n_items = r->added.n};
    lx_status st =
        lx_conversation_check_room(&v->stored, (int64_t)added.items_bytes, added.n_items, err);
    if (st == LX_OK)
        st = lx_conversation_add(v, &r->added, err);
    if (st != LX_OK)
        return st;
    init_answer(&added, &r->answer);
    r->answer.max += LX_COST_HEAD;
    r->ascending = true;
    r->limit = MOST_ITEMS;
    write_items(r, &added, &r->answer);
    return r->answer.status == LX_OK ? LX_OK : no_memory(err);
}

/* A state cannot forget an item that it has read, so it goes, too. */
static lx_status delete_item(stored_request *r, lx_conversation *v, lx_error *err)
{
    lx_stored *s = &v->stored;
    size_t at = 0;
    int64_t i = find_item(s, r->item, &at);
    if (i < 0)
        return lx_fail(err, LX_ERR_NOT_FOUND, "item_id", "no such item");
    uint32_t *item_bytes = (uint32_t *)(uintptr_t)s->item_bytes;
    char *items = (char *)(uintptr_t)s->items; /* the front is the conversation's own */
    size_t gone = item_bytes[i], after = (size_t)i + 1;
    memmove(items + at, items + at + gone, s->items_bytes - at - gone);
    memmove(item_bytes + i, item_bytes + after, (s->n_items - after) * sizeof *item_bytes);
    s->items_bytes -= gone;
    s->n_items--;
    if (i < s->n_read) {
        s->state_bytes = 0;
        s->n_read = 0;
        s->tail_bytes = 0;
        s->instructions_sum = s->instructions_bytes = 0;
    }
    init_answer(s, &r->answer);
    lx_buffer_append(&r->answer, s->answer, s->answer_bytes);
    return r->answer.status == LX_OK ? LX_OK : no_memory(err);
}

static void change(lx_api *api, stored_request *r, const lx_stored *s, const void *bytes,
                   const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    lx_conversation v = {.front = NULL};
    lx_status st = lx_conversation_keep(s, bytes, &v, &err);
    v.stored.state = s->state;
    v.stored.state_bytes = s->state_bytes;
    if (st == LX_OK)
        st = r->task == UPDATE      ? update(r, &v.stored, &err)
             : r->task == ADD_ITEMS ? add_items(r, &v, &err)
                                    : delete_item(r, &v, &err);
    if (st == LX_OK)
        store(api, r, &v.stored, rq, rs);
    else if (st == LX_ERR_NOT_FOUND)
        lx_respond_missing(rs, LX_MISSING_ITEM, r->item);
    else
        lx_respond_status(rs, st, &err);
    lx_conversation_fini(&v);
}

/* --- the store's answer --- */

static void take_stored(lx_api *api, stored_request *r, lx_status st, lx_error *err,
                        const void *bytes, size_t n, const lx_request *rq, lx_response *rs)
{
    lx_stored s;
    bool deleted = r->task == DELETE;
    if (st == LX_ERR_NOT_FOUND ||
        (st == LX_OK && !deleted && lx_stored_kind_of(bytes, n) != r->kind)) {
        respond_missing(r, rs);
        return;
    }
    if (st == LX_OK && deleted) {
        respond_deleted(r, rs);
        return;
    }
    if (st == LX_OK)
        st = lx_stored_read(bytes, n, &s, err);
    if (st != LX_OK)
        lx_respond_status(rs, st, err);
    else if (r->task <= SHOW_ITEM)
        show(r, &s, rs);
    else
        change(api, r, &s, bytes, rq, rs);
}

static void finish_stored(lx_api *api, void *params, lx_status st, lx_error *err, const void *bytes,
                          size_t n, const lx_request *rq, lx_response *rs)
{
    take_stored(api, params, st, err, bytes, n, rq, rs);
    end_claim(params);
}

/* The ids are the first and the third segment of the tail. An id that no object can have is one
   that is not there. False: that was answered. */
static bool read_ids(const lx_request *rq, stored_request *r, lx_response *rs)
{
    size_t n = strcspn(rq->tail, "/");
    const char *item = strrchr(rq->tail, '/');
    (void)snprintf(r->id, sizeof r->id, "%.*s", (int)n, rq->tail);
    (void)snprintf(r->item, sizeof r->item, "%s", item != NULL ? item + 1 : "");
    bool ok =
        n <= LX_STATE_ID_MAX &&
        lx_state_id_has(r->kind == LX_STORED_RESPONSE ? LX_RESPONSE_PREFIX : LX_CONVERSATION_PREFIX,
                        r->id);
    if (!ok)
        respond_missing(r, rs);
    return ok;
}

/* Takes all that r holds. */
static void ask_store(lx_api *api, stored_request *r, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    lx_status st = lx_api_check_ready(api, &err);
    if (st != LX_OK)
        lx_respond_status(rs, st, &err);
    if (st != LX_OK || !read_ids(rq, r, rs)) {
        fini_request(r);
        return;
    }
    if (r->kind == LX_STORED_CONVERSATION && r->task >= DELETE)
        st = lx_claim_take(api, rq->owner, r->id, &r->claim, &err);
    if (st != LX_OK) {
        lx_respond_claimed(rs, st, &err);
        fini_request(r);
        return;
    }
    lx_state_source source = {.text = r->id,
                              .bytes = strlen(r->id),
                              .raw = finish_stored,
                              .op = r->task == DELETE ? LX_STORE_REMOVE : LX_STORE_GET,
                              .text_bytes =
                                  r->kind == LX_STORED_CONVERSATION ? LX_MAX_CONVERSATION_BYTES : 0,
                              .params = r,
                              .params_bytes = sizeof *r,
                              .fini_params = fini_request};
    lx_state_resolve(api, &source, rq, rs);
}

/* --- responses --- */

void lx_handle_response_get(lx_api *api, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.kind = LX_STORED_RESPONSE, .task = SHOW};
    const char *stream = rq->argument(rq->query, "stream");
    if (stream != NULL && strcmp(stream, "false") != 0) {
        lx_error err = {0};
        lx_respond_status(rs,
                          lx_fail(&err, LX_ERR_INVALID, "stream",
                                  "stream must be false: a stored response is sent as a whole"),
                          &err);
        return;
    }
    ask_store(api, &r, rq, rs);
}

void lx_handle_response_delete(lx_api *api, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.kind = LX_STORED_RESPONSE, .task = DELETE};
    ask_store(api, &r, rq, rs);
}

static lx_status read_page(const lx_request *rq, stored_request *r, lx_error *err)
{
    const char *limit = rq->argument(rq->query, "limit"), *order = rq->argument(rq->query, "order");
    const char *after = rq->argument(rq->query, "after");
    char *end = NULL;
    long most = limit != NULL ? strtol(limit, &end, 10) : USUAL_ITEMS;
    bool digits = limit == NULL || (*limit >= '0' && *limit <= '9' && *end == '\0');
    if (!digits || most < 1 || most > MOST_ITEMS) /* strtol takes " 1" and "+1" */
        return lx_fail(err, LX_ERR_INVALID, "limit", "limit must be from 1 to %d", MOST_ITEMS);
    if (order != NULL && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return lx_fail(err, LX_ERR_INVALID, "order", "order must be asc or desc");
    r->limit = (int32_t)most;
    r->ascending = order != NULL && strcmp(order, "asc") == 0;
    (void)snprintf(r->after, sizeof r->after, "%s", after != NULL ? after : "");
    return LX_OK;
}

static void list_items(lx_api *api, lx_stored_kind kind, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.kind = kind, .task = SHOW_ITEMS};
    lx_error err = {0};
    lx_status st = read_page(rq, &r, &err);
    if (st == LX_OK)
        ask_store(api, &r, rq, rs);
    else
        lx_respond_status(rs, st, &err);
}

void lx_handle_response_items(lx_api *api, const lx_request *rq, lx_response *rs)
{
    list_items(api, LX_STORED_RESPONSE, rq, rs);
}

/* --- conversations --- */

void lx_handle_items_list(lx_api *api, const lx_request *rq, lx_response *rs)
{
    list_items(api, LX_STORED_CONVERSATION, rq, rs);
}

static void ask_about(lx_api *api, task what, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.kind = LX_STORED_CONVERSATION, .task = what};
    ask_store(api, &r, rq, rs);
}

void lx_handle_conversation_get(lx_api *api, const lx_request *rq, lx_response *rs)
{
    ask_about(api, SHOW, rq, rs);
}

void lx_handle_conversation_delete(lx_api *api, const lx_request *rq, lx_response *rs)
{
    ask_about(api, DELETE, rq, rs);
}

void lx_handle_item_get(lx_api *api, const lx_request *rq, lx_response *rs)
{
    ask_about(api, SHOW_ITEM, rq, rs);
}

void lx_handle_item_delete(lx_api *api, const lx_request *rq, lx_response *rs)
{
    ask_about(api, DELETE_ITEM, rq, rs);
}

/* Takes the parts of a body that the request needs. */
static lx_status take_body(lx_completion_params *p, stored_request *r, lx_error *err)
{
    r->notes = p->notes;
    r->metadata = p->metadata;
    p->metadata = NULL;
    return lx_input_items_init(&r->added, p, err);
}

typedef lx_status (*body_reader)(const char *body, size_t bytes, lx_completion_params *p,
                                 lx_error *err);

/* False: the body was refused. */
static bool read_body(lx_api *api, const lx_request *rq, body_reader read, stored_request *r,
                      lx_response *rs)
{
    lx_error err = {0};
    lx_completion_params p;
    if (!lx_request_begins(api, rq, "application/json", rs))
        return false;
    lx_status st = read(rq->body, rq->body_bytes, &p, &err);
    if (st == LX_OK)
        st = take_body(&p, r, &err);
    lx_completion_params_fini(&p);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        fini_request(r);
    }
    return st == LX_OK;
}

void lx_handle_conversation_update(lx_api *api, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.kind = LX_STORED_CONVERSATION, .task = UPDATE};
    if (read_body(api, rq, lx_json_read_metadata, &r, rs))
        ask_store(api, &r, rq, rs);
}

void lx_handle_items_create(lx_api *api, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.kind = LX_STORED_CONVERSATION, .task = ADD_ITEMS};
    if (read_body(api, rq, lx_json_read_items, &r, rs))
        ask_store(api, &r, rq, rs);
}

void lx_handle_conversation_create(lx_api *api, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.kind = LX_STORED_CONVERSATION};
    lx_error err = {0};
    if (!read_body(api, rq, lx_json_read_conversation, &r, rs))
        return;
    lx_state_make_id(LX_CONVERSATION_PREFIX, r.id, sizeof r.id);
    const char *metadata = r.metadata != NULL ? r.metadata : empty_metadata;
    lx_buffer_init(&r.answer, AROUND_LIST + strlen(metadata) + LX_COST_HEAD);
    lx_json_put(&r.answer, "{'id':%s,'object':'conversation','created_at':%jd", r.id,
                (int64_t)time(NULL));
    lx_buffer_puts(&r.answer, before_metadata);
    lx_buffer_puts(&r.answer, metadata);
    lx_buffer_puts(&r.answer, "}");
    const lx_stored s = {.kind = LX_STORED_CONVERSATION,
                         .answer = r.answer.data,
                         .answer_bytes = r.answer.length,
                         .items = r.added.text.data,
                         .items_bytes = r.added.text.length,
                         .item_bytes = r.added.item_bytes,
                         .n_items = r.added.n};
    lx_status st =
        r.answer.status == LX_OK
            ? lx_conversation_check_room(&(lx_stored){0}, (int64_t)s.items_bytes, s.n_items, &err)
            : no_memory(&err);
    if (st == LX_OK) {
        store(api, &r, &s, rq, rs);
    } else {
        lx_respond_status(rs, st, &err);
        fini_request(&r);
    }
}
