/*
 * New weights in the place of old ones, while requests run (see serving_internal.h).
 *
 * A reload reads every folder again, those that are new too. A model whose hash is the same stays
 * as it is. All that differ are loaded, warmed and started beside the old ones; only when every one
 * of them works they take the old ones' places, in one go. If anything is wrong with any file,
 * nothing changes. Requests that began on an old model end on it, then it is freed. A state made by
 * an old model names its hash, so that the new one refuses it.
 *
 * Reloads are done by one thread, since loading takes seconds: it must hold up neither an HTTP
 * thread nor the one that waits for signals. One reload runs and at most one more waits, which all
 * requests join that come meanwhile: it begins after all of them, so it reads the files that each
 * of them means. Before new weights are loaded, the requests on weights older than the current ones
 * must have ended. Memory therefore never holds a third version of a model.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/registry/serving_internal.h"

enum { LOOK_MS = 1 };

struct lx_reload {
    _Atomic int32_t refs; /* the requester's, and the pass's until it is done */
    lx_reload *next;
    lx_reload_pass *pass;
    pthread_mutex_t lock; /* for wake and done */
    void (*wake)(void *context);
    void *context;
    atomic_bool done;
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

/* --- what clients learn of a fault --- */

/* How many characters at the beginning of `text` are the last ones of `dir`, before a slash. */
static size_t end_of_path(const char *text, const char *dir, size_t n)
{
    for (size_t k = n; k > 0; k--)
        if (strncmp(text, dir + n - k, k) == 0 && (text[k] == '/' || text[k] == ':'))
            return k;
    return 0;
}

/*
 * Clients learn the model and the reason; where the folder lies is the log's. A path stands at the
 * text's beginning, whole or as the end of a long one (lx_file_label): of the folder's part only
 * its last name stays.
 */
static void hide_folder(const char *dir, lx_error *err)
{
    char text[sizeof err->text];
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    size_t name = n, k = end_of_path(err->text, dir, n);
    while (name > 0 && dir[name - 1] != '/')
        name--;
    if (k < n - name)
        return;
    (void)snprintf(text, sizeof text, "%.*s%s", (int)(n - name), dir + name, err->text + k);
    memcpy(err->text, text, sizeof text);
}

static void log_fault(const lx_serving *s, const lx_error *err)
{
    const lx_serving_options *o = &s->options;
    lx_log(LX_LOG_ERROR, "reload from %s: %s; what was served goes on",
           o->models_dir != NULL ? o->models_dir : o->model_dir, err->text);
}

/* Logs a fault, and leaves of it what clients may learn; `dir`: the model's folder, or NULL where
   the list of folders is at fault. */
static void report_fault(const lx_serving *s, const char *dir, lx_error *err)
{
    log_fault(s, err);
    if (dir != NULL)
        hide_folder(dir, err);
    else
        (void)lx_fail(err, err->status, "models",
                      "the folders of the models cannot be listed; the log says why");
}

/* --- reading and starting --- */

/* Reads a folder; a fault is reported. */
static lx_status read_one(lx_serving *s, new_table *t, const char *dir, bool *seen, lx_error *err)
{
    lx_served_model *m = NULL;
    lx_status st = lx_served_open(s, dir, &m, err);
    if (st == LX_OK)
        st = put(s, t, m, seen, err);
    if (st != LX_OK)
        report_fault(s, dir, err);
    return st;
}

/* Reads every folder. Only this thread changes the table, so it may look without the lock. */
static lx_status read_all(lx_serving *s, new_table *t, lx_error *err)
{
    lx_folder_list l = {.n = 0};
    bool seen[LX_MAX_MODELS] = {false};
    lx_status st = lx_folders_list(&s->options, &l, err);
    if (st != LX_OK)
        report_fault(s, NULL, err);
    for (int32_t i = 0; i < l.n && st == LX_OK; i++)
        st = read_one(s, t, l.dirs[i], seen, err);
    lx_folders_free(&l);
    for (int32_t i = 0; i < s->n && st == LX_OK; i++) {
        if (seen[i])
            continue;
        st = lx_fail(err, LX_ERR_NOT_FOUND, "model", "the folder of model %s is gone",
                     s->models[i]->model->name);
        report_fault(s, s->models[i]->model->dir, err);
    }
    return st;
}

static lx_status start_all(lx_serving *s, new_table *t, lx_error *err)
{
    for (int32_t i = 0; i < t->n; i++) {
        const lx_served_model *old = i < t->n_old ? s->models[i] : NULL;
        if (t->models[i] == NULL)
            continue;
        lx_status st = lx_served_start(s, t->models[i], t->n, old, err);
        if (st != LX_OK) {
            report_fault(s, t->models[i]->model->dir, err);
            return st;
        }
    }
    return LX_OK;
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

static void report(const lx_serving *s, const new_table *t, lx_reload_pass *p)
{
    for (int32_t i = 0; i < t->n; i++) {
        lx_reloaded_model *m = &p->models[p->n++];
        m->changed = t->models[i] != NULL;
        (void)snprintf(m->name, sizeof m->name, "%s", s->models[i]->model->name);
        (void)snprintf(m->fingerprint, sizeof m->fingerprint, "%s", s->models[i]->fingerprint);
        if (m->changed)
            lx_log(LX_LOG_INFO, "model %s is now %s", m->name, m->fingerprint);
    }
}

/* Whether the new weights fit into memory next to those in use. */
static lx_status check_room(const lx_serving *s, const new_table *t, lx_error *err)
{
    int64_t weights = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (t->models[i] != NULL)
            weights += t->models[i]->bytes.weights;
    const lx_serving_options *o = &s->options;
    lx_status st = o->has_room != NULL ? o->has_room(o->memory, weights, err) : LX_OK;
    if (st != LX_OK)
        log_fault(s, err);
    return st;
}

/* Whether all models that are to be served fit into memory at their largest. */
static lx_status settle(const lx_serving *s, const new_table *t, lx_error *err)
{
    lx_served_model *all[LX_MAX_MODELS];
    for (int32_t i = 0; i < t->n; i++)
        all[i] = t->models[i] != NULL ? t->models[i] : s->models[i];
    lx_status st = lx_serving_settle(s, all, t->n, err);
    if (st != LX_OK)
        log_fault(s, err);
    return st;
}

static bool has_changes(const new_table *t)
{
    for (int32_t i = 0; i < t->n; i++)
        if (t->models[i] != NULL)
            return true;
    return false;
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

/* Small blocks of a model lie among those of other models in the C library's heaps, which keep
   them when they are freed. */
static void return_freed_memory(void)
{
    (void)malloc_trim(0);
}

/* Frees a retired model that is no longer in use; false: there is none. The caller holds the lock,
   which is released while the model is freed. */
static bool free_unused(lx_serving *s)
{
    lx_served_model *unused = take_unused(s);
    if (unused == NULL)
        return false;
    (void)pthread_mutex_unlock(&s->lock);
    lx_log(LX_LOG_INFO, "model %s: the last request of %s has ended", unused->model->name,
           unused->fingerprint);
    lx_served_free(unused);
    return_freed_memory();
    (void)pthread_mutex_lock(&s->lock);
    return true;
}

/* Until no request uses weights older than the current ones; requests end at their deadlines. */
static lx_status wait_for_old(lx_serving *s, lx_error *err)
{
    bool waits = false;
    (void)pthread_mutex_lock(&s->lock);
    while (s->n_retired > 0 && !s->stopping) {
        if (free_unused(s))
            continue;
        if (!waits)
            lx_log(LX_LOG_INFO, "reload: waiting for requests on weights before the current ones");
        waits = true;
        (void)pthread_cond_wait(&s->changed, &s->lock);
    }
    bool stopping = s->stopping;
    (void)pthread_mutex_unlock(&s->lock);
    return stopping ? lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping") : LX_OK;
}

static lx_status reload(lx_serving *s, lx_reload_pass *p)
{
    new_table t = {.n_old = s->n, .n = s->n};
    lx_status st = read_all(s, &t, &p->error);
    bool changes = st == LX_OK && has_changes(&t);
    if (changes)
        st = wait_for_old(s, &p->error);
    if (changes && st == LX_OK)
        st = check_room(s, &t, &p->error);
    if (changes && st == LX_OK)
        st = start_all(s, &t, &p->error);
    if (changes && st == LX_OK)
        st = settle(s, &t, &p->error);
    if (st != LX_OK) {
        for (int32_t i = 0; i < t.n; i++)
            lx_served_free(t.models[i]);
        return st;
    }
    int32_t first_retired = s->n_retired;
    swap(s, &t);
    wait_for_handlers(s);
    report(s, &t, p);
    for (int32_t i = first_retired; i < s->n_retired; i++)
        lx_served_unref(s->retired[i]); /* the table's reference */
    return LX_OK;
}

/* --- the thread --- */

static void unref_pass(lx_reload_pass *p)
{
    if (atomic_fetch_sub(&p->refs, 1) == 1)
        free(p);
}

static void unref(lx_reload *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    unref_pass(r->pass);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

static void finish(lx_reload_pass *p, lx_status status)
{
    p->status = status;
    for (lx_reload *r = p->first, *next; r != NULL; r = next) {
        next = r->next;
        (void)pthread_mutex_lock(&r->lock);
        atomic_store(&r->done, true);
        if (r->wake != NULL)
            r->wake(r->context);
        (void)pthread_mutex_unlock(&r->lock);
        unref(r);
    }
    unref_pass(p);
}

static void *run_thread(void *context)
{
    lx_serving *s = context;
    (void)pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        if (free_unused(s))
            continue;
        lx_reload_pass *p = s->waiting;
        if (p == NULL) {
            (void)pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->waiting = NULL; /* a later request may mean files that are read by then */
        (void)pthread_mutex_unlock(&s->lock);
        lx_status st = reload(s, p);
        return_freed_memory();
        finish(p, st);
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
    if (s->waiting != NULL) {
        (void)lx_fail(&s->waiting->error, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
        finish(s->waiting, LX_ERR_UNAVAILABLE);
    }
    s->waiting = NULL;
    for (int32_t i = 0; i < s->n_retired; i++)
        lx_served_free(s->retired[i]);
    s->n_retired = 0;
}

/* --- asking for one --- */

/* Under the lock: the reload that waits, or a new one. */
static lx_status find_waiting(lx_serving *s, lx_reload_pass **out, lx_error *err)
{
    if (s->stopping || atomic_load(&s->draining) || !atomic_load(&s->loaded))
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is starting or stopping");
    if (!s->thread_started && pthread_create(&s->thread, NULL, run_thread, s) != 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "cannot start the reloader's thread");
    s->thread_started = true;
    if (s->waiting == NULL) {
        s->waiting = calloc(1, sizeof *s->waiting);
        if (s->waiting == NULL)
            return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a reload");
        atomic_store(&s->waiting->refs, 1);
        (void)pthread_cond_signal(&s->changed);
    }
    *out = s->waiting;
    return LX_OK;
}

static lx_reload *new_request(void (*wake)(void *context), void *context)
{
    lx_reload *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    (void)pthread_mutex_init(&r->lock, NULL);
    r->wake = wake;
    r->context = context;
    atomic_store(&r->refs, 2);
    return r;
}

lx_status lx_reload_start(lx_serving *s, void (*wake)(void *context), void *context,
                          lx_reload **out, lx_error *err)
{
    lx_reload_pass *p = NULL;
    lx_reload *r = out != NULL ? new_request(wake, context) : NULL;
    if (out != NULL && r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a reload");
    (void)pthread_mutex_lock(&s->lock);
    lx_status st = find_waiting(s, &p, err);
    if (st == LX_OK && r != NULL) {
        atomic_fetch_add(&p->refs, 1);
        r->pass = p;
        r->next = p->first;
        p->first = r;
        *out = r;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (st != LX_OK && r != NULL) {
        (void)pthread_mutex_destroy(&r->lock);
        free(r);
    }
    return st;
}

bool lx_reload_done(const lx_reload *r)
{
    return atomic_load(&r->done);
}

lx_status lx_reload_result(const lx_reload *r, const lx_reloaded_model **models, int32_t *n,
                           lx_error *err)
{
    const lx_reload_pass *p = r->pass;
    *models = p->models;
    *n = p->n;
    if (p->status != LX_OK)
        *err = p->error;
    return p->status;
}

void lx_reload_release(lx_reload *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->wake = NULL;
    (void)pthread_mutex_unlock(&r->lock);
    unref(r);
}
