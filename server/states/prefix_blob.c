/* See prefix_blob.h. The blob is a head, ids[rows, width], the floats and the CRC of all these. */
#include "server/states/prefix_blob.h"

#include <assert.h>
#include <string.h>

#include "common/crc32c.h"

enum { CRC_BYTES = 4 };

static const char magic[8] = {'L', 'I', 'N', 'P', 'R', 'E', 'F', '2'};

typedef struct head {
    char magic[8];
    uint64_t n_floats;
    uint32_t rows, width, base, zero;
    char maker[LX_PREFIX_MAKER];
} head;

static_assert(sizeof(head) == 32 + LX_PREFIX_MAKER, "a head has no padding");

static size_t id_bytes(const lx_prefix_name *name)
{
    return (size_t)name->key.n_rows * (size_t)name->width * sizeof *name->key.ids;
}

static head head_of(const lx_prefix_name *name, int32_t base, size_t n_floats)
{
    head h = {.n_floats = n_floats,
              .rows = (uint32_t)name->key.n_rows,
              .width = (uint32_t)name->width,
              .base = (uint32_t)base};
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

void lx_prefix_blob_fill(const lx_prefix_name *name, int32_t base, size_t n_floats,
                         unsigned char *blob)
{
    size_t n = lx_prefix_blob_bytes(name, n_floats) - CRC_BYTES;
    head h = head_of(name, base, n_floats);
    memcpy(blob, &h, sizeof h);
    memcpy(blob + sizeof h, name->key.ids, id_bytes(name));
    uint32_t crc = lx_crc32c(0, blob, n);
    memcpy(blob + n, &crc, sizeof crc);
}

/* Whether the blob is whole, and that of the name; *base of its head. */
static bool is_of(const lx_prefix_name *name, const lx_prefix_sizes *sizes,
                  const unsigned char *blob, size_t n, int32_t *base)
{
    head h;
    uint32_t crc;
    if (n < lx_prefix_blob_head(name) + CRC_BYTES)
        return false;
    memcpy(&h, blob, sizeof h);
    memcpy(&crc, blob + n - CRC_BYTES, sizeof crc);
    if (h.base >= (uint32_t)name->key.n_rows || (sizes->page == 0 && h.base != 0))
        return false;
    *base = (int32_t)h.base;
    size_t n_floats = lx_prefix_floats(sizes, *base, name->key.n_rows);
    head wanted = head_of(name, *base, n_floats);
    return n == lx_prefix_blob_bytes(name, n_floats) && crc == lx_crc32c(0, blob, n - CRC_BYTES) &&
           memcmp(&h, &wanted, sizeof h) == 0 &&
           memcmp(blob + sizeof h, name->key.ids, id_bytes(name)) == 0;
}

lx_status lx_prefix_blob_read(const lx_prefix_name *name, const lx_prefix_sizes *sizes, int32_t end,
                              const unsigned char *blob, size_t n, float *to, int32_t *base,
                              lx_error *err)
{
    if (!is_of(name, sizes, blob, n, base))
        return lx_fail(err, LX_ERR_FORMAT, NULL, "a stored prompt state is damaged");
    const unsigned char *from = blob + lx_prefix_blob_head(name);
    size_t fixed = sizes->fixed * sizeof *to;
    size_t pages = lx_prefix_floats(sizes, *base, name->key.n_rows) * sizeof *to - fixed;
    int32_t first = lx_prefix_first_page(*base);
    if (end < 0)
        memcpy(to, from, fixed);
    else
        pages = end > first ? (size_t)(end - first) * sizes->page * sizeof *to : 0;
    if (pages > 0)
        memcpy(to + sizes->fixed + (size_t)first * sizes->page, from + fixed, pages);
    return LX_OK;
}
