/*
 * The registry of models (see serving.h).
 *
 * One back end for all: its threads are shared, and an engine's step waits while another's runs.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/version.h"
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

/* Among how many models the free memory is shared: a device's slots take theirs at once, those of
   the process only when they are used. */
static int32_t share_of(const lx_serving *s, const lx_served_model *m, int32_t n_models)
{
    return m->be->ops->is_device ? n_models - s->n : n_models;
}

/* --- loading --- */

static lx_status load_one(lx_serving *s, const char *dir, int32_t n_models, lx_error *err)
{
    lx_served_model *m = NULL;
    lx_status st = lx_served_open(s, dir, &m, err);
    if (st != LX_OK)
        return st;
    for (int32_t i = 0; i < s->n && st == LX_OK; i++)
        if (strcmp(s->models[i]->model->name, m->model->name) == 0)
            st = lx_fail(err, LX_ERR_INVALID, "model", "two models are named %s", m->model->name);
    if (st == LX_OK)
        st = lx_served_start(s, m, share_of(s, m, n_models), NULL, err);
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

lx_status lx_serving_check(const lx_serving_options *options, lx_error *err)
{
    lx_folder_list l = {.n = 0};
    lx_status st = options->backend == NULL ? lx_device_check(options->device, err) : LX_OK;
    if (st == LX_OK)
        st = lx_folders_list(options, &l, err);
    lx_folders_free(&l);
    return st;
}

/* 0 of a folder that cannot be read: loading it will say why. */
static int64_t weight_bytes(const char *dir)
{
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

lx_status lx_serving_settle(const lx_serving *s, lx_served_model *const *models, int32_t n,
                            lx_error *err)
{
    lx_serving_bytes all = {0};
    for (int32_t i = 0; i < n; i++) {
        all.weights += models[i]->bytes.weights;
        all.held += models[i]->bytes.held;
        all.prefixes += models[i]->bytes.prefixes;
    }
    return s->options.settle != NULL ? s->options.settle(s->options.memory, &all, err) : LX_OK;
}

lx_status lx_serving_load(lx_serving *s, const lx_serving_options *options, lx_error *err)
{
    lx_folder_list l = {.n = 0};
    s->options = *options;
    lx_status st = lx_folders_list(options, &l, err);
    if (st == LX_OK)
        st = load_all(s, &l, err);
    if (st == LX_OK)
        st = lx_serving_settle(s, s->models, s->n, err);
    lx_folders_free(&l);
    if (st == LX_OK)
        atomic_store(&s->loaded, true);
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

/* --- how they do --- */

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

int64_t lx_serving_state_bytes(const lx_served_model *m)
{
    return lx_model_state_floats(m->model, m->model->max_rows) * (int64_t)sizeof(float);
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

void lx_served_ref(lx_served_model *m)
{
    atomic_fetch_add(&m->refs, 1);
}

void lx_served_unref(lx_served_model *m)
{
    lx_serving *s = m->serving;
    if (atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    (void)pthread_mutex_lock(&s->lock);
    (void)pthread_cond_signal(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

int32_t lx_serving_count(lx_serving *s)
{
    if (!atomic_load(&s->loaded))
        return 0;
    (void)pthread_mutex_lock(&s->lock);
    int32_t n = s->n;
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

lx_served_model *lx_serving_at(lx_serving *s, int32_t i)
{
    (void)pthread_mutex_lock(&s->lock);
    lx_served_model *m = s->models[i];
    (void)pthread_mutex_unlock(&s->lock);
    return m;
}

lx_served_model *lx_serving_find(lx_serving *s, const char *name)
{
    for (int32_t i = 0; i < lx_serving_count(s); i++) {
        lx_served_model *m = lx_serving_at(s, i);
        if (strcmp(m->model->name, name) == 0)
            return m;
    }
    return NULL;
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
    (void)pthread_mutex_lock(&s->lock);
    atomic_store(&s->draining, true);
    for (int32_t i = 0; atomic_load(&s->loaded) && i < s->n; i++)
        lx_served_drain(s->models[i]);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Not those of replaced weights: no other server would go on with their states. */
void lx_serving_suspend(lx_serving *s)
{
    (void)pthread_mutex_lock(&s->lock);
    for (int32_t i = 0; atomic_load(&s->loaded) && i < s->n; i++)
        lx_served_suspend(s->models[i]);
    (void)pthread_mutex_unlock(&s->lock);
}

bool lx_serving_idle(lx_serving *s)
{
    bool idle = true;
    (void)pthread_mutex_lock(&s->lock);
    for (int32_t i = 0; atomic_load(&s->loaded) && i < s->n; i++)
        idle &= lx_served_idle(s->models[i]);
    for (int32_t i = 0; i < s->n_retired; i++)
        idle &= lx_served_idle(s->retired[i]);
    (void)pthread_mutex_unlock(&s->lock);
    return idle;
}
