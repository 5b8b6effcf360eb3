/*
 * Shared by the tests of operations that carry a state through a sequence: a comparison with the
 * oracle, and the laws of splitting a sequence. A state is all NaN before its slot is zeroed, and
 * pages are mapped in a crooked order, so that a read of unwritten memory shows.
 */
#ifndef LINNET_TESTS_CONFORMANCE_CARRIED_H
#define LINNET_TESTS_CONFORMANCE_CARRIED_H

#include "conformance.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* Queues the operation between begin and end. x: [T, x_width], y: [T, y_width], both of the case.
 */
typedef void carried_queue(device *d, const void *c, lx_states *s, const lx_array *x, lx_array *y);

typedef struct carried {
    const void *c; /* the case: sizes */
    carried_queue *queue;
    int64_t x_width, y_width;
    int64_t fixed_floats, page_floats; /* page_floats 0: nothing grows */
    int32_t most;                      /* tokens of a sequence */
    double scale, bound;               /* an error of y by this scale is at most the bound */
} carried;

lx_states *carried_states(device *d, const carried *op, int32_t n_slots);
/* Runs one step of sequences of these lengths in these slots, which are at these positions. y holds
   its former values before the step, and the operation's results after it. */
bool carried_step(device *d, const carried *op, lx_states *s, int32_t n_seqs, const int32_t *length,
                  const int32_t *slot, const int32_t *position, const float *x, float *y);

/* Compares three sequences with the oracle's. */
bool carried_matches_oracle(device *dut, device *oracle, const carried *op, rng *r);
/* Runs one sequence whole, and in pieces next to others: bytes of y and of the state must be
   equal. */
bool carried_any_split_is_equal(device *dut, const carried *op, rng *r);

/* A step of one token in each of slots 0 and 1 is refused with this word in the error. */
bool carried_is_refused(device *dut, const char *word, const void *args,
                        void (*queue)(device *d, const void *args));

#endif
