/* The code that the commands share (see cli.h). */
#include "server/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cgroup.h"
#include "common/clock.h"
#include "common/visible.h"
#include "server/cli/options.h"

enum { CHUNK = 1 << 16, BAR = 30 };

/* --- models --- */

/* Cores that this process may run on, at least 1; a container's share of CPU time, rounded up. */
static int32_t core_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int32_t n = CPU_COUNT(&set);
    double allowed = lx_cgroup_own().cpus;
    return allowed > 0 && allowed < n ? (int32_t)ceil(allowed) : n;
}

static lx_isa isa_by_name(const char *name)
{
    lx_isa isa = LX_ISA_AUTO;
    while (lx_isa_name(isa) != NULL && strcmp(lx_isa_name(isa), name) != 0)
        isa++;
    return isa;
}

static lx_precision precision_by_name(const char *name)
{
    lx_precision precision = LX_PRECISION_F32;
    while (lx_precision_name(precision) != NULL && strcmp(lx_precision_name(precision), name) != 0)
        precision++;
    return precision;
}

lx_backend_options lx_cli_backend_options(const lx_cli_model_options *o)
{
    return (lx_backend_options){
        .n_threads = o->threads > 0 ? (int32_t)o->threads : core_count(),
        .isa = isa_by_name(o->isa),
        .precision = precision_by_name(o->precision),
        .cuda_products =
            strcmp(o->cuda_products, "own") == 0 ? LX_CUDA_PRODUCTS_OWN : LX_CUDA_PRODUCTS_CUBLAS,
    };
}

static lx_status open_backend(const lx_cli_model_options *o, lx_backend **out, lx_error *err)
{
    lx_backend_options options = lx_cli_backend_options(o);
    char why[LX_CLI_WHY_BYTES];
    if (o->backend != NULL)
        return lx_backend_open(o->backend, &options, out, err);
    return lx_backend_choose(o->device, &options, out, why, sizeof why, err);
}

lx_status lx_cli_load_model(const char *given, lx_model **out, lx_error *err)
{
    char dir[LX_PLACE_BYTES];
    lx_status st = lx_places_model(given, dir, err);
    return st == LX_OK ? lx_model_load(dir, out, err) : st;
}

/* The parts that compute a model of the sort. */
static lx_status open_parts(lx_cli_sort sort, int32_t max_tokens, lx_cli_model *m, lx_error *err)
{
    if (sort == LX_CLI_WRITES || (sort == LX_CLI_ANY && !m->model->sees_all))
        return lx_transformer_new(m->model, m->be, max_tokens, max_tokens, &m->transformer, err);
    lx_status st = lx_listener_new(m->model, &m->listener, err);
    return st == LX_OK ? lx_encoder_new(m->model, m->be, m->model->max_rows, 1, &m->encoder, err)
                       : st;
}

lx_status lx_cli_open(const lx_cli_model_options *o, lx_cli_sort sort, int32_t max_tokens,
                      lx_cli_model *out, lx_error *err)
{
    *out = (lx_cli_model){0};
    lx_status st = open_backend(o, &out->be, err);
    if (st == LX_OK)
        st = lx_cli_load_model(o->model, &out->model, err);
    if (st == LX_OK)
        st = open_parts(sort, max_tokens, out, err);
    if (st != LX_OK)
        lx_cli_close(out);
    return st;
}

void lx_cli_close(lx_cli_model *m)
{
    lx_transformer_free(m->transformer);
    lx_encoder_free(m->encoder);
    lx_listener_free(m->listener);
    lx_model_free(m->model);
    if (m->be != NULL)
        m->be->ops->close(m->be);
    *m = (lx_cli_model){0};
}

/* --- commands --- */

int lx_cli_fail(const lx_command *c, lx_status status, const lx_error *err)
{
    const char *text = err->text[0] != '\0' ? err->text : lx_status_text(status);
    lx_visible_line(stderr, "linnet %s: %s", c->name, text);
    return status == LX_ERR_INVALID ? 2 : 1;
}

static void print_help(const lx_command *c, int argc, char **argv)
{
    void (*print)(const lx_command *, FILE *) = lx_manual_help;
    for (int i = 0; i < argc && print == lx_manual_help; i++) {
        if (strcmp(argv[i], "--help=markdown") == 0)
            print = lx_manual_markdown;
        else if (strcmp(argv[i], "--help=man") == 0)
            print = lx_manual_command;
    }
    print(c, stdout);
}

int lx_cli_run(const lx_command *c, int argc, char **argv)
{
    lx_error err = {0};
    int n = 0;
    void *values = calloc(1, c->values_bytes);
    const char **positional = calloc((size_t)c->max_positional + 1, sizeof *positional);
    lx_status st = values != NULL && positional != NULL
                       ? lx_options_parse(c, argc, argv, values, positional, &n, &err)
                       : lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the arguments");
    if (st == LX_OK) {
        st = c->run(values, positional, &err);
    } else if (st == LX_ERR_CANCELLED) {
        print_help(c, argc, argv);
        st = LX_OK;
    }
    free(values);
    free(positional);
    return st == LX_OK ? 0 : lx_cli_fail(c, st, &err);
}

/* --- standard input and output --- */

lx_status lx_cli_read_input(lx_buffer *out, lx_error *err)
{
    char chunk[CHUNK];
    size_t n;
    while (out->status == LX_OK && (n = fread(chunk, 1, sizeof chunk, stdin)) > 0)
        lx_buffer_append(out, chunk, n);
    return ferror(stdin) == 0 ? LX_OK : lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
}

void lx_cli_print_json_bytes(const char *text, size_t n)
{
    (void)putchar('"');
    for (const char *end = text + n; text < end; text++) {
        if (*text == '"' || *text == '\\')
            (void)printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20 || *text == 0x7f)
            (void)printf("\\u%04x", (unsigned char)*text);
        else if (end - text > 1 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0)
            (void)printf("\\u%04x", (unsigned char)*++text); /* U+0080 to U+009F */
        else
            (void)putchar(*text);
    }
    (void)putchar('"');
}

void lx_cli_print_json_string(const char *text)
{
    lx_cli_print_json_bytes(text, strlen(text));
}

void lx_cli_begin_json(const char *model)
{
    (void)printf("{\"model\": ");
    lx_cli_print_json_string(model);
}

void lx_progress_begin(lx_progress *p, const char *unit, int64_t total)
{
    *p = (lx_progress){.on = isatty(STDERR_FILENO) == 1,
                       .unit = unit,
                       .total = total > 0 ? total : 1,
                       .start_ns = lx_now_ns()};
}

void lx_progress_update(lx_progress *p, int64_t done)
{
    int64_t now = lx_now_ns();
    if (!p->on || now < p->next_ns)
        return;
    char bar[BAR + 1];
    int filled = (int)(done * BAR / p->total);
    memset(bar, ' ', BAR);
    memset(bar, '#', (size_t)filled);
    bar[BAR] = '\0';
    double seconds = (double)(now - p->start_ns) / 1e9;
    (void)fprintf(stderr, "\r[%s] %3d %%  %.0f %s/s\033[K", bar, (int)(done * 100 / p->total),
                  seconds > 0 ? (double)done / seconds : 0.0, p->unit);
    (void)fflush(stderr);
    p->next_ns = now + 100 * LX_NS_PER_MS;
}

void lx_progress_end(lx_progress *p)
{
    if (p->on)
        (void)fputs("\r\033[K", stderr);
}
