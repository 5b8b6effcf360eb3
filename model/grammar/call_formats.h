/* The formats in which families of models write calls of tools. Thread: any. */
#ifndef LINNET_MODEL_GRAMMAR_CALL_FORMATS_H
#define LINNET_MODEL_GRAMMAR_CALL_FORMATS_H

#include <stdbool.h>

/* How the arguments of a call are written. */
typedef enum lx_call_spelling {
    LX_CALL_JSON,
    LX_CALL_XML,   /* <parameter=NAME>, a line per value, </parameter> */
    LX_CALL_PYTHON /* NAME=VALUE, NAME=VALUE */
} lx_call_spelling;

/* The texts of a format, in their order in an answer. With `each`, mark and end stand around every
   call; without it, around the list of all calls. */
typedef struct lx_call_format {
    const char *name;
    const char *words[2]; /* a template that has both has this format, unless an earlier one fits */
    lx_call_spelling spelling;
    bool each;
    bool single; /* a message has one call at most */
    bool first;  /* the mark counts at the begin of an answer only */
    const char *mark, *head;
    const char *before_name, *after_name, *after_arguments, *between;
    const char *end, *end_mark;
} lx_call_format;

/* The format of a chat template; NULL: none that is known. `pythonic`: the vocabulary has
   <|tool_call_start|>, which the templates of LFM2 do not name. */
const lx_call_format *lx_call_format_find(const char *text, bool pythonic);
/* By its name; NULL: there is none. */
const lx_call_format *lx_call_format_named(const char *name);

/*
 * Marks that may be special tokens of a model. Such a token has no text in an answer. In grammars
 * the byte LX_MARK_BYTE + its number stands for it, which no UTF-8 text has in it.
 */
typedef enum lx_call_mark {
    LX_MARK_CALL,
    LX_MARK_CALL_END,
    LX_MARK_THINK,
    LX_MARK_THINK_END,
    LX_CALL_MARKS
} lx_call_mark;

enum { LX_MARK_BYTE = 0xf8 };

/* The text of a mark; "" where the format has none of its own. */
const char *lx_call_mark_text(const lx_call_format *f, lx_call_mark mark);
/* The byte of a mark as a text of one byte. */
const char *lx_call_mark_byte(lx_call_mark mark);

/* How a value is written where a format writes texts without quotes. */
typedef enum lx_call_value {
    LX_VALUE_JSON,
    LX_VALUE_TEXT,        /* a string, as it is */
    LX_VALUE_TEXT_OR_NULL /* a string as it is, but for the word null */
} lx_call_value;

#endif
