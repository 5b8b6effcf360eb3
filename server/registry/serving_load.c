/*
 * From a folder to a model that computes (see serving_internal.h).
 *
 * Each model computes one real step with its own weights before clients may use it. So a model that
 * cannot compute is found at the start and not by the first client.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/version.h"
#include "model/facts.h"
#include "model/forward.h"
#include "server/registry/room.h"
#include "server/registry/serving_internal.h"

enum {
    MAX_SLOTS = 256,
    MAX_DEVICE_SLOTS = 16384,
    STEP_ROW_BYTES = 4096, /* inputs and outputs of a row of a step */
    PROMPT_CHUNK = 256,
    /* On a processor the time of a step of n rows is a + b n, where a (for the weights) is about 2
       b. So n / 2 + 3 prompt rows make a step of n streams at most three times longer. A GPU takes
       a chunk: some hundred rows cost it nothing. */
    PROMPT_BESIDE = 3,
};

/* --- which folders --- */

/* Whether a path is a model's: its folder, or its GGUF file. A folder that cannot be read may be
   one, so it is an error. */
static lx_status find_config(const char *dir, bool *found, lx_error *err)
{
    char path[4096];
    *found = lx_model_is_file(dir);
    if (*found)
        return LX_OK;
    int n = snprintf(path, sizeof path, "%s/config.json", dir);
    if (n < 0 || n >= (int)sizeof path)
        return lx_fail(err, LX_ERR_INVALID, "models", "a path is too long: %.100s", dir);
    *found = access(path, R_OK) == 0;
    if (*found || errno == ENOENT || errno == ENOTDIR)
        return LX_OK;
    return lx_fail(err, LX_ERR_IO, "models", "%s: %s", path, strerror(errno));
}

static lx_status add_folder(lx_folder_list *l, const char *dir, lx_error *err)
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

static lx_status list_folders(const char *parent, lx_folder_list *l, lx_error *err)
{
    DIR *d = opendir(parent);
    int32_t first = l->n;
    if (d == NULL)
        return lx_fail(err, errno == ENOMEM ? LX_ERR_NO_MEMORY : LX_ERR_IO, "models", "%s: %s",
                       parent, strerror(errno));
    lx_status st = LX_OK;
    for (const struct dirent *e = readdir(d); e != NULL && st == LX_OK; e = readdir(d)) {
        char dir[4096];
        bool found = false;
        int n = snprintf(dir, sizeof dir, "%s/%s", parent, e->d_name);
        if (e->d_name[0] != '.' && n < (int)sizeof dir)
            st = find_config(dir, &found, err);
        if (st == LX_OK && found)
            st = add_folder(l, dir, err);
    }
    (void)closedir(d);
    qsort(l->dirs + first, (size_t)(l->n - first), sizeof *l->dirs, compare_names);
    return st;
}

/* A model's folder, or one of models' folders. */
static lx_status list_models(const char *dir, lx_folder_list *l, lx_error *err)
{
    bool found = false;
    lx_status st = find_config(dir, &found, err);
    if (st != LX_OK)
        return st;
    return found ? add_folder(l, dir, err) : list_folders(dir, l, err);
}

/* "DIR:DIR": the models of the first folder, then of the next one. */
static lx_status list_parents(const char *parents, lx_folder_list *l, lx_error *err)
{
    lx_status st = LX_OK;
    for (const char *at = parents; at != NULL && st == LX_OK;) {
        size_t n = strcspn(at, ":");
        char *parent = strndup(at, n);
        st = parent != NULL ? list_models(parent, l, err)
                            : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a folder's name");
        free(parent);
        at = at[n] == ':' ? at + n + 1 : NULL;
    }
    return st;
}

lx_status lx_folders_list(const lx_serving_options *o, lx_folder_list *l, lx_error *err)
{
    lx_status st = o->models_dir != NULL ? list_parents(o->models_dir, l, err) : LX_OK;
    bool found = false;
    if (st == LX_OK && o->model_dir != NULL)
        st = find_config(o->model_dir, &found, err);
    if (st == LX_OK && o->model_dir != NULL && !found)
        st = lx_fail(err, LX_ERR_NOT_FOUND, "model", "%s/config.json: %s", o->model_dir,
                     strerror(ENOENT));
    if (found)
        st = add_folder(l, o->model_dir, err);
    if (st == LX_OK && l->n == 0)
        st = lx_fail(err, LX_ERR_NOT_FOUND, "models", "no model found in %s",
                     o->models_dir != NULL ? o->models_dir : "the folders given");
    return st;
}

void lx_folders_free(lx_folder_list *l)
{
    for (int32_t i = 0; i < l->n; i++)
        free(l->dirs[i]);
    l->n = 0;
}

/* --- one model --- */

/* Bytes for the states and steps of one of n_models: its part of the option's bytes, or of three
   quarters of a device's free memory. */
static lx_status state_memory(const lx_serving *s, const lx_served_model *m, int32_t n_models,
                              int64_t *out, lx_error *err)
{
    lx_backend *be = m->be;
    int64_t bytes = s->options.state_bytes;
    lx_status st = be->ops->is_device ? be->ops->memory(be, &bytes, err) : LX_OK;
    *out = (be->ops->is_device ? bytes / 4 * 3 : bytes) / n_models;
    return st;
}

/* How the model divides its share. In the place of an old one it has as many slots as that. */
static lx_room choose_room(const lx_serving *s, const lx_served_model *m,
                           const lx_served_model *old, int64_t bytes)
{
    const lx_serving_options *o = &s->options;
    return lx_room_choose(&(lx_room_sizes){
        .bytes = bytes,
        .state = lx_serving_state_bytes(m),
        .fixed = m->model->state.fixed_floats * (int64_t)sizeof(float),
        .row = lx_transformer_row_bytes(m->model) + STEP_ROW_BYTES,
        .n_slots = old != NULL ? old->n_slots
                               : lx_model_limit_of(&o->slots_of, m->model->name, o->n_slots),
        .most_slots = m->be->ops->is_device ? MAX_DEVICE_SLOTS : MAX_SLOTS,
        .most_drafts = lx_engine_most_drafts(m->model, lx_engine_draft_of(o->draft, m->be))});
}

/*
 * Bytes of the pool that growing states share. A reload does not make the pool smaller, or the
 * server would refuse requests that it accepted before. On a processor a pool takes memory when it
 * is used, and the old pool's comes back as its requests end. A device takes it at once. So there
 * the new pool has the bytes that fit next to the old one, until the next reload.
 */
static int64_t choose_page_bytes(const lx_serving *s, lx_served_model *m,
                                 const lx_served_model *old, int64_t bytes)
{
    bool had = old != NULL && old->page_bytes > 0;
    if (s->options.page_bytes > 0)
        return s->options.page_bytes;
    m->page_bytes = had ? old->page_bytes : bytes;
    if (!m->be->ops->is_device || bytes >= m->page_bytes)
        return m->page_bytes;
    lx_log(LX_LOG_WARN,
           "model %s: next to the old model there are %lld bytes for the growing parts of states, "
           "not %lld, until the next reload",
           m->model->name, (long long)bytes, (long long)m->page_bytes);
    return bytes;
}

/* The option's bytes for states of prompts, or the model's part of the bytes of all models. The log
   says if not one state fits, because then prompts share nothing. */
static int64_t prefix_bytes(const lx_serving *s, const lx_served_model *m, int32_t n_models)
{
    int64_t wanted = s->options.prefix_bytes, most = s->options.prefix_most / n_models;
    int64_t bytes = m->be->ops->is_device || wanted < most ? wanted : most;
    const lx_state_layout *state = &m->model->state;
    int64_t each = (state->fixed_floats + state->page_floats) * (int64_t)sizeof(float);
    if (wanted > 0 && bytes < each)
        lx_log(LX_LOG_WARN,
               "model %s: prompts that begin alike share no state: a state has %lld bytes, and the "
               "cache may have %lld (--prefix-cache-mb)",
               m->model->name, (long long)each, (long long)bytes);
    return bytes;
}

/* Refuses a model whose weights are no numbers, or a device that cannot compute it. */
static lx_status warm_up(const lx_served_model *m, lx_error *err)
{
    lx_states *states = NULL;
    lx_status st = lx_transformer_states_new(m->transformer, 1, 1, &states, err);
    if (st == LX_OK)
        st = lx_transformer_probe(m->transformer, states, 0, err);
    lx_transformer_states_free(m->transformer, states);
    return st;
}

void lx_served_free(lx_served_model *m)
{
    if (m == NULL)
        return;
    lx_engine_stop(m->engine);
    lx_transcriber_stop(m->transcriber);
    lx_transformer_free(m->transformer);
    lx_model_free(m->model);
    free(m);
}

/* "linnet-0.2.0-1a2b...-cpu-avx512": build, weights, back end. */
static void name_fingerprint(lx_served_model *m)
{
    const char *isa = m->be->isa;
    bool whole = m->be->precision >= LX_PRECISION_INT8;
    (void)snprintf(m->fingerprint, sizeof m->fingerprint, "linnet-%s-%016llx-%s%s%s%s%s",
                   LX_VERSION, (unsigned long long)m->model->hash, m->be->ops->name,
                   isa != NULL ? "-" : "", isa != NULL ? isa : "", whole ? "-" : "",
                   whole ? lx_precision_name(m->be->precision) : "");
}

/* The serving's back end, or the CPU's for a model whose mixer a device lacks; the other models
   stay on the device. Thread: the one that loads or reloads. */
static lx_status choose_backend(lx_serving *s, lx_served_model *m, lx_error *err)
{
    lx_error why = {0};
    m->be = s->be;
    if (!s->be->ops->is_device || lx_forward_check(m->model, s->be, &why) == LX_OK)
        return LX_OK;
    lx_status st =
        s->cpu != NULL ? LX_OK : lx_backend_open("cpu", &s->options.backend_options, &s->cpu, err);
    m->be = s->cpu;
    if (st == LX_OK)
        lx_log(LX_LOG_INFO,
               "model %s is served by the CPU: the back end %s lacks one of its mixers",
               m->model->name, s->be->ops->name);
    return st;
}

lx_status lx_served_open(lx_serving *s, const char *dir, lx_served_model **out, lx_error *err)
{
    lx_served_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
    m->serving = s;
    atomic_store(&m->refs, 1);
    lx_status st = lx_model_load(dir, &m->model, err);
    if (st == LX_OK)
        st = choose_backend(s, m, err);
    if (st != LX_OK) {
        lx_served_free(m);
        return st;
    }
    name_fingerprint(m);
    m->bytes.weights = lx_weights_bytes(m->model, m->be);
    *out = m;
    return LX_OK;
}

static int32_t queue_of(const lx_serving *s, const lx_served_model *m)
{
    return lx_model_limit_of(&s->options.queue_of, m->model->name, s->options.max_queue);
}

/* A model of speech has no slots, and allocates all its memory here. */
static lx_status start_speech(const lx_serving *s, lx_served_model *m, lx_error *err)
{
    lx_status st =
        lx_transcriber_new(m->model, m->be, queue_of(s, m), &m->metrics, &m->transcriber, err);
    m->n_slots = (int32_t)atomic_load(&m->metrics.slots_total);
    if (st == LX_OK && !m->be->ops->is_device)
        m->bytes.held = lx_transcriber_bytes(m->transcriber);
    m->created = (int64_t)time(NULL);
    if (st == LX_OK)
        lx_log(LX_LOG_INFO, "model %s: task %s, %lld parameters, %d layers, sounds of %.1f s, %s",
               m->model->name, m->model->config.task, (long long)m->model->n_parameters,
               m->model->config.n_layers,
               lx_listener_longest(lx_transcriber_listener(m->transcriber)), m->fingerprint);
    return st;
}

static void log_facts(const lx_model *m, int64_t n_rerounded)
{
    lx_fact facts[LX_MAX_FACTS];
    int32_t n = lx_model_facts(m, facts);
    char line[LX_MAX_FACTS * (LX_FACT_BYTES + 16)] = "";
    size_t used = 0;
    for (int32_t i = 0; i < n; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s %s", i > 0 ? "; " : "",
                                 facts[i].name, facts[i].text);
    if (n > 0)
        lx_log(LX_LOG_INFO, "model %s: %s", m->name, line);
    if (m->token_note[0] != '\0')
        lx_log(LX_LOG_WARN, "model %s: %s", m->name, m->token_note);
    if (n_rerounded > 0)
        lx_log(LX_LOG_INFO,
               "model %s: %lld weights are rounded a second time, from the blocks of their file to "
               "Q8_0",
               m->name, (long long)n_rerounded);
}

static lx_status start_engine(lx_serving *s, lx_served_model *m, int32_t n_models,
                              const lx_served_model *old, lx_error *err)
{
    const lx_serving_options *o = &s->options;
    int64_t bytes = 0;
    lx_status st = state_memory(s, m, n_models, &bytes, err);
    if (st != LX_OK)
        return st;
    lx_room room = choose_room(s, m, old, bytes);
    m->n_slots = room.n_slots;
    m->n_spare = old != NULL ? old->n_spare : room.n_spare;
    int32_t max_tokens = m->n_slots + room.prompt_rows;
    int64_t page_bytes = choose_page_bytes(s, m, old, room.page_bytes);
    int64_t prefixes = prefix_bytes(s, m, n_models);
    if (!m->be->ops->is_device) {
        m->bytes.held = room.held - room.page_bytes + page_bytes;
        m->bytes.prefixes = prefixes;
    }
    lx_engine_options engine = {.n_slots = m->n_slots,
                                .n_spare = m->n_spare,
                                .max_queue = queue_of(s, m),
                                .max_tokens = max_tokens,
                                .prompt_chunk = PROMPT_CHUNK,
                                .prompt_beside =
                                    m->be->ops->is_device ? PROMPT_CHUNK : PROMPT_BESIDE,
                                .page_bytes = page_bytes,
                                .prefix_bytes = prefixes,
                                .prefix_every = o->prefix_every,
                                .share_prefixes = o->share_prefixes,
                                .place = o->place,
                                .draft = lx_engine_draft_of(o->draft, m->be),
                                .probe_ns = o->probe_ns,
                                .ahead = lx_engine_best_ahead(m->be)};
    st = lx_transformer_new(m->model, m->be, max_tokens, max_tokens, &m->transformer, err);
    if (st == LX_OK)
        st = warm_up(m, err);
    if (st == LX_OK)
        st = lx_engine_start(m->transformer, &engine, &m->metrics, &m->engine, err);
    m->created = (int64_t)time(NULL);
    if (st == LX_OK)
        lx_log(LX_LOG_INFO,
               "model %s: task %s, %lld parameters, %d layers, %lld bytes of state per request, %d "
               "slots, %s",
               m->model->name, m->model->config.task, (long long)m->model->n_parameters,
               m->model->config.n_layers, (long long)lx_serving_state_bytes(m), m->n_slots,
               m->fingerprint);
    if (st == LX_OK)
        log_facts(m->model, lx_transformer_rerounded(m->transformer));
    return st;
}

lx_status lx_served_start(lx_serving *s, lx_served_model *m, int32_t n_models,
                          const lx_served_model *old, lx_error *err)
{
    lx_status st = m->model->task->modality == LX_SPEECH ? start_speech(s, m, err)
                                                         : start_engine(s, m, n_models, old, err);
    lx_safetensors_end(m->model->weights); /* the back end has them in its own order */
    return st;
}
