/*
 * The threads that hear (see transcriber.h).
 *
 * One lock guards the three lists a sound goes through, in this order: to be read, to be encoded,
 * to be written. A thread takes a sound out of a list, works on it without the lock, and puts it
 * into the next list. So no other thread knows the sound meanwhile, and the thread that has it
 * finishes it.
 */
#include "server/speech/transcriber.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/compute_thread.h"

enum { MEAN_OF = 8 /* about so many passes */ };

typedef struct list {
    lx_hearing *first, **last;
    int32_t n;
} list;

struct lx_transcriber {
    lx_listener *listener;
    lx_encoder *encoder; /* its thread's */
    lx_metrics *metrics;
    int32_t max_queue;
    pthread_t reader, encoding;
    int32_t n_threads;

    pthread_mutex_t lock;        /* for those below */
    pthread_cond_t read, encode; /* there is something to do for the thread */
    list to_read, to_encode, to_write;
    int32_t n_held;                     /* that are not finished */
    int64_t last_ns, pass_ns, sound_ns; /* the means: of a pass, and of it for one sound */
    bool draining, ends;
};

/* --- lists, under the lock --- */

static void put(list *l, lx_hearing *h)
{
    h->next = NULL;
    *l->last = h;
    l->last = &h->next;
    l->n++;
}

/* The one at *at leaves. */
static lx_hearing *take_at(list *l, lx_hearing **at)
{
    lx_hearing *h = *at;
    *at = h->next;
    if (*at == NULL)
        l->last = at;
    l->n--;
    return h;
}

static lx_hearing *take(list *l)
{
    return l->first != NULL ? take_at(l, &l->first) : NULL;
}

static void show_queue(lx_transcriber *t)
{
    atomic_store(&t->metrics->queue_length, t->to_read.n + t->to_encode.n);
}

/* One that should go no further, with the reason. */
static lx_hearing *take_late(lx_transcriber *t, lx_status *st, lx_error *err)
{
    list *const lists[] = {&t->to_read, &t->to_encode, &t->to_write};
    int64_t now = lx_now_ns();
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (lx_hearing **at = &lists[i]->first; *at != NULL; at = &(*at)->next) {
            *st = lx_hearing_fault(*at, now, err);
            if (*st != LX_OK)
                return take_at(lists[i], at);
        }
    }
    return NULL;
}

/* --- both threads, without the lock --- */

/* Its place in the queue is free before its reader knows: a client may come again at once. */
static void finish(lx_transcriber *t, lx_hearing *h, lx_status st, const lx_error *err)
{
    (void)pthread_mutex_lock(&t->lock);
    t->n_held--;
    t->last_ns = lx_now_ns();
    (void)pthread_mutex_unlock(&t->lock);
    lx_hearing_finish(h, st, err);
    lx_hearing_unref(h);
}

/* With the lock, which is let go of meanwhile. False: there is none. */
static bool drop_late(lx_transcriber *t)
{
    lx_error err = {0};
    lx_status st = LX_OK;
    lx_hearing *h = take_late(t, &st, &err);
    if (h == NULL)
        return false;
    show_queue(t);
    (void)pthread_mutex_unlock(&t->lock);
    finish(t, h, st, &err);
    (void)pthread_mutex_lock(&t->lock);
    return true;
}

/* --- the reader --- */

/* A search of many beams takes seconds: it ends with the request that asked for it. */
static lx_status search_fault(const void *hearing, lx_error *err)
{
    return lx_hearing_fault(hearing, lx_now_ns(), err);
}

static void read_one(lx_transcriber *t, lx_hearing *h)
{
    lx_error err = {0};
    lx_status st =
        lx_listener_read(t->listener, h->params.file, h->params.bytes, "file", &h->utterance, &err);
    if (st != LX_OK) {
        finish(t, h, st, &err);
        return;
    }
    h->utterance.fault = search_fault;
    h->utterance.context = h;
    (void)pthread_mutex_lock(&t->lock);
    put(&t->to_encode, h);
    t->last_ns = lx_now_ns();
    show_queue(t);
    (void)pthread_cond_signal(&t->encode);
    (void)pthread_mutex_unlock(&t->lock);
}

static void write_one(lx_transcriber *t, lx_hearing *h)
{
    lx_error err = {0};
    lx_status st = lx_listener_write(t->listener, &h->utterance, h->params.beam, &h->said, &err);
    if (st == LX_OK)
        atomic_fetch_add(&t->metrics->sound_ns,
                         (uint64_t)(h->utterance.duration * (double)LX_NS_PER_S));
    finish(t, h, st, &err);
}

static void *read_thread(void *context)
{
    lx_transcriber *t = context;
    lx_compute_thread();
    (void)pthread_mutex_lock(&t->lock);
    while (!t->ends) {
        if (drop_late(t))
            continue;
        lx_hearing *written = take(&t->to_write);
        lx_hearing *unread = written == NULL ? take(&t->to_read) : NULL;
        if (written == NULL && unread == NULL) {
            (void)pthread_cond_wait(&t->read, &t->lock);
            continue;
        }
        show_queue(t);
        (void)pthread_mutex_unlock(&t->lock);
        if (written != NULL)
            write_one(t, written);
        else
            read_one(t, unread);
        (void)pthread_mutex_lock(&t->lock);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* --- the encoder --- */

/* A pass: sounds in the order in which they came. */
typedef struct pass {
    lx_hearing *sounds[LX_PASS_SOUNDS];
    lx_encoder_input inputs[LX_PASS_SOUNDS];
    int32_t n, rows;
} pass;

/* As many of the first as fit, under the lock. */
static void gather(lx_transcriber *t, pass *p)
{
    *p = (pass){.n = 0};
    int64_t now = lx_now_ns();
    while (t->to_encode.first != NULL && p->n < lx_encoder_max_inputs(t->encoder)) {
        lx_hearing *h = t->to_encode.first;
        int32_t rows = h->utterance.input.n_rows;
        if (p->rows + rows > lx_encoder_max_rows(t->encoder))
            break;
        (void)take(&t->to_encode);
        atomic_store(&h->started_ns, now);
        lx_histogram_observe(&t->metrics->queue_time, now - h->submitted_ns);
        p->inputs[p->n] = h->utterance.input;
        p->sounds[p->n++] = h;
        p->rows += rows;
    }
    atomic_store(&t->metrics->slots_used, p->n);
    show_queue(t);
}

static void encode_alone(lx_transcriber *t, const pass *p, lx_status *st, lx_error *errs)
{
    for (int32_t i = 0; i < p->n; i++)
        st[i] = lx_encoder_run(t->encoder, &p->inputs[i], 1, &errs[i]);
}

/* A mean in which earlier values count less every time. */
static int64_t mean_of(int64_t mean, int64_t next)
{
    return mean == 0 ? next : mean + (next - mean) / MEAN_OF;
}

static void note_pass(lx_transcriber *t, const pass *p, int64_t ns)
{
    atomic_fetch_add(&t->metrics->steps, 1);
    atomic_fetch_add(&t->metrics->step_rows, (uint64_t)p->rows);
    lx_histogram_observe(&t->metrics->step_time, ns);
    (void)pthread_mutex_lock(&t->lock);
    t->last_ns = lx_now_ns();
    t->pass_ns = mean_of(t->pass_ns, ns);
    t->sound_ns = mean_of(t->sound_ns, ns / p->n);
    (void)pthread_mutex_unlock(&t->lock);
}

static void encode(lx_transcriber *t, const pass *p)
{
    lx_status st[LX_PASS_SOUNDS] = {LX_OK};
    lx_error errs[LX_PASS_SOUNDS] = {{0}};
    int64_t begin = lx_now_ns();
    st[0] = lx_encoder_run(t->encoder, p->inputs, p->n, &errs[0]);
    if (st[0] != LX_OK && p->n > 1)
        encode_alone(t, p, st, errs);
    note_pass(t, p, lx_now_ns() - begin);
    for (int32_t i = 0; i < p->n; i++) {
        if (st[i] != LX_OK) {
            finish(t, p->sounds[i], st[i], &errs[i]);
            continue;
        }
        (void)pthread_mutex_lock(&t->lock);
        put(&t->to_write, p->sounds[i]);
        (void)pthread_mutex_unlock(&t->lock);
    }
}

static void *encode_thread(void *context)
{
    lx_transcriber *t = context;
    pass p;
    lx_compute_thread();
    (void)pthread_mutex_lock(&t->lock);
    while (!t->ends) {
        if (drop_late(t))
            continue;
        gather(t, &p);
        if (p.n == 0) {
            (void)pthread_cond_wait(&t->encode, &t->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&t->lock);
        encode(t, &p);
        (void)pthread_mutex_lock(&t->lock);
        (void)pthread_cond_signal(&t->read);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* --- start and end --- */

/* So that a model whose weights are no numbers is refused now: one row, of zeros. */
static lx_status warm_up(lx_encoder *e, lx_error *err)
{
    size_t width = (size_t)lx_encoder_width(lx_encoder_model(e));
    size_t size = (size_t)lx_encoder_model(e)->config.head_size;
    float *row = calloc(width + size, sizeof *row);
    if (row == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a row");
    const lx_encoder_input input = {.rows = row, .n_rows = 1, .log_p = row + width};
    lx_status st = lx_encoder_run(e, &input, 1, err);
    free(row);
    return st;
}

static lx_status start(lx_transcriber *t, lx_error *err)
{
    if (pthread_create(&t->reader, NULL, read_thread, t) == 0)
        t->n_threads = 1;
    if (t->n_threads == 1 && pthread_create(&t->encoding, NULL, encode_thread, t) == 0)
        t->n_threads = 2;
    return t->n_threads == 2 ? LX_OK
                             : lx_fail(err, LX_ERR_NO_MEMORY, NULL,
                                       "cannot start the threads of speech recognition");
}

lx_status lx_transcriber_new(const lx_model *model, lx_backend *be, int32_t max_queue,
                             lx_metrics *metrics, lx_transcriber **out, lx_error *err)
{
    lx_transcriber *t = calloc(1, sizeof *t);
    if (t == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a speech model");
    t->metrics = metrics;
    t->max_queue = max_queue;
    t->last_ns = lx_now_ns();
    t->to_read.last = &t->to_read.first;
    t->to_encode.last = &t->to_encode.first;
    t->to_write.last = &t->to_write.first;
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_cond_init(&t->read, NULL);
    (void)pthread_cond_init(&t->encode, NULL);
    int32_t sounds = model->max_rows < LX_PASS_SOUNDS ? model->max_rows : LX_PASS_SOUNDS;
    lx_status st = lx_listener_new(model, &t->listener, err);
    if (st == LX_OK)
        st = lx_encoder_new(model, be, model->max_rows, sounds, &t->encoder, err);
    if (st == LX_OK)
        st = warm_up(t->encoder, err);
    if (st == LX_OK)
        st = start(t, err);
    if (st != LX_OK) {
        lx_transcriber_stop(t);
        return st;
    }
    atomic_store(&metrics->slots_total, sounds);
    atomic_store(&metrics->queue_limit, max_queue);
    *out = t;
    return LX_OK;
}

/* The sounds that no thread has any more. */
static void drop_all(lx_transcriber *t)
{
    list *const lists[] = {&t->to_read, &t->to_encode, &t->to_write};
    lx_error err = {0};
    lx_status st = lx_fail(&err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (lx_hearing *h = take(lists[i]); h != NULL; h = take(lists[i]))
            finish(t, h, st, &err);
}

void lx_transcriber_stop(lx_transcriber *t)
{
    if (t == NULL)
        return;
    (void)pthread_mutex_lock(&t->lock);
    t->ends = true;
    (void)pthread_cond_signal(&t->read);
    (void)pthread_cond_signal(&t->encode);
    (void)pthread_mutex_unlock(&t->lock);
    if (t->n_threads > 0)
        (void)pthread_join(t->reader, NULL);
    if (t->n_threads > 1)
        (void)pthread_join(t->encoding, NULL);
    drop_all(t);
    lx_encoder_free(t->encoder);
    lx_listener_free(t->listener);
    (void)pthread_cond_destroy(&t->encode);
    (void)pthread_cond_destroy(&t->read);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

/* --- any thread --- */

const lx_listener *lx_transcriber_listener(const lx_transcriber *t)
{
    return t->listener;
}

int64_t lx_transcriber_bytes(const lx_transcriber *t)
{
    return lx_encoder_bytes(t->encoder);
}

lx_status lx_transcriber_submit(lx_transcriber *t, lx_hearing *h, lx_error *err)
{
    lx_status st = LX_OK;
    (void)pthread_mutex_lock(&t->lock);
    if (t->draining || t->ends)
        st = lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is shutting down");
    else if (t->n_held > t->max_queue)
        st = lx_fail(err, LX_ERR_BUSY, NULL, "%d sounds are waiting: try again later", t->n_held);
    if (st == LX_OK) {
        if (t->n_held++ == 0)
            t->last_ns = lx_now_ns();
        put(&t->to_read, lx_hearing_ref(h));
        show_queue(t);
        (void)pthread_cond_signal(&t->read);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return st;
}

void lx_transcriber_poke(lx_transcriber *t)
{
    (void)pthread_mutex_lock(&t->lock);
    while (drop_late(t))
        continue;
    (void)pthread_mutex_unlock(&t->lock);
}

void lx_transcriber_drain(lx_transcriber *t)
{
    (void)pthread_mutex_lock(&t->lock);
    t->draining = true;
    (void)pthread_mutex_unlock(&t->lock);
}

bool lx_transcriber_idle(lx_transcriber *t)
{
    (void)pthread_mutex_lock(&t->lock);
    bool idle = t->n_held == 0;
    (void)pthread_mutex_unlock(&t->lock);
    return idle;
}

int64_t lx_transcriber_last_step_ns(lx_transcriber *t)
{
    (void)pthread_mutex_lock(&t->lock);
    int64_t ns = t->n_held == 0 ? lx_now_ns() : t->last_ns;
    (void)pthread_mutex_unlock(&t->lock);
    return ns;
}

double lx_transcriber_wait_s(lx_transcriber *t)
{
    (void)pthread_mutex_lock(&t->lock);
    double s = (double)t->n_held * (double)t->sound_ns / (double)LX_NS_PER_S;
    (void)pthread_mutex_unlock(&t->lock);
    return s;
}

double lx_transcriber_step_s(lx_transcriber *t)
{
    (void)pthread_mutex_lock(&t->lock);
    double s = (double)t->pass_ns / (double)LX_NS_PER_S;
    (void)pthread_mutex_unlock(&t->lock);
    return s;
}
