/* Base64 (see base64.h), by table. */
#include "common/base64.h"

#include <stdbool.h>
#include <stdlib.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Three bytes at most become four characters. */
static void encode_group(const uint8_t *in, size_t n, char *out)
{
    uint32_t x = (uint32_t)in[0] << 16;
    if (n > 1)
        x |= (uint32_t)in[1] << 8;
    if (n > 2)
        x |= in[2];
    out[0] = alphabet[x >> 18];
    out[1] = alphabet[x >> 12 & 63];
    out[2] = n > 1 ? alphabet[x >> 6 & 63] : '=';
    out[3] = n > 2 ? alphabet[x & 63] : '=';
}

void lx_base64_append(const void *bytes, size_t n, lx_buffer *out)
{
    const uint8_t *in = bytes;
    char text[1024];
    size_t filled = 0;
    for (size_t i = 0; i < n; i += 3) {
        encode_group(in + i, n - i, text + filled);
        filled += 4;
        if (filled == sizeof text) {
            lx_buffer_append(out, text, filled);
            filled = 0;
        }
    }
    lx_buffer_append(out, text, filled);
}

/* -1 for a character that is not in the alphabet. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four characters, the last `pad` of them "=", become 3 - pad bytes. */
static bool decode_group(const char *in, size_t pad, uint8_t *out)
{
    uint32_t x = 0;
    for (size_t i = 0; i < 4; i++) {
        int v = i < 4 - pad ? value_of(in[i]) : 0;
        if (v < 0)
            return false;
        x = x << 6 | (uint32_t)v;
    }
    for (size_t i = 0; i < 3 - pad; i++)
        out[i] = (uint8_t)(x >> (16 - 8 * i));
    return (x & ((UINT32_C(1) << 8 * pad) - 1)) == 0;
}

static size_t padding(const char *text, size_t n)
{
    if (n == 0 || text[n - 1] != '=')
        return 0;
    return text[n - 2] == '=' ? 2 : 1;
}

lx_status lx_base64_decode(const char *text, size_t n, const char *param, uint8_t **out,
                           size_t *bytes, lx_error *err)
{
    if (n % 4 != 0)
        return lx_fail(err, LX_ERR_INVALID, param, "%s is not base64: %zu characters, not 4 by 4",
                       param, n);
    size_t pad = padding(text, n);
    uint8_t *data = malloc(n / 4 * 3 + 1);
    if (data == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, param, "no memory for %s", param);
    for (size_t i = 0; i < n; i += 4) {
        if (!decode_group(text + i, i + 4 == n ? pad : 0, data + i / 4 * 3)) {
            free(data);
            return lx_fail(err, LX_ERR_INVALID, param, "%s is not base64: wrong from character %zu",
                           param, i);
        }
    }
    *out = data;
    *bytes = n / 4 * 3 - pad;
    return LX_OK;
}
