/* See prefix_blob.h. The blob is a head, ids[rows, width], the floats and the CRC of all these. */
#include "server/states/prefix_blob.h"

#include <assert.h>
#include <string.h>

#include "common/crc32c.h"

enum { CRC_BYTES = 4 };

static const char magic[8] = {'L', 'I', 'N', 'P', 'R', 'E', 'F', '1'};

typedef struct head {
    char magic[8];
    uint64_t n_floats;
    uint32_t rows, width;
    char maker[LX_PREFIX_MAKER];
} head;

static_assert(sizeof(head) == 24 + LX_PREFIX_MAKER, "a head has no padding");

static size_t id_bytes(const lx_prefix_name *name)
{
    return (size_t)name->key.n_rows * (size_t)name->width * sizeof *name->key.ids;
}

static head head_of(const lx_prefix_name *name, size_t n_floats)
{
    head h = {
        .n_floats = n_floats, .rows = (uint32_t)name->key.n_rows, .width = (uint32_t)name->width};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.maker, name->maker, strnlen(name->maker, sizeof h.maker - 1));
    return h;
}

size_t lx_prefix_blob_head(const lx_prefix_name *name)
{
    return sizeof(head) + id_bytes(name);
}

size_t lx_prefix_blob_bytes(const lx_prefix_name *name, size_t n_floats)
{
    return lx_prefix_blob_head(name) + n_floats * sizeof(float) + CRC_BYTES;
}

void lx_prefix_blob_fill(const lx_prefix_name *name, size_t n_floats, unsigned char *blob)
{
    size_t n = lx_prefix_blob_bytes(name, n_floats) - CRC_BYTES;
    head h = head_of(name, n_floats);
    memcpy(blob, &h, sizeof h);
    memcpy(blob + sizeof h, name->key.ids, id_bytes(name));
    uint32_t crc = lx_crc32c(0, blob, n);
    memcpy(blob + n, &crc, sizeof crc);
}

lx_status lx_prefix_blob_read(const lx_prefix_name *name, const unsigned char *blob, size_t n,
                              float *to, size_t n_floats, lx_error *err)
{
    uint32_t crc = 0;
    head h = head_of(name, n_floats);
    bool fits = n == lx_prefix_blob_bytes(name, n_floats);
    if (fits)
        memcpy(&crc, blob + n - CRC_BYTES, sizeof crc);
    if (!fits || crc != lx_crc32c(0, blob, n - CRC_BYTES) || memcmp(blob, &h, sizeof h) != 0 ||
        memcmp(blob + sizeof h, name->key.ids, id_bytes(name)) != 0)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "a stored prompt state is damaged");
    memcpy(to, blob + lx_prefix_blob_head(name), n_floats * sizeof *to);
    return LX_OK;
}
