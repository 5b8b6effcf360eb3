/*
 * The poem task: text whose model writes Chinese poems, and that keeps a form on request.
 *
 * Sequence: that of the text task (text.h). Where a prompt has a 》, the poem begins after the last
 * one: 唐《静夜思》床前明月光， asks for the lines after the first.
 *
 * The fields of a request (fields.def):
 *
 *   - `form` (model/tasks/poem_forms.h) says how many lines there are, how long each line is and
 * which mark follows it. A line has Chinese characters of the vocabulary only. The answer ends
 * after the last mark.
 *   - `pattern`, level or oblique, gives the places of regulated verse their tones.
 *   - `acrostic` is a text of as many characters as the form has lines: line i begins with its
 *     character i, in any tone.
 *   - `rhyme` lets the lines that rhyme in the form end with different characters of one group: of
 *     the model's table, or "modern" of modern Mandarin (model/tasks/poem_words.h).
 *
 * Masks leave only tokens that keep the form. Lines that the prompt has already must keep it, too.
 * Poems never have an old form of a character whose usual form the vocabulary has.
 *
 * Refused: an unknown `form`, and the other fields without a form. `acrostic` and `pattern` with a
 * tune, and an acrostic of another length, or with a character that is not Chinese or not in the
 * vocabulary. `rhyme` without a table. A `prompt` whose own part breaks the form or leaves no room
 * for the rest. `ignore_eos` with a form.
 */
#ifndef LINNET_MODEL_POEM_H
#define LINNET_MODEL_POEM_H

#include "model/tasks/task.h"

extern const lx_task_ops lx_poem_task;

#endif
