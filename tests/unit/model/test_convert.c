/* Converting a folder: what is written, and that nothing is left after an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/convert.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

static char *folder, *out;
static lx_model *model;

static int setup(void **state)
{
    lx_error err = {0};
    folder = tiny_model_make("tiny", &tiny_model_default);
    if (folder == NULL || scratch_setup(state) != 0 || lx_model_load(folder, &model, &err) != LX_OK)
        return -1;
    out = strdup(scratch_path("out"));
    return out != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    lx_model_free(model);
    tiny_model_remove(folder);
    free(out);
    return scratch_teardown(state);
}

typedef struct counts {
    int packed, all;
} counts;

static void count(void *context, const lx_converted *t)
{
    counts *c = context;
    c->all++;
    if (t->to == t->from.dtype)
        return;
    c->packed++;
    assert_true(t->is_matrix && t->to == LX_Q4_0 && t->error > 0.01 && t->error < 0.2);
}

static void a_folder_that_changes_is_refused(void **state)
{
    (void)state;
    char *copy = tiny_model_make("other", &tiny_model_default);
    lx_model *m = NULL;
    lx_error err = {0};
    counts c = {0};
    must(lx_model_load(copy, &m, &err), &err);
    assert_true(tiny_model_write(copy, &tiny_model_image)); /* over the open file */
    scratch_expect(lx_model_convert(m, LX_Q4_0, out, count, &c, &err), &err, LX_ERR_CONFLICT,
                   "the file was changed while it was read");
    assert_int_not_equal(access(out, F_OK), 0);
    lx_model_free(m);
    tiny_model_remove(copy);
}

/* Each allocation of the conversion fails once. At the end the folder is there, and its matrices
   are in blocks. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int n = 1;; n++) {
        lx_error err = {0};
        counts c = {0};
        failing_arm(n);
        lx_status st = lx_model_convert(model, LX_Q4_0, out, count, &c, &err);
        if (!failing_hit()) {
            must(st, &err);
            assert_int_equal(c.all, lx_safetensors_count(model->weights));
            assert_int_equal(c.packed, 4 * model->config.n_layers + 1); /* and the head */
            assert_true(n > 20);
            break;
        }
        scratch_expect(st, &err, LX_ERR_NO_MEMORY, "memory");
        assert_int_not_equal(access(out, F_OK), 0);
    }
    lx_error err = {0};
    lx_model *m = NULL;
    must(lx_model_load(out, &m, &err), &err);
    assert_int_equal(lx_model_tensor(m, "layers.0.attn.qkv.weight")->t.dtype, LX_Q4_0);
    assert_int_equal(m->n_parameters, model->n_parameters);
    lx_model_free(m);
    counts c = {0};
    scratch_expect(lx_model_convert(model, LX_Q4_0, out, count, &c, &err), &err, LX_ERR_INVALID,
                   "out exists");
    assert_int_equal(access(out, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_changes_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
