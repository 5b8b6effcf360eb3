/* Attention over kept rows (see rows.h). */
#include "model/mixers/rows.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MAX_WIDTH = 1024 }; /* of attend_rows */

const char *lx_mixer_check_rows(const lx_mixer_config *c)
{
    return c->d_key > MAX_WIDTH || c->d_value > MAX_WIDTH ? "d_key and d_value must be at most 1024"
                                                          : NULL;
}

void lx_mixer_declare_products(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int64_t keys = (int64_t)c->n_heads * c->d_key, values = (int64_t)c->n_heads * c->d_value;
    lx_mixer_add_product(p, "attn.qkv", 2 * keys + values, c->d_model);
    lx_mixer_add_product(p, "attn.out", c->d_model, values);
    lx_mixer_add_scratch(p, 2 * keys + values);
    lx_mixer_add_scratch(p, values);
}

void lx_mixer_declare_rows(const lx_mixer_config *c, const lx_rows_pattern *patterns, int32_t n,
                           lx_mixer_parts *p)
{
    int32_t ring = 0;
    n = n < c->n_heads ? n : c->n_heads;
    lx_status st = lx_rows_ring(patterns, n, &ring, NULL);
    assert(st == LX_OK && n <= LX_MAX_MIXER_PATTERNS);
    (void)st;
    lx_mixer_declare_products(c, p);
    lx_mixer_add_rows(p, c->n_heads, c->d_key, c->d_value, ring);
    memcpy(p->patterns, patterns, (size_t)n * sizeof *patterns);
    p->n_patterns = n;
}

lx_attend_rows_args lx_mixer_attend_rows_args(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    const lx_mixer_parts *p = call->parts;
    return (lx_attend_rows_args){.y = call->scratch[LX_ROWS_ATTENDED],
                                 .qkv = call->scratch[LX_ROWS_PROJECTED],
                                 .states = call->states,
                                 .offset = p->ring > 0 ? call->offset : call->page_offset,
                                 .ring = p->ring,
                                 .n_heads = c->n_heads,
                                 .d_key = c->d_key,
                                 .d_value = c->d_value,
                                 .scale = 1.0f / sqrtf((float)c->d_key),
                                 .patterns = p->patterns,
                                 .n_patterns = p->n_patterns};
}

static void attend(const lx_mixer_call *call)
{
    const lx_attend_rows_args args = lx_mixer_attend_rows_args(call);
    call->be->ops->attend_rows(call->be, &args);
}

void lx_mixer_queue_rows(const lx_mixer_call *call)
{
    lx_mixer_queue_attention(call, LX_ROWS_OUT, attend);
}
