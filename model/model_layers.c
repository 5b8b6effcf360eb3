/* What a model's layers consist of (see model_internal.h). */
#include "model/model_internal.h"

#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/tasks/task.h"

static void add_branch(lx_model *m, int32_t index, const lx_mixer_config *config)
{
    lx_layer *layer = &m->layers[index];
    lx_branch *b = &layer->branches[layer->n_branches++];
    *b = (lx_branch){.config = config,
                     .parts = {.layer = index},
                     .state_offset = m->state.fixed_floats, /* 0 where it has room instead */
                     .page_offset = m->state.page_floats};
    config->mixer->declare(config, &b->parts);
    m->state.fixed_floats += lx_mixer_state_floats(&b->parts);
    m->state.page_floats += lx_mixer_page_floats(&b->parts);
    m->room = b->parts.room > m->room ? b->parts.room : m->room;
}

/* All that a mixer is given to declare its state by. */
static uint64_t hash_mixer(uint64_t hash, const lx_mixer_config *c)
{
    const int32_t sizes[] = {c->d_model, c->n_heads, c->d_key, c->d_value, c->d_ff};
    hash = lx_file_hash(hash, c->mixer->name, strlen(c->mixer->name) + 1);
    hash = lx_file_hash(hash, sizes, sizeof sizes);
    hash = lx_file_hash(hash, c->list, sizeof c->list);
    return lx_file_hash(hash, c->params, sizeof c->params);
}

/* Where any layer is recomputed, all are: then the state is what the rows were given. */
static lx_status set_recomputed(lx_model *m, lx_error *err)
{
    int32_t n = 0, n_layers = m->config.n_layers;
    for (int32_t i = 0; i < n_layers; i++)
        n += lx_config_mixer(&m->config, i)->mixer->is_recomputed;
    if (n == 0)
        return LX_OK;
    for (int32_t i = 0; i < n_layers; i++) {
        if (!lx_config_mixer(&m->config, i)->mixer->is_recomputed)
            return lx_fail(err, LX_ERR_FORMAT, NULL,
                           "%s/config.json: attention[%d] must be recomputed, as other layers are",
                           lx_file_label(m->dir), i);
    }
    m->recomputes = true;
    m->work = m->state;
    m->state = (lx_state_layout){.page_floats = (int64_t)LX_PAGE_TOKENS * m->config.n_inputs};
    m->state_hash = lx_file_hash(m->state_hash, &m->config.n_inputs, sizeof m->config.n_inputs);
    return LX_OK;
}

/* Where any layer sees its whole sequence, all do: there is no state then. */
static lx_status set_directions(lx_model *m, lx_error *err)
{
    const lx_config *c = &m->config;
    const char *first = lx_config_mixer(c, 0)->mixer->name;
    m->sees_all = m->layers[0].branches[0].parts.sees_all;
    for (int32_t i = 0; i < c->n_layers; i++) {
        const lx_branch *b = m->layers[i].branches;
        if (b[0].parts.sees_all != m->sees_all)
            return lx_fail(err, LX_ERR_FORMAT, NULL,
                           "%s/config.json: attention[%d] (%s) looks %s, attention[0] (%s) %s: all "
                           "layers must look the same way",
                           lx_file_label(m->dir), i, lx_config_mixer(c, i)->mixer->name,
                           m->sees_all ? "forward" : "both ways", first,
                           m->sees_all ? "both ways" : "forward");
        if (m->sees_all && lx_mixer_state_floats(&b[1].parts) > 0)
            return lx_fail(
                err, LX_ERR_FORMAT, NULL,
                "%s/config.json: feed_forward.kind %s looks forward, attention (%s) both ways: all "
                "layers must look the same way",
                lx_file_label(m->dir), c->feed_forward.mixer->name, first);
    }
    return LX_OK;
}

lx_status lx_model_check_task(const lx_model *m, lx_error *err)
{
    bool hears = m->task->modality == LX_SPEECH;
    if (hears != (m->config.head_kind == LX_HEAD_CTC))
        return lx_fail(err, LX_ERR_FORMAT, "head",
                       hears ? "config.json: head: task %s wants kind ctc"
                             : "config.json: head: kind ctc is for task speech, not for %s",
                       m->task->name);
    if (hears == m->sees_all)
        return LX_OK;
    return lx_fail(err, LX_ERR_FORMAT, NULL,
                   hears
                       ? "config.json: task %s wants attention that looks both ways, and %s looks "
                         "forward"
                       : "config.json: task %s wants attention that looks forward, and %s looks "
                         "both ways",
                   m->task->name, lx_config_mixer(&m->config, 0)->mixer->name);
}

/* What the layers consist of, and where their states lie in a slot: one behind the other. A
   feed-forward net without a state decides nothing about saved ones. */
lx_status lx_model_set_layers(lx_model *m, lx_error *err)
{
    m->layers = calloc((size_t)m->config.n_layers, sizeof *m->layers);
    if (m->layers == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
    m->state_hash = LX_HASH_SEED;
    for (int32_t i = 0; i < m->config.n_layers; i++) {
        m->state_hash = hash_mixer(m->state_hash, lx_config_mixer(&m->config, i));
        add_branch(m, i, lx_config_mixer(&m->config, i));
        if (lx_config_has_feed_forward(&m->config, i))
            add_branch(m, i, &m->config.feed_forward);
        if (lx_mixer_state_floats(&m->layers[i].branches[1].parts) > 0)
            m->state_hash = hash_mixer(m->state_hash, &m->config.feed_forward);
        int64_t carried = m->layers[i].branches[0].parts.carried;
        if (carried > 0 && m->layers[0].branches[0].parts.carried != carried)
            return lx_fail(
                err, LX_ERR_FORMAT, NULL,
                "%s/config.json: attention[%d] needs what layer 0 leaves for it: layer 0 "
                "must be %s, too, with heads like these",
                lx_file_label(m->dir), i, lx_config_mixer(&m->config, i)->mixer->name);
    }
    lx_status st = set_directions(m, err);
    return st == LX_OK ? set_recomputed(m, err) : st;
}
