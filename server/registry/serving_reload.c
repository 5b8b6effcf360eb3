/*
 * New weights in the place of old ones, while requests run (see serving_internal.h).
 *
 * A reload reads every folder again, and new folders too. A model with an unchanged hash stays. All
 * changed models are loaded, warmed and started next to the old ones. When every one of them works,
 * they take the places of the old ones at once, and models without a folder go. A fault in any file
 * leaves everything as it was. Requests on an old model end on it; then it is freed. The new model
 * refuses the states of the old one by the hash in them.
 *
 * Loading takes seconds, so a thread of its own does it. One reload runs and at most one waits,
 * which later requests join: it begins after all of them, so it reads the files that each of them
 * means. Before it loads weights, the requests on weights older than the current ones must have
 * ended. Memory therefore never holds a third version of a model.
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

/* The models after the reload: new ones, and NULL where the old one stays or goes. */
typedef struct new_table {
    lx_served_model *models[LX_MAX_MODELS];
    bool goes[LX_MAX_MODELS]; /* the old model's folder is not there any more */
    int32_t n_old, n;         /* places of old models come first */
    bool changes;
    int64_t weights; /* bytes of the new models */
} new_table;

/* Takes the model. */
static lx_status put(lx_serving *s, new_table *t, lx_served_model *m, bool *seen, lx_error *err)
{
    int32_t i = lx_served_place(s->models, s->n, m->model->name);
    lx_status st = LX_OK;
    if (i >= 0 ? seen[i]
               : lx_served_place(t->models + t->n_old, t->n - t->n_old, m->model->name) >= 0)
        st = lx_fail(err, LX_ERR_INVALID, "model", "two models are named %s", m->model->name);
    else if (i < 0 && t->n == LX_MAX_MODELS)
        st = lx_fail(err, LX_ERR_TOO_LARGE, "models", "more than %d models", LX_MAX_MODELS);
    if (st != LX_OK || (i >= 0 && s->models[i]->model->hash == m->model->hash)) {
        lx_served_free(m);
    } else {
        t->models[i < 0 ? t->n++ : i] = m;
        t->changes = true;
        t->weights += m->bytes.weights;
    }
    if (i >= 0)
        seen[i] = true;
    return st;
}

/* --- faults, as clients see them --- */

/* How many characters at the beginning of `text` are the last ones of `dir`, before a slash. */
static size_t end_of_path(const char *text, const char *dir, size_t n)
{
    for (size_t k = n; k > 0; k--)
        if (strncmp(text, dir + n - k, k) == 0 && (text[k] == '/' || text[k] == ':'))
            return k;
    return 0;
}

/*
 * Clients learn the model and the reason, but the path of the folder only from the log. A text may
 * begin with the path, or with the end of a long one (lx_file_label). Only the last name of the
 * folder's part stays.
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

static lx_status log_fault(const lx_serving *s, const lx_error *err)
{
    const lx_serving_options *o = &s->options;
    lx_log(LX_LOG_ERROR, "reload from %s: %s; the served models stay",
           o->models_dir != NULL ? o->models_dir : o->model_dir, err->text);
    return err->status;
}

/* Logs a fault, and then shortens its text for clients. `dir`: the model's folder, or NULL where
   the list of folders is at fault. */
static void report_fault(const lx_serving *s, const char *dir, lx_error *err)
{
    (void)log_fault(s, err);
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
    for (int32_t i = 0; i < t->n_old && st == LX_OK; i++) {
        t->goes[i] = !seen[i];
        t->changes |= !seen[i];
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

static void retire(lx_serving *s, int32_t i, lx_served_model *successor)
{
    if (successor != NULL)
        lx_metrics_carry(&successor->metrics, &s->models[i]->metrics, &s->models[i]->carried);
    s->retired[s->n_retired++] = s->models[i];
}

/* Puts the new models into the table; old ones without a folder leave it. All replaced ones are
   retired. Pointers after the table's new end stay: a handler may still count to the old end. */
static void swap(lx_serving *s, new_table *t)
{
    LX_HOLD(&s->lock);
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++) {
        lx_served_model *m = t->models[i];
        if (i < t->n_old && (m != NULL || t->goes[i]))
            retire(s, i, m);
        if (t->goes[i])
            continue;
        if (m != NULL && atomic_load(&s->draining))
            lx_served_drain(m);
        s->models[n++] = m != NULL ? m : s->models[i];
    }
    s->n = n;
}

/* Waits for the handlers that may have seen the old table. Handlers never wait themselves. */
static void wait_for_handlers(lx_serving *s)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * LX_NS_PER_MS};
    int32_t old = atomic_load(&s->turn);
    atomic_store(&s->turn, 1 - old);
    while (atomic_load(&s->n_inside[old]) > 0)
        (void)nanosleep(&pause, NULL);
}

/* Before the models change their places. */
static void report(const lx_serving *s, const new_table *t, lx_reload_pass *p)
{
    for (int32_t i = 0; i < t->n; i++) {
        const lx_served_model *served = t->models[i] != NULL ? t->models[i] : s->models[i];
        lx_reloaded_model *m = &p->models[p->n++];
        m->changed = t->models[i] != NULL || t->goes[i];
        m->removed = t->goes[i];
        (void)snprintf(m->name, sizeof m->name, "%s", served->model->name);
        (void)snprintf(m->fingerprint, sizeof m->fingerprint, "%s", served->fingerprint);
    }
}

static void log_report(const lx_reload_pass *p)
{
    bool changed = false;
    for (int32_t i = 0; i < p->n; i++) {
        const lx_reloaded_model *m = &p->models[i];
        changed |= m->changed;
        if (m->removed)
            lx_log(LX_LOG_INFO, "model %s is no longer served: its folder is gone", m->name);
        else if (m->changed)
            lx_log(LX_LOG_INFO, "model %s is now %s", m->name, m->fingerprint);
    }
    if (!changed)
        lx_log(LX_LOG_INFO, "reload: no model has changed");
}

/* Whether all models that are to be served fit into memory at their largest. */
static lx_status settle(const lx_serving *s, const new_table *t, lx_error *err)
{
    lx_served_model *all[LX_MAX_MODELS];
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (!t->goes[i])
            all[n++] = t->models[i] != NULL ? t->models[i] : s->models[i];
    return lx_serving_settle(s, all, n, err);
}

/* Under the lock: takes a retired model that is no longer in use out of the list. */
static lx_served_model *take_unused(lx_serving *s)
{
    for (int32_t i = 0; i < s->n_retired; i++) {
        lx_served_model *m = s->retired[i];
        if (atomic_load(&m->refs) > 0)
            continue;
        s->retired[i] = s->retired[--s->n_retired];
        int32_t place = lx_served_place(s->models, s->n, m->model->name);
        if (place >= 0) /* -1: it has no successor */
            lx_metrics_carry(&s->models[place]->metrics, &m->metrics, &m->carried);
        return m;
    }
    return NULL;
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
    (void)malloc_trim(0); /* the heaps keep freed small blocks between those of other models */
    (void)pthread_mutex_lock(&s->lock);
    return true;
}

/* Until no request uses weights older than the current ones; requests end at their deadlines. */
static lx_status wait_for_old(lx_serving *s, lx_error *err)
{
    bool waits = false;
    LX_HOLD(&s->lock);
    while (s->n_retired > 0 && !s->stopping) {
        if (free_unused(s))
            continue;
        if (!waits)
            lx_log(LX_LOG_INFO, "reload: waiting for requests on weights before the current ones");
        waits = true;
        (void)pthread_cond_wait(&s->changed, &s->lock);
    }
    return s->stopping ? lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping") : LX_OK;
}

/* Starts the new models, if they fit into memory now and at their largest. */
static lx_status start_changed(lx_serving *s, new_table *t, lx_error *err)
{
    const lx_serving_options *o = &s->options;
    lx_status st = wait_for_old(s, err);
    if (st == LX_OK && o->has_room != NULL && o->has_room(o->memory, t->weights, err) != LX_OK)
        return log_fault(s, err);
    if (st == LX_OK)
        st = start_all(s, t, err);
    return st == LX_OK && settle(s, t, err) != LX_OK ? log_fault(s, err) : st;
}

static lx_status reload(lx_serving *s, lx_reload_pass *p)
{
    new_table t = {.n_old = s->n, .n = s->n};
    lx_status st = read_all(s, &t, &p->error);
    if (st == LX_OK && t.changes)
        st = start_changed(s, &t, &p->error);
    if (st != LX_OK) {
        for (int32_t i = 0; i < t.n; i++)
            lx_served_free(t.models[i]);
        return st;
    }
    int32_t first_retired = s->n_retired;
    report(s, &t, p);
    swap(s, &t);
    wait_for_handlers(s);
    log_report(p);
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
    LX_HOLD(&s->lock);
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
        atomic_fetch_add(st == LX_OK ? &s->n_reloaded : &s->n_refused, 1);
        if (st == LX_OK)
            atomic_store(&s->loaded_at, (int64_t)time(NULL));
        (void)malloc_trim(0);
        finish(p, st);
        (void)pthread_mutex_lock(&s->lock);
    }
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

lx_status lx_reload_start(lx_serving *s, void (*wake)(void *context), void *context,
                          lx_reload **out, lx_error *err)
{
    lx_reload_pass *p = NULL;
    lx_reload *r = out != NULL ? calloc(1, sizeof *r) : NULL;
    if (out != NULL && r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a reload");
    LX_HOLD(&s->lock);
    lx_status st = find_waiting(s, &p, err);
    if (st != LX_OK || r == NULL) {
        free(r);
        return st;
    }
    atomic_fetch_add(&p->refs, 1);
    *r = (lx_reload){.refs = 2, .next = p->first, .pass = p, .wake = wake, .context = context};
    (void)pthread_mutex_init(&r->lock, NULL);
    p->first = *out = r;
    return LX_OK;
}

lx_reload_counts lx_serving_reloads(lx_serving *s)
{
    return (lx_reload_counts){.done = atomic_load(&s->n_reloaded),
                              .failed = atomic_load(&s->n_refused),
                              .when = atomic_load(&s->loaded_at)};
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
