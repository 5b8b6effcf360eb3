/*
 * The registry of models (see serving.h).
 *
 * One back end for all: its threads are shared, and an engine's step waits while another's runs.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/version.h"
#include "model/tasks/image.h"
#include "server/registry/serving_internal.h"

lx_status lx_serving_new(lx_serving **out, lx_error *err)
{
    lx_serving *s = calloc(1, sizeof *s);
    if (s == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the models");
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    s->start_ns = lx_now_ns();
    *out = s;
    return LX_OK;
}

/* --- loading --- */

/* n_models share the memory. A device gives slots their memory at once, so there the earlier models
   have theirs; the process gives memory when it is used. */
static lx_status load_one(lx_serving *s, const char *dir, int32_t n_models, lx_error *err)
{
    lx_served_model *m = NULL;
    lx_status st = lx_served_open(s, dir, &m, err);
    if (st == LX_OK && lx_served_place(s->models, s->n, m->model->name) >= 0)
        st = lx_fail(err, LX_ERR_INVALID, "model", "two models are named %s", m->model->name);
    if (st == LX_OK && s->options.has_room != NULL)
        st = s->options.has_room(s->options.memory, m->bytes.weights, err);
    if (st == LX_OK)
        st = lx_served_start(s, m, n_models - (m->be->ops->is_device ? s->n : 0), NULL, err);
    if (st != LX_OK) {
        lx_served_free(m);
        return st;
    }
    s->models[s->n++] = m;
    return LX_OK;
}

static lx_status load_all(lx_serving *s, const lx_folder_list *l, lx_error *err)
{
    const lx_serving_options *o = &s->options;
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
        st = load_one(s, l->dirs[i], l->n, err);
    return st;
}

/* A limit for a model that is not served is a misspelt name. */
static lx_status check_limits(const lx_serving *s, const lx_model_limits *l, lx_error *err)
{
    for (int32_t i = 0; i < l->n; i++)
        if (lx_served_place(s->models, s->n, l->list[i].model) < 0)
            return lx_fail(err, LX_ERR_INVALID, l->flag, "--%s: no model is named %s", l->flag,
                           l->list[i].model);
    return LX_OK;
}

lx_status lx_serving_check(const lx_serving_options *options, lx_error *err)
{
    lx_folder_list l = {.n = 0};
    lx_status st = options->backend == NULL ? lx_device_check(options->device, err) : LX_OK;
    if (st == LX_OK)
        st = lx_folders_list(options, &l, err);
    lx_folders_free(&l);
    return st;
}

/* 0 if the folder cannot be read: loading it will report why. */
static int64_t weight_bytes(const char *dir)
{
    struct stat one;
    if (lx_model_is_file(dir))
        return stat(dir, &one) == 0 ? one.st_size : 0;
    DIR *d = opendir(dir);
    int64_t bytes = 0;
    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        struct stat file;
        const char *end = strrchr(e->d_name, '.');
        if (end != NULL && strcmp(end, ".safetensors") == 0 &&
            fstatat(dirfd(d), e->d_name, &file, 0) == 0)
            bytes += file.st_size;
    }
    if (d != NULL)
        (void)closedir(d);
    return bytes;
}

int64_t lx_serving_weigh(const lx_serving_options *options, int32_t *n_models)
{
    lx_folder_list l = {.n = 0};
    int64_t bytes = 0;
    lx_status st = lx_folders_list(options, &l, NULL);
    *n_models = l.n;
    for (int32_t i = 0; st == LX_OK && i < *n_models; i++)
        bytes += weight_bytes(l.dirs[i]);
    lx_folders_free(&l);
    return bytes;
}

lx_status lx_serving_load(lx_serving *s, const lx_serving_options *options, lx_error *err)
{
    lx_folder_list l = {.n = 0};
    s->options = *options;
    lx_status st = lx_folders_list(options, &l, err);
    if (st == LX_OK)
        st = load_all(s, &l, err);
    if (st == LX_OK)
        st = check_limits(s, &s->options.slots_of, err);
    if (st == LX_OK)
        st = check_limits(s, &s->options.queue_of, err);
    if (st == LX_OK)
        st = lx_serving_settle(s, s->models, s->n, err);
    lx_folders_free(&l);
    if (st == LX_OK) {
        atomic_store(&s->loaded_at, (int64_t)time(NULL));
        atomic_store(&s->loaded, true);
    }
    return st;
}

void lx_serving_free(lx_serving *s)
{
    if (s == NULL)
        return;
    lx_reload_stop(s);
    for (int32_t i = 0; i < s->n; i++)
        lx_served_free(s->models[i]);
    if (s->cpu != NULL)
        s->cpu->ops->close(s->cpu);
    if (s->be != NULL)
        s->be->ops->close(s->be);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* --- their condition --- */

lx_serving_state lx_serving_get_state(lx_serving *s)
{
    bool stuck = false;
    if (atomic_load(&s->draining))
        return LX_SERVING_DRAINING;
    if (!atomic_load(&s->loaded))
        return LX_SERVING_LOADING;
    (void)pthread_mutex_lock(&s->lock);
    for (int32_t i = 0; i < s->n; i++)
        stuck |= lx_served_is_stuck(s->models[i], s->options.probe_ns);
    (void)pthread_mutex_unlock(&s->lock);
    if (stuck)
        return LX_SERVING_UNHEALTHY;
    return atomic_load(&s->leaving) ? LX_SERVING_LEAVING : LX_SERVING_READY;
}

int64_t lx_serving_last_step_ms(lx_serving *s)
{
    int64_t now = lx_now_ns(), oldest = now;
    for (int32_t i = 0; i < lx_serving_count(s); i++) {
        int64_t step = lx_served_last_step_ns(lx_serving_at(s, i));
        oldest = step < oldest ? step : oldest;
    }
    return (now - oldest) / LX_NS_PER_MS;
}

const char *lx_serving_backend(const lx_serving *s)
{
    return atomic_load(&s->loaded) ? s->backend_text : "";
}

int64_t lx_serving_start_ns(const lx_serving *s)
{
    return s->start_ns;
}

/* --- looking models up --- */

int32_t lx_serving_enter(lx_serving *s)
{
    for (;;) {
        int32_t turn = atomic_load(&s->turn);
        atomic_fetch_add(&s->n_inside[turn], 1);
        if (atomic_load(&s->turn) == turn)
            return turn;
        atomic_fetch_sub(&s->n_inside[turn], 1);
    }
}

void lx_serving_leave(lx_serving *s, int32_t turn)
{
    atomic_fetch_sub(&s->n_inside[turn], 1);
}

int32_t lx_serving_count(lx_serving *s)
{
    if (!atomic_load(&s->loaded))
        return 0;
    LX_HOLD(&s->lock);
    return s->n;
}

lx_served_model *lx_serving_at(lx_serving *s, int32_t i)
{
    LX_HOLD(&s->lock);
    return s->models[i];
}

lx_served_model *lx_serving_find(lx_serving *s, const char *name)
{
    if (!atomic_load(&s->loaded))
        return NULL;
    LX_HOLD(&s->lock);
    int32_t i = lx_served_place(s->models, s->n, name);
    return i >= 0 ? s->models[i] : NULL;
}

/* Models of single pictures come before those of strips, and then models with classes come first.
 */
static int preference(const lx_served_model *m)
{
    if (m->model->task->modality != LX_IMAGE)
        return 0;
    const lx_image_config *c = lx_image_of(&m->model->config);
    bool strip = c->period > 0 && c->period < c->height;
    return (strip ? 0 : 2) + (c->n_classes > 0 ? 1 : 0);
}

/* The first of the preferred models of that task or, with task NULL, of that modality. */
static lx_served_model *first_of(lx_serving *s, const char *task, lx_modality modality)
{
    lx_served_model *first = NULL;
    for (int32_t i = 0; i < lx_serving_count(s); i++) {
        lx_served_model *m = lx_serving_at(s, i);
        const lx_task_ops *t = m->model->task;
        if (task != NULL ? strcmp(t->name, task) != 0 : t->modality != modality)
            continue;
        if (first == NULL || preference(m) > preference(first))
            first = m;
    }
    return first;
}

lx_status lx_serving_find_task(lx_serving *s, const char *task, lx_served_model **out,
                               lx_error *err)
{
    *out = first_of(s, task, LX_TEXT);
    return *out != NULL
               ? LX_OK
               : lx_fail(err, LX_ERR_NOT_FOUND, "model", "no %s model is being served", task);
}

lx_status lx_serving_no_model(lx_serving *s, lx_error *err)
{
    char names[160] = "";
    size_t n = 0;
    for (int32_t i = 0; i < lx_serving_count(s) && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                              lx_serving_at(s, i)->model->name);
    return lx_fail(err, LX_ERR_NOT_FOUND, "model", "there is no model of that name, there is: %s",
                   names);
}

lx_modality lx_serving_made_by(lx_serving *s, const char *name, lx_modality otherwise)
{
    const lx_served_model *m = lx_serving_find(s, name);
    return m != NULL && m->engine != NULL ? m->model->task->modality : otherwise;
}

/* In the order of lx_modality. */
static const struct {
    const char *name, *does, *route;
} modalities[] = {{"text", "makes text", "/v1/completions"},
                  {"image", "makes images", "/v1/images/generations"},
                  {"speech", "transcribes audio", "/v1/audio/transcriptions"}};

lx_status lx_serving_find_model(lx_serving *s, const char *name, lx_modality modality,
                                lx_served_model **out, lx_error *err)
{
    lx_served_model *m = name[0] == '\0' ? first_of(s, NULL, modality) : lx_serving_find(s, name);
    if (m == NULL && name[0] == '\0')
        return lx_fail(err, LX_ERR_NOT_FOUND, "model", "no %s model is being served",
                       modalities[modality].name);
    if (m == NULL)
        return lx_serving_no_model(s, err);
    lx_modality own = m->model->task->modality;
    if (own != modality)
        return lx_fail(err, LX_ERR_INVALID, "model", "model %s %s: use %s", m->model->name,
                       modalities[own].does, modalities[own].route);
    *out = m;
    return LX_OK;
}

lx_status lx_serving_choose_model(lx_serving *s, const char *name, lx_modality modality,
                                  lx_served_model **out, lx_error *err)
{
    int32_t n = 0;
    for (int32_t i = 0; i < lx_serving_count(s); i++)
        n += lx_serving_at(s, i)->model->task->modality == modality;
    if (name[0] == '\0' && n > 1)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "model is missing: %d models of %s are served, see /v1/models", n,
                       modalities[modality].name);
    return lx_serving_find_model(s, name, modality, out, err);
}

lx_status lx_serving_submit(lx_served_model *m, lx_job *job, lx_error *err)
{
    if (lx_engine_idle(m->engine))
        atomic_store(&m->work_since_ns, lx_now_ns());
    return lx_engine_submit(m->engine, job, err);
}

/* --- the end --- */

void lx_serving_announce_end(lx_serving *s)
{
    atomic_store(&s->leaving, true);
}

void lx_serving_drain(lx_serving *s)
{
    LX_HOLD(&s->lock);
    atomic_store(&s->draining, true);
    for (int32_t i = 0; atomic_load(&s->loaded) && i < s->n; i++)
        lx_served_drain(s->models[i]);
}

/* Not models with replaced weights: no other server could continue from their states. */
void lx_serving_suspend(lx_serving *s)
{
    LX_HOLD(&s->lock);
    for (int32_t i = 0; atomic_load(&s->loaded) && i < s->n; i++)
        lx_served_suspend(s->models[i]);
}

bool lx_serving_idle(lx_serving *s)
{
    bool idle = true;
    LX_HOLD(&s->lock);
    for (int32_t i = 0; atomic_load(&s->loaded) && i < s->n; i++)
        idle &= lx_served_idle(s->models[i]);
    for (int32_t i = 0; i < s->n_retired; i++)
        idle &= lx_served_idle(s->retired[i]);
    return idle;
}
