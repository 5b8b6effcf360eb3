/* safetensors: of an accepted file every tensor can be found and every value read. */
#include <math.h>
#include <stdlib.h>

#include "model/formats/safetensors.h"
#include "tests/fuzz/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    lx_safetensors *f = NULL;
    lx_error err = {0};
    lx_status st = lx_safetensors_open(subject_file(data, n), &f, &err);
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return 0;
    }
    for (int32_t i = 0; i < lx_safetensors_count(f); i++) {
        const lx_tensor *t = lx_safetensors_at(f, i);
        MUST(lx_safetensors_find(f, t->name) == t);
        float *numbers = malloc((size_t)(t->t.rows * t->t.cols) * sizeof *numbers);
        MUST(numbers != NULL && lx_safetensors_numbers(f, t, numbers, &err) == LX_OK);
        for (int64_t k = 0; k < t->t.rows * t->t.cols; k++)
            MUST(isfinite(numbers[k]));
        free(numbers);
    }
    (void)lx_safetensors_hash(f);
    lx_safetensors_close(f);
    return 0;
}
