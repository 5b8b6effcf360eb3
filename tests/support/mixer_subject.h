/*
 * A model of a case of tests/mixers/NAME.json with random weights, on one back end, and steps of it
 * in pieces of any length, for the laws in test_mixers.c.
 */
#ifndef LINNET_TESTS_SUPPORT_MIXER_SUBJECT_H
#define LINNET_TESTS_SUPPORT_MIXER_SUBJECT_H

#include <jansson.h>

#include "model/transformer.h"

/* Rows of more than two pages; a head's row has WIDTH numbers; SLOTS sequences at a time. */
enum { SIDE = 14, ROWS = 150, WIDTH = 9, SLOTS = 4, MAX_IDS = ROWS * LX_MAX_INPUTS };

typedef struct subject_backend {
    const char *name;
    lx_isa isa;
    int32_t n_threads;
} subject_backend;

typedef struct subject {
    char *dir;
    lx_model *model;
    lx_backend *be;
    lx_transformer *t;
    lx_states *states;
    int32_t ids[SLOTS][MAX_IDS]; /* of every slot's sequence */
    int32_t apart; /* of a step's rows so many have one with an output, the last of them */
    char label[512];
} subject;

/* Fails the test with err's text unless st is LX_OK. */
void must_succeed(lx_status st, const lx_error *err);

/* An object of a case as text, with the kind in it if it is that of the mixer; NULL where there is
   none. Freed by free_text. */
char *mixer_text(const json_t *c, const char *key, const char *kind);
void free_text(char *text);

/* False where the back end lacks the kind and reports that in one line; every other failure fails
   the test. The subject is closed by close_subject where it is true. */
bool open_subject(subject *s, const char *kind, const json_t *c, int32_t n_layers,
                  const subject_backend *where);
void close_subject(subject *s);

/* Rows from .. from + n - 1 of a slot's sequence. */
typedef struct piece {
    int32_t slot, from, n;
    const int32_t *ids;  /* of the sequence */
    float *rows;         /* [ROWS, WIDTH]; those of the piece that have an output are written */
    int32_t own, branch; /* rows from `own` on are in slot `branch`; own 0: no branch */
} piece;

lx_status try_pieces(subject *s, const piece *pieces, int32_t n, lx_error *err);
/* Runs pieces that must succeed. */
void run_pieces(subject *s, const piece *pieces, int32_t n);
void run_rows(subject *s, int32_t slot, const int32_t *ids, int32_t from, int32_t n, float *rows);
void zero_slot(subject *s, int32_t slot);
/* A fresh slot's results for the first n rows of a sequence. */
void run_whole(subject *s, int32_t slot, const int32_t *ids, int32_t n, float *rows);

#endif
