/*
 * `linear` with bf16 weights where an instruction adds two products of bf16 (V16_DOT). pack_pairs
 * rounds inputs to bf16 when it copies rows. Every shape has one order of sums.
 */

#define WORD_ADD add_pair
#define WORD_SUM v16
#define WORD_DOT v16_dot
#define WORD_STRIDE BODY_PAIR_STRIDE
#include "kernels/ops/linear/cpu_words.h"

V16_FN void run_bf16(const block *b, v16 *sums, const int rows, const int panels)
{
    const lx_matrix *w = b->job->w;
    const uint32_t *x = (const uint32_t *)b->x, *words = panel_words(w, b->panel), *ask = b->ask;
    words += b->from / 2 * LX_CPU_GROUP;
    for (int64_t k0 = b->from; k0 < b->to; k0 += LX_CPU_CHUNK, x += b->chunk_stride) {
        int64_t n = chunk_pairs(chunk_inputs(b->to, k0));
        for (int64_t k = 0; k < n; k++, words += LX_CPU_GROUP) {
            ask = ask_ahead(b, ask, panels);
            BODY_GROUPS(add_pair, sums, x + k, words, w->group_words, rows, panels);
        }
    }
}
