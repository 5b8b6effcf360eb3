/*
 * What a GPU does to a server when it fails, tested on the cuda back end without one: opening it
 * without library, driver or device, and a device that is lost at any call of the runtime. Each is
 * an error with a text; nothing crashes or leaks (the sanitizers look), and the process goes on.
 *
 *   cuda_failures LIBRARY    the library's own path, to reach its switch simt_fail_at
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static int failed, passed;

static void check(bool good, const char *what, const char *text)
{
    if (good) {
        passed++;
        return;
    }
    failed++;
    (void)printf("FAILED %s: %s\n", what, text);
}

/* --- opening
 * -------------------------------------------------------------------------------------- */

static void opening_fails(const char *name, lx_status want, const char *needle)
{
    lx_backend_options o = {.n_threads = 1};
    lx_backend *be = NULL;
    lx_error err = {0};
    lx_status st = lx_backend_open(name, &o, &be, &err);
    check(st == want && be == NULL && strstr(err.text, needle) != NULL, name, err.text);
}

static void set_devices(const char *text)
{
    if (text != NULL)
        (void)setenv("LINNET_SIMT_DEVICES", text, 1);
    else
        (void)unsetenv("LINNET_SIMT_DEVICES");
}

static void test_opening(void)
{
    set_devices("no driver");
    opening_fails("cuda", LX_ERR_UNSUPPORTED, "driver version is insufficient");
    set_devices("0");
    opening_fails("cuda", LX_ERR_UNSUPPORTED, "no usable GPU");
    set_devices("2");
    opening_fails("cuda:2", LX_ERR_UNSUPPORTED, "no device 2, there are 2");
    opening_fails("cuda:", LX_ERR_INVALID, "a device is a number");
    opening_fails("cuda:x", LX_ERR_INVALID, "a device is a number");
    opening_fails("cuda:-1", LX_ERR_INVALID, "a device is a number");
    opening_fails("cuda:99999", LX_ERR_INVALID, "a device is a number");
    opening_fails("cudax", LX_ERR_UNSUPPORTED, "no back end");
    set_devices(NULL);
}

/* --- losing the device
 * ---------------------------------------------------------------------------- */

enum { IDS = 20, WIDTH = 16, STATE = WIDTH * (WIDTH + 1), ROWS = 3 };

typedef struct world {
    lx_backend *be;
    const lx_kernels *k;
    lx_array *x, *y, *wide, *ones;
    lx_table *table;
    lx_matrix *qkv, *head;
    lx_mask *mask;
    lx_states *states;
    float values[3 * WIDTH * WIDTH];
    uint8_t banned[IDS];
} world;

static lx_status make_objects(world *w, lx_error *err)
{
    const lx_kernels *k = w->k;
    lx_host_tensor table = {LX_F32, IDS, WIDTH, w->values}, head = table,
                   qkv = {LX_BF16, 3 * WIDTH, WIDTH, w->values};
    lx_state_layout layout = {.fixed_floats = STATE};
    lx_status st = k->array_new(w->be, ROWS * WIDTH, &w->x, err);
    if (st == LX_OK)
        st = k->array_new(w->be, ROWS * WIDTH, &w->y, err);
    if (st == LX_OK)
        st = k->array_new(w->be, ROWS * 3 * WIDTH, &w->wide, err);
    if (st == LX_OK)
        st = k->array_new(w->be, WIDTH, &w->ones, err);
    if (st == LX_OK)
        st = k->array_upload(w->be, w->ones, 0, w->values, WIDTH);
    if (st == LX_OK)
        st = k->table_new(w->be, &table, &w->table, err);
    if (st == LX_OK)
        st = k->matrix_new(w->be, &qkv, w->values, &w->qkv, err);
    if (st == LX_OK)
        st = k->matrix_new(w->be, &head, NULL, &w->head, err);
    if (st == LX_OK)
        st = k->mask_new(w->be, w->banned, IDS, &w->mask, err);
    return st == LX_OK ? k->states_new(w->be, &layout, 4, &w->states, err) : st;
}

static void free_objects(world *w)
{
    const lx_kernels *k = w->k;
    k->array_free(w->be, w->x);
    k->array_free(w->be, w->y);
    k->array_free(w->be, w->wide);
    k->array_free(w->be, w->ones);
    k->table_free(w->be, w->table);
    k->matrix_free(w->be, w->qkv);
    k->matrix_free(w->be, w->head);
    k->mask_free(w->be, w->mask);
    k->states_free(w->be, w->states);
}

/* A step with every operation. */
static lx_status run_step(world *w, bool graph, lx_sample *out, lx_error *err)
{
    static const int32_t start[] = {0, 1, 3}, slot[] = {2, 0}, row[] = {0, 2}, ids[] = {1, 2, 3};
    static const int32_t banned[] = {4}, single[] = {0, 1, 2};
    /* a prompt of two rows beside a single one, or single rows, which run as a graph */
    const lx_batch b = graph ? (lx_batch){2, 2, single, slot, 2, single}
                             : (lx_batch){ROWS, 2, start, slot, 2, row};
    const lx_table *tables[] = {w->table};
    lx_sampling how = {.temperature = 1, .top_p = 0.9f, .forced = -1, .mask = w->mask};
    how.banned = banned;
    how.n_banned = 1;
    const lx_sampling rows[] = {how, how};
    const lx_kernels *k = w->k;
    lx_embed_args embed = {w->x, 1, tables, ids, w->states};
    lx_norm_args norm = {w->x, w->x, w->ones, w->ones, WIDTH, 1e-5f, LX_ROWS_TOKENS};
    lx_linear_args qkv = {w->wide, w->x, w->qkv, LX_ACT_GELU, NULL, LX_ROWS_TOKENS};
    lx_attend_linear_args attend = {w->y,  w->wide, w->states,   0,    1,
                                    WIDTH, WIDTH,   LX_PHI_ELU1, 1e-6f};
    lx_gather_args gather = {w->x, w->y, WIDTH};
    lx_linear_args head = {w->wide, w->x, w->head, LX_ACT_NONE, NULL, LX_ROWS_OUTPUTS};
    lx_sample_args sample = {w->wide, IDS, rows, out, w->states};
    lx_sample_mixture_args mixture = {w->wide, 3, 256, rows, out + 2, NULL};
    uint64_t number = 0;
    lx_status st = k->begin(w->be, &b, err);
    if (st != LX_OK)
        return st;
    k->embed(w->be, &embed);
    k->norm(w->be, &norm);
    k->linear(w->be, &qkv);
    k->attend_linear(w->be, &attend);
    k->gather(w->be, &gather);
    k->linear(w->be, &head);
    k->sample(w->be, &sample);
    k->sample_mixture(w->be, &mixture);
    st = k->end(w->be, &number, err);
    return st == LX_OK ? k->sync(w->be, number, err) : st;
}

static lx_status run_states(world *w)
{
    const lx_kernels *k = w->k;
    float state[STATE];
    lx_status st = k->state_zero(w->be, w->states, 1);
    if (st == LX_OK)
        st = k->state_copy(w->be, w->states, 3, 2);
    if (st == LX_OK)
        st = k->state_export(w->be, w->states, 3, state);
    if (st == LX_OK)
        st = k->state_import(w->be, w->states, 1, state);
    return st == LX_OK ? k->array_download(w->be, w->y, 0, state, WIDTH) : st;
}

/* Everything from opening to closing; the status of the first call that fails. */
static lx_status run_all(lx_error *err, bool *stays_lost)
{
    lx_backend_options o = {.n_threads = 1};
    lx_sample out[4] = {{-2, 0}, {-2, 0}, {-2, 0}, {-2, 0}};
    world w = {0};
    for (int i = 0; i < 3 * WIDTH * WIDTH; i++)
        w.values[i] = (float)(i % 7) * 0.25f - 0.5f;
    lx_status st = lx_backend_open("cuda", &o, &w.be, err);
    if (st != LX_OK)
        return st;
    w.k = w.be->ops;
    st = make_objects(&w, err);
    for (int i = 0; st == LX_OK && i < 4; i++) /* a graph captured, and replayed */
        st = run_step(&w, i % 2 == 1, out, err);
    if (st == LX_OK)
        st = run_states(&w);
    if (st == LX_ERR_DEVICE) { /* then nothing works any more, and says so */
        lx_error again = {0};
        lx_array *more = NULL;
        *stays_lost = w.k->array_new(w.be, 4, &more, &again) == LX_ERR_DEVICE &&
                      again.text[0] != '\0' && more == NULL;
    }
    check(st != LX_OK || (out[0].token != -2 && out[3].token != -2), "results", "not written");
    free_objects(&w);
    w.k->close(w.be);
    return st;
}

typedef long (*fail_fn)(long n, int error);

static void test_losing(fail_fn fail_at)
{
    enum { ILLEGAL_ADDRESS = 700, NO_MEMORY = 2 };
    lx_error err = {0};
    bool lost = true;
    (void)fail_at(0, 0);
    check(run_all(&err, &lost) == LX_OK, "a sound device", err.text);
    long calls = fail_at(0, 0);
    check(calls > 100, "calls of the runtime", "too few counted");
    for (long n = 1; n <= calls; n++) {
        char what[64];
        for (int kind = 0; kind < 2; kind++) {
            lx_status st;
            err = (lx_error){0};
            lost = true;
            (void)snprintf(what, sizeof what, "failure %d at call %ld", kind, n);
            (void)fail_at(n, kind == 0 ? ILLEGAL_ADDRESS : NO_MEMORY);
            st = run_all(&err, &lost);
            bool right = st == LX_ERR_DEVICE || (st == LX_ERR_UNSUPPORTED && n < 4) ||
                         (st == LX_ERR_NO_MEMORY && kind == 1);
            /* the last calls are those of close, which has no way to complain */
            check(right || (st == LX_OK && n > calls - 50), what, lx_status_text(st));
            check(lost || st != LX_ERR_DEVICE, what, "the device came back");
        }
    }
    (void)fail_at(0, 0);
    check(run_all(&err, &lost) == LX_OK, "a sound device after all", err.text);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: cuda_failures LIBRARY, with its folder in LD_LIBRARY_PATH\n");
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "simt_fail_at") : NULL;
    fail_fn fail_at = NULL;
    memcpy(&fail_at, &symbol, sizeof fail_at);
    if (fail_at == NULL) {
        (void)fprintf(stderr, "cuda_failures: %s\n", dlerror());
        return 2;
    }
    test_opening();
    test_losing(fail_at);
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
