/* linnet convert: writes a model's folder with its matrices in blocks of 8 or 4 bits. */
#include <stdio.h>
#include <string.h>

#include "model/convert.h"
#include "server/cli/cli.h"

typedef struct convert_options {
    const char *to;
} convert_options;

#define LX_OPTIONS convert_options
static const lx_option options[] = {
    LX_CHOICE("to", to, "int4", "int4|q8", "NAME",
              "Matrices become blocks of 4 bits (as serve --precision int4 makes them), or of 8."),
};

typedef struct sums {
    double before, after; /* bytes */
    int32_t n_kept;       /* matrices that stayed as they were */
} sums;

static double bytes_of(lx_dtype dtype, const lx_host_tensor *t)
{
    return (double)lx_format_bytes(dtype, t->rows * t->cols);
}

static void print_tensor(void *context, const lx_converted *t)
{
    sums *s = context;
    bool packed = t->to != t->from.dtype;
    bool stays = t->is_matrix && !packed && lx_format_of(t->to)->block == 1;
    (void)printf("%-32s [%lld, %lld] %s", t->name, (long long)t->from.rows, (long long)t->from.cols,
                 lx_format_of(t->from.dtype)->name);
    if (packed)
        (void)printf(" -> %s, error %.2f %%", lx_format_of(t->to)->name, 100 * t->error);
    if (stays)
        (void)printf(", stays: its rows are not whole blocks of %d", LX_BLOCK);
    (void)putchar('\n');
    s->before += bytes_of(t->from.dtype, &t->from);
    s->after += bytes_of(t->to, &t->from);
    s->n_kept += stays;
}

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    const convert_options *o = values;
    bool four = strcmp(o->to, "int4") == 0;
    sums s = {0};
    lx_model *m = NULL;
    lx_status st = lx_cli_load_model(rest[0], &m, err);
    if (st == LX_OK)
        st = lx_model_convert(m, four ? LX_Q4_0 : LX_Q8_0, rest[1], print_tensor, &s, err);
    if (st == LX_OK)
        (void)printf("%s: %.1f MB of weights, before %.1f MB\n", rest[1], s.after / 1e6,
                     s.before / 1e6);
    if (st == LX_OK && four && s.n_kept > 0)
        (void)puts("serve it with --precision int4: matrices that stayed are rounded then");
    lx_model_free(m);
    return st;
}

const lx_command lx_convert_command = {
    .name = "convert",
    .brief = "write a model with weights of 4 or 8 bits",
    .summary = "Writes the folder OUT, a copy of the model in DIR with its matrices in blocks. The "
               "error of a tensor is the root of its mean squared error over that of its mean "
               "square.",
    .positional = "DIR OUT",
    .min_positional = 2,
    .max_positional = 2,
    LX_COMMAND(run),
    .notes = "examples: linnet convert my-model my-model-int4\n"
             "          linnet convert --to q8 my-model my-model-q8\n",
};
