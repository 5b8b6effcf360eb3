/*
 * The poem task: text whose model writes Chinese poems, and that keeps a form on request.
 *
 * Sequence: that of the text task (text.h). Where a prompt has a 》, the poem begins behind the
 * last one: 唐《静夜思》床前明月光， asks for what goes on behind its first line.
 *
 * A form, "5x4", "5x8", "7x4" or "7x8", is so many characters a line and so many lines. With it
 *   - line i of 1 .. lines has exactly that many Chinese characters of the vocabulary, then ，
 * where i is odd and 。 where it is even, and the answer ends behind the last mark
 *   - with an acrostic, a text of as many characters as there are lines, line i begins with its
 * i-th
 *   - with rhyme, the even lines end with different characters of one group of the model's table of
 * rhymes (model/rhymes.h)
 * by construction: masks leave nothing else to draw. What of the poem the prompt has must keep
 * them.
 *
 * Refused: `form` where it is none of these; `acrostic` without a form, of another length, or with
 * what is no Chinese character of the vocabulary; `rhyme` without a form or a table; `prompt` whose
 * own part breaks the form or leaves no room for the rest; `ignore_eos` with a form.
 */
#ifndef LINNET_MODEL_POEM_H
#define LINNET_MODEL_POEM_H

#include "model/rhymes.h"
#include "model/tasks/task.h"

enum { LX_POEM_MAX_LINES = 8 };

/* The fields of a request, see lx_task_request. */
typedef struct lx_poem_request {
    const char *form;     /* NUL-terminated; NULL: none */
    const char *acrostic; /* of acrostic_bytes, not NUL-terminated; NULL: none */
    size_t acrostic_bytes;
    bool rhyme; /* even lines rhyme */
} lx_poem_request;

extern const lx_task_ops lx_poem_task;

/* The model's table of rhymes; NULL: its folder has none. */
static inline const lx_rhymes *lx_poem_rhymes(const lx_model *model)
{
    return model->task_data;
}

/* "5x4, 5x8, 7x4, 7x8": for messages. */
const char *lx_poem_forms(void);

#endif
