/*
 * A brake for the engine: wraps a back end so that a test decides when a step may begin and when a
 * state may move. It counts both, and can make one fail. One gate in a process, for all back ends
 * it opens.
 */
#ifndef LINNET_TESTS_SUPPORT_GATE_H
#define LINNET_TESTS_SUPPORT_GATE_H

#include "kernels/kernels.h"

/* Opens back end `name` with the gate open, no faults. NULL when that failed. */
lx_backend *gate_open_backend(const char *name, int32_t n_threads);

void gate_close(void);         /* no step begins from now on */
void gate_open(void);          /* steps begin as they come */
void gate_let_pass(int32_t n); /* with the gate closed: n more steps */
void gate_wait_for_step(void); /* returns when a step stands before the closed gate */
int64_t gate_steps(void);      /* begun since the back end was opened */
int64_t gate_most_ahead(void); /* the most that were started before one was waited for */

void gate_hold_moves(bool hold);     /* moving states stand still from now on, or continue */
int64_t gate_moves(void);            /* begun since the back end was opened */
void gate_wait_for_moves(int64_t n); /* until so many have begun */

void gate_slow_down(int64_t ns);     /* each step takes that much longer */
void gate_spoil_seed(uint64_t seed); /* samples of this seed get no token, as if logits were NaN */
void gate_lose_device(void);         /* steps fail with LX_ERR_DEVICE */
void gate_fail_step(void);           /* the next step fails with LX_ERR_INTERNAL */

#endif
