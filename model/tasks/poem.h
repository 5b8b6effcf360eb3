/*
 * The poem task: text whose model writes Chinese poems, and that keeps a form on request.
 *
 * Sequence: that of the text task (text.h). Where a prompt has a 》, the poem begins after the last
 * one: 唐《静夜思》床前明月光， asks for the lines after the first.
 *
 * A form, "5x4", "5x8", "7x4" or "7x8", is so many characters a line and so many lines. Masks leave
 * only tokens that keep these rules:
 *
 *   - Line i of 1 .. lines has exactly that many Chinese characters of the vocabulary, then ，
 *     where i is odd and 。 where it is even. The answer ends after the last mark.
 *   - With an acrostic, a text of as many characters as there are lines, line i begins with its
 *     character i.
 *   - With rhyme, the even lines end with different characters of one group of the model's table
 *     of rhymes (model/rhymes.h).
 *
 * Lines that the prompt has already must keep the rules, too.
 *
 * Refused: `form` where it is none of these; `acrostic` without a form, of another length, or with
 * a character that is not Chinese or not in the vocabulary; `rhyme` without a form or a table;
 * `prompt` whose own part breaks the form or leaves no room for the rest; `ignore_eos` with a form.
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
