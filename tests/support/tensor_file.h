/* Writing model.safetensors and config.json into the scratch folder (scratch.h), tensor by tensor.
 */
#ifndef LINNET_TESTS_SUPPORT_TENSOR_FILE_H
#define LINNET_TESTS_SUPPORT_TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tensor_file {
    char header[1 << 16];
    size_t n_header, n_data;
    unsigned char *data;
} tensor_file;

/* Adds n values; shape: "[3,4]". In bf16 they are rounded to the nearest, halves to even. The file
   is all zero before its first tensor. */
void tensor_file_add(tensor_file *f, const char *name, const char *shape, bool bf16,
                     const float *values, size_t n);
/* Writes it as `name` and begins another. */
void tensor_file_write(tensor_file *f, const char *name);
/* Writes it as model.safetensors into a folder, next to this config.json. */
void tensor_file_write_folder(tensor_file *f, const char *config);

#endif
