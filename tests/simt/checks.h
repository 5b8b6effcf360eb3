/* Shared by the programs that test the host part of the cuda back end: counts of failures, and the
   switches of the library that stands for CUDA's (fake/). */
#ifndef LINNET_TESTS_SIMT_CHECKS_H
#define LINNET_TESTS_SIMT_CHECKS_H

#include <stdbool.h>

#include "tests/simt/counts.h"

typedef struct simt {
    simt_fail_at_fn fail_at;
    simt_count_fn count;
    simt_listen_fn listen;
} simt;

/* A check that fails is printed. */
void check(bool good, const char *what, const char *text);
/* Opens the library named by the only argument; false when there is none, which is printed. */
bool simt_open(int argc, char **argv, simt *s);
/* Prints how many checks passed and failed; a program's exit status. */
int checks_end(void);

#endif
