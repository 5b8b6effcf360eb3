/* A model's layers, worked out from its config, and the layout of its states (see model.h). */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/row_ranges.h"
#include "model/formats/file.h"

/* --- layers --- */

/* norm: as in lx_branch. */
static void add_branch(lx_model *m, int32_t index, const lx_mixer_config *config, int32_t norm)
{
    lx_layer *layer = &m->layers[index];
    lx_branch *b = &layer->branches[layer->n_branches++];
    *b = (lx_branch){.config = config,
                     .parts = {.layer = index, .prefix = norm == 0 ? "beside." : ""},
                     .norm = norm,
                     .norms = lx_config_mixer(&m->config, index)->norms,
                     .state_offset = m->state.fixed_floats, /* 0 where it has room instead */
                     .page_offset = m->state.page_floats};
    config->mixer->declare(config, &b->parts);
    m->state.fixed_floats += lx_mixer_state_floats(&b->parts);
    m->state.page_floats += lx_mixer_page_floats(&b->parts);
    m->room = b->parts.room > m->room ? b->parts.room : m->room;
    m->norms_outputs |= b->norms != LX_NORM_BEFORE;
}

static void add_frame(lx_model *m, lx_frame_part part, int32_t i, const char *name,
                      lx_mixer_tensor tensor)
{
    lx_frame_tensor *f = &m->frame[m->n_frame++];
    *f = (lx_frame_tensor){.part = part, .i = i, .tensor = tensor};
    (void)snprintf(f->name, sizeof f->name, "%s%s", name,
                   part == LX_FRAME_EMBED ? m->config.inputs[i].name : "");
}

/* Declares the tensors around the layers, once for all: the check of a weights file and its loading
   follow this list. */
static void set_frame(lx_model *m)
{
    const lx_config *c = &m->config;
    int32_t width = lx_config_output_width(c);
    lx_tensor_role head = c->plain_head ? LX_TENSOR_MAP : LX_TENSOR_PRODUCT;
    for (int32_t i = 0; i < c->n_inputs; i++)
        add_frame(m, LX_FRAME_EMBED, i, "embed.",
                  (lx_mixer_tensor){
                      .rows = c->inputs[i].size, .cols = c->d_model, .role = LX_TENSOR_TABLE});
    if (c->n_features > 0)
        add_frame(m, LX_FRAME_FEATURES, 0, "features",
                  (lx_mixer_tensor){
                      .rows = c->d_model, .cols = c->n_features, .role = LX_TENSOR_PRODUCT});
    if (c->input_norm)
        add_frame(m, LX_FRAME_INPUT_NORM, 0, "input_norm",
                  (lx_mixer_tensor){.cols = c->d_model, .role = LX_TENSOR_NORM});
    add_frame(m, LX_FRAME_FINAL_NORM, 0, "final_norm",
              (lx_mixer_tensor){.cols = width, .role = LX_TENSOR_NORM});
    add_frame(m, LX_FRAME_HEAD, 0, "head",
              (lx_mixer_tensor){.rows = c->head_size, .cols = width, .role = head});
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

/* Where any layer is recomputed, all are: then the state holds the inputs of the rows. */
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
                lx_file_label(m->dir), b[1].config->mixer->name, first);
    }
    return LX_OK;
}

static bool has_state(const lx_mixer_parts *p)
{
    return lx_mixer_state_floats(p) > 0 || lx_mixer_page_floats(p) > 0;
}

/* The parts of each layer, and the place of its state in a slot. The layers' states follow each
   other. A feed-forward net without a state decides nothing about saved states. */
lx_status lx_model_set_layers(lx_model *m, lx_error *err)
{
    m->layers = calloc((size_t)m->config.n_layers, sizeof *m->layers);
    if (m->layers == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a model");
    set_frame(m);
    m->state_hash = LX_HASH_SEED;
    for (int32_t i = 0; i < m->config.n_layers; i++) {
        if (lx_config_has_mixer(&m->config, i)) {
            m->state_hash = hash_mixer(m->state_hash, lx_config_mixer(&m->config, i));
            add_branch(m, i, lx_config_mixer(&m->config, i), 1);
        }
        if (m->config.beside.mixer != NULL)
            add_branch(m, i, &m->config.beside, 0);
        if (lx_config_has_feed_forward(&m->config, i))
            add_branch(m, i, lx_config_feed_forward(&m->config, i), 2);
        for (int32_t b = 1; b < m->layers[i].n_branches; b++) {
            if (has_state(&m->layers[i].branches[b].parts))
                m->state_hash = hash_mixer(m->state_hash, m->layers[i].branches[b].config);
        }
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

/* --- states --- */

bool lx_model_can_branch(const lx_model *m)
{
    bool can = !m->recomputes;
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        for (int32_t b = 0; b < m->layers[l].n_branches; b++) {
            const lx_mixer_parts *p = &m->layers[l].branches[b].parts;
            can = can && p->ring == 0 && p->in_page == 0;
        }
    }
    return can;
}

bool lx_model_can_guess(const lx_model *m)
{
    return lx_model_can_branch(m) && m->state.page_floats == 0;
}

int32_t lx_model_state_pages(const lx_model *m, int64_t rows)
{
    return m->state.page_floats > 0 ? (int32_t)((rows + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS) : 0;
}

int64_t lx_model_state_floats(const lx_model *m, int64_t rows)
{
    return m->state.fixed_floats + lx_model_state_pages(m, rows) * m->state.page_floats;
}

const lx_state_field *lx_model_state_field_at(const lx_model *m, int32_t layer, int32_t head,
                                              int32_t i, int64_t *offset)
{
    for (int32_t b = 0; b < m->layers[layer].n_branches; b++) {
        const lx_branch *branch = &m->layers[layer].branches[b];
        const lx_mixer_parts *parts = &branch->parts;
        int64_t at = branch->state_offset + head * lx_mixer_head_floats(parts);
        int64_t at_once = branch->state_offset + lx_mixer_heads_floats(parts);
        for (int32_t k = 0; k < parts->n_fields; k++) {
            const lx_state_field *f = &parts->fields[k];
            *offset = f->once ? at_once : at;
            if ((f->once || head < parts->n_heads) && i-- == 0)
                return f;
            *(f->once ? &at_once : &at) += (int64_t)f->rows * f->cols;
        }
    }
    return NULL;
}

const lx_state_field *lx_model_state_field(const lx_model *m, int32_t layer, int32_t head,
                                           const char *name, int64_t *offset)
{
    const lx_state_field *f = NULL;
    for (int32_t i = 0; (f = lx_model_state_field_at(m, layer, head, i, offset)) != NULL; i++) {
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

/* --- kept rows, as they lie in a saved state (kernels/ops/attend_rows/op.h) --- */

/* The branch of a layer that keeps rows, or NULL. */
static const lx_branch *branch_of(const lx_model *m, int32_t layer)
{
    const lx_layer *l = &m->layers[layer];
    if (m->recomputes)
        return NULL;
    for (int32_t b = 0; b < l->n_branches; b++) {
        if (l->branches[b].parts.row_key > 0)
            return &l->branches[b];
    }
    return NULL;
}

int32_t lx_model_state_heads(const lx_model *m, int32_t layer)
{
    const lx_branch *rows = branch_of(m, layer);
    int32_t n = rows != NULL ? rows->parts.n_heads : 0;
    for (int32_t b = 0; b < m->layers[layer].n_branches && n == 0; b++)
        n = m->layers[layer].branches[b].parts.n_heads;
    return n;
}

/* Whether a ring still has the tile: no later one, up to the last, has its place. */
static bool has_tile(const lx_mixer_parts *p, int32_t tile, int32_t last)
{
    int32_t n = p->ring / LX_ROWS_TILE, kept = lx_ring_kept(p->patterns, p->n_patterns);
    return p->ring == 0 || tile < kept || last - tile < n - kept;
}

static bool has_row(const lx_mixer_parts *p, int32_t position, int32_t rows)
{
    return has_tile(p, position / LX_ROWS_TILE, (rows - 1) / LX_ROWS_TILE);
}

lx_kept_rows lx_model_kept_rows(const lx_model *m, int32_t layer, int32_t rows)
{
    const lx_branch *b = branch_of(m, layer);
    if (b == NULL)
        return (lx_kept_rows){0};
    lx_kept_rows kept = {b->parts.n_heads, b->parts.row_key, b->parts.row_value, 0};
    for (int32_t i = 0; i < rows; i++)
        kept.n += has_row(&b->parts, i, rows);
    return kept;
}

/* Where in an exported state a tile of a head begins: keys transposed, then values. */
static int64_t tile_at(const lx_model *m, const lx_branch *b, int32_t head, int32_t tile)
{
    const lx_mixer_parts *p = &b->parts;
    int64_t floats = (int64_t)LX_ROWS_TILE * (p->row_key + p->row_value);
    if (p->ring > 0) {
        int32_t n = p->ring / LX_ROWS_TILE, kept = lx_ring_kept(p->patterns, p->n_patterns);
        int64_t place = (int64_t)head * n + lx_ring_place(tile, n, kept);
        return b->state_offset + lx_mixer_fields_floats(p) + place * floats;
    }
    int32_t in_page = LX_PAGE_TOKENS / LX_ROWS_TILE;
    int64_t page = m->state.fixed_floats + tile / in_page * m->state.page_floats;
    return page + b->page_offset + ((int64_t)head * in_page + tile % in_page) * floats;
}

/* Zeroes a row in its tile. */
static void clear_row(const lx_mixer_parts *p, int32_t lane, float *tile)
{
    int64_t dk = p->row_key, dv = p->row_value;
    for (int64_t d = 0; d < dk; d++)
        tile[d * LX_ROWS_TILE + lane] = 0;
    memset(tile + dk * LX_ROWS_TILE + lane * dv, 0, (size_t)dv * sizeof *tile);
}

void lx_model_clear_later_rows(const lx_model *m, int64_t rows, float *state)
{
    if (m->state.page_floats == 0 || !lx_model_can_branch(m))
        return;
    int32_t end = lx_model_state_pages(m, rows) * LX_PAGE_TOKENS;
    for (int32_t i = 0; i < m->config.n_layers * LX_MAX_BRANCHES; i++) {
        const lx_layer *l = &m->layers[i / LX_MAX_BRANCHES];
        const lx_branch *b = &l->branches[i % LX_MAX_BRANCHES];
        if (i % LX_MAX_BRANCHES >= l->n_branches || b->parts.row_key == 0)
            continue;
        for (int32_t h = 0; h < b->parts.n_heads; h++) {
            for (int32_t row = (int32_t)rows; row < end; row++)
                clear_row(&b->parts, row % LX_ROWS_TILE,
                          state + tile_at(m, b, h, row / LX_ROWS_TILE));
        }
    }
}

void lx_model_read_rows(const lx_model *m, int32_t layer, int32_t head, int32_t rows,
                        const float *state, int32_t n, int32_t *positions, float *k, float *v)
{
    const lx_branch *b = branch_of(m, layer);
    int64_t dk = b->parts.row_key, dv = b->parts.row_value, to = n;
    for (int32_t i = rows - 1; i >= 0 && to > 0; i--) {
        if (!has_row(&b->parts, i, rows))
            continue;
        const float *tile = state + tile_at(m, b, head, i / LX_ROWS_TILE);
        int32_t lane = i % LX_ROWS_TILE;
        positions[--to] = i;
        for (int64_t d = 0; d < dk; d++)
            k[to * dk + d] = tile[d * LX_ROWS_TILE + lane];
        for (int64_t d = 0; d < dv; d++)
            v[to * dv + d] = tile[dk * LX_ROWS_TILE + lane * dv + d];
    }
}
