/* A file that is changed between the two times that a model's loading reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/model.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"

static bool changes; /* the next load of a config is followed by a change of its file */

lx_status __real_lx_config_load(const char *path, lx_config *out, lx_error *err);
lx_status __wrap_lx_config_load(const char *path, lx_config *out, lx_error *err);

lx_status __wrap_lx_config_load(const char *path, lx_config *out, lx_error *err)
{
    lx_status st = __real_lx_config_load(path, out, err);
    if (changes) {
        FILE *f = fopen(path, "a");
        assert_non_null(f);
        assert_int_equal(fputc(' ', f), ' '); /* still the same JSON */
        assert_int_equal(fclose(f), 0);
    }
    return st;
}

static void a_config_that_is_changed_is_refused(void **state)
{
    (void)state;
    char *folder = tiny_model_make("tiny", &tiny_model_default);
    lx_model *m = NULL;
    lx_error err = {0};
    assert_non_null(folder);
    changes = true;
    scratch_expect(lx_model_load(folder, &m, &err), &err, LX_ERR_CONFLICT,
                   "tiny/config.json: the file was changed while it was read");
    assert_null(m);
    changes = false;
    must(lx_model_load(folder, &m, &err), &err);
    lx_model_free(m);
    tiny_model_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_config_that_is_changed_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
