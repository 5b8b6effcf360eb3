/*
 * The registry of models (see serving.h).
 *
 * One back end for all: its threads are shared, and an engine's step waits while another's runs.
 * Each model is warmed with one real step of its own weights before anybody may use it, so that a
 * model that cannot compute is found at start and not by the first client.
 */
#include "server/serving.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/cgroup.h"
#include "server/version.h"

enum {
    MAX_SLOTS = 256,
    MAX_DEVICE_SLOTS = 16384,
    MIN_PROMPT_ROWS = 128,
    PROMPT_CHUNK = 64,
    STEP_LIMIT_S = 10
};

struct lx_serving {
    lx_backend *be;
    char backend_text[160];
    lx_served_model *models[LX_MAX_MODELS];
    int32_t n;
    int64_t start_ns, probe_ns;
    _Atomic bool loaded, draining;
};

/* --- which folders
 * -------------------------------------------------------------------------------- */

typedef struct folder_list {
    char *dirs[LX_MAX_MODELS];
    int32_t n;
} folder_list;

static bool has_config(const char *dir)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/config.json", dir);
    return n > 0 && n < (int)sizeof path && access(path, F_OK) == 0;
}

static lx_status add_folder(folder_list *l, const char *dir, lx_error *err)
{
    if (l->n == LX_MAX_MODELS)
        return lx_fail(err, LX_ERR_TOO_LARGE, "models", "more than %d models", LX_MAX_MODELS);
    l->dirs[l->n] = strdup(dir);
    if (l->dirs[l->n] == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a folder's name");
    l->n++;
    return LX_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static lx_status list_folders(const char *parent, folder_list *l, lx_error *err)
{
    DIR *d = opendir(parent);
    if (d == NULL)
        return lx_fail(err, LX_ERR_IO, "models", "%s: %s", parent, strerror(errno));
    lx_status st = LX_OK;
    for (const struct dirent *e = readdir(d); e != NULL && st == LX_OK; e = readdir(d)) {
        char dir[4096];
        int n = snprintf(dir, sizeof dir, "%s/%s", parent, e->d_name);
        if (e->d_name[0] != '.' && n < (int)sizeof dir && has_config(dir))
            st = add_folder(l, dir, err);
    }
    (void)closedir(d);
    qsort(l->dirs, (size_t)l->n, sizeof *l->dirs, compare_names);
    return st;
}

/* --- one model
 * ------------------------------------------------------------------------------------ */

/* Bytes the machine has free, or fewer where a container is allowed fewer. */
static int64_t free_memory(void)
{
    long long available_kb = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    static const char label[] = "MemAvailable:";
    while (f != NULL && available_kb == 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, label, sizeof label - 1) == 0)
            available_kb = strtoll(line + sizeof label - 1, NULL, 10);
    if (f != NULL)
        (void)fclose(f);
    int64_t limit = lx_cgroup_own().memory_bytes;
    return limit > 0 && limit < available_kb * 1024 ? limit : available_kb * 1024;
}

int64_t lx_serving_state_bytes(const lx_served_model *m)
{
    const lx_state_layout *l = &m->model->state;
    return (l->fixed_floats + l->growing_floats * l->max_tokens) * 4;
}

/* About what a slot needs beside its state: the activations of a row, and what a step is given. */
static int64_t row_bytes(const lx_config *c)
{
    int64_t keys = (int64_t)c->n_heads * c->d_key, values = (int64_t)c->n_heads * c->d_value;
    int64_t activations = 3 * c->d_model + 2 * keys + 2 * values + c->d_ff + c->head_size;
    return 2 * 4 * activations + 4096;
}

/*
 * How many slots fit, of one of n_models: into a quarter of the process's free memory, at most
 * MAX_SLOTS; into three quarters of what a device has free, at most MAX_DEVICE_SLOTS.
 */
static lx_status slots_from_memory(lx_backend *be, const lx_served_model *m, int32_t n_models,
                                   int32_t *out, lx_error *err)
{
    int64_t most = MAX_SLOTS, bytes = free_memory() / 4, each = lx_serving_state_bytes(m);
    if (be->ops->memory != NULL) {
        lx_status st = be->ops->memory(be, &bytes, err);
        if (st != LX_OK)
            return st;
        most = MAX_DEVICE_SLOTS;
        bytes = bytes / 4 * 3;
        each += row_bytes(&m->model->config);
    }
    int64_t n = each > 0 ? bytes / n_models / each : most;
    *out = n < 1 ? 1 : n > most ? (int32_t)most : (int32_t)n;
    return LX_OK;
}

/* One token through the whole model; its logits must be numbers. */
static lx_status warm_up(lx_served_model *m, lx_error *err)
{
    const lx_config *c = &m->model->config;
    int32_t ids[LX_MAX_INPUTS] = {0}, seq_start[2] = {0, 1}, slot = 0, row = 0;
    lx_sampling sampling = {.temperature = 0, .top_p = 1, .forced = -1};
    lx_sample sample = {.token = -1};
    lx_step step = {
        .batch = {.n_tokens = 1,
                  .n_seqs = 1,
                  .seq_start = seq_start,
                  .slot = &slot,
                  .n_outputs = 1,
                  .output_row = &row},
        .ids = ids,
        .sampling = &sampling,
        .samples = &sample,
    };
    lx_states *states = NULL;
    lx_status st = lx_transformer_states_new(m->transformer, 1, &states, err);
    if (st != LX_OK)
        return st;
    st = lx_transformer_step(m->transformer, states, &step, err);
    lx_transformer_backend(m->transformer)
        ->ops->states_free(lx_transformer_backend(m->transformer), states);
    if (st == LX_OK &&
        (sample.token < 0 || sample.token >= c->n_values || !isfinite(sample.logprob)))
        st = lx_fail(err, LX_ERR_DEVICE, NULL, "model %s computes no numbers", m->model->name);
    return st;
}

static void served_free(lx_served_model *m)
{
    if (m == NULL)
        return;
    lx_engine_stop(m->engine);
    lx_transformer_free(m->transformer);
    lx_model_free(m->model);
    free(m);
}

static lx_status start_model(lx_served_model *m, lx_backend *be, const lx_serving_options *o,
                             int32_t n_models, lx_error *err)
{
    m->n_slots = o->n_slots;
    lx_status st = o->n_slots > 0 ? LX_OK : slots_from_memory(be, m, n_models, &m->n_slots, err);
    if (st != LX_OK)
        return st;
    int32_t max_tokens = m->n_slots + MIN_PROMPT_ROWS;
    lx_engine_options engine = {.n_slots = m->n_slots,
                                .max_queue = o->max_queue,
                                .max_tokens = max_tokens,
                                .prompt_chunk = PROMPT_CHUNK,
                                .probe_ns = o->probe_ns};
    st = lx_transformer_new(m->model, be, max_tokens, max_tokens, &m->transformer, err);
    if (st == LX_OK)
        st = warm_up(m, err);
    if (st == LX_OK)
        st = lx_engine_start(m->transformer, &engine, &m->metrics, &m->engine, err);
    m->created = (int64_t)time(NULL);
    return st;
}

/* "linnet-0.1.0-1a2b...-cpu-avx512": build, weights, back end. */
static void name_fingerprint(lx_served_model *m, const char *backend, const char *backend_text)
{
    char isa[32] = "";
    for (const char *const *p =
             (const char *const[]){"avx512bf16", "avx512", "avx2", "plain", NULL};
         *p; p++)
        if (isa[0] == '\0' && strstr(backend_text, *p) != NULL)
            (void)snprintf(isa, sizeof isa, "-%s", *p);
    (void)snprintf(m->fingerprint, sizeof m->fingerprint, "linnet-%s-%016llx-%s%s", LX_VERSION,
                   (unsigned long long)m->model->hash, backend, isa);
}

/* Among how many models the free memory is shared: a device's slots take theirs at once, those of
   the process only when they are used. */
static int32_t share_of(const lx_serving *s, int32_t n_models)
{
    return s->be->ops->memory != NULL ? n_models - s->n : n_models;
}

static lx_status load_one(lx_serving *s, const char *dir, const lx_serving_options *o,
                          int32_t n_models, lx_error *err)
{
    lx_served_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for model %s", dir);
    lx_status st = lx_model_load(dir, &m->model, err);
    for (int32_t i = 0; i < s->n && st == LX_OK; i++)
        if (strcmp(s->models[i]->model->name, m->model->name) == 0)
            st = lx_fail(err, LX_ERR_INVALID, "model", "two models are named %s", m->model->name);
    if (st == LX_OK)
        st = start_model(m, s->be, o, share_of(s, n_models), err);
    if (st != LX_OK) {
        served_free(m);
        return st;
    }
    name_fingerprint(m, s->be->ops->name, s->backend_text);
    s->models[s->n++] = m;
    lx_log(
        LX_LOG_INFO,
        "model %s: task %s, %lld parameters, %d layers, state %lld bytes a request, %d slots, %s",
        m->model->name, m->model->config.task, (long long)m->model->n_parameters,
        m->model->config.n_layers, (long long)lx_serving_state_bytes(m), m->n_slots,
        m->fingerprint);
    return LX_OK;
}

/* --- all
 * ------------------------------------------------------------------------------------------ */

lx_status lx_serving_new(lx_serving **out, lx_error *err)
{
    lx_serving *s = calloc(1, sizeof *s);
    if (s == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the models");
    s->start_ns = lx_now_ns();
    *out = s;
    return LX_OK;
}

static lx_status load_all(lx_serving *s, const lx_serving_options *o, const folder_list *l,
                          lx_error *err)
{
    if (l->n == 0)
        return lx_fail(err, LX_ERR_NOT_FOUND, "models", "no model found in %s",
                       o->models_dir != NULL ? o->models_dir : "the folders given");
    char why[512] = "as asked for";
    lx_status st =
        o->backend != NULL
            ? lx_backend_open(o->backend, &o->backend_options, &s->be, err)
            : lx_backend_choose(o->device, &o->backend_options, &s->be, why, sizeof why, err);
    if (st != LX_OK)
        return st;
    lx_log(LX_LOG_INFO, "device %s", why);
    s->be->ops->describe(s->be, s->backend_text, sizeof s->backend_text);
    lx_log(LX_LOG_INFO, "linnet %s, back end %s", LX_VERSION, s->backend_text);
    for (int32_t i = 0; i < l->n && st == LX_OK; i++)
        st = load_one(s, l->dirs[i], o, l->n, err);
    return st;
}

lx_status lx_serving_load(lx_serving *s, const lx_serving_options *options, lx_error *err)
{
    folder_list l = {.n = 0};
    lx_status st = LX_OK;
    s->probe_ns = options->probe_ns;
    if (options->models_dir != NULL)
        st = list_folders(options->models_dir, &l, err);
    if (st == LX_OK && options->model_dir != NULL)
        st = add_folder(&l, options->model_dir, err);
    if (st == LX_OK)
        st = load_all(s, options, &l, err);
    for (int32_t i = 0; i < l.n; i++)
        free(l.dirs[i]);
    if (st == LX_OK) /* NOLINT(clang-analyzer-unix.Malloc): qsort hides the pointers just freed */
        atomic_store(&s->loaded, true);
    return st;
}

void lx_serving_free(lx_serving *s)
{
    if (s == NULL)
        return;
    for (int32_t i = 0; i < s->n; i++)
        served_free(s->models[i]);
    if (s->be != NULL)
        s->be->ops->close(s->be);
    free(s);
}

static bool is_stuck(const lx_serving *s, const lx_served_model *m)
{
    if (!lx_engine_healthy(m->engine))
        return true;
    int64_t step = lx_engine_last_step_ns(m->engine), work = atomic_load(&m->work_since_ns);
    int64_t age = lx_now_ns() - (step > work ? step : work);
    if (!lx_engine_idle(m->engine))
        return age > STEP_LIMIT_S * LX_NS_PER_S;
    return s->probe_ns > 0 && age > STEP_LIMIT_S * LX_NS_PER_S + s->probe_ns;
}

int64_t lx_serving_last_step_ms(lx_serving *s)
{
    int64_t now = lx_now_ns(), oldest = now;
    for (int32_t i = 0; i < lx_serving_count(s); i++) {
        int64_t step = lx_engine_last_step_ns(s->models[i]->engine);
        oldest = step < oldest ? step : oldest;
    }
    return (now - oldest) / LX_NS_PER_MS;
}

lx_serving_state lx_serving_get_state(lx_serving *s)
{
    if (atomic_load(&s->draining))
        return LX_SERVING_DRAINING;
    if (!atomic_load(&s->loaded))
        return LX_SERVING_LOADING;
    for (int32_t i = 0; i < s->n; i++)
        if (is_stuck(s, s->models[i]))
            return LX_SERVING_UNHEALTHY;
    return LX_SERVING_READY;
}

const char *lx_serving_backend(const lx_serving *s)
{
    return atomic_load(&s->loaded) ? s->backend_text : "";
}

int64_t lx_serving_start_ns(const lx_serving *s)
{
    return s->start_ns;
}

int32_t lx_serving_count(lx_serving *s)
{
    return atomic_load(&s->loaded) ? s->n : 0;
}

lx_served_model *lx_serving_at(lx_serving *s, int32_t i)
{
    return s->models[i];
}

lx_served_model *lx_serving_find(lx_serving *s, const char *name)
{
    for (int32_t i = 0; i < lx_serving_count(s); i++)
        if (strcmp(s->models[i]->model->name, name) == 0)
            return s->models[i];
    return NULL;
}

lx_served_model *lx_serving_find_task(lx_serving *s, const char *task)
{
    for (int32_t i = 0; i < lx_serving_count(s); i++)
        if (strcmp(s->models[i]->model->config.task, task) == 0)
            return s->models[i];
    return NULL;
}

lx_status lx_serving_submit(lx_served_model *m, lx_job *job, lx_error *err)
{
    if (lx_engine_idle(m->engine))
        atomic_store(&m->work_since_ns, lx_now_ns());
    return lx_engine_submit(m->engine, job, err);
}

void lx_serving_drain(lx_serving *s)
{
    atomic_store(&s->draining, true);
    for (int32_t i = 0; i < lx_serving_count(s); i++)
        lx_engine_drain(s->models[i]->engine);
}

bool lx_serving_idle(lx_serving *s)
{
    for (int32_t i = 0; i < lx_serving_count(s); i++)
        if (!lx_engine_idle(s->models[i]->engine))
            return false;
    return true;
}
