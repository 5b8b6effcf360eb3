/*
 * Fuzzing of readers of bytes from outside: requests' heads, JSON bodies, forms, PNG pictures,
 * sounds, and the files of a model folder. A subject takes any bytes; an accepted input must be
 * consistent, otherwise it traps.
 *
 * Built by clang with libFuzzer (preset `fuzz`) it is a fuzzer, see tests/fuzz/run; in every other
 * build it is fed with the seeds of make_seeds.py, by CTest.
 */
#ifndef LINNET_TESTS_FUZZ_SUBJECT_H
#define LINNET_TESTS_FUZZ_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* The entry point whose name libFuzzer gives; 0 always. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

/* A path under which the bytes can be read, until the next call. */
const char *subject_file(const uint8_t *data, size_t n);

/* Checks that the error has a text of one line. */
void subject_check_text(lx_status got, const lx_error *err);

/* Checks that the error has a text of one line, and that its status blames the bytes. */
void subject_check_error(lx_status got, const lx_error *err);

#endif
