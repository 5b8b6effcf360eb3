/* The waits of a state that moves to or from the host: a part of cuda_failures. */
#ifndef LINNET_TESTS_SIMT_TEST_MOVES_H
#define LINNET_TESTS_SIMT_TEST_MOVES_H

#include "tests/simt/checks.h"

void test_moves(const simt *s);

#endif
