/*
 * The copy task (Katharopoulos et al. 2020, section 4.1): a sequence of symbols in, the same
 * sequence out. It shows how far a kind of attention can recall symbols.
 *
 * A model has an alphabet of A symbols, the tokens 0 .. A - 1, and sequences of 1 .. L of them;
 * token A is the separator, <sep>. With n symbols s_1 .. s_n the rows are, by the names that
 * config.json has for the inputs:
 *   row                     token   place   position   predicts
 *   i - 1,  i = 1 .. n      s_i     i       i - 1
 *   n                       A       0       n          s_1
 *   n + i,  i = 1 .. n - 1  s_i     i       n + i      s_{i+1}
 * sizes                     A + 1   L + 1   2 L
 * `token` is required, all further inputs are the model's choice, in any order.
 *
 * The s_i of the lower part are the symbols that the model wrote. An answer has n symbols; which
 * ones is the model's to say, only the separator is never drawn. A prompt is a text of characters
 * of the alphabet, which vocab.txt names, or a list of tokens. Refused, with param "prompt": no
 * symbols, more than L, and other characters.
 */
#ifndef LINNET_MODEL_COPY_H
#define LINNET_MODEL_COPY_H

#include "model/tasks/task.h"

/* The keys of "copy" in config.json. */
typedef struct lx_copy_config {
    int32_t alphabet; /* symbols */
    int32_t length;   /* of the longest sequence, in symbols */
} lx_copy_config;
LX_TASK_PART(lx_copy_config, lx_copy_of, lx_copy_own)

extern const lx_task_ops lx_copy_task;

/* Fills ids[n] with sequence number `index` of the sequences that `seed` names: symbols drawn alike
   and independently of the model. */
void lx_copy_sequence(const lx_config *config, uint64_t seed, uint32_t index, int32_t n,
                      int32_t *ids);

#endif
