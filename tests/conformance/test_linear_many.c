/* `linear` of so many outputs and rows that a back end may compute them in larger pieces than a
   few. */
#include <string.h>

#include "conformance.h"

enum { MANY = 193, OUTPUTS = 961, PART = 16 };

/* Rows first .. first + n - 1. */
static bool run_rows(device *d, const lx_matrix *w, const float *x, int64_t cols, int32_t first,
                     int32_t n, float *y)
{
    lx_array *in = dev_array(d, x + first * cols, n * cols);
    lx_array *out = dev_array(d, NULL, n * OUTPUTS);
    lx_linear_args args = {
        .y = out, .x = in, .w = w, .activation = LX_ACT_GELU, .rows = LX_ROWS_TOKENS};
    CHECK_OK(d->k->begin(d->be, single_rows(n), NULL));
    d->k->linear(d->be, &args);
    return dev_finish(d) && dev_read(d, out, y, n * OUTPUTS);
}

static bool linear_of_many_has_the_bytes_of_few(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {8};
    for (int i = 0; i < 2; i++) {
        int64_t cols = i == 0 ? 17 : 36, most = (int64_t)MANY * OUTPUTS;
        float *weights = random_floats(&r, OUTPUTS * cols, UNIFORM, -8, 8);
        float *bias = random_floats(&r, OUTPUTS, UNIFORM, -4, 4);
        float *x = random_floats(&r, most, UNIFORM, -6, 6);
        float *all = floats(most), *some = floats(most);
        lx_host_tensor t = tensor_of(weights, OUTPUTS, cols, LX_F32);
        lx_matrix *w = dev_matrix(dut, &t, bias);
        if (!run_rows(dut, w, x, cols, 0, MANY, all))
            return false;
        for (int32_t first = 0; first < MANY; first += PART) {
            int32_t n = MANY - first < PART ? MANY - first : PART;
            if (!run_rows(dut, w, x, cols, first, n, some))
                return false;
            CHECK(same_bytes(some, all + (int64_t)first * OUTPUTS, n * OUTPUTS),
                  "rows %d to %d differ from the same rows among %d", first, first + n - 1, MANY);
        }
        dev_release(dut);
    }
    return true;
}

const test linear_many_tests[] = {
    {"linear_of_many_has_the_bytes_of_few", linear_of_many_has_the_bytes_of_few},
    {NULL, NULL},
};
