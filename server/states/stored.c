/* Stored responses and conversations as bytes (see stored.h). */
#include "server/states/stored.h"

#include <stddef.h>
#include <string.h>

#include "common/crc32c.h"

enum { MAGIC_BYTES = 8 };
static const char magics[][MAGIC_BYTES] = {
    [LX_STORED_RESPONSE] = "LXRESP\0\1", [LX_STORED_CONVERSATION] = "LXCONV\0\1"};

typedef struct head {
    char magic[MAGIC_BYTES];
    uint32_t crc; /* of the bytes after it, up to the state */
    uint32_t n_items, answer_bytes, items_bytes;
    uint32_t n_kept, tail_bytes, instructions_sum, instructions_bytes;
    char tail[LX_MAX_TAIL];
} head;

/* After the head of a conversation. */
typedef struct extra {
    uint32_t n_read, zero;
} extra;

static const size_t covered = offsetof(head, n_items);

static size_t padding(uint64_t n)
{
    return (size_t)((8 - n % 8) % 8);
}

static size_t extra_bytes(lx_stored_kind kind)
{
    return kind == LX_STORED_CONVERSATION ? sizeof(extra) : 0;
}

/* Of all but the state. */
static uint64_t front_bytes(const head *h, lx_stored_kind kind)
{
    uint64_t n = sizeof *h + extra_bytes(kind);
    n += (uint64_t)h->n_items * sizeof(uint32_t) + h->answer_bytes;
    n += h->items_bytes;
    return n + padding(n);
}

lx_stored_kind lx_stored_kind_of(const void *bytes, size_t n)
{
    for (lx_stored_kind kind = LX_STORED_RESPONSE; kind <= LX_STORED_CONVERSATION; kind++)
        if (n >= sizeof(head) + extra_bytes(kind) && memcmp(bytes, magics[kind], MAGIC_BYTES) == 0)
            return kind;
    return LX_STORED_NOTHING;
}

void lx_stored_write(const lx_stored *s, lx_buffer *out)
{
    static const char zeros[8];
    size_t begin = out->length;
    head h = {.n_items = s->n_items,
              .answer_bytes = (uint32_t)s->answer_bytes,
              .items_bytes = (uint32_t)s->items_bytes,
              .n_kept = (uint32_t)s->n_kept,
              .tail_bytes = s->tail_bytes,
              .instructions_sum = s->instructions_sum,
              .instructions_bytes = s->instructions_bytes};
    const extra more = {.n_read = s->n_read};
    memcpy(h.magic, magics[s->kind], sizeof h.magic);
    memcpy(h.tail, s->tail, s->tail_bytes);
    lx_buffer_append(out, &h, sizeof h);
    lx_buffer_append(out, &more, extra_bytes(s->kind));
    lx_buffer_append(out, s->item_bytes, s->n_items * sizeof *s->item_bytes);
    lx_buffer_append(out, s->answer, s->answer_bytes);
    lx_buffer_append(out, s->items, s->items_bytes);
    lx_buffer_append(out, zeros, padding(out->length - begin));
    if (out->status != LX_OK)
        return;
    h.crc = lx_crc32c(0, out->data + begin + covered, out->length - begin - covered);
    memcpy(out->data + begin, &h, sizeof h);
}

static bool items_fit(const lx_stored *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_items; i++)
        sum += s->item_bytes[i];
    return sum == s->items_bytes && s->n_read <= s->n_items;
}

lx_status lx_stored_read(const void *bytes, size_t n, lx_stored *out, lx_error *err)
{
    const unsigned char *at = bytes;
    head h = {.n_items = 0};
    extra more = {.n_read = 0};
    lx_stored_kind kind = lx_stored_kind_of(bytes, n);
    if (kind != LX_STORED_NOTHING)
        memcpy(&h, at, sizeof h);
    uint64_t front = front_bytes(&h, kind);
    if (kind == LX_STORED_NOTHING || front > n || h.tail_bytes > sizeof h.tail ||
        h.crc != lx_crc32c(0, at + covered, (size_t)front - covered))
        return lx_fail(err, LX_ERR_INVALID, "state", "the stored %s was damaged",
                       kind == LX_STORED_CONVERSATION ? "conversation" : "response");
    memcpy(&more, at + sizeof h, extra_bytes(kind));
    *out = (lx_stored){.kind = kind,
                       .n_read = more.n_read,
                       .n_kept = (int32_t)h.n_kept,
                       .tail_bytes = h.tail_bytes,
                       .instructions_sum = h.instructions_sum,
                       .instructions_bytes = h.instructions_bytes,
                       .item_bytes =
                           (const uint32_t *)(const void *)(at + sizeof h + extra_bytes(kind)),
                       .n_items = h.n_items,
                       .answer_bytes = h.answer_bytes,
                       .items_bytes = h.items_bytes,
                       .state = at + front,
                       .state_bytes = n - (size_t)front};
    memcpy(out->tail, h.tail, sizeof out->tail);
    out->answer = (const char *)(out->item_bytes + h.n_items);
    out->items = out->answer + h.answer_bytes;
    return items_fit(out) ? LX_OK
                          : lx_fail(err, LX_ERR_INVALID, "state",
                                    "the sizes of the stored response contradict each other");
}
