/*
 * New weights in the place of old ones, while requests run (see serving_internal.h).
 *
 * A reload reads every folder again, those that are new too. A model whose hash is the same stays
 * as it is. All that differ are loaded, warmed and started beside the old ones; only when every one
 * of them works they take the old ones' places, in one go. If anything is wrong with any file,
 * nothing changes. Requests that began on an old model end on it, then it is freed. A state made by
 * an old model names its hash, so that the new one refuses it.
 *
 * Reloads are done by one thread, in the order of their requests, since loading takes
 * seconds: it must hold up neither an HTTP thread nor the one that waits for signals.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/registry/serving_internal.h"

enum { MAX_WAITING = 16, LOOK_MS = 1 };

struct lx_reload {
    _Atomic int32_t refs; /* the requester's, and the queue's until it is done */
    struct lx_reload *next;
    pthread_mutex_t lock; /* for wake and done */
    void (*wake)(void *context);
    void *context;
    atomic_bool done;
    lx_status status;
    lx_error error;
    lx_reloaded_model models[LX_MAX_MODELS];
    int32_t n;
};

/* --- one reload --- */

/* The models after the reload: new ones, and NULL where the old one stays. */
typedef struct new_table {
    lx_served_model *models[LX_MAX_MODELS];
    int32_t n_old, n; /* places of old models come first */
} new_table;

static int32_t place_of(const lx_serving *s, const char *name)
{
    for (int32_t i = 0; i < s->n; i++)
        if (strcmp(s->models[i]->model->name, name) == 0)
            return i;
    return -1;
}

static lx_status put(lx_serving *s, new_table *t, lx_served_model *m, bool *seen, lx_error *err)
{
    int32_t i = place_of(s, m->model->name);
    bool twice = i >= 0 && seen[i];
    for (int32_t k = t->n_old; k < t->n && !twice; k++)
        twice = strcmp(t->models[k]->model->name, m->model->name) == 0;
    if (twice || (i < 0 && t->n == LX_MAX_MODELS)) {
        lx_status st =
            twice ? lx_fail(err, LX_ERR_INVALID, "model", "two models are named %s", m->model->name)
                  : lx_fail(err, LX_ERR_TOO_LARGE, "models", "more than %d models", LX_MAX_MODELS);
        lx_served_free(m);
        return st;
    }
    if (i < 0) {
        t->models[t->n++] = m;
        return LX_OK;
    }
    seen[i] = true;
    if (s->models[i]->model->hash == m->model->hash)
        lx_served_free(m);
    else
        t->models[i] = m;
    return LX_OK;
}

/* Leaves of the folder's path only its last name, also where the path's beginning is missing: a
   text has but the end of a long one (lx_file_label). */
static void hide_path(const char *dir, lx_error *err)
{
    const char *slash = strrchr(dir, '/'), *name = slash != NULL ? slash + 1 : dir;
    size_t before = (size_t)(name - dir);
    if (name[0] == '\0')
        return;
    for (char *at = strstr(err->text, name); at != NULL; at = strstr(at + 1, name)) {
        size_t n = 0;
        while (n < before && (size_t)(at - err->text) > n &&
               at[-1 - (ptrdiff_t)n] == name[-1 - (ptrdiff_t)n])
            n++;
        memmove(at - n, at, strlen(at) + 1);
        at -= n;
    }
}

/* Clients learn the model and the reason; where it lies is the log's. */
static void hide_paths(const lx_serving *s, lx_error *err)
{
    lx_folder_list l = {.n = 0};
    if (lx_folders_list(&s->options, &l, NULL) == LX_OK)
        for (int32_t i = 0; i < l.n; i++)
            hide_path(l.dirs[i], err);
    lx_folders_free(&l);
    if (s->options.models_dir != NULL)
        hide_path(s->options.models_dir, err);
    if (s->options.model_dir != NULL)
        hide_path(s->options.model_dir, err);
}

/* Reads every folder. Only this thread changes the table, so it may look without the lock. */
static lx_status read_all(lx_serving *s, new_table *t, lx_error *err)
{
    lx_folder_list l = {.n = 0};
    bool seen[LX_MAX_MODELS] = {false};
    lx_status st = lx_folders_list(&s->options, &l, err);
    for (int32_t i = 0; i < l.n && st == LX_OK; i++) {
        lx_served_model *m = NULL;
        st = lx_served_open(s, l.dirs[i], &m, err);
        if (st == LX_OK)
            st = put(s, t, m, seen, err);
    }
    lx_folders_free(&l);
    for (int32_t i = 0; i < s->n && st == LX_OK; i++)
        if (!seen[i])
            st = lx_fail(err, LX_ERR_NOT_FOUND, "model", "the folder of model %s is gone",
                         s->models[i]->model->name);
    return st;
}

static lx_status start_all(lx_serving *s, new_table *t, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < t->n && st == LX_OK; i++) {
        const lx_served_model *old = i < t->n_old ? s->models[i] : NULL;
        if (t->models[i] != NULL)
            st = lx_served_start(s, t->models[i], t->n, old, err);
    }
    return st;
}

/* Puts the new models into the table; the old ones are retired. */
static void swap(lx_serving *s, new_table *t)
{
    (void)pthread_mutex_lock(&s->lock);
    for (int32_t i = 0; i < t->n; i++) {
        if (t->models[i] == NULL)
            continue;
        if (i < t->n_old) {
            lx_metrics_carry(&t->models[i]->metrics, &s->models[i]->metrics,
                             &s->models[i]->carried);
            s->retired[s->n_retired++] = s->models[i];
        }
        s->models[i] = t->models[i];
        if (atomic_load(&s->draining))
            lx_served_drain(s->models[i]);
    }
    s->n = t->n;
    (void)pthread_mutex_unlock(&s->lock);
}

/* Waits for the handlers that may have seen the old table. They answer or defer, they never wait.
 */
static void wait_for_handlers(lx_serving *s)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * LX_NS_PER_MS};
    int32_t old = atomic_load(&s->turn);
    atomic_store(&s->turn, 1 - old);
    while (atomic_load(&s->n_inside[old]) > 0)
        (void)nanosleep(&pause, NULL);
}

static void report(const lx_serving *s, const new_table *t, lx_reload *r)
{
    for (int32_t i = 0; i < t->n; i++) {
        lx_reloaded_model *m = &r->models[r->n++];
        m->changed = t->models[i] != NULL;
        (void)snprintf(m->name, sizeof m->name, "%s", s->models[i]->model->name);
        (void)snprintf(m->fingerprint, sizeof m->fingerprint, "%s", s->models[i]->fingerprint);
        if (m->changed)
            lx_log(LX_LOG_INFO, "model %s is now %s", m->name, m->fingerprint);
    }
}

static int32_t n_changed(const new_table *t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++)
        n += t->models[i] != NULL;
    return n;
}

static lx_status reload(lx_serving *s, lx_reload *r)
{
    new_table t = {.n_old = s->n, .n = s->n};
    lx_status st = read_all(s, &t, &r->error);
    if (st == LX_OK && s->n_retired + n_changed(&t) > LX_MAX_RETIRED)
        st = lx_fail(&r->error, LX_ERR_BUSY, NULL, "requests still use the models before these");
    if (st == LX_OK)
        st = start_all(s, &t, &r->error);
    if (st != LX_OK) {
        for (int32_t i = 0; i < t.n; i++)
            lx_served_free(t.models[i]);
        lx_log(LX_LOG_ERROR, "reload from %s: %s; what was served goes on",
               s->options.models_dir != NULL ? s->options.models_dir : s->options.model_dir,
               r->error.text);
        hide_paths(s, &r->error);
        return st;
    }
    int32_t first_retired = s->n_retired;
    swap(s, &t);
    wait_for_handlers(s);
    report(s, &t, r);
    for (int32_t i = first_retired; i < s->n_retired; i++)
        lx_served_unref(s->retired[i]); /* the table's reference */
    return LX_OK;
}

/* --- the thread --- */

static void unref(lx_reload *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

static void finish(lx_reload *r, lx_status status)
{
    (void)pthread_mutex_lock(&r->lock);
    r->status = status;
    atomic_store(&r->done, true);
    if (r->wake != NULL)
        r->wake(r->context);
    (void)pthread_mutex_unlock(&r->lock);
    unref(r);
}

/* Under the lock. */
static lx_reload *take_reload(lx_serving *s)
{
    lx_reload *r = s->first;
    if (r == NULL)
        return NULL;
    s->first = r->next;
    if (s->first == NULL)
        s->last = NULL;
    s->n_waiting--;
    return r;
}

/* Under the lock: takes a retired model that is no longer in use out of the list. */
static lx_served_model *take_unused(lx_serving *s)
{
    for (int32_t i = 0; i < s->n_retired; i++) {
        lx_served_model *m = s->retired[i];
        if (atomic_load(&m->refs) > 0)
            continue;
        s->retired[i] = s->retired[--s->n_retired];
        for (int32_t k = 0; k < s->n; k++)
            if (strcmp(s->models[k]->model->name, m->model->name) == 0)
                lx_metrics_carry(&s->models[k]->metrics, &m->metrics, &m->carried);
        return m;
    }
    return NULL;
}

static void *run_thread(void *context)
{
    lx_serving *s = context;
    (void)pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        lx_served_model *unused = take_unused(s);
        lx_reload *r = unused == NULL ? take_reload(s) : NULL;
        if (unused == NULL && r == NULL) {
            (void)pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (unused != NULL)
            lx_log(LX_LOG_INFO, "model %s: the last request of %s has ended", unused->model->name,
                   unused->fingerprint);
        lx_served_free(unused);
        if (r != NULL)
            finish(r, reload(s, r));
        (void)pthread_mutex_lock(&s->lock);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

void lx_reload_stop(lx_serving *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->stopping = true;
    (void)pthread_cond_signal(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    if (s->thread_started)
        (void)pthread_join(s->thread, NULL);
    for (lx_reload *r = take_reload(s); r != NULL; r = take_reload(s)) {
        (void)lx_fail(&r->error, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
        finish(r, LX_ERR_UNAVAILABLE);
    }
    for (int32_t i = 0; i < s->n_retired; i++)
        lx_served_free(s->retired[i]);
    s->n_retired = 0;
}

/* --- asking for one --- */

/* Under the lock. */
static lx_status enqueue(lx_serving *s, lx_reload *r, lx_error *err)
{
    if (s->stopping || atomic_load(&s->draining) || !atomic_load(&s->loaded))
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is starting or stopping");
    if (s->n_waiting == MAX_WAITING)
        return lx_fail(err, LX_ERR_BUSY, NULL, "%d reloads are waiting already", s->n_waiting);
    if (!s->thread_started && pthread_create(&s->thread, NULL, run_thread, s) != 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "cannot start the reloader's thread");
    s->thread_started = true;
    if (s->last != NULL)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    s->n_waiting++;
    (void)pthread_cond_signal(&s->changed);
    return LX_OK;
}

lx_status lx_reload_start(lx_serving *s, void (*wake)(void *context), void *context,
                          lx_reload **out, lx_error *err)
{
    lx_reload *r = calloc(1, sizeof *r);
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a reload");
    (void)pthread_mutex_init(&r->lock, NULL);
    r->wake = wake;
    r->context = context;
    atomic_store(&r->refs, 2);
    (void)pthread_mutex_lock(&s->lock);
    lx_status st = enqueue(s, r, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (st != LX_OK)
        atomic_store(&r->refs, 1);
    if (st != LX_OK || out == NULL)
        unref(r);
    else
        *out = r;
    return st;
}

bool lx_reload_done(const lx_reload *r)
{
    return atomic_load(&r->done);
}

lx_status lx_reload_result(const lx_reload *r, const lx_reloaded_model **models, int32_t *n,
                           lx_error *err)
{
    *models = r->models;
    *n = r->n;
    if (r->status != LX_OK)
        *err = r->error;
    return r->status;
}

void lx_reload_release(lx_reload *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->wake = NULL;
    (void)pthread_mutex_unlock(&r->lock);
    unref(r);
}
