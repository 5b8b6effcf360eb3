/*
 * Sequences of rows that go through one operation with a state per slot. The tests of
 * `attend_linear`, `recurrence` and `selective_scan` share these checks: the results are those of
 * the oracle, any split of a sequence gives the same bytes, neighbours do not matter, and other
 * slots stay unchanged.
 */
#ifndef LINNET_TESTS_CONFORMANCE_SEQUENCES_H
#define LINNET_TESTS_CONFORMANCE_SEQUENCES_H

#include "conformance.h"

enum { SEQUENCE_ARRAYS = 2 };

/* The first member of a test's own case. */
typedef struct sequences sequences;
struct sequences {
    char text[96]; /* names the case in messages */
    int32_t n_seqs, n_slots, n_arrays, width[SEQUENCE_ARRAYS];
    const int32_t *length;
    int32_t *slot;
    float *rows[SEQUENCE_ARRAYS]; /* the inputs of all sequences, one after the other */
    int64_t n_y, floats;          /* of a row's results; of a slot */
    /* Calls the operation on the rows in `in`. */
    void (*run)(device *d, const sequences *s, lx_array *y, lx_array *const *in, lx_states *states);
    /* The sizes by which errors of y and of the states are measured; 0 where nothing is written. */
    void (*scales)(const sequences *s, double *y, double *state);
};

int32_t sequence_rows(const sequences *s);
/* Slots of n_seqs sequences, distinct where n_seqs + 1 is no multiple of 5. */
int32_t *sequence_slots(int32_t n_seqs);

/* Runs all sequences in one step from zero states; y and all slots' states come back. */
bool sequences_run(device *d, const sequences *s, float *y, float *state);

/* Compares the results with the oracle's, and frees them. */
bool sequences_match(device *dut, device *oracle, const sequences *s, double y_bound,
                     double state_bound);

/*
 * Whether each sequence, alone and in pieces, gives the bytes of sequences_run; frees the results.
 * It is split once for each of the n numbers: a piece has so many rows, or with r a random number
 * up to that.
 */
bool sequences_split(device *d, const sequences *s, const int32_t *longest, int32_t n, rng *r);

/* Continues the hash with y and the states of sequences_run; false when that fails. */
bool sequences_hash(device *d, const sequences *s, uint64_t *hash);

#endif
