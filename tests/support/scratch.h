/*
 * A folder of its own for tests that read files: made and removed as cmocka's group fixtures, one
 * at a time in a process. Every function fails the running test when something goes wrong.
 */
#ifndef LINNET_TESTS_SUPPORT_SCRATCH_H
#define LINNET_TESTS_SUPPORT_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

int scratch_setup(void **state);
int scratch_teardown(void **state);

/* The path of `name` in the folder; valid until the next call. */
const char *scratch_path(const char *name);
/* Writes a file there and returns its path. */
const char *scratch_write(const char *name, const void *bytes, size_t n);

/* `text` with its only occurrence of `from` replaced by `to`; the caller frees it. */
char *scratch_replace(const char *text, const char *from, const char *to);

void must(lx_status st, const lx_error *err);
/* The error must be `status`, one line, and contain `part`. */
void scratch_expect(lx_status got, const lx_error *err, lx_status status, const char *part);

/* splitmix64: the same numbers on every machine. */
uint64_t scratch_random(uint64_t *state);

#endif
