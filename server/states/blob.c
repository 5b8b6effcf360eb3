/*
 * The codec of states. Writer and reader share the struct of the head. The head says the sizes of
 * the parts after it, which must add up to the size of the blob.
 */
#include "server/states/blob.h"

#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "server/auth/digest.h"

enum {
    HEAD_BYTES = 192,
    CRC_BYTES = 4,
    SIGNED = 1, /* flags */
    RULES = 2,
    LINEAR = 1,    /* kind of state: s and z per head; all of version 1 */
    BY_LAYOUT = 2, /* the mixers' own layout, with the hash in the head */
    F32 = 1,       /* type of the numbers */
    MAX_LAYERS = 1024,
};

#define MAX_SLOT_FLOATS (INT64_C(1) << 40)

static const char magic[8] = {'L', 'I', 'N', 'S', 'T', 'A', 'T', '2'};
static const char first_version = '1'; /* is read as well */

/* The head, HEAD_BYTES as they stand in the blob: no field is padded. */
typedef struct head {
    char magic[8];
    uint64_t total_bytes; /* of everything, signature included */
    uint64_t model_hash;
    uint64_t seed;
    uint64_t n_floats;    /* of the state that follows, 0: it has seen nothing yet */
    uint64_t slot_floats; /* of the part of a state of this model that does not grow */
    uint32_t flags, modality, kind, type;
    uint32_t n_layers, sample, rows, n_tokens;
    uint32_t request_bytes;
    uint32_t page_floats; /* of the growing part, for LX_PAGE_TOKENS rows; 0 in version 1 */
    char made_by[LX_STATE_MADE_BY];
    uint64_t layout; /* lx_model.state_hash; 0 in version 1 */
} head;

_Static_assert(sizeof(head) == HEAD_BYTES, "the head has no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

static size_t padded(size_t n)
{
    return (n + 3) / 4 * 4;
}

/* Bytes of the blob by its head. Every term is bounded by its type, so the sum does not overflow.
 */
static uint64_t size_of(const head *h)
{
    uint64_t n = HEAD_BYTES + padded(h->request_bytes) + (uint64_t)h->n_tokens * sizeof(int32_t);
    n += h->n_floats * sizeof(float) + CRC_BYTES;
    return (h->flags & SIGNED) != 0 ? n + LX_SHA256_BYTES : n;
}

static uint64_t floats_after(uint32_t rows, uint64_t slot_floats, uint32_t page_floats)
{
    uint64_t pages = ((uint64_t)rows + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS;
    return slot_floats + pages * page_floats;
}

int64_t lx_state_floats(const lx_saved_state *s)
{
    return (int64_t)floats_after((uint32_t)s->start.rows, (uint64_t)s->fixed_floats,
                                 (uint32_t)s->page_floats);
}

void lx_state_describe(const lx_model *model, lx_saved_state *s)
{
    s->model_hash = model->hash;
    s->n_layers = model->config.n_layers;
    s->fixed_floats = model->state.fixed_floats;
    s->page_floats = model->state.page_floats;
    s->layout = model->state_hash;
    s->modality = model->task->modality;
}

/* --- writing --- */

static void fill_head(const lx_saved_state *s, bool with_key, head *h)
{
    *h = (head){
        .model_hash = s->model_hash,
        .seed = s->seed,
        .n_floats = s->start.rows > 0 ? (uint64_t)lx_state_floats(s) : 0,
        .slot_floats = (uint64_t)s->fixed_floats,
        .page_floats = (uint32_t)s->page_floats,
        .layout = s->layout,
        .flags = (with_key ? SIGNED : 0U) | (s->rules ? RULES : 0U),
        .modality = (uint32_t)s->modality,
        .kind = BY_LAYOUT,
        .type = F32,
        .n_layers = (uint32_t)s->n_layers,
        .sample = s->start.first_sample,
        .rows = (uint32_t)s->start.rows,
        .n_tokens = (uint32_t)s->start.n_tokens,
        .request_bytes = (uint32_t)s->request_bytes,
    };
    memcpy(h->magic, magic, sizeof magic);
    memcpy(h->made_by, s->made_by, strnlen(s->made_by, sizeof h->made_by - 1));
    h->total_bytes = size_of(h);
}

lx_status lx_state_write(const lx_saved_state *s, const void *key, size_t key_bytes, lx_buffer *out,
                         lx_error *err)
{
    static const char zeros[4];
    head h;
    size_t begin = out->length;
    fill_head(s, key != NULL, &h);
    lx_buffer_append(out, &h, sizeof h);
    lx_buffer_append(out, s->request, s->request_bytes);
    lx_buffer_append(out, zeros, padded(s->request_bytes) - s->request_bytes);
    lx_buffer_append(out, s->start.tokens, (size_t)h.n_tokens * sizeof(int32_t));
    lx_buffer_append(out, s->start.state, (size_t)h.n_floats * sizeof(float));
    if (out->status == LX_OK) {
        uint32_t crc = lx_crc32c(0, out->data + begin, out->length - begin);
        lx_buffer_append(out, &crc, sizeof crc);
    }
    if (out->status == LX_OK && key != NULL) {
        unsigned char mac[LX_SHA256_BYTES];
        lx_status st =
            lx_hmac_sha256(key, key_bytes, out->data + begin, out->length - begin, mac, err);
        if (st != LX_OK)
            return st;
        lx_buffer_append(out, mac, sizeof mac);
    }
    return out->status == LX_OK ? LX_OK : lx_fail(err, out->status, NULL, "no room for a state");
}

/* --- reading --- */

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, "state", "this is no state that can be used: %s", what);
}

static bool all_zero(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    while (n > 0 && p[n - 1] == 0)
        n--;
    return n == 0;
}

/* Printable ASCII, as answers repeat it, then zeros to its end. */
static bool is_name(const char *field, size_t size)
{
    size_t n = 0;
    while (n < size && field[n] >= ' ' && field[n] <= '~')
        n++;
    return n < size && all_zero(field + n, size - n);
}

static lx_status check_head(const head *h, size_t n, lx_error *err)
{
    if (memcmp(h->magic, magic, sizeof magic - 1) != 0)
        return bad(err, "it does not begin like one");
    bool first = h->magic[7] == first_version;
    if (!first && h->magic[7] != magic[7])
        return bad(err, "it is of another version of the format");
    if (h->total_bytes != n)
        return lx_fail(err, LX_ERR_INVALID, "state",
                       "this is no usable state: it has %zu bytes, and its header says %llu", n,
                       (unsigned long long)h->total_bytes);
    if (h->kind != (first ? LINEAR : BY_LAYOUT) || h->type != F32 || h->modality > LX_IMAGE ||
        (h->flags & ~(uint32_t)(SIGNED | RULES)) != 0 ||
        (first && (h->page_floats != 0 || h->layout != 0)))
        return bad(err, "this server does not know its kind");
    if (h->request_bytes > LX_MAX_STATE_REQUEST || h->n_tokens > LX_MAX_JOB_TOKENS ||
        h->rows > (uint32_t)LX_MAX_JOB_TOKENS * 2 || h->n_layers > MAX_LAYERS ||
        h->slot_floats > (uint64_t)MAX_SLOT_FLOATS || h->n_floats > (uint64_t)n ||
        h->n_floats != (h->rows > 0 ? floats_after(h->rows, h->slot_floats, h->page_floats) : 0) ||
        size_of(h) != n)
        return bad(err, "its sizes contradict each other");
    if (!is_name(h->made_by, sizeof h->made_by))
        return bad(err, "the name of its maker is no printable ASCII");
    return LX_OK;
}

/* Checks that the blob has not changed, and that its writer had the key. */
static lx_status check_bytes(const unsigned char *bytes, size_t n, const head *h, const void *key,
                             size_t key_bytes, lx_error *err)
{
    bool is_signed = (h->flags & SIGNED) != 0;
    const unsigned char *padding = bytes + HEAD_BYTES + h->request_bytes;
    size_t end = n - (is_signed ? LX_SHA256_BYTES : 0); /* after the CRC */
    uint32_t crc;
    memcpy(&crc, bytes + end - CRC_BYTES, sizeof crc);
    if (crc != lx_crc32c(0, bytes, end - CRC_BYTES))
        return bad(err, "it was damaged (its CRC-32C is wrong)");
    if (!all_zero(padding, padded(h->request_bytes) - h->request_bytes))
        return bad(err, "its padding is not zero");
    if (key == NULL)
        return LX_OK;
    if (!is_signed)
        return bad(err, "it is not signed, and this server needs a signature");
    unsigned char mac[LX_SHA256_BYTES];
    lx_status st = lx_hmac_sha256(key, key_bytes, bytes, end, mac, err);
    if (st == LX_OK && !lx_equal_in_constant_time(mac, bytes + end, sizeof mac))
        st = bad(err, "it is not signed with this server's key");
    return st;
}

static void point_into(const head *h, unsigned char *memory, lx_saved_state *out)
{
    unsigned char *tokens = memory + HEAD_BYTES + padded(h->request_bytes);
    unsigned char *floats = tokens + (size_t)h->n_tokens * sizeof(int32_t);
    *out = (lx_saved_state){
        .model_hash = h->model_hash,
        .n_layers = (int32_t)h->n_layers,
        .fixed_floats = (int64_t)h->slot_floats,
        .page_floats = (int64_t)h->page_floats,
        .layout = h->layout,
        .modality = (lx_modality)h->modality,
        .rules = (h->flags & RULES) != 0,
        .request = memory + HEAD_BYTES,
        .request_bytes = h->request_bytes,
        .seed = h->seed,
        .start = {.n_tokens = (int32_t)h->n_tokens,
                  .tokens = (const int32_t *)(void *)tokens,
                  .rows = (int32_t)h->rows,
                  .state = h->rows > 0 ? (const float *)(void *)floats : NULL,
                  .first_sample = h->sample},
        .stored = {.n_kept = (int32_t)h->n_tokens},
        .memory = memory,
    };
    memcpy(out->made_by, h->made_by, sizeof out->made_by);
}

lx_status lx_state_read(const void *bytes, size_t n, const void *key, size_t key_bytes,
                        lx_saved_state *out, lx_error *err)
{
    head h;
    if (n < HEAD_BYTES + CRC_BYTES)
        return bad(err, "it is too short");
    memcpy(&h, bytes, sizeof h);
    lx_status st = check_head(&h, n, err);
    if (st == LX_OK)
        st = check_bytes(bytes, n, &h, key, key_bytes, err);
    if (st != LX_OK)
        return st;
    unsigned char *memory = malloc(n); /* aligned for what lies in it, unlike the caller's bytes */
    if (memory == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    memcpy(memory, bytes, n);
    point_into(&h, memory, out);
    return LX_OK;
}

lx_saved_state lx_state_facts(const lx_saved_state *s)
{
    lx_saved_state facts = *s;
    facts.request = NULL;
    facts.start.tokens = NULL;
    facts.start.state = NULL;
    facts.memory = NULL;
    return facts;
}

void lx_state_fini(lx_saved_state *s)
{
    free(s->memory);
    *s = (lx_saved_state){0};
}

lx_status lx_state_check(const lx_saved_state *s, const lx_model *model, lx_error *err)
{
    if (s->model_hash != model->hash)
        return lx_fail(err, LX_ERR_INVALID, "state",
                       "the state was made by other weights: %016llx, and model %s has %016llx",
                       (unsigned long long)s->model_hash, model->name,
                       (unsigned long long)model->hash);
    if (s->modality != model->task->modality || s->n_layers != model->config.n_layers ||
        s->fixed_floats != model->state.fixed_floats ||
        s->page_floats != model->state.page_floats || s->start.rows > model->max_rows ||
        (s->layout != 0 && s->layout != model->state_hash))
        return bad(err, "it does not have the model's shape");
    for (int64_t i = 0; s->start.state != NULL && i < lx_state_floats(s); i++) {
        if (!__builtin_isfinite(s->start.state[i]))
            return bad(err, "a number in it is not finite");
    }
    return LX_OK;
}

size_t lx_state_max_bytes(const lx_model *model)
{
    size_t tokens = (size_t)LX_MAX_STATE_REQUEST * sizeof(int32_t);
    return HEAD_BYTES + LX_MAX_STATE_REQUEST + tokens +
           (size_t)lx_model_state_floats(model, model->max_rows) * sizeof(float) + CRC_BYTES +
           LX_SHA256_BYTES;
}
