/*
 * The couplet task: an upper line in, a lower line of the same length out.
 *
 * Sequence, with n characters per line (inputs: token, position, countdown, mirror):
 *   <s>                position 0, countdown 0, mirror <none>
 *   u_i, i = 1 .. n    position i, countdown 0, mirror <none>
 *   <sep>              position 1, countdown n, mirror u_1           predicts l_1
 *   l_i, i < n         position i + 1, countdown n - i, mirror u_{i+1}   predicts l_{i+1}
 *
 * A vocabulary with <back> is of a model that answers lower lines, too: <back> in the place of
 * <sep> asks for the upper line of a lower one. With lx_task_request.either_way a line whose last
 * character has a level tone is such a lower line, because upper lines end obliquely.
 *
 * The upper line is normalised first: white space around it is dropped, ASCII , ; : ? ! become
 * their full-width forms. With lx_task_request.normalize white space inside it is dropped, too, but
 * for line breaks, and a traditional character is read as its simplified form, where the vocabulary
 * has that. A line has 1 .. max_chars characters. Refused, with param "prompt": empty, too long,
 * malformed UTF-8, control characters, and white space inside. Also any character that is neither
 * in the vocabulary nor a Han character nor punctuation (an emoji, say). A Han character outside
 * the vocabulary is read as <unk>.
 *
 * Rules, enforced in the sampler unless the request says rules: false:
 *   - the lower line has as many characters as the upper (always)
 *   - punctuation exactly where the upper line has it, the same mark, and nowhere else
 *   - where the upper line repeats a character the lower repeats at the same places, nowhere else
 *   - no character of the upper line comes back
 *   - never <unk> or another special (without rules <unk> may come and is written U+FFFD)
 */
#ifndef LINNET_MODEL_COUPLET_H
#define LINNET_MODEL_COUPLET_H

#include "model/tasks/task.h"

/* The keys of config.json. */
typedef struct lx_couplet_config {
    int32_t max_chars; /* of the longest line */
} lx_couplet_config;
LX_TASK_PART(lx_couplet_config, lx_couplet_of, lx_couplet_own)

extern const lx_task_ops lx_couplet_task;

/* The rules a finished pair breaks, by bit. */
enum {
    LX_COUPLET_LENGTH = 1 << 0,
    LX_COUPLET_PUNCTUATION = 1 << 1,
    LX_COUPLET_REPETITION = 1 << 2,
    LX_COUPLET_SHARED = 1 << 3,
    LX_COUPLET_UNKNOWN = 1 << 4,
    LX_COUPLET_N_RULES = 5
};

/* Checks a pair of lines given as code points (unknown = U+FFFD). Returns the broken rules' bits.
   Independent of the sampler: tests and `linnet eval` judge answers with it. */
unsigned lx_couplet_check(const uint32_t *upper, int32_t n_upper, const uint32_t *lower,
                          int32_t n_lower);
const char *lx_couplet_rule_name(int32_t bit_index); /* "length", "punctuation", ... */

#endif
