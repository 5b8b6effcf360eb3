/*
 * The C program's results against fixtures that generate_lines.py, generate_images.py and
 * generate_hearing.py computed from the same weights with PyTorch in float64, on every back end and
 * instruction set.
 *
 *   golden MODEL_DIR FIXTURE_DIR [BACKEND [ISA]]    only on that back end, or instruction set,
 * which then has to be there and to have the model's kind
 *
 * Closing line "N passed, N failed"; a missing file is a failure.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/tasks/task.h"
#include "tests/golden/golden.h"

static int passed, failed;
static const char *only, *only_isa; /* back end, instruction set; NULL: all */
static bool slow;                   /* the running test */

void golden_count(bool ok, const char *fmt, ...)
{
    passed += ok;
    failed += !ok;
    if (ok)
        return;
    va_list args;
    va_start(args, fmt);
    (void)printf("FAIL ");
    (void)vprintf(fmt, args);
    (void)printf("\n");
    va_end(args);
}

int32_t golden_part(int32_t n)
{
    return slow ? (n + 3) / 4 : n;
}

static void run(const char *model_dir, const char *fixture_dir, const char *name, lx_isa isa,
                const char *what)
{
    lx_backend_options options = {.n_threads = 2, .isa = isa};
    lx_backend *be = NULL;
    lx_model *model = NULL;
    lx_transformer *t = NULL;
    lx_error err = {0};
    if ((only != NULL && strcmp(only, name) != 0) ||
        (only_isa != NULL && strcmp(only_isa, lx_isa_name(isa)) != 0))
        return;
    slow = strcmp(name, "reference") == 0 || isa == LX_ISA_PLAIN;
    lx_status st = lx_backend_open(name, &options, &be, &err);
    if (st == LX_ERR_UNSUPPORTED && only_isa == NULL && (only == NULL || isa != LX_ISA_AUTO)) {
        (void)printf("%-28s not on this machine: %s\n", what, err.text);
        return;
    }
    if (st == LX_OK)
        st = lx_model_load(model_dir, &model, &err);
    if (st == LX_OK)
        st = model->sees_all ? LX_OK
                             : lx_transformer_new(model, be, GOLDEN_ROWS, GOLDEN_ROWS, &t, &err);
    if (st == LX_ERR_UNSUPPORTED && only == NULL) /* a device without the model's kind */
        (void)printf("%-28s not on this back end: %s\n", what, err.text);
    else if (st != LX_OK)
        golden_count(false, "%s: %s", what, err.text);
    else if (model->sees_all)
        golden_sounds(model, be, fixture_dir, what);
    else if (model->task->modality == LX_IMAGE)
        golden_images(t, fixture_dir, what);
    else
        golden_lines(t, fixture_dir, what);
    lx_transformer_free(t);
    if (be != NULL)
        be->ops->close(be);
    lx_model_free(model);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) {
        (void)fprintf(stderr, "usage: golden MODEL_DIR FIXTURE_DIR [BACKEND [ISA]]\n");
        return 2;
    }
    only = argc > 3 ? argv[3] : NULL;
    only_isa = argc > 4 ? argv[4] : NULL;
    run(argv[1], argv[2], "reference", LX_ISA_AUTO, "reference");
    run(argv[1], argv[2], "cpu", LX_ISA_PLAIN, "cpu plain");
    run(argv[1], argv[2], "cpu", LX_ISA_AVX2, "cpu avx2");
    run(argv[1], argv[2], "cpu", LX_ISA_AVX512, "cpu avx512");
    run(argv[1], argv[2], "cpu", LX_ISA_NEON, "cpu neon");
    run(argv[1], argv[2], "cuda", LX_ISA_AUTO, "cuda");
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed != 0 || passed == 0;
}
