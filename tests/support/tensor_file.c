/* See tensor_file.h. */
#include "tests/support/tensor_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/scratch.h"

static void put(unsigned char *to, float value, bool bf16)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bf16) {
        uint16_t high = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        memcpy(to, &high, sizeof high);
    } else {
        memcpy(to, &bits, sizeof bits);
    }
}

void tensor_file_add(tensor_file *f, const char *name, const char *shape, bool bf16,
                     const float *values, size_t n)
{
    size_t size = bf16 ? 2 : 4, begin = f->n_data, end = begin + n * size;
    f->n_header += (size_t)snprintf(
        f->header + f->n_header, sizeof f->header - f->n_header,
        "%c\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
        f->n_header == 0 ? '{' : ',', name, bf16 ? "BF16" : "F32", shape, begin, end);
    assert_true(f->n_header + 1 < sizeof f->header);
    f->data = realloc(f->data, end);
    assert_non_null(f->data);
    for (size_t i = 0; i < n; i++)
        put(f->data + begin + i * size, values[i], bf16);
    f->n_data = end;
}

void tensor_file_write(tensor_file *f, const char *name)
{
    f->header[f->n_header++] = '}';
    size_t n = 8 + f->n_header + f->n_data;
    unsigned char *file = calloc(1, n);
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(f->n_header >> 8 * i);
    memcpy(file + 8, f->header, f->n_header);
    memcpy(file + 8 + f->n_header, f->data, f->n_data);
    (void)scratch_write(name, file, n);
    free(file);
    free(f->data);
    *f = (tensor_file){.n_header = 0};
}

void tensor_file_write_folder(tensor_file *f, const char *config)
{
    tensor_file_write(f, "model.safetensors");
    (void)scratch_write("config.json", config, strlen(config));
}
